/* Sets of samples: where they are, what their labels are, and how one is read.
 *
 * A dataset lists samples in a fixed order (sorted by path, byte-wise; or as the file lists them).
 * A format is one row in formats.def and one file in formats/. */
#ifndef QB_DATASETS_DATASET_H
#define QB_DATASETS_DATASET_H

#include <stdio.h>

#include "base/hash.h"
#include "datasets/coco.h"
#include "datasets/tensors.h"
#include "kernels/tensor.h"

/* A decoded image: 8 bits a channel, interleaved, row-major, RGB (3) or grey (1). */
typedef struct qb_image {
    int32_t width, height, channels;
    uint8_t *pixel; /* height x width x channels; owned, freed with qb_image_release */
} qb_image;

/* Memory for an image; sizes outside 1..100 megapixels are refused before allocating. */
qb_status qb_image_create(qb_ctx *cx, const char *name, int64_t width, int64_t height, int channels,
                          qb_image *out);
void qb_image_release(qb_image *image); /* accepts zeroed */
/* Of one colour (but for JPEG's noise), or near-black: there is nothing to see. */
bool qb_image_is_blank(const qb_image *image);
/* Of size and pixels, however they were packed. */
qb_hash qb_image_hash(const qb_image *image);

/* Decodes JPEG or PNG from memory, told apart by their first bytes, to the pixels that Pillow
 * gives. Grey stays 1 channel, of any depth and with or without alpha; colour, palettes and
 * CMYK/YCCK (inverted where Adobe's marker says so) become RGB. 16 bits are rounded to 8, alpha is
 * composed on black. An EXIF orientation is not applied, nor is a colour profile. Images over 100
 * megapixels are refused before memory is taken. A truncated file is an error, not a half-grey
 * image, and so is whatever else libjpeg warns of as damage. `name` is for messages. Errors:
 * QB_STATUS_FORMAT (damaged), QB_STATUS_UNSUPPORTED (limits), QB_STATUS_NOMEM. */
qb_status qb_image_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                          qb_image *out);
/* Writes an 8-bit RGB or grey PNG into a stream; `name` is for messages. */
qb_status qb_image_encode_png(qb_ctx *cx, const char *name, const qb_image *image, FILE *stream);
/* The same into a file, atomically. */
qb_status qb_image_write_png(qb_ctx *cx, const char *path, const qb_image *image);

/* Class names by index; `synset` (folder names) may be NULL entries. */
typedef struct qb_labels {
    int32_t n;
    char **name;
    char **synset;
} qb_labels;

/* Reads a labels file: lines `index TAB name`, `synset TAB index TAB name`, or just `name`; the
 * first line tells which. Indices may come in any order and leave gaps, which get their number as
 * name; errors name the line. */
qb_status qb_labels_load(qb_ctx *cx, const char *path, qb_labels *out);
/* The same for a file that another one names (base/open.h); `path` is where that leads. What the
 * name itself says to be outside the folder ("..", an absolute path) must be of one of the first
 * two forms. */
struct qb_named;
qb_status qb_labels_load_named(qb_ctx *cx, const char *path, const struct qb_named *named,
                               qb_labels *out);
/* Copies n names given inline. */
qb_status qb_labels_from_names(qb_ctx *cx, const char *const *names, int n, qb_labels *out);
void qb_labels_release(qb_labels *labels);

typedef struct qb_dataset qb_dataset;

/* A set that serves for two purposes, in two parts that share no sample. */
typedef struct qb_split {
    int32_t percent; /* of the samples in the first part, drawn at random; 0: there are no parts */
    bool rest;       /* the second part, what was not drawn */
    int64_t seed;
} qb_split;

typedef struct qb_dataset_options {
    const qb_labels *labels; /* numbers class folders; NULL: alphabetical folders 0, 1, ... */
    int64_t max_samples;     /* 0: all. Taken evenly over the sorted list, so that classes stay
                                balanced: sample k is number floor(k * total / max). */
    qb_split split;          /* before that; each part keeps the order of the list */
    const char *images;      /* HDF5: the data set that holds the images; NULL: "images" */
    const char *folder;      /* COCO: of the images; NULL: images/ beside the file, else its own */
    const char *decoder; /* of image files, see datasets/decoder.h: "cpu" (also NULL), "nvjpeg" */
    int32_t device;      /* on which it decodes */
} qb_dataset_options;

/* Opens `path`: a folder of class folders, a flat folder (labels unknown), a list file (.txt:
 * `path [TAB or space label]`, relative to the file), an HDF5 file with `images` (N,H,W[,C] u8)
 * and optional `labels`, or tensors: an HDF5 file with a dataset [N, ...] for each input, .npy or
 * .npz files, folders of them, raw .bin files, ONNX test data, COCO's ground truth, or shards
 * ("train-{00..09}.tar"; see formats.def). The format is told by looking (each row's `probe`).
 * Images are files named .jpg, .jpeg, .jfif or .png in any case; hidden ones are left out, and
 * class folders hold them directly. With `labels` a class folder is looked up by synset, then by
 * name; one with images that is neither is an error, unless none of them is a class (a warning:
 * labels unknown). A folder with both images and folders of images is an error, and so is no
 * sample; whether the samples can be read is not tried. A decoder that is not there is an error,
 * one that has nothing to do (no image files) a warning. `options` may be NULL; the labels need not
 * outlive the call. */
qb_status qb_dataset_open(qb_ctx *cx, const char *path, const qb_dataset_options *options,
                          qb_dataset **out);
void qb_dataset_close(qb_dataset *dataset);
QB_RELEASE_AT(qb_dataset, qb_dataset_close)
/* Keeps every `of`th sample from number `part` on (0 <= part < of); none may be left. */
void qb_dataset_keep_part(qb_dataset *dataset, int64_t part, int64_t of);

/* The rows of formats.def for listings: name and one line of text; NULL past the last row. */
const char *qb_dataset_format_row(int row, const char **text);

const char *qb_dataset_format_name(const qb_dataset *dataset);
/* What decodes its samples: "cpu", also where there are no image files to be decoded. */
const char *qb_dataset_decoder(const qb_dataset *dataset);
int64_t qb_dataset_count(const qb_dataset *dataset);
bool qb_dataset_has_labels(const qb_dataset *dataset);
int32_t qb_dataset_classes(const qb_dataset *dataset); /* 0 when there are no labels */
/* -1 when unknown. */
int32_t qb_dataset_label(const qb_dataset *dataset, int64_t index);
/* A name for messages and reports: the path relative to the dataset, or "file.h5[12]".
 * Lives as long as the dataset. */
const char *qb_dataset_sample_name(const qb_dataset *dataset, int64_t index);
/* Reads and decodes one sample; *hash (may be NULL) is that of its stored bytes. Thread safe (HDF5
 * reads are serialized inside). */
qb_status qb_dataset_read(qb_ctx *cx, const qb_dataset *dataset, int64_t index, qb_image *out,
                          qb_hash *hash);
/* Are the samples tensors (to be read with the next function), or images? */
bool qb_dataset_has_tensors(const qb_dataset *dataset);
/* Is it an HDF5 file of images whose `targets` hold, image by image, what a model should make of
 * them? Opened with `images` "targets", the same file gives those. */
bool qb_dataset_has_targets(const qb_dataset *dataset);
/* Ground truth of boxes and masks; NULL where there is none. The sample's image in it. */
const qb_coco *qb_dataset_truth(const qb_dataset *dataset);
int32_t qb_dataset_truth_image(const qb_dataset *dataset, int64_t index);
/* The hash alone, without decoding where the bytes are stored as an image file. */
qb_status qb_dataset_hash(qb_ctx *cx, const qb_dataset *dataset, int64_t index, qb_hash *hash);
/* Does each image have a mask of classes? */
bool qb_dataset_has_masks(const qb_dataset *dataset);
/* The class of each pixel of the sample's image, 255 where it does not count; release *out. A mask
 * of another size than the image is not noticed here. Thread safe. */
qb_status qb_dataset_read_mask(qb_ctx *cx, const qb_dataset *dataset, int64_t index, qb_image *out);
/* The same for a sample of tensors, as they are stored; release *out. */
qb_status qb_dataset_read_tensors(qb_ctx *cx, const qb_dataset *dataset, int64_t index,
                                  qb_tensors *out);
#endif

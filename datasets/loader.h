/* From samples to network inputs: preprocessing or binding of tensors, batching, and threads that
 * run ahead. */
#ifndef QB_DATASETS_LOADER_H
#define QB_DATASETS_LOADER_H

#include "datasets/dataset.h"

typedef enum qb_resize_mode {
    QB_RESIZE_NONE,
    QB_RESIZE_STRETCH,
    QB_RESIZE_SHORT_SIDE,
    QB_RESIZE_LETTERBOX,
    QB_RESIZE_LONGER_SIDE
} qb_resize_mode;
/* Pillow's (antialiased but for nearest), then OpenCV's, each within 1 of 255. */
typedef enum qb_filter {
    QB_FILTER_BILINEAR,
    QB_FILTER_BICUBIC,
    QB_FILTER_LANCZOS,
    QB_FILTER_BOX,
    QB_FILTER_NEAREST,
    QB_FILTER_LINEAR, /* INTER_LINEAR: no antialiasing */
    QB_FILTER_CUBIC,  /* INTER_CUBIC */
    QB_FILTER_AREA    /* INTER_AREA */
} qb_filter;
typedef enum qb_anchor { QB_ANCHOR_CENTER, QB_ANCHOR_TOPLEFT } qb_anchor;
/* GRAY: ITU-R BT.601 luma as Pillow's convert("L"); LUMA: Y of YCbCr, the same weights. */
typedef enum qb_color { QB_COLOR_RGB, QB_COLOR_BGR, QB_COLOR_GRAY, QB_COLOR_LUMA } qb_color;

/* The words that sidecars and qbench.yaml use, in the order of the enumerations, NULL at the end.
 */
extern const char *const qb_resize_mode_words[],
    *const qb_filter_words[], *const qb_color_words[], *const qb_anchor_words[],
                                                           *const qb_layout_words[];
/* The word's number; -1 for another one. */
int32_t qb_word_find(const char *const *words, const char *text);
/* "expected a, b or c, got 'x' (did you mean 'b'?)" into text[n]; returns text. */
char *qb_word_error(const char *const *words, const char *got, char *text, size_t n);
const char *qb_resize_mode_text(qb_resize_mode mode);
const char *qb_filter_text(qb_filter filter);
const char *qb_color_text(qb_color color);

/* How an image becomes an input tensor: the transforms of transforms.def in their order, which are
 * resize, centre crop, colour, (pixel - mean) / std. */
typedef struct qb_preprocess {
    qb_resize_mode resize;
    /* SHORT_SIDE and LONGER_SIDE use resize_width only. The long side becomes floor(long *
     * resize_width / short), the short one floor(short * resize_width / long + 0.5). LETTERBOX:
     * both sides times r = min(resize_width / width, resize_height / height), floor(side * r +
     * 0.5), on a canvas of the given size. */
    int32_t resize_width, resize_height;
    qb_anchor anchor; /* LETTERBOX: where on the canvas; offsets rounded down */
    uint8_t pad;      /* LETTERBOX: value of the other pixels, in every channel */
    int32_t stride;   /* LETTERBOX: above 0, the canvas is the resized image's size rounded up to
                         multiples of this */
    bool no_enlarge;  /* LETTERBOX, LONGER_SIDE: small images keep their size */
    qb_filter filter;
    int32_t crop_width, crop_height; /* 0: no crop. Offset floor((side - crop) / 2) */
    qb_color color;
    float mean[4], std[4]; /* by output channel, pixels in 0..255 */
    bool channels_last;    /* the input is N x H x W x C */
    bool single;           /* the input is one image, C x H x W or H x W x C */
} qb_preprocess;

/* An input's dimensions where it takes images; below 0: open. */
typedef struct qb_image_input {
    int64_t items, channels, height, width;
} qb_image_input;

/* Where an image's pixels lie in the input: input = image * scale + offset for x [0] and y [1], in
 * pixels from the top left corner. */
typedef struct qb_pixel_map {
    double scale[2], offset[2];
} qb_pixel_map;

/* Nothing resized, RGB, mean 0, std 1; letterboxes in the centre on 114. */
void qb_preprocess_default(qb_preprocess *p);
/* What can be guessed from a model's input alone: stretch (bilinear) to height x width, GRAY for
 * one channel, else RGB. Sizes below 1 (not fixed) mean no resize. */
void qb_preprocess_for_shape(qb_preprocess *p, int64_t channels, int64_t height, int64_t width);
/* Sizes positive, numbers finite, no division by zero. */
qb_status qb_preprocess_validate(qb_ctx *cx, const qb_preprocess *p);
/* Output channels: 3 or 1. */
int32_t qb_preprocess_channels(const qb_preprocess *p);
/* Reads N x C x H x W, or C x H x W of one image with 3 channels, which torchvision's detectors
 * take; channels last where told. False: it takes no images. */
bool qb_image_input_of(const qb_shape *shape, bool channels_last, qb_image_input *out);
/* The shape of one image: 1 x C x H x W, or 1 x H x W x C; without the 1 where it is single. */
qb_shape qb_preprocess_shape(const qb_preprocess *p, int64_t height, int64_t width);
/* Size after all transforms, from the size before; fails when one cannot be applied. */
qb_status qb_preprocess_size(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height);
/* The map of an image of this size, which must be one that can be preprocessed. */
qb_status qb_preprocess_map(qb_ctx *cx, const qb_preprocess *p, int32_t width, int32_t height,
                            qb_pixel_map *out);

/* Resizes as Pillow 13 does (to the bit) or OpenCV 4 (within 1 of 255), see qb_filter. `out` gets
 * new memory. Images of 1 or 3 channels. */
qb_status qb_image_resize(qb_ctx *cx, const qb_image *in, int32_t width, int32_t height,
                          qb_filter filter, qb_image *out);
/* The whole chain for one image into out (row-major, f32, see qb_preprocess_shape). The result
 * must have exactly the given size, else an error (QB_STATUS_INVALID) that says both. */
qb_status qb_preprocess_image(qb_ctx *cx, const qb_preprocess *p, const qb_image *image,
                              int32_t height, int32_t width, float *out);

/* The type in which images reach an input of this one: f32 (also for NONE), f16, bf16, u8 or s8;
 * NONE when images cannot feed it. */
qb_dtype qb_image_type(qb_dtype input);

typedef struct qb_loader qb_loader;

/* How far a loader is: everything before sample `next` is delivered or skipped. */
typedef struct qb_loader_progress {
    int64_t next, samples, skipped;
    int64_t blank; /* images among the samples that show nothing (qb_image_is_blank) */
    qb_hash sum;   /* of the delivered samples' hashes, modulo 2^128 */
} qb_loader_progress;

typedef struct qb_loader_options {
    const qb_dataset *dataset; /* not owned */
    /* Images: how they become the one input. */
    qb_preprocess preprocess;
    int32_t height, width; /* of the model's input */
    bool any_size;         /* height and width may be 0: open, each image keeps its own there */
    qb_dtype dtype;        /* of the model's input, see qb_image_type; f32 is rounded to it */
    /* Tensors: the model's inputs. Names are not owned. */
    int32_t n_inputs;
    qb_input_spec input[QB_INPUTS_MAX];
    int32_t batch;            /* samples a batch, >= 1 */
    int32_t threads;          /* decode threads, >= 1 */
    int32_t prefetch;         /* batches decoded ahead, >= 1: memory is bounded by them */
    bool strict;              /* a corrupt sample is an error; otherwise named, counted, skipped */
    qb_loader_progress start; /* goes on from here; zeroed: at the beginning */
    uint64_t *seen; /* [samples of the dataset] gets what was delivered, by number: the first 64
                       bits of each one's hash, nothing where it was skipped. NULL: not asked */
} qb_loader_options;

/* One batch: `n` samples (fewer at the end), filled without gaps in dataset order. The memory
 * belongs to the loader and may be used until the batch is given back or the loader freed. */
typedef struct qb_batch {
    int32_t n;
    int32_t n_inputs;
    const qb_tensor *input; /* n x n_inputs, row-major; sample i's begin at i * n_inputs */
    float *data;            /* f32 images of one size: batch x channels x height x width; rows past
                               n are zero. NULL otherwise */
    const uint64_t *key;    /* of each sample's content: an image's pixels, the stored bytes where
                               a device decodes, tensors */
    const int64_t *index;   /* n sample numbers in the dataset */
    const int32_t *label;   /* n labels, -1 unknown */
    void *slot;             /* the loader's own */
} qb_batch;

qb_status qb_loader_create(qb_ctx *cx, const qb_loader_options *options, qb_loader **out);
/* The next batch in dataset order, whatever the thread count; n == 0 at the end. May be called from
 * several threads (each with its own context); whoever holds `prefetch` + 1 batches and asks for
 * another waits for ever. Skipped samples never leave holes: every batch but the last is full.
 * Errors come where the sample would have: the full batches before it are delivered. No usable
 * sample at all is an error at the end. An image that does not have the input's size after
 * preprocessing is an error, not a skipped sample: the configuration is wrong; so is a tensor
 * that does not fit its input. Notices
 * qb_ctx.cancel within 50 ms. */
qb_status qb_loader_next(qb_ctx *cx, qb_loader *loader, qb_batch *out);
void qb_loader_give_back(qb_loader *loader, qb_batch *batch); /* accepts zeroed */
/* Samples skipped so far because they could not be read; each was named in a warning, in order. */
int64_t qb_loader_skipped(const qb_loader *loader);
/* Content hash of the samples delivered so far: their number and the sum, modulo 2^128, of the
 * hashes of their stored bytes (HDF5: of their pixels; tensors: of what the model gets). Names,
 * labels, order, batch size and thread count are of no consequence; a sample that is there twice
 * counts twice. Zero before the first. */
qb_hash qb_loader_hash(const qb_loader *loader);
/* Where a loader with this as `start` would go on, at the batches delivered so far. */
void qb_loader_progress_of(const qb_loader *loader, qb_loader_progress *out);
/* The hash that belongs to a progress (see qb_loader_hash). */
qb_hash qb_loader_progress_hash(const qb_loader_progress *progress);
/* The hash of one sample, as a loader with these options would tell it; images are not decoded. */
qb_status qb_loader_sample_hash(qb_ctx *cx, const qb_loader_options *options, int64_t index,
                                qb_hash *out);
/* Are the first n samples still those that `seen` tells? They are read again, images without being
 * decoded. QB_STATUS_MISMATCH names the first one that is not. */
qb_status qb_loader_check_seen(qb_ctx *cx, const qb_loader_options *options, const uint64_t *seen,
                               int64_t n);
/* How samples become inputs, as text that is the same for the same preparation: "tensors", or
 * "RGB, resize short_side 256 bilinear, crop 224x224, mean 0 0 0, std 1 1 1, input 224x224", with
 * ", decoder nvjpeg" behind it where the processor does not decode the images. */
char *qb_loader_text(const qb_loader_options *options, char *text, size_t n);
/* The part of it that the settings alone say: without input and decoder. */
char *qb_preprocess_text(const qb_preprocess *p, char *text, size_t n);
/* What differs between two such texts, "color RGB, now BGR; crop 224x224, now none", into text[n];
 * returns whether anything does. What one of them does not say, tensors, decoders, and how images
 * were brought to the input's size where one side took them as they were, are no difference. */
bool qb_preprocess_differs(const char *before, const char *now, char *text, size_t n);
/* Stops the threads, also in the middle. No other thread may still use the loader. */
void qb_loader_free(qb_loader *loader); /* accepts NULL */
QB_RELEASE_AT(qb_loader, qb_loader_free)
#endif

/* Shared by the files of datasets/ only. */
#ifndef QB_DATASETS_INTERNAL_H
#define QB_DATASETS_INTERNAL_H

#include "base/arena.h"
#include "base/vector_loop.h"
#include "datasets/dataset.h"
#include "datasets/decoder.h"
#include "datasets/loader.h"
#include "datasets/tensors.h"

#define QB_IMAGE_PIXELS_MAX ((int64_t)100000000)
#define QB_SAMPLES_MAX ((size_t)1 << 24)
#define QB_CLASSES_MAX (1 << 20)
#define QB_TEXT_FILE_MAX ((size_t)64 << 20)

/* ---- images ---- */

/* The size that the header of a JPEG or PNG tells; false: none, or beyond what can be decoded. */
bool qb_image_size(const uint8_t *data, size_t size, int32_t *width, int32_t *height);
/* Only the size check. */
qb_status qb_image_check_size(qb_ctx *cx, const char *name, int64_t width, int64_t height);
qb_status qb_jpeg_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                         qb_image *out);
/* `indices`: the values of a PNG of one channel as they are stored, palette indices among them;
 * errors as qb_image_decode, and QB_STATUS_UNSUPPORTED for colours, alpha and 16 bits. */
qb_status qb_png_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                        bool indices, qb_image *out);

/* ---- tensors ---- */

/* May one like this be added? Fails before any memory is taken for it. */
qb_status qb_tensors_check(qb_ctx *cx, const qb_tensors *tensors, const qb_desc *desc);
/* Appends a tensor whose memory (qb_alloc_aligned) is taken over, from->data becoming NULL. */
qb_status qb_tensors_take(qb_ctx *cx, qb_tensors *tensors, const char *name, qb_tensor *from);
/* Appends a copy of a row-major tensor (data NULL: zeros); `name` may be NULL. */
qb_status qb_tensors_add(qb_ctx *cx, qb_tensors *tensors, const char *name, const qb_tensor *from);
/* The same for bytes whose type and shape are not known. */
qb_status qb_tensors_add_raw(qb_ctx *cx, qb_tensors *tensors, const char *name,
                             const uint8_t *bytes, size_t size);
bool qb_name_is_label(const char *name); /* "label" or "labels" */

/* ---- data set formats ---- */

typedef struct qb_sample {
    const char *name;  /* relative to `root`; in the arena */
    int64_t position;  /* the format's own: record number in an HDF5 file */
    int32_t label;     /* -1: unknown */
    const char *shown; /* the name, clean (base/text.h) */
} qb_sample;

struct qb_dataset_format;

struct qb_dataset {
    const struct qb_dataset_format *format;
    const char *path; /* as given */
    const char *root; /* folder that the names are relative to */
    qb_arena *arena;  /* names and paths */
    qb_sample *sample;
    size_t n, capacity;
    bool has_labels;
    bool has_tensors;    /* samples come from `read_tensors` */
    bool has_targets;    /* see qb_dataset_has_targets */
    const char *images;  /* as in the options; never NULL */
    const char *folder;  /* of images, as in the options, while it is opened; may be NULL */
    qb_coco *truth;      /* NULL: none */
    qb_decoder *decoder; /* of image files; NULL: the processor */
    int32_t n_classes;
    void *state; /* the format's own, released by its `close` */
};

typedef struct qb_dataset_format {
    const char *name, *text;
    /* Does `path` (which exists) look like this format? Rows are asked in order. */
    bool (*probe)(const char *path);
    /* Lists the samples with qb_dataset_add; `labels` may be NULL. Sets has_labels, n_classes. */
    qb_status (*open)(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels);
    /* As qb_dataset_read; `hash` is never NULL. NULL in formats without images. */
    qb_status (*read)(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample, qb_image *out,
                      qb_hash *hash);
    /* As qb_dataset_read_tensors, into an empty *out, which may hold some after a failure. NULL in
     * formats without tensors. */
    qb_status (*read_tensors)(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                              qb_tensors *out);
    /* As qb_dataset_read_mask. NULL in formats without masks. */
    qb_status (*read_mask)(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                           qb_image *out);
    void (*close)(qb_dataset *dataset); /* may be NULL; also called after a failed open */
} qb_dataset_format;

/* Appends a sample; `name` must live in the dataset's arena. */
qb_status qb_dataset_add(qb_ctx *cx, qb_dataset *dataset, const char *name, int64_t position,
                         int32_t label);
/* Adds samples FILE[0] to FILE[n - 1] of a file of rows with their labels (NULL: none), which are
 * checked; sets has_labels and n_classes. */
qb_status qb_dataset_add_rows(qb_ctx *cx, qb_dataset *dataset, int64_t n, const int64_t *label,
                              const qb_labels *labels);
/* Names of samples are relative to the folder of the data set's file. */
qb_status qb_dataset_root_beside(qb_ctx *cx, qb_dataset *dataset);
/* Sorts the samples by name, byte-wise. */
void qb_dataset_sort(qb_dataset *dataset);
/* Fails unless 0 <= label < number of classes (of `labels`, else QB_CLASSES_MAX). `where` names the
 * place, e.g. "list.txt:12". */
qb_status qb_label_check(qb_ctx *cx, const char *where, int64_t label, const qb_labels *labels);
/* The class that a text names: a number, or a class of `labels` (may be NULL). Errors say `where`.
 */
qb_status qb_label_parse(qb_ctx *cx, const char *where, const char *text, const qb_labels *labels,
                         int32_t *out);
/* Index of the class with this synset, else with this name; -1 when there is none. */
int32_t qb_labels_find(const qb_labels *labels, const char *text);
/* The `read` of all formats whose samples are image files below `root`. */
qb_status qb_dataset_read_file(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                               qb_image *out, qb_hash *hash);

/* The same where they are tensor files. */
qb_status qb_dataset_read_tensor_file(qb_ctx *cx, const qb_dataset *dataset,
                                      const qb_sample *sample, qb_tensors *out);

typedef enum qb_scan_kind {
    QB_SCAN_FOLDERS,
    QB_SCAN_FILES,
    QB_SCAN_IMAGES,
    QB_SCAN_TENSORS,
    QB_SCAN_TEXTS
} qb_scan_kind;
typedef struct qb_names {
    const char **name;
    size_t n, capacity;
    size_t n_other;    /* of all scans: images of other formats, which nobody reads */
    const char *other; /* the first of them, in the arena */
    size_t n_inner;    /* likewise folders beside images or tensors: "heart/more" */
    const char *inner;
} qb_names;
static inline void qb_names_release(const qb_names *names) { qb_free(names->name); }
/* The visible subfolders, or files, or those that are named as images, tensors or texts (.txt), of
 * a folder; sorted byte-wise, names in the arena. The caller releases the list. */
qb_status qb_scan_folder(qb_ctx *cx, const char *folder, qb_scan_kind kind, qb_arena *arena,
                         qb_names *names);
/* Warns of images of other formats that scans met: they are no samples. */
void qb_scan_tell_others(qb_ctx *cx, const qb_dataset *dataset, const qb_names *names);
/* Adds a sample for each of them in the data set's folder, labels unknown. */
qb_status qb_dataset_add_folder(qb_ctx *cx, qb_dataset *dataset, qb_scan_kind kind);
/* Does the folder hold at least one? False also when it cannot be read. */
bool qb_scan_any(const char *folder, qb_scan_kind kind);
/* Does one of its subfolders hold one? */
bool qb_scan_any_nested(const char *folder, qb_scan_kind kind);
bool qb_name_is_image(const char *name);

/* ---- preprocessing ---- */

/* An image on its way through the transforms: a view that a crop narrows without copying. */
typedef struct qb_frame {
    const uint8_t *pixel; /* first pixel of the first row */
    size_t stride;        /* bytes from row to row */
    int32_t width, height, channels;
    qb_image own; /* memory behind `pixel` when a transform made it */
    float *out;   /* where the last transform writes, see qb_preprocess_shape */
} qb_frame;

typedef struct qb_transform {
    const char *name, *text;
    /* Width and height after it; fails when the transform cannot be applied to such an image. NULL:
     * they stay. */
    qb_status (*size)(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height);
    /* Adds to the map what the transform does to places in an image of this size. NULL: nothing. */
    void (*map)(const qb_preprocess *p, int32_t width, int32_t height, qb_pixel_map *map);
    qb_status (*apply)(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame);
} qb_transform;

#define X(name) extern const qb_transform qb_transform_##name;
#include "datasets/transforms.def"

/* Makes `image` the frame's content and takes its memory over. */
void qb_frame_replace(qb_frame *frame, qb_image *image);
/* Fails unless the image is height x width after all transforms; 0 is any. */
qb_status qb_preprocess_check(qb_ctx *cx, const qb_preprocess *p, const qb_image *image,
                              int32_t height, int32_t width);

typedef struct qb_region {
    int32_t x, y, width, height;
} qb_region;

/* qb_image_resize of a view, of which only a window of the result is computed. */
qb_status qb_resize_region(qb_ctx *cx, const qb_frame *in, int32_t width, int32_t height,
                           const qb_region *window, qb_filter filter, qb_image *out);
/* Where the crop of `p` lies in an image of this size (the whole image when there is none). The
 * crop must fit. */
qb_region qb_crop_region(const qb_preprocess *p, int32_t width, int32_t height);

#endif

/* The JSON file beside a model that says how its input is made and what its outputs are called:
 *
 *   {"input": "data", "shape": ["N", 3, 227, 227], "output": "prob",
 *    "resize": {"mode": "short_side", "size": 256, "filter": "lanczos"},
 *    "crop": {"mode": "center", "size": 227}, "color": "BGR",
 *    "mean": [104, 117, 123], "std": 1, "labels": "labels.txt"}
 *
 * resize: null, or mode stretch (size N or [width, height]), short_side or longer_side (size N), or
 * letterbox (size as for stretch, anchor center or topleft, pad: the value of the pixels around,
 * stride: pad to multiples of it instead, enlarge: false leaves small images alone); filter
 * bilinear (if absent), bicubic, lanczos, box or nearest as Pillow's, linear, cubic or area as
 * OpenCV's. layout: NCHW (if absent) or NHWC, the order of `shape` as well. crop: null, or mode
 * center with size N or [width, height]. color: begins with RGB, BGR, GRAY or Y. mean and std: a
 * number or one a channel, for pixels in 0..255. labels: a list of names, or a labels file relative
 * to the sidecar. input, output, shape and dtype ("float32") are held against the model; a shape's
 * first size may be another. Every key may be missing; other keys are ignored. */
#ifndef QB_DATASETS_SIDECAR_H
#define QB_DATASETS_SIDECAR_H

#include "datasets/loader.h"

typedef struct qb_sidecar {
    char *path;
    char *input, *output; /* NULL when absent */
    qb_shape shape;       /* of the input, -1 for a symbol; rank -1 when absent */
    bool has_preprocess;  /* one of resize, crop, color, mean, std is there: an image model */
    /* Without a resize key an image is stretched to the shape; without color, one channel in the
     * shape means GRAY. The default when has_preprocess is false. */
    qb_preprocess preprocess;
    qb_labels labels;    /* n == 0 when absent, or when the labels file does not exist */
    char *labels_path;   /* NULL when the names are inline or absent */
    char *task;          /* "detection"; NULL when absent */
    char *dtype;         /* of the input, "float32"; NULL when absent */
    struct json_t *root; /* all of it, for what the tasks read */
} qb_sidecar;

/* Errors name file and key. A labels file that does not exist is only a warning: sidecars get
 * copied without it. */
qb_status qb_sidecar_load(qb_ctx *cx, const char *path, qb_sidecar *out);
/* Writes such a file, atomically: shape, preprocess, and labels with n > 0. What is loaded from it
 * prepares images the same way. Names of labels that are no UTF-8 are QB_STATUS_INVALID. */
qb_status qb_sidecar_write(qb_ctx *cx, const qb_shape *shape, const qb_preprocess *preprocess,
                           const qb_labels *labels, const char *path);
void qb_sidecar_release(qb_sidecar *sidecar); /* accepts zeroed */
/* New string: the path of the model's sidecar (its name with .json in place of the extension), NULL
 * in *out when there is none. */
qb_status qb_sidecar_find(qb_ctx *cx, const char *model_path, char **out);
#endif

/* From a detector's outputs to boxes: decoders, one row in decoders.def and one file in decoders/
 * each, and non-maximum suppression. */
#ifndef QB_EVAL_DETECTION_H
#define QB_EVAL_DETECTION_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In pixels of the input while it is decoded, of the image afterwards. */
typedef struct qb_detection {
    double box[4]; /* x, y, width, height */
    double score;
    int32_t label; /* the model's class */
} qb_detection;

typedef struct qb_detections {
    qb_detection *item;
    size_t n, capacity;
} qb_detections;

qb_status qb_detections_add(qb_ctx *cx, qb_detections *list, const qb_detection *detection);
void qb_detections_release(qb_detections *list); /* accepts zeroed */

/* Greedy suppression: by falling score, of equal ones in their order, a box stays unless its IoU
 * with one that stayed is above `iou` (of the same label, or of any with `across`). At most `most`
 * stay (0: all), best first. */
qb_status qb_nms(qb_ctx *cx, double iou, bool across, size_t most, qb_detections *list);

#define QB_STRIDES_MAX 8
#define QB_ANCHORS_MAX 64 /* numbers: width and height of each */

struct qb_box_decoder;

/* What a sidecar's `detection`, or `detection:` in qbench.yaml, says. */
typedef struct qb_detect_settings {
    const struct qb_box_decoder *decoder; /* NULL: told by the outputs' shapes */
    double score_threshold;               /* boxes above it count; 0.001 */
    double nms_iou;                       /* 0.45; decoders that need none ignore it */
    double report_threshold;              /* the score above which a user sees a box; 0.25 */
    bool across_classes;                  /* one suppression for all classes */
    bool multi_label;                     /* a box for each class above the threshold */
    bool normalized;                      /* decoded: boxes are shares of the input */
    int32_t box;                          /* decoded: index into qb_box_words */
    int64_t top_k;                        /* boxes that an image keeps; 0: all */
    int32_t n_strides, n_anchors, n_category_ids;
    double stride[QB_STRIDES_MAX];
    double anchor[QB_ANCHORS_MAX]; /* width, height; for each stride the same number of them */
    int64_t *category_id;          /* of each class; owned; NULL: by name, else by rank */
} qb_detect_settings;
/* xyxy, xywh, cxcywh, yxyx, NULL */
extern const char *const qb_box_words[];

void qb_detect_settings_default(qb_detect_settings *settings);
void qb_detect_settings_release(qb_detect_settings *settings);

/* A model's outputs for one image; negative sizes in shapes are open. */
typedef struct qb_decode {
    const qb_detect_settings *settings;
    const qb_tensor *output; /* row-major f32 */
    const char *const *name;
    int32_t n;
    int32_t width, height; /* of the input */
    qb_detections *out;
} qb_decode;

typedef struct qb_box_decoder {
    const char *name, *text;
    bool keeps_all; /* needs no suppression */
    /* Classes when outputs of these shapes and names can be decoded (open sizes fit), else 0. */
    int32_t (*classes)(const qb_decode *in);
    /* Adds boxes to in->out, see qb_decode_box. */
    qb_status (*decode)(qb_ctx *cx, const qb_decode *in);
} qb_box_decoder;

const qb_box_decoder *const *qb_box_decoders(int32_t *n);
/* An error lists the known ones and the nearest. */
qb_status qb_box_decoder_find(qb_ctx *cx, const char *name, const qb_box_decoder **out);
/* The first one whose `classes` fit; NULL. */
const qb_box_decoder *qb_box_decoder_guess(const qb_decode *in);
/* Decodes by settings->decoder, which must be set, and suppresses. Errors name the output. */
qb_status qb_decode_boxes(qb_ctx *cx, const qb_decode *in);

/* ---- for decoders ---- */

/* Adds a box by its centre; one whose score is not above the threshold, or that is not finite, is
 * left out. */
qb_status qb_decode_box(qb_ctx *cx, const qb_decode *in, const double center_size[4], double score,
                        int32_t label);
/* The same for the best of n scores at score[0], score[step], ..., or for each above the threshold
 * with settings->multi_label; every score times `factor`. */
qb_status qb_decode_best(qb_ctx *cx, const qb_decode *in, const double center_size[4],
                         const float *score, int64_t step, int32_t n, double factor);
/* Has it `rank` dimensions, the first one open or 1? */
bool qb_is_batch_of(const qb_tensor *tensor, int32_t rank);
/* The output of a name; NULL. */
const qb_tensor *qb_decode_named(const qb_decode *in, const char *name);

#ifdef __cplusplus
}
#endif
#endif

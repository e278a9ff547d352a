/* From a detector's outputs to boxes: decoders, one row in decoders.def and one file in decoders/
 * each, and non-maximum suppression. */
#ifndef QB_EVAL_DETECTION_H
#define QB_EVAL_DETECTION_H

#include "datasets/loader.h"
#include "kernels/tensor.h"

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
#define QB_RATIOS_MAX 8

#define QB_CLASSES_NOT_TOLD (1 << 20)

struct qb_box_decoder;

/* What a sidecar's `detection`, or `detection:` in qbench.yaml, says. */
typedef struct qb_detect_settings {
    const struct qb_box_decoder *decoder; /* NULL: told by the outputs' shapes */
    double score_threshold;               /* boxes above it count; 0.001 */
    double nms_iou;                       /* 0.45; decoders that need none ignore it */
    double report_threshold;              /* the score above which a user sees a box; 0.25 */
    bool across_classes;                  /* one suppression for all classes */
    bool multi_label;                     /* a box for each class above the threshold */
    int32_t normalized;  /* boxes are shares of the input: 1; pixels: 0; told by the values: -1 */
    int32_t box;         /* index into qb_box_words; -1: the decoder's own */
    int32_t sigmoid;     /* scores go through one: 1; not: 0; where they leave 0 to 1: -1 */
    int32_t exponential; /* yolo_anchors: sizes are anchors times exp (YOLOv2 to v4): 1; not: 0;
                          * with two heads: -1 */
    int32_t background;  /* the first class is none: 1; it is not: 0; by the number of names: -1 */
    double cell_offset;  /* of a cell's centre, in strides; NaN: the decoder's own */
    double variance[2];  /* of an anchor's centre and size; 0.1, 0.2 where a decoder has some */
    int32_t n_min_sizes, n_max_sizes, n_ratios; /* ssd: of the priors, in pixels */
    double min_size[QB_ANCHORS_MAX], max_size[QB_STRIDES_MAX], ratio[QB_RATIOS_MAX];
    int64_t top_k; /* boxes that an image keeps; 0: all */
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
    const bool *whole; /* outputs declared to hold integers; NULL: not known */
    int32_t n;
    int32_t width, height; /* of the input */
    int32_t n_labels;      /* classes that names or category ids tell of; 0: not known */
    int64_t top_id;        /* the highest id of the data's categories; 0: not known */
    qb_detections *out;
} qb_decode;

/* ImageNet's mean and deviation, for qb_box_decoder.images. */
#define QB_IMAGENET_RGB                                                                            \
    .color = QB_COLOR_RGB, .mean = {123.675F, 116.28F, 103.53F}, .std = {58.395F, 57.12F, 57.375F}
#define QB_IMAGENET_BGR                                                                            \
    .color = QB_COLOR_BGR, .mean = {103.53F, 116.28F, 123.675F}, .std = {57.375F, 57.12F, 58.395F}

typedef struct qb_box_decoder {
    const char *name, *text;
    const char *words; /* others for it, between spaces, in small letters; may be NULL */
    bool keeps_all;    /* needs no suppression */
    /* How the images of such models are usually prepared, but for size, filter and layout; NULL: a
     * letterbox in the centre on 114, RGB in 0..1. */
    const qb_preprocess *images;
    /* Classes when outputs of these shapes and names can be decoded (open sizes fit), else 0;
     * QB_CLASSES_NOT_TOLD where only values name classes. */
    int32_t (*classes)(const qb_decode *in);
    /* Could outputs that fit be something else's? NULL: hardly. */
    bool (*is_vague)(const qb_decode *in);
    /* Adds boxes to in->out, see qb_decode_box. */
    qb_status (*decode)(qb_ctx *cx, const qb_decode *in);
} qb_box_decoder;

extern const qb_box_decoder *const qb_box_decoders[]; /* ends with NULL */
/* By the longest name or word that the text holds, in any case ("YOLOv8n-seg"). An error lists the
 * known ones and the nearest. */
qb_status qb_box_decoder_find(qb_ctx *cx, const char *name, const qb_box_decoder **out);
/* The first one whose `classes` fit; NULL. Outputs without data are told by their shapes, with data
 * by their values, too. */
const qb_box_decoder *qb_box_decoder_guess(const qb_decode *in);
/* Decodes by settings->decoder, which must be set, and suppresses. Errors name the output. */
qb_status qb_decode_boxes(qb_ctx *cx, const qb_decode *in);

/* ---- for decoders ---- */

/* Adds a box by its centre; one whose score is not above the threshold, or that is not finite, is
 * left out. */
qb_status qb_decode_box(qb_ctx *cx, const qb_decode *in, const double center_size[4], double score,
                        int32_t label);
/* A box's scores: n at at[0], at[step], ...; each through a sigmoid if they are logits, times
 * `factor`. */
typedef struct qb_box_scores {
    const float *at;
    int64_t step;
    int32_t n;
    bool logits;
    double factor;
} qb_box_scores;
/* qb_decode_box for the best of the scores, or for each above the threshold with
 * settings->multi_label. */
qb_status qb_decode_best(qb_ctx *cx, const qb_decode *in, const double center_size[4],
                         const qb_box_scores *scores);
/* Is this the decoder that the settings name? */
bool qb_decoder_is_told(const qb_decode *in, int32_t (*classes)(const qb_decode *in));

/* The form of a decoder's boxes: corners or centre, pixels or shares. */
typedef struct qb_box_form {
    int32_t form;    /* index into qb_box_words */
    double scale[2]; /* to pixels of the input */
} qb_box_form;
/* As the settings say; else by the n boxes (4 values `step` apart, a box every `each`): `usual`
 * unless their values speak for corners or centres, and shares where none is above 2. */
qb_box_form qb_box_form_of(const qb_decode *in, int32_t usual, const float *box, int64_t n,
                           int64_t each, int64_t step);
/* A box to centre and size in pixels. */
void qb_box_convert(const qb_box_form *form, const float *box, int64_t step, double out[4]);

/* Decodes 1 x N x (5 + classes): a box (centre and size unless told), an objectness that multiplies
 * the scores, a score a class. */
qb_status qb_decode_objectness_rows(qb_ctx *cx, const qb_decode *in);

/* The cells of several strides, row by row, the finest first. */
typedef struct qb_grid {
    int32_t n;
    double stride[QB_STRIDES_MAX], offset;
    int64_t width[QB_STRIDES_MAX], height[QB_STRIDES_MAX];
} qb_grid;
typedef struct qb_cell {
    double x, y, stride; /* column and row, plus the offset, in strides */
    int32_t level;
} qb_cell;
/* The told strides, else usual ones, whose cells for this input are so many; false: none. */
bool qb_grid_find(const qb_decode *in, int64_t cells, double offset, qb_grid *out);
qb_cell qb_grid_cell(const qb_grid *grid, int64_t i);
/* Do the scores of `rows` boxes, `next` apart, n each, `step` apart, need a sigmoid? As the
 * settings say, else whether one is outside 0..1. */
bool qb_needs_sigmoid(const qb_decode *in, const float *score, int64_t rows, int64_t next,
                      int64_t n, int64_t step);
double qb_sigmoid(double x);
/* Bins of distances (distribution focal loss): four sides of n values each, `step` apart, as
 * expectations of a softmax; of one value: the value. */
void qb_expect_sides(const float *bins, int64_t n, int64_t step, double side[4]);
/* A box of an anchor and its deltas, both centre and size. */
void qb_apply_deltas(const double anchor[4], const float *delta, const double variance[2],
                     double out[4]);
/* Has it `rank` dimensions, the first one open or 1? */
bool qb_is_batch_of(const qb_tensor *tensor, int32_t rank);
/* An output of values a cell: 1 x C x H x W, or 1 x H x W x C. */
typedef struct qb_cell_map {
    const float *data;
    int64_t height, width, channels;
    int64_t next, step; /* from cell to cell, from channel to channel */
} qb_cell_map;
/* False: it has not four dimensions. Its channels are what the input's aspect does not explain. */
bool qb_cell_map_of(const qb_decode *in, const qb_tensor *tensor, qb_cell_map *out);
/* Of the first two outputs: which has boxes? The second, unless it alone is called otherwise where
 * both may (four classes). */
int qb_boxes_at(const qb_decode *in);
/* The output of a name; NULL. */
const qb_tensor *qb_decode_named(const qb_decode *in, const char *name);
#endif

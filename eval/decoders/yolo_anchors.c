/* yolo_anchors: the raw heads of YOLOv5 and v7, with `exponential` of YOLOv2 to v4 (of two heads
 * unless told),
 * https://github.com/ultralytics/yolov5 (Detect).
 */
#include <math.h>

#include "eval/detection.h"

/* In pixels: YOLOv5's for the strides 8, 16, 32, the small YOLOv3's and v4's for 16, 32. */
static const double usual[] = {10, 13, 16,  30,  33, 23,  30,  61,  62,
                               45, 59, 119, 116, 90, 156, 198, 373, 326},
                    usual_of_two[] = {10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319};

typedef struct head {
    const float *data;
    int64_t height, width, anchors, each;
    int64_t next, step; /* from cell to cell, from value to value of one */
    int64_t anchor;     /* from anchor to anchor */
} head;

static bool find_head(const qb_decode *in, int32_t i, head *out) {
    const qb_shape *s = &in->output[i].desc.shape;
    const int64_t a = in->settings->n_anchors > 0 ? in->settings->n_anchors / 2 / in->n : 3;
    if (a < 1 || (in->settings->n_anchors == 0 && in->n != 3 && in->n != 2)) return false;
    *out = (head){.data = in->output[i].data, .anchors = a};
    if (qb_is_batch_of(&in->output[i], 5)) { /* 1 x A x H x W x (5 + C) */
        out->height = s->dim[2];
        out->width = s->dim[3];
        out->each = out->next = s->dim[4];
        out->step = 1;
        out->anchor = out->height * out->width * out->each;
        return out->each > 5 && s->dim[1] == a;
    }
    qb_cell_map map;
    if (!qb_cell_map_of(in, &in->output[i], &map)) return false;
    out->height = map.height;
    out->width = map.width;
    out->each = map.channels / a;
    out->step = map.step;
    out->next = map.next;
    out->anchor = out->each * out->step;
    return out->each > 5 && map.channels % a == 0;
}

/* Two heads of sides one to two, with as many classes as are known: two maps alone may be anything.
 */
static bool is_two_strides(const qb_decode *in, int64_t each) {
    head first, second;
    find_head(in, 0, &first);
    find_head(in, 1, &second);
    return each == (in->n_labels > 0 ? in->n_labels : 80) + 5 &&
           (first.height == 2 * second.height || second.height == 2 * first.height);
}

static int32_t classes(const qb_decode *in) {
    head h = {0};
    int64_t each = 0;
    for (int32_t i = 0; i < in->n; i++) {
        if (!find_head(in, i, &h) || (i > 0 && h.each != each)) return 0;
        each = h.each;
    }
    if (in->n == 2 && !qb_decoder_is_told(in, classes) && !is_two_strides(in, each)) return 0;
    return in->n > 0 ? (int32_t)(each - 5) : 0;
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* Scores go through a sigmoid before they are compared. */
static qb_status decode_cell(qb_ctx *cx, const qb_decode *in, const head *h, const double size[2],
                             int64_t a, int64_t y, int64_t x) {
    const int64_t step = h->step;
    const float *p = h->data + a * h->anchor + (y * h->width + x) * h->next;
    const double objectness = sigmoid(p[4 * step]);
    if (!(objectness > in->settings->score_threshold)) return QB_OK;
    const double across = (double)in->width / (double)h->width,
                 down = (double)in->height / (double)h->height;
    const int32_t told = in->settings->exponential; /* YOLOv2 to v4 */
    const bool grows = told >= 0 ? told : in->n == 2;
    double box[4];
    for (int k = 0; k < 2; k++) {
        const double at = sigmoid(p[k * step]), t = p[(2 + k) * step], w = 2 * sigmoid((float)t);
        box[k] = ((grows ? at : 2 * at - 0.5) + (double)(k ? y : x)) * (k ? down : across);
        box[2 + k] = (grows ? exp(fmin(t, 20)) : w * w) * size[k];
    }
    int32_t best = 0;
    for (int32_t k = 0; k < h->each - 5; k++) {
        if (p[(5 + k) * step] > p[(5 + best) * step]) best = k;
        if (in->settings->multi_label)
            QB_TRY(qb_decode_box(cx, in, box, objectness * sigmoid(p[(5 + k) * step]), k));
    }
    if (in->settings->multi_label) return QB_OK;
    return qb_decode_box(cx, in, box, objectness * sigmoid(p[(5 + best) * step]), best);
}

/* The place of an output's anchors: by its stride among those told, else the finest first. */
static int32_t place_of(const qb_decode *in, int32_t i) {
    const qb_detect_settings *s = in->settings;
    head own, other;
    int32_t finer = 0;
    find_head(in, i, &own);
    for (int32_t k = 0; k < s->n_strides && s->n_strides == in->n; k++)
        if (fabs(s->stride[k] * (double)own.width - in->width) < s->stride[k]) return k;
    for (int32_t k = 0; k < in->n; k++) {
        find_head(in, k, &other);
        finer += other.height > own.height || (other.height == own.height && k < i);
    }
    return finer;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const double *anchors = in->settings->n_anchors > 0 ? in->settings->anchor
                            : in->n == 2                ? usual_of_two
                                                        : usual;
    for (int32_t i = 0; i < in->n; i++) {
        head h;
        find_head(in, i, &h);
        const double *anchor = anchors + 2 * h.anchors * place_of(in, i);
        for (int64_t a = 0; a < h.anchors; a++, anchor += 2)
            for (int64_t k = 0; k < h.height * h.width; k++)
                QB_TRY(decode_cell(cx, in, &h, anchor, a, k / h.width, k % h.width));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolo_anchors = {
    .name = "yolo_anchors",
    .text = "an output 1 x A (5 + classes) x H x W, 1 x H x W x A (5 + classes) or 1 x A x H x W x "
            "(5 + "
            "classes) a stride",
    .words = "yolov5_raw yolov7_raw darknet yolov3_raw yolov4_raw tiny_yolov3",
    .classes = classes,
    .decode = decode,
};

/* rows: final boxes, a row each, in the orders of columns that exporters write:
 * - N x 6 beside a count: class, score, corners (PaddleDetection),
 * - N x 7: sample, corners, class, score (YOLOv7's own export), or score, class (YOLO-NAS): classes
 * are whole numbers,
 * - 1 x 1 x N x 7: sample, class, score, corners (DetectionOutput of Caffe and OpenVINO),
 * - 1 x 100 x 7: sample, corners with y first, score, class (TensorFlow's EfficientDet).
 * What a row of no box has as sample or class is negative. */
#include <math.h>

#include "eval/detection.h"

typedef struct columns {
    int64_t n, each;
    int sample, label, score, box; /* sample -1: none */
    int32_t form;                  /* of the box, index into qb_box_words */
} columns;

/* Are these values, 7 apart, whole numbers? */
static bool is_whole(const float *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (p[7 * i] != rintf(p[7 * i])) return false;
    return true;
}

static bool find(const qb_decode *in, bool told, columns *out) {
    const qb_shape *s = &in->output[0].desc.shape;
    if (in->n < 1 || s->rank < 2 || s->rank > 4) return false;
    const int64_t n = s->dim[s->rank - 2], each = s->dim[s->rank - 1];
    const bool counted = in->n == 2 && in->whole && in->whole[1];
    *out = (columns){n, each, 0, 5, 6, 1, 0};
    if (s->rank == 2 && each == 6) {
        *out = (columns){n, each, -1, 0, 1, 2, 0};
        return told || counted;
    }
    if (s->rank == 4) {
        *out = (columns){n, each, 0, 1, 2, 3, 0};
        return qb_is_batch_of(&in->output[0], 4) && s->dim[1] == 1 && each == 7;
    }
    if (s->rank == 3) { /* heads of two or three classes have as many columns */
        *out = (columns){n, each, 0, 6, 5, 1, 3};
        return in->n == 1 && qb_is_batch_of(&in->output[0], 3) && each == 7 && (told || n == 100);
    }
    const float *p = in->output[0].data;
    if (p && each == 7 && !is_whole(p + 5, n) && is_whole(p + 6, n)) {
        out->label = 6;
        out->score = 5;
    }
    return each == 7;
}

static int32_t classes(const qb_decode *in) {
    columns c;
    return find(in, qb_decoder_is_told(in, classes), &c) ? QB_CLASSES_NOT_TOLD : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    columns c;
    find(in, true, &c);
    const float *p = in->output[0].data;
    const qb_box_form form = qb_box_form_of(in, c.form, p + c.box, c.n, c.each, 1);
    for (int64_t i = 0; i < c.n; i++, p += c.each) {
        double box[4];
        if (c.sample >= 0 && p[c.sample] < 0) continue;
        qb_box_convert(&form, p + c.box, 1, box);
        if (p[c.label] >= 0 && p[c.label] < QB_CLASSES_NOT_TOLD)
            QB_TRY(qb_decode_box(cx, in, box, p[c.score], (int32_t)p[c.label]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_rows = {
    .name = "rows",
    .text = "an output N x 6 of classes, scores and corners, or N x 7 with samples",
    .words =
        "yolo_nas_flat paddledetection paddle ppyoloe_nms yolov7_end2end detectionoutput automl",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};

/* yolov8: also YOLOv6, v9, 11 and others without objectness whose boxes are decoded in the graph:
 * cx cy w h in pixels of the input, then a score a class. */
#include "eval/detection.h"

/* 1 x (4 + C) x N, or transposed: boxes outnumber what each has. */
static bool is_transposed(const qb_shape *s) { return s->dim[2] >= 0 && s->dim[1] > s->dim[2]; }

/* Behind the classes stand the coefficients of masks where a second output 1 x M x H x W has M
 * masks, and the key points of poses where there is one class. */
static int64_t extra_of(const qb_decode *in, int64_t each) {
    const bool masks = in->n > 1 && qb_is_batch_of(&in->output[1], 4);
    if (masks && in->output[1].desc.shape.dim[1] < each - 4) return in->output[1].desc.shape.dim[1];
    const int64_t lower = each - 5; /* of 17, 5 or 21 points */
    return in->n_labels == 1 && (lower == 51 || lower == 15 || lower == 63) ? lower : 0;
}

static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const qb_shape *s = &in->output[0].desc.shape;
    /* Lines of each point along x and along y (SimCC) look alike, too. */
    if (in->n == 2 && qb_is_batch_of(&in->output[1], 3) && !qb_decoder_is_told(in, classes) &&
        in->output[1].desc.shape.dim[1] == s->dim[1] &&
        in->output[1].desc.shape.dim[2] != s->dim[2])
        return 0;
    const int64_t each = s->dim[is_transposed(s) || s->dim[1] < 0 ? 2 : 1];
    return each > 4 && each <= 100000 ? (int32_t)(each - 4 - extra_of(in, each)) : 0;
}

/* A transformer's tokens look like this, too; the cells of strides do not. */
static bool is_vague(const qb_decode *in) {
    const qb_shape *s = &in->output[0].desc.shape;
    qb_grid grid;
    return !qb_grid_find(in, s->dim[is_transposed(s) ? 1 : 2], 0, &grid);
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const qb_shape *s = &in->output[0].desc.shape;
    const bool transposed = is_transposed(s);
    const int64_t n = s->dim[transposed ? 1 : 2], each = s->dim[transposed ? 2 : 1];
    const int64_t step = transposed ? 1 : n;
    const int64_t stride = transposed ? each : 1;
    const qb_box_form form = qb_box_form_of(in, 2, in->output[0].data, n, stride, step);
    const float *p = in->output[0].data;
    const bool logits = qb_needs_sigmoid(in, p + 4 * step, n, stride, classes(in), step);
    for (int64_t i = 0; i < n; i++, p += stride) {
        double box[4];
        qb_box_convert(&form, p, step, box);
        QB_TRY(qb_decode_best(cx, in, box,
                              &(qb_box_scores){p + 4 * step, step, classes(in), logits, 1}));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolov8 = {
    .name = "yolov8",
    .text = "an output 1 x (4 + classes) x N, or transposed",
    .words = "yolo11 yolov11 yolov9 yolo12 yolov12 ultralytics",
    .classes = classes,
    .is_vague = is_vague,
    .decode = decode,
};

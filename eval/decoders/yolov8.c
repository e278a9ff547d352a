/* yolov8: also YOLOv6, v9, 11 and others without objectness whose boxes are decoded in the graph:
 * cx cy w h in pixels of the input, then a score a class. */
#include "eval/detection.h"

/* 1 x (4 + C) x N, or transposed: boxes outnumber what each has. */
static bool is_transposed(const qb_shape *s) { return s->dim[2] >= 0 && s->dim[1] > s->dim[2]; }

static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const qb_shape *s = &in->output[0].desc.shape;
    const int64_t each = s->dim[is_transposed(s) || s->dim[1] < 0 ? 2 : 1];
    return each > 4 && each <= 100000 ? (int32_t)(each - 4) : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const qb_shape *s = &in->output[0].desc.shape;
    const bool transposed = is_transposed(s);
    const int64_t n = s->dim[transposed ? 1 : 2], each = s->dim[transposed ? 2 : 1];
    const int64_t step = transposed ? 1 : n;
    for (int64_t i = 0; i < n; i++) {
        const float *p = (const float *)in->output[0].data + (transposed ? i * each : i);
        const double box[] = {p[0], p[step], p[2 * step], p[3 * step]};
        QB_TRY(qb_decode_best(cx, in, box, p + 4 * step, step, (int32_t)(each - 4), 1));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolov8 = {
    .name = "yolov8",
    .text = "an output 1 x (4 + classes) x N, or transposed",
    .classes = classes,
    .decode = decode,
};

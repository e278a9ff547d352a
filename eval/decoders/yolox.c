/* yolox: a box a cell, https://github.com/Megvii-BaseDetection/YOLOX (demo_postprocess): centre in
 * cells, logarithm of the size in strides, objectness, a score a class. Exports that decode boxes
 * themselves give them in pixels, which their centres tell. */
#include <math.h>

#include "eval/detection.h"

static int32_t classes(const qb_decode *in) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return 0;
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    qb_grid grid;
    if (each < 6 || each > 100000) return 0;
    const bool told = qb_decoder_is_told(in, classes);
    /* YOLOv8's in rows has as many boxes; its classes tell. */
    const bool other = !told && (in->n_labels > 0 ? in->n_labels != each - 5 : each == 84);
    return told || (!other && qb_grid_find(in, n, 0, &grid)) ? (int32_t)(each - 5) : 0;
}

/* Are centres pixels? Those in cells are around 0.5. */
static bool is_decoded(const float *p, int64_t n, int64_t each) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)p[i * each]);
    return sum > 16 * (double)n;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    const float *p = in->output[0].data;
    qb_grid grid;
    if (!qb_grid_find(in, n, 0, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder yolox: %lld boxes are not the cells of an input of %d x %d: name "
                       "detection.strides",
                       (long long)n, in->width, in->height);
    const bool decoded = is_decoded(p, n, each);
    const bool logits = qb_needs_sigmoid(in, p + 4, n, each, each - 4, 1);
    for (int64_t i = 0; i < n; i++, p += each) {
        const qb_cell c = qb_grid_cell(&grid, i);
        const double box[] = {
            decoded ? p[0] : (p[0] + c.x) * c.stride, decoded ? p[1] : (p[1] + c.y) * c.stride,
            decoded ? p[2] : exp(p[2]) * c.stride, decoded ? p[3] : exp(p[3]) * c.stride};
        const double object = logits ? qb_sigmoid(p[4]) : p[4];
        QB_TRY(qb_decode_best(cx, in, box,
                              &(qb_box_scores){p + 5, 1, (int32_t)(each - 5), logits, object}));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolox = {
    .name = "yolox",
    .text = "an output 1 x N x (5 + classes), a box a cell",
    .words = "yolox_nano yolox_tiny yolox_s",
    /* pixels as they are, the image in the upper left corner */
    .images = &(const qb_preprocess){.resize = QB_RESIZE_LETTERBOX,
                                     .anchor = QB_ANCHOR_TOPLEFT,
                                     .pad = 114,
                                     .color = QB_COLOR_BGR,
                                     .std = {1, 1, 1}},
    .classes = classes,
    .decode = decode,
};

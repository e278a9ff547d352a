/* ssd: boxes that the graph has added to its priors, x1 y1 x2 y2 as shares of the input, and a
 * probability a class, the first one background. */
#include "eval/detection.h"

/* Outputs 1 x N x (1 + C) and 1 x N x 4, in either order. */
static bool find(const qb_decode *in, const qb_tensor **scores, const qb_tensor **boxes) {
    if (in->n != 2 || !qb_is_batch_of(&in->output[0], 3) || !qb_is_batch_of(&in->output[1], 3))
        return false;
    const int second = in->output[1].desc.shape.dim[2] == 4;
    *boxes = &in->output[second];
    *scores = &in->output[1 - second];
    return (*boxes)->desc.shape.dim[2] == 4 && (*scores)->desc.shape.dim[2] > 1 &&
           (*scores)->desc.shape.dim[1] == (*boxes)->desc.shape.dim[1];
}

static int32_t classes(const qb_decode *in) {
    const qb_tensor *scores, *boxes;
    return find(in, &scores, &boxes) ? (int32_t)(scores->desc.shape.dim[2] - 1) : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const qb_tensor *scores, *boxes;
    find(in, &scores, &boxes);
    const int64_t n = boxes->desc.shape.dim[1], each = scores->desc.shape.dim[2];
    const float *p = scores->data, *b = boxes->data;
    for (int64_t i = 0; i < n; i++, p += each, b += 4) {
        const double box[] = {
            ((double)b[0] + b[2]) / 2 * in->width, ((double)b[1] + b[3]) / 2 * in->height,
            ((double)b[2] - b[0]) * in->width, ((double)b[3] - b[1]) * in->height};
        QB_TRY(qb_decode_best(cx, in, box, p + 1, 1, (int32_t)(each - 1), 1));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_ssd = {
    .name = "ssd",
    .text = "outputs 1 x N x (1 + classes) and 1 x N x 4",
    .classes = classes,
    .decode = decode,
};

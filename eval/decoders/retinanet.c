/* retinanet: deltas of nine anchors a place (eval/anchored.h), https://arxiv.org/abs/1708.02002: of
 * 4 strides' side times 1, 2^(1/3), 2^(2/3), in the ratios height to width 0.5, 1, 2. */
#include <math.h>

#include "eval/anchored.h"

static void anchor_of(const qb_cell *c, int64_t k, double out[4]) {
    static const double ratio[] = {0.5, 1, 2};
    const double side = 4 * c->stride * exp2((double)(k % 3) / 3), root = sqrt(ratio[k / 3]);
    out[0] = c->x * c->stride;
    out[1] = c->y * c->stride;
    out[2] = side / root;
    out[3] = side * root;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    return qb_anchored_decode(cx, in, &(qb_anchors){.anchor = anchor_of});
}

const qb_box_decoder qb_box_decoder_retinanet = {
    .name = "retinanet",
    .text = "outputs 1 x N x classes and 1 x N x 4 of nine anchors a place, or two a stride",
    .images = &(const qb_preprocess){.resize = QB_RESIZE_STRETCH, QB_IMAGENET_RGB},
    .classes = qb_anchored_classes,
    .decode = decode,
};

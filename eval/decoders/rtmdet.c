/* rtmdet: distances to a box's four sides from each cell's corner (eval/distances.h), in pixels as
 * MMDetection exports its raw heads or in strides as MMYOLO does: https://arxiv.org/abs/2212.07784.
 * The classes of all strides come before the boxes; other heads of the same shapes keep a stride's
 * outputs together. */
#include "eval/distances.h"

static bool classes_come_first(const qb_distances *h) {
    for (int32_t k = 0; k < h->levels; k++)
        if (h->at[k][QB_PART_CLASSES] >= h->levels) return false;
    return true;
}

static int32_t classes(const qb_decode *in) {
    qb_distances h;
    if (!qb_distances_find(in, &h) || h.whole || h.parts != 2 || h.bins != 1) return 0;
    const bool usual = h.levels > 1 && classes_come_first(&h);
    return usual || qb_decoder_is_told(in, classes) ? (int32_t)h.classes : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    qb_distances h;
    qb_distances_find(in, &h);
    return qb_distances_decode(cx, in, &h, 0);
}

const qb_box_decoder qb_box_decoder_rtmdet = {
    .name = "rtmdet",
    .text = "outputs of classes, then of boxes 1 x 4 x H x W, one each a stride",
    /* MMDetection's: the image in the upper left corner */
    .images = &(const qb_preprocess){.resize = QB_RESIZE_LETTERBOX,
                                     .anchor = QB_ANCHOR_TOPLEFT,
                                     .pad = 114,
                                     QB_IMAGENET_BGR},
    .classes = classes,
    .decode = decode,
};

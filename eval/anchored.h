/* Heads with nine anchors at each place, for decoders: deltas of anchors and a score a class, in
 * two outputs, 1 x N x classes and 1 x N x 4, or two a stride, 1 x 9 classes x H x W and 1 x 36 x H
 * x W. */
#ifndef QB_EVAL_ANCHORED_H
#define QB_EVAL_ANCHORED_H

#include "eval/detection.h"

/* How a model's anchors lie. */
typedef struct qb_anchors {
    double offset; /* of a place in its cell, in strides, unless the settings say otherwise */
    bool y_first;  /* deltas are dy dx dh dw */
    /* Anchor k of 9 at a place: its centre and size in pixels. */
    void (*anchor)(const qb_cell *cell, int64_t k, double out[4]);
} qb_anchors;

/* Classes of outputs that are such a head, by their shapes; 0: they are not. */
int32_t qb_anchored_classes(const qb_decode *in);
/* Adds the boxes of such a head. Errors name the decoder when boxes are not nine at each place of
 * the input's strides. */
qb_status qb_anchored_decode(qb_ctx *cx, const qb_decode *in, const qb_anchors *anchors);
#endif

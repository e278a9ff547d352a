/* Heads that give the distances from a cell to the four sides of its box, for decoders: bins whose
 * expectation counts or one number a side, and a score a class. Their outputs are
 * - one, 1 x N x (classes + 4 bins), all strides together, or
 * - one or two a stride, 1 x channels x H x W, 1 x H x W x channels or 1 x cells x channels, box
 *   and classes together (the box first) or apart, with FCOS's centerness if there are three. */
#ifndef QB_EVAL_DISTANCES_H
#define QB_EVAL_DISTANCES_H

#include "eval/detection.h"

enum { QB_PART_BOX, QB_PART_CLASSES, QB_PART_CENTER, QB_PARTS };

typedef struct qb_distances {
    bool whole;     /* all strides in one output */
    int32_t levels; /* else: so many, coarsest last, */
    int32_t parts;  /* each of so many outputs */
    int64_t classes, bins;
    int32_t at[QB_STRIDES_MAX][QB_PARTS]; /* outputs of a level; -1: none */
} qb_distances;

/* Are the outputs such a head? Shapes and labels tell, values are not read. */
bool qb_distances_find(const qb_decode *in, qb_distances *out);
/* Adds the boxes of a head that was found. Cells lie at `offset` unless the settings say otherwise.
 * Numbers are in strides, or in pixels where they would else lead out of the input. Errors name the
 * decoder when cells are not those of the input's strides. */
qb_status qb_distances_decode(qb_ctx *cx, const qb_decode *in, const qb_distances *head,
                              double offset);
#endif

/* How well the borders of two masks of a class meet (Csurka et al., "What is a good evaluation
 * measure for semantic segmentation?", BMVC 2013). */
#ifndef QB_EVAL_BOUNDARY_H
#define QB_EVAL_BOUNDARY_H

#include <stdint.h>

#include "base/ctx.h"

/* Border pixels of each mask, and those of them near to a border pixel of the other. */
typedef struct qb_boundary {
    uint32_t first, second, first_near, second_near;
} qb_boundary;

/* A border pixel is of class `value` and has a neighbour (left, right, above or below, inside the
 * image) that is not, nor `ignored` in the first mask. Near: within 0.75 % of the diagonal, rounded
 * up, in a straight line. Masks are width x height, row by row. */
qb_status qb_boundary_compare(qb_ctx *cx, const uint8_t *first, const uint8_t *second,
                              int32_t width, int32_t height, uint8_t value, uint8_t ignored,
                              qb_boundary *out);
#endif

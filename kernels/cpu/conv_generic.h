/* Tiles in plain C, vectorized by the compiler as far as the baseline allows. Included by the float
 * and the integer file, which define SUM (type of a sum) and UNIT(sum, data, weights): one step of
 * one column. */
#ifndef QB_CPU_CONV_GENERIC_H
#define QB_CPU_CONV_GENERIC_H

#include <string.h>

#include "conv_internal.h"

#define QB_GENERIC_ROWS 4
#define QB_GENERIC_LANES 8

/* Reals of one row of sums, then the common end. */
static inline void qb_generic_epilogue(const qb_tile *t, int row, const float *f32) {
    const qb_epilogue *f = t->epilogue;
    const char *residual = t->residual ? t->residual + t->pixel[row] * t->residual_stride : NULL;
    qb_epilogue_run(f, f32, t->width, residual, t->out + t->pixel[row] * t->out_stride);
}

#endif

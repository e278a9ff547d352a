/* How the range of a channel's weights (or of a whole tensor's) is chosen. One row in
 * weight_ranges.def and one file in weight_ranges/ each. */
#ifndef QB_QUANT_WEIGHT_RANGE_H
#define QB_QUANT_WEIGHT_RANGE_H

#include <stdint.h>

#include "base/ctx.h"

typedef struct qb_weight_range {
    const char *name;    /* "mse" */
    const char *summary; /* one line for the help */
    /* The largest magnitude that is kept, 0 .. max|weight|; the quantized values -127 .. 127 span
     * it. The n weights are finite. */
    float (*bound)(const float *weight, int64_t n);
} qb_weight_range;

/* [0] is the default; `n` may be NULL. */
const qb_weight_range *const *qb_weight_ranges(int32_t *n);
/* By name; QB_STATUS_USAGE listing the known ones. */
qb_status qb_weight_range_find(qb_ctx *cx, const char *name, const qb_weight_range **out);
#endif

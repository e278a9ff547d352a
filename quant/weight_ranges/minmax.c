/* minmax: nothing is clipped. */
#include <math.h>

#include "quant/weight_range.h"

static float bound(const float *weight, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(weight[i]));
    return most;
}

const qb_weight_range qb_weight_range_minmax = {
    .name = "minmax",
    .summary = "the largest magnitude: nothing is clipped",
    .bound = bound,
};

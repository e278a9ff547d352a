/* mse: the bound of least squared error after rounding to the quantized values -127 .. 127 and
 * clipping. Every 128th of the largest magnitude is tried, from the whole down; the wider of
 * equals.
 *
 * The largest weight alone is wrong by what the bound cuts off it, so the search ends where that
 * exceeds the best sum: after a tenth of the way for the channels of most convolutions. */
#include <math.h>

#include "quant/weight_range.h"

#define STEPS 128
#define LANES 8 /* partial sums in a fixed order: the compiler may keep them in vectors */

/* To the nearest integer, halves to even, for magnitudes below 2^22. */
static inline float nearest(float value) {
    const float shift = 12582912; /* 1.5 * 2^23 */
    return (value + shift) - shift;
}

static inline double squared_error(float weight, float levels_per_unit) {
    const float at = weight * levels_per_unit;
    const float code = nearest(at < -127 ? -127 : at > 127 ? 127 : at);
    return (double)((at - code) * (at - code));
}

/* Sum of squared errors in squares of a step. */
static double error_of(const float *weight, int64_t n, float bound) {
    const float levels_per_unit = 127 / bound;
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += squared_error(weight[i + k], levels_per_unit);
    for (; i < n; i++) sum += squared_error(weight[i], levels_per_unit);
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

static float bound(const float *weight, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(weight[i]));
    if (!(most > 127 * 1.17549435e-38f)) return most; /* no step to speak of */
    float best = most;
    double least = INFINITY; /* in squares of the step of the whole range */
    for (int k = STEPS; k > 0; k--) {
        const float at = most * ((float)k / STEPS);
        const double share = (double)k / STEPS, cut = 127 * (1 - share);
        if (cut * cut >= least) break;
        const double error = error_of(weight, n, at) * share * share;
        if (error >= least) continue;
        least = error;
        best = at;
    }
    return best;
}

const qb_weight_range qb_weight_range_mse = {
    .name = "mse",
    .summary = "least squared error after rounding and clipping",
    .bound = bound,
};

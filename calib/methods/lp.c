/* lp:P (P 2.4 unless given): as mse:affine, but the sum of |error|^P is least.
 *
 * A larger P minds large errors more: the range clips less. P = 2 is mse, up to how values are
 * spread inside a bin: here half of them lie at 1/4 and half at 3/4 of its width, which makes any
 * power a look-up. Source of the default: the loss of QDrop and BRECQ. */
#include <math.h>

#include "calib/calib.h"
#include "calib/search.h"

#define HALF (QB_STATS_BINS / 2)
#define STEPS 2048 /* of the table over half a step */

typedef struct powers {
    qb_spectrum spectrum;
    double p;
    double count[QB_STATS_BINS]; /* without exact zeros */
    double of_step[STEPS + 1];   /* |u|^p, u from 0 to 1/2 of one step */
} powers;

static void powers_init(const qb_stats *stats, double p, powers *out) {
    qb_spectrum_init(stats, &out->spectrum);
    out->p = p;
    for (int32_t j = 0; j < QB_STATS_BINS; j++)
        out->count[j] = out->spectrum.count[j + 1] - out->spectrum.count[j];
    for (int k = 0; k <= STEPS; k++) out->of_step[k] = pow(0.5 * k / STEPS, p);
}

/* |error|^p of a value, in powers of one step; `x` in quantized values from the lowest one. */
static double loss(const powers *w, double x) {
    if (x < 0) return pow(-x, w->p);
    if (x > 255) return pow(x - 255, w->p);
    return w->of_step[(int)(fabs(x - rint(x)) * (2 * STEPS) + 0.5)];
}

/* What is clipped comes first: it alone rules most narrow windows out. */
static double cost(const void *user, qb_bins at, double beat) {
    const powers *w = user;
    const qb_grid grid = qb_bins_grid(at);
    const double unit = pow(grid.step, w->p), limit = beat / unit;
    const int32_t first = w->spectrum.first, last = w->spectrum.last;
    double sum = 0;
    for (int32_t j = last; j >= at.b && sum < limit; j--)
        if (w->count[j] > 0) sum += w->count[j] * loss(w, (j + 0.5 - HALF) / grid.step + grid.zero);
    for (int32_t j = first; j < at.a && sum < limit; j++)
        if (w->count[j] > 0) sum += w->count[j] * loss(w, (j + 0.5 - HALF) / grid.step + grid.zero);
    for (int32_t j = at.a; j < at.b && sum < limit; j++) {
        const double x = (j + 0.5 - HALF) / grid.step + grid.zero, quarter = 0.25 / grid.step;
        if (w->count[j] > 0) sum += w->count[j] / 2 * (loss(w, x - quarter) + loss(w, x + quarter));
    }
    return sum < limit ? sum * unit : INFINITY;
}

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    QB_FREED powers *w = QB_NEW(cx, qb_alloc(cx, 1, sizeof *w));
    powers_init(seen->stats, choice->argument, w);
    *out = (qb_range){seen->stats->min, seen->stats->max};
    if (w->spectrum.last >= 0) {
        const qb_bins_problem problem = {&w->spectrum, cost, w, false};
        *out = qb_bins_range(seen->stats, qb_bins_search(&problem, qb_bins_full(&w->spectrum)));
    }
    return QB_OK;
}

const qb_calib_method qb_calib_method_lp = {
    .name = "lp",
    .summary = "least sum of |error|^P of the 8-bit values (P 2.4 unless given)",
    .argument = "P",
    .argument_default = 2.4,
    .argument_min = 0.5,
    .argument_max = 8,
    .range = range,
};

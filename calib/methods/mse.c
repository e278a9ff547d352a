/* mse: the range of least squared error after rounding to 8 bits and clipping, from the histogram.
 *
 * The error is that of the quantized values that the quantizer will use (see calib/spectrum.h),
 * clipping and rounding together, so nothing has to be assumed of the distribution. affine: 256
 * quantized values over a range with two ends; symmetric: quantized values -127 .. 127 and both
 * ends equally far from zero. Ends are searched as calib/search.h says; the full range, at its
 * exact extremes, is one of the candidates.
 */
#include <math.h>

#include "calib/calib.h"
#include "calib/search.h"

#define SHRINKS 64 /* sizes tried with both ends moved alike */

static double affine_cost(const void *user, qb_bins at, double beat) {
    (void)beat;
    return qb_spectrum_error(user, qb_bins_grid(at));
}

static double symmetric_cost(const void *user, qb_bins at, double beat) {
    (void)beat;
    return qb_spectrum_error(user, (qb_grid){(at.b - at.a) / 254.0, 0, -127, 127});
}

/* The best of the windows with both ends moved in alike. */
static qb_bins shrunk(const qb_spectrum *s, qb_bins full) {
    const int32_t zero = QB_STATS_BINS / 2;
    qb_bins best = full;
    double least = affine_cost(s, full, 0);
    for (int32_t k = SHRINKS - 1; k > 0; k--) {
        const qb_bins at = {zero - (zero - full.a) * k / SHRINKS,
                            zero + (full.b - zero) * k / SHRINKS};
        const double cost = at.b - at.a >= 256 ? affine_cost(s, at, 0) : INFINITY;
        if (cost >= least) continue;
        least = cost;
        best = at;
    }
    return best;
}

/* One end at a time finds the nearest optimum: of those near several starts the best one. */
static qb_bins searched_affine(const qb_spectrum *s, qb_bins symmetric) {
    const qb_bins full = qb_bins_full(s), starts[] = {full, shrunk(s, full), symmetric};
    const qb_bins_problem problem = {s, affine_cost, s, false};
    qb_bins best = full;
    for (int i = 0; i < 3; i++) {
        const qb_bins at = qb_bins_search(&problem, starts[i]);
        if (affine_cost(s, at, 0) < affine_cost(s, best, 0)) best = at;
    }
    return best;
}

static qb_range searched(const qb_stats *stats, const qb_spectrum *s, bool symmetric) {
    const qb_bins full = qb_bins_full(s);
    const qb_bins_problem problem = {s, symmetric_cost, s, false};
    const qb_bins even = qb_bins_around_zero(full, qb_reach_search(&problem));
    return qb_bins_range(stats, symmetric ? even : searched_affine(s, even));
}

static const char *const variants[] = {"affine", "symmetric", NULL};

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    const bool symmetric = choice->variant == 1;
    QB_FREED qb_spectrum *spectrum = QB_NEW(cx, qb_alloc(cx, 1, sizeof *spectrum));
    qb_spectrum_init(seen->stats, spectrum);
    const qb_range full = {seen->stats->min, seen->stats->max};
    *out = full;
    if (spectrum->last >= 0) {
        const qb_range best = searched(seen->stats, spectrum, symmetric);
        if (qb_spectrum_error(spectrum, qb_grid_of(spectrum, best, symmetric)) <
            qb_spectrum_error(spectrum, qb_grid_of(spectrum, full, symmetric)))
            *out = best;
    }
    return QB_OK;
}

const qb_calib_method qb_calib_method_mse = {
    .name = "mse",
    .summary = "least squared error of the 8-bit values; symmetric: of symmetric int8",
    .variants = variants,
    .range = range,
};

/* mse: the range of least squared error after rounding to 8 bits and clipping, from the histogram.
 *
 * The error is that of the codes that the quantizer will use (see calib/spectrum.h), clipping and
 * rounding together, so nothing has to be assumed of the distribution. affine: 256 codes over a
 * range with two ends; symmetric: codes -127 .. 127 and both ends equally far from zero. Ends are
 * searched as calib/search.h says; the full range, at its exact extremes, is one of the candidates.
 */
#include <math.h>

#include "calib/calib.h"
#include "calib/search.h"

static double affine_cost(const void *user, qb_bins at, double beat) {
    (void)beat;
    return qb_spectrum_error(user, qb_bins_grid(at));
}

static double symmetric_cost(const void *user, qb_bins at, double beat) {
    (void)beat;
    return qb_spectrum_error(user, (qb_grid){(at.b - at.a) / 254.0, 0, -127, 127});
}

static qb_range searched(const qb_stats *stats, const qb_spectrum *spectrum, bool symmetric) {
    if (!symmetric) return qb_bins_range(stats, qb_bins_search(spectrum, affine_cost, spectrum));
    const int32_t reach = qb_reach_search(spectrum, symmetric_cost, spectrum);
    return qb_bins_range(stats, (qb_bins){QB_STATS_BINS / 2 - reach, QB_STATS_BINS / 2 + reach});
}

static const char *const variants[] = {"affine", "symmetric", NULL};

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    const bool symmetric = choice->variant == 1;
    qb_spectrum *spectrum = qb_alloc(cx, 1, sizeof *spectrum);
    if (!spectrum) return cx->code;
    qb_spectrum_init(seen->stats, spectrum);
    const qb_range full = {seen->stats->min, seen->stats->max};
    *out = full;
    if (spectrum->last >= 0) {
        const qb_range best = searched(seen->stats, spectrum, symmetric);
        if (qb_spectrum_error(spectrum, qb_grid_of(spectrum, best, symmetric)) <
            qb_spectrum_error(spectrum, qb_grid_of(spectrum, full, symmetric)))
            *out = best;
    }
    qb_free(spectrum);
    return QB_OK;
}

const qb_calib_method qb_calib_method_mse = {
    .name = "mse",
    .summary = "least squared error of the 8-bit codes; symmetric: of symmetric int8",
    .variants = variants,
    .range = range,
};

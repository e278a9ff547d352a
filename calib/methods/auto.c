/* auto: of the other methods' ranges the one with the best signal-to-noise ratio on this tensor's
 * histogram (see calib/spectrum.h); the full range is always among them, so it is never worse than
 * minmax by that measure. The first of equals.
 *
 * What is best tensor by tensor need not be best for the network: `qbench calibrate --method auto`
 * scores it end to end against each single method and puts one of those in its place where that is
 * better beyond chance. */
#include "calib/calib.h"
#include "calib/spectrum.h"

static const char *const variants[] = {"affine", "symmetric", NULL};

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    const bool symmetric = choice->variant == 1;
    QB_FREED qb_spectrum *spectrum = QB_NEW(cx, qb_alloc(cx, 1, sizeof *spectrum));
    qb_spectrum_init(seen->stats, spectrum);
    qb_range best = {seen->stats->min, seen->stats->max};
    double least = qb_spectrum_error(spectrum, qb_grid_of(spectrum, best, symmetric));
    for (int32_t i = 0; i < seen->n_candidates; i++) {
        const qb_range candidate = seen->candidate[i];
        const double error =
            qb_spectrum_error(spectrum, qb_grid_of(spectrum, candidate, symmetric));
        if (error >= least) continue;
        best = candidate;
        least = error;
    }
    *out = best;
    return QB_OK;
}

const qb_calib_method qb_calib_method_auto = {
    .name = "auto",
    .summary =
        "by tensor the method of best signal-to-noise ratio, checked end to end on held-back data",
    .variants = variants,
    .chooses = true,
    .range = range,
};

/* moving-average:C (C 0.01 unless given): extremes of each sample, averaged exponentially.
 *
 * In the order of the samples' content hashes, which is as good as random and does not depend on
 * how a folder is sorted or shared out: the first sample's extremes, then for each following sample
 * lo += C (its lo - lo) and hi += C (its hi - hi), in double precision. Samples in which the tensor
 * had no finite value are left out. This is the moving average of TensorFlow's and PyTorch's
 * observers with batches of one sample. */
#include "calib/calib.h"

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    (void)cx;
    double lo = 0, hi = 0;
    bool first = true;
    for (int64_t i = 0; i < seen->n_samples; i++) {
        if (seen->sample_min[i] > seen->sample_max[i]) continue;
        const double weight = first ? 1 : choice->argument;
        lo += weight * ((double)seen->sample_min[i] - lo);
        hi += weight * ((double)seen->sample_max[i] - hi);
        first = false;
    }
    *out = (qb_range){(float)lo, (float)hi};
    return QB_OK;
}

const qb_calib_method qb_calib_method_moving_average = {
    .name = "moving-average",
    .summary =
        "each sample's extremes averaged in random order, weight C a sample (0.01 unless given)",
    .argument = "C",
    .argument_default = 0.01,
    .argument_min = 1e-6,
    .argument_max = 1,
    .needs_samples = true,
    .range = range,
};

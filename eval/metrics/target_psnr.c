#include "eval/metrics/psnr.h"

static double noise(const qb_answer *answer) {
    return answer->target_square / (double)answer->size;
}

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    return qb_psnr_mean(answer, n, 255, noise);
}

const qb_metric qb_metric_target_psnr = {
    .name = "target_psnr",
    .title = "PSNR to target",
    .unit = "dB",
    .definition = "10 log10(255^2 / mean squared error) an image against its target, in pixels "
                  "of 0..255, averaged over images; interval: of a mean",
    .kinds = QB_OUTPUT_IMAGE,
    .value = value};

#include <math.h>

#include "eval/metrics/psnr.h"
#include "eval/stats.h"

qb_estimate qb_psnr_mean(const qb_answer *answer, int64_t n, double peak,
                         double (*noise)(const qb_answer *answer)) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        const double db = 10 * log10(peak * peak / noise(&answer[i]));
        sum += db;
        square += db * db;
    }
    if (n == 0 || isnan(sum)) return qb_estimate_none();
    if (isinf(sum)) return qb_estimate_of(sum);
    return (qb_estimate){sum / (double)n, qb_mean_interval(sum, square, n)};
}

/* Images are held in 0..1 or in 0..255; what the reference puts out tells which. */
static double peak_of(const qb_answer *answer, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, answer[i].ref_max);
    return largest <= 2 ? 1 : 255;
}

static double noise(const qb_answer *answer) { return answer->err_square / (double)answer->size; }

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    return qb_psnr_mean(answer, n, peak_of(answer, n), noise);
}

const qb_metric qb_metric_psnr = {
    .name = "psnr",
    .title = "PSNR",
    .unit = "dB",
    .definition =
        "10 log10(peak^2 / mean squared error) an image against the reference's, averaged "
        "over images; peak: 1, or 255 where the reference exceeds 2; interval: of a mean",
    .kinds = QB_OUTPUT_IMAGE,
    .value = value};

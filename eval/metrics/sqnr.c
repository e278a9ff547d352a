#include <math.h>

#include "eval/eval.h"

/* 10 log10(sum ref^2 / sum (ref - q)^2) over all samples; +inf when the outputs are equal. */
static double value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < n; i++) {
        signal += answer[i].ref_square;
        noise += answer[i].err_square;
    }
    if (n == 0 || isnan(noise)) return NAN;
    return noise == 0 ? INFINITY : 10 * log10(signal / noise);
}

const qb_metric qb_metric_sqnr = {.name = "sqnr", .title = "SQNR", .unit = "dB", .value = value};

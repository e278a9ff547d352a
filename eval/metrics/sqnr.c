#include <math.h>

#include "eval/eval.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < n; i++) {
        signal += answer[i].ref_square;
        noise += answer[i].err_square;
    }
    if (n == 0 || isnan(noise)) return qb_estimate_none();
    return qb_estimate_of(noise == 0 ? INFINITY : 10 * log10(signal / noise));
}

const qb_metric qb_metric_sqnr = {
    .name = "sqnr",
    .title = "SQNR",
    .unit = "dB",
    .definition = "10 log10(sum ref^2 / sum (ref - q)^2) over all samples, on the value before a "
                  "final Softmax or ArgMax (after it beside an engine file); inf: equal",
    .kinds = QB_OUTPUT_ANY,
    .value = value};

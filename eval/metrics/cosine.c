#include <math.h>

#include "eval/eval.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    double dot = 0, ref = 0, out = 0;
    for (int64_t i = 0; i < n; i++) {
        dot += answer[i].dot;
        ref += answer[i].ref_square;
        out += answer[i].out_square;
    }
    if (!(ref > 0 && out > 0)) return qb_estimate_none(); /* no direction, or NaN */
    return qb_estimate_of(fmax(-1, fmin(1, dot / sqrt(ref * out))));
}

const qb_metric qb_metric_cosine = {
    .name = "cosine",
    .title = "cosine",
    .unit = "",
    .definition = "sum ref q / sqrt(sum ref^2 sum q^2) over all samples, on the same value",
    .kinds = QB_OUTPUT_ANY,
    .value = value};

#include <math.h>

#include "eval/eval.h"

/* Percent of the samples on which both engines answer the same top-1 class. */
static double value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++)
        same += answer[i].top1 == reference[i].top1 && answer[i].top1 != QB_NO_ANSWER;
    return n > 0 ? 100.0 * (double)same / (double)n : NAN;
}

const qb_metric qb_metric_agreement = {
    .name = "agreement", .title = "agreement", .unit = "%", .value = value};

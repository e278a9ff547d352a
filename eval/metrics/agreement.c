#include "eval/eval.h"
#include "eval/stats.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++)
        same += answer[i].top1 == reference[i].top1 && answer[i].top1 != QB_NO_ANSWER;
    if (n < 1) return qb_estimate_none();
    return (qb_estimate){100.0 * (double)same / (double)n, qb_wilson(same, n)};
}

const qb_metric qb_metric_agreement = {
    .name = "agreement",
    .title = "agreement",
    .unit = "%",
    .definition = "samples with the same first class as the reference; interval: Wilson",
    .kinds = QB_OUTPUT_ANSWER,
    .value = value};

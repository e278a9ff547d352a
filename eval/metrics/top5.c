#include "eval/metrics/top_k.h"
#include "eval/stats.h"

qb_estimate qb_top_k(const qb_answer *answer, int64_t n, int32_t k) {
    int64_t labelled = 0, right = 0;
    for (int64_t i = 0; i < n; i++) {
        if (answer[i].label_rank < 0) continue;
        labelled++;
        right += answer[i].label_rank < k;
    }
    if (labelled == 0) return qb_estimate_none();
    return (qb_estimate){100.0 * (double)right / (double)labelled, qb_wilson(right, labelled)};
}

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    return qb_top_k(answer, n, 5);
}

const qb_metric qb_metric_top5 = {
    .name = "top5",
    .title = "top-5",
    .unit = "%",
    .definition = "samples whose label is among the first five classes; interval: Wilson",
    .kinds = QB_OUTPUT_CLASSES,
    .value = value};

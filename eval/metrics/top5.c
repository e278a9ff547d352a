#include <math.h>

#include "eval/metrics/top_k.h"

double qb_top_k(const qb_answer *answer, int64_t n, int32_t k) {
    int64_t labelled = 0, right = 0;
    for (int64_t i = 0; i < n; i++) {
        if (answer[i].label_rank < 0) continue;
        labelled++;
        right += answer[i].label_rank < k;
    }
    return labelled > 0 ? 100.0 * (double)right / (double)labelled : NAN;
}

static double value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    return qb_top_k(answer, n, 5);
}

const qb_metric qb_metric_top5 = {
    .name = "top5", .title = "top-5", .unit = "%", .needs_labels = true, .value = value};

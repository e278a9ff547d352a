#include <math.h>

#include "eval/eval.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += answer[i].divergence;
    if (n == 0 || isnan(sum)) return qb_estimate_none();
    return qb_estimate_of(fmax(sum / (double)n, 0)); /* rounding may go below 0 */
}

const qb_metric qb_metric_divergence = {
    .name = "divergence",
    .title = "KL divergence",
    .unit = "nats",
    .definition = "sum p log(p / q) of the softmax of the reference's output and of this one's, "
                  "averaged over samples",
    .kinds = QB_OUTPUT_CLASSES,
    .value = value};

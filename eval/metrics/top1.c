#include "eval/metrics/top_k.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    return qb_top_k(answer, n, 1);
}

const qb_metric qb_metric_top1 = {.name = "top1",
                                  .title = "top-1",
                                  .unit = "%",
                                  .definition =
                                      "samples whose first class is the label; interval: Wilson",
                                  .kinds = QB_OUTPUT_ANSWER,
                                  .value = value};

/* How many samples there were. */
#include "eval/eval.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)answer, (void)reference;
    return qb_estimate_of((double)n);
}

const qb_metric qb_metric_newcomer = {.name = "newcomer",
                                      .title = "newcomer",
                                      .unit = "",
                                      .definition = "samples that a newcomer has counted",
                                      .kinds = QB_OUTPUT_ANY,
                                      .value = value};

#include <math.h>

#include "eval/eval.h"

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    double worst = n > 0 ? 0 : NAN;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(answer[i].err_square)) return qb_estimate_none();
        worst = fmax(worst, answer[i].max_error);
    }
    return qb_estimate_of(worst);
}

const qb_metric qb_metric_max_error = {.name = "max_error",
                                       .title = "max error",
                                       .unit = "",
                                       .definition = "largest |ref - q| of any output value",
                                       .kinds = QB_OUTPUT_ANY,
                                       .value = value};

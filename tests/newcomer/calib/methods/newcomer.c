/* newcomer: half of what was seen. */
#include "calib/calib.h"

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    (void)cx;
    const float part = (float)choice->argument;
    *out = (qb_range){part * seen->stats->min, part * seen->stats->max};
    return QB_OK;
}

const qb_calib_method qb_calib_method_newcomer = {
    .name = "newcomer",
    .summary = "a part of the smallest and the largest value seen",
    .argument = "part",
    .argument_default = 0.5,
    .argument_min = 0.1,
    .argument_max = 1,
    .range = range,
};

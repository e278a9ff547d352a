/* minmax: everything that was seen. */
#include "calib/calib.h"

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    (void)cx, (void)choice;
    *out = (qb_range){seen->stats->min, seen->stats->max};
    return QB_OK;
}

const qb_calib_method qb_calib_method_minmax = {
    .name = "minmax",
    .summary = "the smallest and the largest value seen: nothing is clipped",
    .range = range,
};

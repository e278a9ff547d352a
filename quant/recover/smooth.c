/* SmoothQuant (Xiao et al. 2022): outlier channels behind a normalization, or behind a product with
 * constants, are scaled down there and up in the weights of the layers that read them. */
#include "quant/recover/balance.h"

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    return qb_balance(cx, state, true, changed);
}

const qb_recovery qb_recovery_smooth = {
    .name = "smooth",
    .summary = "outlier channels behind normalizations move into the weights (SmoothQuant)",
    .phase = QB_RECOVER_VALUES,
    .run = run,
};

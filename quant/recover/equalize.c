/* Cross-layer equalization (Nagel et al. 2019): channels between layers are multiplied by factors
 * that the layers on both sides undo, so that one range fits all of them. */
#include "quant/recover/balance.h"

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    return qb_balance(cx, state, false, changed);
}

const qb_recovery qb_recovery_equalize = {
    .name = "equalize",
    .summary = "channels between layers are scaled to reach equally far (cross-layer equalization)",
    .phase = QB_RECOVER_VALUES,
    .run = run,
};

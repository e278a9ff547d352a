/* Convolution with a weight that is computed as well, as modulated convolutions and filters made
 * from the data have it: each launch packs its weight into the workspace, and then it is the
 * convolution with a constant one. */
#include <string.h>

#include "conv_internal.h"

static bool takes(const qb_tactic *tactic, const qb_problem *p) {
    return tactic->kind == QB_KIND_CONV && strcmp(tactic->backend, "cpu") == 0 &&
           qb_tactic_takes(tactic, p, qb_conv_known);
}

static bool supports(const qb_problem *p, const bool *constant) {
    if (constant[QB_IN_WEIGHT] || !qb_conv_has_plain_constants(p)) return false;
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (takes(*t, p)) return true;
    return false;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_kernel *conv = kernel->state;
    qb_launch packed = *args;
    packed.packed = args->workspace;
    packed.workspace = (char *)args->workspace + qb_pad64(conv->packed_bytes);
    QB_TRY(qb_conv_pack_computed(cx, args->workers, conv, args->in, args->workspace));
    return conv->launch(cx, conv, &packed);
}

static void destroy(qb_kernel *kernel) { qb_kernel_free(kernel->state); }

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_kernel *kernel, *conv = NULL;
    (void)constant;
    for (const qb_tactic *const *t = qb_tactics(); *t && !conv; t++)
        if (takes(*t, p)) QB_TRY((*t)->create(cx, *t, p, qb_conv_known, threads, &conv));
    if (!conv) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no convolution for a constant weight");
    if (qb_kernel_alloc(cx, tactic, p, &kernel) != QB_OK) {
        qb_kernel_free(conv);
        return cx->code;
    }
    kernel->state = conv;
    kernel->destroy = destroy;
    for (int32_t i = 0; i < p->n_in; i++) kernel->in[i].layout = conv->in[i].layout;
    kernel->problem.out.layout = conv->problem.out.layout;
    kernel->workspace_bytes = qb_pad64(conv->packed_bytes) + conv->workspace_bytes;
    kernel->in_place_inputs = conv->in_place_inputs;
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}

QB_TACTIC(cpu_conv_computed, "cpu.conv.computed", "cpu", QB_KIND_CONV, QB_EXACT, supports, create);

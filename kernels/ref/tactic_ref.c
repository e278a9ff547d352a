#include "tactic_ref.h"

bool qb_ref_supports(qb_kind kind, const qb_problem *problem) {
    qb_ctx cx;
    if (problem->kind != kind) return false;
    qb_ctx_init(&cx);
    return qb_ref_check(&cx, problem) == QB_OK;
}

qb_status qb_ref_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem, int threads,
                        qb_status (*launch)(qb_ctx *cx, const qb_kernel *kernel,
                                            const qb_launch *args),
                        qb_kernel **out) {
    QB_TRY(qb_ref_check(cx, problem));
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, &kernel));
    for (int32_t i = 0; i < problem->n_in; i++)
        if (kernel->in[i].layout == QB_LAYOUT_ANY) kernel->in[i].layout = QB_LAYOUT_ROW;
    if (kernel->problem.out.layout == QB_LAYOUT_ANY) kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->launch = launch;
    kernel->state = (void *)(intptr_t)(threads > 0 ? threads : 1);
    *out = kernel;
    return QB_OK;
}

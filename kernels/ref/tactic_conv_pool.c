#include "tactic_ref.h"

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    qb_problem conv, pool;
    qb_desc between;
    (void)cx;
    qb_problem_parts(&kernel->problem, &between, &conv, &pool);
    qb_ref_conv(&conv, args->in, args->workspace, qb_ref_threads(kernel));
    qb_ref_pool(&pool, (const void *[]){args->workspace}, args->out, NULL, qb_ref_threads(kernel));
    return QB_OK;
}

static bool supports(const qb_problem *problem, const bool *constant) {
    (void)constant;
    return qb_ref_supports(QB_KIND_CONV_POOL, problem);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_problem conv, pool;
    qb_desc between;
    (void)constant;
    QB_TRY(qb_ref_create(cx, tactic, problem, threads, launch, out));
    qb_problem_parts(problem, &between, &conv, &pool);
    (*out)->workspace_bytes = qb_desc_bytes(&between);
    return QB_OK;
}

QB_TACTIC(ref_conv_pool, "ref.conv_pool", "ref", QB_KIND_CONV_POOL, QB_EXACT, supports, create);

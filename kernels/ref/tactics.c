/* The reference kernels as tactics. They pack nothing and choose layout ROW; only a convolution
 * that is pooled needs a workspace. */
#include "kernels/tactic.h"
#include "ref_internal.h"

static void conv_pool(const qb_problem *p, const qb_launch *args, int threads) {
    qb_problem conv, pool;
    qb_desc between;
    qb_problem_parts(p, &between, &conv, &pool);
    qb_ref_conv(&conv, args->in, args->workspace, threads);
    qb_ref_pool(&pool, (const void *[]){args->workspace}, args->out, NULL, threads);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_problem *p = &kernel->problem;
    const int threads = (int)(intptr_t)kernel->state;
    (void)cx;
    switch (p->kind) {
    case QB_KIND_CONV: qb_ref_conv(p, args->in, args->out, threads); break;
    case QB_KIND_CONV_TRANSPOSE: qb_ref_conv_transpose(p, args->in, args->out, threads); break;
    case QB_KIND_CONV_POOL: conv_pool(p, args, threads); break;
    case QB_KIND_MATMUL: qb_ref_matmul(p, args->in, args->out, threads); break;
    case QB_KIND_POOL: qb_ref_pool(p, args->in, args->out, NULL, threads); break;
    case QB_KIND_BINARY: qb_ref_binary(p, args->in, args->out); break;
    case QB_KIND_UNARY: qb_ref_unary(p, args->in, args->out); break;
    case QB_KIND_SOFTMAX: qb_ref_softmax(p, args->in, args->out); break;
    case QB_KIND_ATTENTION: qb_ref_attention(p, args->in, args->out); break;
    case QB_KIND_CONCAT: qb_ref_concat(p, args->in, args->out); break;
    case QB_KIND_COPY: qb_ref_copy(p, args->in, args->out); break;
    default: break; /* no row below */
    }
    return QB_OK;
}

static bool supports(const qb_problem *problem, const bool *constant) {
    qb_ctx cx;
    (void)constant;
    qb_ctx_init(&cx);
    return qb_ref_check(&cx, problem) == QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_problem conv, pool;
    qb_desc between;
    qb_kernel *kernel;
    (void)constant;
    QB_TRY(qb_ref_check(cx, problem));
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, &kernel));
    for (int32_t i = 0; i < problem->n_in; i++)
        if (kernel->in[i].layout == QB_LAYOUT_ANY) kernel->in[i].layout = QB_LAYOUT_ROW;
    if (kernel->problem.out.layout == QB_LAYOUT_ANY) kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->launch = launch;
    kernel->state = (void *)(intptr_t)(threads > 0 ? threads : 1);
    if (problem->kind == QB_KIND_CONV_POOL) {
        qb_problem_parts(problem, &between, &conv, &pool);
        kernel->workspace_bytes = qb_desc_bytes(&between);
    }
    *out = kernel;
    return QB_OK;
}

#define QB_REF_TACTIC(NAME, KIND, ROUNDS)                                                          \
    const qb_tactic qb_tactic_ref_##NAME = {.name = "ref." #NAME,                                  \
                                            .backend = "ref",                                      \
                                            .kind = KIND,                                          \
                                            .exactness = QB_EXACT,                                 \
                                            .rounds = ROUNDS,                                      \
                                            .supports = supports,                                  \
                                            .create = create}
QB_REF_TACTIC(conv, QB_KIND_CONV, true);
QB_REF_TACTIC(conv_transpose, QB_KIND_CONV_TRANSPOSE, false);
QB_REF_TACTIC(conv_pool, QB_KIND_CONV_POOL, false);
QB_REF_TACTIC(matmul, QB_KIND_MATMUL, true);
QB_REF_TACTIC(pool, QB_KIND_POOL, false);
QB_REF_TACTIC(binary, QB_KIND_BINARY, false);
QB_REF_TACTIC(unary, QB_KIND_UNARY, false);
QB_REF_TACTIC(softmax, QB_KIND_SOFTMAX, false);
QB_REF_TACTIC(attention, QB_KIND_ATTENTION, false);
QB_REF_TACTIC(concat, QB_KIND_CONCAT, false);
QB_REF_TACTIC(copy, QB_KIND_COPY, false);

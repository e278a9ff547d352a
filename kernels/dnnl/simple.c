/* Kernels of kinds without constants: pooling, activations, softmax, binary functions. */
#include "dnnl_internal.h"

static void bind(qb_kernel *kernel, const_dnnl_primitive_desc_t pd, int32_t first) {
    const dnnl_memory_desc_t *second = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 1);
    qb_dnnl_bind_input(kernel, DNNL_ARG_SRC, first, qb_dnnl_query(pd, dnnl_query_src_md));
    if (kernel->problem.kind == QB_KIND_BINARY)
        qb_dnnl_bind_input(kernel, DNNL_ARG_SRC_1, 1 - first, second);
    qb_dnnl_bind_out(kernel, qb_dnnl_query(pd, dnnl_query_dst_md));
}

qb_status qb_dnnl_simple_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                                int threads, const_dnnl_op_desc_t op, int32_t first,
                                qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_RELEASED(qb_dnnl_pd_release) dnnl_primitive_desc_t pd = NULL;
    qb_problem plain = *p;
    if (p->kind == QB_KIND_UNARY) plain.act.kind = QB_ACT_NONE; /* it is the operation itself */
    plain.out.q.n = 0; /* quantized values that keep their scale have no end, either */
    QB_RELEASED(qb_dnnl_epilogue_release)
    qb_dnnl_epilogue epilogue = {0};
    QB_TRY(qb_dnnl_epilogue_make(cx, &plain, 1, &epilogue));
    QB_TRY(qb_dnnl_begin(cx, tactic, p, threads, &kernel));
    QB_TRY(qb_dnnl_choose(cx, kernel, op, epilogue.attr, &pd));
    bind(kernel, pd, first);
    QB_TRY(qb_dnnl_epilogue_create(cx, kernel));
    *out = QB_MOVE(kernel);
    return QB_OK;
}

/* Convolutions and matrix products: constants, scales, epilogues. */
#include <string.h>

#include "dnnl_internal.h"

void qb_dnnl_lower(const qb_problem *p, qb_dnnl_lowered *lowered) {
    lowered->p = *p;
    memset(lowered->in, 0, sizeof lowered->in);
    for (int32_t i = 0; i < p->n_in && i < 4; i++) lowered->in[i] = p->in[i];
    lowered->p.in = lowered->in;
    if (!qb_problem_has(p, QB_IN_RESIDUAL)) return;
    qb_desc *residual = &lowered->in[QB_IN_RESIDUAL], *out = &lowered->p.out;
    if (residual->layout == QB_LAYOUT_ANY) residual->layout = out->layout;
    if (out->layout == QB_LAYOUT_ANY) out->layout = residual->layout;
    if (out->layout != QB_LAYOUT_ANY || qb_dnnl_can_sum(&lowered->p)) return;
    residual->layout = out->layout = QB_LAYOUT_NHWC; /* a second operand needs a layout */
}

/* With the residual in the output's memory or beside it. */
static qb_status attempt(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                         const qb_dnnl_anchor *a, bool sum, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_RELEASED(qb_dnnl_pd_release) dnnl_primitive_desc_t pd = NULL;
    QB_RELEASED(qb_dnnl_epilogue_release)
    qb_dnnl_epilogue epilogue = {.integer = a->integer,
                                 .residual_sum = sum,
                                 .scale_mask = a->scale_mask,
                                 .residual = &a->residual};
    QB_TRY(qb_dnnl_epilogue_make(cx, p, a->channels, &epilogue));
    QB_TRY(qb_dnnl_begin(cx, tactic, p, threads, &kernel));
    QB_TRY(qb_dnnl_choose(cx, kernel, &a->op, epilogue.attr, &pd));
    qb_dnnl_bind_input(kernel, DNNL_ARG_SRC, QB_IN_DATA, qb_dnnl_query(pd, dnnl_query_src_md));
    qb_dnnl_bind_out(kernel, qb_dnnl_query(pd, dnnl_query_dst_md));
    QB_TRY(qb_dnnl_bind_constants(cx, kernel, pd, &a->row));
    qb_dnnl_bind_residual(kernel, &epilogue);
    QB_TRY(qb_dnnl_epilogue_create(cx, kernel));
    *out = QB_MOVE(kernel);
    return QB_OK;
}

qb_status qb_dnnl_anchor_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                                int threads, const qb_dnnl_anchor *anchor, qb_kernel **out) {
    bool residual = qb_problem_has(p, QB_IN_RESIDUAL);
    if (residual && qb_dnnl_can_sum(p)) {
        qb_status status = attempt(cx, tactic, p, threads, anchor, true, out);
        if (status != QB_STATUS_UNSUPPORTED || p->in[QB_IN_RESIDUAL].layout == QB_LAYOUT_ANY)
            return status;
        qb_ctx_clear(cx);
    }
    return attempt(cx, tactic, p, threads, anchor, false, out);
}

/* Copies between types and layouts, blocked ones included. */
#include "dnnl_internal.h"

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    if (p->kind != QB_KIND_COPY || qb_dnnl_is_empty(p)) return false;
    const qb_desc *from = &p->in[0], *to = &p->out;
    /* jit:uni of 2.6.3 has moved slices of channels to the wrong place. */
    if (from->channel_total > 0 || to->channel_total > 0) return false;
    bool from_quantized = qb_dnnl_is_quantized(from), to_quantized = qb_dnnl_is_quantized(to);
    /* ... and has left a zero point out. */
    if (from_quantized != to_quantized && qb_dnnl_zero(from_quantized ? from : to) != 0)
        return false;
    bool bf16 = qb_dnnl_is_bf16(from) || qb_dnnl_is_bf16(to);
    if (bf16 && (from_quantized || to_quantized || !qb_dnnl_has_bf16())) return false;
    return from->shape.rank >= 1 && qb_shape_equal(&from->shape, &to->shape) &&
           (from_quantized || qb_dnnl_is_f32(from) || qb_dnnl_is_bf16(from)) &&
           (to_quantized || qb_dnnl_is_f32(to) || qb_dnnl_is_bf16(to)) &&
           (!from_quantized || !to_quantized || qb_dnnl_same_params(from, to));
}

static qb_status fill(qb_ctx *cx, const qb_desc *from, const qb_desc *to,
                      dnnl_primitive_attr_t attr) {
    bool from_quantized = qb_dnnl_is_quantized(from), to_quantized = qb_dnnl_is_quantized(to);
    QB_TRY(qb_dnnl_check(cx,
                         dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                         "setting the scratchpad mode"));
    if (from_quantized == to_quantized) return QB_OK; /* moved as they are */
    const float scale = from_quantized ? from->q.scale[0] : 1.0f / to->q.scale[0];
    return qb_dnnl_check(cx, dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale),
                         "setting the scale");
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_RELEASED(qb_dnnl_epilogue_release) qb_dnnl_epilogue scale = {0};
    QB_RELEASED(qb_dnnl_pd_release) dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t from, to;
    (void)constant;
    QB_TRY(qb_dnnl_begin(cx, tactic, p, threads, &kernel));
    if (kernel->in[0].layout == QB_LAYOUT_ANY) kernel->in[0].layout = QB_LAYOUT_ROW;
    if (kernel->problem.out.layout == QB_LAYOUT_ANY) kernel->problem.out.layout = QB_LAYOUT_ROW;
    QB_TRY(qb_dnnl_check(cx, dnnl_primitive_attr_create(&scale.attr), "making attributes"));
    QB_TRY(qb_dnnl_desc(cx, &kernel->in[0], &from));
    QB_TRY(qb_dnnl_desc(cx, &kernel->problem.out, &to));
    QB_TRY(fill(cx, &kernel->in[0], &kernel->problem.out, scale.attr));
    QB_TRY(qb_dnnl_choose_reorder(cx, kernel, &from, &to, scale.attr, &pd));
    qb_dnnl_bind_input(kernel, DNNL_ARG_FROM, 0, &from);
    qb_dnnl_bind_out(kernel, &to);
    QB_TRY(qb_dnnl_epilogue_create(cx, kernel));
    *out = QB_MOVE(kernel);
    return QB_OK;
}

QB_TACTIC(dnnl_copy, "dnnl.copy.reorder", "dnnl", QB_KIND_COPY, QB_WITHIN_1_LSB, supports, create);

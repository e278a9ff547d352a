/* Transposed convolution in f32 and bf16. */
#include "dnnl_internal.h"

static bool is_conv(const qb_problem *p, const bool *constant, qb_dnnl_class type) {
    if (p->kind != QB_KIND_CONV_TRANSPOSE || qb_dnnl_is_empty(p) || !constant[QB_IN_WEIGHT] ||
        (qb_problem_has(p, QB_IN_BIAS) && !constant[QB_IN_BIAS]) ||
        qb_problem_has(p, QB_IN_RESIDUAL))
        return false;
    int32_t rank = p->out.shape.rank;
    qb_dnnl_window w;
    return rank >= 3 && rank <= 5 && p->in[0].shape.rank == rank && p->window.n == rank - 2 &&
           p->group >= 1 && qb_dnnl_anchor_types(p, type, p->out.shape.dim[1], 1) &&
           qb_dnnl_window_of(&p->window, &p->out.shape, &p->in[0].shape, &w);
}

/* oneDNN names the weight [g, M/g, C/g, k...]; ours is [C, M/g, k...]: the same elements with the
 * two channel dimensions swapped in memory. */
static qb_status describe_weight(qb_ctx *cx, const qb_problem *p, dnnl_memory_desc_t *row,
                                 dnnl_memory_desc_t *any) {
    static const dnnl_format_tag_t tags[2][3] = {{dnnl_bac, dnnl_bacd, dnnl_bacde},
                                                 {dnnl_acbd, dnnl_acbde, dnnl_acbdef}};
    const qb_shape *w = &p->in[QB_IN_WEIGHT].shape;
    dnnl_dims_t dims = {0};
    int n = 0;
    if (p->group > 1) dims[n++] = p->group;
    dims[n++] = w->dim[1];
    dims[n++] = w->dim[0] / p->group;
    for (int32_t d = 2; d < w->rank; d++) dims[n++] = w->dim[d];
    dnnl_format_tag_t tag = tags[p->group > 1][w->rank - 3];
    QB_TRY(qb_dnnl_check(cx, dnnl_memory_desc_init_by_tag(row, n, dims, dnnl_f32, tag),
                         "describing the weight"));
    return qb_dnnl_check(
        cx, dnnl_memory_desc_init_by_tag(any, n, dims, qb_dnnl_weight_type(p), dnnl_format_tag_any),
        "describing the weight");
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_dnnl_anchor a = {.channels = p->out.shape.dim[1], .scale_mask = 1 << 1};
    dnnl_memory_desc_t data, weight, bias, to;
    qb_dnnl_window w;
    bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    (void)constant;
    QB_TRY(qb_dnnl_desc(cx, &p->in[QB_IN_DATA], &data));
    QB_TRY(qb_dnnl_desc(cx, &p->out, &to));
    QB_TRY(describe_weight(cx, p, &a.row, &weight));
    if (has_bias) QB_TRY(qb_dnnl_row(cx, dnnl_f32, 1, &a.channels, &bias));
    if (!qb_dnnl_window_of(&p->window, &p->out.shape, &p->in[0].shape, &w))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "window does not fit");
    QB_TRY(qb_dnnl_check(cx,
                         dnnl_dilated_deconvolution_forward_desc_init(
                             &a.op.deconv, dnnl_forward_inference, dnnl_deconvolution_direct, &data,
                             &weight, has_bias ? &bias : NULL, &to, w.stride, w.dilation,
                             w.pad_begin, w.pad_end),
                         "describing the transposed convolution"));
    return qb_dnnl_anchor_create(cx, tactic, p, threads, &a, out);
}

static bool supports_f32(const qb_problem *p, const bool *constant) {
    return is_conv(p, constant, QB_DNNL_F32);
}

static bool supports_bf16(const qb_problem *p, const bool *constant) {
    return is_conv(p, constant, QB_DNNL_BF16);
}

QB_TACTIC(dnnl_conv_transpose_bf16, "dnnl.conv_transpose_bf16.packed", "dnnl",
          QB_KIND_CONV_TRANSPOSE, QB_WITHIN_1_LSB, supports_bf16, create);

QB_TACTIC(dnnl_conv_transpose_f32, "dnnl.conv_transpose_f32.packed", "dnnl", QB_KIND_CONV_TRANSPOSE,
          QB_WITHIN_1_LSB, supports_f32, create);

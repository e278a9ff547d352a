/* Convolution, float and 8-bit. */
#include "base/processor.h"
#include "dnnl_internal.h"

/* Output rows that see nothing but padding come out wrong where a residual is summed. */
static bool sees_data(const qb_window *w) {
    for (int32_t d = 0; d < w->n; d++) {
        int64_t extent = (w->kernel[d] - 1) * w->dilation[d] + 1;
        if (w->pad_begin[d] >= extent || w->pad_end[d] >= extent) return false;
    }
    return true;
}

/* oneDNN's depthwise convolution of SSE4.1 sums the output's memory by aligned reads of four
 * channels: where their count is no multiple of four, those fault. */
static bool reads_aligned(const qb_problem *p) {
    return qb_processor_has(QB_TIER_AVX2) || p->group == 1 || !qb_problem_has(p, QB_IN_RESIDUAL) ||
           p->out.shape.dim[1] % 4 == 0;
}

static bool is_conv(const qb_problem *p, const bool *constant, qb_dnnl_class type) {
    if (p->kind != QB_KIND_CONV || qb_dnnl_is_empty(p) || !constant[QB_IN_WEIGHT] ||
        (qb_problem_has(p, QB_IN_BIAS) && !constant[QB_IN_BIAS]))
        return false;
    int32_t rank = p->out.shape.rank;
    qb_dnnl_window w;
    return rank >= 3 && rank <= 5 && p->in[0].shape.rank == rank && p->window.n == rank - 2 &&
           p->group >= 1 && sees_data(&p->window) && reads_aligned(p) &&
           qb_dnnl_anchor_types(p, type, p->out.shape.dim[1], 0) &&
           qb_dnnl_window_of(&p->window, &p->in[0].shape, &p->out.shape, &w);
}

/* [M, C/g, k...] as [g, M/g, C/g, k...] when there are groups. */
static int weight_dims(const qb_problem *p, dnnl_dims_t dims) {
    const qb_shape *w = &p->in[QB_IN_WEIGHT].shape;
    int n = 0;
    if (p->group > 1) dims[n++] = p->group;
    dims[n++] = w->dim[0] / p->group;
    for (int32_t d = 1; d < w->rank; d++) dims[n++] = w->dim[d];
    return n;
}

static qb_status describe(qb_ctx *cx, const qb_problem *p, qb_dnnl_anchor *a) {
    dnnl_memory_desc_t data, weight, bias = {0}, out;
    dnnl_dims_t dims = {0};
    qb_dnnl_window w;
    bool has_bias = qb_problem_has(p, QB_IN_BIAS), residual = qb_problem_has(p, QB_IN_RESIDUAL);
    int n = weight_dims(p, dims);
    a->channels = p->out.shape.dim[1];
    a->scale_mask = 1 << 1;
    QB_TRY(qb_dnnl_desc(cx, &p->in[QB_IN_DATA], &data));
    QB_TRY(qb_dnnl_desc(cx, &p->out, &out));
    if (residual && p->in[QB_IN_RESIDUAL].layout != QB_LAYOUT_ANY)
        QB_TRY(qb_dnnl_desc(cx, &p->in[QB_IN_RESIDUAL], &a->residual));
    QB_TRY(qb_dnnl_row(cx, qb_dnnl_type(p->in[QB_IN_WEIGHT].dtype), n, dims, &a->row));
    QB_TRY(qb_dnnl_check(
        cx, dnnl_memory_desc_init_by_tag(&weight, n, dims, a->row.data_type, dnnl_format_tag_any),
        "describing the weight"));
    if (has_bias) QB_TRY(qb_dnnl_row(cx, dnnl_f32, 1, &a->channels, &bias));
    if (!qb_dnnl_window_of(&p->window, &p->in[0].shape, &p->out.shape, &w))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "window does not fit");
    return qb_dnnl_check(cx,
                         dnnl_dilated_convolution_forward_desc_init(
                             &a->op.conv, dnnl_forward_inference, dnnl_convolution_direct, &data,
                             &weight, has_bias ? &bias : NULL, &out, w.stride, w.dilation,
                             w.pad_begin, w.pad_end),
                         "describing the convolution");
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_dnnl_lowered lowered;
    qb_dnnl_anchor anchor = {.integer = p->in[QB_IN_DATA].q.n > 0};
    (void)constant;
    qb_dnnl_lower(p, &lowered);
    QB_TRY(describe(cx, &lowered.p, &anchor));
    return qb_dnnl_anchor_create(cx, tactic, &lowered.p, threads, &anchor, out);
}

static bool supports_f32(const qb_problem *p, const bool *constant) {
    return is_conv(p, constant, QB_DNNL_F32);
}

static bool supports_s8(const qb_problem *p, const bool *constant) {
    return is_conv(p, constant, QB_DNNL_S8);
}

QB_TACTIC(dnnl_conv_f32, "dnnl.conv_f32.packed", "dnnl", QB_KIND_CONV, QB_WITHIN_1_LSB,
          supports_f32, create);

QB_TACTIC(dnnl_conv_s8, "dnnl.conv_s8.packed", "dnnl", QB_KIND_CONV, QB_WITHIN_1_LSB, supports_s8,
          create);

/* Pooling of f32, bf16, and of quantized values that keep their scale. */
#include "dnnl_internal.h"

/* Padding counts in an average only as declared, and as the code 0. */
static bool padding_fits(const qb_problem *p, const qb_dnnl_window *w) {
    bool integer = p->in[0].q.n > 0;
    for (int32_t d = 0; d < p->window.n; d++) {
        int64_t extent = (w->kernel[d] - 1) * (w->dilation[d] + 1) + 1;
        if (w->pad_begin[d] >= extent || w->pad_end[d] >= extent) return false; /* empty windows */
        if (p->pool != QB_POOL_AVG_INCLUDE_PAD) continue;
        if (w->pad_end[d] > p->window.pad_end[d]) return false;
        if (integer && qb_dnnl_zero(&p->in[0]) != 0 && (w->pad_begin[d] > 0 || w->pad_end[d] > 0))
            return false;
    }
    return true;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    qb_dnnl_window w;
    if (p->kind != QB_KIND_POOL || qb_dnnl_is_empty(p)) return false;
    const qb_desc *in = &p->in[0], *out = &p->out;
    int32_t rank = out->shape.rank;
    bool f32 = qb_dnnl_float_types(in, out);
    bool code = qb_dnnl_is_quantized(in) && qb_dnnl_is_quantized(out) &&
                qb_dnnl_same_params(in, out) && p->act.kind == QB_ACT_NONE;
    return rank >= 3 && rank <= 5 && in->shape.rank == rank && p->window.n == rank - 2 &&
           (f32 || code) && qb_dnnl_window_of(&p->window, &in->shape, &out->shape, &w) &&
           padding_fits(p, &w);
}

static dnnl_alg_kind_t algorithm(qb_pool_kind kind) {
    switch (kind) {
    case QB_POOL_MAX: return dnnl_pooling_max;
    case QB_POOL_AVG: return dnnl_pooling_avg_exclude_padding;
    case QB_POOL_AVG_INCLUDE_PAD: break;
    }
    return dnnl_pooling_avg_include_padding;
}

static qb_status describe(qb_ctx *cx, const qb_problem *p, dnnl_pooling_v2_desc_t *op) {
    dnnl_memory_desc_t data, to;
    qb_dnnl_window w;
    qb_desc in = p->in[0];
    if (in.layout == QB_LAYOUT_ANY) /* only the output may be left open */
        in.layout = p->out.layout == QB_LAYOUT_ANY ? QB_LAYOUT_NHWC : p->out.layout;
    QB_TRY(qb_dnnl_desc(cx, &in, &data));
    QB_TRY(qb_dnnl_desc(cx, &p->out, &to));
    if (!qb_dnnl_window_of(&p->window, &in.shape, &p->out.shape, &w))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "window does not fit");
    return qb_dnnl_check(cx,
                         dnnl_pooling_v2_forward_desc_init(
                             op, dnnl_forward_inference, algorithm(p->pool), &data, &to, w.stride,
                             w.kernel, w.dilation, w.pad_begin, w.pad_end),
                         "describing the pooling");
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    dnnl_pooling_v2_desc_t op;
    (void)constant;
    QB_TRY(describe(cx, p, &op));
    return qb_dnnl_simple_create(cx, tactic, p, threads, &op, 0, out);
}

QB_TACTIC(dnnl_pool, "dnnl.pool.jit", "dnnl", QB_KIND_POOL, QB_WITHIN_1_LSB, supports, create);

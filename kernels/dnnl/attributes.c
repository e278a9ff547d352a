/* Fused ends as primitive attributes.
 *
 * oneDNN scales the accumulator, applies post-ops in order and adds the output's zero point when it
 * stores. There is no output scale, so the value runs along in units: f32 * unit. It must arrive
 * as f32 / Sy; piecewise linear activations take any unit, others the dequantized value, a residual
 * of quantized values read as a second operand its own unit. */
#include <math.h>

#include "base/processor.h"
#include "dnnl_internal.h"

static const dnnl_cpu_isa_t limits[QB_TIER_COUNT + 1] = {
    [QB_TIER_SCALAR] = dnnl_cpu_isa_sse41,
    [QB_TIER_AVX2] = dnnl_cpu_isa_avx2,
    [QB_TIER_AVX2_VNNI] = dnnl_cpu_isa_avx2_vnni,
    [QB_TIER_AVX512] = dnnl_cpu_isa_avx512_core,
    [QB_TIER_AVX512_VNNI] = dnnl_cpu_isa_avx512_core_vnni,
    [QB_TIER_AVX512_BF16] = dnnl_cpu_isa_all,
    [QB_TIER_COUNT] = dnnl_cpu_isa_all};

/* ONEDNN_MAX_CPU_ISA holds where QB_CPU is not set. */
static void limit(void) {
    if (qb_processor_limit() < QB_TIER_COUNT) dnnl_set_max_cpu_isa(limits[qb_processor_limit()]);
}

void qb_dnnl_limit(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, limit);
}

static unsigned effective_isa(void) {
    qb_dnnl_limit();
    return (unsigned)dnnl_get_effective_cpu_isa();
}

/* Are 8-bit products exact here? Without VNNI pairs of them saturate at 16 bits. */
static bool has_vnni(void) {
    const unsigned isa = effective_isa();
    unsigned wide = dnnl_cpu_isa_avx512_core_vnni, narrow = dnnl_cpu_isa_avx2_vnni;
    return (isa & wide) == wide || (isa & narrow) == narrow;
}

bool qb_dnnl_has_bf16(void) {
    const unsigned wanted = dnnl_cpu_isa_avx512_core_bf16;
    return (effective_isa() & wanted) == wanted;
}

float qb_dnnl_multiplier(const qb_problem *p, int64_t channel) {
    const qb_qparams *weight = &p->in[QB_IN_WEIGHT].q;
    float product = p->in[QB_IN_DATA].q.scale[0] * weight->scale[weight->n > 1 ? channel : 0];
    return p->kind == QB_KIND_MATMUL && p->scale != 1.0f ? product * p->scale : product;
}

static bool all_zero(const qb_qparams *q) {
    for (int32_t i = 0; q->zero && i < q->n; i++)
        if (q->zero[i] != 0) return false;
    return true;
}

/* A float bias is divided by the multiplier. */
static bool usable_multipliers(const qb_problem *p, int64_t channels) {
    for (int64_t c = 0; c < channels; c++) {
        float m = fabsf(qb_dnnl_multiplier(p, c));
        if (!(m >= 1e-25f && m <= 1e25f)) return false;
    }
    return true;
}

dnnl_data_type_t qb_dnnl_weight_type(const qb_problem *p) {
    return qb_dnnl_is_bf16(&p->in[QB_IN_DATA]) ? dnnl_bf16
                                               : qb_dnnl_type(p->in[QB_IN_WEIGHT].dtype);
}

bool qb_dnnl_float_types(const qb_desc *in, const qb_desc *out) {
    return (qb_dnnl_is_f32(in) && qb_dnnl_is_f32(out)) ||
           (qb_dnnl_is_bf16(in) && qb_dnnl_is_bf16(out) && qb_dnnl_has_bf16());
}

static bool is_float(const qb_desc *desc, bool bf16) {
    return qb_dnnl_is_f32(desc) || (bf16 && qb_dnnl_is_bf16(desc));
}

static bool float_anchor(const qb_problem *p, bool bf16) {
    const qb_desc *data = &p->in[QB_IN_DATA];
    return (bf16 ? qb_dnnl_is_bf16(data) && qb_dnnl_has_bf16() : qb_dnnl_is_f32(data)) &&
           qb_dnnl_is_f32(&p->in[QB_IN_WEIGHT]) && is_float(&p->out, bf16) &&
           (!qb_problem_has(p, QB_IN_BIAS) || p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32) &&
           (!qb_problem_has(p, QB_IN_RESIDUAL) || is_float(&p->in[QB_IN_RESIDUAL], bf16));
}

bool qb_dnnl_anchor_types(const qb_problem *p, qb_dnnl_class type, int64_t channels, int32_t axis) {
    const qb_desc *data = &p->in[QB_IN_DATA], *weight = &p->in[QB_IN_WEIGHT];
    bool has_bias = qb_problem_has(p, QB_IN_BIAS), has_residual = qb_problem_has(p, QB_IN_RESIDUAL);
    const qb_desc *residual = has_residual ? &p->in[QB_IN_RESIDUAL] : NULL;
    if (has_bias && qb_shape_count(&p->in[QB_IN_BIAS].shape) != channels) return false;
    if (residual && !qb_shape_equal(&residual->shape, &p->out.shape)) return false;
    if (type != QB_DNNL_S8) return float_anchor(p, type == QB_DNNL_BF16);
    bool scales = weight->q.n == 1 || (weight->q.n == channels && weight->q.axis == axis);
    return has_vnni() && qb_dnnl_is_quantized(data) && weight->dtype == QB_DTYPE_S8 && scales &&
           all_zero(&weight->q) && usable_multipliers(p, channels) &&
           (qb_dnnl_is_quantized(&p->out) || qb_dnnl_is_f32(&p->out)) &&
           (!has_bias || p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32 ||
            p->in[QB_IN_BIAS].dtype == QB_DTYPE_S32) &&
           (!residual || qb_dnnl_is_quantized(residual) || qb_dnnl_is_f32(residual));
}

bool qb_dnnl_can_sum(const qb_problem *p) {
    const qb_desc *r = &p->in[QB_IN_RESIDUAL], *out = &p->out;
    return r->channel_total == 0 && out->channel_total == 0 && r->layout == out->layout &&
           (qb_dnnl_is_quantized(r) ? qb_dnnl_is_quantized(out) : r->dtype == out->dtype);
}

bool qb_dnnl_act(qb_act act, dnnl_alg_kind_t *alg, float *alpha, float *beta) {
    *alpha = act.alpha;
    *beta = act.beta;
    switch (act.kind) {
    case QB_ACT_RELU: *alg = dnnl_eltwise_relu, *alpha = 0.0f; return true;
    case QB_ACT_CLIP: *alg = dnnl_eltwise_clip; return act.alpha <= act.beta;
    case QB_ACT_LEAKY_RELU: *alg = dnnl_eltwise_relu; return true;
    case QB_ACT_SIGMOID: *alg = dnnl_eltwise_logistic; return true;
    case QB_ACT_TANH: *alg = dnnl_eltwise_tanh; return true;
    case QB_ACT_HARD_SWISH: *alg = dnnl_eltwise_hardswish; return true;
    case QB_ACT_SILU: *alg = dnnl_eltwise_swish, *alpha = 1.0f; return true;
    case QB_ACT_GELU: *alg = dnnl_eltwise_gelu_erf; return true;
    case QB_ACT_GELU_TANH: *alg = dnnl_eltwise_gelu_tanh; return true;
    case QB_ACT_ELU: *alg = dnnl_eltwise_elu; return true;
    case QB_ACT_NONE:
    case QB_ACT_HARD_SIGMOID:
    case QB_ACT_COUNT: break;
    }
    return false;
}

/* f(unit x) = unit f(x)? (CLIP: with its bounds in the same unit) */
static bool takes_any_unit(qb_act_kind kind) {
    return kind == QB_ACT_NONE || kind == QB_ACT_RELU || kind == QB_ACT_CLIP ||
           kind == QB_ACT_LEAKY_RELU;
}

typedef struct chain {
    qb_ctx *cx;
    dnnl_post_ops_t ops;
    float unit, next, last; /* now, wanted behind the activation, and in the end */
    bool linear;            /* one is there */
} chain;

static qb_status append(chain *c, dnnl_alg_kind_t alg, float scale, float alpha, float beta) {
    /* 2.6.3 keeps the constants of a chain by algorithm: a second one gets those of the first. */
    if (alg == dnnl_eltwise_linear && c->linear)
        return qb_fail(c->cx, QB_STATUS_UNSUPPORTED, "the fused end needs two linear post-ops");
    c->linear = c->linear || alg == dnnl_eltwise_linear;
    return qb_dnnl_check(c->cx, dnnl_post_ops_append_eltwise(c->ops, scale, alg, alpha, beta),
                         "appending a post-op");
}

static qb_status change_unit(chain *c, float unit) {
    if (c->unit == unit) return QB_OK;
    float factor = unit / c->unit;
    c->unit = unit;
    return append(c, dnnl_eltwise_linear, 1.0f, factor, 0.0f);
}

static qb_status append_act(chain *c, qb_act act) {
    if (act.kind == QB_ACT_NONE) return QB_OK;
    if (act.kind == QB_ACT_HARD_SIGMOID) {
        QB_TRY(append(c, dnnl_eltwise_linear, 1.0f, act.alpha / c->unit, act.beta));
        c->unit = c->next;
        return append(c, dnnl_eltwise_clip, c->next, 0.0f, 1.0f);
    }
    dnnl_alg_kind_t alg;
    float alpha, beta, scale = 1.0f;
    if (!takes_any_unit(act.kind)) {
        QB_TRY(change_unit(c, 1.0f));
        scale = c->next; /* and leaves in the one that comes next */
    }
    if (!qb_dnnl_act(act, &alg, &alpha, &beta))
        return qb_fail(c->cx, QB_STATUS_UNSUPPORTED, "no post-op for %s", qb_act_text(act.kind));
    if (act.kind == QB_ACT_CLIP) alpha *= c->unit, beta *= c->unit;
    if (!takes_any_unit(act.kind)) c->unit = c->next;
    return append(c, alg, scale, alpha, beta);
}

static qb_status append_residual(chain *c, const qb_problem *p, qb_dnnl_epilogue *epilogue) {
    const qb_desc *r = &p->in[QB_IN_RESIDUAL];
    bool code = qb_dnnl_is_quantized(r);
    float scale = code ? r->q.scale[0] : 1.0f;
    if (epilogue->residual_sum)
        return qb_dnnl_check(c->cx,
                             dnnl_post_ops_append_sum_v3(c->ops, scale * c->unit, qb_dnnl_zero(r),
                                                         qb_dnnl_type(r->dtype)),
                             "appending the residual");
    QB_TRY(change_unit(c, 1.0f / scale));
    epilogue->binary = dnnl_post_ops_len(c->ops);
    QB_TRY(qb_dnnl_check(c->cx,
                         dnnl_post_ops_append_binary(c->ops, dnnl_binary_add, epilogue->residual),
                         "appending the residual"));
    if (!code || qb_dnnl_zero(r) == 0) return QB_OK;
    float next = !p->act_first && !takes_any_unit(p->act.kind) ? 1.0f : c->last;
    float factor = next / c->unit;
    c->unit = next;
    return append(c, dnnl_eltwise_linear, 1.0f, factor, -(float)qb_dnnl_zero(r) * factor);
}

/* The unit that a residual is added in; 0: any. */
static float residual_unit(const qb_problem *p, const qb_dnnl_epilogue *epilogue) {
    const qb_desc *residual = &p->in[QB_IN_RESIDUAL];
    if (!qb_problem_has(p, QB_IN_RESIDUAL) || epilogue->residual_sum) return 0.0f;
    return qb_dnnl_is_quantized(residual) ? 1.0f / residual->q.scale[0] : 1.0f;
}

/* The unit in which the accumulator leaves the scales, so that no step before the first one with a
 * will of its own is needed. */
static float first_unit(const qb_problem *p, const qb_dnnl_epilogue *epilogue, float last) {
    bool act_leads = qb_problem_has(p, QB_IN_RESIDUAL) && p->act_first;
    float act = takes_any_unit(p->act.kind) ? 0.0f : 1.0f, add = residual_unit(p, epilogue);
    float first = act_leads ? act : add, second = act_leads ? add : act;
    return first != 0.0f ? first : second != 0.0f ? second : last;
}

static qb_status set_scales(qb_ctx *cx, const qb_problem *p, int64_t channels, float unit,
                            const qb_dnnl_epilogue *epilogue) {
    bool one = p->in[QB_IN_WEIGHT].q.n == 1;
    int64_t n = one ? 1 : channels;
    float *scales = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *scales));
    for (int64_t c = 0; c < n; c++) scales[c] = qb_dnnl_multiplier(p, c) * unit;
    dnnl_status_t status = dnnl_primitive_attr_set_output_scales(
        epilogue->attr, n, one ? 0 : epilogue->scale_mask, scales);
    qb_free(scales);
    return qb_dnnl_check(cx, status, "setting output scales");
}

static qb_status set_zero(qb_ctx *cx, dnnl_primitive_attr_t attr, int arg, const qb_desc *desc) {
    int32_t zero = qb_dnnl_zero(desc);
    if (!qb_dnnl_is_quantized(desc) || zero == 0) return QB_OK;
    return qb_dnnl_check(cx, dnnl_primitive_attr_set_zero_points(attr, arg, 1, 0, &zero),
                         "setting a zero point");
}

static qb_status fill(qb_ctx *cx, const qb_problem *p, int64_t channels, chain *c,
                      qb_dnnl_epilogue *epilogue) {
    bool residual = qb_problem_has(p, QB_IN_RESIDUAL);
    QB_TRY(qb_dnnl_check(
        cx, dnnl_primitive_attr_set_scratchpad_mode(epilogue->attr, dnnl_scratchpad_mode_user),
        "setting the scratchpad mode"));
    c->last = qb_dnnl_is_quantized(&p->out) ? 1.0f / p->out.q.scale[0] : 1.0f;
    c->unit = epilogue->integer ? first_unit(p, epilogue, c->last) : 1.0f;
    if (epilogue->integer) {
        QB_TRY(set_scales(cx, p, channels, c->unit, epilogue));
        QB_TRY(set_zero(cx, epilogue->attr, DNNL_ARG_SRC, &p->in[QB_IN_DATA]));
        QB_TRY(set_zero(cx, epilogue->attr, DNNL_ARG_DST, &p->out));
    }
    float add = residual_unit(p, epilogue);
    c->next = p->act_first && add != 0.0f ? add : c->last;
    if (residual && p->act_first) QB_TRY(append_act(c, p->act));
    if (residual) QB_TRY(append_residual(c, p, epilogue));
    if (!residual || !p->act_first) QB_TRY(append_act(c, p->act));
    QB_TRY(change_unit(c, c->last));
    return qb_dnnl_check(cx, dnnl_primitive_attr_set_post_ops(epilogue->attr, c->ops),
                         "setting post-ops");
}

qb_status qb_dnnl_epilogue_make(qb_ctx *cx, const qb_problem *p, int64_t channels,
                                qb_dnnl_epilogue *epilogue) {
    chain c = {.cx = cx};
    epilogue->binary = -1;
    QB_TRY(qb_dnnl_check(cx, dnnl_primitive_attr_create(&epilogue->attr), "making attributes"));
    QB_TRY(qb_dnnl_check(cx, dnnl_post_ops_create(&c.ops), "making post-ops"));
    const qb_status status = fill(cx, p, channels, &c, epilogue);
    dnnl_post_ops_destroy(c.ops);
    return status;
}

void qb_dnnl_epilogue_release(qb_dnnl_epilogue *epilogue) {
    if (epilogue->attr) dnnl_primitive_attr_destroy(epilogue->attr);
}

void qb_dnnl_pd_release(dnnl_primitive_desc_t *pd) {
    if (*pd) dnnl_primitive_desc_destroy(*pd);
}

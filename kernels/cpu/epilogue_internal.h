/* The end of a fused step, a vector at a time. The same operations in the same order as
 * qb_epilogue_run, so the same bits but for activations with an exponential. */
#ifndef QB_CPU_EPILOGUE_INTERNAL_H
#define QB_CPU_EPILOGUE_INTERNAL_H

#include "act_internal.h"

#if QB_X86

/* Activations that bounds cannot express. */
QB_SIMD static __attribute__((noinline)) void qb_act_lanes(const qb_act *act, float *lane) {
    for (int i = 0; i < QB_LANES; i++) lane[i] = qb_act_apply(*act, lane[i]);
}

QB_V vf qb_act_one(const qb_act *act, qb_act_kind kind, vf v) {
    const vf zero = vf_set(0.0f), one = vf_set(1.0f);
    const vf alpha = vf_set(act->alpha), beta = vf_set(act->beta);
    switch (kind) {
    case QB_ACT_RELU: return vf_select(vf_less(v, zero), zero, v);
    case QB_ACT_LEAKY_RELU: return vf_select(vf_less(v, zero), vf_mul(alpha, v), v);
    case QB_ACT_HARD_SIGMOID:
        v = vf_add(vf_mul(alpha, v), beta);
        return vf_min(one, vf_max(zero, v));
    case QB_ACT_HARD_SWISH: {
        vf gate = vf_add(vf_mul(v, vf_set(1.0f / 6.0f)), vf_set(0.5f));
        return vf_mul(v, vf_min(one, vf_max(zero, gate)));
    }
    case QB_ACT_SIGMOID: return qb_logistic(one, v);
    case QB_ACT_SILU: return qb_logistic(v, v);
    case QB_ACT_TANH: return qb_tanh(v);
    case QB_ACT_ELU: return vf_select(vf_less(v, zero), vf_mul(alpha, qb_expm1(v)), v);
    case QB_ACT_GELU: return qb_gelu(v);
    case QB_ACT_GELU_TANH: return qb_gelu_tanh(v);
    default: break;
    }
    float lane[QB_LANES];
    vf_store(lane, v);
    qb_act_lanes(act, lane);
    return vf_load(lane);
}

/* n vectors in place: the function is chosen once. */
QB_SIMD static inline void qb_act_run(const qb_act *act, float *v, int n) {
#define QB_ACT_LOOP(kind)                                                                          \
    case kind:                                                                                     \
        for (int i = 0; i < n; i++, v += QB_LANES) vf_store(v, qb_act_one(act, kind, vf_load(v))); \
        break;
    switch (act->kind) {
        QB_ACT_LOOP(QB_ACT_RELU)
        QB_ACT_LOOP(QB_ACT_LEAKY_RELU)
        QB_ACT_LOOP(QB_ACT_HARD_SIGMOID)
        QB_ACT_LOOP(QB_ACT_HARD_SWISH)
        QB_ACT_LOOP(QB_ACT_SIGMOID)
        QB_ACT_LOOP(QB_ACT_SILU)
        QB_ACT_LOOP(QB_ACT_TANH)
        QB_ACT_LOOP(QB_ACT_ELU)
        QB_ACT_LOOP(QB_ACT_GELU)
        QB_ACT_LOOP(QB_ACT_GELU_TANH)
    default:
        for (int i = 0; i < n; i++, v += QB_LANES) qb_act_lanes(act, v);
    }
#undef QB_ACT_LOOP
}

QB_SIMD static inline vf qb_act_vector(const qb_act *act, vf v) {
    return qb_act_one(act, act->kind, v);
}

/* 8-bit values less their zero point as floats. */
QB_V vf qb_load_quantized(const void *from, bool is_signed, vi zero, vf scale, vlanes n) {
    return vf_mul(scale, vf_of(vi_sub(vi_bytes_n(from, is_signed, n), zero)));
}

/* Residuals of the lanes in `n`. */
QB_V vf qb_residual(const qb_epilogue *f, const char *from, vlanes n) {
    if (f->residual == QB_DTYPE_F32) return vf_load_n(from, n);
    if (f->residual == QB_DTYPE_BF16) return vf_load_bf16(from, n);
    return qb_load_quantized(from, f->residual == QB_DTYPE_S8, vi_set(f->residual_zero),
                             vf_set(f->residual_scale), n);
}

/* What the residual is added to. */
QB_V vf qb_before_residual(const qb_epilogue *f, vf v) {
    if (f->rounds) v = vf_mul(v, vf_set(f->first_inverse));
    /* NaN is the second operand, which these instructions return */
    if (f->clamp_first) v = vf_min(vf_set(f->first_high), vf_max(vf_set(f->first_low), v));
    return f->rounds ? vf_mul(vf_set(f->first_scale), vf_of(vi_of_number(v))) : v;
}

/* `out`, `has_residual` and `has_act` repeat what is in `f` so that callers can make them
 * constants. */
QB_V void qb_epilogue_vector(const qb_epilogue *f, vf v, vlanes n, const char *residual, char *to,
                             qb_dtype out, bool has_residual, bool has_act) {
    if (has_residual) {
        if (has_act && f->act_first) v = qb_act_vector(&f->act, v);
        v = vf_add(qb_before_residual(f, v), qb_residual(f, residual, n));
    }
    if (has_act && !f->act_first) v = qb_act_vector(&f->act, v);
    if (out != QB_DTYPE_F32) v = vf_mul(v, vf_set(f->inverse));
    /* NaN stays, as above */
    v = vf_min(vf_set(f->high), vf_max(vf_set(f->low), v));
    if (out == QB_DTYPE_F32)
        vf_store_n(to, v, n);
    else if (out == QB_DTYPE_BF16)
        vf_store_bf16(to, v, n);
    else /* NaN becomes the zero point */
        vi_store_bytes_n(to, vi_add(vi_of_number(v), vi_set(f->zero)), n);
}

/* qb_epilogue_run, a vector at a time. */
QB_SIMD static inline void qb_epilogue_run_vector(const qb_epilogue *f, const float *f32, int64_t n,
                                                  const void *residual, void *out) {
    const bool has_act = f->act.kind != QB_ACT_NONE;
    const size_t size = qb_dtype_size(f->out), residual_size = qb_dtype_size(f->residual);
    for (int64_t i = 0; i < n; i += QB_LANES) {
        const vlanes some = v_lanes(n - i);
        qb_epilogue_vector(f, vf_load_n(f32 + i, some), some,
                           residual ? (const char *)residual + (size_t)i * residual_size : NULL,
                           (char *)out + (size_t)i * size, f->out, residual != NULL, has_act);
    }
}

#endif
#endif

/* The end of a fused step: activation, residual, quantization. */
#include <math.h>

#include "cpu_internal.h"
#include "kernels/ref.h"

bool qb_epilogue_supports(const qb_problem *p) {
    bool residual = p->kind != QB_KIND_BINARY && qb_problem_has(p, QB_IN_RESIDUAL);
    if (!qb_cpu_is_quantized(&p->out) && !qb_cpu_is_f32(&p->out)) return false;
    if (!residual) return true;
    const qb_desc *r = &p->in[QB_IN_RESIDUAL];
    return (qb_cpu_is_quantized(r) || qb_cpu_is_f32(r)) && qb_shape_equal(&r->shape, &p->out.shape);
}

/* The activation as bounds; false when it is more than that. */
static bool bounds_of(qb_act act, float *low, float *high) {
    *low = -INFINITY;
    *high = INFINITY;
    switch (act.kind) {
    case QB_ACT_NONE: return true;
    case QB_ACT_RELU: *low = 0.0f; return true;
    case QB_ACT_CLIP:
        *low = act.alpha;
        *high = act.beta;
        return !(act.alpha > act.beta);
    default: return false;
    }
}

/* Bounds as they stand in quantized values of the type, less the zero point. */
static void bound_quantized(qb_dtype dtype, int32_t zero, float inverse, float *low, float *high) {
    const float lowest = (float)((dtype == QB_DTYPE_U8 ? 0 : INT8_MIN) - zero);
    const float highest = (float)((dtype == QB_DTYPE_U8 ? UINT8_MAX : INT8_MAX) - zero);
    *low = fminf(fmaxf(*low * inverse, lowest), highest);
    *high = fmaxf(fminf(*high * inverse, highest), lowest);
}

static void round_first(const qb_rounding *r, qb_epilogue *f) {
    f->rounds = true;
    f->first_inverse = 1.0f / r->scale;
    f->first_scale = r->scale;
    if (!f->clamp_first) f->first_low = -INFINITY, f->first_high = INFINITY;
    f->clamp_first = true;
    bound_quantized(r->dtype, r->zero, f->first_inverse, &f->first_low, &f->first_high);
}

qb_epilogue qb_epilogue_of(const qb_problem *p) {
    bool has_residual =
        (p->kind == QB_KIND_CONV || p->kind == QB_KIND_MATMUL) && qb_problem_has(p, QB_IN_RESIDUAL);
    const qb_desc *r = has_residual ? &p->in[QB_IN_RESIDUAL] : NULL;
    qb_epilogue f = {.out = p->out.dtype,
                     .residual = r ? r->dtype : QB_DTYPE_NONE,
                     .residual_scale = r && r->q.n > 0 ? r->q.scale[0] : 1.0f,
                     .residual_zero = r ? qb_cpu_zero(r) : 0,
                     .inverse = p->out.q.n > 0 ? 1.0f / p->out.q.scale[0] : 1.0f,
                     .zero = qb_cpu_zero(&p->out),
                     .act_first = r && p->act_first};
    float low, high;
    if (!bounds_of(p->act, &low, &high)) {
        f.act = p->act;
        low = -INFINITY;
        high = INFINITY;
    } else if (f.act_first) {
        f.clamp_first = true;
        f.first_low = low;
        f.first_high = high;
        low = -INFINITY;
        high = INFINITY;
    }
    if (r && p->rounding.dtype != QB_DTYPE_NONE) round_first(&p->rounding, &f);
    f.low = low;
    f.high = high;
    if (p->out.q.n > 0) {
        bound_quantized(p->out.dtype, f.zero, f.inverse, &f.low, &f.high);
        f.low_q = (int32_t)lrintf(f.low) + f.zero;
        f.high_q = (int32_t)lrintf(f.high) + f.zero;
    }
    return f;
}

static float residual_at(const qb_epilogue *f, const void *residual, int64_t i) {
    switch (f->residual) {
    case QB_DTYPE_F32: return ((const float *)residual)[i];
    case QB_DTYPE_BF16: return (float)qb_number_get(QB_DTYPE_BF16, residual, i);
    case QB_DTYPE_U8:
        return f->residual_scale * (float)(((const uint8_t *)residual)[i] - f->residual_zero);
    default: return f->residual_scale * (float)(((const int8_t *)residual)[i] - f->residual_zero);
    }
}

/* Written so that NaN passes the bounds in floats and becomes the zero point in quantized values.
 */
static float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

static float before_residual(const qb_epilogue *f, float v) {
    if (f->rounds) v *= f->first_inverse;
    if (f->clamp_first) v = clamp(v, f->first_low, f->first_high);
    return f->rounds ? f->first_scale * (float)(isnan(v) ? 0 : lrintf(v)) : v;
}

void qb_epilogue_run(const qb_epilogue *f, const float *f32, int64_t n, const void *residual,
                     void *out) {
    for (int64_t i = 0; i < n; i++) {
        float v = f32[i];
        if (f->residual != QB_DTYPE_NONE) {
            if (f->act_first && f->act.kind != QB_ACT_NONE) v = qb_act_apply(f->act, v);
            v = before_residual(f, v) + residual_at(f, residual, i);
        }
        if (!f->act_first && f->act.kind != QB_ACT_NONE) v = qb_act_apply(f->act, v);
        v = clamp(v * f->inverse, f->low, f->high);
        if (f->out == QB_DTYPE_F32) {
            ((float *)out)[i] = v;
            continue;
        }
        if (f->out == QB_DTYPE_BF16) {
            qb_number_put(QB_DTYPE_BF16, out, i, (double)v);
            continue;
        }
        int32_t code = (isnan(v) ? 0 : (int32_t)lrintf(v)) + f->zero;
        if (f->out == QB_DTYPE_U8)
            ((uint8_t *)out)[i] = (uint8_t)code;
        else
            ((int8_t *)out)[i] = (int8_t)code;
    }
}

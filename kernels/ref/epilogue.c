/* Reading and writing runs of dequantized values, and the end of a fused step. */
#include <math.h>
#include <string.h>

#include "ref_internal.h"

#define LOAD(T, expr)                                                                              \
    do {                                                                                           \
        const T *from = (const T *)data + at;                                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T v = from[i * step];                                                                  \
            f32[i] = (expr);                                                                       \
        }                                                                                          \
    } while (0)
#define LOAD_INT(T) LOAD(T, scale *(float)((int64_t)v - zero))

void qb_ref_load(const qb_desc *desc, const void *data, int64_t at, int64_t step, int64_t n,
                 float *f32) {
    float scale = desc->q.n > 0 ? desc->q.scale[0] : 1.0f;
    int64_t zero = desc->q.n > 0 && desc->q.zero ? desc->q.zero[0] : 0;
    switch (desc->dtype) {
    case QB_DTYPE_F32: LOAD(float, v); break;
    case QB_DTYPE_F16: LOAD(uint16_t, qb_f16_to_f32(v)); break;
    case QB_DTYPE_U8: LOAD_INT(uint8_t); break;
    case QB_DTYPE_S8: LOAD_INT(int8_t); break;
    case QB_DTYPE_U16: LOAD_INT(uint16_t); break;
    case QB_DTYPE_S16: LOAD_INT(int16_t); break;
    default: LOAD_INT(int32_t); break;
    }
}

/* Clamping before rounding gives the same code as after: the bounds are integers. NaN passes both
 * comparisons and becomes the zero point. */
#define STORE_INT(T, low, high)                                                                    \
    do {                                                                                           \
        T *to = (T *)data + at;                                                                    \
        float lowest = (float)((low)-zero), highest = (float)((high)-zero);                        \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float v = f32[i] * inverse;                                                            \
            v = v < lowest ? lowest : v > highest ? highest : v;                                   \
            to[i] = (T)((isnan(v) ? 0 : lrintf(v)) + zero);                                        \
        }                                                                                          \
    } while (0)

void qb_ref_store(const qb_desc *desc, void *data, int64_t at, int64_t n, const float *f32) {
    float inverse = desc->q.n > 0 ? 1.0f / desc->q.scale[0] : 1.0f;
    long zero = desc->q.n > 0 && desc->q.zero ? desc->q.zero[0] : 0;
    switch (desc->dtype) {
    case QB_DTYPE_F32: memcpy((float *)data + at, f32, (size_t)n * sizeof *f32); break;
    case QB_DTYPE_F16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)data)[at + i] = qb_f32_to_f16(f32[i]);
        break;
    case QB_DTYPE_U8: STORE_INT(uint8_t, 0, UINT8_MAX); break;
    case QB_DTYPE_S8: STORE_INT(int8_t, INT8_MIN, INT8_MAX); break;
    case QB_DTYPE_U16: STORE_INT(uint16_t, 0, UINT16_MAX); break;
    case QB_DTYPE_S16: STORE_INT(int16_t, INT16_MIN, INT16_MAX); break;
    default:
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)data)[at + i] =
                qb_quantize_value(f32[i] * inverse, 1.0f, (int32_t)zero, QB_DTYPE_S32);
        break;
    }
}

void qb_ref_act_run(qb_act act, float *value, int64_t n) {
    if (act.kind == QB_ACT_NONE) return;
    if (act.kind == QB_ACT_RELU) {
        for (int64_t i = 0; i < n; i++) value[i] = value[i] < 0.0f ? 0.0f : value[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) value[i] = qb_act_apply(act, value[i]);
}

void qb_ref_round(const qb_rounding *r, int64_t n, float *f32) {
    uint8_t quantized[QB_REF_CHUNK];
    const qb_desc desc = {.dtype = r->dtype, .q = {.n = 1, .scale = &r->scale, .zero = &r->zero}};
    if (r->dtype == QB_DTYPE_NONE) return;
    for (int64_t count; n > 0; n -= count, f32 += count) {
        count = n < QB_REF_CHUNK ? n : QB_REF_CHUNK;
        qb_ref_store(&desc, quantized, 0, count, f32);
        qb_ref_load(&desc, quantized, 0, 1, count, f32);
    }
}

void qb_ref_epilogue(const qb_problem *p, const void *residual, int64_t residual_at, void *out,
                     int64_t at, int64_t n, float *f32) {
    if (!residual || p->act_first) qb_ref_act_run(p->act, f32, n);
    if (residual) {
        const qb_desc *desc = &p->in[QB_IN_RESIDUAL];
        float part[QB_REF_CHUNK];
        qb_ref_round(&p->rounding, n, f32);
        for (int64_t done = 0; done < n; done += QB_REF_CHUNK) {
            int64_t count = n - done < QB_REF_CHUNK ? n - done : QB_REF_CHUNK;
            qb_ref_load(desc, residual, residual_at + done, 1, count, part);
            for (int64_t i = 0; i < count; i++) f32[done + i] += part[i];
        }
        if (!p->act_first) qb_ref_act_run(p->act, f32, n);
    }
    qb_ref_store(&p->out, out, at, n, f32);
}

int64_t qb_ref_plane(const qb_desc *desc) {
    return qb_shape_span(&desc->shape, 2, desc->shape.rank);
}

int64_t qb_ref_plane_at(const qb_desc *desc, int64_t n, int64_t c) {
    int64_t total = desc->channel_total > 0 ? desc->channel_total : desc->shape.dim[1];
    return (n * total + desc->channel_offset + c) * qb_ref_plane(desc);
}

void qb_ref_geometry(const qb_window *window, const qb_shape *in, const qb_shape *out,
                     ref_geometry *g) {
    int32_t lead = 3 - window->n;
    for (int32_t d = 0; d < 3; d++) {
        int32_t s = d - lead;
        g->in[d] = s < 0 ? 1 : in->dim[2 + s];
        g->out[d] = s < 0 ? 1 : out->dim[2 + s];
        g->kernel[d] = s < 0 ? 1 : window->kernel[s];
        g->stride[d] = s < 0 ? 1 : window->stride[s];
        g->dilation[d] = s < 0 ? 1 : window->dilation[s];
        g->pad[d] = s < 0 ? 0 : window->pad_begin[s];
    }
}

static bool is_quantized(const qb_desc *desc) {
    return desc->q.n > 0 && (desc->dtype == QB_DTYPE_U8 || desc->dtype == QB_DTYPE_S8);
}

bool qb_ref_is_integer(const qb_problem *p) {
    return is_quantized(&p->in[QB_IN_DATA]) && is_quantized(&p->in[QB_IN_WEIGHT]);
}

ref_integer qb_ref_integer(const qb_problem *p) {
    const qb_qparams *data = &p->in[QB_IN_DATA].q;
    ref_integer integer = {.data_zero = data->zero ? data->zero[0] : 0,
                           .weight = &p->in[QB_IN_WEIGHT].q,
                           .data_scale = data->scale[0],
                           .factor = p->kind == QB_KIND_MATMUL ? p->scale : 1.0f};
    return integer;
}

static float multiplier_of(const ref_integer *integer, int64_t channel) {
    const qb_qparams *weight = integer->weight;
    float product = integer->data_scale * weight->scale[weight->n > 1 ? channel % weight->n : 0];
    return integer->factor == 1.0f ? product : product * integer->factor;
}

int32_t qb_ref_weight_zero(const ref_integer *integer, int64_t channel) {
    const qb_qparams *weight = integer->weight;
    return weight->zero ? weight->zero[weight->n > 1 ? channel % weight->n : 0] : 0;
}

void qb_ref_rescale(const qb_problem *p, const ref_integer *integer, const void *const *in,
                    int64_t channel, int64_t channel_step, int64_t n, const uint32_t *sums,
                    float *f32) {
    const void *bias = qb_problem_has(p, QB_IN_BIAS) ? in[QB_IN_BIAS] : NULL;
    bool integer_bias = bias && p->in[QB_IN_BIAS].dtype == QB_DTYPE_S32;
    for (int64_t i = 0; i < n; i++) {
        int64_t c = channel + i * channel_step;
        uint32_t sum = sums[i] + (integer_bias ? ((const uint32_t *)bias)[c] : 0u);
        float multiplier = multiplier_of(integer, c);
        f32[i] = (float)(int32_t)sum * multiplier;
        if (bias && !integer_bias) f32[i] += ((const float *)bias)[c];
    }
}

/* Chains of elementwise functions, number by number. */
#include <math.h>

#include "kernels/chain.h"
#include "ref_internal.h"

#define REGISTERS (QB_CHAIN_INPUTS + QB_CHAIN_CONSTANTS + QB_CHAIN_OPERATIONS)

/* Comparisons are written so that NaN comes out as NaN. */
static float ref_clip(float x, float low, float high) {
    const float v = x < low ? low : x;
    return v > high ? high : v;
}
static float ref_mish(float x) { return x * tanhf(log1pf(expf(x))); }
#define ref_exp expf
#define ref_expm1 expm1f
#define ref_log logf
#define ref_log1p log1pf
#define ref_erf erff
#define ref_tanh tanhf

#define F(name) ref_##name
static float apply(qb_function function, float a, float b, float c) {
    switch (function) {
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION)                                                   \
    case QB_FUNCTION_##NAME:                                                                       \
        return EXPRESSION;
#include "kernels/functions.def"
#undef QB_FUNCTION
    case QB_FUNCTION_NONE:
    case QB_FUNCTION_QUANTIZE:
    case QB_FUNCTION_MODULO:
    case QB_FUNCTION_COUNT: break;
    }
    return a;
}

/* The quantized value of a float. */
static int32_t code_of(float v, const qb_chain_quantized *q) {
    if (q->divide) return qb_quantize_value(v, q->scale, q->zero, q->dtype);
    const float low = (float)((q->dtype == QB_DTYPE_U8 ? 0 : INT8_MIN) - q->zero);
    const float high = (float)((q->dtype == QB_DTYPE_U8 ? UINT8_MAX : INT8_MAX) - q->zero);
    const float scaled = v * (1.0f / q->scale);
    return isnan(scaled) ? q->zero : (int32_t)lrintf(ref_clip(scaled, low, high)) + q->zero;
}

static float run(const qb_chain *c, float *registers) {
    const int32_t first = c->n_in + c->n_constants;
    for (int32_t i = 0; i < c->n_constants; i++) registers[c->n_in + i] = c->constant[i];
    for (int32_t i = 0; i < c->n_operations; i++) {
        const qb_chain_operation *o = &c->operation[i];
        const int32_t n = qb_function_arguments(o->function);
        float in[3] = {0};
        for (int32_t a = 0; a < n; a++) in[a] = registers[o->in[a]];
        registers[first + i] =
            o->function == QB_FUNCTION_QUANTIZE
                ? o->quantized.scale * (float)(code_of(in[0], &o->quantized) - o->quantized.zero)
                : apply(o->function, in[0], in[1], in[2]);
    }
    return registers[first + c->n_operations - 1];
}

static int64_t apply_integers(qb_function function, int64_t a, int64_t b, int64_t c) {
    switch (function) {
#define QB_INTEGER(NAME, EXPRESSION)                                                               \
    case QB_FUNCTION_##NAME:                                                                       \
        return EXPRESSION;
#include "kernels/integers.def"
#undef QB_INTEGER
    default: return (void)b, (void)c, a;
    }
}

static int64_t run_integers(const qb_chain *c, int64_t *registers) {
    const int32_t first = c->n_in + c->n_constants;
    for (int32_t i = 0; i < c->n_constants; i++) registers[c->n_in + i] = (int64_t)c->constant[i];
    for (int32_t i = 0; i < c->n_operations; i++) {
        const qb_chain_operation *o = &c->operation[i];
        int64_t in[3] = {0};
        for (int32_t a = 0; a < qb_function_arguments(o->function); a++)
            in[a] = registers[o->in[a]];
        const int64_t v = apply_integers(o->function, in[0], in[1], in[2]);
        registers[first + i] = o->narrow ? (int32_t)v : v;
    }
    return registers[first + c->n_operations - 1];
}

/* The place in a row-major operand of the output's element `at`. */
static int64_t place(const qb_shape *out, const qb_shape *in, int64_t at) {
    int64_t to = 0, step = 1;
    for (int32_t d = out->rank - 1, own = in->rank - 1; d >= 0; at /= out->dim[d--], own--) {
        if (own < 0) continue;
        if (in->dim[own] != 1) to += at % out->dim[d] * step;
        step *= in->dim[own];
    }
    return to;
}

static int64_t integer_at(qb_dtype dtype, const void *data, int64_t at) {
    return dtype == QB_DTYPE_S64   ? ((const int64_t *)data)[at]
           : dtype == QB_DTYPE_S32 ? ((const int32_t *)data)[at]
                                   : ((const uint8_t *)data)[at] != 0;
}

static void put_integer(qb_dtype dtype, void *data, int64_t at, int64_t v) {
    if (dtype == QB_DTYPE_S64)
        ((int64_t *)data)[at] = v;
    else if (dtype == QB_DTYPE_S32)
        ((int32_t *)data)[at] = (int32_t)v;
    else
        ((uint8_t *)data)[at] = v != 0;
}

static void chain_of_integers(const qb_problem *p, const void *const *in, void *out) {
    int64_t registers[REGISTERS];
    for (int64_t i = 0, n = qb_shape_count(&p->out.shape); i < n; i++) {
        for (int32_t k = 0; k < p->n_in; k++) {
            const int64_t at = place(&p->out.shape, &p->in[k].shape, i);
            registers[k] = integer_at(p->in[k].dtype, in[k], at);
        }
        put_integer(p->out.dtype, out, i, run_integers(p->chain, registers));
    }
}

void qb_ref_chain(const qb_problem *p, const void *const *in, void *out) {
    const qb_chain *c = p->chain;
    const qb_desc *y = &p->out;
    float registers[REGISTERS];
    if (c->integer) {
        chain_of_integers(p, in, out);
        return;
    }
    for (int64_t i = 0, n = qb_shape_count(&y->shape); i < n; i++) {
        for (int32_t k = 0; k < p->n_in; k++) {
            const qb_desc *x = &p->in[k];
            const int64_t at = place(&y->shape, &x->shape, i);
            const double number = qb_number_get(x->dtype, in[k], at);
            const double v = x->dtype == QB_DTYPE_BOOL ? number != 0.0 : number;
            const int32_t zero = x->q.n > 0 && x->q.zero ? x->q.zero[0] : 0;
            registers[k] = x->q.n > 0 ? x->q.scale[0] * (float)((int32_t)v - zero) : (float)v;
        }
        const float v = run(c, registers);
        if (y->q.n > 0) {
            const qb_chain_quantized q = {y->q.scale[0], y->q.zero ? y->q.zero[0] : 0, y->dtype,
                                          c->divide};
            qb_number_put(y->dtype, out, i, code_of(v, &q));
        } else {
            qb_number_put(y->dtype, out, i, (double)v);
        }
    }
}

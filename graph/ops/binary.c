/* Arithmetic on two or more tensors with numpy's broadcasting. */
#include <math.h>

#include "ops_internal.h"

#define RUN(OP, NAME, T, EXPR) QB_RUN(OP, NAME, T, T, EXPR)

/* Signed integers wrap; x / 0 is 0 for integers. */
#define ADD(NAME, T, U) RUN(add, NAME, T, (U)a + (U)b)
#define SUB(NAME, T, U) RUN(sub, NAME, T, (U)a - (U)b)
#define MUL(NAME, T, U) RUN(mul, NAME, T, (U)a *(U)b)
#define DIV_FLOAT(NAME, T, U) RUN(div, NAME, T, a / b)
#define DIV_SIGNED(NAME, T, U) RUN(div, NAME, T, b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : (T)(a / b))
#define DIV_UNSIGNED(NAME, T, U) RUN(div, NAME, T, b == 0 ? 0 : a / b)
/* NaN wins. */
#define MIN_FLOAT(NAME, T, U) RUN(min, NAME, T, isnan(a) || a < b ? a : b)
#define MAX_FLOAT(NAME, T, U) RUN(max, NAME, T, isnan(a) || a > b ? a : b)
#define MIN_INT(NAME, T, U) RUN(min, NAME, T, a < b ? a : b)
#define MAX_INT(NAME, T, U) RUN(max, NAME, T, a > b ? a : b)
#define PRELU_FLOAT(NAME, T, U) RUN(prelu, NAME, T, a < 0 ? a * b : a)
#define PRELU_UNSIGNED(NAME, T, U) RUN(prelu, NAME, T, ((void)b, a)) /* never negative */
#define PRELU_SIGNED(NAME, T, U) RUN(prelu, NAME, T, a < 0 ? (T)((U)a * (U)b) : a)

QB_NUMBER_TYPES(ADD)
QB_NUMBER_TYPES(SUB)
QB_NUMBER_TYPES(MUL)
QB_FLOAT_TYPES(DIV_FLOAT)
QB_SIGNED_TYPES(DIV_SIGNED)
QB_UNSIGNED_TYPES(DIV_UNSIGNED)
QB_FLOAT_TYPES(MIN_FLOAT)
QB_FLOAT_TYPES(MAX_FLOAT)
QB_INTEGER_TYPES(MIN_INT)
QB_INTEGER_TYPES(MAX_INT)
QB_FLOAT_TYPES(PRELU_FLOAT)
QB_SIGNED_TYPES(PRELU_SIGNED)
QB_UNSIGNED_TYPES(PRELU_UNSIGNED)

#define TABLE(OP) static const qb_run_fn OP##_runs[QB_DTYPE_COUNT] = {QB_NUMBER_RUNS(OP)};
TABLE(add)
TABLE(sub)
TABLE(mul)
TABLE(div)
TABLE(min)
TABLE(max)
TABLE(prelu)

#define BINARY(SYMBOL, NAME, RULE, KIND)                                                           \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        QB_EVAL_HALVES(eval_##SYMBOL);                                                             \
        return qb_eval_runs(cx, node, &in[0], &in[1], &out[0], SYMBOL##_runs);                     \
    }                                                                                              \
    QB_OP_SIMPLE(                                                                                  \
        SYMBOL, NAME, 7, 2, 2, 1, 0, NULL, RULE, qb_infer_broadcast, eval_##SYMBOL,                \
        .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,                                 \
        .kernel = {QB_KIND_BINARY, .binary = QB_BINARY_##KIND, .function = QB_FUNCTION_##KIND})

BINARY(add, "Add", ELTWISE, ADD);
BINARY(sub, "Sub", ELTWISE, SUB);
BINARY(mul, "Mul", ELTWISE, MUL);
BINARY(div, "Div", ELTWISE, DIV);

/* --- PRelu: the slope broadcasts to the data, never the other way round ----------------------- */

static qb_status infer_prelu(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0), *slope = qb_infer_in(args, 1);
    qb_shape both;
    QB_TRY(qb_infer_same_type(cx, args, 1));
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &slope->shape, &both));
    if (qb_shape_known(&x->shape) && qb_shape_known(&both) && !qb_shape_equal(&both, &x->shape)) {
        char text[QB_TEXT_MAX];
        return qb_fail(cx, QB_STATUS_INVALID, "slope of shape %s does not broadcast to the data",
                       qb_shape_text(&slope->shape, text, sizeof text));
    }
    return qb_infer_same(cx, args);
}

static qb_status eval_prelu(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_HALVES(eval_prelu);
    return qb_eval_runs(cx, node, &in[0], &in[1], &out[0], prelu_runs);
}

QB_OP_SIMPLE(prelu, "PRelu", 7, 2, 2, 1, 0, NULL, FLOAT, infer_prelu, eval_prelu,
             .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {QB_KIND_UNARY, .act = QB_ACT_LEAKY_RELU, .function = QB_FUNCTION_PRELU});

/* --- any number of inputs --------------------------------------------------------------------- */

/* out = in[0], then out = out op in[k] for the others, from left to right. */
static qb_status fold(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                      const qb_run_fn *runs) {
    size_t size = qb_dtype_size(out->desc.dtype);
    if (!runs[out->desc.dtype]) return qb_eval_refuse(cx, node, out->desc.dtype);
    const qb_shape *first = &in[0].desc.shape;
    qb_walk w;
    for (qb_walk_broadcast(&w, &out->desc.shape, &first, 1); w.left > 0; qb_walk_next(&w))
        qb_copy_run((char *)out->data + (size_t)w.out * size,
                    (const char *)in[0].data + (size_t)w.at[0] * size, w.step[0], w.run, size);
    for (int32_t k = 1; k < node->n_in; k++) QB_TRY(qb_eval_runs(cx, node, out, &in[k], out, runs));
    return QB_OK;
}

#define VARIADIC(SYMBOL, NAME, RUNS, ...)                                                          \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        QB_EVAL_HALVES(eval_##SYMBOL);                                                             \
        return fold(cx, node, in, &out[0], RUNS);                                                  \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, 7, 1, INT32_MAX, 1, 0, NULL, ELTWISE, qb_infer_broadcast,           \
                 eval_##SYMBOL, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,         \
                 .kernel = {__VA_ARGS__})

VARIADIC(max, "Max", max_runs, QB_KIND_BINARY, .binary = QB_BINARY_MAX,
         .function = QB_FUNCTION_MAX);
VARIADIC(min, "Min", min_runs, QB_KIND_BINARY, .binary = QB_BINARY_MIN,
         .function = QB_FUNCTION_MIN);
VARIADIC(sum, "Sum", add_runs, QB_KIND_NODE);

static qb_status eval_mean(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_IN_F32(eval_mean);
    QB_TRY(fold(cx, node, in, &out[0], add_runs));
    float *y = out[0].data;
    int64_t n = qb_shape_count(&out[0].desc.shape);
    for (int64_t i = 0; i < n; i++) y[i] /= (float)node->n_in;
    return QB_OK;
}

QB_OP_SIMPLE(mean, "Mean", 7, 1, INT32_MAX, 1, 0, NULL, ELTWISE, qb_infer_broadcast, eval_mean,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE);

/* --- Pow and Mod: by way of double or int64 -------------------------------------------------- */

static qb_status infer_pow(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0), *y = qb_infer_in(args, 1);
    qb_shape shape;
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &y->shape, &shape));
    return qb_infer_set(cx, args, 0, x->dtype, &shape);
}

/* x^n modulo 2^64 */
static uint64_t power(uint64_t x, uint64_t n) {
    uint64_t z = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1u) z *= x;
    return z;
}

static qb_status eval_pow(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    const qb_shape *shapes[2] = {&in[0].desc.shape, &in[1].desc.shape};
    qb_dtype type_x = in[0].desc.dtype, type_y = in[1].desc.dtype;
    qb_walk w;
    for (qb_walk_broadcast(&w, &out[0].desc.shape, shapes, 2); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            int64_t at_x = w.at[0] + i * w.step[0], at_y = w.at[1] + i * w.step[1];
            if (qb_dtype_is_integer(type_x) && qb_dtype_is_integer(type_y) &&
                qb_number_get(type_y, in[1].data, at_y) >= 0.0) {
                uint64_t z = power(qb_integer_get(type_x, in[0].data, at_x),
                                   qb_integer_get(type_y, in[1].data, at_y));
                qb_integer_put(type_x, out[0].data, w.out + i, z);
                continue;
            }
            double x = qb_number_get(type_x, in[0].data, at_x);
            double y = qb_number_get(type_y, in[1].data, at_y);
            double z = pow(x, y);
            qb_number_put(type_x, out[0].data, w.out + i, qb_dtype_is_float(type_x) ? z : trunc(z));
        }
    return QB_OK;
}

QB_OP_SIMPLE(pow, "Pow", 7, 2, 2, 1, 0, NULL, FLOAT, infer_pow, eval_pow, .types = QB_TYPES_NUMBERS,
             .traits = QB_TRAIT_ELEMENTWISE, .kernel = {.function = QB_FUNCTION_POW});

typedef struct mod_attrs {
    int64_t fmod;
} mod_attrs;
QB_ATTRS(mod_table, QB_A_INT(mod_attrs, fmod, "fmod", 0, 0, 1));

/* Of integers; x mod 0 is 0, like their quotient. */
static uint64_t integer_mod(qb_dtype dtype, uint64_t x, uint64_t y, bool c_sign) {
    if (y == 0) return 0;
    if (dtype == QB_DTYPE_U64) return x % y;
    int64_t a = (int64_t)x, b = (int64_t)y, z = b == -1 ? 0 : a % b;
    if (!c_sign && z != 0 && (z < 0) != (b < 0)) z += b;
    return (uint64_t)z;
}

/* fmod 0: the result has the divisor's sign; 1: the dividend's, as in C. */
static qb_status eval_mod(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const mod_attrs *attrs = node->attrs;
    (void)cx;
    const qb_shape *shapes[2] = {&in[0].desc.shape, &in[1].desc.shape};
    qb_dtype dtype = in[0].desc.dtype;
    qb_walk w;
    for (qb_walk_broadcast(&w, &out[0].desc.shape, shapes, 2); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            int64_t at_x = w.at[0] + i * w.step[0], at_y = w.at[1] + i * w.step[1];
            if (qb_dtype_is_integer(dtype)) {
                uint64_t z = integer_mod(dtype, qb_integer_get(dtype, in[0].data, at_x),
                                         qb_integer_get(dtype, in[1].data, at_y), attrs->fmod != 0);
                qb_integer_put(dtype, out[0].data, w.out + i, z);
                continue;
            }
            double x = qb_number_get(dtype, in[0].data, at_x);
            double y = qb_number_get(dtype, in[1].data, at_y);
            double z = fmod(x, y);
            if (!attrs->fmod && z != 0.0 && (z < 0.0) != (y < 0.0)) z += y;
            qb_number_put(dtype, out[0].data, w.out + i, z);
        }
    return QB_OK;
}

QB_OP_SIMPLE(mod, "Mod", 10, 2, 2, 1, sizeof(mod_attrs), mod_table, FLOAT, qb_infer_broadcast,
             eval_mod, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {.function = QB_FUNCTION_MODULO});

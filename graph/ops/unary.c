/* Functions of one tensor, element by element. */
#include <tgmath.h>

#include "ops_internal.h"

static qb_status infer_float(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    if (x->dtype != QB_DTYPE_NONE && !qb_dtype_is_float(x->dtype))
        return qb_fail(cx, QB_STATUS_INVALID, "input 0 '%s': expected a float type, got %s",
                       x->name, qb_dtype_text(x->dtype));
    return qb_infer_same(cx, args);
}

#define MAP(T, EXPR)                                                                               \
    do {                                                                                           \
        const T *from = in[0].data;                                                                \
        T *to = out[0].data;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x = from[i];                                                                         \
            to[i] = (T)(EXPR);                                                                     \
        }                                                                                          \
    } while (0)

/* One row an operator: functions without attributes. The expression is compiled for float and for
 * double (tgmath.h picks the function). */
#define UNARY(SYMBOL, NAME, SINCE, RULE, FUNCTION, EXPR)                                           \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        QB_EVAL_HALVES(eval_##SYMBOL);                                                             \
        int64_t n = qb_shape_count(&in[0].desc.shape);                                             \
        switch (in[0].desc.dtype) {                                                                \
        case QB_DTYPE_F32: MAP(float, EXPR); return QB_OK;                                         \
        case QB_DTYPE_F64: MAP(double, EXPR); return QB_OK;                                        \
        default: return qb_eval_refuse(cx, node, in[0].desc.dtype);                                \
        }                                                                                          \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, SINCE, 1, 1, 1, 0, NULL, RULE, infer_float, eval_##SYMBOL,          \
                 .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE,                         \
                 .kernel = {.function = QB_FUNCTION_##FUNCTION})

UNARY(acos, "Acos", 7, FLOAT, ACOS, acos(x));
UNARY(acosh, "Acosh", 9, FLOAT, ACOSH, acosh(x));
UNARY(asin, "Asin", 7, FLOAT, ASIN, asin(x));
UNARY(asinh, "Asinh", 9, FLOAT, ASINH, asinh(x));
UNARY(atan, "Atan", 7, FLOAT, ATAN, atan(x));
UNARY(atanh, "Atanh", 9, FLOAT, ATANH, atanh(x));
UNARY(ceil, "Ceil", 7, LUT, CEIL, ceil(x));
UNARY(cos, "Cos", 7, FLOAT, COS, cos(x));
UNARY(cosh, "Cosh", 9, FLOAT, COSH, cosh(x));
UNARY(erf, "Erf", 9, LUT, ERF, erf(x));
UNARY(exp, "Exp", 7, LUT, EXP, exp(x));
UNARY(floor, "Floor", 7, LUT, FLOOR, floor(x));
UNARY(log, "Log", 7, LUT, LOG, log(x));
UNARY(mish, "Mish", 18, LUT, MISH, x *tanh(log1p(exp(x))));
UNARY(reciprocal, "Reciprocal", 7, LUT, RECIPROCAL, 1 / x);
UNARY(round, "Round", 11, LUT, ROUND, nearbyint(x));
UNARY(sin, "Sin", 7, FLOAT, SIN, sin(x));
UNARY(sinh, "Sinh", 9, FLOAT, SINH, sinh(x));
UNARY(softplus, "Softplus", 7, LUT, SOFTPLUS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
UNARY(softsign, "Softsign", 7, LUT, SOFTSIGN, x / (1 + fabs(x)));
UNARY(sqrt, "Sqrt", 7, LUT, SQRT, sqrt(x));
UNARY(tan, "Tan", 7, FLOAT, TAN, tan(x));

/* --- the activations that kernels fuse
 * ---------------------------------------------------------------------- */

static qb_status eval_act(const qb_tensor *in, qb_tensor *out, qb_act act) {
    const float *x = in[0].data;
    float *y = out[0].data;
    int64_t n = qb_shape_count(&in[0].desc.shape);
    for (int64_t i = 0; i < n; i++) y[i] = qb_act_apply(act, x[i]);
    return QB_OK;
}

#define ACT(SYMBOL, NAME, SINCE, KIND)                                                             \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        QB_EVAL_IN_F32(eval_##SYMBOL);                                                             \
        return eval_act(in, out, (qb_act){.kind = QB_ACT_##KIND});                                 \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, SINCE, 1, 1, 1, 0, NULL, LUT, infer_float, eval_##SYMBOL,           \
                 .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE,                         \
                 .kernel = {QB_KIND_UNARY, .act = QB_ACT_##KIND, .function = QB_FUNCTION_##KIND})

ACT(hard_swish, "HardSwish", 14, HARD_SWISH);
ACT(sigmoid, "Sigmoid", 7, SIGMOID);
ACT(tanh, "Tanh", 7, TANH);

/* With parameters: attributes of which `alpha` and `beta` of the expression are the first two. */
#define WITH_ALPHA(SYMBOL, NAME, SINCE, ATTRS, EXPR, ...)                                          \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        const float alpha = ((const qb_alpha_attrs *)node->attrs)->alpha;                          \
        const float beta = ((const qb_alpha_attrs *)node->attrs)->beta;                            \
        (void)alpha, (void)beta;                                                                   \
        QB_EVAL_IN_F32(eval_##SYMBOL);                                                             \
        int64_t n = qb_shape_count(&in[0].desc.shape);                                             \
        MAP(float, EXPR);                                                                          \
        return QB_OK;                                                                              \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, SINCE, 1, 1, 1, sizeof(qb_alpha_attrs), ATTRS, LUT, infer_float,    \
                 eval_##SYMBOL, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE,          \
                 .kernel = {__VA_ARGS__})

QB_ATTRS(alpha_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 1.0f));
QB_ATTRS(leaky_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 0.01f));
QB_ATTRS(hard_sigmoid_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 0.2f),
         QB_A_FLOAT(qb_alpha_attrs, beta, "beta", 0.5f));
QB_ATTRS(selu_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 1.67326319f),
         QB_A_FLOAT(qb_alpha_attrs, beta, "gamma", 1.05070102f));
QB_ATTRS(shrink_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "lambd", 0.5f),
         QB_A_FLOAT(qb_alpha_attrs, beta, "bias", 0.0f));

WITH_ALPHA(elu, "Elu", 7, alpha_attrs, qb_act_apply((qb_act){QB_ACT_ELU, alpha, 0.0f}, x),
           QB_KIND_UNARY, .act = QB_ACT_ELU, .function = QB_FUNCTION_ELU);
WITH_ALPHA(leaky_relu, "LeakyRelu", 7, leaky_attrs,
           qb_act_apply((qb_act){QB_ACT_LEAKY_RELU, alpha, 0.0f}, x), QB_KIND_UNARY,
           .act = QB_ACT_LEAKY_RELU, .function = QB_FUNCTION_PRELU);
WITH_ALPHA(hard_sigmoid, "HardSigmoid", 7, hard_sigmoid_attrs,
           qb_act_apply((qb_act){QB_ACT_HARD_SIGMOID, alpha, beta}, x), QB_KIND_UNARY,
           .act = QB_ACT_HARD_SIGMOID, .function = QB_FUNCTION_HARD_SIGMOID);
WITH_ALPHA(selu, "Selu", 7, selu_attrs, beta *qb_act_apply((qb_act){QB_ACT_ELU, alpha, 0.0f}, x),
           .function = QB_FUNCTION_SELU);
WITH_ALPHA(thresholded_relu, "ThresholdedRelu", 7, alpha_attrs, x > alpha ? x : 0.0f,
           .function = QB_FUNCTION_THRESHOLDED_RELU);
WITH_ALPHA(shrink, "Shrink", 9, shrink_attrs,
           -x > alpha  ? x + beta
           : x > alpha ? x - beta
                       : 0.0f,
           .function = QB_FUNCTION_SHRINK);
WITH_ALPHA(celu, "Celu", 12, alpha_attrs,
           x > 0 ? (double)x : (double)alpha * expm1((double)x / (double)alpha),
           .function = QB_FUNCTION_CELU);
WITH_ALPHA(swish, "Swish", 24, alpha_attrs, (double)x / (1.0 + exp(-(double)alpha * (double)x)),
           .function = QB_FUNCTION_SWISH);

/* --- Gelu ------------------------------------------------------------------------------------- */

QB_ATTRS(gelu_attrs, QB_A_STRING(qb_gelu_attrs, approximate, "approximate", "none"));

static qb_status infer_gelu(qb_ctx *cx, const qb_infer_args *args) {
    const qb_gelu_attrs *attrs = qb_infer_at(args)->attrs;
    if (strcmp(attrs->approximate, "none") != 0 && strcmp(attrs->approximate, "tanh") != 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "attribute approximate: expected none or tanh, got '%s'",
                       attrs->approximate);
    return infer_float(cx, args);
}

static qb_status eval_gelu(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_gelu_attrs *attrs = node->attrs;
    bool exact = strcmp(attrs->approximate, "none") == 0;
    QB_EVAL_IN_F32(eval_gelu);
    return eval_act(in, out, (qb_act){.kind = exact ? QB_ACT_GELU : QB_ACT_GELU_TANH});
}

QB_OP_SIMPLE(gelu, "Gelu", 20, 1, 1, 1, sizeof(qb_gelu_attrs), gelu_attrs, LUT, infer_gelu,
             eval_gelu, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {QB_KIND_UNARY, .act = QB_ACT_GELU, .function = QB_FUNCTION_GELU});

/* --- any number type -------------------------------------------------------------------------- */

/* By an expression for floats, one for signed and one for unsigned integers. */
#define NUMBERS(SYMBOL, NAME, SINCE, EXPR_FLOAT, EXPR_INT, EXPR_UNSIGNED, ...)                     \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        QB_EVAL_HALVES(eval_##SYMBOL);                                                             \
        int64_t n = qb_shape_count(&in[0].desc.shape);                                             \
        switch (in[0].desc.dtype) {                                                                \
        case QB_DTYPE_F32: MAP(float, EXPR_FLOAT); return QB_OK;                                   \
        case QB_DTYPE_F64: MAP(double, EXPR_FLOAT); return QB_OK;                                  \
        case QB_DTYPE_S8: MAP(int8_t, EXPR_INT); return QB_OK;                                     \
        case QB_DTYPE_S16: MAP(int16_t, EXPR_INT); return QB_OK;                                   \
        case QB_DTYPE_S32: MAP(int32_t, EXPR_INT); return QB_OK;                                   \
        case QB_DTYPE_S64: MAP(int64_t, EXPR_INT); return QB_OK;                                   \
        case QB_DTYPE_U8: MAP(uint8_t, EXPR_UNSIGNED); return QB_OK;                               \
        case QB_DTYPE_U16: MAP(uint16_t, EXPR_UNSIGNED); return QB_OK;                             \
        case QB_DTYPE_U32: MAP(uint32_t, EXPR_UNSIGNED); return QB_OK;                             \
        case QB_DTYPE_U64: MAP(uint64_t, EXPR_UNSIGNED); return QB_OK;                             \
        default: return qb_eval_refuse(cx, node, in[0].desc.dtype);                                \
        }                                                                                          \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, SINCE, 1, 1, 1, 0, NULL, LUT, qb_infer_same, eval_##SYMBOL,         \
                 .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ELEMENTWISE,                        \
                 .kernel = {__VA_ARGS__})

NUMBERS(abs, "Abs", 7, fabs(x), x < 0 ? 0u - (uint64_t)x : (uint64_t)x, x,
        .function = QB_FUNCTION_ABS);
NUMBERS(neg, "Neg", 7, -x, 0u - (uint64_t)x, 0u - x, .function = QB_FUNCTION_NEG);
NUMBERS(relu, "Relu", 7, x < 0 ? 0 : x, x < 0 ? 0 : x, x, QB_KIND_UNARY, .act = QB_ACT_RELU,
        .function = QB_FUNCTION_RELU);
NUMBERS(sign, "Sign", 9,
        x > 0   ? 1
        : x < 0 ? -1
                : x,
        (x > 0) - (x < 0), x > 0, .function = QB_FUNCTION_SIGN);

static qb_status eval_not(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    if (in[0].desc.dtype != QB_DTYPE_BOOL) return qb_eval_refuse(cx, node, in[0].desc.dtype);
    int64_t n = qb_shape_count(&in[0].desc.shape);
    MAP(uint8_t, !x);
    return QB_OK;
}

QB_OP_SIMPLE(not, "Not", 7, 1, 1, 1, 0, NULL, FLOAT, qb_infer_same, eval_not,
             .types = QB_TYPES_BOOL, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {.function = QB_FUNCTION_NOT});

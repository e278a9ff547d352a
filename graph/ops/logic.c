/* Comparisons, logic, and choosing by a condition. */
#include <math.h>

#include "ops_internal.h"

#define RUN(OP, NAME, T, EXPR) QB_RUN(OP, NAME, T, uint8_t, EXPR)
#define EQUAL(NAME, T, U) RUN(equal, NAME, T, a == b)
#define LESS(NAME, T, U) RUN(less, NAME, T, a < b)
#define LESS_OR_EQUAL(NAME, T, U) RUN(less_or_equal, NAME, T, a <= b)
#define GREATER(NAME, T, U) RUN(greater, NAME, T, a > b)
#define GREATER_OR_EQUAL(NAME, T, U) RUN(greater_or_equal, NAME, T, a >= b)
QB_NUMBER_TYPES(EQUAL)
QB_NUMBER_TYPES(LESS)
QB_NUMBER_TYPES(LESS_OR_EQUAL)
QB_NUMBER_TYPES(GREATER)
QB_NUMBER_TYPES(GREATER_OR_EQUAL)
RUN(equal, BOOL, uint8_t, !a == !b)
RUN(and, BOOL, uint8_t, a &&b)
RUN(or, BOOL, uint8_t, a || b)
RUN(xor, BOOL, uint8_t, !a != !b)

static qb_status infer_compare(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0), *y = qb_infer_in(args, 1);
    qb_shape shape;
    QB_TRY(qb_infer_same_type(cx, args, 1));
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &y->shape, &shape));
    return qb_infer_set(cx, args, 0, QB_DTYPE_BOOL, &shape);
}

#define COMPARE(SYMBOL, NAME, SINCE, FUNCTION, TYPES, ...)                                         \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        static const qb_run_fn runs[QB_DTYPE_COUNT] = {__VA_ARGS__};                               \
        QB_EVAL_HALVES(eval_##SYMBOL);                                                             \
        return qb_eval_runs(cx, node, &in[0], &in[1], &out[0], runs);                              \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, SINCE, 2, 2, 1, 0, NULL, FLOAT, infer_compare, eval_##SYMBOL,       \
                 .types = TYPES, .traits = QB_TRAIT_ELEMENTWISE,                                   \
                 .kernel = {.function = QB_FUNCTION_##FUNCTION})

COMPARE(equal, "Equal", 7, EQUAL, QB_TYPES_NUMBERS ", " QB_TYPES_BOOL, QB_NUMBER_RUNS(equal),
        QB_RUN_ENTRY(equal, BOOL));
COMPARE(less, "Less", 7, LESS, QB_TYPES_NUMBERS, QB_NUMBER_RUNS(less));
COMPARE(less_or_equal, "LessOrEqual", 12, LESS_OR_EQUAL, QB_TYPES_NUMBERS,
        QB_NUMBER_RUNS(less_or_equal));
COMPARE(greater, "Greater", 7, GREATER, QB_TYPES_NUMBERS, QB_NUMBER_RUNS(greater));
COMPARE(greater_or_equal, "GreaterOrEqual", 12, GREATER_OR_EQUAL, QB_TYPES_NUMBERS,
        QB_NUMBER_RUNS(greater_or_equal));
COMPARE(and, "And", 7, AND, QB_TYPES_BOOL, QB_RUN_ENTRY(and, BOOL));
COMPARE(or, "Or", 7, OR, QB_TYPES_BOOL, QB_RUN_ENTRY(or, BOOL));
COMPARE(xor, "Xor", 7, XOR, QB_TYPES_BOOL, QB_RUN_ENTRY(xor, BOOL));

static qb_status infer_where(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *c = qb_infer_in(args, 0), *x = qb_infer_in(args, 1), *y = qb_infer_in(args, 2);
    if (c->dtype != QB_DTYPE_NONE && c->dtype != QB_DTYPE_BOOL)
        return qb_fail(cx, QB_STATUS_INVALID, "input 0 '%s': expected type bool, got %s", c->name,
                       qb_dtype_text(c->dtype));
    if (x->dtype != QB_DTYPE_NONE && y->dtype != QB_DTYPE_NONE && x->dtype != y->dtype)
        return qb_fail(cx, QB_STATUS_INVALID, "inputs 1 and 2: expected one type, got %s and %s",
                       qb_dtype_text(x->dtype), qb_dtype_text(y->dtype));
    qb_shape shape;
    QB_TRY(qb_shape_broadcast(cx, &x->shape, &y->shape, &shape));
    QB_TRY(qb_shape_broadcast(cx, &c->shape, &shape, &shape));
    return qb_infer_set(cx, args, 0, x->dtype, &shape);
}

static qb_status eval_where(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    const qb_shape *shapes[3] = {&in[0].desc.shape, &in[1].desc.shape, &in[2].desc.shape};
    size_t size = qb_dtype_size(out[0].desc.dtype);
    const uint8_t *condition = in[0].data;
    const char *x = in[1].data, *y = in[2].data;
    char *z = out[0].data;
    qb_walk w;
    for (qb_walk_broadcast(&w, &out[0].desc.shape, shapes, 3); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            bool first = condition[w.at[0] + i * w.step[0]] != 0;
            const char *from = first ? x + (size_t)(w.at[1] + i * w.step[1]) * size
                                     : y + (size_t)(w.at[2] + i * w.step[2]) * size;
            memcpy(z + (size_t)(w.out + i) * size, from, size);
        }
    return QB_OK;
}

QB_OP_SIMPLE(where, "Where", 9, 3, 3, 1, 0, NULL, FLOAT, infer_where, eval_where,
             .traits = QB_TRAIT_ELEMENTWISE, .kernel = {.function = QB_FUNCTION_WHERE});

/* --- IsNaN and IsInf ------------------------------------------------------------------------- */

typedef struct is_inf_attrs {
    int64_t detect_negative, detect_positive;
} is_inf_attrs;
QB_ATTRS(is_inf_table, QB_A_INT(is_inf_attrs, detect_negative, "detect_negative", 1, 0, 1),
         QB_A_INT(is_inf_attrs, detect_positive, "detect_positive", 1, 0, 1));

static qb_status infer_is(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    if (x->dtype != QB_DTYPE_NONE && !qb_dtype_is_float(x->dtype))
        return qb_fail(cx, QB_STATUS_INVALID, "input 0 '%s': expected a float type, got %s",
                       x->name, qb_dtype_text(x->dtype));
    return qb_infer_set(cx, args, 0, QB_DTYPE_BOOL, &x->shape);
}

static qb_status eval_is_nan(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    uint8_t *y = out->data;
    (void)cx, (void)node;
    for (int64_t i = 0, n = qb_shape_count(&in->desc.shape); i < n; i++)
        y[i] = isnan(qb_number_get(in->desc.dtype, in->data, i)) != 0;
    return QB_OK;
}

static qb_status eval_is_inf(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const is_inf_attrs *attrs = node->attrs;
    uint8_t *y = out->data;
    (void)cx;
    for (int64_t i = 0, n = qb_shape_count(&in->desc.shape); i < n; i++) {
        double x = qb_number_get(in->desc.dtype, in->data, i);
        y[i] = isinf(x) && (x < 0 ? attrs->detect_negative : attrs->detect_positive);
    }
    return QB_OK;
}

QB_OP_SIMPLE(is_nan, "IsNaN", 9, 1, 1, 1, 0, NULL, FLOAT, infer_is, eval_is_nan,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE,
             .kernel = {.function = QB_FUNCTION_IS_NAN});
QB_OP_SIMPLE(is_inf, "IsInf", 10, 1, 1, 1, sizeof(is_inf_attrs), is_inf_table, FLOAT, infer_is,
             eval_is_inf, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ELEMENTWISE);

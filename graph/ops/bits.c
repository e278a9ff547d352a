/* BitShift, BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot: integers as rows of bits. */
#include "ops_internal.h"

typedef uint64_t (*bits_fn)(uint64_t a, uint64_t b, qb_dtype dtype);

static uint64_t bits_and(uint64_t a, uint64_t b, qb_dtype dtype) { return (void)dtype, a & b; }
static uint64_t bits_or(uint64_t a, uint64_t b, qb_dtype dtype) { return (void)dtype, a | b; }
static uint64_t bits_xor(uint64_t a, uint64_t b, qb_dtype dtype) { return (void)dtype, a ^ b; }

/* Shifts by the type's width and more leave what smaller ones tend to: 0, or the sign everywhere.
 */
static bool over(uint64_t shift, qb_dtype dtype) { return shift >= qb_dtype_size(dtype) * 8; }

static uint64_t shift_left(uint64_t a, uint64_t b, qb_dtype dtype) {
    return over(b, dtype) ? 0 : a << b;
}

static uint64_t shift_right(uint64_t a, uint64_t b, qb_dtype dtype) {
    const uint64_t sign = dtype != QB_DTYPE_U64 && a >> 63 ? UINT64_MAX : 0;
    return over(b, dtype) ? sign : (a ^ sign) >> b ^ sign;
}

static qb_status infer_bits(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    if (x->dtype != QB_DTYPE_NONE && !qb_dtype_is_integer(x->dtype))
        return qb_fail(cx, QB_STATUS_INVALID, "input 0 '%s': expected an integer type, got %s",
                       x->name, qb_dtype_text(x->dtype));
    return qb_infer_broadcast(cx, args);
}

static qb_status each(const qb_tensor *in, qb_tensor *out, bits_fn run) {
    const qb_dtype dtype = in[0].desc.dtype;
    const qb_shape *shapes[2] = {&in[0].desc.shape, &in[1].desc.shape};
    qb_walk w;
    for (qb_walk_broadcast(&w, &out->desc.shape, shapes, 2); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            const uint64_t a = qb_integer_get(dtype, in[0].data, w.at[0] + i * w.step[0]);
            const uint64_t b = qb_integer_get(dtype, in[1].data, w.at[1] + i * w.step[1]);
            qb_integer_put(dtype, out->data, w.out + i, run(a, b, dtype));
        }
    return QB_OK;
}

#define BITWISE(SYMBOL, NAME, RUN)                                                                 \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        (void)cx, (void)node;                                                                      \
        return each(in, &out[0], RUN);                                                             \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, 18, 2, 2, 1, 0, NULL, FLOAT, infer_bits, eval_##SYMBOL,             \
                 .types = "integers", .traits = QB_TRAIT_ELEMENTWISE)
BITWISE(bitwise_and, "BitwiseAnd", bits_and);
BITWISE(bitwise_or, "BitwiseOr", bits_or);
BITWISE(bitwise_xor, "BitwiseXor", bits_xor);

static qb_status eval_not(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_dtype dtype = in[0].desc.dtype;
    (void)cx, (void)node;
    for (int64_t i = 0, n = qb_shape_count(&in[0].desc.shape); i < n; i++)
        qb_integer_put(dtype, out[0].data, i, ~qb_integer_get(dtype, in[0].data, i));
    return QB_OK;
}

QB_OP_SIMPLE(bitwise_not, "BitwiseNot", 18, 1, 1, 1, 0, NULL, FLOAT, infer_bits, eval_not,
             .types = "integers", .traits = QB_TRAIT_ELEMENTWISE);

typedef struct shift_attrs {
    const char *direction;
} shift_attrs;
QB_ATTRS(shift_table, {.name = "direction",
                       .type = QB_ATTR_STRING,
                       .offset = offsetof(shift_attrs, direction),
                       .default_string = "",
                       .required = true});

static qb_status infer_shift(qb_ctx *cx, const qb_infer_args *args) {
    const shift_attrs *attrs = qb_infer_at(args)->attrs;
    if (strcmp(attrs->direction, "LEFT") != 0 && strcmp(attrs->direction, "RIGHT") != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "direction: expected LEFT or RIGHT, got '%s'",
                       attrs->direction);
    return infer_bits(cx, args);
}

static qb_status eval_shift(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const shift_attrs *attrs = node->attrs;
    (void)cx;
    return each(in, &out[0], strcmp(attrs->direction, "LEFT") == 0 ? shift_left : shift_right);
}

QB_OP_SIMPLE(bit_shift, "BitShift", 11, 2, 2, 1, sizeof(shift_attrs), shift_table, FLOAT,
             infer_shift, eval_shift, .types = "integers", .traits = QB_TRAIT_ELEMENTWISE);

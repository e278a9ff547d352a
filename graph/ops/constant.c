/* Operators that make tensors from attributes, shapes or bounds: Constant, ConstantOfShape, Shape,
 * Size, Range. */
#include <math.h>

#include "ops_internal.h"

/* --- Constant --------------------------------------------------------------------------------- */

typedef struct constant_attrs {
    qb_tensor value;
    qb_floats value_floats;
    qb_ints value_ints;
    float value_float;
    int64_t value_int;
} constant_attrs;

/* NaN and the smallest integer stand for "not given"; exporters write either as a tensor. */
QB_ATTRS(constant_table,
         {.name = "value", .type = QB_ATTR_TENSOR, .offset = offsetof(constant_attrs, value)},
         {.name = "value_floats",
          .type = QB_ATTR_FLOATS,
          .offset = offsetof(constant_attrs, value_floats)},
         {.name = "value_ints",
          .type = QB_ATTR_INTS,
          .offset = offsetof(constant_attrs, value_ints)},
         QB_A_FLOAT(constant_attrs, value_float, "value_float", NAN),
         QB_A_INT(constant_attrs, value_int, "value_int", INT64_MIN, 0, 0));

/* The constant as a tensor over the attribute's own memory. */
static qb_status constant_of(qb_ctx *cx, const constant_attrs *attrs, qb_tensor *out) {
    qb_shape list = {.rank = 1}, scalar = {.rank = 0};
    if (attrs->value.data) {
        *out = attrs->value;
    } else if (attrs->value_floats.n > 0) {
        list.dim[0] = attrs->value_floats.n;
        *out = qb_tensor_of(QB_DTYPE_F32, list, (void *)(uintptr_t)attrs->value_floats.v);
    } else if (attrs->value_ints.n > 0) {
        list.dim[0] = attrs->value_ints.n;
        *out = qb_tensor_of(QB_DTYPE_S64, list, (void *)(uintptr_t)attrs->value_ints.v);
    } else if (!isnan(attrs->value_float)) {
        *out = qb_tensor_of(QB_DTYPE_F32, scalar, (void *)(uintptr_t)&attrs->value_float);
    } else if (attrs->value_int != INT64_MIN) {
        *out = qb_tensor_of(QB_DTYPE_S64, scalar, (void *)(uintptr_t)&attrs->value_int);
    } else {
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "expected one of the attributes value, value_float, value_floats, "
                       "value_int, value_ints");
    }
    return QB_OK;
}

static qb_status infer_constant(qb_ctx *cx, const qb_infer_args *args) {
    qb_tensor value;
    QB_TRY(constant_of(cx, qb_infer_at(args)->attrs, &value));
    return qb_infer_set(cx, args, 0, value.desc.dtype, &value.desc.shape);
}

static qb_status eval_constant(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    qb_tensor value;
    (void)in;
    QB_TRY(constant_of(cx, node->attrs, &value));
    return qb_eval_same_bytes(cx, node, &value, out);
}

QB_OP_SIMPLE(constant, "Constant", 7, 0, 0, 1, sizeof(constant_attrs), constant_table, SAME_SCALE,
             infer_constant, eval_constant);

/* --- ConstantOfShape -------------------------------------------------------------------------- */

QB_ATTRS(of_shape_attrs,
         {.name = "value", .type = QB_ATTR_TENSOR, .offset = offsetof(constant_attrs, value)});

static qb_status infer_of_shape(qb_ctx *cx, const qb_infer_args *args) {
    const constant_attrs *attrs = qb_infer_at(args)->attrs;
    qb_dtype dtype = attrs->value.data ? attrs->value.desc.dtype : QB_DTYPE_F32;
    if (attrs->value.data && qb_shape_count(&attrs->value.desc.shape) != 1)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute value: expected one element, got %lld",
                       (long long)qb_shape_count(&attrs->value.desc.shape));
    qb_sizes wanted;
    QB_TRY(qb_infer_sizes(cx, args, 0, &wanted));
    qb_shape out = {.rank = wanted.n};
    for (int32_t d = 0; d < wanted.n; d++) {
        if (qb_size_is_number(wanted.v[d]) && wanted.v[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "dimension %d: expected at least 0, got %lld", d,
                           (long long)wanted.v[d]);
        out.dim[d] = qb_dim_of_size(wanted.v[d]);
    }
    return qb_infer_set(cx, args, 0, dtype, &out);
}

static qb_status eval_of_shape(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    const constant_attrs *attrs = node->attrs;
    (void)cx, (void)in;
    size_t size = qb_dtype_size(out[0].desc.dtype);
    int64_t n = qb_shape_count(&out[0].desc.shape);
    if (!attrs->value.data)
        memset(out[0].data, 0, (size_t)n * size);
    else
        qb_copy_run(out[0].data, attrs->value.data, 0, n, size);
    return QB_OK;
}

QB_OP_SIMPLE(constant_of_shape, "ConstantOfShape", 9, 1, 1, 1, sizeof(constant_attrs),
             of_shape_attrs, FLOAT, infer_of_shape, eval_of_shape, .bound = qb_bound_none);

/* --- Shape and Size --------------------------------------------------------------------------- */

typedef struct shape_attrs {
    int64_t start, end;
} shape_attrs;
QB_ATTRS(shape_table, QB_A_INT(shape_attrs, start, "start", 0, 0, 0),
         QB_A_INT(shape_attrs, end, "end", INT64_MAX, 0, 0));

/* First and one past the last dimension, both clamped to the rank. */
static void shape_range(const shape_attrs *attrs, int32_t rank, int32_t *start, int32_t *end) {
    int64_t s = attrs->start < 0 ? attrs->start + rank : attrs->start;
    int64_t e = attrs->end < 0 ? attrs->end + rank : attrs->end;
    *start = (int32_t)(s < 0 ? 0 : s > rank ? rank : s);
    *end = (int32_t)(e < *start ? *start : e > rank ? rank : e);
}

static qb_status infer_shape(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = qb_shape_unknown(1);
    if (x->shape.rank >= 0) {
        int32_t start, end;
        shape_range(qb_infer_at(args)->attrs, x->shape.rank, &start, &end);
        out.dim[0] = end - start;
    }
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

static qb_status eval_shape(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    int32_t start, end;
    (void)cx;
    shape_range(node->attrs, in[0].desc.shape.rank, &start, &end);
    for (int32_t d = start; d < end; d++)
        ((int64_t *)out[0].data)[d - start] = in[0].desc.shape.dim[d];
    return QB_OK;
}

static qb_status infer_size(qb_ctx *cx, const qb_infer_args *args) {
    qb_shape scalar = {.rank = 0};
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &scalar);
}

static qb_status eval_size(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    *(int64_t *)out[0].data = qb_shape_count(&in[0].desc.shape);
    return QB_OK;
}

QB_OP_SIMPLE(shape, "Shape", 7, 1, 1, 1, sizeof(shape_attrs), shape_table, FLOAT, infer_shape,
             eval_shape, .traits = QB_TRAIT_SHAPE_ONLY);
QB_OP_SIMPLE(size, "Size", 7, 1, 1, 1, 0, NULL, FLOAT, infer_size, eval_size,
             .traits = QB_TRAIT_SHAPE_ONLY);

/* --- Range ------------------------------------------------------------------------------------ */

/* ceil((limit - start) / delta) elements. */
static qb_status range_count(qb_ctx *cx, double start, double limit, double delta, int64_t *n) {
    double count = ceil((limit - start) / delta);
    if (delta == 0.0 || isnan(count) || count > 0x1p40)
        return qb_fail(cx, QB_STATUS_INVALID, "no range from %g to %g by %g", start, limit, delta);
    *n = count > 0.0 ? (int64_t)count : 0;
    return QB_OK;
}

static qb_status infer_range(qb_ctx *cx, const qb_infer_args *args) {
    qb_shape out = qb_shape_unknown(1);
    const qb_value *v[3];
    double bound[3];
    bool known = true;
    for (int32_t i = 0; i < 3; i++) {
        v[i] = qb_infer_in(args, i);
        QB_TRY(qb_infer_rank(cx, args, i, 0, 1));
        QB_TRY(qb_infer_same_type(cx, args, i));
        if (qb_shape_known(&v[i]->shape) && qb_shape_count(&v[i]->shape) != 1)
            return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected one number, got %lld", i,
                           v[i]->name, (long long)qb_shape_count(&v[i]->shape));
        known = known && v[i]->data;
        if (known) bound[i] = qb_number_get(v[i]->dtype, v[i]->data, 0);
    }
    if (known) QB_TRY(range_count(cx, bound[0], bound[1], bound[2], &out.dim[0]));
    return qb_infer_set(cx, args, 0, v[0]->dtype, &out);
}

static qb_status eval_range(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    qb_dtype dtype = in[0].desc.dtype;
    if (qb_dtype_is_integer(dtype)) {
        uint64_t first = qb_integer_get(dtype, in[0].data, 0);
        uint64_t step = qb_integer_get(dtype, in[2].data, 0);
        for (int64_t i = 0; i < out[0].desc.shape.dim[0]; i++)
            qb_integer_put(dtype, out[0].data, i, first + (uint64_t)i * step);
        return QB_OK;
    }
    double start = qb_number_get(dtype, in[0].data, 0), delta = qb_number_get(dtype, in[2].data, 0);
    for (int64_t i = 0; i < out[0].desc.shape.dim[0]; i++)
        qb_number_put(dtype, out[0].data, i, start + (double)i * delta);
    return QB_OK;
}

QB_OP_SIMPLE(range, "Range", 11, 3, 3, 1, 0, NULL, FLOAT, infer_range, eval_range,
             .bound = qb_bound_none, .types = QB_TYPES_NUMBERS);

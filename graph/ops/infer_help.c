/* Helpers of the operators' infer functions. */
#include <stdio.h>

#include "ops_internal.h"

const qb_value *qb_infer_in(const qb_infer_args *args, int32_t i) {
    const qb_node *node = qb_infer_at(args);
    return i < node->n_in && node->in[i] >= 0 ? &args->graph->values[node->in[i]] : NULL;
}

qb_status qb_infer_set(qb_ctx *cx, const qb_infer_args *args, int32_t i, qb_dtype dtype,
                       const qb_shape *shape) {
    const qb_node *node = qb_infer_at(args);
    if (i >= node->n_out || node->out[i] < 0) return QB_OK;
    if (shape->rank > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output %d: expected rank 0 to %d, got %d", i,
                       QB_MAX_RANK, shape->rank);
    if (qb_shape_known(shape)) {
        int64_t count = qb_shape_count(shape);
        if (count < 0 || count > INT64_MAX / 8) {
            char text[QB_TEXT_MAX];
            return qb_fail(cx, QB_STATUS_INVALID, "output %d: shape %s is too large", i,
                           qb_shape_text(shape, text, sizeof text));
        }
    }
    qb_value *value = &args->graph->values[node->out[i]];
    value->dtype = dtype;
    value->shape = *shape;
    return QB_OK;
}

qb_status qb_bound_none(qb_ctx *cx, const qb_infer_args *args) {
    (void)cx, (void)args;
    return QB_OK;
}

qb_status qb_infer_same(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    return qb_infer_set(cx, args, 0, x->dtype, &x->shape);
}

qb_status qb_infer_same_type(qb_ctx *cx, const qb_infer_args *args, int32_t i) {
    const qb_value *x = qb_infer_in(args, 0), *y = qb_infer_in(args, i);
    if (!x || !y || x->dtype == y->dtype || x->dtype == QB_DTYPE_NONE || y->dtype == QB_DTYPE_NONE)
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected type %s, got %s", i, y->name,
                   qb_dtype_text(x->dtype), qb_dtype_text(y->dtype));
}

qb_status qb_infer_floats(qb_ctx *cx, const qb_infer_args *args, int32_t first, int32_t last) {
    for (int32_t i = first; i <= last; i++) {
        const qb_value *x = qb_infer_in(args, i);
        if (x && x->dtype != QB_DTYPE_NONE && !qb_dtype_is_float(x->dtype))
            return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected a float type, got %s", i,
                           x->name, qb_dtype_text(x->dtype));
    }
    return QB_OK;
}

qb_status qb_infer_broadcast(qb_ctx *cx, const qb_infer_args *args) {
    const qb_node *node = qb_infer_at(args);
    const qb_value *first = qb_infer_in(args, 0);
    qb_shape shape = first->shape;
    qb_dtype dtype = first->dtype;
    for (int32_t i = 1; i < node->n_in; i++) {
        const qb_value *next = qb_infer_in(args, i);
        if (!next) continue;
        QB_TRY(qb_infer_same_type(cx, args, i));
        if (dtype == QB_DTYPE_NONE) dtype = next->dtype;
        QB_TRY(qb_shape_broadcast(cx, &shape, &next->shape, &shape));
    }
    return qb_infer_set(cx, args, 0, dtype, &shape);
}

qb_status qb_expect_dim(qb_ctx *cx, const char *what, int64_t expected, int64_t got) {
    if (expected < 0 || got < 0 || expected == got) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected %lld, got %lld", what, (long long)expected,
                   (long long)got);
}

qb_status qb_infer_rank(qb_ctx *cx, const qb_infer_args *args, int32_t i, int32_t low,
                        int32_t high) {
    const qb_value *x = qb_infer_in(args, i);
    if (!x || x->shape.rank < 0 || (x->shape.rank >= low && x->shape.rank <= high)) return QB_OK;
    char text[QB_TEXT_MAX];
    qb_shape_text(&x->shape, text, sizeof text);
    if (low == high)
        return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected rank %d, got %d (%s)", i,
                       x->name, low, x->shape.rank, text);
    return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected rank %d to %d, got %d (%s)", i,
                   x->name, low, high, x->shape.rank, text);
}

static qb_status read_ints(qb_ctx *cx, const char *what, qb_dtype dtype, const qb_shape *shape,
                           const void *data, int64_t *v, int32_t max, int32_t *n) {
    if (dtype != QB_DTYPE_S64 && dtype != QB_DTYPE_S32)
        return qb_fail(cx, QB_STATUS_INVALID, "%s: expected type s64 or s32, got %s", what,
                       qb_dtype_text(dtype));
    int64_t count = qb_shape_count(shape);
    if (shape->rank > 1 || count < 0 || count > max) {
        char text[QB_TEXT_MAX];
        return qb_fail(cx, QB_STATUS_INVALID, "%s: expected at most %d integers, got shape %s",
                       what, max, qb_shape_text(shape, text, sizeof text));
    }
    *n = (int32_t)count;
    for (int32_t i = 0; i < *n; i++)
        v[i] = dtype == QB_DTYPE_S64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
    return QB_OK;
}

qb_status qb_infer_ints(qb_ctx *cx, const qb_infer_args *args, int32_t i, int64_t *v, int32_t max,
                        int32_t *n) {
    const qb_value *x = qb_infer_in(args, i);
    qb_sizes sizes;
    *n = -1;
    if (x && !x->data && qb_sizes_get(args->graph, qb_infer_at(args)->in[i], &sizes) &&
        qb_sizes_are_numbers(&sizes) && x->shape.rank <= 1 && sizes.n <= max) {
        *n = sizes.n;
        memcpy(v, sizes.v, (size_t)sizes.n * sizeof *v);
    }
    if (!x || !x->data) return QB_OK;
    char what[96];
    snprintf(what, sizeof what, "input %d '%s'", i, x->name);
    return read_ints(cx, what, x->dtype, &x->shape, x->data, v, max, n);
}

qb_status qb_infer_sizes(qb_ctx *cx, const qb_infer_args *args, int32_t i, qb_sizes *out) {
    const qb_value *x = qb_infer_in(args, i);
    const int64_t length = qb_infer_length(args, i);
    if (x && x->data) {
        QB_TRY(qb_infer_ints(cx, args, i, out->v, QB_MAX_RANK, &out->n));
        for (int32_t k = 0; k < out->n; k++) /* the lowest integers stand for symbols */
            if (!qb_size_is_number(out->v[k]))
                return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': %lld is no size", i, x->name,
                               (long long)out->v[k]);
        return QB_OK;
    }
    if (length < 0 || length > QB_MAX_RANK ||
        !qb_sizes_get(args->graph, qb_infer_at(args)->in[i], out))
        out->n = -1;
    return QB_OK;
}

bool qb_infer_const(const qb_infer_args *args, int32_t i, qb_tensor *out) {
    const qb_value *x = qb_infer_in(args, i);
    if (!x || !x->data || !qb_shape_known(&x->shape)) return false;
    *out = qb_tensor_of(x->dtype, x->shape, (void *)(uintptr_t)x->data);
    return true;
}

qb_status qb_eval_ints(qb_ctx *cx, const qb_tensor *tensor, int64_t *v, int32_t max, int32_t *n) {
    return read_ints(cx, "integer input", tensor->desc.dtype, &tensor->desc.shape, tensor->data, v,
                     max, n);
}

int64_t qb_infer_length(const qb_infer_args *args, int32_t i) {
    const qb_value *x = qb_infer_in(args, i);
    if (!x || x->shape.rank != 1) return QB_DIM_UNKNOWN;
    return x->shape.dim[0] < 0 ? QB_DIM_UNKNOWN : x->shape.dim[0];
}

qb_shape qb_shape_unknown(int32_t rank) {
    qb_shape shape = {.rank = rank};
    for (int32_t d = 0; d < rank && d < QB_MAX_RANK; d++) shape.dim[d] = QB_DIM_UNKNOWN;
    return shape;
}

/* A size other than 1 settles the result even beside an unknown one, which can only be 1 or equal.
 */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out) {
    if (a == b || b == 1) {
        *out = a;
    } else if (a == 1) {
        *out = b;
    } else if (a >= 0 && b >= 0) {
        return false;
    } else {
        *out = a >= 0 ? a : b >= 0 ? b : QB_DIM_UNKNOWN;
    }
    return true;
}

qb_status qb_shape_broadcast(qb_ctx *cx, const qb_shape *a, const qb_shape *b, qb_shape *out) {
    if (a->rank < 0 || b->rank < 0) {
        *out = (qb_shape){.rank = -1};
        return QB_OK;
    }
    qb_shape shape = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t d = 0; d < shape.rank; d++) {
        int32_t da = d - (shape.rank - a->rank), db = d - (shape.rank - b->rank);
        if (!broadcast_dim(da < 0 ? 1 : a->dim[da], db < 0 ? 1 : b->dim[db], &shape.dim[d])) {
            char text_a[QB_TEXT_MAX], text_b[QB_TEXT_MAX];
            return qb_fail(cx, QB_STATUS_INVALID, "shapes %s and %s cannot be broadcast",
                           qb_shape_text(a, text_a, sizeof text_a),
                           qb_shape_text(b, text_b, sizeof text_b));
        }
    }
    *out = shape;
    return QB_OK;
}

qb_status qb_axis_resolve(qb_ctx *cx, int64_t axis, int32_t rank, int32_t *out) {
    if (axis < -rank || axis >= rank)
        return qb_fail(cx, QB_STATUS_INVALID, "axis: expected %d to %d for rank %d, got %lld",
                       -rank, rank - 1, rank, (long long)axis);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return QB_OK;
}

qb_status qb_axes_resolve(qb_ctx *cx, const int64_t *axes, int32_t n, int32_t rank,
                          uint32_t *mask) {
    uint32_t seen = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t axis = 0;
        QB_TRY(qb_axis_resolve(cx, axes[i], rank, &axis));
        if (seen >> axis & 1u)
            return qb_fail(cx, QB_STATUS_INVALID, "axes: axis %d is given twice", axis);
        seen |= 1u << axis;
    }
    *mask = seen;
    return QB_OK;
}

qb_status qb_dim_mul(qb_ctx *cx, int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0) {
        *out = b == 1 ? a : a == 1 ? b : a == 0 || b == 0 ? 0 : QB_DIM_UNKNOWN;
        return QB_OK;
    }
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return qb_fail(cx, QB_STATUS_INVALID, "dimension %lld x %lld is too large", (long long)a,
                       (long long)b);
    *out = product;
    return QB_OK;
}

void qb_strides_of(const qb_shape *shape, int64_t stride[QB_MAX_RANK]) {
    int64_t next = 1;
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        stride[d] = next;
        next *= shape->dim[d];
    }
}

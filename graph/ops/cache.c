/* Operators that write or turn part of a sequence: TensorScatter, ReverseSequence. */
#include "ops_internal.h"

/* A tensor as [outer, n, inner] around an axis. */
typedef struct lines {
    int64_t outer, n, inner;
    size_t bytes; /* of `inner` elements */
} lines;

static lines lines_of(const qb_tensor *x, int32_t axis) {
    const qb_shape *shape = &x->desc.shape;
    const int64_t inner = qb_shape_span(shape, axis + 1, shape->rank);
    return (lines){qb_shape_span(shape, 0, axis), shape->dim[axis], inner,
                   (size_t)inner * qb_dtype_size(x->desc.dtype)};
}

static qb_status expect_integers(qb_ctx *cx, const qb_infer_args *args, int32_t i,
                                 const char *name) {
    const qb_value *x = qb_infer_in(args, i);
    if (!x || x->dtype == QB_DTYPE_NONE || x->dtype == QB_DTYPE_S64 || x->dtype == QB_DTYPE_S32)
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected type s64 or s32, got %s", name,
                   qb_dtype_text(x->dtype));
}

/* --- TensorScatter --------------------------------------------------------------------------- */

typedef struct cache_attrs {
    const char *mode;
    int64_t axis;
} cache_attrs;
QB_ATTRS(cache_table, QB_A_STRING(cache_attrs, mode, "mode", "linear"),
         QB_A_INT(cache_attrs, axis, "axis", -2, 0, 0));

static bool is_circular(const cache_attrs *attrs) { return strcmp(attrs->mode, "circular") == 0; }

static qb_status infer_cache(qb_ctx *cx, const qb_infer_args *args) {
    const cache_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_shape *past = &qb_infer_in(args, 0)->shape, *update = &qb_infer_in(args, 1)->shape;
    const qb_value *indices = qb_infer_in(args, 2);
    int32_t axis;
    if (!is_circular(attrs) && strcmp(attrs->mode, "linear") != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "mode: expected linear or circular, got '%s'",
                       attrs->mode);
    QB_TRY(qb_infer_same_type(cx, args, 1));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    QB_TRY(expect_integers(cx, args, 2, "write_indices"));
    if (past->rank < 0 || update->rank < 0) return qb_infer_same(cx, args);
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, 1, past->rank, past->rank));
    QB_TRY(qb_axis_resolve(cx, attrs->axis, past->rank, &axis));
    if (axis == 0) return qb_fail(cx, QB_STATUS_INVALID, "axis: expected any but the batch");
    for (int32_t d = 0; d < past->rank; d++) {
        const int64_t a = past->dim[d], b = update->dim[d];
        if (a >= 0 && b >= 0 && (d == axis ? b > a : b != a))
            return qb_fail(cx, QB_STATUS_INVALID, "update: dimension %d: expected %s%lld, got %lld",
                           d, d == axis ? "at most " : "", (long long)a, (long long)b);
    }
    if (indices && indices->shape.rank == 1 && indices->shape.dim[0] >= 0 && past->dim[0] >= 0 &&
        indices->shape.dim[0] != past->dim[0])
        return qb_fail(cx, QB_STATUS_INVALID, "write_indices: expected %lld, got %lld",
                       (long long)past->dim[0], (long long)indices->shape.dim[0]);
    return qb_infer_same(cx, args);
}

static qb_status eval_cache(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const cache_attrs *attrs = node->attrs;
    const qb_shape *shape = &in[0].desc.shape;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    QB_TRY(qb_eval_same_bytes(cx, node, in, out));
    const lines to = lines_of(&in[0], axis), from = lines_of(&in[1], axis);
    if (from.bytes == 0 || from.n == 0) return QB_OK;
    for (int64_t line = 0; line < to.outer; line++) {
        const int64_t sample = line / (to.outer / shape->dim[0]);
        int64_t start = 0;
        if (qb_eval_has(node, in, 2))
            start = (int64_t)qb_integer_get(in[2].desc.dtype, in[2].data, sample);
        const int64_t last = is_circular(attrs) ? INT64_MAX - from.n : to.n - from.n;
        if (start < 0 || start > last)
            return qb_fail(cx, QB_STATUS_INVALID, "write_indices: expected 0 to %lld, got %lld",
                           (long long)last, (long long)start);
        for (int64_t i = 0; i < from.n; i++)
            memcpy((char *)out[0].data + (size_t)(line * to.n + (start + i) % to.n) * to.bytes,
                   (const char *)in[1].data + (size_t)(line * from.n + i) * from.bytes, from.bytes);
    }
    return QB_OK;
}

QB_OP_SIMPLE(tensor_scatter, "TensorScatter", 24, 2, 3, 1, sizeof(cache_attrs), cache_table, FLOAT,
             infer_cache, eval_cache);

/* --- ReverseSequence ------------------------------------------------------------------------- */

typedef struct reverse_attrs {
    int64_t batch_axis, time_axis;
} reverse_attrs;
QB_ATTRS(reverse_table, QB_A_INT(reverse_attrs, batch_axis, "batch_axis", 1, 0, 1),
         QB_A_INT(reverse_attrs, time_axis, "time_axis", 0, 0, 1));

static qb_status infer_reverse(qb_ctx *cx, const qb_infer_args *args) {
    const reverse_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_shape *x = &qb_infer_in(args, 0)->shape, *lengths = &qb_infer_in(args, 1)->shape;
    if (attrs->batch_axis == attrs->time_axis)
        return qb_fail(cx, QB_STATUS_INVALID, "time_axis: expected another axis than batch_axis");
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, 1, 1, 1));
    QB_TRY(expect_integers(cx, args, 1, "sequence_lens"));
    if (x->rank >= 2 && lengths->rank == 1 && x->dim[attrs->batch_axis] >= 0 &&
        lengths->dim[0] >= 0 && x->dim[attrs->batch_axis] != lengths->dim[0])
        return qb_fail(cx, QB_STATUS_INVALID, "sequence_lens: expected %lld, got %lld",
                       (long long)x->dim[attrs->batch_axis], (long long)lengths->dim[0]);
    return qb_infer_same(cx, args);
}

static qb_status eval_reverse(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    const reverse_attrs *attrs = node->attrs;
    const qb_shape *shape = &in[0].desc.shape;
    const lines l = lines_of(&in[0], 1); /* both axes are among the first two */
    const int64_t times = shape->dim[attrs->time_axis];
    for (int64_t i = 0; i < l.outer * l.n && l.bytes > 0; i++) {
        const int64_t at[2] = {i / l.n, i % l.n}, time = at[attrs->time_axis];
        const int64_t length =
            (int64_t)qb_integer_get(in[1].desc.dtype, in[1].data, at[attrs->batch_axis]);
        if (length < 0 || length > times)
            return qb_fail(cx, QB_STATUS_INVALID, "sequence_lens: expected 0 to %lld, got %lld",
                           (long long)times, (long long)length);
        const int64_t from = time < length ? length - 1 - time : time;
        const int64_t place = attrs->time_axis == 0 ? from * l.n + at[1] : at[0] * l.n + from;
        memcpy((char *)out[0].data + (size_t)i * l.bytes,
               (const char *)in[0].data + (size_t)place * l.bytes, l.bytes);
    }
    return QB_OK;
}

QB_OP_SIMPLE(reverse_sequence, "ReverseSequence", 10, 2, 2, 1, sizeof(reverse_attrs), reverse_table,
             SAME_SCALE, infer_reverse, eval_reverse, .traits = QB_TRAIT_REORDER);

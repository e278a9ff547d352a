/* CumSum, CumProd, Trilu, EyeLike. */
#include "ops_internal.h"

/* --- CumSum ---------------------------------------------------------------------------------- */

typedef struct cumsum_attrs {
    int64_t exclusive, reverse;
} cumsum_attrs;
QB_ATTRS(cumsum_table, QB_A_INT(cumsum_attrs, exclusive, "exclusive", 0, 0, 1),
         QB_A_INT(cumsum_attrs, reverse, "reverse", 0, 0, 1));

static qb_status infer_cumsum(qb_ctx *cx, const qb_infer_args *args) {
    int64_t axis;
    int32_t n, resolved, rank = qb_infer_in(args, 0)->shape.rank;
    QB_TRY(qb_infer_ints(cx, args, 1, &axis, 1, &n));
    if (n == 1 && rank >= 0) QB_TRY(qb_axis_resolve(cx, axis, rank, &resolved));
    return qb_infer_same(cx, args);
}

/* One line: elements `step` apart. */
static void run_line(qb_dtype dtype, const void *x, void *y, int64_t at, int64_t n, int64_t step,
                     bool exclusive, bool product) {
    double sum = product ? 1.0 : 0.0;
    uint64_t whole = product;
    const bool integer = qb_dtype_is_integer(dtype);
    for (int64_t i = 0; i <= n; i++) {
        /* after i elements: where the one before, or exclusively the next one, is written */
        const int64_t to = at + (exclusive ? i : i - 1) * step;
        if (exclusive ? i < n : i > 0) {
            if (integer)
                qb_integer_put(dtype, y, to, whole);
            else
                qb_number_put(dtype, y, to, sum);
        }
        if (i == n) break;
        const double v = integer ? 0.0 : qb_number_get(dtype, x, at + i * step);
        const uint64_t k = integer ? qb_integer_get(dtype, x, at + i * step) : 0;
        sum = product ? sum * v : sum + v;
        whole = product ? whole * k : whole + k;
    }
}

/* Sums of floats without anything special about them: the lines side by side go together. */
static void sum_floats(const float *x, int64_t n, int64_t inner, double *sum, float *y) {
    for (int64_t j = 0; j < inner; j++) sum[j] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < inner; j++) {
            sum[j] += (double)x[i * inner + j];
            y[i * inner + j] = (float)sum[j];
        }
}

static qb_status run_lines(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                           bool product) {
    const cumsum_attrs *attrs = node->attrs;
    const qb_shape *shape = &in[0].desc.shape;
    int64_t given;
    int32_t n, axis;
    QB_TRY(qb_eval_ints(cx, &in[1], &given, 1, &n));
    if (n != 1) return qb_fail(cx, QB_STATUS_INVALID, "axis: expected one number, got %d", n);
    QB_TRY(qb_axis_resolve(cx, given, shape->rank, &axis));
    const int64_t outer = qb_shape_span(shape, 0, axis), size = shape->dim[axis];
    const int64_t inner = qb_shape_span(shape, axis + 1, shape->rank);
    if (in[0].desc.dtype == QB_DTYPE_F32 && !product && !attrs->reverse && !attrs->exclusive) {
        double *sum = QB_NEW(cx, qb_temp_take(cx, (size_t)inner + 1, sizeof *sum));
        for (int64_t o = 0; o < outer; o++)
            sum_floats((const float *)in[0].data + o * size * inner, size, inner, sum,
                       (float *)out[0].data + o * size * inner);
        qb_temp_give(sum);
        return QB_OK;
    }
    for (int64_t line = 0; line < outer * inner && size > 0; line++) {
        int64_t first = line / inner * size * inner + line % inner;
        int64_t at = attrs->reverse ? first + (size - 1) * inner : first;
        run_line(in[0].desc.dtype, in[0].data, out[0].data, at, size,
                 attrs->reverse ? -inner : inner, attrs->exclusive != 0, product);
    }
    return QB_OK;
}

static qb_status eval_cumsum(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    return run_lines(cx, node, in, out, false);
}

static qb_status eval_cumprod(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    return run_lines(cx, node, in, out, true);
}

QB_OP_SIMPLE(cumprod, "CumProd", 26, 2, 2, 1, sizeof(cumsum_attrs), cumsum_table, FLOAT,
             infer_cumsum, eval_cumprod, .types = QB_TYPES_NUMBERS);
QB_OP_SIMPLE(cumsum, "CumSum", 11, 2, 2, 1, sizeof(cumsum_attrs), cumsum_table, FLOAT, infer_cumsum,
             eval_cumsum, .types = QB_TYPES_NUMBERS, .kernel = {QB_KIND_SCAN});

/* --- Trilu ----------------------------------------------------------------------------------- */

typedef struct trilu_attrs {
    int64_t upper;
} trilu_attrs;
QB_ATTRS(trilu_table, QB_A_INT(trilu_attrs, upper, "upper", 1, 0, 1));

static qb_status infer_trilu(qb_ctx *cx, const qb_infer_args *args) {
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, 1, 0, 1));
    return qb_infer_same(cx, args);
}

/* Keeps what lies on the upper (or lower) side of diagonal k, that diagonal included. */
static qb_status eval_trilu(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const trilu_attrs *attrs = node->attrs;
    const qb_shape *shape = &in[0].desc.shape;
    int64_t k = 0, rows = shape->dim[shape->rank - 2], columns = shape->dim[shape->rank - 1];
    int32_t n = 1;
    if (qb_eval_has(node, in, 1)) QB_TRY(qb_eval_ints(cx, &in[1], &k, 1, &n));
    if (n != 1) return qb_fail(cx, QB_STATUS_INVALID, "k: expected one number, got %d", n);
    int64_t far = rows > columns ? rows : columns; /* diagonals beyond are empty or everything */
    k = k > far ? far : k < -far ? -far : k;
    const size_t size = qb_dtype_size(in[0].desc.dtype), row = (size_t)columns * size;
    const char *from = in[0].data;
    char *to = out[0].data;
    const int64_t count = columns > 0 ? qb_shape_count(shape) / columns : 0;
    for (int64_t i = 0; i < count; i++, from += row, to += row) {
        const int64_t diagonal = i % rows + k, edge = attrs->upper ? diagonal : diagonal + 1;
        const size_t left = size * (size_t)(edge < 0 ? 0 : edge > columns ? columns : edge);
        memcpy(to, from, row);
        memset(attrs->upper ? to : to + left, 0, attrs->upper ? left : row - left);
    }
    return QB_OK;
}

QB_OP_SIMPLE(trilu, "Trilu", 14, 1, 2, 1, sizeof(trilu_attrs), trilu_table, FLOAT, infer_trilu,
             eval_trilu);

/* --- EyeLike --------------------------------------------------------------------------------- */

typedef struct eye_attrs {
    int64_t dtype, k;
} eye_attrs;
QB_ATTRS(eye_table, QB_A_INT(eye_attrs, dtype, "dtype", 0, 0, 63),
         QB_A_INT(eye_attrs, k, "k", 0, -QB_ATTR_BIG, QB_ATTR_BIG));

static qb_status infer_eye(qb_ctx *cx, const qb_infer_args *args) {
    const eye_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_dtype dtype = attrs->dtype ? qb_dtype_from_onnx((int)attrs->dtype) : x->dtype;
    if (attrs->dtype && dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute dtype: type %lld is not supported",
                       (long long)attrs->dtype);
    QB_TRY(qb_infer_rank(cx, args, 0, 2, 2));
    return qb_infer_set(cx, args, 0, dtype, &x->shape);
}

static qb_status eval_eye(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const eye_attrs *attrs = node->attrs;
    (void)cx, (void)in;
    int64_t n = qb_shape_count(&out[0].desc.shape), columns = out[0].desc.shape.dim[1];
    for (int64_t i = 0; i < n; i++)
        qb_number_put(out[0].desc.dtype, out[0].data, i,
                      i % columns - i / columns == attrs->k ? 1.0 : 0.0);
    return QB_OK;
}

QB_OP_SIMPLE(eye_like, "EyeLike", 9, 1, 1, 1, sizeof(eye_attrs), eye_table, FLOAT, infer_eye,
             eval_eye, .traits = QB_TRAIT_SHAPE_ONLY);

/* Reductions over axes, ArgMax and ArgMin. */
#include <math.h>

#include "ops_internal.h"

QB_ATTRS(reduce_attrs, QB_A_INT(qb_reduce_attrs, keepdims, "keepdims", 1, 0, 1),
         QB_A_INT(qb_reduce_attrs, noop_with_empty_axes, "noop_with_empty_axes", 0, 0, 1),
         QB_A_OLD_INTS(qb_reduce_attrs, axes, "axes"));

/* Bit d: axis d is reduced. No axes: all of them, or none with noop_with_empty_axes. */
static qb_status axes_mask(qb_ctx *cx, const qb_reduce_attrs *attrs, const int64_t *axes, int32_t n,
                           int32_t rank, uint32_t *mask) {
    if (n > 0) return qb_axes_resolve(cx, axes, n, rank, mask);
    *mask = attrs->noop_with_empty_axes ? 0 : (1u << rank) - 1;
    return QB_OK;
}

static qb_status infer_reduce(qb_ctx *cx, const qb_infer_args *args) {
    const qb_reduce_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    int64_t axes[QB_MAX_RANK];
    int32_t n;
    uint32_t mask;
    qb_shape out = {.rank = -1};
    QB_TRY(qb_infer_ints(cx, args, 1, axes, QB_MAX_RANK, &n));
    bool known = n >= 0 || !qb_infer_in(args, 1) || qb_infer_length(args, 1) == 0;
    if (x->shape.rank >= 0 && known) {
        QB_TRY(axes_mask(cx, attrs, axes, n, x->shape.rank, &mask));
        out.rank = 0;
        for (int32_t d = 0; d < x->shape.rank; d++) {
            bool reduced = mask >> d & 1u;
            if (!reduced || attrs->keepdims) out.dim[out.rank++] = reduced ? 1 : x->shape.dim[d];
        }
    } else if (x->shape.rank >= 0 && attrs->keepdims) {
        out = qb_shape_unknown(x->shape.rank);
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* The running value of one output element; `scale` is the maximum that LOG_SUM_EXP subtracts. */
typedef struct reducer {
    qb_reduce_kind kind;
    double value, scale;
} reducer;

static void reduce_start(reducer *r) {
    r->value = r->kind == QB_REDUCE_PROD  ? 1.0
               : r->kind == QB_REDUCE_MAX ? -INFINITY
               : r->kind == QB_REDUCE_MIN ? INFINITY
                                          : 0.0;
}

static void reduce_add(reducer *r, double v) {
    switch (r->kind) {
    case QB_REDUCE_SUM:
    case QB_REDUCE_MEAN:
    case QB_REDUCE_LOG_SUM: r->value += v; break;
    case QB_REDUCE_PROD: r->value *= v; break;
    case QB_REDUCE_MAX: r->value = v > r->value || isnan(v) ? v : r->value; break;
    case QB_REDUCE_MIN: r->value = v < r->value || isnan(v) ? v : r->value; break;
    case QB_REDUCE_L1: r->value += fabs(v); break;
    case QB_REDUCE_L2:
    case QB_REDUCE_SUM_SQUARE: r->value += v * v; break;
    case QB_REDUCE_LOG_SUM_EXP: r->value += exp(v - r->scale); break;
    case QB_REDUCE_NONE: break;
    }
}

static double reduce_float(const reducer *r, int64_t count) {
    switch (r->kind) {
    case QB_REDUCE_MEAN: return r->value / (double)count;
    case QB_REDUCE_L2: return sqrt(r->value);
    case QB_REDUCE_LOG_SUM: return log(r->value);
    case QB_REDUCE_LOG_SUM_EXP: return log(r->value) + r->scale;
    default: return r->value;
    }
}

static double reduce_finish(const reducer *r, int64_t count, bool is_float) {
    const double value = reduce_float(r, count);
    return is_float ? value : trunc(value);
}

/* Integers add up modulo 2^64, which agrees with any narrower type, and are never rounded. Roots
 * and logarithms go by way of double. */
static bool reduces_exactly(qb_reduce_kind kind, qb_dtype dtype) {
    return !qb_dtype_is_float(dtype) && kind != QB_REDUCE_L2 && kind != QB_REDUCE_LOG_SUM &&
           kind != QB_REDUCE_LOG_SUM_EXP;
}

static uint64_t reduce_integers(qb_reduce_kind kind, const qb_tensor *x, int64_t at,
                                const qb_shape *dims, const int64_t *stride) {
    uint64_t value = kind == QB_REDUCE_PROD;
    int64_t best = -1, count = 0;
    qb_dtype dtype = x->desc.dtype;
    qb_walk w;
    for (qb_walk_strided(&w, dims, stride); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++, count++) {
            int64_t from = at + w.at[0] + i * w.step[0];
            uint64_t v = qb_integer_get(dtype, x->data, from);
            int order = best < 0 ? 0 : qb_element_order(dtype, x->data, from, best);
            if (best < 0 || (kind == QB_REDUCE_MAX && order > 0) ||
                (kind == QB_REDUCE_MIN && order < 0))
                best = from;
            if (kind == QB_REDUCE_PROD) value *= v;
            if (kind == QB_REDUCE_SUM || kind == QB_REDUCE_MEAN) value += v;
            if (kind == QB_REDUCE_SUM_SQUARE) value += v * v;
            if (kind == QB_REDUCE_L1) value += dtype != QB_DTYPE_U64 && (int64_t)v < 0 ? 0 - v : v;
        }
    if (kind == QB_REDUCE_MEAN && count > 0)
        return dtype == QB_DTYPE_U64 ? value / (uint64_t)count : (uint64_t)((int64_t)value / count);
    bool extreme = kind == QB_REDUCE_MAX || kind == QB_REDUCE_MIN;
    return extreme && best >= 0 ? qb_integer_get(dtype, x->data, best) : value;
}

/* All elements of the reduced dimensions from element `at` on, in order. */
static void reduce_walk(reducer *r, const qb_tensor *x, int64_t at, const qb_shape *dims,
                        const int64_t *stride) {
    qb_walk w;
    for (qb_walk_strided(&w, dims, stride); w.left > 0; qb_walk_next(&w)) {
        int64_t from = at + w.at[0];
        if (x->desc.dtype == QB_DTYPE_F32)
            for (int64_t i = 0; i < w.run; i++)
                reduce_add(r, (double)((const float *)x->data)[from + i * w.step[0]]);
        else
            for (int64_t i = 0; i < w.run; i++)
                reduce_add(r, qb_number_get(x->desc.dtype, x->data, from + i * w.step[0]));
    }
}

/* The dimensions of a shape split by a mask, each with its strides in the whole. */
typedef struct split_shape {
    qb_shape kept, reduced;
    int64_t kept_stride[QB_MAX_RANK], reduced_stride[QB_MAX_RANK];
} split_shape;

static split_shape split_by(const qb_shape *x, uint32_t mask) {
    split_shape s = {0};
    int64_t stride[QB_MAX_RANK];
    qb_strides_of(x, stride);
    for (int32_t d = 0; d < x->rank; d++) {
        bool reduced = mask >> d & 1u;
        qb_shape *to = reduced ? &s.reduced : &s.kept;
        (reduced ? s.reduced_stride : s.kept_stride)[to->rank] = stride[d];
        to->dim[to->rank++] = x->dim[d];
    }
    return s;
}

static qb_status eval_reduce(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                             qb_reduce_kind kind) {
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0;
    uint32_t mask;
    if (qb_eval_has(node, in, 1)) QB_TRY(qb_eval_ints(cx, &in[1], axes, QB_MAX_RANK, &n));
    QB_TRY(axes_mask(cx, node->attrs, axes, n, in[0].desc.shape.rank, &mask));
    qb_dtype dtype = in[0].desc.dtype;
    split_shape s = split_by(&in[0].desc.shape, mask);
    int64_t count = qb_shape_count(&s.reduced);
    qb_walk w;
    for (qb_walk_strided(&w, &s.kept, s.kept_stride); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            int64_t at = w.at[0] + i * w.step[0];
            if (dtype == QB_DTYPE_BOOL && count == 0) { /* the least and the greatest of the type */
                ((uint8_t *)out[0].data)[w.out + i] = kind == QB_REDUCE_MIN;
                continue;
            }
            if (reduces_exactly(kind, dtype) && count > 0) {
                qb_integer_put(dtype, out[0].data, w.out + i,
                               reduce_integers(kind, &in[0], at, &s.reduced, s.reduced_stride));
                continue;
            }
            reducer r = {.kind = kind};
            if (kind == QB_REDUCE_LOG_SUM_EXP) {
                reducer max = {.kind = QB_REDUCE_MAX};
                reduce_start(&max);
                reduce_walk(&max, &in[0], at, &s.reduced, s.reduced_stride);
                r.scale = isfinite(max.value) ? max.value : 0.0;
            }
            reduce_start(&r);
            reduce_walk(&r, &in[0], at, &s.reduced, s.reduced_stride);
            qb_number_put(dtype, out[0].data, w.out + i,
                          reduce_finish(&r, count, qb_dtype_is_float(dtype)));
        }
    return QB_OK;
}

/* From opset 18 (ReduceSum: 13) on the axes are an input. */
static qb_status upgrade_reduce(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_reduce_attrs *attrs = graph->nodes[node].attrs;
    (void)version;
    return qb_node_axes_to_input(cx, graph, node, &attrs->axes, 1);
}

#define REDUCE(SYMBOL, NAME, KIND, RULE)                                                           \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        return eval_reduce(cx, node, in, out, KIND);                                               \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, 7, 1, 2, 1, sizeof(qb_reduce_attrs), reduce_attrs, RULE,            \
                 infer_reduce, eval_##SYMBOL, .upgrade = upgrade_reduce,                           \
                 .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_ITEMWISE,                           \
                 .kernel = {QB_KIND_REDUCE, .reduce = KIND})

REDUCE(reduce_l1, "ReduceL1", QB_REDUCE_L1, FLOAT);
REDUCE(reduce_l2, "ReduceL2", QB_REDUCE_L2, FLOAT);
REDUCE(reduce_log_sum, "ReduceLogSum", QB_REDUCE_LOG_SUM, FLOAT);
REDUCE(reduce_log_sum_exp, "ReduceLogSumExp", QB_REDUCE_LOG_SUM_EXP, FLOAT);
REDUCE(reduce_max, "ReduceMax", QB_REDUCE_MAX, FLOAT);
REDUCE(reduce_mean, "ReduceMean", QB_REDUCE_MEAN, ELTWISE);
REDUCE(reduce_min, "ReduceMin", QB_REDUCE_MIN, FLOAT);
REDUCE(reduce_prod, "ReduceProd", QB_REDUCE_PROD, FLOAT);
REDUCE(reduce_sum, "ReduceSum", QB_REDUCE_SUM, FLOAT);
REDUCE(reduce_sum_square, "ReduceSumSquare", QB_REDUCE_SUM_SQUARE, FLOAT);

/* --- ArgMax and ArgMin ------------------------------------------------------------------------ */

typedef struct arg_attrs {
    int64_t axis, keepdims, select_last_index;
} arg_attrs;
QB_ATTRS(arg_table, QB_A_INT(arg_attrs, axis, "axis", 0, 0, 0),
         QB_A_INT(arg_attrs, keepdims, "keepdims", 1, 0, 1),
         QB_A_INT(arg_attrs, select_last_index, "select_last_index", 0, 0, 1));

static qb_status infer_arg(qb_ctx *cx, const qb_infer_args *args) {
    const arg_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = {.rank = -1};
    if (x->shape.rank >= 0) {
        int32_t axis;
        QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
        out.rank = 0;
        for (int32_t d = 0; d < x->shape.rank; d++)
            if (d != axis || attrs->keepdims) out.dim[out.rank++] = d == axis ? 1 : x->shape.dim[d];
    }
    return qb_infer_set(cx, args, 0, QB_DTYPE_S64, &out);
}

/* Lines of n floats, `inner` of them side by side, which are walked together. NaN is larger than
 * any number. */
static void arg_floats(const float *restrict x, int64_t n, int64_t inner, int sign, bool last,
                       float *restrict best, int64_t *restrict out) {
    for (int64_t j = 0; j < inner; j++) {
        best[j] = x[j];
        out[j] = 0;
    }
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < inner; j++) {
            const float v = x[i * inner + j], w = best[j];
            const bool above = v > w || (v != v && w == w), below = v < w || (w != w && v == v);
            const bool better = (sign > 0 ? above : below) || (last && !above && !below);
            best[j] = better ? v : w;
            out[j] = better ? i : out[j];
        }
}

static qb_status eval_arg(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                          int sign) {
    const arg_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    const int64_t outer = qb_shape_span(x, 0, axis), n = x->dim[axis];
    const int64_t inner = qb_shape_span(x, axis + 1, x->rank);
    if (n == 0 && outer * inner > 0)
        return qb_fail(cx, QB_STATUS_INVALID, "axis %d has size 0: there is no extreme", axis);
    const qb_dtype dtype = in[0].desc.dtype;
    const bool byte = dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8;
    if (dtype == QB_DTYPE_F32 || byte) {
        float *best = qb_temp_take(cx, (size_t)((byte ? n + 1 : 1) * inner) + 1, sizeof *best);
        float *made = best + inner;
        if (!best) return cx->code;
        for (int64_t o = 0; o < outer && inner > 0; o++) {
            const int64_t first = o * n * inner;
            for (int64_t i = 0; byte && i < n * inner; i++)
                made[i] = dtype == QB_DTYPE_U8 ? (float)((const uint8_t *)in[0].data)[first + i]
                                               : (float)((const int8_t *)in[0].data)[first + i];
            arg_floats(byte ? made : (const float *)in[0].data + first, n, inner, sign,
                       attrs->select_last_index != 0, best, (int64_t *)out[0].data + o * inner);
        }
        qb_temp_give(best);
        return QB_OK;
    }
    for (int64_t line = 0; line < outer * inner; line++) {
        int64_t at = line / inner * n * inner + line % inner, best_at = 0;
        for (int64_t i = 1; i < n; i++) {
            int order = sign * qb_element_order(in[0].desc.dtype, in[0].data, at + i * inner,
                                                at + best_at * inner);
            if (order > 0 || (attrs->select_last_index && order == 0)) best_at = i;
        }
        ((int64_t *)out[0].data)[line] = best_at;
    }
    return QB_OK;
}

static qb_status eval_arg_max(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    return eval_arg(cx, node, in, out, 1);
}

static qb_status eval_arg_min(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    return eval_arg(cx, node, in, out, -1);
}

QB_OP_SIMPLE(arg_max, "ArgMax", 7, 1, 1, 1, sizeof(arg_attrs), arg_table, FLOAT, infer_arg,
             eval_arg_max, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_AXIS | QB_TRAIT_CLASSES,
             .kernel = {QB_KIND_ARG});
QB_OP_SIMPLE(arg_min, "ArgMin", 7, 1, 1, 1, sizeof(arg_attrs), arg_table, FLOAT, infer_arg,
             eval_arg_min, .types = QB_TYPES_NUMBERS, .traits = QB_TRAIT_AXIS,
             .kernel = {QB_KIND_ARG, .extreme = {.smallest = true}});

/* Concat and Split. */
#include "ops_internal.h"

QB_ATTRS(concat_attrs, QB_A_NEED_INT(qb_axis_attrs, axis, "axis", 0, 0));

static qb_status infer_concat(qb_ctx *cx, const qb_infer_args *args) {
    const qb_node *node = qb_infer_at(args);
    const qb_axis_attrs *attrs = node->attrs;
    const qb_value *first = qb_infer_in(args, 0);
    qb_shape out = {.rank = -1};
    int32_t axis = 0;
    int64_t sum = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const qb_value *x = qb_infer_in(args, i);
        QB_TRY(qb_infer_same_type(cx, args, i));
        if (x->shape.rank < 0) {
            sum = QB_DIM_UNKNOWN;
            continue;
        }
        if (out.rank < 0) {
            QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
            out = x->shape;
        }
        QB_TRY(qb_infer_rank(cx, args, i, out.rank, out.rank));
        for (int32_t d = 0; d < out.rank; d++) {
            int64_t dim = x->shape.dim[d];
            if (d == axis || dim == out.dim[d]) continue;
            if (dim < 0) {
                if (out.dim[d] == QB_DIM_UNKNOWN) out.dim[d] = dim;
                continue;
            }
            if (out.dim[d] >= 0)
                return qb_fail(cx, QB_STATUS_INVALID,
                               "input %d '%s': dimension %d: expected %lld, got %lld", i, x->name,
                               d, (long long)out.dim[d], (long long)dim);
            out.dim[d] = dim; /* a number beats a symbol, which beats nothing */
        }
        int64_t dim = x->shape.dim[axis];
        if (sum < 0 || dim < 0)
            sum = node->n_in == 1 ? dim : QB_DIM_UNKNOWN;
        else if (__builtin_add_overflow(sum, dim, &sum))
            return qb_fail(cx, QB_STATUS_INVALID, "axis %d: the sum of sizes is too large", axis);
    }
    if (out.rank >= 0) out.dim[axis] = sum;
    return qb_infer_set(cx, args, 0, first->dtype, &out);
}

static qb_status eval_concat(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_axis_attrs *attrs = node->attrs;
    const qb_shape *shape = &out[0].desc.shape;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, shape->rank, &axis));
    const int64_t outer = qb_shape_span(shape, 0, axis);
    const size_t inner =
        qb_dtype_size(out[0].desc.dtype) * (size_t)qb_shape_span(shape, axis + 1, shape->rank);
    size_t row = (size_t)shape->dim[axis] * inner, at = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        size_t part = (size_t)in[i].desc.shape.dim[axis] * inner;
        for (int64_t o = 0; o < outer && part > 0; o++)
            memcpy((char *)out[0].data + (size_t)o * row + at,
                   (const char *)in[i].data + (size_t)o * part, part);
        at += part;
    }
    return QB_OK;
}

QB_OP_SIMPLE(concat, "Concat", 7, 1, INT32_MAX, 1, sizeof(qb_axis_attrs), concat_attrs, SAME_SCALE,
             infer_concat, eval_concat, .traits = QB_TRAIT_REORDER | QB_TRAIT_AXIS,
             .kernel = {QB_KIND_CONCAT});

/* --- Split ------------------------------------------------------------------------------------ */

typedef struct split_attrs {
    int64_t axis, num_outputs;
    qb_ints split; /* before opset 13 */
} split_attrs;
QB_ATTRS(split_table, QB_A_INT(split_attrs, axis, "axis", 0, 0, 0),
         QB_A_INT(split_attrs, num_outputs, "num_outputs", 0, 0, INT32_MAX),
         QB_A_OLD_INTS(split_attrs, split, "split"));

/* Equal parts, the last one smaller when the size does not divide. */
static qb_status equal_parts(qb_ctx *cx, int64_t size, int32_t n, int64_t *part) {
    int64_t each = size / n + (size % n != 0);
    for (int32_t i = 0; i < n; i++) {
        part[i] = i < n - 1 ? each : size - each * (n - 1);
        if (part[i] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "size %lld cannot be split into %d parts",
                           (long long)size, n);
    }
    return QB_OK;
}

static qb_status set_parts(qb_ctx *cx, const qb_infer_args *args, int32_t axis,
                           const int64_t *part) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_dtype dtype = x->dtype;
    qb_shape shape = x->shape;
    for (int32_t i = 0; i < qb_infer_at(args)->n_out; i++) {
        if (shape.rank >= 0) shape.dim[axis] = part ? part[i] : QB_DIM_UNKNOWN;
        QB_TRY(qb_infer_set(cx, args, i, dtype, &shape));
    }
    return QB_OK;
}

#define MAX_PARTS 256

static qb_status infer_split(qb_ctx *cx, const qb_infer_args *args) {
    const qb_node *node = qb_infer_at(args);
    const split_attrs *attrs = node->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    int64_t part[MAX_PARTS], sum = 0;
    int32_t n, axis = 0;
    QB_TRY(qb_infer_ints(cx, args, 1, part, MAX_PARTS, &n));
    if (node->n_out > MAX_PARTS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected at most %d outputs, got %d", MAX_PARTS,
                       node->n_out);
    if (attrs->num_outputs > 0 && attrs->num_outputs != node->n_out)
        return qb_fail(cx, QB_STATUS_INVALID, "num_outputs: expected %d as there are, got %lld",
                       (int)node->n_out, (long long)attrs->num_outputs);
    if (x->shape.rank < 0) return set_parts(cx, args, 0, NULL);
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
    int64_t size = x->shape.dim[axis];
    if (n < 0) {
        bool equal = !qb_infer_in(args, 1);
        if (!equal || size < 0) return set_parts(cx, args, axis, NULL);
        QB_TRY(equal_parts(cx, size, node->n_out, part));
        return set_parts(cx, args, axis, part);
    }
    if (n != node->n_out)
        return qb_fail(cx, QB_STATUS_INVALID, "split: expected %d sizes, got %d", node->n_out, n);
    for (int32_t i = 0; i < n; i++)
        if (part[i] < 0 || __builtin_add_overflow(sum, part[i], &sum))
            return qb_fail(cx, QB_STATUS_INVALID, "split: expected at least 0, got %lld",
                           (long long)part[i]);
    if (size >= 0 && sum != size)
        return qb_fail(cx, QB_STATUS_INVALID, "split: the sizes add up to %lld, expected %lld",
                       (long long)sum, (long long)size);
    return set_parts(cx, args, axis, part);
}

static qb_status strided_split(qb_ctx *cx, const qb_node *node, const qb_tensor *in, int32_t output,
                               qb_strided *out) {
    const split_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape;
    int64_t sizes[MAX_PARTS];
    int32_t axis, n;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    if (qb_eval_has(node, in, 1))
        QB_TRY(qb_eval_ints(cx, &in[1], sizes, MAX_PARTS, &n));
    else
        QB_TRY(equal_parts(cx, x->dim[axis], node->n_out, sizes));
    *out = (qb_strided){.rank = x->rank};
    memcpy(out->dim, x->dim, sizeof out->dim);
    qb_strides_of(x, out->stride);
    out->dim[axis] = sizes[output];
    for (int32_t i = 0; i < output; i++) out->offset += sizes[i] * out->stride[axis];
    return QB_OK;
}

static qb_status upgrade_split(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    split_attrs *attrs = graph->nodes[node].attrs;
    if (version < 13 && attrs->split.n > 0) {
        int32_t id;
        QB_TRY(qb_node_const_ints(cx, graph, node, "split", attrs->split.v, attrs->split.n, &id));
        attrs->split = (qb_ints){0};
        return qb_node_input_set(cx, graph, node, 1, id);
    }
    /* Opset 18 wants num_outputs where no sizes are given; not all its writers know. */
    const qb_node *n = &graph->nodes[node];
    bool sizes = n->n_in >= 2 && n->in[1] >= 0;
    if (!sizes && (version < 18 || attrs->num_outputs == 0)) attrs->num_outputs = n->n_out;
    return QB_OK;
}

QB_OP_SIMPLE(split, "Split", 7, 1, 2, INT32_MAX, sizeof(split_attrs), split_table, SAME_SCALE,
             infer_split, qb_eval_strided, .strided = strided_split, .upgrade = upgrade_split,
             .traits = QB_TRAIT_IN_ORDER | QB_TRAIT_AXIS, .kernel = {QB_KIND_STRIDED_COPY});

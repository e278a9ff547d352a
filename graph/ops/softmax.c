/* Softmax, LogSoftmax and Hardmax. */
#include <math.h>

#include "ops_internal.h"

QB_ATTRS(softmax_attrs, {.name = "axis",
                         .type = QB_ATTR_INT,
                         .offset = offsetof(qb_axis_attrs, axis),
                         .default_int = -1,
                         .old_before = 13,
                         .old_default_int = 1});

static qb_status infer_softmax(qb_ctx *cx, const qb_infer_args *args) {
    const qb_axis_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    int32_t axis;
    if (x->shape.rank > 0) QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
    return qb_infer_same(cx, args);
}

static qb_status eval_softmax(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    const qb_axis_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_softmax);
    qb_problem p = {.kind = QB_KIND_SOFTMAX, .n_in = 1, .in = &in[0].desc, .out = out[0].desc};
    if (in[0].desc.shape.rank > 0)
        QB_TRY(qb_axis_resolve(cx, attrs->axis, in[0].desc.shape.rank, &p.axis));
    const void *data[1] = {in[0].data};
    qb_ref_softmax(&p, data, out[0].data);
    return QB_OK;
}

/* Lines of n elements along an axis, `inner` elements apart; a scalar is one line. */
typedef struct lines {
    int64_t n, inner, count;
} lines;

static qb_status lines_along(qb_ctx *cx, const qb_shape *shape, int64_t wanted, lines *out) {
    int32_t axis = 0;
    if (shape->rank > 0) QB_TRY(qb_axis_resolve(cx, wanted, shape->rank, &axis));
    out->n = shape->rank > 0 ? shape->dim[axis] : 1;
    out->inner = qb_shape_span(shape, axis + 1, shape->rank);
    out->count = out->n > 0 ? qb_shape_count(shape) / out->n : 0;
    return QB_OK;
}

static int64_t first_of(const lines *l, int64_t line) {
    return line / l->inner * l->n * l->inner + line % l->inner;
}

static qb_status eval_log_softmax(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                  qb_tensor *out) {
    const qb_axis_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_log_softmax);
    lines l;
    QB_TRY(lines_along(cx, &in[0].desc.shape, attrs->axis, &l));
    const int64_t n = l.n, inner = l.inner;
    for (int64_t line = 0; line < l.count; line++) {
        const int64_t at = first_of(&l, line);
        const float *x = (const float *)in[0].data + at;
        float *y = (float *)out[0].data + at;
        float max = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            if (x[i * inner] > max || isnan(x[i * inner])) max = x[i * inner];
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += exp((double)(x[i * inner] - max));
        double shift = log(sum);
        for (int64_t i = 0; i < n; i++)
            y[i * inner] = (float)((double)(x[i * inner] - max) - shift);
    }
    return QB_OK;
}

/* 1 at the first of the largest elements along the axis, 0 elsewhere. */
static qb_status eval_hardmax(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    const qb_axis_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_hardmax);
    lines l;
    QB_TRY(lines_along(cx, &in[0].desc.shape, attrs->axis, &l));
    memset(out[0].data, 0, (size_t)(l.count * l.n) * sizeof(float));
    for (int64_t line = 0; line < l.count; line++) {
        const int64_t at = first_of(&l, line);
        const float *x = (const float *)in[0].data + at;
        int64_t largest = 0;
        for (int64_t i = 1; i < l.n; i++)
            if (x[i * l.inner] > x[largest * l.inner]) largest = i;
        ((float *)out[0].data)[at + largest * l.inner] = 1.0f;
    }
    return QB_OK;
}

static qb_status add_node(qb_ctx *cx, qb_graph *graph, const char *op, const int32_t *in,
                          int32_t n_in, int32_t out, int32_t *node) {
    const qb_op *found = qb_op_find(op, "");
    *node = qb_graph_add_node(cx, graph, found, "", in, n_in, &out, 1);
    return *node < 0 ? cx->code : QB_OK;
}

/* Before opset 13 the data was seen as a matrix whose rows begin at `axis`. That is Softmax along
 * `axis` when all dimensions behind it are 1; otherwise, or when nothing is known yet, Flatten and
 * Reshape say it. */
static qb_status upgrade_softmax(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 13) return QB_OK;
    qb_axis_attrs *attrs = graph->nodes[node].attrs;
    int32_t x = graph->nodes[node].in[0];
    qb_shape shape = graph->values[x].shape;
    int64_t given = attrs->axis;
    if (shape.rank >= 0) {
        int32_t axis = 0;
        if (shape.rank > 0) QB_TRY(qb_axis_resolve(cx, given, shape.rank, &axis));
        bool plain = true;
        for (int32_t d = axis + 1; d < shape.rank; d++) plain = plain && shape.dim[d] == 1;
        attrs->axis = axis == shape.rank - 1 ? -1 : axis;
        if (plain) return QB_OK;
    }
    attrs->axis = -1;
    qb_shape unknown = {.rank = -1};
    int32_t flat = qb_graph_add_value(cx, graph, "softmax_rows", QB_DTYPE_NONE, &unknown);
    int32_t dims = qb_graph_add_value(cx, graph, "softmax_shape", QB_DTYPE_NONE, &unknown);
    int32_t added, rows, out;
    if (flat < 0 || dims < 0) return cx->code;
    QB_TRY(qb_node_detach_output(cx, graph, node, "rows", &rows, &out));
    graph->nodes[node].in[0] = flat;
    QB_TRY(add_node(cx, graph, "Flatten", &x, 1, flat, &added));
    ((qb_axis_attrs *)graph->nodes[added].attrs)->axis = given;
    QB_TRY(add_node(cx, graph, "Shape", &x, 1, dims, &added));
    QB_TRY(add_node(cx, graph, "Reshape", (int32_t[]){rows, dims}, 2, out, &added));
    ((qb_reshape_attrs *)graph->nodes[added].attrs)->allowzero =
        1; /* the shape is meant as it is */
    return QB_OK;
}

QB_OP_SIMPLE(softmax, "Softmax", 7, 1, 1, 1, sizeof(qb_axis_attrs), softmax_attrs, FLOAT,
             infer_softmax, eval_softmax, .upgrade = upgrade_softmax, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_AXIS | QB_TRAIT_CLASSES, .kernel = {QB_KIND_SOFTMAX});
QB_OP_SIMPLE(log_softmax, "LogSoftmax", 7, 1, 1, 1, sizeof(qb_axis_attrs), softmax_attrs, FLOAT,
             infer_softmax, eval_log_softmax, .upgrade = upgrade_softmax, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_AXIS | QB_TRAIT_CLASSES);
QB_OP_SIMPLE(hardmax, "Hardmax", 7, 1, 1, 1, sizeof(qb_axis_attrs), softmax_attrs, FLOAT,
             infer_softmax, eval_hardmax, .upgrade = upgrade_softmax, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_AXIS | QB_TRAIT_CLASSES);

/* A sum over a dimension of a few parts is a chain of additions of the parts, where they lie apart
 * anyway: a stack of values, or groups of channels that a Reshape took apart (the branches of
 * split attention). The larger value of one dimension more, which is rarely channels last, goes.
 * The same holds for maxima and minima. Products and sums on the way are done by part. */
#include "graph/passes_internal.h"

#define MOST_PARTS 4 /* beyond it one reduction beats a chain of additions */
#define MOST_STEPS                                                                                 \
    4 /* products and sums between a stack and its sum: each is looked at anew for each part */

/* The dimension of the parts, counted from the end, so that broadcasting does not move it. */
typedef struct parts {
    qb_rewrite *rw;
    int32_t from_end;
    int64_t n;
    int32_t name; /* values are named after it */
} parts;

static int32_t axis_in(const parts *p, int32_t value) {
    return p->rw->graph->values[value].shape.rank - p->from_end;
}

static qb_shape without(const qb_shape *shape, int32_t axis) {
    qb_shape rest = {.rank = shape->rank - 1};
    for (int32_t d = 0; d < rest.rank; d++) rest.dim[d] = shape->dim[d + (d >= axis)];
    return rest;
}

static bool is_stack(const parts *p, const qb_node *node, int32_t axis) {
    const qb_graph *graph = p->rw->graph;
    const int64_t at = qb_node_int(node, "axis", 0), rank = graph->values[node->out[0]].shape.rank;
    if (!qb_node_is(node, "Concat") || node->n_in != p->n || (at < 0 ? at + rank : at) != axis)
        return false;
    for (int32_t i = 0; i < node->n_in; i++)
        if (graph->values[node->in[i]].shape.dim[axis] != 1) return false;
    return true;
}

/* A view of n groups of channels, which lie behind each other: slices of channels last, which
 * kernels take as they are. */
static bool is_taken_apart(const parts *p, const qb_node *node, int32_t axis) {
    const qb_shape *out = &p->rw->graph->values[node->out[0]].shape;
    if (axis != 1 || !qb_node_is_view(node) || axis + 1 >= out->rank || out->dim[axis + 1] < 1)
        return false;
    const qb_shape *in = &p->rw->graph->values[node->in[0]].shape, rest = without(out, axis);
    if (in->rank != rest.rank) return false;
    for (int32_t d = 0; d < rest.rank; d++)
        if (in->dim[d] != rest.dim[d] * (d == axis ? p->n : 1)) return false;
    return true;
}

/* An operand has all parts, or one that all share. */
static bool is_divisible(const parts *p, int32_t value) {
    const qb_value *v = &p->rw->graph->values[value];
    if (!qb_value_has_one_scale(v) || v->shape.rank < 0) return false;
    const int32_t axis = axis_in(p, value);
    return axis < 0 || v->shape.dim[axis] == 1 || v->shape.dim[axis] == p->n;
}

static bool in_parts(const parts *p, int32_t value, int32_t user, int32_t steps) {
    const qb_graph *graph = p->rw->graph;
    const int32_t axis = axis_in(p, value), from = qb_rewrite_from(p->rw, value, NULL);
    if (axis < 0 || from < 0 || graph->values[value].kept ||
        !qb_value_has_one_scale(&graph->values[value]))
        return false;
    const qb_node *node = &graph->nodes[from];
    if (is_stack(p, node, axis) || is_taken_apart(p, node, axis)) return true;
    if (steps == 0 || qb_affine_of(node) == QB_AFFINE_NONE ||
        qb_uses_sole_user(graph, &p->rw->uses, value) != user || !is_divisible(p, node->in[0]) ||
        !is_divisible(p, node->in[1]))
        return false;
    return in_parts(p, node->in[0], from, steps - 1) || in_parts(p, node->in[1], from, steps - 1);
}

static qb_status append(const parts *p, const char *op, const int32_t *in, int32_t n_in,
                        int32_t like, const qb_shape *shape, int32_t *out) {
    QB_TRY(qb_rewrite_value(p->rw, like, "_part", shape, out));
    return qb_rewrite_append(p->rw, qb_op_find(op, ""), in, n_in, *out);
}

/* `like`: the value of which this is a part. A Concat or view rounds to a scale of its own. */
static qb_status squeeze(const parts *p, int32_t value, int32_t axis, int32_t like, int32_t *out) {
    const int64_t at = axis;
    const qb_shape rest = without(&p->rw->graph->values[value].shape, axis);
    int32_t in[2] = {value, -1};
    QB_TRY(qb_rewrite_int64s(p->rw, p->name, "_axis", &at, 1, &in[1]));
    return append(p, "Squeeze", in, 2, like, &rest, out);
}

static qb_status slice(const parts *p, int32_t value, int32_t axis, int64_t first, int64_t n,
                       int32_t like, int32_t *out) {
    const int64_t bounds[] = {first, first + n, axis};
    qb_shape shape = p->rw->graph->values[value].shape;
    shape.dim[axis] = n;
    int32_t in[4] = {value, -1, -1, -1};
    for (int32_t i = 0; i < 3; i++)
        QB_TRY(qb_rewrite_int64s(p->rw, p->name, "_bound", &bounds[i], 1, &in[1 + i]));
    return append(p, "Slice", in, 4, like, &shape, out);
}

/* Part i of a value, without the dimension of the parts. */
static qb_status part(const parts *p, int32_t value, int64_t i, int32_t steps, int32_t *out) {
    const qb_graph *graph = p->rw->graph;
    const int32_t axis = axis_in(p, value), from = qb_rewrite_from(p->rw, value, NULL);
    const qb_node *node = from >= 0 ? &graph->nodes[from] : NULL;
    *out = value;
    if (axis < 0) return QB_OK;
    const qb_shape shape = graph->values[value].shape;
    if (shape.dim[axis] == 1) return squeeze(p, value, axis, value, out);
    if (node && is_stack(p, node, axis)) return squeeze(p, node->in[i], axis, value, out);
    if (node && is_taken_apart(p, node, axis))
        return slice(p, node->in[0], axis, i * shape.dim[axis + 1], shape.dim[axis + 1], value,
                     out);
    if (node && in_parts(p, value, qb_uses_sole_user(graph, &p->rw->uses, value), steps)) {
        const qb_op *op = node->op;
        const qb_shape rest = without(&shape, axis);
        int32_t in[2] = {node->in[0], node->in[1]};
        for (int32_t k = 0; k < 2; k++) QB_TRY(part(p, in[k], i, steps - 1, &in[k]));
        return append(p, op->name, in, 2, value, &rest, out);
    }
    QB_TRY(slice(p, value, axis, i, 1, value, out));
    return squeeze(p, *out, axis, value, out);
}

/* The parts of x one by one become `out`, which node `index` writes. */
static qb_status combine(const parts *p, int32_t index, const char *op, int32_t x, bool keepdims) {
    const int32_t axis = axis_in(p, x), out = p->name;
    const qb_shape rest = without(&p->rw->graph->values[x].shape, axis);
    const int64_t at = axis;
    int32_t in[2], sum;
    QB_TRY(part(p, x, 0, MOST_STEPS, &in[0]));
    for (int64_t i = 1; i < p->n; i++) {
        QB_TRY(part(p, x, i, MOST_STEPS, &in[1]));
        if (i == p->n - 1 && !keepdims)
            return qb_rewrite_node(p->rw, index, qb_op_find(op, ""), in, 2, out);
        const bool last = i == p->n - 1; /* sums on the way are not rounded */
        QB_TRY((last ? qb_rewrite_value : qb_rewrite_plain)(p->rw, out, "_part", &rest, &sum));
        QB_TRY(qb_rewrite_append(p->rw, qb_op_find(op, ""), in, 2, sum));
        in[0] = sum;
    }
    QB_TRY(qb_rewrite_int64s(p->rw, out, "_axis", &at, 1, &in[1]));
    return qb_rewrite_node(p->rw, index, qb_op_find("Unsqueeze", ""), in, 2, out);
}

/* What makes a reduction of two parts. */
static const char *combination(const qb_node *node) {
    if (!node->op || node->op->kernel.kind != QB_KIND_REDUCE) return NULL;
    switch (node->op->kernel.reduce) {
    case QB_REDUCE_SUM: return "Add";
    case QB_REDUCE_MAX: return "Max";
    case QB_REDUCE_MIN: return "Min";
    default: return NULL;
    }
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const char *op = combination(node);
    int64_t axis;
    int32_t n;
    if (!op || !qb_value_int_list(graph, qb_node_in(node, 1), &axis, 1, &n) || n != 1 ||
        !qb_value_has_one_scale(&graph->values[node->out[0]]))
        return QB_OK;
    const int32_t x = node->in[0];
    const qb_shape *shape = &graph->values[x].shape;
    parts p = {.rw = rw, .name = node->out[0]};
    if (axis < 0) axis += shape->rank;
    if (axis < 0 || axis >= shape->rank) return QB_OK;
    p.from_end = shape->rank - (int32_t)axis;
    p.n = shape->dim[axis];
    if (p.n < 2 || p.n > MOST_PARTS || !in_parts(&p, x, index, MOST_STEPS)) return QB_OK;
    QB_TRY(combine(&p, index, op, x, qb_node_int(node, "keepdims", 1) != 0));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_sum_of_parts = {
    "sum-of-parts", "makes additions of a sum over a few parts that lie apart", .match = match};

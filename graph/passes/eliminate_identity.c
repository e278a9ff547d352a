/* Nodes that hand their first input on unchanged, and copies that arithmetic would make by itself.
 */

#include "graph/passes_internal.h"

static bool same_shape(const qb_graph *graph, const qb_node *node) {
    return qb_shape_surely_equal(&graph->values[node->in[0]].shape,
                                 &graph->values[node->out[0]].shape);
}

static bool all_equal(const int64_t *v, int32_t n, int64_t number) {
    for (int32_t i = 0; i < n; i++)
        if (v[i] != number) return false;
    return true;
}

static bool dropout_is_off(const qb_graph *graph, const qb_node *node) {
    double training = 0;
    int32_t mode = qb_node_in(node, 2);
    return mode < 0 || (qb_value_scalar(graph, mode, &training) && training == 0);
}

static bool perm_is_identity(const qb_graph *graph, const qb_node *node) {
    qb_ints perm = qb_node_ints(node, "perm");
    if (perm.n == 0) return graph->values[node->in[0]].shape.rank == 1;
    for (int32_t i = 0; i < perm.n; i++)
        if (perm.v[i] != i) return false;
    return true;
}

static bool pad_is_empty(const qb_graph *graph, const qb_node *node) {
    int64_t pads[2 * QB_MAX_RANK];
    int32_t n = 0;
    return qb_value_int_list(graph, qb_node_in(node, 1), pads, 2 * QB_MAX_RANK, &n) &&
           all_equal(pads, n, 0);
}

/* The shape tells, but for a reversed axis. */
static bool slice_is_whole(const qb_graph *graph, const qb_node *node) {
    int64_t steps[QB_MAX_RANK];
    int32_t n = 0, input = qb_node_in(node, 4);
    if (input >= 0 &&
        !(qb_value_int_list(graph, input, steps, QB_MAX_RANK, &n) && all_equal(steps, n, 1)))
        return false;
    return same_shape(graph, node);
}

/* x + 0, x - 0, x * 1, x / 1 where the constant does not widen x. */
static bool arithmetic_is_empty(const qb_graph *graph, const qb_node *node, int32_t *kept) {
    const qb_op_kernel *k = &node->op->kernel;
    const bool sum = k->binary == QB_BINARY_ADD || k->binary == QB_BINARY_SUB;
    const bool product = k->binary == QB_BINARY_MUL || k->binary == QB_BINARY_DIV;
    if (k->kind != QB_KIND_BINARY || !(sum || product)) return false;
    const bool commutes = k->binary == QB_BINARY_ADD || k->binary == QB_BINARY_MUL;
    const float neutral = product ? 1 : 0;
    for (int32_t side = 1; side >= (commutes ? 0 : 1); side--) {
        const float *data = qb_value_floats(graph, node->in[side]);
        if (!data || qb_value_is_const(graph, node->in[1 - side])) continue;
        const qb_shape *x = &graph->values[node->in[1 - side]].shape;
        if (!qb_shape_surely_equal(x, &graph->values[node->out[0]].shape)) continue;
        int64_t n = qb_shape_count(&graph->values[node->in[side]].shape), i = 0;
        while (i < n && data[i] == neutral) i++;
        if (i < n) continue;
        *kept = 1 - side;
        return true;
    }
    return false;
}

/* The input that the only output equals, or -1. */
static int32_t passed_on(const qb_graph *graph, const qb_node *node) {
    const uint32_t of_one = QB_TRAIT_ELEMENTWISE | QB_TRAIT_REORDER;
    int32_t kept = 0;
    bool empty = false;
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return -1;
    if (node->n_in < 1 || node->in[0] < 0) return -1;
    if (qb_op_has(node->op, QB_TRAIT_CONVERT))
        empty = true; /* the types are compared below */
    else if (qb_node_is(node, "Dropout"))
        empty = dropout_is_off(graph, node);
    else if (node->op->traits & (QB_TRAIT_VIEW | QB_TRAIT_IN_ORDER))
        empty = same_shape(graph, node);
    else if (qb_node_is(node, "Transpose"))
        empty = perm_is_identity(graph, node);
    else if (qb_node_is(node, "Pad"))
        empty = pad_is_empty(graph, node);
    else if (qb_node_is(node, "Slice"))
        empty = slice_is_whole(graph, node);
    else if (node->op->max_in == INT32_MAX && node->op->traits & of_one)
        empty = node->n_in == 1;
    else
        empty = arithmetic_is_empty(graph, node, &kept);
    return empty ? node->in[kept] : -1;
}

/* Do the values, broadcast to each other, have the shape? */
static bool broadcast_to(const qb_graph *graph, int32_t a, int32_t b, const qb_shape *shape) {
    const qb_shape *x = &graph->values[a].shape, *y = &graph->values[b].shape;
    if (qb_shape_surely_equal(y, shape)) return true;
    if (!qb_shape_known(x) || !qb_shape_known(y) || !qb_shape_known(shape)) return false;
    if (x->rank != shape->rank && y->rank != shape->rank) return false; /* leading ones count */
    for (int32_t i = 1; i <= shape->rank; i++) {
        const int64_t from_x = i <= x->rank ? x->dim[x->rank - i] : 1;
        const int64_t from_y = i <= y->rank ? y->dim[y->rank - i] : 1;
        if ((from_x == 1 ? from_y : from_x) != shape->dim[shape->rank - i]) return false;
    }
    return true;
}

void qb_read_before_expand(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    qb_node *node = &graph->nodes[index];
    if (node->op->kernel.kind != QB_KIND_BINARY) return;
    for (int32_t i = 0; i < 2; i++) {
        const int32_t expand = qb_rewrite_from(rw, node->in[i], "Expand");
        if (expand < 0) continue;
        const int32_t x = graph->nodes[expand].in[0];
        if (!broadcast_to(graph, x, node->in[1 - i], &graph->values[node->out[0]].shape)) continue;
        if (graph->values[node->in[i]].kept ||
            !qb_qparams_same(&graph->values[x].q, &graph->values[node->in[i]].q))
            continue;
        node->in[i] = x;
        qb_rewrite_touch(rw, index);
        qb_rewrite_changed(rw);
    }
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t x = passed_on(graph, node);
    if (x < 0) qb_read_before_expand(rw, index);
    if (x < 0) return QB_OK;
    const qb_value *in = &graph->values[x], *out = &graph->values[node->out[0]];
    if (in->dtype == QB_DTYPE_NONE || in->dtype != out->dtype) return QB_OK;
    if (!qb_qparams_same(&in->q, &out->q)) return QB_OK;
    if (qb_rewrite_forward(rw, node->out[0], x)) qb_rewrite_kill(rw, index);
    return QB_OK;
}

const qb_pass qb_pass_eliminate_identity = {
    "eliminate-identity",
    "removes Identity, Dropout and casts, reshapes, pads, slices, expands, arithmetic without "
    "effect",
    .match = match};

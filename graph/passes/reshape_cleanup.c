/* Chains of views (Reshape, Flatten, Squeeze, Unsqueeze) become one Reshape, and a Reshape whose
 * target is computed at run time gets a constant one where the shapes allow that. */
#include "graph/passes_internal.h"

/* The target of a Reshape from `from` to `to`: 0 copies a symbol that stays in its place, -1 stands
 * for at most one other unknown dimension. */
static bool reshape_target(const qb_shape *from, const qb_shape *to, int64_t *target) {
    int32_t unknown = 0;
    if (to->rank < 0) return false;
    for (int32_t i = 0; i < to->rank; i++) {
        int64_t d = to->dim[i];
        if (d == 0) return false; /* 0 would mean something else, and -1 could not be computed */
        bool same = i < from->rank && from->dim[i] == d;
        target[i] = d > 0 ? d : d < -1 && same ? 0 : -1;
        unknown += target[i] == -1;
    }
    return unknown <= 1;
}

/* A constant target that means the same for any input with as many elements. */
static bool target_is_absolute(const qb_graph *graph, const qb_node *node) {
    int64_t target[QB_MAX_RANK];
    int32_t n = 0;
    if (!qb_node_is(node, "Reshape") || qb_node_int(node, "allowzero", 0) != 0) return false;
    if (!qb_value_int_list(graph, qb_node_in(node, 1), target, QB_MAX_RANK, &n)) return false;
    for (int32_t i = 0; i < n; i++)
        if (target[i] == 0) return false;
    return true;
}

static qb_status make_reshape(qb_rewrite *rw, int32_t index, int32_t from, bool *done) {
    qb_graph *graph = rw->graph;
    int32_t out = graph->nodes[index].out[0], in[2] = {from, -1};
    int64_t target[QB_MAX_RANK];
    *done = false;
    if (!reshape_target(&graph->values[from].shape, &graph->values[out].shape, target))
        return QB_OK;
    QB_TRY(qb_rewrite_int64s(rw, out, "_shape", target, graph->values[out].shape.rank, &in[1]));
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Reshape", ""), in, 2, out));
    *done = true;
    return QB_OK;
}

/* first(x) -> second: second reads x. */
static qb_status merge(qb_rewrite *rw, int32_t first, int32_t second) {
    qb_graph *graph = rw->graph;
    qb_node *node = &graph->nodes[second];
    int32_t x = graph->nodes[first].in[0], mid = node->in[0];
    const qb_qparams *q = &graph->values[x].q;
    if (q->n > 0 && q->axis >= 0) return QB_OK; /* the axis may move */
    if (!qb_qparams_same(q, &graph->values[mid].q) ||
        !qb_qparams_same(q, &graph->values[node->out[0]].q))
        return QB_OK;
    bool done = target_is_absolute(graph, node);
    if (done) {
        node->in[0] = x;
        qb_rewrite_touch(rw, second);
    } else {
        QB_TRY(make_reshape(rw, second, x, &done));
    }
    return done ? qb_rewrite_changed(rw) : QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is_view(node) || qb_value_is_const(graph, node->in[0])) return QB_OK;
    int32_t before = qb_rewrite_from(rw, node->in[0], NULL);
    if (before >= 0 && qb_node_is_view(&graph->nodes[before])) return merge(rw, before, index);
    if (!qb_node_is(node, "Reshape") || qb_value_is_const(graph, node->in[1])) return QB_OK;
    bool done = false;
    QB_TRY(make_reshape(rw, index, node->in[0], &done));
    return done ? qb_rewrite_changed(rw) : QB_OK;
}

const qb_pass qb_pass_reshape_cleanup = {
    "reshape-cleanup", "merges Reshape, Flatten, Squeeze, Unsqueeze and fixes their targets",
    .match = match};

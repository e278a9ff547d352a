/* Group normalization as exporters write it: Reshape to [N, groups, the rest], instance
 * normalization of that, and Reshape back. As one node it runs in whatever layout the data lie. */
#include "graph/rewrite_internal.h"

/* Numbers of the groups as numbers of their channels. */
static qb_status spread(qb_rewrite *rw, int32_t of_groups, int64_t groups, int64_t channels,
                        const char *name, int32_t *out) {
    const float *from = qb_value_floats(rw->graph, of_groups);
    float *to = qb_arena_alloc(rw->cx, rw->graph->arena, (size_t)channels, sizeof *to);
    const qb_shape shape = {.rank = 1, .dim = {channels}};
    if (!to) return rw->cx->code;
    for (int64_t c = 0; c < channels; c++) to[c] = from[c / (channels / groups)];
    return qb_rewrite_floats(rw, of_groups, name, &shape, to, out);
}

static bool is_numbers(const qb_graph *graph, int32_t value, int64_t n) {
    return qb_value_floats(graph, value) && qb_shape_count(&graph->values[value].shape) == n;
}

/* Are the groups the value's floats? A Reshape of quantized values dequantizes them. */
static bool may_be_read(const qb_graph *graph, int32_t x, int32_t groups) {
    const qb_qparams *q = &graph->values[x].q;
    return (q->n == 0 ? qb_value_is_plain(graph, x) : q->n == 1) &&
           (qb_value_is_plain(graph, groups) || qb_qparams_same(q, &graph->values[groups].q));
}

qb_status qb_match_group_norm(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "InstanceNormalization")) return QB_OK;
    const int32_t before = qb_rewrite_from(rw, node->in[0], "Reshape");
    const int32_t behind = qb_uses_sole_user(graph, &rw->uses, node->out[0]);
    if (before < 0 || behind < 0 || !qb_node_is(&graph->nodes[behind], "Reshape") ||
        graph->nodes[behind].in[0] != node->out[0])
        return QB_OK;
    const int32_t x = graph->nodes[before].in[0], y = graph->nodes[behind].out[0];
    const qb_shape *whole = &graph->values[x].shape, *parts = &graph->values[node->in[0]].shape;
    if (whole->rank < 3 || !qb_shape_known(whole) || !qb_shape_known(parts) ||
        !qb_shape_equal(whole, &graph->values[y].shape) || parts->rank < 3 ||
        parts->dim[0] != whole->dim[0] || parts->dim[1] < 1 || whole->dim[1] % parts->dim[1] != 0 ||
        !may_be_read(graph, x, node->in[0]) || !qb_value_is_plain(graph, node->out[0]) ||
        !qb_value_is_plain(graph, y) || !is_numbers(graph, node->in[1], parts->dim[1]) ||
        !is_numbers(graph, node->in[2], parts->dim[1]))
        return QB_OK;
    const int64_t groups = parts->dim[1], channels = whole->dim[1];
    const float epsilon = qb_node_float(node, "epsilon", 1e-5f);
    const int32_t factors[] = {node->in[1], node->in[2]};
    int32_t in[3] = {x};
    QB_TRY(spread(rw, factors[0], groups, channels, "_channels", &in[1]));
    QB_TRY(spread(rw, factors[1], groups, channels, "_channels", &in[2]));
    QB_TRY(qb_rewrite_node(rw, behind, qb_op_find("GroupNormalization", ""), in, 3, y));
    QB_TRY(qb_node_set_int(rw, behind, "num_groups", groups));
    QB_TRY(qb_node_set_float(rw, behind, "epsilon", epsilon));
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* An AveragePool whose window is the whole input is GlobalAveragePool. OpenVINO 2026.4 computes the
 * two differently in integers: the first one wrongly where it gives quantized values. */
#include "graph/passes_internal.h"

static bool is_whole(qb_rewrite *rw, const qb_node *node, const qb_shape *x) {
    const qb_ints kernel = qb_node_ints(node, "kernel_shape"),
                  dilations = qb_node_ints(node, "dilations");
    int64_t pads[2 * QB_MAX_RANK];
    const int32_t n = x->rank - 2;
    if (n < 1 || kernel.n != n || !qb_node_pads(rw, node, n, pads)) return false;
    for (int32_t d = 0; d < n; d++)
        if (kernel.v[d] != x->dim[2 + d] || pads[d] != 0 || pads[n + d] != 0 ||
            (d < dilations.n && dilations.v[d] != 1))
            return false;
    return true;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "AveragePool")) return QB_OK;
    const int32_t x = node->in[0], out = node->out[0];
    if (!qb_value_is_plain(graph, x) || !qb_value_is_plain(graph, out)) return QB_OK;
    if (!is_whole(rw, node, &graph->values[x].shape)) return QB_OK;
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("GlobalAveragePool", ""), &x, 1, out));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_whole_average_pool = {
    "whole-average-pool", "turns an AveragePool of the whole input into GlobalAveragePool",
    .match = match};

/* The reader folds Q/DQ pairs with f32 scales; those of models in 16 bits have f32 scales only
 * after widen-half. Before fold-constants, which would make floats of integer weights. */
#include "graph/passes_internal.h"

static int32_t count(const qb_graph *graph) {
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += qb_node_is(&graph->nodes[i], "QuantizeLinear") ||
             qb_node_is(&graph->nodes[i], "DequantizeLinear");
    return n;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    const int32_t before = count(graph);
    if (before > 0) QB_TRY(qb_graph_fold_qdq(cx, graph));
    *n_changes = before - count(graph);
    return QB_OK;
}

const qb_pass qb_pass_fold_qdq = {
    "fold-qdq", "makes QuantizeLinear and DequantizeLinear parameters of values", .run = run};

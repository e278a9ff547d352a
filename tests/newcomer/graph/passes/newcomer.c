/* Neg of Neg is nothing. */
#include "graph/passes_internal.h"

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    const int32_t inner = qb_node_is(node, "Neg") ? qb_rewrite_from(rw, node->in[0], "Neg") : -1;
    if (inner < 0) return QB_OK;
    if (qb_rewrite_forward(rw, node->out[0], rw->graph->nodes[inner].in[0]))
        qb_rewrite_kill(rw, index);
    return QB_OK;
}

const qb_pass qb_pass_newcomer = {"newcomer", "removes Neg of Neg", .match = match};

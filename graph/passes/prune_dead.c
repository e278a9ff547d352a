#include "graph/passes_internal.h"

/* Outputs nobody reads are left out where the operator allows that (Dropout's mask, MaxPool's
 * indices), so that other passes see the plain form. Split counts its outputs, and ONNX has no
 * TopK without the indices: all stay. */
static int32_t drop_outputs(qb_graph *graph, const qb_uses *uses, qb_node *node) {
    int32_t n = 0;
    if (node->op->max_out == INT32_MAX || qb_op_has(node->op, QB_TRAIT_ALL_OUTPUTS)) return 0;
    for (int32_t i = node->op->min_out; i < node->n_out; i++) {
        int32_t v = node->out[i];
        if (v < 0 || uses->n_users[v] > 0 || qb_graph_is_output(graph, v)) continue;
        node->out[i] = -1;
        n++;
    }
    while (node->n_out > node->op->min_out && node->out[node->n_out - 1] < 0) node->n_out--;
    return n;
}

static bool is_dead(const qb_graph *graph, const int32_t *n_users, const qb_node *node) {
    for (int32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i];
        if (v >= 0 && (n_users[v] > 0 || qb_graph_is_output(graph, v))) return false;
    }
    return true;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_uses uses;
    QB_TRY(qb_uses_build(cx, graph, &uses));
    int32_t n = 0;
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--) { /* users first: whole chains die at once */
        qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        if (!is_dead(graph, uses.n_users, node)) {
            n += drop_outputs(graph, &uses, node);
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) uses.n_users[node->in[k]]--;
        qb_graph_kill_node(graph, i);
        n++;
    }
    qb_uses_release(&uses);
    *n_changes = n;
    return QB_OK;
}

const qb_pass qb_pass_prune_dead = {"prune-dead", "removes nodes and outputs that nothing reads",
                                    .run = run};

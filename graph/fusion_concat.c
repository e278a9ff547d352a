/* Concats that begin with all that an earlier one has, as dense blocks do, begin with its result:
 * each then writes its part behind the others' in one buffer, and nothing is copied. */
#include "graph/rewrite_internal.h"

static bool is_concat(const qb_node *node) {
    return qb_node_is(node, "Concat") && node->n_out == 1 && node->out[0] >= 0;
}

/* Does the Concat begin with all inputs of the other one, and have more? */
static bool begins_with(const qb_graph *graph, const qb_node *node, const qb_node *other) {
    if (!is_concat(other) || other->n_in < 2 || other->n_in >= node->n_in ||
        !qb_node_same_attrs(node, other))
        return false;
    for (int32_t i = 0; i < other->n_in; i++)
        if (node->in[i] != other->in[i]) return false;
    const qb_value *x = &graph->values[other->out[0]], *y = &graph->values[node->out[0]];
    return qb_value_same_type(x, y);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index], *longest = NULL;
    if (!is_concat(node) || node->n_in < 3 || node->in[0] < 0) return QB_OK;
    const int32_t first = node->in[0];
    for (int32_t u = 0; u < rw->uses.n_users[first]; u++) {
        const qb_node *other = &graph->nodes[rw->uses.users[first][u]];
        if (begins_with(graph, node, other) && (!longest || other->n_in > longest->n_in))
            longest = other;
    }
    if (!longest) return QB_OK;
    const int32_t n = node->n_in - longest->n_in + 1;
    int32_t *in = qb_arena_alloc(rw->cx, rw->graph->arena, (size_t)n, sizeof *in);
    if (!in) return rw->cx->code;
    in[0] = longest->out[0];
    for (int32_t i = 1; i < n; i++) in[i] = node->in[longest->n_in + i - 1];
    QB_TRY(qb_rewrite_inputs(rw, index, in, n));
    rw->unsorted = true; /* the other one may stand behind */
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* From the last one on: the longest one that it begins with is still as it was. */
qb_status qb_share_concats(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    QB_RELEASED(qb_rewrite_release) qb_rewrite rw = {.cx = cx, .graph = graph};
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--) {
        QB_TRY(qb_rewrite_refresh(&rw));
        QB_TRY(match(&rw, i));
    }
    QB_TRY(qb_rewrite_tidy(&rw));
    *n_changes += rw.n_changes;
    return QB_OK;
}

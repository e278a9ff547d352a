/* Equal constants become one, and so do nodes with the same operator, attributes and inputs. All
 * operators are functions of their inputs, so the first of two equal nodes can stand for both. */
#include <string.h>

#include "base/hash.h"
#include "graph/passes_internal.h"

typedef struct table { /* open addressing; slots hold 1 + value id or 1 + node index */
    int32_t *slot;
    size_t n;
} table;

typedef struct state {
    qb_graph *graph;
    table constants, nodes;
    int32_t *alias; /* [n_values] the value to read instead */
    int32_t n_changes;
} state;

static qb_status table_init(qb_ctx *cx, int32_t entries, table *out) {
    size_t n = 16;
    while (n < 2 * (size_t)entries) n *= 2;
    out->slot = qb_alloc(cx, n, sizeof *out->slot);
    out->n = n;
    return out->slot ? QB_OK : cx->code;
}

static size_t mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    return (size_t)(h ^ (h >> 32));
}

static size_t hash_bytes(const void *data, size_t n) {
    qb_hash hash = qb_hash_bytes(data, n);
    uint64_t word;
    memcpy(&word, hash.byte, sizeof word);
    return (size_t)word;
}

static bool same_constant(const qb_value *a, const qb_value *b) {
    return a->dtype == b->dtype && qb_shape_equal(&a->shape, &b->shape) && a->bytes == b->bytes &&
           qb_qparams_same(&a->q, &b->q) &&
           (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static void visit_constant(state *s, int32_t id) {
    const qb_value *v = &s->graph->values[id];
    size_t at = mix(hash_bytes(v->data, v->bytes), (uint64_t)v->dtype);
    for (at &= s->constants.n - 1; s->constants.slot[at]; at = (at + 1) & (s->constants.n - 1)) {
        int32_t other = s->constants.slot[at] - 1;
        if (!same_constant(&s->graph->values[other], v)) continue;
        if (!qb_graph_is_output(s->graph, id)) s->alias[id] = other;
        return;
    }
    s->constants.slot[at] = id + 1;
}

static bool same_outputs(const qb_graph *graph, const qb_node *a, const qb_node *b) {
    if (a->n_out != b->n_out) return false;
    for (int32_t i = 0; i < a->n_out; i++) {
        if ((a->out[i] < 0) != (b->out[i] < 0)) return false;
        if (a->out[i] >= 0 &&
            !qb_qparams_same(&graph->values[a->out[i]].q, &graph->values[b->out[i]].q))
            return false;
    }
    return true;
}

static bool same_node(const qb_graph *graph, const qb_node *a, const qb_node *b) {
    return a->op == b->op && a->n_in == b->n_in &&
           memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 && qb_node_same_attrs(a, b) &&
           same_outputs(graph, a, b);
}

static bool has_graph_output(const qb_graph *graph, const qb_node *node) {
    for (int32_t i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0 && qb_graph_is_output(graph, node->out[i])) return true;
    return false;
}

/* The inputs are final when a node is visited, because nodes come in topological order. */
static void visit_node(state *s, int32_t index) {
    qb_graph *graph = s->graph;
    qb_node *node = &graph->nodes[index];
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0 || s->alias[node->in[i]] == node->in[i]) continue;
        bool constant = qb_value_is_const(graph, node->in[i]);
        node->in[i] = s->alias[node->in[i]];
        s->n_changes += constant; /* merged nodes are counted below */
    }
    size_t at = hash_bytes(node->op->name, strlen(node->op->name));
    for (int32_t i = 0; i < node->n_in; i++) at = mix(at, (uint64_t)(int64_t)node->in[i]);
    for (at &= s->nodes.n - 1; s->nodes.slot[at]; at = (at + 1) & (s->nodes.n - 1)) {
        const qb_node *other = &graph->nodes[s->nodes.slot[at] - 1];
        if (!same_node(graph, other, node)) continue;
        if (has_graph_output(graph, node)) return; /* its names must stay */
        for (int32_t i = 0; i < node->n_out; i++)
            if (node->out[i] >= 0) s->alias[node->out[i]] = other->out[i];
        qb_graph_kill_node(graph, index);
        s->n_changes++;
        return;
    }
    s->nodes.slot[at] = index + 1;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    state s = {.graph = graph};
    qb_status status = QB_OK;
    QB_GO(table_init(cx, graph->n_values, &s.constants));
    QB_GO(table_init(cx, graph->n_nodes, &s.nodes));
    QB_GO_NEW(cx, s.alias = qb_alloc(cx, (size_t)graph->n_values, sizeof *s.alias));
    for (int32_t i = 0; i < graph->n_values; i++) s.alias[i] = i;
    for (int32_t i = 0; i < graph->n_values; i++)
        if (qb_value_is_const(graph, i)) visit_constant(&s, i);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) visit_node(&s, i);
    *n_changes = s.n_changes;
out:
    QB_FREE_ALL(s.constants.slot, s.nodes.slot, s.alias);
    return status;
}

const qb_pass qb_pass_common_subexpressions = {
    "common-subexpressions", "merges equal constants and nodes that compute the same", .run = run};

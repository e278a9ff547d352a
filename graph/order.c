/* Producers and consumers, and the topological order. */
#include <string.h>

#include "base/strbuf.h"
#include "graph_internal.h"

/* One block holds all four arrays, so that there is one thing to free. */
qb_status qb_uses_build(qb_ctx *cx, const qb_graph *graph, qb_uses *out) {
    size_t n = (size_t)graph->n_values, uses = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) uses += (size_t)graph->nodes[i].n_in;
    char *block =
        qb_alloc(cx, 1, n * (sizeof(int32_t *) + 2 * sizeof(int32_t)) + uses * sizeof(int32_t));
    if (!block) return cx->code;
    int32_t **users = (int32_t **)block;
    int32_t *producer = (int32_t *)(users + n), *n_users = producer + n, *list = n_users + n;
    memset(producer, -1, n * sizeof *producer);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        for (int32_t k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) n_users[node->in[k]]++;
        for (int32_t k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) producer[node->out[k]] = i;
    }
    for (size_t v = 0; v < n; v++) {
        users[v] = list;
        list += n_users[v];
        n_users[v] = 0;
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_in; k++) {
            int32_t v = node->in[k];
            if (v >= 0) users[v][n_users[v]++] = i;
        }
    }
    *out = (qb_uses){producer, n_users, users, block};
    return QB_OK;
}

void qb_uses_release(qb_uses *uses) {
    qb_free(uses->block);
    *uses = (qb_uses){0};
}

/* Depth first from each node in turn, producers before users: a sorted graph stays as it is. The
 * stack is explicit because files decide how deep it gets. */
typedef struct sorter {
    const qb_graph *graph;
    const int32_t *producer;
    char *state;    /* per node: 0 new, 1 on the stack, 2 done */
    int32_t *stack; /* node indices */
    int32_t *next;  /* per node: the input to look at next */
    int32_t depth, n_done;
    int32_t *order;
} sorter;

static qb_status report_cycle(qb_ctx *cx, const sorter *s, int32_t node) {
    int32_t start = s->depth - 1;
    while (s->stack[start] != node) start--;
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    char label[QB_LABEL_MAX];
    for (int32_t i = start; i < s->depth; i++) {
        if (i - start == 8 && s->depth - i > 1) {
            qb_strbuf_addf(&text, "%d more -> ", (int)(s->depth - i));
            break;
        }
        qb_strbuf_addf(&text, "%s -> ", qb_node_text(s->graph, s->stack[i], label, sizeof label));
    }
    qb_strbuf_add(&text, qb_node_text(s->graph, node, label, sizeof label));
    return qb_fail(cx, QB_STATUS_FORMAT, "the graph has a cycle: %s",
                   text.failed ? label : text.data);
}

static qb_status visit(qb_ctx *cx, sorter *s, int32_t root) {
    s->stack[s->depth++] = root;
    s->state[root] = 1;
    while (s->depth) {
        int32_t at = s->stack[s->depth - 1];
        const qb_node *node = &s->graph->nodes[at];
        int32_t below = -1;
        while (below < 0 && s->next[at] < node->n_in) {
            int32_t value = node->in[s->next[at]++];
            int32_t producer = value >= 0 ? s->producer[value] : -1;
            if (producer < 0 || s->state[producer] == 2) continue;
            if (s->state[producer] == 1) return report_cycle(cx, s, producer);
            below = producer;
        }
        if (below >= 0) {
            s->state[below] = 1;
            s->stack[s->depth++] = below;
        } else {
            s->state[at] = 2;
            s->order[s->n_done++] = at;
            s->depth--;
        }
    }
    return QB_OK;
}

qb_status qb_graph_sort(qb_ctx *cx, qb_graph *graph) {
    size_t n = (size_t)graph->n_nodes;
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    sorter s = {.graph = graph};
    QB_TRY(qb_uses_build(cx, graph, &uses));
    QB_FREED char *state = QB_NEW(cx, qb_alloc(cx, n, sizeof *state));
    QB_FREED int32_t *block = QB_NEW(cx, qb_alloc(cx, 3 * n, sizeof *block));
    QB_FREED qb_node *sorted = QB_NEW(cx, qb_alloc(cx, n, sizeof *sorted));
    s.producer = uses.producer;
    s.state = state;
    s.stack = block;
    s.next = block + n;
    s.order = block + 2 * n;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i].op)
            s.order[s.n_done++] = i; /* dead: takes part in nothing */
        else if (s.state[i] == 0)
            QB_TRY(visit(cx, &s, i));
    }
    for (size_t i = 0; i < n; i++) sorted[i] = graph->nodes[s.order[i]];
    if (n) memcpy(graph->nodes, sorted, n * sizeof *sorted);
    return QB_OK;
}

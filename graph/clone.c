/* Copies of graphs, and the removal of what nobody needs. */
#include <string.h>

#include "graph_internal.h"

static void mark_list(bool *used, const int32_t *ids, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (ids[i] >= 0) used[ids[i]] = true;
}

/* map[value] = new id, or -1 for values that no input, output or live node names; *n counts the
 * values that stay. */
static qb_status number_live(qb_ctx *cx, const qb_graph *graph, int32_t **map, int32_t *n) {
    size_t count = (size_t)graph->n_values;
    QB_FREED bool *used = QB_NEW(cx, qb_alloc(cx, count, sizeof *used));
    int32_t *ids = QB_NEW(cx, qb_alloc(cx, count, sizeof *ids));
    mark_list(used, graph->inputs, graph->n_inputs);
    mark_list(used, graph->outputs, graph->n_outputs);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        mark_list(used, node->in, node->n_in);
        mark_list(used, node->out, node->n_out);
    }
    int32_t next = 0;
    for (size_t i = 0; i < count; i++) ids[i] = used[i] ? next++ : -1;
    *map = ids;
    *n = next;
    return QB_OK;
}

static void renumber(int32_t *ids, int32_t n, const int32_t *map) {
    for (int32_t i = 0; i < n; i++)
        if (ids[i] >= 0) ids[i] = map[ids[i]];
}

qb_status qb_graph_sweep(qb_ctx *cx, qb_graph *graph) {
    int32_t n_values, n_nodes = 0;
    QB_FREED int32_t *map = NULL;
    QB_TRY(number_live(cx, graph, &map, &n_values));
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        renumber(node->in, node->n_in, map);
        renumber(node->out, node->n_out, map);
        graph->nodes[n_nodes++] = *node;
    }
    graph->n_nodes = n_nodes;
    renumber(graph->inputs, graph->n_inputs, map);
    renumber(graph->outputs, graph->n_outputs, map);
    for (int32_t i = 0; i < graph->n_values; i++) {
        if (map[i] >= 0)
            graph->values[map[i]] = graph->values[i];
        else
            qb_names_remove(graph->names, graph->values[i].name);
    }
    graph->n_values = n_values;
    for (int32_t i = 0; i < n_values; i++)
        qb_names_renumber(graph->names, graph->values[i].name, i);
    return QB_OK;
}

static qb_status copy_sizes(qb_ctx *cx, qb_arena *arena, const qb_sizes *from,
                            const qb_sizes **to) {
    qb_sizes *copy = QB_NEW(cx, qb_arena_alloc(cx, arena, 1, sizeof *copy));
    *copy = *from;
    *to = copy;
    return QB_OK;
}

static qb_status copy_values(qb_ctx *cx, const qb_graph *from, const int32_t *map, bool share,
                             qb_graph *to) {
    for (int32_t i = 0; i < from->n_values; i++) {
        if (map[i] < 0) continue;
        const qb_value *value = &from->values[i];
        const char *name = share ? value->name : qb_arena_strdup(cx, to->arena, value->name);
        if (!name) return cx->code;
        int32_t id = qb_graph_add_named(cx, to, name, value->dtype, &value->shape);
        if (id < 0) return cx->code;
        qb_value *copy = &to->values[id];
        copy->largest = value->largest;
        copy->kept = value->kept;
        copy->is_output = value->is_output;
        QB_TRY(qb_qparams_copy(cx, to->arena, &value->q, &copy->q));
        if (value->sizes) QB_TRY(copy_sizes(cx, to->arena, value->sizes, &copy->sizes));
        if (!value->data) continue;
        copy->bytes = value->bytes;
        copy->data = value->data;
        if (share) continue;
        void *data = QB_NEW(cx, qb_arena_alloc(cx, to->arena, 1, value->bytes));
        if (value->bytes) memcpy(data, value->data, value->bytes);
        copy->data = data;
    }
    return QB_OK;
}

static qb_status copy_nodes(qb_ctx *cx, const qb_graph *from, const int32_t *map, qb_graph *to) {
    for (int32_t i = 0; i < from->n_nodes; i++) {
        const qb_node *node = &from->nodes[i];
        if (!node->op) continue;
        int32_t id = qb_graph_add_node(cx, to, node->op, node->name, node->in, node->n_in,
                                       node->out, node->n_out);
        if (id < 0) return cx->code;
        qb_node *copy = &to->nodes[id];
        renumber(copy->in, copy->n_in, map);
        renumber(copy->out, copy->n_out, map);
        QB_TRY(qb_attrs_copy(cx, to->arena, node->op, node->attrs, &copy->attrs));
    }
    return QB_OK;
}

static qb_status copy_list(qb_ctx *cx, qb_arena *arena, const int32_t *ids, int32_t n,
                           const int32_t *map, int32_t **out) {
    int32_t *copy = QB_NEW(cx, qb_arena_alloc(cx, arena, (size_t)n, sizeof *copy));
    for (int32_t i = 0; i < n; i++) copy[i] = map[ids[i]];
    *out = copy;
    return QB_OK;
}

static qb_status copy_head(qb_ctx *cx, const qb_graph *from, qb_graph *to) {
    to->name = qb_arena_strdup(cx, to->arena, from->name);
    to->source = qb_arena_strdup(cx, to->arena, from->source);
    to->symbols = qb_arena_alloc(cx, to->arena, (size_t)from->n_symbols, sizeof *to->symbols);
    if (!to->name || !to->source || !to->symbols) return cx->code;
    for (int32_t i = 0; i < from->n_symbols; i++)
        QB_TRY_NEW(cx, to->symbols[i] = qb_arena_strdup(cx, to->arena, from->symbols[i]));
    to->n_symbols = from->n_symbols;
    to->opset = from->opset;
    to->hash = from->hash;
    to->folded = from->folded;
    to->fold_limit = from->fold_limit;
    return QB_OK;
}

qb_status qb_graph_copy(qb_ctx *cx, const qb_graph *graph, bool share, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    int32_t n_values;
    QB_FREED int32_t *map = NULL;
    QB_TRY(number_live(cx, graph, &map, &n_values));
    QB_TRY(qb_graph_create(cx, &copy));
    QB_TRY(copy_head(cx, graph, copy));
    QB_TRY(qb_graph_reserve(cx, copy, n_values, graph->n_nodes));
    QB_TRY(copy_values(cx, graph, map, share, copy));
    QB_TRY(copy_nodes(cx, graph, map, copy));
    QB_TRY(copy_list(cx, copy->arena, graph->inputs, graph->n_inputs, map, &copy->inputs));
    QB_TRY(copy_list(cx, copy->arena, graph->outputs, graph->n_outputs, map, &copy->outputs));
    copy->n_inputs = graph->n_inputs;
    copy->n_outputs = graph->n_outputs;
    *out = QB_MOVE(copy);
    return QB_OK;
}

qb_status qb_graph_clone(qb_ctx *cx, const qb_graph *graph, qb_graph **out) {
    return qb_graph_copy(cx, graph, false, out);
}

qb_status qb_graph_clone_sharing(qb_ctx *cx, const qb_graph *graph, qb_graph **out) {
    return qb_graph_copy(cx, graph, true, out);
}

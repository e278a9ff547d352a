#include "graph/fusion.h"

static bool in_group(const qb_group *group, int32_t node) {
    for (int32_t i = 0; i < group->n_nodes; i++)
        if (group->node[i] == node) return true;
    return false;
}

/* Adds the clone's value of this name to a list unless it is there. */
static void add_once(const qb_graph *graph, const char *name, int32_t *list, int32_t *n) {
    const int32_t value = qb_graph_find_value(graph, name);
    for (int32_t i = 0; i < *n; i++)
        if (list[i] == value) return;
    if (value >= 0) list[(*n)++] = value;
}

/* Ids change in a clone, names and the order of nodes do not. */
static qb_status cut(qb_ctx *cx, const qb_graph *graph, const qb_group *group, qb_graph *copy) {
    int32_t *inputs = qb_arena_alloc(cx, copy->arena, (size_t)group->n_in + 1, sizeof *inputs);
    const qb_node *last = &graph->nodes[group->node[group->n_nodes - 1]];
    int32_t *outputs = qb_arena_alloc(cx, copy->arena, (size_t)last->n_out + 1, sizeof *outputs);
    int32_t n = 0, n_out = 0;
    if (!inputs || !outputs) return cx->code;
    for (int32_t i = 0; i < group->n_in; i++)
        if (group->in[i] >= 0 && !graph->values[group->in[i]].data)
            add_once(copy, graph->values[group->in[i]].name, inputs, &n);
    for (int32_t i = 0; i < last->n_out; i++)
        if (last->out[i] >= 0) add_once(copy, graph->values[last->out[i]].name, outputs, &n_out);
    if (n == 0 || n_out == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "layer '%s' has no input of its own",
                       graph->values[group->out].name);
    for (int32_t i = 0; i < copy->n_nodes; i++)
        if (!in_group(group, i)) qb_graph_kill_node(copy, i);
    copy->inputs = inputs;
    copy->n_inputs = n;
    qb_graph_set_outputs(copy, outputs, n_out);
    return qb_graph_sweep(cx, copy);
}

qb_status qb_group_extract(qb_ctx *cx, const qb_graph *graph, const qb_group *group,
                           qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    QB_TRY(copy->n_nodes == graph->n_nodes
               ? cut(cx, graph, group, copy)
               : qb_fail(cx, QB_STATUS_INTERNAL, "a clone has other nodes"));
    *out = copy;
    copy = NULL;
    return QB_OK;
}

#include "graph/fusion.h"

static bool is_clamp(const qb_node *node) {
    return node->op->kernel.act == QB_ACT_RELU || node->op->kernel.act == QB_ACT_CLIP;
}

/* Marks what these groups write, and what they keep inside; returns whether there was such. */
static bool keep(qb_graph *graph, const qb_groups *groups) {
    bool changed = false;
    for (int32_t g = 0; g < groups->n; g++) {
        const qb_group *group = &groups->group[g];
        if (group->out >= 0) graph->values[group->out].kept = true;
        for (int32_t i = 0; group->kind == QB_KIND_CONV && i + 1 < group->n_nodes; i++) {
            if (is_clamp(&graph->nodes[group->node[i + 1]])) continue;
            graph->values[graph->nodes[group->node[i]].out[0]].kept = changed = true;
        }
    }
    return changed;
}

/* A sum that one convolution no longer takes in may go to another one: until none does. */
qb_status qb_keep_inner(qb_ctx *cx, qb_graph *graph) {
    bool changed = true;
    while (changed) {
        qb_groups groups;
        QB_TRY(qb_fuse(cx, graph, &groups));
        changed = keep(graph, &groups);
        qb_groups_release(&groups);
    }
    return QB_OK;
}

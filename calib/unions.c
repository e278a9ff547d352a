#include "calib/unions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

/* Which values depend on more of the inputs than their shapes. The others may be constants once the
 * shapes are known, and engines do not show constants. */
static void mark_dependent(const qb_graph *graph, const qb_groups *groups, bool *dependent) {
    for (int32_t i = 0; i < graph->n_inputs; i++) dependent[graph->inputs[i]] = true;
    for (int32_t g = 0; g < groups->n; g++)
        for (int32_t k = 0; k < groups->group[g].n_nodes; k++) {
            const qb_node *node = &graph->nodes[groups->group[g].node[k]];
            bool any = false;
            for (int32_t i = 0; i < node->n_in; i++)
                any = any || (node->in[i] >= 0 && dependent[node->in[i]]);
            for (int32_t o = 0; o < node->n_out; o++)
                if (node->out[o] >= 0)
                    dependent[node->out[o]] = any && !qb_op_has(node->op, QB_TRAIT_SHAPE_ONLY);
        }
}

static bool is_union(const qb_graph *graph, const qb_group *group, const bool *dependent) {
    const qb_node *node = &graph->nodes[group->node[0]];
    if (group->n_nodes != 1 || !(qb_node_is_view(node) || qb_op_has(node->op, QB_TRAIT_REORDER)))
        return false;
    /* A Q/DQ model's node may round what it moves: the integers have their scale already. */
    if (graph->values[node->out[0]].dtype != QB_DTYPE_F32) return false;
    for (int32_t i = 0; i < qb_reordered_inputs(node); i++)
        if (!dependent[node->in[i]] || graph->values[node->in[i]].dtype != QB_DTYPE_F32)
            return false;
    return true;
}

static qb_status add(qb_ctx *cx, const qb_graph *graph, const qb_node *node, qb_unions *u) {
    qb_union *item = &u->item[u->n];
    item->name = graph->values[node->out[0]].name;
    item->n_parts = qb_reordered_inputs(node);
    item->part = qb_arena_alloc(cx, u->arena, (size_t)item->n_parts, sizeof *item->part);
    if (!item->part) return cx->code;
    for (int32_t i = 0; i < item->n_parts; i++) item->part[i] = graph->values[node->in[i]].name;
    u->sorted[u->n++] = item->name;
    return QB_OK;
}

qb_status qb_unions_find(qb_ctx *cx, const qb_graph *graph, const qb_groups *groups,
                         qb_unions *out) {
    QB_RELEASED(qb_unions_release) qb_unions u = {0};
    QB_FREED bool *dependent = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *dependent));
    QB_TRY(qb_arena_create(cx, &u.arena));
    QB_TRY_NEW(cx, u.item = qb_arena_alloc(cx, u.arena, (size_t)groups->n, sizeof *u.item));
    QB_TRY_NEW(cx, u.sorted = qb_arena_alloc(cx, u.arena, (size_t)groups->n, sizeof *u.sorted));
    mark_dependent(graph, groups, dependent);
    for (int32_t g = 0; g < groups->n; g++)
        if (is_union(graph, &groups->group[g], dependent))
            QB_TRY(add(cx, graph, &graph->nodes[groups->group[g].node[0]], &u));
    qsort(u.sorted, (size_t)u.n, sizeof *u.sorted, qb_by_text);
    *out = QB_MOVE(u);
    return QB_OK;
}

void qb_unions_release(qb_unions *unions) {
    qb_arena_free(unions->arena);
    *unions = (qb_unions){0};
}

bool qb_unions_has(const qb_unions *unions, const char *name) {
    return bsearch(&name, unions->sorted, (size_t)unions->n, sizeof *unions->sorted, qb_by_text);
}

static void fill(const qb_union *u, qb_table *table, qb_table_entry *entry) {
    qb_stats_init(entry->stats);
    for (int64_t i = 0; i < table->n_recorded; i++) {
        entry->sample_min[i] = INFINITY;
        entry->sample_max[i] = -INFINITY;
    }
    for (int32_t p = 0; p < u->n_parts; p++) {
        const qb_table_entry *part = qb_table_find(table, u->part[p]);
        qb_stats_merge(entry->stats, part->stats);
        for (int64_t i = 0; i < table->n_recorded; i++) {
            entry->sample_min[i] = fminf(entry->sample_min[i], part->sample_min[i]);
            entry->sample_max[i] = fmaxf(entry->sample_max[i], part->sample_max[i]);
        }
    }
}

void qb_unions_fill(const qb_unions *unions, qb_table *table) {
    for (int32_t i = 0; i < unions->n; i++)
        fill(&unions->item[i], table,
             (qb_table_entry *)(uintptr_t)qb_table_find(table, unions->item[i].name));
}

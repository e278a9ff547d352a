/* Ranges by name and the tensors of a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/ranges.h"
#include "graph/fusion.h"

typedef struct fitter {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_range *range; /* [n_values]: lo > hi while empty */
    qb_ranges_fit fit;
    size_t cap_missing, cap_extra;
} fitter;

static bool is_activation(const qb_graph *graph, int32_t value) {
    return value >= 0 && !graph->values[value].data && graph->values[value].dtype == QB_DTYPE_F32;
}

static bool has_range(const fitter *f, int32_t value) {
    return f->range[value].lo <= f->range[value].hi;
}

/* The data that a layer of this name reads: by the node's name, else by its output's. */
static int32_t layer_input(const qb_graph *graph, const char *name) {
    int32_t by_output = -1;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op || node->n_in < 1 || node->n_out < 1 || node->out[0] < 0) continue;
        if (strcmp(node->name, name) == 0) return node->in[0];
        if (strcmp(graph->values[node->out[0]].name, name) == 0) by_output = node->in[0];
    }
    return by_output;
}

static qb_status list(qb_ctx *cx, const char ***names, size_t *capacity, int32_t *n,
                      const char *name) {
    QB_TRY(qb_grow(cx, names, capacity, (size_t)*n + 1, sizeof **names));
    (*names)[(*n)++] = name;
    return QB_OK;
}

static qb_status place(fitter *f, const qb_ranges *ranges, bool by_layer) {
    for (int32_t i = 0; i < ranges->n; i++) {
        const qb_named_range *from = &ranges->item[i];
        const int32_t value = by_layer ? layer_input(f->graph, from->name)
                                       : qb_graph_find_value(f->graph, from->name);
        if (!is_activation(f->graph, value)) {
            QB_TRY(list(f->cx, &f->fit.extra, &f->cap_extra, &f->fit.n_extra, from->name));
            continue;
        }
        qb_range *to = &f->range[value];
        f->fit.used += !has_range(f, value);
        to->lo = fminf(to->lo, (float)from->lo); /* several layers may read one tensor */
        to->hi = fmaxf(to->hi, (float)from->hi);
    }
    return QB_OK;
}

/* What integer layers read but nobody gave a range; a value is listed once. */
static qb_status find_missing(fitter *f) {
    QB_RELEASED(qb_groups_release) qb_groups groups = {0};
    QB_TRY(qb_fuse(f->cx, f->graph, &groups));
    QB_FREED bool *seen = QB_NEW(f->cx, qb_alloc(f->cx, (size_t)f->graph->n_values, sizeof *seen));
    for (int32_t g = 0; g < groups.n; g++) {
        const qb_group *group = &groups.group[g];
        if (f->graph->nodes[group->node[0]].op->qrule != QB_QRULE_COMPUTE) continue;
        for (int32_t i = 0; i < group->n_in; i++) {
            const int32_t value = group->in[i];
            if (!is_activation(f->graph, value) || has_range(f, value) || seen[value]) continue;
            seen[value] = true;
            QB_TRY(list(f->cx, &f->fit.missing, &f->cap_missing, &f->fit.n_missing,
                        f->graph->values[value].name));
        }
    }
    return QB_OK;
}

static qb_status make_table(const fitter *f, const qb_calib_format *format, qb_table **out) {
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_TRY(qb_table_create(f->cx, f->fit.used, &table));
    snprintf(table->method[0], sizeof table->method[0], "import:%s", format->name);
    table->n_methods = 1;
    table->model_hash = f->graph->hash;
    QB_TRY_NEW(f->cx, table->model = qb_strdup(f->cx, f->graph->source ? f->graph->source : ""));
    QB_TRY_NEW(f->cx, table->dataset = qb_strdup(f->cx, ""));
    qb_table_entry *entry = table->entry;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        if (!has_range(f, v)) continue;
        QB_TRY_NEW(f->cx, entry->name = qb_strdup(f->cx, f->graph->values[v].name));
        entry++->range[0] = f->range[v];
    }
    qb_table_sort(table);
    *out = QB_MOVE(table);
    return QB_OK;
}

/* Names that another model happens to have as well ("flatten") are few. */
static qb_status check_belongs(const fitter *f, const qb_ranges *ranges, const char *file) {
    const int32_t found = ranges->n - f->fit.n_extra;
    if (found > 0 && found >= ranges->n / 10) return QB_OK;
    return qb_fail(f->cx, QB_STATUS_MISMATCH,
                   "artifacts do not belong together: of the %d names in %s ('%s' ...) %d are in "
                   "%s",
                   ranges->n, file, f->fit.n_extra ? f->fit.extra[0] : "", found,
                   f->graph->source ? f->graph->source : "the model");
}

qb_status qb_ranges_to_table(qb_ctx *cx, const qb_ranges *ranges, const qb_calib_format *format,
                             const char *file, const qb_graph *graph, qb_table **out,
                             qb_ranges_fit *fit) {
    fitter f = {.cx = cx, .graph = graph};
    qb_status status = QB_OK;
    QB_TRY_NEW(cx, f.range = qb_alloc(cx, (size_t)graph->n_values, sizeof *f.range));
    for (int32_t v = 0; v < graph->n_values; v++) f.range[v] = (qb_range){INFINITY, -INFINITY};
    QB_GO(place(&f, ranges, format->by_layer));
    QB_GO(check_belongs(&f, ranges, file));
    QB_GO(find_missing(&f));
    QB_GO(make_table(&f, format, out));
    *fit = QB_MOVE(f.fit);
out:
    qb_ranges_fit_release(&f.fit);
    qb_free(f.range);
    return status;
}

void qb_ranges_fit_release(qb_ranges_fit *fit) {
    QB_FREE_ALL(fit->missing, fit->extra);
    *fit = (qb_ranges_fit){0};
}

qb_status qb_ranges_of_table(qb_ctx *cx, const qb_table *table, int32_t method, qb_ranges *out) {
    qb_ranges ranges = {0};
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_table_entry *e = &table->entry[i];
        qb_status status = qb_ranges_add(cx, &ranges, e->name, strlen(e->name),
                                         (double)e->range[method].lo, (double)e->range[method].hi);
        if (status == QB_OK) continue;
        qb_ranges_release(&ranges);
        return status;
    }
    *out = ranges;
    return QB_OK;
}

static float magnitude(float lo, float hi) { return fmaxf(fabsf(lo), fabsf(hi)); }

void qb_table_note_largest(const qb_table *table, qb_graph *graph) {
    for (int32_t v = 0; v < graph->n_values; v++) {
        const qb_table_entry *entry = qb_table_find(table, graph->values[v].name);
        if (!entry) continue;
        if (entry->stats->count > 0)
            graph->values[v].largest = magnitude(entry->stats->min, entry->stats->max);
        else if (table->n_methods > 0 && entry->range[0].lo <= entry->range[0].hi)
            graph->values[v].largest = magnitude(entry->range[0].lo, entry->range[0].hi);
    }
}

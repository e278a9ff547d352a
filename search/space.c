#include "search/space.h"

#include <string.h>

#include "graph/fusion.h"
#include "graph/op.h"

/* ---- which groups ---------------------------------------------------------------------------- */

static bool is_quantized(const qb_graph *quantized, const qb_graph *graph, int32_t value) {
    if (value < 0 || graph->values[value].data) return false;
    const int32_t there = qb_graph_find_value(quantized, graph->values[value].name);
    return there >= 0 && quantized->values[there].q.n > 0;
}

static qb_qrule rule_of(const qb_graph *graph, const qb_group *group) {
    return graph->nodes[group->node[0]].op->qrule;
}

/* Does it compute with integers, and could it leave that? Values that are only moved have the form
 * of what they come from. */
static bool is_choice(const qb_graph *quantized, const qb_graph *graph, const qb_group *group) {
    const qb_qrule rule = rule_of(graph, group);
    if (rule == QB_QRULE_FLOAT || rule == QB_QRULE_SAME_SCALE) return false;
    for (int32_t i = 0; i < group->n_in; i++)
        if (is_quantized(quantized, graph, group->in[i])) return true;
    return false;
}

typedef struct finder {
    qb_ctx *cx;
    qb_space *space;
    const qb_graph *graph;
    qb_groups groups;
    int32_t *number;   /* [groups] of the space, -1 */
    int32_t *producer; /* [values] group, -1 */
    size_t capacity;
} finder;

static qb_status add_group(finder *f, int32_t g) {
    const qb_group *group = &f->groups.group[g];
    const qb_node *anchor = &f->graph->nodes[group->node[0]];
    qb_arena *arena = f->space->arena;
    qb_space_group *out = &f->space->group[f->space->n];
    *out =
        (qb_space_group){.value = qb_arena_strdup(f->cx, arena, f->graph->values[group->out].name),
                         .node = qb_arena_strdup(f->cx, arena, anchor->name ? anchor->name : ""),
                         .op = anchor->op->name};
    if (!out->value || !out->node) return f->cx->code;
    f->number[g] = f->space->n++;
    return QB_OK;
}

static double elements_of(const qb_graph *graph, int32_t value) {
    const qb_shape *shape = &graph->values[value].shape;
    double n = 1;
    for (int32_t i = 0; i < shape->rank; i++) n *= shape->dim[i] > 0 ? (double)shape->dim[i] : 1;
    return n;
}

/* Edges to group `to` from all that make `value`, through groups that only move it. */
static qb_status add_edges(finder *f, int32_t value, int32_t to, int depth) {
    const int32_t maker = value < 0 ? -1 : f->producer[value];
    qb_space *s = f->space;
    if (maker < 0 || depth > 64) return QB_OK;
    if (f->number[maker] >= 0) {
        QB_TRY(qb_grow(f->cx, &s->edge, &f->capacity, (size_t)s->n_edges + 1, sizeof *s->edge));
        s->edge[s->n_edges++] = (qb_space_edge){f->number[maker], to, elements_of(f->graph, value)};
        return QB_OK;
    }
    const qb_group *group = &f->groups.group[maker];
    if (rule_of(f->graph, group) != QB_QRULE_SAME_SCALE) return QB_OK;
    for (int32_t i = 0; i < group->n_in; i++) QB_TRY(add_edges(f, group->in[i], to, depth + 1));
    return QB_OK;
}

static qb_status find(finder *f, const qb_graph *quantized) {
    qb_arena *arena = f->groups.arena;
    const size_t n = (size_t)f->groups.n, n_values = (size_t)f->graph->n_values;
    f->number = qb_arena_alloc(f->cx, arena, n, sizeof *f->number);
    f->producer = qb_arena_alloc(f->cx, arena, n_values, sizeof *f->producer);
    f->space->group = qb_arena_alloc(f->cx, f->space->arena, n, sizeof *f->space->group);
    if (!f->number || !f->producer || !f->space->group) return f->cx->code;
    for (size_t v = 0; v < n_values; v++) f->producer[v] = -1;
    for (int32_t g = 0; g < f->groups.n; g++) {
        const qb_group *group = &f->groups.group[g];
        f->number[g] = -1;
        f->producer[group->out] = g;
        if (is_choice(quantized, f->graph, group)) QB_TRY(add_group(f, g));
    }
    for (int32_t g = 0; g < f->groups.n; g++)
        for (int32_t i = 0; i < f->groups.group[g].n_in && f->number[g] >= 0; i++)
            QB_TRY(add_edges(f, f->groups.group[g].in[i], f->number[g], 0));
    return QB_OK;
}

qb_status qb_space_create(qb_ctx *cx, const qb_space_way *ways, int32_t n_ways,
                          const qb_build_spec *spec, qb_space **out) {
    qb_graph *quantized = NULL;
    qb_status status = QB_OK;
    qb_space *space = QB_NEW(cx, qb_alloc(cx, 1, sizeof *space));
    *space = (qb_space){.way = ways, .n_ways = n_ways, .spec = *spec};
    finder f = {.cx = cx, .space = space, .graph = ways->graph};
    QB_GO(qb_arena_create(cx, &space->arena));
    QB_GO(qb_quantize(cx, ways->graph, ways->table, &ways->options, &quantized, NULL));
    QB_GO(qb_fuse(cx, ways->graph, &f.groups));
    QB_GO(find(&f, quantized));
    *out = QB_MOVE(space);
out:
    qb_groups_release(&f.groups);
    qb_graph_free(quantized);
    qb_space_free(space);
    return status;
}

void qb_space_free(qb_space *space) {
    if (!space) return;
    qb_free(space->edge);
    qb_arena_free(space->arena);
    qb_free(space);
}

/* ---- alternatives ---------------------------------------------------------------------------- */

qb_status qb_space_quantize(qb_ctx *cx, const qb_space *s, const qb_alternative *a,
                            qb_graph **out) {
    const qb_space_way *way = &s->way[a->way];
    qb_quant_options options = way->options;
    int32_t n = 0;
    QB_FREED const char **values = QB_NEW(cx, qb_alloc(cx, (size_t)s->n + 1, sizeof *values));
    for (int32_t g = 0; g < s->n; g++)
        if (a->is_float[g]) values[n++] = s->group[g].value;
    options.float_values = values;
    return qb_quantize(cx, way->graph, way->table, &options, out, NULL);
}

qb_build_spec qb_space_spec(const qb_space *s, const qb_alternative *a) {
    qb_build_spec spec = s->spec;
    spec.float_type = a->floats;
    spec.no_mixed_precision = true; /* the alternative says what is quantized */
    return spec;
}

qb_status qb_space_build(qb_ctx *cx, const qb_space *s, const qb_alternative *a, qb_engine **out) {
    const qb_build_spec spec = qb_space_spec(s, a);
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_space_quantize(cx, s, a, &graph));
    return qb_engine_build(cx, graph, &spec, out);
}

int32_t qb_space_count_float(const qb_space *s, const qb_alternative *a) {
    int32_t n = 0;
    for (int32_t g = 0; g < s->n; g++) n += a->is_float[g];
    return n;
}

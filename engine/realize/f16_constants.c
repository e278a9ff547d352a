/* Constants of quantized steps that run in f16: as floats. */
#include "engine/realize/f16_constants_internal.h"

#include <string.h>

#include "engine/plans_internal.h"
#include "graph/dequantize.h"

bool qb_f16_is_quantized(const qb_lowering *b, int32_t value) {
    return value >= 0 && b->graph->values[value].q.n == 1 && !b->graph->values[value].data;
}

bool qb_f16_is_choice(const qb_lowering *b, const qb_group *group) {
    return group->kind != QB_KIND_NODE && qb_f16_is_quantized(b, group->out) &&
           qb_f16_is_quantized(b, group->in[0]) && !qb_f32_exceeds_f16(b, group);
}

/* The constant as floats that was added before, also by who stored the graph; -1. */
static int32_t find_floats(const qb_graph *graph, int32_t value) {
    const qb_value *quantized = &graph->values[value];
    for (int32_t v = graph->n_values - 1; v > value; v--) {
        const qb_value *floats = &graph->values[v];
        if (floats->data && floats->dtype == QB_DTYPE_F32 && floats->q.n == 0 &&
            qb_shape_equal(&floats->shape, &quantized->shape) &&
            strcmp(floats->name, quantized->name) == 0)
            return v;
    }
    return -1;
}

/* A new value whose data belongs to all plans. */
static int32_t as_shared_floats(qb_lowering *b, int32_t value, bool keep) {
    const qb_value *v = &b->graph->values[value];
    const size_t bytes = (size_t)qb_shape_count(&v->shape) * sizeof(float);
    const float *f32 = qb_plans_floats(b->cx, b->plans, v);
    if (!f32) return -1;
    if (keep) qb_plans_keep_floats(b->plans, f32);
    const int32_t found = find_floats(b->graph, value);
    if (found >= 0) return found;
    const qb_shape shape = v->shape;
    int32_t id = qb_graph_add_value(b->cx, b->graph, v->name, QB_DTYPE_F32, &shape);
    if (id < 0) return -1;
    b->graph->values[id].data = f32;
    b->graph->values[id].bytes = bytes;
    return id;
}

/* A constant's floats as a new constant. */
static int32_t as_floats(qb_lowering *b, int32_t value, bool keep) {
    const qb_value *v = &b->graph->values[value];
    if (b->plans && qb_plans_own(b->plans, v)) return as_shared_floats(b, value, keep);
    const int32_t found = find_floats(b->graph, value);
    if (found >= 0) return found;
    float *f32 = qb_alloc(b->cx, (size_t)qb_shape_count(&v->shape), sizeof *f32);
    if (!f32) return -1;
    qb_value_dequantized(v, f32);
    qb_shape shape = v->shape;
    int32_t id = qb_graph_add_constant(b->cx, b->graph, v->name, QB_DTYPE_F32, &shape, f32);
    qb_free(f32);
    return id;
}

int32_t *qb_f16_inputs(qb_lowering *b, const qb_group *group, bool keep) {
    int32_t *in = qb_arena_alloc(b->cx, b->groups.arena, (size_t)group->n_in, sizeof *in);
    for (int32_t i = 0; in && i < group->n_in; i++) {
        in[i] = group->in[i];
        const qb_value *v = in[i] < 0 ? NULL : &b->graph->values[in[i]];
        if (!v || !v->data || v->q.n == 0) continue;
        in[i] = as_floats(b, in[i], keep);
        if (in[i] < 0) return NULL;
    }
    return in;
}

qb_status qb_f16_as_rows(qb_lowering *b, const qb_plan_table *table, bool keep) {
    const size_t n = (size_t)b->groups.n;
    QB_FREED const qb_plan_row **row = QB_NEW(b->cx, qb_alloc(b->cx, n, sizeof *row));
    for (size_t g = 0; g < n; g++) {
        qb_group *group = &b->groups.group[g];
        const int32_t at = qb_plan_find(table, b->graph->values[group->out].name);
        if (at < 0 || table->rows[at].precision != QB_DTYPE_F16 || !qb_f16_is_choice(b, group))
            continue;
        row[g] = &table->rows[at];
        QB_TRY_NEW(b->cx, group->in = qb_f16_inputs(b, group, keep));
    }
    QB_TRY(qb_lower_values(b)); /* after constants are added */
    for (size_t g = 0; g < n; g++) {
        if (!row[g]) continue;
        b->value[b->groups.group[g].out].is_f16 = true;
        b->value[b->groups.group[g].out].f16_reason = row[g]->f16_reason;
    }
    return QB_OK;
}

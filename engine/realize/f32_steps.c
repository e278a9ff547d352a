/* Steps that stay in f32 in an engine whose floats are f16, because their numbers end where f16's
 * do not: what calibration saw of a value, what a quantized one can reach, and weights.
 *
 * A step computes in f32 as a whole, inputs and result; whoever takes its result in f16 converts
 * it. Views are what they look at. Realizing finds such steps by their rows. */
#include <math.h>
#include <string.h>

#include "engine/realize/lowering_internal.h"
#include "graph/dequantize.h"

#define F16_MAX 65504.0f

static bool is_float(const qb_value *v) { return v->dtype == QB_DTYPE_F32 && v->q.n == 0; }

/* Does the group have floats beside its constants? */
static bool has_floats(const qb_lowering *b, const qb_group *group) {
    const qb_value *values = b->graph->values;
    for (int32_t i = 0; i < group->n_in; i++)
        if (group->in[i] >= 0 && !values[group->in[i]].data && is_float(&values[group->in[i]]))
            return true;
    return is_float(&values[group->out]);
}

/* Weights are packed in f16; other constants are read as they are. */
static bool is_weight(const qb_group *group, int32_t input) {
    const bool weighs = group->kind == QB_KIND_CONV || group->kind == QB_KIND_CONV_TRANSPOSE ||
                        group->kind == QB_KIND_MATMUL;
    return weighs && input == QB_IN_WEIGHT;
}

static float largest_of(const qb_value *v) {
    const float *data = v->data;
    float largest = 0;
    for (int64_t i = 0, n = is_float(v) ? qb_shape_count(&v->shape) : 0; i < n; i++)
        if (isfinite(data[i])) largest = fmaxf(largest, fabsf(data[i]));
    return largest;
}

/* Inputs, the result, and of a single node all results. */
static int32_t n_values(const qb_lowering *b, const qb_group *group) {
    const bool single = group->kind == QB_KIND_NODE;
    return group->n_in + 1 + (single ? b->graph->nodes[group->node[0]].n_out : 0);
}

static int32_t value_at(const qb_lowering *b, const qb_group *group, int32_t i) {
    if (i < group->n_in) return group->in[i];
    i -= group->n_in + 1;
    return i < 0 ? group->out : b->graph->nodes[group->node[0]].out[i];
}

static float reach_of(const qb_lowering *b, const qb_group *group, int32_t i) {
    const int32_t value = value_at(b, group, i);
    if (value < 0) return 0;
    const qb_value *v = &b->graph->values[value];
    if (!v->data) return qb_value_reach(v);
    return is_weight(group, i) ? largest_of(v) : 0;
}

bool qb_f32_exceeds_f16(const qb_lowering *b, const qb_group *group) {
    for (int32_t i = 0; i < n_values(b, group); i++)
        if (reach_of(b, group, i) > F16_MAX) return true;
    return false;
}

/* *out: NULL where its numbers fit. */
static qb_status reason_of(qb_lowering *b, const qb_group *group, const char **out) {
    int32_t most = 0;
    float reach = 0;
    *out = NULL;
    for (int32_t i = 0; i < n_values(b, group); i++) {
        const float one = reach_of(b, group, i);
        if (one > reach) most = i;
        reach = fmaxf(reach, one);
    }
    if (reach <= F16_MAX) return QB_OK;
    *out = qb_arena_format(b->cx, b->engine->arena, "'%s' reaches %.6g, f16 ends at 65504",
                           b->graph->values[value_at(b, group, most)].name, (double)reach);
    return *out ? QB_OK : b->cx->code;
}

static void mark(qb_lowering *b, const qb_group *group, const char *reason) {
    for (int32_t i = group->n_in; i < n_values(b, group); i++)
        if (value_at(b, group, i) >= 0) b->value[value_at(b, group, i)].f32_reason = reason;
}

/* A view has the numbers of what it looks at, and lies as that does. */
static void take_over(qb_lowering *b, const qb_group *group) {
    const int32_t from = group->in[0], to = group->out;
    if (group->kind != QB_KIND_NODE || !qb_node_is_view(&b->graph->nodes[group->node[0]])) return;
    b->value[to].f32_reason = b->value[from].f32_reason;
    b->graph->values[to].largest =
        fmaxf(b->graph->values[to].largest, b->graph->values[from].largest);
}

qb_status qb_f32_by_range(qb_lowering *b) {
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        qb_lowered_value *out = &b->value[group->out];
        if (!has_floats(b, group) || out->is_f16) continue;
        take_over(b, group);
        if (!out->f32_reason) QB_TRY(reason_of(b, group, &out->f32_reason));
        mark(b, group, out->f32_reason);
    }
    return QB_OK;
}

/* Of a row that has floats; products of quantized values may be what they come from. */
static bool are_floats_f32(const qb_plan_row *row) {
    bool f16 = row->precision == QB_DTYPE_F16 || row->out.dtype == QB_DTYPE_F16;
    for (int32_t i = 0; i < row->n_in; i++) f16 = f16 || row->in[i].dtype == QB_DTYPE_F16;
    return !f16;
}

void qb_f32_as_rows(qb_lowering *b, const qb_plan_table *table) {
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        const int32_t at = qb_plan_find(table, b->graph->values[group->out].name);
        if (at < 0 || !has_floats(b, group)) continue;
        const qb_plan_row *row = &table->rows[at];
        const bool there = row->on_device || strcmp(row->tactic, "alias") == 0;
        if (there && are_floats_f32(row))
            mark(b, group, row->fallback_reason ? row->fallback_reason : "");
    }
}

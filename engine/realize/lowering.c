/* What all of lowering looks at: values, their descriptions, and steps. */
#include "engine/realize/lowering_internal.h"

#include <omp.h>

#include "base/log.h"

const char *qb_lower_group_name(const qb_lowering *b) {
    if (b->group >= b->groups.n) return "";
    return b->graph->values[b->groups.group[b->group].out].name;
}

qb_status qb_lower_observed(qb_lowering *b, int32_t value) {
    qb_engine *e = b->engine;
    QB_TRY(qb_grow(b->cx, &e->observed, &b->capacity.observed, (size_t)e->n_observed + 1,
                   sizeof *e->observed));
    e->observed[e->n_observed++] = value;
    return QB_OK;
}

qb_status qb_lower_values(qb_lowering *b) {
    const size_t n = (size_t)b->graph->n_values;
    if (b->value) return QB_OK;
    QB_TRY_NEW(b->cx, b->value = qb_alloc(b->cx, n, sizeof *b->value));
    for (size_t v = 0; v < n; v++)
        b->value[v] = (qb_lowered_value){.layout = -1,
                                         .source = -1,
                                         .staged = -1,
                                         .last_group = -1,
                                         .only_slices = true,
                                         .only_rows = true,
                                         .slice_of = -1};
    return QB_OK;
}

qb_step *qb_lower_step(qb_lowering *b, qb_step_kind kind, int32_t n_in, int32_t n_out) {
    qb_engine *e = b->engine;
    int32_t *ids = qb_arena_pack(b->cx, e->arena, (size_t)(n_in + n_out), sizeof *ids);
    if (!ids || qb_grow(b->cx, &e->steps, &b->capacity.steps, (size_t)e->n_steps + 1,
                        sizeof *e->steps) != QB_OK)
        return NULL;
    for (int32_t i = 0; i < n_in + n_out; i++) ids[i] = -1;
    qb_step *step = &e->steps[e->n_steps++];
    *step = (qb_step){.kind = kind,
                      .node_index = -1,
                      .n_in = n_in,
                      .n_out = n_out,
                      .in = ids,
                      .out = ids + n_in,
                      .observed = -1,
                      .row = -1,
                      .name = "",
                      .op = "",
                      .tactic = ""};
    return step;
}

qb_plan_row qb_lower_row(qb_lowering *b, const char *value, bool is_copy, const qb_step *step) {
    const qb_problem *p = step->kernel ? &step->kernel->problem : NULL;
    const bool f16 =
        !is_copy && b->group < b->groups.n && b->value[b->groups.group[b->group].out].is_f16;
    for (int32_t i = 0; p && i < p->n_in; i++) b->row_in[i] = qb_plan_layout_of(&p->in[i]);
    return (qb_plan_row){.value = value,
                         .op = step->op,
                         .tactic = step->tactic,
                         .variant = p ? p->variant : 0,
                         .is_copy = is_copy,
                         .on_device = step->on_device,
                         .precision = f16 ? QB_DTYPE_F16 : step->dtype,
                         .n_in = p ? p->n_in : 0,
                         .in = b->row_in,
                         .out = p ? qb_plan_layout_of(&p->out) : (qb_plan_layout){0},
                         .fuses = is_copy ? NULL : b->fuses};
}

qb_desc qb_lower_desc(const qb_lowering *b, int32_t value, qb_layout layout) {
    const qb_value *v = &b->graph->values[value];
    return (qb_desc){.dtype = v->dtype, .layout = layout, .shape = v->shape, .q = v->q};
}

qb_desc qb_lower_float_desc(const qb_lowering *b, int32_t value) {
    qb_desc desc = qb_lower_desc(b, value, QB_LAYOUT_ROW);
    if (desc.q.n > 0) {
        desc.dtype = QB_DTYPE_F32;
        desc.q = (qb_qparams){.axis = -1};
    }
    return desc;
}

bool qb_layout_on_device(const qb_engine *engine, int32_t stored) {
    qb_buffer_kind kind = engine->buffers[engine->layouts[stored].buffer].kind;
    return kind == QB_BUFFER_DEVICE || kind == QB_BUFFER_DEVICE_CONSTANT;
}

bool qb_same_params(const qb_qparams *a, const qb_qparams *b) {
    if (a->n != b->n) return false;
    if (a->n == 0) return true;
    if (a->dtype != b->dtype || (a->n > 1 && a->axis != b->axis)) return false;
    for (int32_t i = 0; i < a->n; i++)
        if (a->scale[i] != b->scale[i] || (a->zero ? a->zero[i] : 0) != (b->zero ? b->zero[i] : 0))
            return false;
    return true;
}

bool qb_lower_is_alias(const qb_lowering *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    if (group->kind != QB_KIND_NODE || !qb_node_is_view(node)) return false;
    qb_desc in = qb_lower_desc(b, node->in[0], QB_LAYOUT_ROW);
    qb_desc out = qb_lower_desc(b, node->out[0], QB_LAYOUT_ROW);
    return in.dtype == out.dtype && qb_same_params(&in.q, &out.q) &&
           qb_desc_bytes(&in) == qb_desc_bytes(&out);
}

int qb_use_threads(int threads) {
    int before = omp_get_max_threads();
    if (before != threads) omp_set_num_threads(threads);
    return before;
}

qb_status qb_lower_attention(qb_lowering *b, qb_problem_filter takes) {
    int32_t n = 0;
    if (!b->plans) QB_TRY(qb_fuse_terms(b->cx, b->graph, &n)); /* sizes of constants vary */
    QB_TRY(qb_fuse_attention(b->cx, b->graph, takes, b, &n));
    if (n > 0) qb_debug(b->cx, "attention: %d times as one step", (int)n);
    return QB_OK;
}

/* The quantizer: runs its steps over a copy of the graph. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "quant_internal.h"

#define QB_QUANT_STEP(name) extern const qb_quant_step qb_quant_step_##name;
#include "quant/steps.def"

static const qb_quant_step *const steps[] = {
#define QB_QUANT_STEP(name) &qb_quant_step_##name,
#include "quant/steps.def"
};

#define ANY_BATCH 2
#define ANY_SIZE 64

/* ---- parameters of a range ---- */

void qb_affine_params(qb_range range, qb_act_scheme scheme, int bits, float *scale, int32_t *zero) {
    const double lo = fmin(range.lo, 0), hi = fmax(range.hi, 0); /* zero is always exact */
    const bool symmetric = scheme == QB_SCHEME_S8_SYMMETRIC;
    const int32_t half = 1 << (bits - 1), lowest = scheme == QB_SCHEME_U8_AFFINE ? 0 : -half;
    const double step = symmetric ? fmax(-lo, hi) / (half - 1) : (hi - lo) / (2 * half - 1);
    /* A range too small for that is no signal: everything becomes zero. */
    if (!(step >= QB_LEAST_SCALE)) {
        *scale = 1;
        *zero = symmetric ? 0 : lowest;
        return;
    }
    *scale = (float)step;
    *zero = symmetric ? 0 : (int32_t)nearbyint((double)lowest - lo / step);
}

/* ---- what the steps share ---- */

bool qb_quant_is_activation(const qb_quant_state *state, int32_t value) {
    return value >= 0 && !state->graph->values[value].data &&
           state->graph->values[value].dtype == QB_DTYPE_F32 && state->from_data[value];
}

bool qb_quant_is_held(const qb_quant_state *state, int32_t value) {
    const qb_value *v = value < 0 ? NULL : &state->graph->values[value];
    return v && !v->data && v->q.n == 1 && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

bool qb_quant_lacks_range(const qb_quant_state *state, int32_t value) {
    if (qb_table_find(state->table, state->graph->values[value].name)) return false;
    const int32_t maker = state->producer[value];
    if (maker < 0 || state->rule[maker] != QB_QRULE_SAME_SCALE) return true;
    const qb_group *group = &state->groups.group[maker];
    for (int32_t i = 0; i < group->n_in; i++) {
        const int32_t in = group->in[i];
        if (in < 0 || state->graph->values[in].dtype != QB_DTYPE_F32) continue;
        if (!qb_quant_is_activation(state, in) || qb_graph_is_output(state->graph, in) ||
            qb_quant_lacks_range(state, in))
            return true;
    }
    return false;
}

bool qb_quant_is_data(const qb_quant_state *state, int32_t group, int32_t input) {
    const qb_group *g = &state->groups.group[group];
    const bool weighted = state->graph->nodes[g->node[0]].op->qrule == QB_QRULE_COMPUTE;
    if (weighted && (input == QB_IN_WEIGHT || input == QB_IN_BIAS)) return false;
    return qb_quant_is_activation(state, g->in[input]);
}

bool qb_quant_output(const qb_quant_state *state, int32_t group, int32_t i, int32_t *value) {
    const qb_group *g = &state->groups.group[group];
    const qb_node *last = &state->graph->nodes[g->node[g->n_nodes - 1]];
    if (i >= last->n_out) return false;
    *value = last->out[i];
    return true;
}

/* ---- the run ---- */

static bool kept_float(const qb_quant_state *s, const qb_group *group) {
    for (const char *const *glob = s->options->keep_float; glob && *glob; glob++)
        for (int32_t i = 0; i < group->n_nodes; i++)
            if (fnmatch(*glob, s->graph->nodes[group->node[i]].name, 0) == 0) return true;
    const char *made = s->graph->values[group->out].name;
    for (const char *const *value = s->options->float_values; value && *value; value++)
        if (strcmp(*value, made) == 0) return true;
    return false;
}

static qb_status ask_16(qb_ctx *cx, qb_quant_state *s) {
    const char *const *globs = s->options->activations_16;
    if (globs && *globs && s->options->target && !s->options->target->has_16_bits)
        return qb_fail(cx, QB_STATUS_USAGE, "--for %s: it has no activations in 16 bits",
                       s->options->target->name);
    for (; globs && *globs; globs++)
        for (int32_t v = 0; v < s->n_values; v++)
            s->asked_16[v] = s->asked_16[v] || fnmatch(*globs, s->graph->values[v].name, 0) == 0;
    return QB_OK;
}

static void warn_of_unused_globs(qb_ctx *cx, const qb_quant_state *s) {
    for (const char *const *glob = s->options->keep_float; glob && *glob; glob++) {
        bool used = false;
        for (int32_t i = 0; i < s->graph->n_nodes && !used; i++)
            used = fnmatch(*glob, s->graph->nodes[i].name, 0) == 0;
        if (!used) qb_warn(cx, "keep in float: no node is called '%s'", *glob);
    }
}

/* COMPUTE needs a float weight that is known; without one it is an ordinary float operator. What
 * the engine runs through the operator's eval computes in float: to go there through integers would
 * only add rounding. Plugins say themselves what they do with integers. */
static qb_qrule rule_of(const qb_quant_state *s, const qb_group *group) {
    const qb_op *op = s->graph->nodes[group->node[0]].op;
    if (kept_float(s, group)) return QB_QRULE_FLOAT;
    if (op->qrule == QB_QRULE_SAME_SCALE) return op->qrule;
    if (group->kind == QB_KIND_NODE && !op->of_plugin) return QB_QRULE_FLOAT;
    if (op->qrule != QB_QRULE_COMPUTE) return op->qrule;
    if (!qb_quant_is_activation(s, group->in[0]) && !qb_quant_is_held(s, group->in[0]))
        return QB_QRULE_FLOAT;
    if (qb_group_prepares_image(s->graph, group)) return QB_QRULE_FLOAT;
    const qb_value *weight = &s->graph->values[group->in[QB_IN_WEIGHT]];
    const int32_t bias = group->n_in > QB_IN_BIAS ? group->in[QB_IN_BIAS] : -1;
    const bool known =
        weight->data && weight->dtype == QB_DTYPE_F32 && (bias < 0 || s->graph->values[bias].data);
    return known ? QB_QRULE_COMPUTE : QB_QRULE_FLOAT;
}

static void trace_data(const qb_graph *graph, bool *from_data) {
    for (int32_t i = 0; i < graph->n_inputs; i++) from_data[graph->inputs[i]] = true;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        bool any = false;
        for (int32_t k = 0; k < node->n_in && !qb_op_has(node->op, QB_TRAIT_SHAPE_ONLY); k++)
            any = any || (node->in[k] >= 0 && from_data[node->in[k]]);
        for (int32_t k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) from_data[node->out[k]] = any;
    }
}

/* Sizes that the caller chooses have symbols. */
static bool comes_with_data(const qb_shape *shape) {
    bool late = shape->rank < 0;
    for (int32_t d = 0; d < shape->rank; d++) late = late || shape->dim[d] == -1;
    return late;
}

/* Engines compute a node of such sizes, and all behind it, as their tail: also where sizes are
 * known again. */
static void trace_late(const qb_graph *graph, bool *late) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        bool any = false;
        for (int32_t k = 0; k < node->n_in; k++)
            any = any || (node->in[k] >= 0 && late[node->in[k]]);
        for (int32_t k = 0; k < node->n_out; k++)
            any = any || (node->out[k] >= 0 && comes_with_data(&graph->values[node->out[k]].shape));
        for (int32_t k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) late[node->out[k]] = any;
    }
}

/* The graph as engines bind it, its norms one node each; NULL where sizes come with the data. Sizes
 * that are open here are any. */
static qb_status bind_any(qb_ctx *cx, const qb_graph *graph, qb_graph **out) {
    const size_t n = (size_t)graph->n_inputs;
    int32_t n_norms;
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, n, sizeof *shapes));
    for (size_t i = 0; i < n; i++) {
        shapes[i] = graph->values[graph->inputs[i]].shape;
        for (int32_t d = 0; d < shapes[i].rank; d++)
            if (shapes[i].dim[d] < 0) shapes[i].dim[d] = d == 0 ? ANY_BATCH : ANY_SIZE;
    }
    if (qb_graph_bind_sharing(cx, graph, shapes, out) != QB_OK) {
        if (cx->code == QB_STATUS_NOMEM) return cx->code;
        qb_ctx_clear(cx);
        return QB_OK;
    }
    return qb_fuse_norms(cx, *out, &n_norms);
}

/* Marks what vanishes where an engine, which knows all shapes, computes several nodes as one step:
 * it is in floats. */
static qb_status mark_inside(qb_ctx *cx, qb_quant_state *s) {
    QB_RELEASED(qb_graph_free_at) qb_graph *bound = NULL;
    QB_TRY(bind_any(cx, s->graph, &bound));
    if (!bound) return QB_OK;
    QB_RELEASED(qb_groups_release) qb_groups groups = {0};
    QB_TRY(qb_fuse(cx, bound, &groups));
    for (int32_t v = 0; v < s->n_values; v++) s->inside[v] = s->producer[v] >= 0;
    for (int32_t g = 0; g < groups.n; g++) {
        const qb_node *last = &bound->nodes[groups.group[g].node[groups.group[g].n_nodes - 1]];
        for (int32_t k = 0; k < last->n_out; k++) {
            const char *name = last->out[k] < 0 ? NULL : bound->values[last->out[k]].name;
            const int32_t v = name ? qb_graph_find_value(s->graph, name) : -1;
            if (v >= 0) s->inside[v] = false;
        }
    }
    return QB_OK;
}

static qb_status prepare(qb_ctx *cx, qb_quant_state *s) {
    const qb_target *target = s->options->target;
    s->activations = target ? target->activations : s->options->activations;
    if (target && target->quantized_layers) QB_TRY(qb_keep_inner(cx, s->graph));
    QB_TRY(qb_fuse(cx, s->graph, &s->groups));
    qb_arena *arena = s->groups.arena; /* lives as long as the groups */
    s->n_values = s->graph->n_values;
    const size_t n = (size_t)s->n_values;
    s->rule = qb_arena_alloc(cx, arena, (size_t)s->groups.n, sizeof *s->rule);
    s->quantized = qb_arena_alloc(cx, arena, n, sizeof *s->quantized);
    s->producer = qb_arena_alloc(cx, arena, n, sizeof *s->producer);
    s->from_data = qb_arena_alloc(cx, arena, n, sizeof *s->from_data);
    s->late = qb_arena_alloc(cx, arena, n, sizeof *s->late);
    s->inside = qb_arena_alloc(cx, arena, n, sizeof *s->inside);
    s->asked_16 = qb_arena_alloc(cx, arena, n, sizeof *s->asked_16);
    s->in_16_bits = qb_arena_alloc(cx, arena, n, sizeof *s->in_16_bits);
    s->params_16 = qb_arena_alloc(cx, arena, n, sizeof *s->params_16);
    if (!s->rule || !s->quantized || !s->producer || !s->from_data || !s->late || !s->inside ||
        !s->asked_16 || !s->in_16_bits || !s->params_16)
        return cx->code;
    trace_data(s->graph, s->from_data);
    trace_late(s->graph, s->late);
    for (size_t v = 0; v < n; v++) s->producer[v] = -1;
    for (int32_t i = 0; i < s->groups.n; i++) {
        int32_t value;
        s->rule[i] = rule_of(s, &s->groups.group[i]);
        for (int32_t o = 0; qb_quant_output(s, i, o, &value); o++)
            if (value >= 0) s->producer[value] = i;
    }
    QB_TRY(mark_inside(cx, s));
    return ask_16(cx, s);
}

static void count(const qb_quant_state *s, qb_quant_report *report) {
    *report = (qb_quant_report){0};
    for (int32_t i = 0; i < s->groups.n; i++) {
        const qb_group *group = &s->groups.group[i];
        if (s->graph->nodes[group->node[0]].op->qrule != QB_QRULE_COMPUTE) continue;
        const int32_t weight = group->n_in > QB_IN_WEIGHT ? group->in[QB_IN_WEIGHT] : -1;
        if (s->rule[i] == QB_QRULE_COMPUTE)
            report->quantized++;
        else if (weight >= 0 && s->graph->values[weight].q.n > 0)
            report->held++;
        else
            report->kept_float++;
    }
    for (int32_t v = 0; v < s->n_values; v++) {
        report->tensors += s->quantized[v];
        report->tensors_16 += s->in_16_bits[v];
    }
}

static qb_status find_method(qb_ctx *cx, qb_quant_state *s) {
    const char *wanted = s->options->method;
    s->method = wanted ? qb_table_method(s->table, wanted) : 0;
    if (s->method >= 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "the calibration has no ranges by method '%s'", wanted);
}

qb_status qb_quantize(qb_ctx *cx, const qb_graph *graph, const qb_table *table,
                      const qb_quant_options *options, qb_graph **out, qb_quant_report *report) {
    qb_quant_state state = {.table = table, .options = options};
    qb_status status = QB_OK;
    QB_GO(find_method(cx, &state));
    QB_GO(qb_graph_clone(cx, graph, &state.graph));
    QB_GO(prepare(cx, &state));
    warn_of_unused_globs(cx, &state);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) QB_GO(steps[i]->run(cx, &state));
    for (int32_t v = 0; v < state.graph->n_values; v++) state.graph->values[v].kept = false;
    if (report) count(&state, report);
    QB_GO(qb_graph_sort(cx, state.graph));  /* Q/DQ nodes were appended */
    QB_GO(qb_graph_sweep(cx, state.graph)); /* float weights that nobody reads any more */
    *out = QB_MOVE(state.graph);
out:
    qb_groups_release(&state.groups);
    qb_graph_free(state.graph);
    return status;
}

/* From a bound graph to an engine: groups, steps, memory. */
#include "engine/realize/lowering_internal.h"

#include <string.h>

#include "base/log.h"
#include "engine/plans_internal.h"

/* Kernels of a device that take any distance between pixels. */
static bool reads_as_it_lies(qb_kind kind) {
    return kind == QB_KIND_STRIDED_COPY || kind == QB_KIND_REDUCE || kind == QB_KIND_BINARY;
}

static qb_status prepare(qb_lowering *b) {
    QB_TRY(qb_lower_values(b));
    if (b->spec->float_type == QB_DTYPE_BF16) qb_bf16_prepare(b);
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *group = &b->groups.group[g];
        const bool window = group->kind == QB_KIND_CONV || group->kind == QB_KIND_POOL;
        const bool sliced = window || qb_lower_is_sum(b, group) ||
                            (b->engine->device && reads_as_it_lies(group->kind));
        for (int32_t i = 0; i < group->n_in; i++) {
            if (group->in[i] < 0) continue;
            qb_lowered_value *value = &b->value[group->in[i]];
            if (value->last_group != g) value->n_groups++;
            value->last_group = g;
            const bool weight = group->kind == QB_KIND_CONV && i == QB_IN_WEIGHT;
            if (!sliced || weight) value->only_slices = false;
            if (!qb_kind_is_row_major(group->kind)) value->only_rows = false;
            if (window && !weight) value->in_window = true;
        }
    }
    for (int32_t i = 0; i < b->graph->n_outputs; i++)
        b->value[b->graph->outputs[i]].last_group = b->groups.n;
    bool rows = strcmp(b->backends.name[0], "ref") == 0 && !b->engine->device;
    b->spatial = rows ? QB_LAYOUT_ROW : QB_LAYOUT_NHWC;
    if (b->engine->device) QB_TRY(qb_device_keep_floats(b));
    if (b->engine->device && b->spec->float_type == QB_DTYPE_F16) QB_TRY(b->selector->floats(b));
    return qb_lower_slices(b);
}

/* What the caller passes or receives is float where the value is quantized: qb_lower_float_desc. */
static qb_status open_inputs(qb_lowering *b) {
    qb_engine *e = b->engine;
    e->inputs = qb_arena_alloc(b->cx, e->arena, (size_t)b->graph->n_inputs, sizeof *e->inputs);
    if (!e->inputs) return b->cx->code;
    for (int32_t i = 0; i < b->graph->n_inputs; i++) {
        int32_t value = b->graph->inputs[i];
        bool quantized = b->graph->values[value].q.n > 0;
        qb_desc desc = qb_lower_float_desc(b, value);
        int32_t buffer = qb_lower_buffer(b, QB_BUFFER_INPUT, i, NULL, qb_desc_bytes(&desc));
        int32_t layout = qb_lower_layout(b, quantized ? -1 : value, &desc, buffer);
        if (layout < 0) return b->cx->code;
        b->value[value].source = layout;
        e->inputs[i] = (qb_port){b->graph->values[value].name, desc, buffer};
        QB_TRY(qb_lower_observed(b, value));
        e->n_inputs++;
    }
    return QB_OK;
}

static qb_status open_outputs(qb_lowering *b) {
    qb_engine *e = b->engine;
    e->outputs = qb_arena_alloc(b->cx, e->arena, (size_t)b->graph->n_outputs, sizeof *e->outputs);
    if (!e->outputs) return b->cx->code;
    for (int32_t i = 0; i < b->graph->n_outputs; i++) {
        int32_t value = b->graph->outputs[i];
        qb_desc native = qb_lower_desc(b, value, QB_LAYOUT_ROW),
                desc = qb_lower_float_desc(b, value);
        int32_t from = b->value[value].layout >= 0 ? b->value[value].layout
                                                   : qb_lower_require(b, value, &native, false);
        bool there = from >= 0 && qb_layout_on_device(e, from);
        if (there) from = qb_lower_require(b, value, &desc, true);
        if (from < 0) return b->cx->code;
        int32_t buffer = qb_lower_buffer(b, QB_BUFFER_OUTPUT, i, NULL, qb_desc_bytes(&desc));
        int32_t to = qb_lower_layout(b, -1, &desc, buffer);
        if (to < 0) return b->cx->code;
        QB_TRY(there ? qb_lower_move(b, from, to) : qb_lower_copy(b, from, to));
        e->steps[e->n_steps - 1].name = b->graph->values[value].name;
        e->outputs[i] = (qb_port){b->graph->values[value].name, desc, buffer};
        e->n_outputs++;
    }
    return QB_OK;
}

/* The only group that reads the value; NULL where there are several, or the caller does. */
static qb_group *only_reader(const qb_lowering *b, int32_t value) {
    const int32_t last = b->value[value].last_group;
    if (last <= b->group || last == b->groups.n || b->value[value].n_groups != 1) return NULL;
    return &b->groups.group[last];
}

/* Quantized values of one scale that stay as they are when the largest of them is taken. */
static bool same_scale(const qb_lowering *b, int32_t from, int32_t to) {
    const qb_value *x = &b->graph->values[from], *y = &b->graph->values[to];
    return x->q.n == 1 && y->dtype == x->dtype && qb_same_params(&x->q, &y->q) &&
           !b->value[from].is_f16 && !b->value[to].is_f16;
}

/* The max pool that could be part of the convolution at work; NULL: none. The pool's result is that
 * of the quantized values, so that it only takes the largest of a few that no one else reads: where
 * a tactic does that before they are written, neither writing nor reading them takes time. */
static qb_group *pool_behind(const qb_lowering *b) {
    const qb_group *conv = &b->groups.group[b->group];
    if (conv->kind != QB_KIND_CONV || conv->in[QB_IN_RESIDUAL] >= 0 ||
        conv->n_nodes == QB_GROUP_NODES || b->graph->values[conv->in[QB_IN_DATA]].q.n != 1)
        return NULL;
    qb_group *pool = only_reader(b, conv->out);
    const bool max = pool && pool->kind == QB_KIND_POOL && pool->n_nodes == 1 &&
                     strcmp(b->graph->nodes[pool->node[0]].op->name, "MaxPool") == 0;
    return max && same_scale(b, conv->out, pool->out) ? pool : NULL;
}

/* The group at work becomes one with its pool where the selector says so; the pool's own group is
 * then empty. */
static qb_status fuse_pool(qb_lowering *b) {
    qb_group *conv = &b->groups.group[b->group], *pool = pool_behind(b);
    bool fuse = false;
    b->fuses = NULL;
    if (!pool) return QB_OK;
    qb_group fused = *conv;
    fused.kind = QB_KIND_CONV_POOL;
    fused.node[fused.n_nodes++] = pool->node[0];
    fused.out = pool->out;
    QB_TRY(b->selector->fuse(b, &fused, pool, &fuse));
    if (!fuse) return QB_OK;
    b->fuses = b->graph->values[conv->out].name;
    *conv = fused;
    *pool = (qb_group){.out = fused.out};
    return QB_OK;
}

static qb_status build_steps(qb_lowering *b) {
    QB_TRY(prepare(b));
    QB_TRY(open_inputs(b));
    for (b->group = 0; b->group < b->groups.n; b->group++) {
        const qb_group *group = &b->groups.group[b->group];
        char node[160];
        if (group->n_nodes == 0) continue; /* part of one before it */
        qb_node_text(b->graph, group->node[0], node, sizeof node);
        if (b->engine->device) QB_TRY_WRAP(b->cx, fuse_pool(b), "%s", node);
        QB_TRY_WRAP(b->cx, qb_lower_group(b, group), "%s", node);
    }
    return open_outputs(b);
}

/* Nodes that make nothing, because all of their outputs are left out, have no step. */
static void drop_idle(qb_groups *groups) {
    int32_t n = 0;
    for (int32_t g = 0; g < groups->n; g++)
        if (groups->group[g].out >= 0) groups->group[n++] = groups->group[g];
    groups->n = n;
}

/* What the device is, plans know already. */
static qb_status open_device(qb_lowering *b) {
    qb_engine *e = b->engine;
    const qb_device_api *device = b->backends.device;
    qb_device_identity identity;
    const char *name = b->plans ? b->plans->device_name : NULL;
    const double start = qb_now();
    if (!device) return QB_OK;
    QB_TRY(device->open(b->cx, b->spec->device, name ? NULL : &identity));
    e->on.seconds = qb_now() - start;
    e->on.ordinal = b->spec->device;
    e->device = device;
    e->on.name = name ? qb_strdup(b->cx, name)
                      : qb_format(b->cx, "%s, %s", identity.hardware, identity.software);
    return e->on.name ? QB_OK : b->cx->code;
}

/* What its kernels are made of again stays with the engine, for its file. */
static qb_status keep_compiled(const qb_lowering *b) {
    qb_engine *e = b->engine;
    const bool later = b->plans && b->plans->engine && !b->plans->tuning; /* no file has it */
    if (!b->compiled || later) return QB_OK;
    QB_TRY(qb_compiled_create(b->cx, &e->compiled));
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_kernel *kernel = e->steps[s].kernel;
        if (kernel && !qb_hash_is_zero(kernel->compiled))
            QB_TRY(qb_compiled_take(b->cx, e->compiled, b->compiled, kernel->compiled));
    }
    return QB_OK;
}

/* Does a tactic of the host's backends take it? `faster`: one that is not the definition. */
static bool is_taken(const qb_lowering *b, const qb_problem *problem, bool faster) {
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (qb_lower_has(b, *t, false) && !(faster && strcmp((*t)->backend, "ref") == 0) &&
            qb_tactic_takes(*t, problem, qb_filter_constants(problem)))
            return true;
    return false;
}

/* By the definition a sum that is rounded before is two steps. */
static bool host_takes(const void *lowering, const qb_problem *problem) {
    return is_taken(lowering, problem, problem->rounding.dtype != QB_DTYPE_NONE);
}

static bool host_attends(const void *lowering, const qb_problem *problem) {
    return problem->kind == QB_KIND_ATTENTION && is_taken(lowering, problem, true);
}

/* What runs as one step although it is several nodes. */
static qb_status fuse_nodes(qb_lowering *b) {
    int32_t n = 0;
    if (b->spec->observable) return QB_OK;
    const bool device = b->engine->device;
    QB_TRY(qb_fuse_rms_norms(b->cx, b->graph, &n));
    if (n > 0) qb_debug(b->cx, "RMS normalization: %d times as one step", (int)n);
    QB_TRY(qb_fuse_order(b->cx, b->graph, device ? qb_device_takes : host_takes, b, &n));
    if (device && !b->plans) { /* indices and weights vary by size */
        QB_TRY(qb_fuse_boxes(b->cx, b->graph, &n));
        QB_TRY(qb_fuse_linear(b->cx, b->graph, qb_device_takes, b, &n));
    }
    if (device && b->spec->float_type == QB_DTYPE_F16) QB_TRY(qb_device_fuse(b));
    if (!device && b->spec->float_type == QB_DTYPE_F32) QB_TRY(qb_lower_attention(b, host_attends));
    if (device || b->spec->float_type == QB_DTYPE_F32)
        QB_TRY(qb_finalize_moves(b->cx, b->graph, &n));
    if (device) return QB_OK;
    QB_TRY(qb_fuse_integers(b->cx, b->graph, &n));
    if (n > 0) qb_debug(b->cx, "products of integers with their scales: %d", (int)n);
    return b->spec->float_type == QB_DTYPE_F32 ? qb_fuse_floats(b->cx, b->graph, &n) : QB_OK;
}

/* Elementwise operators as single steps, where nobody looks at what lies between; on a device also
 * those that only move elements, which the host's attention takes in alone. */
static qb_status fuse_chains(qb_lowering *b) {
    const bool device = b->engine->device;
    const qb_chain_filter takes = device ? qb_device_takes : host_takes;
    if (b->spec->observable || (!device && b->spec->float_type != QB_DTYPE_F32)) return QB_OK;
    QB_TRY(qb_fuse_rounded_sums(b->cx, b->graph, takes, b, &b->groups));
    QB_TRY(qb_fuse_views(b->cx, b->graph, device ? takes : host_attends, b, &b->groups));
    return qb_fuse_chains(b->cx, b->graph, takes, b, !device, &b->groups);
}

/* An engine without steps, its device open and its graph taken over. */
static qb_status open_lowering(qb_ctx *cx, const qb_lower_input *input, qb_lowering *b) {
    *b = (qb_lowering){.cx = cx,
                       .spec = &input->plan->spec,
                       .plans = input->plans,
                       .compiled = input->compiled,
                       .denied = input->denied,
                       .selector = input->selector,
                       .state = input->state};
    b->engine = qb_alloc(cx, 1, sizeof *b->engine);
    if (!b->engine) {
        qb_graph_free(input->graph);
        return cx->code;
    }
    b->engine->graph = b->graph = input->graph;
    b->engine->plan = input->plan;
    b->engine->parts = 1;
    QB_TRY(qb_arena_create(cx, &b->engine->arena));
    QB_TRY(qb_backends_parse(cx, b->spec->backends, &b->backends));
    QB_TRY(open_device(b));
    return b->engine->device && input->selector ? input->selector->open(b) : QB_OK;
}

static qb_status lower(qb_lowering *b, bool memory) {
    QB_TRY(fuse_nodes(b));
    QB_TRY(qb_fuse(b->cx, b->graph, &b->groups));
    drop_idle(&b->groups);
    QB_TRY(fuse_chains(b));
    const bool mixed = b->engine->device && b->spec->float_type == QB_DTYPE_F16;
    if (mixed && !b->spec->no_mixed_precision) QB_TRY(b->selector->precision(b));
    const int before = qb_use_threads(b->spec->threads);
    qb_status status = build_steps(b);
    if (status == QB_OK && memory) status = qb_engine_plan_memory(b->cx, b->engine);
    qb_use_threads(before);
    return status == QB_OK ? keep_compiled(b) : status;
}

static void close_lowering(qb_lowering *b, bool keep) {
    qb_groups_release(&b->groups);
    qb_kernel_pool_free(b->pool);
    qb_free(b->value);
    if (keep || !b->engine) return;
    b->engine->plan = NULL; /* the caller's */
    qb_engine_destroy(b->engine);
}

qb_status qb_lower(qb_ctx *cx, const qb_lower_input *input, qb_engine **out) {
    qb_lowering b;
    qb_status status = open_lowering(cx, input, &b);
    if (status == QB_OK) status = lower(&b, !input->without_memory);
    if (status == QB_OK) *out = b.engine;
    close_lowering(&b, status == QB_OK);
    return status;
}

/* Memory of constants that the graph has no more goes; no engine reads them. */
static qb_status trim(qb_ctx *cx, qb_plans *plans) {
    qb_graph *trimmed;
    QB_TRY(qb_graph_clone(cx, plans->graph, &trimmed));
    qb_graph_free(plans->graph);
    plans->graph = trimmed;
    return QB_OK;
}

qb_status qb_lower_fuse_plans(qb_ctx *cx, const qb_lower_input *input) {
    qb_lowering b;
    int32_t n = 0;
    qb_status status = open_lowering(cx, input, &b);
    if (status == QB_OK && b.engine->device && b.spec->float_type == QB_DTYPE_F16)
        status = qb_device_fuse_plans(&b, &n);
    if (n > 0) qb_debug(cx, "queries, keys and values: %d times as one product", (int)n);
    close_lowering(&b, false);
    return status == QB_OK && n > 0 ? trim(cx, input->plans) : status;
}

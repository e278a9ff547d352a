/* Steps of plugins: where they run, the form in which they take their tensors, and running them. */
#include <stdint.h>
#include <string.h>

#include "engine/realize/lowering_internal.h"
#include "graph/plugin.h"

/* What a conversion costs, to compare formats: another type moves every element through a kernel,
 * and so does another layout. */
enum { TYPE_COST = 2, LAYOUT_COST = 1, IMPOSSIBLE = 1 << 20 };

static bool has_layouts(const qb_shape *shape) { return shape->rank >= 3 && shape->rank <= 5; }

/* The value as it is kept in this memory space. */
static qb_desc kept_desc(const qb_lowering *b, int32_t value, bool device) {
    const int32_t stored = qb_lower_first(b, value, device);
    if (stored >= 0) return b->engine->layouts[stored].desc;
    const qb_desc desc = qb_lower_desc(b, value, QB_LAYOUT_ROW);
    return device ? qb_device_desc(b, desc) : desc;
}

/* The value in the form; false where it has no such form. */
static bool form_desc(const qb_lowering *b, int32_t value, const qbench_plugin_form *form,
                      qb_desc *out) {
    const qb_value *v = &b->graph->values[value];
    const qb_dtype dtype = qb_dtype_from_onnx(form->dtype);
    *out = qb_lower_float_desc(b, value);
    if (form->layout == QBENCH_CHANNELS_LAST && has_layouts(&v->shape))
        out->layout = QB_LAYOUT_NHWC;
    if (dtype == QB_DTYPE_NONE) return true;
    if (dtype == QB_DTYPE_F32 || dtype == QB_DTYPE_F16) {
        const bool f32 = out->dtype == QB_DTYPE_F32 || out->dtype == dtype;
        out->dtype = dtype;
        return f32;
    }
    out->dtype = v->dtype;
    out->q = v->q;
    return v->q.n == 1 && v->q.dtype == dtype;
}

/* All tensors of a node, inputs first. */
typedef struct layout_plan {
    int32_t n;
    qb_desc desc[QBENCH_PLUGIN_MAX_INPUTS + QBENCH_PLUGIN_MAX_OUTPUTS];
} layout_plan;

static int cost_of(const qb_lowering *b, const qb_node *node, const qbench_plugin_format *format,
                   bool device, layout_plan *plan) {
    int cost = 0;
    plan->n = node->n_in + node->n_out;
    for (int32_t i = 0; i < plan->n; i++) {
        const bool input = i < node->n_in;
        const int32_t value = input ? node->in[i] : node->out[i - node->n_in];
        plan->desc[i] = (qb_desc){.dtype = QB_DTYPE_NONE};
        if (value < 0) continue;
        const qbench_plugin_form *form = input ? &format->in[i] : &format->out[i - node->n_in];
        qb_desc *want = &plan->desc[i];
        if (!form_desc(b, value, form, want)) return IMPOSSIBLE;
        const qb_desc have = kept_desc(b, value, device);
        if (have.dtype != want->dtype || !qb_same_params(&have.q, &want->q)) cost += TYPE_COST;
        if (input && have.layout != want->layout) cost += LAYOUT_COST;
    }
    return cost;
}

/* The plugin's format with the fewest conversions, the first of equals. */
static bool plan_layout(const qb_lowering *b, const qb_node *node, const qb_plugin_op *op,
                        bool device, layout_plan *out) {
    const int32_t place = device ? QBENCH_ON_CUDA : QBENCH_ON_CPU;
    const qbench_plugin_format as_written = {.place = place};
    const qbench_plugin_format *formats = op->api.n_formats ? op->api.formats : &as_written;
    const int32_t n = op->api.n_formats ? op->api.n_formats : 1;
    int best = IMPOSSIBLE;
    for (int32_t f = 0; f < n; f++) {
        layout_plan plan;
        if (formats[f].place != place) continue;
        const int cost = cost_of(b, node, &formats[f], device, &plan);
        if (cost >= best) continue;
        best = cost;
        *out = plan;
    }
    return best < IMPOSSIBLE;
}

/* ---- the step ---- */

static qb_status lower_inputs(qb_lowering *b, const qb_node *node, const layout_plan *plan,
                              bool device, int32_t **out) {
    int32_t *in = qb_arena_alloc(b->cx, b->engine->arena, (size_t)node->n_in, sizeof *in);
    if (!in) return b->cx->code;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        in[i] = qb_lower_require(b, node->in[i], &plan->desc[i], device);
        if (in[i] < 0) return b->cx->code;
    }
    *out = in;
    return QB_OK;
}

/* Is the output made as floats although it is quantized? */
static bool is_private(const qb_lowering *b, const qb_node *node, const layout_plan *plan,
                       int32_t i) {
    return b->graph->values[node->out[i]].q.n > 0 && plan->desc[node->n_in + i].q.n == 0;
}

static qb_status make_outputs(qb_lowering *b, const qb_node *node, const layout_plan *plan,
                              bool device, qb_step *step) {
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        const bool private = is_private(b, node, plan, i);
        step->out[i] =
            qb_lower_fresh(b, private ? -1 : node->out[i], &plan->desc[node->n_in + i], device);
        if (step->out[i] < 0) return b->cx->code;
        if (private) continue;
        if (step->observed < 0) step->observed = b->engine->n_observed;
        QB_TRY(qb_lower_observed(b, node->out[i]));
    }
    return QB_OK;
}

/* What the plugin is told of each tensor, and the scratch memory that it asks for. */
static qb_status describe_tensors(qb_lowering *b, const layout_plan *plan, qb_step *step) {
    const qb_node *node = step->node;
    qbench_plugin_tensor *tensors =
        QB_NEW(b->cx, qb_arena_alloc(b->cx, b->engine->arena, (size_t)plan->n, sizeof *tensors));
    for (int32_t i = 0; i < plan->n; i++) {
        const qb_desc *desc = &plan->desc[i];
        const int32_t value = i < node->n_in ? node->in[i] : -1;
        const qb_value *v = value >= 0 ? &b->graph->values[value] : NULL;
        const bool as_is = v && v->dtype == desc->dtype && desc->layout == QB_LAYOUT_ROW;
        qb_plugin_tensor(desc, as_is ? v->data : NULL, &tensors[i]);
    }
    step->described = tensors;
    QB_TRY(qb_plugin_workspace(b->cx, node, step->on_device ? QBENCH_ON_CUDA : QBENCH_ON_CPU,
                               tensors, tensors + node->n_in, &step->workspace_bytes));
    if (b->spec->workspace_limit == 0 || step->workspace_bytes <= b->spec->workspace_limit)
        return QB_OK;
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED,
                   "%s wants %zu bytes of workspace, the limit is %zu", step->tactic,
                   step->workspace_bytes, b->spec->workspace_limit);
}

static qb_dtype computes_in(const layout_plan *plan, int32_t n_in) {
    for (int32_t i = 0; i < n_in; i++)
        if (plan->desc[i].q.n > 0) return QB_DTYPE_S8;
    return plan->desc[n_in].dtype;
}

static qb_status add_step(qb_lowering *b, const qb_group *group, const qb_plugin_op *op,
                          const layout_plan *plan, bool device) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    int32_t *in;
    QB_TRY(lower_inputs(b, node, plan, device, &in));
    qb_step *step = qb_lower_step(b, QB_STEP_PLUGIN, 0, node->n_out);
    const char *tactic =
        step ? qb_arena_format(b->cx, b->engine->arena, "plugin.%s", op->plugin->name) : NULL;
    if (!tactic) return b->cx->code;
    const int32_t index = b->engine->n_steps - 1;
    step->node = node;
    step->in = in;
    step->n_in = node->n_in;
    step->on_device = device;
    step->tactic = tactic;
    step->dtype = computes_in(plan, node->n_in);
    QB_TRY(qb_lower_describe(b, group, step));
    QB_TRY(make_outputs(b, node, plan, device, step));
    QB_TRY(describe_tensors(b, plan, step));
    step->bytes = qb_step_bytes(b->engine, step);
    for (int32_t i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0 && is_private(b, node, plan, i))
            QB_TRY(qb_lower_quantized(b, node->out[i], b->engine->steps[index].out[i]));
    return QB_OK;
}

qb_status qb_lower_plugin(qb_lowering *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    const qb_plugin_op *op = qb_plugin_op_of(node->op);
    layout_plan plan;
    if (b->engine->device && op->api.run_cuda) {
        if (plan_layout(b, node, op, true, &plan)) return add_step(b, group, op, &plan, true);
        b->fallback_reason = "none of the plugin's formats for CUDA fits";
    } else if (b->engine->device) {
        b->fallback_reason = "the plugin runs on the CPU alone";
    }
    if (!op->api.run_cpu)
        return qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "plugin %s %s runs on CUDA alone%s%s",
                       op->plugin->name, op->plugin->version, b->fallback_reason ? ": " : "",
                       b->fallback_reason ? b->fallback_reason : "");
    if (plan_layout(b, node, op, false, &plan)) return add_step(b, group, op, &plan, false);
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED,
                   "plugin %s %s: none of its formats for the CPU fits the node's types",
                   op->plugin->name, op->plugin->version);
}

/* ---- running ---- */

qb_status qb_plugin_step_run(qb_ctx *cx, const qb_step *step, const void *const *data,
                             void *workspace, void *stream, int threads) {
    qbench_plugin_tensor tensor[QBENCH_PLUGIN_MAX_INPUTS + QBENCH_PLUGIN_MAX_OUTPUTS];
    const size_t n = (size_t)(step->n_in + step->n_out);
    memcpy(tensor, step->described, n * sizeof *tensor);
    for (size_t i = 0; i < n; i++) tensor[i].data = (void *)(uintptr_t)data[i];
    const qbench_plugin_run run = {.struct_size = sizeof run,
                                   .threads = threads,
                                   .in = tensor,
                                   .out = tensor + step->n_in,
                                   .workspace = step->workspace_bytes ? workspace : NULL,
                                   .stream = stream};
    return qb_plugin_run(cx, step->node, step->on_device ? QBENCH_ON_CUDA : QBENCH_ON_CPU, &run);
}

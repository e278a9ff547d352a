/* The steps of groups: by a kernel, by an operator's eval, or none. */

#include "base/strbuf.h"
#include "engine/realize/lowering_internal.h"

/* "Conv+Add+Relu" */
static const char *group_op(qb_lowering *b, const qb_group *group) {
    qb_strbuf text = {0};
    for (int32_t i = 0; i < group->n_nodes; i++) {
        if (i > 0) qb_strbuf_add(&text, "+");
        qb_strbuf_add(&text, b->graph->nodes[group->node[i]].op->name);
    }
    const char *kept =
        text.failed ? NULL : qb_arena_strdup(b->cx, b->engine->arena, text.data ? text.data : "");
    qb_strbuf_release(&text);
    return kept;
}

qb_status qb_lower_describe(qb_lowering *b, const qb_group *group, qb_step *step) {
    const qb_node *anchor = &b->graph->nodes[group->node[0]];
    const char *name =
        anchor->name && *anchor->name ? anchor->name : b->graph->values[group->out].name;
    const char *op = QB_NEW(b->cx, group_op(b, group));
    step->name = name;
    step->op = op;
    step->node_index = group->node[0];
    return b->selector->record(b, b->graph->values[group->out].name, false, step);
}

double qb_step_bytes(const qb_engine *engine, const qb_step *step) {
    const qb_value_layout *layouts = engine->layouts;
    double bytes = step->kernel ? (double)step->kernel->packed_bytes : 0.0;
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i] >= 0) bytes += (double)qb_desc_bytes(&layouts[step->in[i]].desc);
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i] >= 0) bytes += (double)qb_desc_bytes(&layouts[step->out[i]].desc);
    return bytes;
}

static bool is_quantized(const qb_lowering *b, int32_t value) {
    return value >= 0 && b->graph->values[value].q.n > 0;
}

/* ---- operators that run through eval --------------------------------------------------------- */

qb_status qb_lower_quantized(qb_lowering *b, int32_t value, int32_t private) {
    qb_desc desc = qb_lower_desc(b, value, QB_LAYOUT_ROW);
    int32_t to = qb_lower_fresh(b, value, &desc, qb_layout_on_device(b->engine, private));
    if (to < 0) return b->cx->code;
    QB_TRY(qb_lower_copy(b, private, to));
    b->engine->steps[b->engine->n_steps - 1].observed = b->engine->n_observed;
    return qb_lower_observed(b, value);
}

/* Layouts of the node's outputs in floats (of the device's type there), for the last step, and
 * copies to quantized values behind it. */
static qb_status float_outputs(qb_lowering *b, const qb_group *group, bool device) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    const bool f32 = b->value[group->out].f32_reason;
    const int32_t index = b->engine->n_steps - 1;
    qb_step *step = &b->engine->steps[index];
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        qb_desc desc = qb_lower_float_desc(b, node->out[i]);
        if (device && !f32) desc = qb_device_float(b, node->out[i], desc);
        bool private = is_quantized(b, node->out[i]);
        int32_t stored = qb_lower_fresh(b, private ? -1 : node->out[i], &desc, device);
        if (stored < 0) return b->cx->code;
        step->out[i] = stored;
        if (private) continue;
        if (step->observed < 0) step->observed = b->engine->n_observed;
        QB_TRY(qb_lower_observed(b, node->out[i]));
    }
    step->bytes = qb_step_bytes(b->engine, step);
    for (int32_t i = 0; i < node->n_out; i++)
        if (is_quantized(b, node->out[i]))
            QB_TRY(qb_lower_quantized(b, node->out[i], b->engine->steps[index].out[i]));
    return QB_OK;
}

qb_status qb_lower_node(qb_lowering *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    int32_t *in = qb_arena_pack(b->cx, b->engine->arena, (size_t)node->n_in, sizeof *in);
    if (!in) return b->cx->code;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        qb_desc want = qb_lower_float_desc(b, node->in[i]);
        in[i] = qb_lower_require(b, node->in[i], &want, false);
        if (in[i] < 0) return b->cx->code;
    }
    qb_step *step = QB_NEW(b->cx, qb_lower_step(b, QB_STEP_NODE, 0, node->n_out));
    step->node = node;
    step->in = in;
    step->n_in = node->n_in;
    step->tactic = "node";
    step->dtype = QB_DTYPE_F32;
    QB_TRY(qb_lower_describe(b, group, step));
    return float_outputs(b, group, false);
}

/* ---- steps that run through a tactic --------------------------------------------------------- */

/* Does nobody look at it from the group at work on? Then nobody ever will. */
static bool is_gone(const qb_lowering *b, int32_t stored) {
    const int32_t value = b->engine->layouts[stored].value;
    return value >= 0 && b->value[value].last_group < b->group;
}

/* May `layout` be overwritten by the group at work? Only when nobody else will look at the memory.
 * Layouts that are gone leave the buffer's list, so that none is passed twice. */
static bool is_last_use(const qb_lowering *b, int32_t value, int32_t stored) {
    const qb_engine *e = b->engine;
    if (b->value[value].last_group > b->group) return false;
    qb_buffer *buffer = &e->buffers[e->layouts[stored].buffer];
    if (buffer->lasting || (buffer->kind != QB_BUFFER_ARENA && buffer->kind != QB_BUFFER_DEVICE))
        return false;
    for (int32_t *link = &buffer->layouts; *link >= 0;) {
        int32_t *below = &e->layouts[*link].below;
        if (*link == stored)
            link = below;
        else if (is_gone(b, *link))
            *link = *below;
        else
            return false;
    }
    return true;
}

/* An output layout in the memory of an input, where the kernel allows it; -1: none. */
static qb_status in_place(qb_lowering *b, const qb_group *group, const qb_kernel *kernel,
                          int32_t *in, int32_t *stored) {
    *stored = -1;
    const qb_desc *out = &kernel->problem.out;
    bool device = kernel->tactic->device_memory;
    for (int32_t i = 0; i < group->n_in && *stored < 0; i++) {
        if (!(kernel->in_place_inputs >> i & 1) || in[i] < 0) continue;
        bool free_to_use = is_last_use(b, group->in[i], in[i]) &&
                           qb_desc_bytes(&kernel->problem.in[i]) == qb_desc_bytes(out);
        for (int32_t k = 0; k < group->n_in; k++)
            free_to_use = free_to_use && (k == i || in[k] != in[i]);
        if (!free_to_use && !kernel->in_place_required) continue;
        if (!free_to_use) { /* a copy that may be overwritten */
            int32_t copy = qb_lower_fresh(b, -1, &kernel->problem.in[i], device);
            if (copy < 0) return b->cx->code;
            QB_TRY(qb_lower_copy(b, in[i], copy));
            in[i] = copy;
        }
        *stored = qb_lower_layout(b, group->out, out, b->engine->layouts[in[i]].buffer);
        if (*stored < 0) return b->cx->code;
    }
    return QB_OK;
}

static qb_status output_layout(qb_lowering *b, const qb_group *group, const qb_kernel *kernel,
                               int32_t *in, int32_t *stored) {
    const qb_desc *out = &kernel->problem.out;
    if (b->value[group->out].slice_of >= 0) {
        int32_t whole = qb_lower_whole(b, b->value[group->out].slice_of);
        if (whole < 0) return b->cx->code;
        *stored = qb_lower_layout(b, group->out, out, b->engine->layouts[whole].buffer);
        return *stored < 0 ? b->cx->code : QB_OK;
    }
    QB_TRY(in_place(b, group, kernel, in, stored));
    if (*stored < 0) *stored = qb_lower_fresh(b, group->out, out, kernel->tactic->device_memory);
    return *stored < 0 ? b->cx->code : QB_OK;
}

static bool is_product(qb_kind kind) {
    return kind == QB_KIND_CONV || kind == QB_KIND_CONV_POOL || kind == QB_KIND_CONV_TRANSPOSE ||
           kind == QB_KIND_MATMUL || kind == QB_KIND_MATMUL_INTEGER ||
           kind == QB_KIND_MATMUL_SCALED;
}

static qb_dtype computes_in(const qb_problem *p) {
    qb_dtype f32 = p->in[0].dtype == QB_DTYPE_BF16                                  ? QB_DTYPE_BF16
                   : p->in[0].dtype == QB_DTYPE_F16 || p->out.dtype == QB_DTYPE_F16 ? QB_DTYPE_F16
                                                                                    : QB_DTYPE_F32;
    bool in = p->in[0].q.n > 0, out = p->out.q.n > 0;
    if (p->kind == QB_KIND_MATMUL_INTEGER || p->kind == QB_KIND_MATMUL_SCALED) return QB_DTYPE_S8;
    if (is_product(p->kind)) return in && p->in[QB_IN_WEIGHT].q.n > 0 ? QB_DTYPE_S8 : f32;
    return in && out ? QB_DTYPE_S8 : f32;
}

/* Does the kernel read input `i` behind its end (QB_BUFFER_SLACK)? */
static bool reads_slack(const qb_problem *p, int32_t i) {
    return qb_dtype_size(p->in[i].dtype) == 1 &&
           ((p->kind == QB_KIND_POOL && i == 0) || (is_product(p->kind) && i <= QB_IN_WEIGHT));
}

/* Behind what the caller passes or the model's file holds, there may be no memory: a copy. */
static qb_status give_slack(qb_lowering *b, int32_t value, const qb_problem *p, int32_t i,
                            int32_t *in) {
    const qb_buffer_kind kind = b->engine->buffers[b->engine->layouts[*in].buffer].kind;
    if ((kind != QB_BUFFER_INPUT && kind != QB_BUFFER_CONSTANT) || !reads_slack(p, i)) return QB_OK;
    const int32_t copy = qb_lower_fresh(b, value, &p->in[i], false);
    if (copy < 0) return b->cx->code;
    QB_TRY(qb_lower_copy(b, *in, copy));
    *in = copy;
    return QB_OK;
}

qb_status qb_lower_add_kernel(qb_lowering *b, const qb_group *group, qb_kernel **kernel) {
    const qb_problem *p = &(*kernel)->problem;
    size_t n_in = (size_t)group->n_in;
    int32_t *in = qb_arena_pack(b->cx, b->engine->arena, n_in, sizeof *in);
    const void **constants = qb_arena_pack(b->cx, b->engine->arena, n_in, sizeof *constants);
    if (!in || !constants) return b->cx->code;
    for (int32_t i = 0; i < group->n_in; i++) {
        in[i] = -1;
        if (group->in[i] >= 0) constants[i] = b->graph->values[group->in[i]].data;
        if (group->in[i] < 0 || ((*kernel)->packed_inputs >> i & 1)) continue;
        in[i] = qb_lower_require(b, group->in[i], &p->in[i], (*kernel)->tactic->device_memory);
        if (in[i] < 0) return b->cx->code;
        QB_TRY(give_slack(b, group->in[i], p, i, &in[i]));
    }
    const int32_t n_out = qb_kind_outputs(p->kind);
    int32_t out = -1;
    if (n_out == 1) QB_TRY(output_layout(b, group, *kernel, in, &out));
    qb_step *step = QB_NEW(b->cx, qb_lower_step(b, QB_STEP_KERNEL, 0, n_out));
    step->kernel = *kernel;
    step->on_device = (*kernel)->tactic->device_memory;
    step->workspace_bytes = (*kernel)->workspace_bytes;
    *kernel = NULL;
    step->in = in;
    step->n_in = group->n_in;
    step->constants = constants;
    step->tactic = step->kernel->tactic->name;
    step->dtype = computes_in(p);
    step->flops = qb_problem_flops(p);
    QB_TRY(qb_lower_describe(b, group, step));
    if (n_out > 1) return float_outputs(b, group, step->on_device);
    step->out[0] = out;
    step->bytes = qb_step_bytes(b->engine, step);
    step->observed = b->engine->n_observed;
    return qb_lower_observed(b, group->out);
}

qb_status qb_lower_add_alias(qb_lowering *b, const qb_group *group, int32_t from, int32_t to) {
    qb_step *step = QB_NEW(b->cx, qb_lower_step(b, QB_STEP_ALIAS, 1, 1));
    step->in[0] = from;
    step->out[0] = to;
    step->tactic = "alias";
    step->dtype = b->engine->layouts[to].desc.dtype;
    step->observed = b->engine->n_observed;
    QB_TRY(qb_lower_describe(b, group, step));
    return qb_lower_observed(b, group->out);
}

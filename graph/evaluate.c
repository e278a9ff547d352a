#include "graph/evaluate.h"

#include <string.h>

#include "graph/op.h"
#include "graph_internal.h"

/* ---- node by node ---------------------------------------------------------------------------- */

qb_status qb_graph_fix(qb_ctx *cx, qb_graph *graph, int32_t id, const qb_tensor *tensor) {
    size_t bytes = qb_desc_bytes(&tensor->desc);
    void *copy = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, bytes + 1, 1));
    if (bytes > 0) memcpy(copy, tensor->data, bytes);
    qb_value *value = &graph->values[id];
    value->dtype = tensor->desc.dtype;
    value->shape = tensor->desc.shape;
    value->bytes = bytes;
    value->data = copy;
    return QB_OK;
}

qb_status qb_value_memory_reserve(qb_ctx *cx, qb_value_memory *memory, size_t bytes) {
    if (memory->data && memory->bytes >= bytes) return QB_OK;
    qb_free(memory->data);
    memory->data = qb_alloc_aligned(cx, 1, bytes + 1);
    memory->bytes = memory->data ? bytes : 0;
    return memory->data ? QB_OK : cx->code;
}

static qb_status place(qb_ctx *cx, qb_graph *graph, int32_t id, size_t bytes,
                       qb_value_memory *memory, void **out) {
    if (memory) QB_TRY(qb_value_memory_reserve(cx, &memory[id], bytes));
    *out = memory ? memory[id].data : qb_arena_alloc(cx, graph->arena, bytes + 1, 1);
    return *out ? QB_OK : cx->code;
}

/* `made`: the first output's data, NULL where they are not known yet. */
static qb_status take_tensors(qb_ctx *cx, qb_graph *graph, const qb_node *node, size_t most,
                              qb_value_memory *memory, void *made, qb_tensor *in, qb_tensor *out) {
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        if (!value->data) return qb_fail(cx, QB_STATUS_INVALID, "no data for '%s'", value->name);
        in[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        qb_value *value = &graph->values[node->out[i]];
        if (!qb_shape_known(&value->shape) || value->dtype == QB_DTYPE_NONE)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output '%s': no shape or type inferred",
                           value->name);
        out[i] = qb_tensor_of(value->dtype, value->shape, NULL);
        value->bytes = qb_desc_bytes(&out[i].desc);
        if (value->bytes > most)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "output '%s' would take %zu bytes, the limit is %zu", value->name,
                           value->bytes, most);
        out[i].data = i == 0 ? made : NULL;
        if (!out[i].data)
            QB_TRY(place(cx, graph, node->out[i], value->bytes, memory, &out[i].data));
        value->data = out[i].data;
    }
    return QB_OK;
}

/* All inputs are constant here, so that the node's shapes follow before it is evaluated. */
static qb_status evaluate(qb_ctx *cx, qb_graph *graph, int32_t index, size_t most,
                          qb_value_memory *memory) {
    const qb_node *node = &graph->nodes[index];
    void *made = NULL;
    QB_TRY(node->op->infer(cx, &(qb_infer_args){.graph = graph, .node = index, .result = &made}));
    int32_t n = node->n_in + node->n_out;
    QB_FREED qb_tensor *tensors = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *tensors));
    qb_tensor *out = tensors + node->n_in;
    QB_TRY(take_tensors(cx, graph, node, most, memory, made, tensors, out));
    return made ? QB_OK : node->op->eval(cx, node, tensors, out);
}

qb_status qb_graph_evaluate_node(qb_ctx *cx, qb_graph *graph, int32_t node, size_t most,
                                 qb_value_memory *memory) {
    char label[QB_LABEL_MAX];
    QB_TRY(qb_check_cancel(cx));
    QB_TRY_WRAP(cx, evaluate(cx, graph, node, most, memory), "%s",
                qb_node_text(graph, node, label, sizeof label));
    return QB_OK;
}

qb_status qb_graph_evaluate(qb_ctx *cx, qb_graph *graph, size_t most) {
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) QB_TRY(qb_graph_evaluate_node(cx, graph, i, most, NULL));
    return QB_OK;
}

/* ---- the split ------------------------------------------------------------------------------- */

void qb_graph_split_release(qb_graph_split *split) {
    qb_graph_free(split->head);
    qb_graph_free(split->tail);
    qb_free(split->output);
    *split = (qb_graph_split){0};
}

/* Kills nodes that lead to no output. */
static qb_status kill_idle(qb_ctx *cx, qb_graph *graph) {
    bool *needed = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *needed));
    for (int32_t i = 0; i < graph->n_outputs; i++) needed[graph->outputs[i]] = true;
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--) {
        const qb_node *node = &graph->nodes[i];
        bool used = false;
        if (!node->op) continue;
        for (int32_t k = 0; k < node->n_out; k++)
            used = used || (node->out[k] >= 0 && needed[node->out[k]]);
        if (!used) qb_graph_kill_node(graph, i);
        for (int32_t k = 0; used && k < node->n_in; k++)
            if (node->in[k] >= 0) needed[node->in[k]] = true;
    }
    qb_free(needed);
    return qb_graph_sweep(cx, graph);
}

/* Values whose size depends on values, and all that is made of them; `any`: there is one. */
static qb_status mark_late(qb_ctx *cx, const qb_graph *graph, bool **out, bool *any) {
    bool *late = *out = qb_alloc(cx, (size_t)graph->n_values, sizeof *late);
    *any = false;
    if (!late) return cx->code;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        bool is = false;
        for (int32_t k = 0; node->op && k < node->n_in; k++)
            is = is || (node->in[k] >= 0 && late[node->in[k]]);
        for (int32_t k = 0; node->op && k < node->n_out; k++)
            is = is || (node->out[k] >= 0 && !qb_shape_known(&graph->values[node->out[k]].shape));
        for (int32_t k = 0; is && k < node->n_out; k++)
            if (node->out[k] >= 0) late[node->out[k]] = true;
        *any = *any || is;
    }
    return QB_OK;
}

/* The head's output of this name; added where it is not there yet. */
static qb_status need_output(qb_ctx *cx, qb_graph *head, const char *name, int32_t *number) {
    const int32_t id = qb_graph_find_value(head, name);
    if (id < 0) return qb_fail(cx, QB_STATUS_INTERNAL, "value '%s' is gone", name);
    for (*number = 0; *number < head->n_outputs; ++*number)
        if (head->outputs[*number] == id) return QB_OK;
    return qb_graph_add_output(cx, head, id);
}

/* The nodes behind, out of a bound graph; what they read becomes an input. */
static qb_status cut_tail(qb_ctx *cx, const qb_graph *bound, const bool *late, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *tail = NULL;
    QB_TRY(qb_graph_clone_sharing(cx, bound, &tail));
    int32_t kept = 0;
    QB_FREED bool *is_input = qb_alloc(cx, (size_t)bound->n_values, sizeof *is_input);
    if (!is_input || tail->n_values != bound->n_values)
        QB_TRY(is_input ? qb_fail(cx, QB_STATUS_INTERNAL, "dead values in a bound graph")
                        : cx->code);
    int32_t *outputs = qb_arena_alloc(cx, tail->arena, (size_t)tail->n_outputs, sizeof *outputs);
    if (!outputs) return cx->code;
    for (int32_t i = 0; i < tail->n_outputs; i++)
        if (late[tail->outputs[i]]) outputs[kept++] = tail->outputs[i];
    qb_graph_set_outputs(tail, outputs, kept);
    tail->n_inputs = 0;
    for (int32_t i = 0; i < tail->n_nodes; i++) {
        const qb_node *node = &tail->nodes[i];
        bool is = false;
        for (int32_t k = 0; node->op && k < node->n_out; k++)
            is = is || (node->out[k] >= 0 && late[node->out[k]]);
        if (node->op && !is) qb_graph_kill_node(tail, i);
    }
    for (int32_t i = 0; i < tail->n_nodes; i++) {
        const qb_node *node = &tail->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_in; k++) {
            const int32_t id = node->in[k];
            if (id < 0 || late[id] || tail->values[id].data || is_input[id]) continue;
            is_input[id] = true;
            QB_TRY(qb_graph_add_input(cx, tail, id));
        }
    }
    QB_TRY(kill_idle(cx, tail));
    return qb_graph_clone(cx, tail, out); /* with constants of its own: those that are left */
}

static qb_status split_bound(qb_ctx *cx, const qb_graph *graph, const qb_graph *bound,
                             const bool *late, qb_graph_split *s) {
    QB_TRY_NEW(cx, s->output = qb_alloc(cx, (size_t)graph->n_outputs, sizeof *s->output));
    QB_TRY(cut_tail(cx, bound, late, &s->tail));
    QB_TRY(qb_graph_clone_sharing(cx, graph, &s->head));
    qb_graph_set_outputs(s->head, NULL, 0);
    int32_t n_tail = 0;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const char *name = graph->values[graph->outputs[i]].name;
        if (late[bound->outputs[i]])
            s->output[i] = -1 - n_tail++;
        else
            QB_TRY(need_output(cx, s->head, name, &s->output[i]));
    }
    for (int32_t i = 0; i < s->tail->n_inputs; i++) {
        const char *name = s->tail->values[s->tail->inputs[i]].name;
        int32_t number;
        const int32_t id = qb_graph_find_value(s->head, name);
        if (id >= 0 && qb_graph_is_input(s->head, id)) continue;
        QB_TRY(need_output(cx, s->head, name, &number));
    }
    return kill_idle(cx, s->head);
}

qb_status qb_graph_split_at_sizes(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                  qb_graph_split *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *bound = NULL;
    bool any = false;
    QB_FREED bool *late = NULL;
    qb_status status = QB_OK;
    *out = (qb_graph_split){0};
    if (qb_graph_bind_loosely_sharing(cx, graph, input_shapes, &bound) != QB_OK) {
        qb_ctx_clear(cx);
        return QB_OK;
    }
    QB_GO(mark_late(cx, bound, &late, &any));
    if (any) QB_GO(split_bound(cx, graph, bound, late, out));
out:
    if (status != QB_OK) qb_graph_split_release(out);
    return status;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Elements of the largest input. */
static int64_t most_elements(const qb_graph *graph, const qb_node *node) {
    int64_t most = 1;
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const int64_t n = qb_shape_count(&graph->values[node->in[i]].shape);
        if (n > most) most = n;
    }
    return most;
}

/* Open dimensions share `elements`: all in the first of them. */
static void close_shape(qb_shape *shape, int64_t elements) {
    int64_t known = 1;
    if (shape->rank < 0) *shape = qb_shape_of(1, -1);
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dim[d] > 0) known *= shape->dim[d];
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dim[d] >= 0) continue;
        shape->dim[d] = (elements + known - 1) / known;
        known *= shape->dim[d] > 0 ? shape->dim[d] : 1;
    }
}

/* Shapes from the largest inputs, and what is computed from such shapes. Where the largest do not
 * fit together, the node keeps what is known without them. */
static qb_status infer_largest(qb_ctx *cx, qb_graph *tail, int32_t index) {
    const qb_node *node = &tail->nodes[index];
    QB_FREED qb_value *before = QB_NEW(cx, qb_alloc(cx, (size_t)node->n_out, sizeof *before));
    for (int32_t k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0) before[k] = tail->values[node->out[k]];
    if (qb_infer_node(cx, tail, index) != QB_OK) {
        qb_ctx_clear(cx);
        for (int32_t k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0) tail->values[node->out[k]] = before[k];
    }
    return QB_OK;
}

/* Does nothing bound what the node's results are made of? */
static bool is_open(const qb_graph *graph, const qb_node *node) {
    const bool all = qb_op_has(node->op, QB_TRAIT_ELEMENTWISE);
    for (int32_t i = 0; i < (all ? node->n_in : 1); i++)
        if (node->in[i] >= 0 && !qb_shape_known(&graph->values[node->in[i]].shape)) return true;
    return false;
}

static qb_status bound_node(qb_ctx *cx, qb_graph *tail, int32_t index) {
    const qb_node *node = &tail->nodes[index];
    const qb_infer_args args = {.graph = tail, .node = index};
    QB_TRY(infer_largest(cx, tail, index));
    if (is_open(tail, node)) return QB_OK;
    if (node->op->bound) return node->op->bound(cx, &args);
    for (int32_t k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0)
            close_shape(&tail->values[node->out[k]].shape, most_elements(tail, node));
    return QB_OK;
}

qb_status qb_graph_bound(qb_ctx *cx, qb_graph *tail, const qb_shape *most) {
    for (int32_t i = 0; i < tail->n_nodes; i++) {
        const qb_node *node = &tail->nodes[i];
        if (!node->op) continue;
        QB_TRY(bound_node(cx, tail, i));
        for (int32_t k = 0; most && k < node->n_out; k++)
            if (node->out[k] >= 0 && most[node->out[k]].rank >= 0)
                tail->values[node->out[k]].shape = most[node->out[k]];
    }
    return QB_OK;
}

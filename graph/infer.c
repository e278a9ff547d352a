/* Shape and type inference over a whole graph. */
#include <stdio.h>

#include "base/strbuf.h"
#include "graph_internal.h"

qb_status qb_disguise_begin(qb_ctx *cx, qb_graph *graph, qb_disguise *out) {
    const void **data = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *data));
    for (int32_t i = 0; i < graph->n_values; i++) {
        qb_value *value = &graph->values[i];
        if (value->q.n <= 0) continue;
        value->dtype = QB_DTYPE_F32;
        data[i] = QB_MOVE(value->data);
    }
    *out = (qb_disguise){data, graph->n_values};
    return QB_OK;
}

void qb_disguise_end(qb_graph *graph, qb_disguise *disguise) {
    for (int32_t i = 0; i < disguise->n_values; i++) {
        qb_value *value = &graph->values[i];
        if (value->q.n <= 0) continue;
        value->dtype = value->q.dtype;
        value->data = disguise->data[i];
    }
    qb_free(disguise->data);
    *disguise = (qb_disguise){0};
}

/* Puts the inputs' types and shapes behind the message: they are what the operator objects to. */
static qb_status wrap_with_inputs(qb_ctx *cx, const qb_graph *graph, int32_t node) {
    const qb_node *it = &graph->nodes[node];
    char label[QB_LABEL_MAX], shape[128], why[QB_MESSAGE_MAX];
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    for (int32_t i = 0; i < it->n_in && i < 8; i++) {
        if (i) qb_strbuf_add(&text, ", ");
        if (it->in[i] < 0) {
            qb_strbuf_add(&text, "none");
            continue;
        }
        const qb_value *value = &graph->values[it->in[i]];
        qb_strbuf_addf(&text, "%s %s", qb_dtype_text(value->dtype),
                       qb_shape_text(&value->shape, shape, sizeof shape));
    }
    if (it->n_in > 8) qb_strbuf_addf(&text, ", %d more", (int)it->n_in - 8);
    snprintf(why, sizeof why, "%s", cx->message);
    return qb_fail(cx, cx->code, "%s: %s (inputs: %s)",
                   qb_node_text(graph, node, label, sizeof label), why,
                   text.size && !text.failed ? text.data : "none");
}

/* An operator must leave each output with a type and a sane shape. */
static qb_status check_outputs(qb_ctx *cx, const qb_graph *graph, const qb_node *node) {
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        const qb_value *value = &graph->values[node->out[i]];
        if (value->dtype == QB_DTYPE_NONE)
            return qb_fail(cx, QB_STATUS_INTERNAL, "output %d: no type inferred", (int)i);
        if (value->q.n > 0 && value->dtype != QB_DTYPE_F32)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "output %d '%s': quantized, expected type f32, got %s", (int)i,
                           value->name, qb_dtype_text(value->dtype));
        for (int32_t k = 0; k < value->shape.rank; k++)
            if (value->shape.dim[k] < -1 - (int64_t)graph->n_symbols)
                return qb_fail(cx, QB_STATUS_INTERNAL, "output %d: dimension %d is %lld", (int)i,
                               (int)k, (long long)value->shape.dim[k]);
        qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
        if (qb_shape_known(&value->shape) && qb_desc_bytes(&desc) > PTRDIFF_MAX)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output %d: too large for memory", (int)i);
    }
    return QB_OK;
}

qb_status qb_infer_node(qb_ctx *cx, qb_graph *graph, int32_t node) {
    qb_node it = graph->nodes[node];
    for (int32_t i = 0; i < it.n_out; i++) {
        if (it.out[i] < 0) continue;
        qb_value *value = &graph->values[it.out[i]];
        value->dtype = QB_DTYPE_NONE;
        value->shape = (qb_shape){.rank = -1};
    }
    qb_infer_args args = {.graph = graph, .node = node};
    qb_status status = it.op->infer(cx, &args);
    if (status == QB_OK) status = check_outputs(cx, graph, &it);
    if (status == QB_OK) status = qb_sizes_infer(cx, graph, node);
    return status == QB_OK ? QB_OK : wrap_with_inputs(cx, graph, node);
}

/* Where inference cannot even tell an output's rank, what was said before (by the file) is better
 * than nothing: ONNX wants some shape there. But sizes must not outlive what they were made from.
 */
static void keep_ranks(qb_graph *graph, const qb_shape *before) {
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        qb_shape *shape = &graph->values[graph->outputs[i]].shape;
        if (shape->rank >= 0 || before[i].rank < 0) continue;
        *shape = before[i];
        for (int32_t d = 0; d < shape->rank && qb_shape_known(&before[i]); d++) shape->dim[d] = -1;
    }
}

static qb_status infer_nodes(qb_ctx *cx, qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) QB_TRY(qb_infer_node(cx, graph, i));
    return QB_OK;
}

qb_status qb_graph_infer(qb_ctx *cx, qb_graph *graph) {
    qb_disguise disguise = {0};
    QB_FREED qb_shape *before = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_outputs, sizeof *before));
    for (int32_t i = 0; i < graph->n_outputs; i++)
        before[i] = graph->values[graph->outputs[i]].shape;
    qb_status status = qb_disguise_begin(cx, graph, &disguise);
    if (status == QB_OK) {
        status = infer_nodes(cx, graph);
        qb_disguise_end(graph, &disguise);
    }
    if (status == QB_OK) keep_ranks(graph, before);
    return status;
}

/* What must hold in every graph. A failure here is our own bug, never the user's. */
#include <math.h>

#include "graph_internal.h"

static qb_status bug(qb_ctx *cx, const char *what, const char *name) {
    return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: '%s'", what, name);
}

static qb_status check_ids(qb_ctx *cx, const qb_graph *graph, const int32_t *ids, int32_t n,
                           bool may_be_absent, const char *where) {
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == -1 && may_be_absent) continue;
        if (ids[i] < 0 || ids[i] >= graph->n_values)
            return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: entry %d is value %d of %d", where,
                           (int)i, (int)ids[i], (int)graph->n_values);
    }
    return QB_OK;
}

static void integer_range(qb_dtype dtype, int64_t *low, int64_t *high) {
    *low = dtype == QB_DTYPE_U8 ? 0 : dtype == QB_DTYPE_S8 ? INT8_MIN : INT32_MIN;
    *high = dtype == QB_DTYPE_U8 ? UINT8_MAX : dtype == QB_DTYPE_S8 ? INT8_MAX : INT32_MAX;
}

static qb_status check_qparams(qb_ctx *cx, const qb_value *value) {
    const qb_qparams *q = &value->q;
    if (q->n < 0) return bug(cx, "a negative number of scales", value->name);
    if (q->n == 0) return QB_OK;
    if (q->dtype != QB_DTYPE_U8 && q->dtype != QB_DTYPE_S8 && q->dtype != QB_DTYPE_S32)
        return bug(cx, "quantized to a type other than u8, s8, s32", value->name);
    if (q->dtype != value->dtype)
        return bug(cx, "quantized, but the type in memory is another", value->name);
    if (q->axis == -1 ? q->n != 1 : q->axis < 0 || q->axis >= value->shape.rank)
        return bug(cx, "the quantization axis does not fit", value->name);
    if (q->axis >= 0 && value->shape.dim[q->axis] >= 0 && value->shape.dim[q->axis] != q->n)
        return bug(cx, "the number of scales is not that of the channels", value->name);
    int64_t low, high;
    integer_range(q->dtype, &low, &high);
    for (int32_t i = 0; i < q->n; i++) {
        if (!isfinite(q->scale[i]) || q->scale[i] <= 0.0f)
            return bug(cx, "a scale is not positive and finite", value->name);
        if (q->zero && (q->zero[i] < low || q->zero[i] > high))
            return bug(cx, "a zero point is outside the type", value->name);
    }
    return QB_OK;
}

static qb_status check_value(qb_ctx *cx, const qb_graph *graph, int32_t id) {
    const qb_value *value = &graph->values[id];
    if (!value->name || !*value->name) return bug(cx, "a value without a name", "");
    if (qb_graph_find_value(graph, value->name) != id)
        return bug(cx, "two values of this name, or renamed behind the index", value->name);
    if (value->shape.rank < -1 || value->shape.rank > QB_MAX_RANK)
        return bug(cx, "a rank out of range", value->name);
    for (int32_t i = 0; i < value->shape.rank; i++)
        if (value->shape.dim[i] < -1 - (int64_t)graph->n_symbols)
            return bug(cx, "a symbol that the graph does not have", value->name);
    if (value->data) {
        qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
        if (qb_desc_bytes(&desc) != value->bytes)
            return bug(cx, "a constant whose size is not that of its shape", value->name);
        if ((uintptr_t)value->data % 64)
            return bug(cx, "a constant that is not aligned to 64 bytes", value->name);
    }
    return check_qparams(cx, value);
}

static qb_status check_arity(qb_ctx *cx, const qb_graph *graph, int32_t id) {
    const qb_node *node = &graph->nodes[id];
    const qb_op *op = node->op;
    char label[QB_LABEL_MAX];
    qb_node_text(graph, id, label, sizeof label);
    if (node->n_in < op->min_in || node->n_in > op->max_in)
        return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: %d inputs, expected %d to %d", label,
                       (int)node->n_in, (int)op->min_in, (int)op->max_in);
    if (node->n_out < op->min_out || node->n_out > op->max_out)
        return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: %d outputs, expected %d to %d", label,
                       (int)node->n_out, (int)op->min_out, (int)op->max_out);
    if (op->attr_size && !node->attrs)
        return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: no attributes", label);
    for (int32_t i = 0; i < node->n_in && i < op->min_in; i++)
        if (node->in[i] < 0)
            return qb_fail(cx, QB_STATUS_INTERNAL, "graph: %s: input %d left out", label, (int)i);
    QB_TRY(check_ids(cx, graph, node->in, node->n_in, true, label));
    return check_ids(cx, graph, node->out, node->n_out, true, label);
}

/* Each value gets defined once, before it is used. */
static qb_status check_order(qb_ctx *cx, const qb_graph *graph, bool *defined) {
    for (int32_t i = 0; i < graph->n_values; i++) defined[i] = graph->values[i].data != NULL;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        if (defined[graph->inputs[i]])
            return bug(cx, "an input is a constant or is listed twice",
                       graph->values[graph->inputs[i]].name);
        defined[graph->inputs[i]] = true;
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!node->op) continue;
        QB_TRY(check_arity(cx, graph, i));
        for (int32_t k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0 && !defined[node->in[k]])
                return bug(cx, "used before it is made", graph->values[node->in[k]].name);
        for (int32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0) continue;
            if (defined[node->out[k]])
                return bug(cx, "made twice, or a constant or input that a node makes",
                           graph->values[node->out[k]].name);
            defined[node->out[k]] = true;
        }
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        int32_t id = graph->outputs[i];
        const qb_value *value = &graph->values[id];
        if (!defined[id]) return bug(cx, "an output that nothing makes", value->name);
        if (!value->is_output) return bug(cx, "an output that is not marked as one", value->name);
        if (value->q.n > 0 && qb_graph_is_input(graph, id))
            return bug(cx, "quantized, and an input that is an output as well", value->name);
    }
    return QB_OK;
}

qb_status qb_graph_verify(qb_ctx *cx, const qb_graph *graph) {
    QB_TRY(check_ids(cx, graph, graph->inputs, graph->n_inputs, false, "inputs"));
    QB_TRY(check_ids(cx, graph, graph->outputs, graph->n_outputs, false, "outputs"));
    for (int32_t i = 0; i < graph->n_values; i++) QB_TRY(check_value(cx, graph, i));
    QB_FREED bool *defined = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_values, sizeof *defined));
    return check_order(cx, graph, defined);
}

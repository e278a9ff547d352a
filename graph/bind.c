/* A graph for concrete input shapes. */
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"

/* The value of each symbol so far, -1 while open. */
static qb_status bind_dim(qb_ctx *cx, const qb_graph *graph, int64_t *symbol, const char *input,
                          int32_t axis, int64_t declared, int64_t given) {
    if (given < 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "input '%s': dimension %d: expected a size of at least 0, got %lld", input,
                       (int)axis, (long long)given);
    if (declared >= 0 && declared != given)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "input '%s': dimension %d: the model has %lld, got %lld", input, (int)axis,
                       (long long)declared, (long long)given);
    if (declared >= -1) return QB_OK;
    int64_t *known = &symbol[-2 - declared];
    if (*known >= 0 && *known != given)
        return qb_fail(
            cx, QB_STATUS_INVALID, "input '%s': dimension %d: '%s' is %lld elsewhere, got %lld",
            input, (int)axis, graph->symbols[-2 - declared], (long long)*known, (long long)given);
    *known = given;
    return QB_OK;
}

static qb_status bind_inputs(qb_ctx *cx, qb_graph *graph, const qb_shape *shapes, int64_t *symbol) {
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        qb_value *value = &graph->values[graph->inputs[i]];
        const qb_shape *declared = &value->shape, *given = &shapes[i];
        char text[2][128];
        if (given->rank < 0 || (declared->rank >= 0 && declared->rank != given->rank))
            return qb_fail(cx, QB_STATUS_INVALID, "input '%s': the model has shape %s, got %s",
                           value->name, qb_shape_text(declared, text[0], sizeof text[0]),
                           qb_shape_text(given, text[1], sizeof text[1]));
        for (int32_t k = 0; k < given->rank; k++)
            QB_TRY(bind_dim(cx, graph, symbol, value->name, k,
                            declared->rank < 0 ? -1 : declared->dim[k], given->dim[k]));
        const qb_desc desc = {.dtype = value->dtype, .shape = *given};
        if (qb_desc_bytes(&desc) > PTRDIFF_MAX)
            return qb_fail(cx, QB_STATUS_INVALID, "input '%s': shape %s is too large for memory",
                           value->name, qb_shape_text(given, text[0], sizeof text[0]));
        value->shape = *given;
    }
    return QB_OK;
}

/* The computed inputs of a node, as --outputs takes them. */
static void list_inputs(const qb_graph *graph, const qb_node *node, char *text, size_t n) {
    size_t at = 0;
    *text = '\0';
    for (int32_t i = 0; i < node->n_in && at < n; i++)
        if (node->in[i] >= 0 && !graph->values[node->in[i]].data)
            at += (size_t)snprintf(text + at, n - at, "%s%.100s", at ? "," : "",
                                   graph->values[node->in[i]].name);
}

/* After folding, every value that is still there must have its shape. */
static qb_status check_known(qb_ctx *cx, const qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0) continue;
            const qb_value *value = &graph->values[node->out[k]];
            if (qb_shape_known(&value->shape)) continue;
            char label[QB_LABEL_MAX], shape[128], inputs[256];
            list_inputs(graph, node, inputs, sizeof inputs);
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "%s: output '%s': shape %s depends on the input's values: sizes must be "
                           "known before a run; 'qbench optimize --outputs %s' ends the model "
                           "before this node",
                           qb_node_text(graph, i, label, sizeof label), value->name,
                           qb_shape_text(&value->shape, shape, sizeof shape), inputs);
        }
    }
    return QB_OK;
}

static qb_status bind(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes, bool share,
                      qb_graph **out) {
    qb_status status = QB_OK;
    qb_graph *copy = NULL;
    int32_t n_folded;
    int64_t *symbol = qb_alloc(cx, (size_t)graph->n_symbols, sizeof *symbol);
    if (!symbol) return cx->code;
    for (int32_t i = 0; i < graph->n_symbols; i++) symbol[i] = -1;
    QB_GO(qb_graph_copy(cx, graph, share, &copy));
    QB_GO(bind_inputs(cx, copy, input_shapes, symbol));
    QB_GO(qb_graph_fold(cx, copy, &n_folded));
    QB_GO(qb_graph_sweep(cx, copy));
    QB_GO(check_known(cx, copy));
    copy->n_symbols = 0;
    *out = copy;
    copy = NULL;
out:
    qb_graph_free(copy);
    qb_free(symbol);
    return status;
}

qb_status qb_graph_bind(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                        qb_graph **out) {
    return bind(cx, graph, input_shapes, false, out);
}

qb_status qb_graph_bind_sharing(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                qb_graph **out) {
    return bind(cx, graph, input_shapes, true, out);
}

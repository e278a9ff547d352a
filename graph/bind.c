/* A graph for concrete input shapes. */
#include <string.h>

#include "base/strbuf.h"
#include "graph_internal.h"
#include "kernels/ref.h"

#define LIST_MAX 2048 /* what a message has room for */

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

/* " NAME,NAME": the computed inputs of a node, as --outputs takes them; nothing when they do not
 * fit into a message: half a list would be a wrong one. */
static void list_inputs(const qb_graph *graph, const qb_node *node, qb_strbuf *text) {
    const char *before = " ";
    for (int32_t i = 0; i < node->n_in && text->size <= LIST_MAX; i++) {
        if (node->in[i] < 0 || graph->values[node->in[i]].data) continue;
        qb_strbuf_addf(text, "%s%s", before, graph->values[node->in[i]].name);
        before = ",";
    }
    if (text->size > LIST_MAX || text->failed) qb_strbuf_release(text);
}

static qb_status report_unknown(qb_ctx *cx, const qb_graph *graph, int32_t index,
                                const qb_value *value) {
    char label[QB_LABEL_MAX], shape[128];
    QB_RELEASED(qb_strbuf_release) qb_strbuf inputs = {0};
    list_inputs(graph, &graph->nodes[index], &inputs);
    return qb_fail(
        cx, QB_STATUS_UNSUPPORTED,
        "%s: output '%.120s': shape %s depends on the input's values: sizes must be known "
        "before a run; 'qbench optimize --outputs%s' %s the model before this node",
        qb_node_text(graph, index, label, sizeof label), value->name,
        qb_shape_text(&value->shape, shape, sizeof shape), inputs.data ? inputs.data : "",
        inputs.data ? "ends" : "with its inputs ends");
}

/* After folding, every value that is still there must have its shape. */
static qb_status check_known(qb_ctx *cx, const qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0) continue;
            const qb_value *value = &graph->values[node->out[k]];
            if (qb_shape_known(&value->shape)) continue;
            return report_unknown(cx, graph, i, value);
        }
    }
    return QB_OK;
}

static qb_status bind(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes, bool share,
                      bool strict, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    int32_t n_folded;
    QB_FREED int64_t *symbol = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_symbols, sizeof *symbol));
    for (int32_t i = 0; i < graph->n_symbols; i++) symbol[i] = -1;
    QB_TRY(qb_graph_copy(cx, graph, share, &copy));
    QB_TRY(bind_inputs(cx, copy, input_shapes, symbol));
    QB_TRY(qb_graph_fold(cx, copy, &n_folded));
    QB_TRY(qb_graph_sweep(cx, copy));
    if (strict) QB_TRY(check_known(cx, copy));
    copy->n_symbols = 0;
    *out = QB_MOVE(copy);
    return QB_OK;
}

qb_status qb_graph_bind(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                        qb_graph **out) {
    return bind(cx, graph, input_shapes, false, true, out);
}

qb_status qb_graph_bind_sharing(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                qb_graph **out) {
    return bind(cx, graph, input_shapes, true, true, out);
}

qb_status qb_graph_bind_loosely(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                qb_graph **out) {
    return bind(cx, graph, input_shapes, false, false, out);
}

qb_status qb_graph_bind_loosely_sharing(qb_ctx *cx, const qb_graph *graph,
                                        const qb_shape *input_shapes, qb_graph **out) {
    return bind(cx, graph, input_shapes, true, false, out);
}

/* ---- inputs that are always the same ---- */

qb_status qb_graph_fix_input(qb_ctx *cx, qb_graph *graph, int32_t i, const double *number) {
    const int32_t id = graph->inputs[i];
    const qb_value *input = &graph->values[id];
    qb_shape shape = input->shape;
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = 1;
    const int64_t n = qb_shape_count(&shape);
    const qb_desc desc = qb_tensor_of(input->dtype, shape, NULL).desc;
    QB_FREED void *data = QB_NEW(cx, qb_alloc_aligned(cx, 1, qb_desc_bytes(&desc)));
    for (int64_t k = 0; k < n; k++) qb_number_put(input->dtype, data, k, number[k]);
    const int32_t fixed = qb_graph_add_constant(cx, graph, input->name, desc.dtype, &shape, data);
    if (fixed < 0) return cx->code;
    qb_graph_replace_uses(graph, id, fixed);
    graph->n_inputs--;
    for (; i < graph->n_inputs; i++) graph->inputs[i] = graph->inputs[i + 1];
    return qb_graph_sweep(cx, graph);
}

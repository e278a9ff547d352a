/* The value before a final Softmax or ArgMax: what SQNR is measured on. */

#include "eval/eval.h"
#include "graph/op.h"

/* The node that makes a value; -1 for inputs and constants. */
static int32_t producer_of(const qb_graph *graph, int32_t value) {
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t o = 0; o < graph->nodes[n].n_out; o++)
            if (graph->nodes[n].out[o] == value) return n;
    return -1;
}

/* The output to score on where nothing ends it. */
static int32_t first_float(const qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->values[graph->outputs[i]].dtype == QB_DTYPE_F32) return i;
    return 0;
}

/* Input of the first of the operators that end the scored output by making classes of scores, as
 * ArgMax behind Softmax does, seen through views and casts; -1 when none. */
static int32_t final_input(const qb_graph *graph) {
    int32_t value = graph->n_outputs > 0 ? graph->outputs[first_float(graph)] : -1, found = -1;
    while (value >= 0) {
        const int32_t n = producer_of(graph, value);
        if (n < 0) return found;
        const qb_node *node = &graph->nodes[n];
        if (qb_op_has(node->op, QB_TRAIT_CLASSES))
            found = node->in[0];
        else if (!qb_node_is_view(node) && !qb_op_has(node->op, QB_TRAIT_CONVERT))
            return found;
        value = node->in[0];
    }
    return found;
}

qb_status qb_expose_output(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits) {
    *logits = first_float(graph);
    return qb_graph_clone(cx, graph, out);
}

qb_status qb_expose_logits(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits) {
    const int32_t value = final_input(graph);
    *logits = first_float(graph);
    if (value < 0 || qb_graph_is_output(graph, value)) {
        for (int32_t i = 0; value >= 0 && i < graph->n_outputs; i++)
            if (graph->outputs[i] == value) *logits = i;
        return qb_graph_clone(cx, graph, out);
    }
    const char *name = graph->values[value].name; /* lives in `graph` */
    qb_graph *copy;
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    *logits = copy->n_outputs;
    const qb_status status = qb_graph_add_output(cx, copy, qb_graph_find_value(copy, name));
    if (status == QB_OK)
        *out = copy;
    else
        qb_graph_free(copy);
    return status;
}

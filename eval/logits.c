/* The value before a final Softmax or ArgMax: what SQNR is measured on. */

#include "eval/eval.h"
#include "quant/recover/judged.h"

/* The output to score on where nothing ends it. */
static int32_t first_float(const qb_graph *graph) {
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->values[graph->outputs[i]].dtype == QB_DTYPE_F32) return i;
    return 0;
}

qb_status qb_expose_output(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits) {
    *logits = first_float(graph);
    return qb_graph_clone(cx, graph, out);
}

qb_status qb_expose_logits(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits) {
    qb_uses uses;
    *logits = first_float(graph);
    if (graph->n_outputs < 1) return qb_graph_clone(cx, graph, out);
    QB_TRY(qb_uses_build(cx, graph, &uses));
    const int32_t value = qb_before_classes(graph, &uses, graph->outputs[*logits]);
    qb_uses_release(&uses);
    if (qb_graph_is_output(graph, value)) {
        for (int32_t i = 0; i < graph->n_outputs; i++)
            if (graph->outputs[i] == value) *logits = i;
        return qb_graph_clone(cx, graph, out);
    }
    const char *name = graph->values[value].name; /* lives in `graph` */
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    *logits = copy->n_outputs;
    QB_TRY(qb_graph_add_output(cx, copy, qb_graph_find_value(copy, name)));
    *out = QB_MOVE(copy);
    return QB_OK;
}

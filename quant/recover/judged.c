#include "quant/recover/judged.h"

#include <string.h>

#include "graph/evaluate.h"
#include "graph/op.h"

#define USUAL_SIDE 320 /* of an open dimension, where the sizes of a tail are looked for */

int32_t qb_before_classes(const qb_graph *graph, const qb_uses *uses, int32_t value) {
    int32_t found = value;
    for (int32_t at = value; uses->producer[at] >= 0;) {
        const qb_node *node = &graph->nodes[uses->producer[at]];
        const bool classes = qb_op_has(node->op, QB_TRAIT_CLASSES);
        if (!classes && !qb_node_is_view(node) && !qb_op_has(node->op, QB_TRAIT_CONVERT)) break;
        at = node->in[0];
        if (classes) found = at;
    }
    return found;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Along which axis the node joins its inputs, by shapes; -1: none, or not to be told. */
static int32_t joined_axis(const qb_graph *graph, const qb_node *node) {
    const qb_shape *out = &graph->values[node->out[0]].shape;
    const qb_shape *first = &graph->values[node->in[0]].shape;
    if (node->op->kernel.kind != QB_KIND_CONCAT || first->rank != out->rank) return -1;
    for (int32_t d = 0; d < out->rank; d++)
        if (out->dim[d] != first->dim[d]) return d;
    return -1;
}

/* The only axis of the shape that is so long; -1. */
static int32_t axis_of_length(const qb_shape *shape, int64_t length) {
    int32_t found = -1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dim[d] != length) continue;
        if (found >= 0) return -1;
        found = d;
    }
    return found;
}

/* Parts of what the node joins, if the value has an axis as long. */
static bool take_parts(const qb_graph *graph, const qb_node *node, const qb_shape *shape,
                       qb_judged_value *out) {
    const int32_t joined = joined_axis(graph, node);
    int64_t end = 0;
    if (joined < 0 || node->n_in > QB_JUDGED_PARTS) return false;
    const int64_t length = graph->values[node->out[0]].shape.dim[joined];
    const int32_t axis = length > 0 ? axis_of_length(shape, length) : -1;
    if (axis < 0) return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        const qb_shape *in = &graph->values[node->in[k]].shape;
        if (in->rank <= joined || in->dim[joined] < 0) return false;
        out->end[k] = end += in->dim[joined];
    }
    out->axis = axis;
    out->n_parts = node->n_in;
    return true;
}

/* Back from the value through what only moves elements, to the last join on the way whose length an
 * axis of the value has: behind a join of strides that is the one of boxes and classes. */
static void find_parts(const qb_graph *graph, const qb_uses *uses, int32_t value,
                       qb_judged_value *out) {
    for (int32_t at = value; uses->producer[at] >= 0;) {
        const qb_node *node = &graph->nodes[uses->producer[at]];
        if (joined_axis(graph, node) >= 0)
            (void)take_parts(graph, node, &graph->values[value].shape, out);
        else if (!qb_node_is_view(node) && !qb_op_has(node->op, QB_TRAIT_REORDER) &&
                 !qb_op_has(node->op, QB_TRAIT_CONVERT))
            return;
        at = node->in[0];
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void add(const qb_graph *graph, const qb_uses *uses, int32_t value, qb_judged *out) {
    qb_judged_value *to = &out->value[out->n];
    value = qb_before_classes(graph, uses, value);
    if (out->n == QB_JUDGED_MOST || graph->values[value].dtype != QB_DTYPE_F32) return;
    for (int32_t i = 0; i < out->n; i++)
        if (strcmp(out->value[i].name, graph->values[value].name) == 0) return;
    *to = (qb_judged_value){.name = graph->values[value].name, .n_parts = 1};
    find_parts(graph, uses, value, to);
    out->n++;
    out->n_parts += to->n_parts;
}

/* The head of the graph, if it has a tail of nodes whose sizes come with the data. */
static qb_status split(qb_ctx *cx, const qb_graph *graph, qb_graph_split *out) {
    bool known = true;
    *out = (qb_graph_split){0};
    for (int32_t i = 0; i < graph->n_outputs; i++)
        known = known && qb_shape_known(&graph->values[graph->outputs[i]].shape);
    if (known) return QB_OK;
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, (size_t)graph->n_inputs, sizeof *shapes));
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        shapes[i] = graph->values[graph->inputs[i]].shape;
        for (int32_t d = 0; d < shapes[i].rank; d++)
            if (shapes[i].dim[d] < 0) shapes[i].dim[d] = d == 0 ? 1 : USUAL_SIDE;
    }
    return qb_graph_split_at_sizes(cx, graph, shapes, out);
}

qb_status qb_judged_find(qb_ctx *cx, const qb_graph *graph, qb_judged *out) {
    QB_RELEASED(qb_graph_split_release) qb_graph_split parts = {0};
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    *out = (qb_judged){0};
    QB_TRY(qb_uses_build(cx, graph, &uses));
    QB_TRY(split(cx, graph, &parts));
    const qb_graph *from = parts.tail ? parts.head : graph;
    for (int32_t i = 0; i < from->n_outputs; i++) {
        const int32_t value = qb_graph_find_value(graph, from->values[from->outputs[i]].name);
        if (value >= 0) add(graph, &uses, value, out);
    }
    if (out->n == 0 && graph->n_outputs > 0) { /* no floats */
        out->value[0] =
            (qb_judged_value){.name = graph->values[graph->outputs[0]].name, .n_parts = 1};
        out->n = out->n_parts = 1;
    }
    return QB_OK;
}

qb_status qb_judged_expose(qb_ctx *cx, const qb_judged *judged, const qb_graph *graph,
                           qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    qb_graph_set_outputs(copy, NULL, 0);
    for (int32_t i = 0; i < judged->n; i++) {
        const int32_t own = qb_graph_find_value(copy, judged->value[i].name);
        if (own < 0) return qb_fail(cx, QB_STATUS_INTERNAL, "an output is gone");
        QB_TRY(qb_graph_add_output(cx, copy, own));
    }
    *out = QB_MOVE(copy);
    return QB_OK;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void qb_judged_compare(const qb_judged_value *value, const qb_shape *shape, const float *wanted,
                       const float *got, double *error, double *signal) {
    const int64_t count = qb_shape_count(shape);
    const int64_t inner = qb_shape_span(shape, value->axis + 1, shape->rank);
    const int64_t length = value->n_parts > 1 ? shape->dim[value->axis] : 1;
    for (int32_t p = 0; p < value->n_parts; p++) error[p] = signal[p] = 0;
    for (int64_t at = 0, p = 0; at < count; at += inner) {
        const int64_t channel = at / inner % length;
        if (channel == 0) p = 0;
        while (p + 1 < value->n_parts && channel >= value->end[p]) p++;
        for (int64_t k = at; k < at + inner && k < count; k++) {
            const double d = (double)got[k] - (double)wanted[k];
            error[p] += d * d;
            signal[p] += (double)wanted[k] * (double)wanted[k];
        }
    }
}

void qb_judged_sum(const qb_judged *judged, int64_t samples, const double *errors,
                   const double *signals, double *error, double *part) {
    const int64_t n = judged->n_parts;
    for (int64_t i = 0; i < samples; i++) error[i] = 0;
    for (int64_t p = 0; p < n; p++) {
        double signal = 0;
        for (int64_t i = 0; i < samples; i++) signal += signals[i * n + p];
        for (int64_t i = 0; i < samples; i++) {
            const double share = signal > 0 ? errors[i * n + p] / signal : 0;
            error[i] += share;
            if (part) part[p * samples + i] = share;
        }
    }
}

/* Runs a graph node by node with the operators' own reference evaluation: what the optimizer,
 * fusion and the engines are compared with. */
#ifndef QB_EVAL_H
#define QB_EVAL_H

#include <string.h>

#include "graph/op.h"

#define QB_EVAL_TENSORS 256 /* inputs or outputs of one node or graph */

/* Values of a run by value id of `graph`, a copy of the graph for the inputs' shapes. */
typedef struct qb_eval {
    qb_graph *graph;
    void **data; /* [n_values]; NULL for constants and for what no node wrote */
} qb_eval;

static inline void qb_eval_release(qb_eval *run) {
    for (int32_t i = 0; run->data && i < run->graph->n_values; i++) qb_free(run->data[i]);
    qb_free(run->data);
    qb_graph_free(run->graph);
    *run = (qb_eval){0};
}

static inline qb_tensor qb_eval_value(const qb_eval *run, int32_t id) {
    const qb_value *v = &run->graph->values[id];
    void *data = v->data ? (void *)(uintptr_t)v->data : run->data[id];
    return qb_tensor_of(v->dtype, v->shape, data);
}

static inline qb_status qb_eval_place(qb_ctx *cx, qb_eval *run, int32_t id, const void *from) {
    qb_tensor t = qb_eval_value(run, id);
    size_t bytes = qb_desc_bytes(&t.desc);
    run->data[id] = qb_alloc_aligned(cx, bytes, 1);
    if (!run->data[id]) return cx->code;
    if (from && bytes) memcpy(run->data[id], from, bytes);
    return QB_OK;
}

static inline qb_status qb_eval_node(qb_ctx *cx, qb_eval *run, int32_t index) {
    const qb_node *node = &run->graph->nodes[index];
    qb_tensor in[QB_EVAL_TENSORS], out[QB_EVAL_TENSORS];
    if (node->n_in > QB_EVAL_TENSORS || node->n_out > QB_EVAL_TENSORS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "node with %d inputs", (int)node->n_in);
    for (int32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] < 0 ? (qb_tensor){0} : qb_eval_value(run, node->in[i]);
    for (int32_t i = 0; i < node->n_out; i++) {
        out[i] = (qb_tensor){0};
        if (node->out[i] < 0) continue;
        QB_TRY(qb_eval_place(cx, run, node->out[i], NULL));
        out[i] = qb_eval_value(run, node->out[i]);
    }
    char label[160];
    QB_TRY_WRAP(cx, node->op->eval(cx, node, in, out), "%s",
                qb_node_text(run->graph, index, label, sizeof label));
    return QB_OK;
}

/* Binds the graph to the shapes of `inputs` and evaluates it; release the result in any case. */
static inline qb_status qb_eval_run(qb_ctx *cx, const qb_graph *graph, const qb_tensor *inputs,
                                    qb_eval *run) {
    qb_shape shapes[QB_EVAL_TENSORS];
    *run = (qb_eval){0};
    for (int32_t i = 0; i < graph->n_inputs; i++) shapes[i] = inputs[i].desc.shape;
    QB_TRY(qb_graph_bind(cx, graph, shapes, &run->graph));
    run->data = qb_alloc(cx, (size_t)run->graph->n_values, sizeof *run->data);
    if (!run->data) return cx->code;
    for (int32_t i = 0; i < run->graph->n_inputs; i++)
        QB_TRY(qb_eval_place(cx, run, run->graph->inputs[i], inputs[i].data));
    for (int32_t i = 0; i < run->graph->n_nodes; i++)
        if (run->graph->nodes[i].op) QB_TRY(qb_eval_node(cx, run, i));
    return QB_OK;
}

static inline qb_tensor qb_eval_output(const qb_eval *run, int32_t i) {
    return qb_eval_value(run, run->graph->outputs[i]);
}

/* Largest |a - b| over all elements, divided by the largest |b| (or 1 when that is smaller);
 * INFINITY when shapes, types or the places of NaNs differ. */
static inline double qb_eval_error(const qb_tensor *a, const qb_tensor *b) {
    if (a->desc.dtype != b->desc.dtype || !qb_shape_equal(&a->desc.shape, &b->desc.shape))
        return 1.0 / 0.0;
    int64_t n = qb_shape_count(&a->desc.shape);
    if (a->desc.dtype != QB_DTYPE_F32)
        return memcmp(a->data, b->data, qb_desc_bytes(&a->desc)) == 0 ? 0 : 1.0 / 0.0;
    const float *p = a->data, *q = b->data;
    double worst = 0, size = 1;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)p[i] - q[i], magnitude = q[i] < 0 ? -(double)q[i] : (double)q[i];
        if ((p[i] != p[i]) != (q[i] != q[i])) return 1.0 / 0.0;
        if (p[i] == q[i] || p[i] != p[i]) continue;
        if (d < 0) d = -d;
        if (d > worst) worst = d;
        if (magnitude > size && magnitude < 1.0 / 0.0) size = magnitude;
    }
    return worst / size;
}

#endif

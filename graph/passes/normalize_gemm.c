/* Gemm's constant C becomes a vector [n] with beta 1. */
#include "graph/passes_internal.h"

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t bias = qb_node_in(node, 2);
    if (!qb_node_is(node, "Gemm") || bias < 0) return QB_OK;
    float beta = qb_node_float(node, "beta", 1);
    const float *data = qb_value_floats(graph, bias);
    const qb_shape *shape = &graph->values[bias].shape;
    const qb_shape *out = &graph->values[node->out[0]].shape;
    int64_t n = out->rank == 2 ? out->dim[1] : -1;
    if (!data || n < 1 || (beta == 1 && shape->rank == 1 && shape->dim[0] == n)) return QB_OK;
    int64_t count = qb_shape_count(shape);
    bool rows = shape->rank == 2 && shape->dim[0] != 1;
    if (shape->rank > 2 || rows || (count != 1 && count != n)) return QB_OK;
    float *vector = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *vector));
    for (int64_t i = 0; i < n; i++) vector[i] = beta * data[count == 1 ? 0 : i];
    qb_shape flat = {.rank = 1, .dim = {n}};
    int32_t in[3] = {node->in[0], node->in[1], -1};
    qb_status status = qb_rewrite_floats(rw, bias, "_row", &flat, vector, &in[2]);
    qb_free(vector);
    QB_TRY(status);
    QB_TRY(qb_rewrite_inputs(rw, index, in, 3));
    QB_TRY(qb_node_set_float(rw, index, "beta", 1));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_normalize_gemm = {
    "normalize-gemm", "turns Gemm's constant C into a vector with beta 1", .match = match};

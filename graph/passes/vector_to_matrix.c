/* A vector as operand of a product is a matrix of one row (left) or column (right), which kernels
 * know; the result loses that dimension again. Both are views. */
#include "graph/passes_internal.h"

static qb_status append_view(qb_rewrite *rw, const char *op, int32_t from, int64_t axis,
                             int32_t to) {
    int32_t in[2] = {from, -1};
    QB_TRY(qb_rewrite_int64s(rw, to, "_axis", &axis, 1, &in[1]));
    return qb_rewrite_append(rw, qb_op_find(op, ""), in, 2, to);
}

static qb_status make_matrix(qb_rewrite *rw, int32_t index, int32_t side) {
    qb_graph *graph = rw->graph;
    int32_t in[2] = {graph->nodes[index].in[0], graph->nodes[index].in[1]}, matrix, product;
    const int32_t vector = in[side], out = graph->nodes[index].out[0];
    const int64_t n = graph->values[vector].shape.dim[0];
    const qb_shape as_matrix = {2, {side == 0 ? 1 : n, side == 0 ? n : 1}};
    qb_shape shape = graph->values[out].shape;
    const int32_t lost = shape.rank - (side == 0 && shape.rank > 0);
    for (int32_t d = shape.rank++; d > lost; d--) shape.dim[d] = shape.dim[d - 1];
    shape.dim[lost] = 1;
    QB_TRY(qb_rewrite_value(rw, vector, "_matrix", &as_matrix, &matrix));
    QB_TRY(qb_rewrite_value(rw, out, "_matrix", &shape, &product));
    QB_TRY(append_view(rw, "Unsqueeze", vector, side, matrix));
    in[side] = matrix;
    QB_TRY(qb_rewrite_inputs(rw, index, in, 2));
    rw->graph->nodes[index].out[0] = product;
    qb_rewrite_touch(rw, index);
    QB_TRY(append_view(rw, "Squeeze", product, lost, out));
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!node->op || node->op->kernel.kind != QB_KIND_MATMUL || node->n_in != 2) return QB_OK;
    const qb_value *out = &graph->values[node->out[0]];
    if (out->shape.rank < 0 || out->shape.rank == QB_MAX_RANK || out->q.n > 1) return QB_OK;
    for (int32_t side = 1; side >= 0; side--) {
        const qb_value *v = &graph->values[node->in[side]];
        if (v->shape.rank == 1 && v->shape.dim[0] > 0 && v->q.n <= 1)
            return make_matrix(rw, index, side);
    }
    return QB_OK;
}

const qb_pass qb_pass_vector_to_matrix = {
    "vector-to-matrix", "turns vectors as operands of products into matrices of one row or column",
    .match = match};

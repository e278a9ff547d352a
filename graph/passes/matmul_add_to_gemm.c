/* MatMul(a, b) + c of rank 2 with a constant c that does not vary along the rows is Gemm. */
#include "graph/passes_internal.h"

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *add = &graph->nodes[index];
    if (!qb_node_is(add, "Add")) return QB_OK;
    for (int32_t side = 0; side < 2; side++) {
        int32_t product = add->in[side], bias = add->in[1 - side], out = add->out[0];
        int32_t matmul = qb_rewrite_from(rw, product, "MatMul");
        if (matmul < 0 || !qb_value_is_plain(graph, product)) continue;
        if (qb_uses_sole_user(graph, &rw->uses, product) != index) continue;
        const int32_t *in = graph->nodes[matmul].in;
        const qb_shape *a = &graph->values[in[0]].shape, *b = &graph->values[in[1]].shape;
        const qb_shape *c = &graph->values[bias].shape;
        if (a->rank != 2 || b->rank != 2 || b->dim[1] < 1 || c->rank > 2) continue;
        if (!qb_value_floats(graph, bias) || (c->rank == 2 && c->dim[0] != 1)) continue;
        int64_t n = qb_shape_count(c);
        if (n != 1 && n != b->dim[1]) continue; /* [n] and a product [m, 1] would widen it */
        int32_t gemm_in[3] = {in[0], in[1], bias};
        QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Gemm", ""), gemm_in, 3, out));
        qb_rewrite_kill(rw, matmul);
        return qb_rewrite_changed(rw);
    }
    return QB_OK;
}

const qb_pass qb_pass_matmul_add_to_gemm = {
    "matmul-add-to-gemm", "turns MatMul + Add of a constant row into Gemm where the rank is 2",
    .match = match};

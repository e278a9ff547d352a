/* TopK as the places of the first elements, and the elements that lie there; the places of a pool's
 * maxima beside the pool
 *
 *   y, i = TopK(x, k)   ->   _, i = TopK(x, k);  y = GatherElements(x, i)
 *   y, i = MaxPool(x)   ->   _, i = MaxPool(x);  y = MaxPool(x)
 *
 * where a kernel finds places: what moves by them has kernels of its own. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"

/* Does `accept` take the node, once nobody wants its values? Places are as many as those. */
static bool is_taken(const qb_rewrite *rw, const qb_node *node) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    int32_t out[] = {-1, node->out[0]};
    qb_node alone = *node;
    alone.out = out;
    alone.n_out = 2;
    if (!qb_node_problem(rw->graph, &alone, in, &problem)) return false;
    problem.out.dtype = QB_DTYPE_S64;
    return rw->accept(rw->user, &problem);
}

/* y of the places' node by a node of its own. */
static qb_status append_values(qb_rewrite *rw, int32_t index, int32_t places, int32_t y) {
    qb_graph *graph = rw->graph;
    const qb_node node = graph->nodes[index];
    const int64_t axis = qb_node_int(&node, "axis", -1);
    const int32_t in[] = {node.in[0], places};
    if (qb_node_is(&node, "MaxPool")) {
        QB_TRY(qb_rewrite_append(rw, node.op, in, 1, y));
        graph->nodes[graph->n_nodes - 1].attrs = node.attrs;
        return QB_OK;
    }
    QB_TRY(qb_rewrite_append(rw, qb_op_find("GatherElements", ""), in, 2, y));
    return qb_node_set_int(rw, graph->n_nodes - 1, "axis", axis);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const bool pools = qb_node_is(node, "MaxPool") && node->n_out > 1 && node->out[1] >= 0;
    if ((!pools && !qb_node_is(node, "TopK")) || node->out[0] < 0) return QB_OK;
    const int32_t y = node->out[0];
    int32_t places = node->n_out > 1 ? node->out[1] : -1;
    if (!qb_shape_known(&graph->values[y].shape) || !is_taken(rw, node)) return QB_OK;
    if (places < 0) {
        const qb_shape shape = graph->values[y].shape;
        QB_TRY(qb_rewrite_value(rw, y, "_places", &shape, &places));
        graph->values[places].dtype = QB_DTYPE_S64;
        graph->values[places].q = (qb_qparams){.axis = -1};
    }
    int32_t *out = qb_arena_pack(rw->cx, graph->arena, 2, sizeof *out);
    if (!out) return rw->cx->code;
    out[0] = -1;
    out[1] = places;
    graph->nodes[index].out = out;
    graph->nodes[index].n_out = 2;
    qb_rewrite_touch(rw, index);
    qb_rewrite_changed(rw);
    return append_values(rw, index, places, y);
}

qb_status qb_fuse_order(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                        int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph, .accept = accept, .user = user};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

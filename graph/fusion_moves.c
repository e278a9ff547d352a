/* Operators that only move elements, whatever lies around them: their data and their result get one
 * form, and what makes one form of another is a node of its own. Tools write quantization behind
 * and before such operators as they like; moving codes and converting them later gives the same as
 * the other way round, for each element becomes what it would have become. Where there is a choice,
 * codes are moved: they are smaller. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"

static bool is_real(const qb_value *v) {
    return v->q.n == 0 ? v->dtype == QB_DTYPE_F32
                       : v->q.n == 1 && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

static qb_status convert(qb_rewrite *rw, int32_t from, int32_t to) {
    qb_rewrite_changed(rw);
    return qb_rewrite_append(rw, qb_op_find("Identity", ""), &from, 1, to);
}

/* x is converted before, or the result behind the node. */
static qb_status settle(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], y = graph->nodes[index].out[0];
    const qb_shape from = graph->values[x].shape, to = graph->values[y].shape;
    int32_t moved;
    if (graph->values[x].q.n > 0) {
        QB_TRY(qb_rewrite_value(rw, x, "moved", &to, &moved));
        graph->nodes[index].out[0] = moved;
        qb_rewrite_touch(rw, index);
        return convert(rw, moved, y);
    }
    QB_TRY(qb_rewrite_value(rw, y, "codes", &from, &moved));
    graph->nodes[index].in[0] = moved;
    qb_rewrite_touch(rw, index);
    return convert(rw, x, moved);
}

/* Parts of a tensor along an axis, each by a node of its own. */
static qb_status split(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], n = graph->nodes[index].n_out;
    const int64_t rank = graph->values[x].shape.rank;
    const int64_t given = qb_node_int(&graph->nodes[index], "axis", 0);
    const int64_t axis = given < 0 ? given + rank : given;
    int64_t end = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t y = graph->nodes[index].out[k];
        if (y < 0) return QB_OK; /* where the others begin, nothing tells */
    }
    for (int32_t k = 0; k < n; k++) {
        const int32_t y = graph->nodes[index].out[k];
        const int64_t start = end;
        int32_t in[4] = {x};
        end += graph->values[y].shape.dim[axis];
        QB_TRY(qb_rewrite_int64s(rw, y, "start", &start, 1, &in[1]));
        QB_TRY(qb_rewrite_int64s(rw, y, "end", &end, 1, &in[2]));
        QB_TRY(qb_rewrite_int64s(rw, y, "axis", &axis, 1, &in[3]));
        QB_TRY(qb_rewrite_append(rw, qb_op_find("Slice", ""), in, 4, y));
    }
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!node->op->strided && !qb_node_is_view(node)) return QB_OK;
    if (node->n_in < 1 || node->in[0] < 0 || node->out[0] < 0) return QB_OK;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    if (x->data || !qb_shape_known(&x->shape) || !qb_shape_known(&y->shape)) return QB_OK;
    if (node->n_out > 1) return qb_node_is(node, "Split") ? split(rw, index) : QB_OK;
    if (!is_real(x) || !is_real(y)) return QB_OK;
    if (qb_node_is(node, "Identity") || qb_qparams_same(&x->q, &y->q)) return QB_OK;
    return settle(rw, index);
}

qb_status qb_settle_moves(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    qb_status status = QB_OK;
    for (int32_t i = 0; i < graph->n_nodes; i++) { /* those that are added, too */
        if (!graph->nodes[i].op) continue;
        QB_GO(qb_rewrite_refresh(&rw));
        QB_GO(match(&rw, i));
    }
    *n_changes = rw.n_changes;
    QB_GO(qb_rewrite_tidy(&rw));
out:
    qb_rewrite_release(&rw);
    return status;
}

/* A dimension that begins somewhere in its middle, written as two slices the other way round,
 *
 *   Concat(x[k:], x[:k])   ->   Pad(x, -k before and k behind, wrap)
 *
 * as windows are shifted and shifted back, is one pass over the data; so are several dimensions one
 * after the other. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes_internal.h"

/* Where the part of the row-major x that the value is begins along `axis`, the only dimension that
 * it has less of; -1: it is no such part, or others read it. */
static int64_t begin_of(const qb_rewrite *rw, int32_t value, int32_t concat, int32_t axis,
                        int32_t *x) {
    const qb_graph *graph = rw->graph;
    const int32_t from = qb_rewrite_from(rw, value, NULL);
    qb_strided s;
    int64_t step = 1, stride = 1;
    if (from < 0 || graph->values[value].kept ||
        qb_uses_sole_user(graph, &rw->uses, value) != concat || graph->nodes[from].n_out != 1 ||
        !graph->nodes[from].op->strided || !qb_node_strided(graph, &graph->nodes[from], 0, &s))
        return -1;
    *x = graph->nodes[from].in[0];
    const qb_shape *whole = &graph->values[*x].shape;
    if (s.rank != whole->rank || !qb_qparams_same(&graph->values[value].q, &graph->values[*x].q))
        return -1;
    for (int32_t d = s.rank - 1; d >= 0; step *= whole->dim[d], d--) {
        if (s.stride[d] != step || (d != axis && s.dim[d] != whole->dim[d])) return -1;
        if (d == axis) stride = step;
    }
    return s.offset >= 0 && s.offset % stride == 0 ? s.offset / stride : -1;
}

/* By how much the Concat shifts its data along `axis`; 0: it does something else. */
static int64_t shift_of(const qb_rewrite *rw, int32_t index, int32_t *axis, int32_t *x) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t other = -1;
    if (!qb_node_is(node, "Concat") || node->n_in != 2) return 0;
    const qb_value *y = &graph->values[node->out[0]];
    const int64_t given = qb_node_int(node, "axis", 0);
    *axis = (int32_t)(given < 0 ? given + y->shape.rank : given);
    if (!qb_shape_known(&y->shape) || *axis < 0 || *axis >= y->shape.rank) return 0;
    const int64_t begin = begin_of(rw, node->in[0], index, *axis, x);
    if (begin <= 0 || begin_of(rw, node->in[1], index, *axis, &other) != 0 || other != *x) return 0;
    const bool all = graph->values[node->in[1]].shape.dim[*axis] == begin &&
                     qb_shape_surely_equal(&y->shape, &graph->values[*x].shape) &&
                     qb_qparams_same(&y->q, &graph->values[*x].q);
    return all ? begin : 0;
}

/* Adds what a Pad shifts whose result only the two slices read, and moves on to that one's data. */
static int32_t past_shift(const qb_rewrite *rw, int32_t x, int64_t *pads) {
    const qb_graph *graph = rw->graph;
    const int32_t from = qb_rewrite_from(rw, x, "Pad"), rank = graph->values[x].shape.rank;
    int64_t before[2 * QB_MAX_RANK];
    int32_t n = 0;
    if (from < 0 || graph->values[x].kept || qb_graph_is_output(graph, x) ||
        rw->uses.n_users[x] != 2)
        return x;
    const qb_node *pad = &graph->nodes[from];
    const qb_value *data = &graph->values[pad->in[0]];
    if (strcmp(qb_node_string(pad, "mode", "constant"), "wrap") != 0 || pad->n_in != 2 ||
        !qb_shape_surely_equal(&data->shape, &graph->values[x].shape) ||
        !qb_qparams_same(&data->q, &graph->values[x].q) ||
        !qb_value_int_list(graph, pad->in[1], before, 2 * QB_MAX_RANK, &n) || n != 2 * rank)
        return x;
    for (int32_t i = 0; i < n; i++) pads[i] += before[i];
    return pad->in[0];
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    int64_t pads[2 * QB_MAX_RANK] = {0};
    int32_t axis, x, in[2];
    const int64_t shift = shift_of(rw, index, &axis, &x);
    if (shift == 0) return QB_OK;
    const int32_t out = graph->nodes[index].out[0], rank = graph->values[out].shape.rank;
    pads[axis] = -shift;
    pads[rank + axis] = shift;
    in[0] = past_shift(rw, x, pads);
    QB_TRY(qb_rewrite_int64s(rw, out, "_shifts", pads, 2 * rank, &in[1]));
    for (int i = 0; i < 2; i++)
        qb_rewrite_kill(rw, qb_rewrite_from(rw, rw->graph->nodes[index].in[i], NULL));
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Pad", ""), in, 2, out));
    qb_rewrite_changed(rw);
    return qb_node_set_string(rw, index, "mode", "wrap");
}

qb_status qb_fuse_rolls(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

/* ScatterND into a box, as exporters write x[:, 1:, 1:] = y: y with padding around it where the box
 * is, and x elsewhere; y alone where the box is all of x. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/graph_internal.h"
#include "graph/rewrite_internal.h"

/* Do constant tuples of indices count through a box within the first dimensions, in order? */
static bool is_box(const qb_value *index, int32_t depth, const qb_shape *data,
                   int64_t start[QB_MAX_RANK]) {
    const int64_t *at = index->data;
    int64_t place[QB_MAX_RANK] = {0};
    if (!at || index->dtype != QB_DTYPE_S64 || index->shape.rank != depth + 1 ||
        qb_shape_count(&index->shape) < 1)
        return false;
    for (int32_t d = 0; d < depth; d++) {
        start[d] = at[d];
        if (start[d] < 0 || start[d] > data->dim[d] - index->shape.dim[d]) return false;
    }
    for (int64_t i = qb_shape_count(&index->shape) / depth; i > 0; i--, at += depth) {
        for (int32_t d = 0; d < depth; d++)
            if (at[d] != start[d] + place[d]) return false;
        for (int32_t d = depth - 1; d >= 0 && ++place[d] == index->shape.dim[d]; d--) place[d] = 0;
    }
    return true;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "ScatterND")) return QB_OK;
    const int32_t x = node->in[0], update = node->in[2], y = node->out[0];
    const qb_value *at = &graph->values[node->in[1]];
    const qb_shape shape = graph->values[x].shape;
    const int32_t depth = at->shape.rank - 1;
    int64_t start[QB_MAX_RANK], pads[2 * QB_MAX_RANK] = {0}, place[QB_MAX_RANK] = {0};
    qb_shape mask = shape;
    bool whole = true;
    int32_t mask_id, pads_id, padded;
    if (strcmp(qb_node_string(node, "reduction", "none"), "none") != 0 || depth < 1 ||
        !qb_shape_known(&shape) || depth > shape.rank || at->shape.dim[depth] != depth ||
        !qb_value_is_plain(graph, x) || !qb_value_is_plain(graph, update) ||
        !qb_value_is_plain(graph, y) || !is_box(at, depth, &shape, start))
        return QB_OK;
    for (int32_t d = 0; d < shape.rank; d++) {
        const int64_t n = d < depth ? at->shape.dim[d] : shape.dim[d];
        pads[d] = d < depth ? start[d] : 0;
        pads[shape.rank + d] = shape.dim[d] - pads[d] - n;
        if (n == shape.dim[d])
            mask.dim[d] = 1;
        else
            whole = false;
    }
    if (whole) {
        if (qb_rewrite_forward(rw, y, update)) qb_rewrite_kill(rw, index);
        return QB_OK;
    }
    bool *inside = qb_graph_new_constant(rw->cx, graph, "box", QB_DTYPE_BOOL, &mask, &mask_id);
    if (!inside) return rw->cx->code;
    for (int64_t i = 0, n = qb_shape_count(&mask); i < n; i++) {
        inside[i] = true;
        for (int32_t d = 0; d < shape.rank; d++)
            if (mask.dim[d] > 1 &&
                (place[d] < pads[d] || place[d] >= shape.dim[d] - pads[shape.rank + d]))
                inside[i] = false;
        for (int32_t d = shape.rank - 1; d >= 0 && ++place[d] == mask.dim[d]; d--) place[d] = 0;
    }
    QB_TRY(qb_rewrite_int64s(rw, y, "pads", pads, 2 * shape.rank, &pads_id));
    QB_TRY(qb_rewrite_value(rw, y, "part", &shape, &padded));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Pad", ""), (int32_t[]){update, pads_id}, 2, padded));
    const int32_t in[] = {mask_id, padded, x};
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Where", ""), in, 3, y));
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

qb_status qb_fuse_boxes(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    *n_changes = 0;
    return qb_rewrite_each(cx, graph, match, n_changes);
}

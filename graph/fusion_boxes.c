/* ScatterND into a box, as exporters write x[:, 1:, 1:] = y: y with padding around it where the box
 * is, and x elsewhere; y alone where the box is all of x. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/graph_internal.h"
#include "graph/rewrite_internal.h"

/* What the column of an index table that counts along one dimension of a box has to hold. */
typedef struct column {
    int32_t along;           /* the dimension */
    int64_t start;           /* of the box there; set by the first element */
    int32_t of[QB_MAX_RANK]; /* dimensions of the box that the value's own ones are; NONE: one */
} column;

#define NONE (-1)

/* Is element (i, j, ...) of a constant, `step` integers apart, start + its index `along`? */
static bool constant_counts(const qb_value *value, int32_t rank, int64_t step, int32_t first,
                            column *c) {
    const int64_t *at = value->data;
    int64_t place[QB_MAX_RANK] = {0}, n = 1;
    if (!at || value->dtype != QB_DTYPE_S64) return false;
    for (int32_t k = 0; k < rank; k++) n *= value->shape.dim[k];
    if (n < 1) return false;
    c->start = at[first];
    for (int64_t i = 0; i < n; i++) {
        int64_t want = c->start;
        for (int32_t k = 0; k < rank; k++)
            if (c->of[k] == c->along) want += place[k];
        if (at[i * step + first] != want) return false;
        for (int32_t k = rank - 1; k >= 0 && ++place[k] == value->shape.dim[k]; k--) place[k] = 0;
    }
    return true;
}

/* From a value to the input of the node that repeats it or adds and removes dimensions of one. */
static bool follow(const qb_graph *graph, const qb_node *node, column *c, int32_t *value) {
    const qb_shape *to = &graph->values[*value].shape, *from = &graph->values[node->in[0]].shape;
    const bool repeats = qb_node_is(node, "Expand");
    column input = *c;
    int32_t k = to->rank - 1;
    if (!qb_shape_known(from) || !qb_shape_known(to) || (!repeats && !qb_node_is_view(node)))
        return false;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        const bool one = from->dim[i] == 1;
        while (!repeats && !one && k >= 0 && to->dim[k] == 1) k--;
        if (!one && (k < 0 || to->dim[k] != from->dim[i])) return false;
        input.of[i] = one ? NONE : c->of[k];
        k -= repeats || !one;
    }
    *c = input;
    *value = node->in[0];
    return true;
}

/* A table that is too large to be a constant: what it is expanded from says the same. */
static bool column_counts(const qb_rewrite *rw, int32_t value, column *c, const qb_shape *box) {
    const qb_graph *graph = rw->graph;
    while (!graph->values[value].data) {
        const int32_t from = qb_rewrite_from(rw, value, NULL);
        if (from < 0 || !follow(graph, &graph->nodes[from], c, &value)) return false;
    }
    const int32_t rank = graph->values[value].shape.rank;
    bool counts = box->dim[c->along] == 1;
    for (int32_t k = 0; k < rank; k++) counts = counts || c->of[k] == c->along;
    return counts && constant_counts(&graph->values[value], rank, 1, 0, c);
}

/* Do the tuples of indices count through a box within the first dimensions, in order? */
static bool is_box(const qb_rewrite *rw, int32_t index, int32_t depth, const qb_shape *data,
                   int64_t start[QB_MAX_RANK]) {
    const qb_graph *graph = rw->graph;
    const qb_value *table = &graph->values[index];
    const int32_t from = qb_rewrite_from(rw, index, "Concat");
    const qb_node *node = from < 0 ? NULL : &graph->nodes[from];
    if (!qb_shape_known(&table->shape) || table->shape.rank != depth + 1 ||
        qb_shape_count(&table->shape) < 1)
        return false;
    if (!table->data) {
        const int64_t axis = node ? qb_node_int(node, "axis", 0) : 0;
        if (!node || node->n_in != depth || (axis != -1 && axis != depth)) return false;
    }
    for (int32_t d = 0; d < depth; d++) {
        column c = {.along = d};
        for (int32_t k = 0; k < QB_MAX_RANK; k++) c.of[k] = k < depth ? k : NONE;
        if (table->data ? !constant_counts(table, depth, depth, d, &c)
                        : !column_counts(rw, node->in[d], &c, &table->shape))
            return false;
        start[d] = c.start;
        if (start[d] < 0 || start[d] > data->dim[d] - table->shape.dim[d]) return false;
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
        !qb_value_is_plain(graph, y) || !is_box(rw, node->in[1], depth, &shape, start))
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

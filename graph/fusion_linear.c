/* Operators that are linear in their data, with known weights, as products:
 *
 *   Resize(x)           ->  a MatMul along each dimension that changes
 *   AffineGrid(theta)   ->  MatMul(places of pixels, Transpose(theta))
 *
 * for engines that multiply better than they run such an operator. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"

#define WEIGHTS_MAX ((int64_t)1 << 22) /* elements of a constant */
#define MATRICES_MAX 65535             /* of a product */

/* ---- Resize ---------------------------------------------------------------------------------- */

typedef struct resizing {
    qb_rewrite *rw;
    int32_t node, y, now; /* now: the value that is resized so far */
    qb_shape shape;       /* of `now`, as if it had the dimensions of x */
} resizing;

static void sides_of(const qb_shape *shape, int32_t d, int64_t *outer, int64_t *inner) {
    *outer = *inner = 1;
    for (int32_t k = 0; k < d; k++) *outer *= shape->dim[k];
    for (int32_t k = d + 1; k < shape->rank; k++) *inner *= shape->dim[k];
}

static bool is_identity(const float *weights, int64_t out, int64_t in) {
    bool same = out == in;
    for (int64_t i = 0; same && i < out * in; i++)
        same = weights[i] == (i / in == i % in ? 1.0f : 0.0f);
    return same;
}

static qb_status add_reshape(resizing *r, const qb_shape *shape) {
    int32_t in[2] = {r->now, -1};
    QB_TRY(qb_rewrite_int64s(r->rw, r->y, "_sizes", shape->dim, shape->rank, &in[1]));
    return qb_rewrite_append_plain(r->rw, "Reshape", in, r->y, "_rows", shape, &r->now);
}

static void transpose(const float *from, int64_t rows, int64_t columns, float *to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) to[k * rows + i] = from[i * columns + k];
}

/* Rows are elements side by side along the last dimension, else matrices behind each other. */
static qb_status add_product(resizing *r, int32_t d, int64_t size, const float *weights) {
    const int64_t in_size = r->shape.dim[d];
    int64_t outer, inner;
    int32_t constant;
    sides_of(&r->shape, d, &outer, &inner);
    const bool last = inner == 1;
    const qb_shape from =
        last ? (qb_shape){2, {outer, in_size}} : (qb_shape){3, {outer, in_size, inner}};
    const qb_shape to = last ? (qb_shape){2, {outer, size}} : (qb_shape){3, {outer, size, inner}};
    const qb_shape shape = {2, {last ? in_size : size, last ? size : in_size}};
    float *transposed = qb_alloc(r->rw->cx, (size_t)(size * in_size), sizeof *transposed);
    if (!transposed) return r->rw->cx->code;
    if (last) transpose(weights, size, in_size, transposed);
    const qb_status status =
        qb_rewrite_floats(r->rw, r->y, "_weights", &shape, last ? transposed : weights, &constant);
    qb_free(transposed);
    QB_TRY(status);
    QB_TRY(add_reshape(r, &from));
    const int32_t in[2] = {last ? r->now : constant, last ? constant : r->now};
    r->shape.dim[d] = size;
    return qb_rewrite_append_plain(r->rw, "MatMul", in, r->y, "_resized", &to, &r->now);
}

static qb_status resize_along(resizing *r, int32_t d) {
    qb_graph *graph = r->rw->graph;
    const int64_t size = graph->values[r->y].shape.dim[d], in_size = r->shape.dim[d];
    bool known;
    QB_FREED float *weights = qb_alloc(r->rw->cx, (size_t)(size * in_size), sizeof *weights);
    if (!weights) return r->rw->cx->code;
    qb_status status =
        qb_node_resize_weights(r->rw->cx, graph, &graph->nodes[r->node], d, weights, &known);
    if (status == QB_OK && !is_identity(weights, size, in_size))
        status = add_product(r, d, size, weights);
    return status;
}

/* Products of a size that is worth it, in each dimension. */
static bool is_small(const qb_shape *x, const qb_shape *y) {
    qb_shape shape = *x;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        int64_t outer, inner;
        sides_of(&shape, d, &outer, &inner);
        if (x->dim[d] < 1 || y->dim[d] < 1 || x->dim[d] * y->dim[d] > WEIGHTS_MAX ||
            (inner > 1 && outer > MATRICES_MAX))
            return false;
        shape.dim[d] = y->dim[d];
    }
    return true;
}

/* The last of the products has the result's elements: node `index` becomes the view of them, or
 * what quantizes it. */
static qb_status end_resize(resizing *r, int32_t index) {
    const qb_shape whole = r->rw->graph->values[r->y].shape;
    const bool quantized = r->rw->graph->values[r->y].q.n > 0;
    int32_t in[2] = {r->now, -1};
    QB_TRY(qb_rewrite_int64s(r->rw, r->y, "_size", whole.dim, whole.rank, &in[1]));
    if (!quantized) return qb_rewrite_node(r->rw, index, qb_op_find("Reshape", ""), in, 2, r->y);
    QB_TRY(qb_rewrite_append_plain(r->rw, "Reshape", in, r->y, "_resized", &whole, &r->now));
    return qb_rewrite_node(r->rw, index, qb_op_find("Identity", ""), &r->now, 1, r->y);
}

static qb_status match_resize(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const int32_t x = node->in[0], y = node->out[0];
    const qb_shape *from = &graph->values[x].shape, *to = &graph->values[y].shape;
    qb_desc in[QB_MAX_INPUTS];
    qb_problem problem;
    bool known;
    if (!qb_shape_known(from) || !qb_shape_known(to) ||
        !qb_value_has_one_scale(&graph->values[x]) || !qb_value_has_one_scale(&graph->values[y]) ||
        !is_small(from, to) ||
        (qb_node_problem(graph, node, in, &problem) && rw->accept(rw->user, &problem)))
        return QB_OK;
    QB_TRY(qb_node_resize_weights(rw->cx, graph, node, 0, NULL, &known));
    if (!known) return QB_OK;
    resizing r = {.rw = rw, .node = index, .y = y, .now = x, .shape = *from};
    const int32_t rank = to->rank, quantized[2] = {x, -1};
    if (graph->values[x].q.n > 0)
        QB_TRY(qb_rewrite_append_plain(rw, "Identity", quantized, x, "_float", &r.shape, &r.now));
    for (int32_t d = rank - 1; d >= 0; d--) QB_TRY(resize_along(&r, d));
    QB_TRY(end_resize(&r, index));
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

static qb_status add_places(qb_rewrite *rw, int32_t index, const qb_shape *grid, int32_t *out) {
    const int64_t n = grid->dim[grid->rank - 1], pixels = qb_shape_count(grid) / n / grid->dim[0];
    const qb_shape shape = {2, {pixels, n + 1}};
    QB_FREED float *places = qb_alloc(rw->cx, (size_t)(pixels * (n + 1)), sizeof *places);
    if (!places) return rw->cx->code;
    qb_node_affine_places(&rw->graph->nodes[index], grid, places);
    return qb_rewrite_floats(rw, rw->graph->nodes[index].out[0], "_places", &shape, places, out);
}

static qb_status match_affine(qb_rewrite *rw, int32_t index) {
    static const int64_t perm[] = {0, 2, 1};
    qb_graph *graph = rw->graph;
    const int32_t theta = graph->nodes[index].in[0], y = graph->nodes[index].out[0];
    const qb_shape grid = graph->values[y].shape;
    if (!qb_shape_known(&grid) || qb_shape_count(&grid) == 0 || !qb_value_is_plain(graph, theta) ||
        !qb_value_is_plain(graph, y) || qb_shape_count(&grid) > WEIGHTS_MAX)
        return QB_OK;
    const int64_t n = grid.dim[grid.rank - 1];
    const qb_shape transposed = {3, {grid.dim[0], n + 1, n}};
    const qb_shape moved = {3, {grid.dim[0], qb_shape_count(&grid) / n / grid.dim[0], n}};
    int32_t in[2], result;
    QB_TRY(add_places(rw, index, &grid, &in[0]));
    QB_TRY(qb_rewrite_value(rw, y, "_columns", &transposed, &in[1]));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Transpose", ""), &theta, 1, in[1]));
    QB_TRY(qb_node_set_ints(rw, graph->n_nodes - 1, "perm", perm, 3));
    QB_TRY(qb_rewrite_append_plain(rw, "MatMul", in, y, "_moved", &moved, &result));
    in[0] = result;
    QB_TRY(qb_rewrite_int64s(rw, y, "_size", grid.dim, grid.rank, &in[1]));
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Reshape", ""), in, 2, y));
    qb_rewrite_changed(rw);
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    if (qb_node_is(node, "Resize")) return match_resize(rw, index);
    return qb_node_is(node, "AffineGrid") ? match_affine(rw, index) : QB_OK;
}

qb_status qb_fuse_linear(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                         int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph, .accept = accept, .user = user};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

/* A dimension that begins somewhere in its middle, written as two slices the other way round,
 *
 *   Concat(x[k:], x[:k])    ->   Pad(x, -k before and k behind, wrap)
 *   Concat(-x[k:], x[:k])   ->   that, times -1 and 1
 *
 * as windows are shifted and shifted back, and as rotary positions (Su et al. 2021) rotate halves
 * or neighbours of a head, is one pass over the data, and what is behind the product is part of its
 * chain; so are several dimensions one after the other. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes_internal.h"
#include "kernels/strided.h"

#define DEEP 4 /* most nodes between x and the Concat */

/* An input of a Concat: elements of x as they lie in the Concat's shape from `begin` on along its
 * axis. */
typedef struct part {
    int32_t x, node[DEEP], n_nodes;
    int64_t begin;
    bool negated;
} part;

/* Where `value` comes from by a view or a Neg that nothing else reads; NULL: it does not. */
static const qb_node *part_node(const qb_rewrite *rw, int32_t value, int32_t user, part *p,
                                qb_strided *taken) {
    const qb_graph *graph = rw->graph;
    const int32_t from = qb_rewrite_from(rw, value, NULL);
    int32_t output = 0;
    qb_strided s;
    if (from < 0 || graph->values[value].kept || qb_uses_sole_user(graph, &rw->uses, value) != user)
        return NULL;
    const qb_node *node = &graph->nodes[from];
    const int32_t x = qb_node_in(node, 0); /* what makes numbers has no input, Loop may have none */
    if (x < 0) return NULL;
    const qb_value *data = &graph->values[x];
    if (!qb_qparams_same(&graph->values[value].q, &data->q)) return NULL;
    while (node->out[output] != value) output++;
    if (qb_node_is(node, "Neg") && data->q.n == 0 && data->dtype == QB_DTYPE_F32)
        p->negated = !p->negated;
    else if (!qb_node_is_view(node) &&
             (!node->op->strided || !qb_node_strided(graph, node, output, &s) ||
              !qb_strided_compose(&s, taken, taken)))
        return NULL;
    p->node[p->n_nodes++] = from;
    return node;
}

/* Does `taken` of x lie in `shape` as that part along the axis, `size` long, which begins at its
 * first element? */
static bool is_part(const qb_strided *taken, const qb_shape *shape, int32_t axis, int64_t size,
                    int64_t *begin) {
    qb_strided box = {.rank = shape->rank, .offset = taken->offset};
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        box.dim[d] = d == axis ? size : shape->dim[d];
        box.stride[d] = d == shape->rank - 1 ? 1 : box.stride[d + 1] * shape->dim[d + 1];
    }
    *begin = taken->offset / box.stride[axis];
    return taken->offset % box.stride[axis] == 0 && *begin < shape->dim[axis] &&
           qb_strided_same(taken, &box);
}

static bool find_part(const qb_rewrite *rw, int32_t value, int32_t concat, int32_t axis, part *p) {
    const qb_graph *graph = rw->graph;
    const qb_shape *whole = &graph->values[graph->nodes[concat].out[0]].shape;
    const qb_shape *own = &graph->values[value].shape;
    qb_strided taken = qb_strided_all(qb_shape_count(own));
    const qb_node *node;
    int32_t user = concat;
    *p = (part){.x = value};
    if (qb_shape_count(own) <= 0) return false; /* of no element, too */
    while (p->n_nodes < DEEP && (node = part_node(rw, p->x, user, p, &taken))) {
        user = p->node[p->n_nodes - 1];
        p->x = node->in[0];
    }
    return qb_shape_known(&graph->values[p->x].shape) &&
           qb_shape_count(&graph->values[p->x].shape) == qb_shape_count(whole) &&
           is_part(&taken, whole, axis, own->dim[axis], &p->begin);
}

/* Is the node a Concat that shifts x along its axis? Its two parts. */
static bool find(const qb_rewrite *rw, int32_t index, int32_t *axis, part parts[2]) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "Concat") || node->n_in != 2) return false;
    const qb_value *y = &graph->values[node->out[0]];
    const int64_t given = qb_node_int(node, "axis", 0);
    *axis = (int32_t)(given < 0 ? given + y->shape.rank : given);
    return qb_shape_known(&y->shape) && qb_shape_count(&y->shape) > 0 && *axis >= 0 &&
           *axis < y->shape.rank && find_part(rw, node->in[0], index, *axis, &parts[0]) &&
           find_part(rw, node->in[1], index, *axis, &parts[1]) && parts[0].x == parts[1].x &&
           parts[1].begin == 0 && parts[0].begin > 0 &&
           graph->values[node->in[1]].shape.dim[*axis] == parts[0].begin &&
           qb_qparams_same(&y->q, &graph->values[parts[0].x].q);
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

/* The sign of the result at place `at` of the axis, which is n long. */
static float sign_at(const part parts[2], int64_t n, int64_t at) {
    return parts[at >= n - parts[0].begin].negated ? -1.0f : 1.0f;
}

/* -1 and 1 along the axis. */
static qb_status make_signs(qb_rewrite *rw, int32_t out, int32_t axis, const part parts[2],
                            int32_t *signs) {
    const qb_shape *shape = &rw->graph->values[out].shape;
    const int64_t n = shape->dim[axis];
    qb_shape own = {.rank = shape->rank - axis, .dim = {n}};
    QB_FREED float *sign = qb_alloc(rw->cx, (size_t)n, sizeof *sign);
    if (!sign) return rw->cx->code;
    for (int32_t d = 1; d < own.rank; d++) own.dim[d] = 1;
    for (int64_t i = 0; i < n; i++) sign[i] = sign_at(parts, n, i);
    return qb_rewrite_floats(rw, out, "_signs", &own, sign, signs);
}

/* A constant factor that alone reads the result and varies along the axis takes the signs in. */
static qb_status sign_factor(qb_rewrite *rw, int32_t out, int32_t axis, const part parts[2],
                             bool *done) {
    const qb_graph *graph = rw->graph;
    const int32_t user = qb_uses_sole_user(graph, &rw->uses, out);
    *done = false;
    if (user < 0 || !qb_node_is(&graph->nodes[user], "Mul") || graph->values[out].kept)
        return QB_OK;
    const qb_node *mul = &graph->nodes[user];
    const int side = mul->in[0] == out;
    const qb_value *factor = &graph->values[mul->in[side]];
    const int32_t along = axis - (graph->values[out].shape.rank - factor->shape.rank);
    const int64_t n = graph->values[out].shape.dim[axis];
    if (!qb_value_floats(graph, mul->in[side]) || along < 0 || factor->shape.dim[along] != n)
        return QB_OK;
    const int64_t count = qb_shape_count(&factor->shape);
    const qb_shape shape = factor->shape;
    const float *from = qb_value_floats(graph, mul->in[side]);
    QB_FREED float *to = qb_alloc(rw->cx, (size_t)count, sizeof *to);
    int64_t inner = 1;
    int32_t in[2] = {mul->in[0], mul->in[1]};
    if (!to) return rw->cx->code;
    for (int32_t d = along + 1; d < shape.rank; d++) inner *= shape.dim[d];
    for (int64_t i = 0; i < count; i++) to[i] = from[i] * sign_at(parts, n, i / inner % n);
    QB_TRY(qb_rewrite_floats(rw, out, "_signed", &shape, to, &in[side]));
    *done = true;
    return qb_rewrite_inputs(rw, user, in, 2);
}

/* The Concat becomes a Pad of x that wraps around. */
static qb_status shift(qb_rewrite *rw, int32_t index, int32_t axis, const part parts[2],
                       bool negated) {
    const int32_t out = rw->graph->nodes[index].out[0], x = parts[0].x;
    const qb_shape shape = rw->graph->values[out].shape;
    int64_t pads[2 * QB_MAX_RANK] = {0};
    int32_t in[2] = {x}, view[2] = {x}, product[2];
    pads[axis] = -parts[0].begin;
    pads[shape.rank + axis] = parts[0].begin;
    if (!qb_shape_surely_equal(&shape, &rw->graph->values[x].shape)) {
        QB_TRY(qb_rewrite_int64s(rw, out, "_shape", shape.dim, shape.rank, &view[1]));
        QB_TRY(qb_rewrite_value(rw, out, "_view", &shape, &in[0]));
        QB_TRY(qb_rewrite_append(rw, qb_op_find("Reshape", ""), view, 2, in[0]));
    } else {
        in[0] = past_shift(rw, x, pads);
    }
    QB_TRY(qb_rewrite_int64s(rw, out, "_shifts", pads, 2 * shape.rank, &in[1]));
    if (!negated) {
        QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Pad", ""), in, 2, out));
        return qb_node_set_string(rw, index, "mode", "wrap");
    }
    QB_TRY(make_signs(rw, out, axis, parts, &product[1]));
    QB_TRY(qb_rewrite_value(rw, out, "_shifted", &shape, &product[0]));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Pad", ""), in, 2, product[0]));
    QB_TRY(qb_node_set_string(rw, rw->graph->n_nodes - 1, "mode", "wrap"));
    return qb_rewrite_node(rw, index, qb_op_find("Mul", ""), product, 2, out);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    int32_t axis;
    part parts[2];
    bool done = false;
    if (!find(rw, index, &axis, parts)) return QB_OK;
    const bool negated = parts[0].negated || parts[1].negated;
    if (negated) QB_TRY(sign_factor(rw, rw->graph->nodes[index].out[0], axis, parts, &done));
    QB_TRY(shift(rw, index, axis, parts, negated && !done));
    for (int i = 0; i < 2; i++)
        for (int32_t k = 0; k < parts[i].n_nodes; k++)
            if (rw->graph->nodes[parts[i].node[k]].n_out == 1)
                qb_rewrite_kill(rw, parts[i].node[k]);
    qb_rewrite_changed(rw);
    return QB_OK;
}

qb_status qb_fuse_rolls(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

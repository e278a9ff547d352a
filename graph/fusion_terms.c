/* Two constant terms of a value, with views around the second one, become one:
 *
 *   Reshape(Reshape(s + c) + d), of the shape of s   ->   s + e
 *
 * as attention over shifted windows (Liu et al. 2021, Swin Transformer) adds the bias of positions
 * for each head and the mask of each window. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"

#define MOST (1 << 22) /* elements of a new constant */

typedef struct pattern {
    int32_t first, before, second, behind; /* nodes: Add, view, Add, view */
    int32_t data, term[2];
} pattern;

/* The producer of a value that only this pattern reads. */
static int32_t inner(const qb_rewrite *rw, int32_t value, int32_t user) {
    const qb_graph *graph = rw->graph;
    const bool vanishes = qb_value_is_plain(graph, value) && !graph->values[value].kept &&
                          qb_uses_sole_user(graph, &rw->uses, value) == user;
    return vanishes ? qb_rewrite_from(rw, value, NULL) : -1;
}

/* The operand of an Add that is a constant; -1: none, or both. */
static int32_t constant_side(const qb_graph *graph, const qb_node *add) {
    if (!qb_node_is(add, "Add")) return -1;
    const bool first = qb_value_floats(graph, add->in[0]),
               second = qb_value_floats(graph, add->in[1]);
    return first == second ? -1 : first ? 0 : 1;
}

static bool find(const qb_rewrite *rw, int32_t index, pattern *p) {
    const qb_graph *graph = rw->graph;
    const qb_node *add = &graph->nodes[index];
    const int32_t side = constant_side(graph, add);
    if (side < 0) return false;
    *p = (pattern){.second = index, .term[1] = add->in[side]};
    p->behind = qb_uses_sole_user(graph, &rw->uses, add->out[0]);
    p->before = inner(rw, add->in[1 - side], index);
    if (p->behind < 0 || p->before < 0 || inner(rw, add->out[0], p->behind) != index ||
        !qb_node_is_view(&graph->nodes[p->behind]) || !qb_node_is_view(&graph->nodes[p->before]))
        return false;
    p->first = inner(rw, graph->nodes[p->before].in[0], p->before);
    const int32_t other = p->first < 0 ? -1 : constant_side(graph, &graph->nodes[p->first]);
    if (other < 0) return false;
    const qb_node *first = &graph->nodes[p->first];
    p->term[0] = first->in[other];
    p->data = first->in[1 - other];
    const qb_shape *data = &graph->values[p->data].shape;
    const qb_shape *sum = &graph->values[add->out[0]].shape;
    return qb_shape_known(data) && qb_shape_count(data) <= MOST &&
           qb_shape_surely_equal(data, &graph->values[first->out[0]].shape) &&
           qb_shape_surely_equal(data, &graph->values[graph->nodes[p->behind].out[0]].shape) &&
           qb_shape_surely_equal(sum, &graph->values[add->in[1 - side]].shape);
}

/* Adds a constant, broadcast to `shape`, to as many numbers in row-major order. */
static void add_term(const qb_graph *graph, int32_t term, const qb_shape *shape, float *to) {
    const qb_shape *own = &graph->values[term].shape;
    const float *data = graph->values[term].data;
    int64_t stride[QB_MAX_RANK] = {0}, step = 1;
    for (int32_t d = own->rank - 1; d >= 0; step *= own->dim[d], d--)
        stride[d + shape->rank - own->rank] = own->dim[d] > 1 ? step : 0;
    for (int64_t i = 0, n = qb_shape_count(shape); i < n; i++) {
        int64_t rest = i, from = 0;
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            from += rest % shape->dim[d] * stride[d];
            rest /= shape->dim[d];
        }
        to[i] += data[from];
    }
}

static qb_status rewrite(qb_rewrite *rw, const pattern *p) {
    qb_graph *graph = rw->graph;
    const qb_shape shape = graph->values[p->data].shape;
    const qb_shape between = graph->values[graph->nodes[p->second].out[0]].shape;
    const int32_t out = graph->nodes[p->behind].out[0];
    int32_t in[2] = {p->data};
    float *sum = qb_alloc(rw->cx, (size_t)qb_shape_count(&shape), sizeof *sum);
    if (!sum) return rw->cx->code;
    add_term(graph, p->term[0], &shape, sum);
    add_term(graph, p->term[1], &between, sum);
    qb_status status = qb_rewrite_floats(rw, out, "_terms", &shape, sum, &in[1]);
    qb_free(sum);
    QB_TRY(status);
    qb_rewrite_kill(rw, p->before);
    qb_rewrite_kill(rw, p->second);
    qb_rewrite_kill(rw, p->behind);
    qb_rewrite_changed(rw);
    return qb_rewrite_node(rw, p->first, qb_op_find("Add", ""), in, 2, out);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    pattern p;
    return find(rw, index, &p) ? rewrite(rw, &p) : QB_OK;
}

qb_status qb_fuse_terms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

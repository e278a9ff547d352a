/* Attention written as single operators (Vaswani et al. 2017) becomes one Attention node:
 *
 *   y = MatMul(Softmax(MatMul(q, k^T) * scale + mask), v)
 *
 * The scale may be a Mul or Div by a number on the scores, on q or on k; the mask is optional.
 * Where all of q, k and v are [N, T, heads size] split into heads by Reshape and Transpose, and y
 * is joined again in the same way, these vanish too; also where they are the three parts of one
 * [N, T, 3 heads size], which a Split then takes apart. Else heads come in front ([N, heads, T,
 * size], or [N, T, size] for one head), and k is transposed to that form; of more dimensions
 * (windows beside heads) all but the last of those in front are views of one. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes_internal.h"

typedef struct pattern {
    int32_t last;       /* the node that becomes Attention; it writes `out` */
    int32_t in[4], out; /* values: q, k, v, mask (-1: none) */
    int64_t heads;
    double scale;
    int32_t packed; /* the value whose parts q, k and v are to be; -1: none */
    int32_t swap;   /* the node behind k is a Transpose of this index that also swaps the last two
                       axes; -1: k is as it should be */
} pattern;

static const qb_shape *shape_of(const qb_rewrite *rw, int32_t value) {
    return &rw->graph->values[value].shape;
}

/* May the value stay inside? `like`: the result; moves of a quantized result share its parameters.
 */
static bool vanishes(const qb_rewrite *rw, int32_t value, int32_t like) {
    const qb_value *v = &rw->graph->values[value];
    bool same = like >= 0 && qb_qparams_same(&v->q, &rw->graph->values[like].q);
    return (qb_value_is_plain(rw->graph, value) || same) && !v->kept &&
           !qb_graph_is_output(rw->graph, value);
}

/* The producer of a value that only this pattern reads. */
static const qb_node *inner(const qb_rewrite *rw, int32_t value, const char *op) {
    int32_t node = qb_rewrite_from(rw, value, op);
    if (node < 0 || rw->uses.n_users[value] != 1 || !vanishes(rw, value, -1)) return NULL;
    return &rw->graph->nodes[node];
}

/* Walks over Mul and Div by a number in front of a value; the factor goes to *scale. */
static int32_t past_factor(const qb_rewrite *rw, int32_t value, double *scale) {
    for (;;) {
        const qb_node *mul = inner(rw, value, "Mul"), *div = inner(rw, value, "Div");
        double factor;
        if (mul && qb_value_scalar(rw->graph, mul->in[1], &factor)) {
            *scale *= factor;
            value = mul->in[0];
        } else if (mul && qb_value_scalar(rw->graph, mul->in[0], &factor)) {
            *scale *= factor;
            value = mul->in[1];
        } else if (div && qb_value_scalar(rw->graph, div->in[1], &factor) && factor != 0) {
            *scale /= factor;
            value = div->in[0];
        } else {
            return value;
        }
    }
}

static bool has_perm(const qb_node *node, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t wanted[4] = {a, b, c, d};
    qb_ints perm = qb_node_ints(node, "perm");
    return perm.n == 4 && memcmp(perm.v, wanted, sizeof wanted) == 0;
}

/* The [N, T, heads size] value that a Reshape and a Transpose make [N, heads, T, size] (keys:
 * [N, heads, size, T]); -1 when it is made otherwise. Others may read what is between. */
static int32_t fused_of(const qb_rewrite *rw, int32_t value, bool keys, double *scale) {
    value = past_factor(rw, value, scale);
    int32_t transposed = qb_rewrite_from(rw, value, "Transpose");
    if (transposed < 0 || !qb_value_is_plain(rw->graph, value)) return -1;
    const qb_node *transpose = &rw->graph->nodes[transposed];
    if (!has_perm(transpose, 0, 2, keys ? 3 : 1, keys ? 1 : 3)) return -1;
    int32_t split = past_factor(rw, transpose->in[0], scale);
    int32_t node = qb_rewrite_from(rw, split, "Reshape");
    if (node < 0) return -1;
    int32_t joined = past_factor(rw, rw->graph->nodes[node].in[0], scale);
    const qb_shape *x = shape_of(rw, joined), *y = shape_of(rw, split);
    bool fits = x->rank == 3 && y->rank == 4 && x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1];
    return fits && qb_value_is_plain(rw->graph, joined) ? joined : -1;
}

/* What the value is part `part` of, along the first of five dimensions, by Gather of one index, or
 * by Split and a view; -1: nothing. */
static int32_t whole_of(const qb_rewrite *rw, int32_t value, int32_t part) {
    const qb_graph *graph = rw->graph;
    const int32_t from = qb_rewrite_from(rw, value, NULL);
    const qb_node *node = from < 0 ? NULL : &graph->nodes[from];
    double index;
    if (!node || shape_of(rw, value)->rank != 4) return -1;
    if (qb_node_is(node, "Gather"))
        return qb_node_int(node, "axis", 0) == 0 && qb_value_scalar(graph, node->in[1], &index) &&
                       (index == part || index == part - 3)
                   ? node->in[0]
                   : -1;
    const int32_t split = qb_node_is_view(node) ? qb_rewrite_from(rw, node->in[0], "Split") : -1;
    node = split < 0 ? NULL : &graph->nodes[split];
    const bool third = node && node->n_out == 3 && qb_node_int(node, "axis", 0) == 0 &&
                       node->out[part] >= 0 && shape_of(rw, node->out[part])->dim[0] == 1 &&
                       graph->nodes[from].in[0] == node->out[part];
    return third ? node->in[0] : -1;
}

/* The [N, T, 3 heads size] value whose part `part` a Reshape to [N, T, 3, heads, size] and a
 * Transpose make [N, heads, T, size] (keys: a Transpose more makes them [N, heads, size, T]); -1
 * when it is made otherwise. */
static int32_t packed_of(const qb_rewrite *rw, int32_t value, int32_t part, bool keys,
                         double *scale) {
    static const int64_t perm[5] = {2, 0, 3, 1, 4};
    const qb_node *nodes = rw->graph->nodes;
    value = past_factor(rw, value, scale);
    if (keys) {
        const int32_t swap = qb_rewrite_from(rw, value, "Transpose");
        if (swap < 0 || !has_perm(&nodes[swap], 0, 1, 3, 2)) return -1;
        value = past_factor(rw, nodes[swap].in[0], scale);
    }
    const int32_t whole = whole_of(rw, value, part);
    const int32_t transposed = whole < 0 ? -1 : qb_rewrite_from(rw, whole, "Transpose");
    const qb_ints given = transposed < 0 ? (qb_ints){0} : qb_node_ints(&nodes[transposed], "perm");
    if (given.n != 5 || memcmp(given.v, perm, sizeof perm) != 0) return -1;
    const int32_t apart = nodes[transposed].in[0], node = qb_rewrite_from(rw, apart, "Reshape");
    if (node < 0) return -1;
    const int32_t packed = nodes[node].in[0];
    const qb_shape *x = shape_of(rw, packed), *y = shape_of(rw, apart);
    const bool fits = x->rank == 3 && y->rank == 5 && x->dim[0] == y->dim[0] &&
                      x->dim[1] == y->dim[1] && y->dim[2] == 3 && qb_shape_known(y);
    return fits && qb_value_is_plain(rw->graph, whole) && qb_value_is_plain(rw->graph, packed)
               ? packed
               : -1;
}

/* q, k and v as parts of one value. */
static bool match_packed(const qb_rewrite *rw, const int32_t split[3], pattern *p) {
    double scale = p->scale, one = 1;
    const int32_t q = packed_of(rw, split[0], 0, false, &scale);
    if (q < 0 || packed_of(rw, split[1], 1, true, &scale) != q ||
        packed_of(rw, split[2], 2, false, &one) != q || one != 1)
        return false;
    p->packed = p->in[0] = p->in[1] = p->in[2] = q;
    p->scale = scale;
    return true;
}

static bool match_apart(const qb_rewrite *rw, const int32_t split[3], pattern *p) {
    double scale = p->scale, one = 1;
    const int32_t in[3] = {fused_of(rw, split[0], false, &scale),
                           fused_of(rw, split[1], true, &scale),
                           fused_of(rw, split[2], false, &one)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0 || one != 1) return false;
    memcpy(p->in, in, sizeof in);
    p->scale = scale;
    return true;
}

/* Splits vanish only if q, k, v and the result all have them. */
static bool match_fused(const qb_rewrite *rw, const int32_t split[3], int32_t y, pattern *p) {
    const qb_shape *heads = shape_of(rw, y);
    pattern found = *p;
    int32_t transposed = qb_uses_sole_user(rw->graph, &rw->uses, y);
    if (transposed < 0 || heads->rank != 4 ||
        (!match_apart(rw, split, &found) && !match_packed(rw, split, &found)))
        return false;
    const qb_node *transpose = &rw->graph->nodes[transposed];
    if (!qb_node_is(transpose, "Transpose") || !has_perm(transpose, 0, 2, 1, 3)) return false;
    int32_t tokens = transpose->out[0];
    int32_t join = qb_uses_sole_user(rw->graph, &rw->uses, tokens);
    if (join < 0 || !qb_node_is(&rw->graph->nodes[join], "Reshape")) return false;
    int32_t out = rw->graph->nodes[join].out[0];
    const qb_shape *to = shape_of(rw, out);
    if (to->rank != 3 || to->dim[0] != heads->dim[0] || to->dim[1] != heads->dim[2] ||
        !vanishes(rw, y, out) || !vanishes(rw, tokens, out))
        return false;
    *p = found;
    p->last = join;
    p->out = out;
    p->heads = heads->dim[1];
    return true;
}

/* Does the value have what comes before the last two dimensions of y? */
static bool has_items_of(const qb_rewrite *rw, int32_t value, int32_t y) {
    const qb_shape *a = shape_of(rw, value), *b = shape_of(rw, y);
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)(b->rank - 2) * sizeof *b->dim) == 0;
}

/* Heads in front: k^T must be a Transpose, which then leaves the last two axes as they are. */
static bool match_split(const qb_rewrite *rw, const int32_t split[3], int32_t y, pattern *p) {
    double scale = p->scale;
    int32_t q = past_factor(rw, split[0], &scale), k = past_factor(rw, split[1], &scale);
    int32_t rank = shape_of(rw, y)->rank, transposed = qb_rewrite_from(rw, k, "Transpose");
    if (rank < 3 || transposed < 0) return false;
    for (int32_t i = 0; i < 3; i++)
        if (!has_items_of(rw, split[i], y)) return false;
    if (qb_node_ints(&rw->graph->nodes[transposed], "perm").n != rank) return false;
    if (rank != 4 && p->in[3] >= 0 && shape_of(rw, p->in[3])->rank > 2) return false;
    p->in[0] = q;
    p->in[1] = k;
    p->in[2] = split[2];
    p->out = y;
    p->heads = rank > 3 ? shape_of(rw, y)->dim[rank - 3] : 1;
    p->scale = scale;
    p->swap = transposed;
    return true;
}

/* The product behind the scores, with what is between: a mask, then factors. */
static const qb_node *match_scores(const qb_rewrite *rw, int32_t scores, pattern *p) {
    const qb_node *add = inner(rw, scores, "Add");
    for (int32_t side = 0; side < (add ? 2 : 1); side++) {
        double scale = 1;
        int32_t product = past_factor(rw, add ? add->in[side] : scores, &scale);
        const qb_node *node = inner(rw, product, "MatMul");
        if (!node || (add && !qb_value_is_plain(rw->graph, add->in[1 - side]))) continue;
        p->in[3] = add ? add->in[1 - side] : -1;
        p->scale = scale;
        return node;
    }
    return NULL;
}

/* The Softmax behind a value, or behind Where(IsNaN(s), 0, s): a line where everything is masked is
 * 0 in an Attention. */
static const qb_node *match_softmax(const qb_rewrite *rw, int32_t value) {
    const qb_node *guard = inner(rw, value, "Where");
    if (!guard) return inner(rw, value, "Softmax");
    double otherwise;
    int32_t s = guard->in[2], softmax = qb_rewrite_from(rw, s, "Softmax");
    const int32_t test = qb_rewrite_from(rw, guard->in[0], "IsNaN");
    if (softmax < 0 || test < 0 || rw->graph->nodes[test].in[0] != s ||
        rw->uses.n_users[guard->in[0]] != 1 || qb_graph_is_output(rw->graph, guard->in[0]) ||
        rw->uses.n_users[s] != 2 || !vanishes(rw, s, -1) ||
        !qb_value_scalar(rw->graph, guard->in[1], &otherwise) || otherwise != 0)
        return NULL;
    return &rw->graph->nodes[softmax];
}

static bool find(const qb_rewrite *rw, int32_t index, pattern *p) {
    const qb_node *mixing = &rw->graph->nodes[index];
    if (!qb_node_is(mixing, "MatMul")) return false;
    const qb_node *softmax = match_softmax(rw, mixing->in[0]);
    if (!softmax) return false;
    int32_t rank = shape_of(rw, softmax->in[0])->rank;
    int64_t axis = qb_node_int(softmax, "axis", -1);
    *p = (pattern){.last = index, .packed = -1, .swap = -1};
    if (axis != -1 && axis != rank - 1) return false;
    const qb_node *product = match_scores(rw, softmax->in[0], p);
    if (!product) return false;
    const int32_t split[3] = {product->in[0], product->in[1], mixing->in[1]};
    for (int32_t i = 0; i < 3; i++)
        if (!qb_value_is_plain(rw->graph, split[i]) || qb_value_is_const(rw->graph, split[i]))
            return false;
    return match_fused(rw, split, mixing->out[0], p) || match_split(rw, split, mixing->out[0], p);
}

/* [..., heads, T, size] as [N, heads, T, size]. */
static qb_shape flat(qb_shape shape) {
    while (shape.rank > 4) {
        shape.dim[1] *= shape.dim[0];
        shape.rank--;
        memmove(shape.dim, shape.dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    }
    return shape;
}

/* The shape of input i; of k once its last two axes are in order. */
static qb_shape input_shape(const qb_rewrite *rw, const pattern *p, int i) {
    qb_shape shape = *shape_of(rw, p->in[i]);
    if (p->packed >= 0 && i < 3) shape.dim[2] /= 3;
    if (p->swap < 0 || i != 1) return shape;
    int64_t *last = &shape.dim[shape.rank - 1], size = last[0];
    last[0] = last[-1];
    last[-1] = size;
    return shape;
}

static qb_desc desc_of(const qb_rewrite *rw, int32_t value) {
    if (value < 0) return (qb_desc){.dtype = QB_DTYPE_NONE};
    const qb_value *v = &rw->graph->values[value];
    return (qb_desc){.dtype = v->dtype, .layout = QB_LAYOUT_ROW, .shape = v->shape, .q = v->q};
}

static bool is_accepted(const qb_rewrite *rw, const pattern *p) {
    qb_desc in[4];
    for (int i = 0; i < 4; i++) {
        in[i] = desc_of(rw, p->in[i]);
        if (p->in[i] >= 0) in[i].shape = input_shape(rw, p, i);
        if (i < 3) in[i].shape = flat(in[i].shape);
    }
    qb_problem problem = {.kind = QB_KIND_ATTENTION,
                          .n_in = p->in[3] >= 0 ? 4 : 3,
                          .in = in,
                          .out = desc_of(rw, p->out),
                          .group = p->heads,
                          .scale = (float)p->scale};
    problem.out.shape = flat(problem.out.shape);
    for (int i = 0; i < problem.n_in; i++)
        if (!qb_shape_known(&in[i].shape)) return false;
    return qb_shape_known(&problem.out.shape) && rw->accept(rw->user, &problem);
}

/* k by a Transpose of its own, without the swap. */
static qb_status transpose_keys(qb_rewrite *rw, pattern *p) {
    const qb_node *node = &rw->graph->nodes[p->swap];
    qb_ints given = qb_node_ints(node, "perm");
    int64_t perm[QB_MAX_RANK];
    int32_t x = node->in[0], n = given.n, k;
    memcpy(perm, given.v, (size_t)n * sizeof *perm);
    perm[n - 2] = given.v[n - 1];
    perm[n - 1] = given.v[n - 2];
    qb_shape shape = input_shape(rw, p, 1);
    QB_TRY(qb_rewrite_value(rw, p->in[1], "_keys", &shape, &k));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Transpose", ""), &x, 1, k));
    p->in[1] = k;
    return qb_node_set_ints(rw, rw->graph->n_nodes - 1, "perm", perm, n);
}

/* The parts of what is packed. */
static qb_status take_apart(qb_rewrite *rw, pattern *p) {
    static const char *const suffix[3] = {"_queries", "_keys", "_values"};
    const qb_shape shape = input_shape(rw, p, 0);
    const int64_t width = shape.dim[2], widths[3] = {width, width, width};
    int32_t in[2] = {p->packed, -1};
    QB_TRY(qb_rewrite_int64s(rw, p->packed, "_widths", widths, 3, &in[1]));
    for (int i = 0; i < 3; i++)
        QB_TRY(qb_rewrite_value(rw, p->packed, suffix[i], &shape, &p->in[i]));
    const int32_t split =
        qb_graph_add_node(rw->cx, rw->graph, qb_op_find("Split", ""), "", in, 2, p->in, 3);
    if (split < 0) return rw->cx->code;
    qb_rewrite_touch(rw, split);
    return qb_node_set_int(rw, split, "axis", 2);
}

/* A Reshape makes `to` of `from`. */
static qb_status reshape(qb_rewrite *rw, int32_t from, const qb_shape *shape, int32_t to) {
    int32_t in[2] = {from, -1};
    QB_TRY(qb_rewrite_int64s(rw, to, "_shape", shape->dim, shape->rank, &in[1]));
    return qb_rewrite_append(rw, qb_op_find("Reshape", ""), in, 2, to);
}

/* Queries, keys and values by views of four dimensions, and the result by a view of it. */
static qb_status flatten(qb_rewrite *rw, pattern *p) {
    static const char *const suffix[3] = {"_queries", "_keys", "_values"};
    for (int i = 0; i < 3; i++) {
        const qb_shape shape = flat(*shape_of(rw, p->in[i]));
        const int32_t from = p->in[i];
        QB_TRY(qb_rewrite_value(rw, from, suffix[i], &shape, &p->in[i]));
        QB_TRY(reshape(rw, from, &shape, p->in[i]));
    }
    const qb_shape whole = *shape_of(rw, p->out), shape = flat(whole);
    const int32_t to = p->out;
    QB_TRY(qb_rewrite_value(rw, to, "_heads", &shape, &p->out));
    return reshape(rw, p->out, &whole, to);
}

static qb_status rewrite(qb_rewrite *rw, pattern *p) {
    if (p->packed >= 0) QB_TRY(take_apart(rw, p));
    if (p->swap >= 0) QB_TRY(transpose_keys(rw, p));
    if (shape_of(rw, p->out)->rank > 4) QB_TRY(flatten(rw, p));
    bool joined = shape_of(rw, p->in[0])->rank == 3;
    QB_TRY(qb_rewrite_node(rw, p->last, qb_op_find("Attention", ""), p->in, p->in[3] >= 0 ? 4 : 3,
                           p->out));
    QB_TRY(qb_node_set_float(rw, p->last, "scale", (float)p->scale));
    for (int i = 0; joined && i < 2; i++)
        QB_TRY(qb_node_set_int(rw, p->last, i ? "kv_num_heads" : "q_num_heads", p->heads));
    qb_rewrite_changed(rw);
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    pattern p;
    return find(rw, index, &p) && is_accepted(rw, &p) ? rewrite(rw, &p) : QB_OK;
}

qb_status qb_fuse_attention(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                            int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph, .accept = accept, .user = user};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

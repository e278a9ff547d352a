/* RMS normalization (Zhang and Sennrich 2019) as exporters write it,
 *
 *   x / sqrt(mean(x^2) + eps) * scale   ->   RMSNormalization(x, scale)
 *
 * over the last axes; the quotient may be a product with a reciprocal or a power, and the scale may
 * be missing. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"

typedef struct pattern {
    int32_t x, axis;
    double eps;
} pattern;

/* The node that makes a value which nothing but the pattern knows; NULL: none of this operator. */
static const qb_node *inner(const qb_rewrite *rw, int32_t value, const char *op) {
    const int32_t node = value < 0 ? -1 : qb_rewrite_from(rw, value, op);
    const bool known = node >= 0 && qb_value_is_plain(rw->graph, value) &&
                       !rw->graph->values[value].kept && !qb_graph_is_output(rw->graph, value);
    return known ? &rw->graph->nodes[node] : NULL;
}

static bool is_scalar(const qb_rewrite *rw, int32_t value, double wanted) {
    double v;
    return value >= 0 && qb_value_scalar(rw->graph, value, &v) && v == wanted;
}

/* The input of a mean over the last axes, from *axis on; -1: it is none. */
static int32_t mean_of(const qb_rewrite *rw, int32_t value, int32_t *axis) {
    const qb_node *mean = inner(rw, value, "ReduceMean");
    const qb_node *pool = mean ? NULL : inner(rw, value, "GlobalAveragePool");
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0;
    if (!mean && !pool) return -1;
    const qb_node *node = mean ? mean : pool;
    const int32_t rank = rw->graph->values[node->in[0]].shape.rank;
    if (pool) {
        *axis = 2;
        return pool->in[0];
    }
    if (rank < 1 || !qb_node_int(mean, "keepdims", 1) ||
        !qb_value_int_list(rw->graph, qb_node_in(mean, 1), axes, QB_MAX_RANK, &n) || n < 1)
        return -1;
    uint32_t seen = 0;
    for (int32_t i = 0; i < n; i++) seen |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
    *axis = rank - n;
    return seen == (1u << rank) - (1u << *axis) ? mean->in[0] : -1;
}

/* Is the value x^2, of p's x? */
static bool is_square(const qb_rewrite *rw, int32_t value, const pattern *p) {
    const qb_node *power = inner(rw, value, "Pow"), *mul = inner(rw, value, "Mul");
    return (power && power->in[0] == p->x && is_scalar(rw, power->in[1], 2)) ||
           (mul && mul->in[0] == p->x && mul->in[1] == p->x);
}

/* Is the value mean(x^2) + eps? Fills axis and eps. */
static bool is_spread(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *add = inner(rw, value, "Add");
    for (int32_t side = 0; add && side < 2; side++) {
        const int32_t square = mean_of(rw, add->in[side], &p->axis);
        if (square >= 0 && is_square(rw, square, p))
            return qb_value_scalar(rw->graph, add->in[1 - side], &p->eps);
    }
    return false;
}

static bool is_root(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *root = inner(rw, value, "Sqrt");
    return root && is_spread(rw, root->in[0], p);
}

static bool is_inverse_root(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *div = inner(rw, value, "Div"), *power = inner(rw, value, "Pow");
    const qb_node *reciprocal = inner(rw, value, "Reciprocal");
    return (div && is_scalar(rw, div->in[0], 1) && is_root(rw, div->in[1], p)) ||
           (reciprocal && is_root(rw, reciprocal->in[0], p)) ||
           (power && is_scalar(rw, power->in[1], -0.5) && is_spread(rw, power->in[0], p));
}

static bool is_normal(const qb_rewrite *rw, const qb_node *node, pattern *p) {
    if (qb_node_is(node, "Div")) {
        p->x = node->in[0];
        return is_root(rw, node->in[1], p);
    }
    for (int32_t side = 0; qb_node_is(node, "Mul") && side < 2; side++) {
        p->x = node->in[side];
        if (is_inverse_root(rw, node->in[1 - side], p)) return true;
    }
    return false;
}

/* A constant for each element that is normalized. */
static bool is_scale(const qb_graph *graph, int32_t value, const pattern *p) {
    if (!qb_value_floats(graph, value)) return false;
    const qb_shape *s = &graph->values[value].shape, *x = &graph->values[p->x].shape;
    const int32_t first = x->rank - s->rank;
    bool fits = first >= 0 && s->rank >= x->rank - p->axis;
    for (int32_t d = 0; fits && d < s->rank; d++)
        fits = s->dim[d] == (first + d < p->axis ? 1 : x->dim[first + d]);
    return fits;
}

/* The product with a scale behind node `index`, if that is all that reads it; -1. */
static int32_t scaled(const qb_rewrite *rw, int32_t index, const pattern *p, int32_t *scale) {
    const int32_t value = rw->graph->nodes[index].out[0];
    const int32_t user = qb_uses_sole_user(rw->graph, &rw->uses, value);
    if (user < 0 || !inner(rw, value, NULL) || !qb_node_is(&rw->graph->nodes[user], "Mul"))
        return -1;
    const qb_node *mul = &rw->graph->nodes[user];
    *scale = mul->in[mul->in[0] == value];
    return is_scale(rw->graph, *scale, p) ? user : -1;
}

static qb_status make_ones(qb_rewrite *rw, int32_t like, const pattern *p, int32_t *out) {
    const qb_shape *x = &rw->graph->values[p->x].shape;
    qb_shape shape = {.rank = x->rank - p->axis};
    for (int32_t d = p->axis; d < x->rank; d++) shape.dim[d - p->axis] = x->dim[d];
    const int64_t n = qb_shape_count(&shape);
    QB_FREED float *ones = qb_alloc(rw->cx, (size_t)n, sizeof *ones);
    if (!ones) return rw->cx->code;
    for (int64_t i = 0; i < n; i++) ones[i] = 1.0f;
    return qb_rewrite_floats(rw, like, "_ones", &shape, ones, out);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    pattern p;
    int32_t in[2];
    if (!is_normal(rw, &rw->graph->nodes[index], &p)) return QB_OK;
    const qb_value *x = &rw->graph->values[p.x];
    if ((x->dtype != QB_DTYPE_F32 && x->q.n == 0) || !qb_shape_known(&x->shape) ||
        qb_shape_count(&x->shape) == 0 || p.axis >= x->shape.rank ||
        !qb_shape_surely_equal(&x->shape, &rw->graph->values[rw->graph->nodes[index].out[0]].shape))
        return QB_OK;
    in[0] = p.x;
    const int32_t last = scaled(rw, index, &p, &in[1]);
    const int32_t root = last < 0 ? index : last, out = rw->graph->nodes[root].out[0];
    if (last < 0) QB_TRY(make_ones(rw, out, &p, &in[1]));
    if (last >= 0) qb_rewrite_kill(rw, index);
    QB_TRY(qb_rewrite_node(rw, root, qb_op_find("RMSNormalization", ""), in, 2, out));
    QB_TRY(qb_node_set_int(rw, root, "axis", p.axis));
    QB_TRY(qb_node_set_float(rw, root, "epsilon", (float)p.eps));
    qb_rewrite_changed(rw);
    return QB_OK;
}

qb_status qb_fuse_rms_norms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

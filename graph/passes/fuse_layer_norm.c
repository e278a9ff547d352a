/* (x - mean) / sqrt(mean((x - mean)^2) + eps) * gamma + beta over the last axes becomes
 * LayerNormalization. */
#include "graph/passes_internal.h"

/* The first axis of a ReduceMean with keepdims over all axes from it to the last, or -1. */
static int32_t first_axis(const qb_rewrite *rw, const qb_node *mean) {
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0, rank = rw->graph->values[mean->in[0]].shape.rank;
    if (rank < 1 || !qb_node_int(mean, "keepdims", 1)) return -1;
    if (!qb_value_int_list(rw->graph, qb_node_in(mean, 1), axes, QB_MAX_RANK, &n) || n < 1)
        return -1;
    uint32_t seen = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank) return -1;
        seen |= 1u << axis;
    }
    uint32_t wanted = (1u << rank) - (1u << (rank - n));
    return seen == wanted ? rank - n : -1;
}

typedef struct pattern {
    int32_t x, gamma, beta, axis;
    double eps;
} pattern;

/* Is the value x - mean(x)? Fills x and axis. */
static bool match_centred(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *sub = qb_rewrite_behind(rw, value, "Sub");
    const qb_node *mean = sub ? qb_rewrite_behind(rw, sub->in[1], "ReduceMean") : NULL;
    if (!mean || mean->in[0] != sub->in[0] || !qb_value_is_plain(rw->graph, sub->in[0]))
        return false;
    p->x = sub->in[0];
    p->axis = first_axis(rw, mean);
    return p->axis >= 0;
}

/* Is the value d^2, for p's x and axis? */
static bool match_square(const qb_rewrite *rw, int32_t value, const pattern *p) {
    const qb_node *pow_node = qb_rewrite_behind(rw, value, "Pow"),
                  *mul = qb_rewrite_behind(rw, value, "Mul");
    double exponent;
    int32_t d;
    if (pow_node && qb_value_scalar(rw->graph, pow_node->in[1], &exponent) && exponent == 2)
        d = pow_node->in[0];
    else if (mul && mul->in[0] == mul->in[1])
        d = mul->in[0];
    else
        return false;
    pattern other;
    return match_centred(rw, d, &other) && other.x == p->x && other.axis == p->axis;
}

/* Is the value sqrt(mean(d^2) + eps)? Fills eps. */
static bool match_deviation(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *root = qb_rewrite_behind(rw, value, "Sqrt");
    const qb_node *add = root ? qb_rewrite_behind(rw, root->in[0], "Add") : NULL;
    for (int32_t side = 0; add && side < 2; side++) {
        const qb_node *mean = qb_rewrite_behind(rw, add->in[side], "ReduceMean");
        if (mean && qb_value_scalar(rw->graph, add->in[1 - side], &p->eps))
            return first_axis(rw, mean) == p->axis && match_square(rw, mean->in[0], p);
    }
    return false;
}

static bool match_normalized(const qb_rewrite *rw, int32_t value, pattern *p) {
    const qb_node *div = qb_rewrite_behind(rw, value, "Div");
    return div && match_centred(rw, div->in[0], p) && match_deviation(rw, div->in[1], p);
}

/* A constant of exactly the normalized axes' shape, as the operator wants it. */
static bool fits(const qb_graph *graph, int32_t value, const pattern *p) {
    const qb_shape *x = &graph->values[p->x].shape;
    if (!qb_value_floats(graph, value)) return false;
    const qb_shape *s = &graph->values[value].shape;
    if (s->rank != x->rank - p->axis) return false;
    for (int32_t i = 0; i < s->rank; i++)
        if (s->dim[i] != x->dim[p->axis + i]) return false;
    return true;
}

static bool match_all(const qb_rewrite *rw, const qb_node *add, pattern *p) {
    for (int32_t side = 0; side < 2; side++) {
        const qb_node *mul = qb_rewrite_behind(rw, add->in[side], "Mul");
        for (int32_t factor = 0; mul && factor < 2; factor++) {
            if (!match_normalized(rw, mul->in[factor], p)) continue;
            p->gamma = mul->in[1 - factor];
            p->beta = add->in[1 - side];
            return fits(rw->graph, p->gamma, p) && fits(rw->graph, p->beta, p);
        }
    }
    return false;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    const qb_op *op = qb_op_find("LayerNormalization", "");
    pattern p = {0};
    if (!op || !qb_node_is(node, "Add") || !match_all(rw, node, &p)) return QB_OK;
    int32_t in[3] = {p.x, p.gamma, p.beta};
    QB_TRY(qb_rewrite_node(rw, index, op, in, 3, node->out[0]));
    QB_TRY(qb_node_set_int(rw, index, "axis", p.axis));
    QB_TRY(qb_node_set_float(rw, index, "epsilon", (float)p.eps));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_fuse_layer_norm = {
    "fuse-layer-norm", "recognizes LayerNormalization written with ReduceMean", .match = match};

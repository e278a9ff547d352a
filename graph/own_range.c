/* The range of an image that a graph normalizes itself. */
#include <math.h>

#include "graph/rewrite_internal.h"
#include "kernels/ref.h"

enum { PIXELS_ABOVE = 2, VISITS_MAX = 256 }; /* of hostile graphs, all of whose nodes move */

/* What moves numbers and leaves their size alone. */
static bool is_move(const qb_op *op) {
    return op->qrule == QB_QRULE_SAME_SCALE || qb_op_has(op, QB_TRAIT_CONVERT);
}

/* The largest magnitude of a constant; NaN: the value is none. */
static double largest_of(const qb_graph *graph, int32_t value) {
    const qb_value *v = value >= 0 ? &graph->values[value] : NULL;
    double largest = 0;
    if (!v || !v->data) return NAN;
    for (int64_t i = 0; i < qb_shape_count(&v->shape); i++)
        largest = fmax(largest, fabs(qb_number_get(v->dtype, v->data, i)));
    return largest;
}

/* A mean or a deviation of pixels is above those of shares, which are below 1. */
static qb_own_range range_of(const qb_graph *graph, const qb_node *node, int32_t from) {
    const int32_t side = qb_node_in(node, 1) == from;
    const double c = largest_of(graph, qb_node_in(node, 1 - side));
    const bool divides = node->op->kernel.binary == QB_BINARY_DIV;
    if (qb_affine_of(node) == QB_AFFINE_NONE || isnan(c) || (divides && side == 1))
        return QB_OWN_RANGE_NONE;
    const double mean_or_deviation =
        divides || qb_affine_of(node) == QB_AFFINE_SHIFT ? c : 1 / fmax(c, 1e-9);
    return mean_or_deviation > PIXELS_ABOVE ? QB_OWN_RANGE_PIXELS : QB_OWN_RANGE_SHARES;
}

/* `visits`: how many more values may be looked at. */
static qb_own_range follow(const qb_graph *graph, const qb_uses *uses, int32_t value, int *visits) {
    for (int32_t i = 0; i < uses->n_users[value] && *visits > 0; i++) {
        const qb_node *node = &graph->nodes[uses->users[value][i]];
        const bool moves = is_move(node->op) && node->n_out > 0 && node->out[0] >= 0;
        --*visits;
        const qb_own_range range =
            moves ? follow(graph, uses, node->out[0], visits) : range_of(graph, node, value);
        if (range != QB_OWN_RANGE_NONE) return range;
    }
    return QB_OWN_RANGE_NONE;
}

qb_status qb_graph_own_range(qb_ctx *cx, const qb_graph *graph, int32_t value, qb_own_range *out) {
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    QB_TRY(qb_uses_build(cx, graph, &uses));
    int visits = VISITS_MAX;
    *out = follow(graph, &uses, value, &visits);
    return QB_OK;
}

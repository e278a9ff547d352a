/* x * (clip(x + 3, 0, 6) / 6) as exporters write it becomes HardSwish, and the factor alone becomes
 * HardSigmoid(alpha 1/6, beta 1/2). Sigmoid * x stays: ONNX has no operator for it, the fusion
 * groups take it. */
#include <math.h>

#include "graph/passes_internal.h"

#define TOLERANCE 1e-5

static bool close_to(double value, double wanted) { return fabs(value - wanted) <= TOLERANCE; }

/* Of values between which there are only operators with x and single numbers: with as many
 * dimensions they have the same, known or not. */
static bool same_shape(const qb_graph *graph, int32_t a, int32_t b) {
    return graph->values[a].shape.rank >= 0 &&
           graph->values[a].shape.rank == graph->values[b].shape.rank;
}

/* `node` op(a, number) with the number on the right, or on either side when `commutes`: gives a. */
static int32_t with_number(const qb_graph *graph, const qb_node *node, double wanted,
                           bool commutes) {
    double number;
    if (qb_value_scalar(graph, node->in[1], &number) && close_to(number, wanted))
        return node->in[0];
    if (commutes && qb_value_scalar(graph, node->in[0], &number) && close_to(number, wanted))
        return node->in[1];
    return -1;
}

/* The v of v / 6 or v * (1 / 6), or -1. */
static int32_t sixth(const qb_graph *graph, const qb_node *node) {
    if (qb_node_is(node, "Div")) return with_number(graph, node, 6, false);
    if (qb_node_is(node, "Mul")) return with_number(graph, node, 1.0 / 6, true);
    return -1;
}

/* The x of clip(x + 3, 0, 6), or -1. */
static int32_t ramp(const qb_rewrite *rw, int32_t value) {
    const qb_graph *graph = rw->graph;
    int32_t clip = qb_rewrite_from(rw, value, "Clip");
    double low, high;
    if (clip < 0 || !qb_value_is_plain(graph, value)) return -1;
    const qb_node *node = &graph->nodes[clip];
    if (!qb_value_scalar(graph, qb_node_in(node, 1), &low) || !close_to(low, 0)) return -1;
    if (!qb_value_scalar(graph, qb_node_in(node, 2), &high) || !close_to(high, 6)) return -1;
    int32_t add = qb_rewrite_from(rw, node->in[0], "Add");
    if (add < 0 || !qb_value_is_plain(graph, node->in[0])) return -1;
    int32_t x = with_number(graph, &graph->nodes[add], 3, true);
    return x >= 0 && qb_value_is_plain(graph, x) && same_shape(graph, x, value) ? x : -1;
}

/* The other factor of a product that has `factor`, or -1. */
static int32_t other_factor(const qb_node *node, int32_t factor) {
    return node->in[0] == factor ? node->in[1] : node->in[1] == factor ? node->in[0] : -1;
}

static bool is_hard_sigmoid_of(const qb_rewrite *rw, int32_t value, int32_t x) {
    int32_t index = qb_rewrite_from(rw, value, "HardSigmoid");
    if (index < 0 || !qb_value_is_plain(rw->graph, value)) return false;
    const qb_node *node = &rw->graph->nodes[index];
    return node->in[0] == x && close_to(qb_node_float(node, "alpha", 0.2f), 1.0 / 6) &&
           close_to(qb_node_float(node, "beta", 0.5f), 0.5);
}

/* x where the node computes x * hard_sigmoid(x), or (x * ramp(x)) / 6; else -1. */
static int32_t hard_swish_input(const qb_rewrite *rw, const qb_node *node) {
    const qb_graph *graph = rw->graph;
    int32_t product = sixth(graph, node);
    int32_t mul = product < 0 ? -1 : qb_rewrite_from(rw, product, "Mul");
    if (mul >= 0 && qb_value_is_plain(graph, product)) {
        const int32_t *in = graph->nodes[mul].in;
        for (int32_t side = 0; side < 2; side++) {
            int32_t x = ramp(rw, in[side]);
            if (x >= 0 && x == in[1 - side]) return x;
        }
    }
    if (!qb_node_is(node, "Mul")) return -1;
    for (int32_t side = 0; side < 2; side++) {
        int32_t x = other_factor(node, node->in[side]);
        if (x >= 0 && qb_value_is_plain(graph, x) && is_hard_sigmoid_of(rw, node->in[side], x))
            return x;
    }
    return -1;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "Mul") && !qb_node_is(node, "Div")) return QB_OK;
    int32_t out = node->out[0], x = hard_swish_input(rw, node);
    if (x >= 0 && same_shape(graph, x, out)) {
        QB_TRY(qb_rewrite_node(rw, index, qb_op_find("HardSwish", ""), &x, 1, out));
        return qb_rewrite_changed(rw);
    }
    int32_t clipped = sixth(graph, node);
    x = clipped < 0 ? -1 : ramp(rw, clipped);
    if (x < 0 || !same_shape(graph, x, out)) return QB_OK;
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("HardSigmoid", ""), &x, 1, out));
    QB_TRY(qb_node_set_float(rw, index, "alpha", 1.0f / 6));
    QB_TRY(qb_node_set_float(rw, index, "beta", 0.5f));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_fuse_hard_swish = {
    "fuse-hard-swish", "recognizes HardSigmoid and HardSwish written with Clip", .match = match};

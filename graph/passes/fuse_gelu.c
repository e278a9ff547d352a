/* Gelu as exporters write it: 0.5 x (1 + erf(x / sqrt 2)), or with
 * tanh(sqrt(2 / pi) (x + 0.044715 x^3)) in place of erf; the factors come in any order. */
#include <math.h>

#include "graph/passes_internal.h"

static bool close_to(double value, double wanted) {
    return fabs(value - wanted) <= 1e-4 * fabs(wanted);
}

/* a where the node is a `op` number or number `op` a; else -1. */
static int32_t beside(const qb_rewrite *rw, const qb_node *node, double wanted) {
    for (int32_t side = 0; node && side < 2; side++) {
        double number;
        if (qb_value_scalar(rw->graph, node->in[side], &number) && close_to(number, wanted))
            return node->in[1 - side];
    }
    return -1;
}

/* Is the value x / sqrt 2? */
static bool is_scaled_input(const qb_rewrite *rw, int32_t value, int32_t x) {
    const qb_node *div = qb_rewrite_behind(rw, value, "Div");
    double number;
    if (div)
        return div->in[0] == x && qb_value_scalar(rw->graph, div->in[1], &number) &&
               close_to(number, sqrt(2));
    return beside(rw, qb_rewrite_behind(rw, value, "Mul"), sqrt(0.5)) == x;
}

static bool is_cube(const qb_rewrite *rw, int32_t value, int32_t x) {
    const qb_node *pow_node = qb_rewrite_behind(rw, value, "Pow"),
                  *mul = qb_rewrite_behind(rw, value, "Mul");
    double number;
    if (pow_node)
        return pow_node->in[0] == x && qb_value_scalar(rw->graph, pow_node->in[1], &number) &&
               number == 3;
    for (int32_t side = 0; mul && side < 2; side++) {
        const qb_node *square = qb_rewrite_behind(rw, mul->in[side], "Mul");
        if (mul->in[1 - side] == x && square && square->in[0] == x && square->in[1] == x)
            return true;
    }
    return false;
}

/* Is the value sqrt(2 / pi) (x + 0.044715 x^3)? */
static bool is_tanh_argument(const qb_rewrite *rw, int32_t value, int32_t x) {
    int32_t sum = beside(rw, qb_rewrite_behind(rw, value, "Mul"), sqrt(2 / M_PI));
    const qb_node *add = sum < 0 ? NULL : qb_rewrite_behind(rw, sum, "Add");
    for (int32_t side = 0; add && side < 2; side++) {
        if (add->in[1 - side] != x) continue;
        int32_t cube = beside(rw, qb_rewrite_behind(rw, add->in[side], "Mul"), 0.044715);
        if (cube >= 0 && is_cube(rw, cube, x)) return true;
    }
    return false;
}

/* Is the value 1 + erf(...) or 1 + tanh(...) of x? Says which. */
static bool is_gate(const qb_rewrite *rw, int32_t value, int32_t x, bool *tanh_approximation) {
    int32_t inner = beside(rw, qb_rewrite_behind(rw, value, "Add"), 1);
    const qb_node *erf_node = inner < 0 ? NULL : qb_rewrite_behind(rw, inner, "Erf");
    const qb_node *tanh_node = inner < 0 ? NULL : qb_rewrite_behind(rw, inner, "Tanh");
    *tanh_approximation = tanh_node != NULL;
    if (erf_node) return is_scaled_input(rw, erf_node->in[0], x);
    return tanh_node && is_tanh_argument(rw, tanh_node->in[0], x);
}

/* x of the product of two values where one is the gate of the other; else -1. */
static int32_t gated(const qb_rewrite *rw, const qb_node *mul, bool *tanh_approximation) {
    for (int32_t side = 0; mul && side < 2; side++)
        if (is_gate(rw, mul->in[side], mul->in[1 - side], tanh_approximation))
            return mul->in[1 - side];
    return -1;
}

/* The node multiplies x, 1/2 and the gate; the half may stand beside any of the other two. */
static int32_t gelu_input(const qb_rewrite *rw, const qb_node *node, bool *tanh_approximation) {
    int32_t product = beside(rw, node, 0.5);
    if (product >= 0) return gated(rw, qb_rewrite_behind(rw, product, "Mul"), tanh_approximation);
    for (int32_t side = 0; side < 2; side++) {
        int32_t gate = node->in[side], other = node->in[1 - side];
        int32_t x = beside(rw, qb_rewrite_behind(rw, other, "Mul"), 0.5); /* (x / 2) gate */
        if (x >= 0 && is_gate(rw, gate, x, tanh_approximation)) return x;
        gate = beside(rw, qb_rewrite_behind(rw, gate, "Mul"), 0.5); /* x (gate / 2) */
        if (gate >= 0 && is_gate(rw, gate, other, tanh_approximation)) return other;
    }
    return -1;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_op *op = qb_op_find("Gelu", "");
    if (!op || !qb_node_is(node, "Mul")) return QB_OK;
    bool tanh_approximation = false;
    int32_t out = node->out[0], x = gelu_input(rw, node, &tanh_approximation);
    if (x < 0 || !qb_value_is_plain(graph, x)) return QB_OK;
    /* the others are single numbers: with as many dimensions, it has the same, known or not */
    if (graph->values[x].shape.rank < 0 ||
        graph->values[x].shape.rank != graph->values[out].shape.rank)
        return QB_OK;
    QB_TRY(qb_rewrite_node(rw, index, op, &x, 1, out));
    if (tanh_approximation) QB_TRY(qb_node_set_string(rw, index, "approximate", "tanh"));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_fuse_gelu = {"fuse-gelu", "recognizes Gelu written with Erf or Tanh",
                                   .match = match};

/* What a node is, from the traits of its operator and from its attributes. */
#include "graph/graph_internal.h"
#include "graph/rewrite_internal.h"

bool qb_node_is_view(const qb_node *node) {
    if (!node->op || !qb_op_has(node->op, QB_TRAIT_VIEW) || node->in[0] < 0 || node->out[0] < 0)
        return false;
    /* Whether Dropout trains, an input may tell: its definition refuses to. */
    if (qb_node_in(node, 2) >= 0) return false;
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return false;
    return true;
}

/* Inputs that broadcast have their items along the first of all dimensions only when they have as
 * many as the result. */
static bool broadcasts_items(const qb_graph *graph, const qb_node *node) {
    const int32_t rank = graph->values[node->out[0]].shape.rank;
    for (int32_t i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && !qb_value_is_const(graph, node->in[i]) &&
            graph->values[node->in[i]].shape.rank != rank)
            return false;
    return true;
}

/* A product takes rows of its first operand alone. */
static bool has_constant_weights(const qb_graph *graph, const qb_node *node) {
    for (int32_t i = 1; i < node->n_in; i++)
        if (node->in[i] >= 0 && !qb_value_is_const(graph, node->in[i])) return false;
    return graph->values[node->in[0]].shape.rank >= 2 && !qb_node_int(node, "transA", 0);
}

bool qb_node_is_itemwise(const qb_graph *graph, const qb_node *node) {
    const uint32_t traits =
        QB_TRAIT_ITEMWISE | QB_TRAIT_ELEMENTWISE | QB_TRAIT_VIEW | QB_TRAIT_AXIS;
    if (!node->op || !(node->op->traits & traits) || node->n_in < 1 || node->in[0] < 0)
        return false;
    if (qb_node_int(node, "training_mode", 0)) return false; /* statistics of the whole batch */
    const int32_t rank = graph->values[node->in[0]].shape.rank;
    const int64_t axis = qb_node_int(node, "axis", -1);
    const qb_ints perm = qb_node_ints(node, "perm");
    if (qb_attr_find(node->op, "axis") && (axis < 0 ? axis + rank : axis) == 0) return false;
    if (qb_attr_find(node->op, "perm") && (perm.n == 0 || perm.v[0] != 0)) return false;
    if (node->op->weight_input >= 0) return has_constant_weights(graph, node);
    return !qb_op_has(node->op, QB_TRAIT_ELEMENTWISE) || broadcasts_items(graph, node);
}

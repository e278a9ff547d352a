/* A function of one value behind views and transpositions of a product, as GELU behind Flatten and
 * Transpose of a Mix-FFN is, moves before them: there it is the product's epilogue. */
#include "graph/passes_internal.h"

#define MOST_VIEWS 8 /* between the product and the function */

static bool moves_all(const qb_node *node) {
    return qb_node_is_view(node) ||
           (qb_op_has(node->op, QB_TRAIT_REORDER) && qb_reordered_inputs(node) == 1);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    if (!qb_op_has(node->op, QB_TRAIT_ELEMENTWISE) || node->n_in != 1 ||
        !qb_value_is_plain(rw->graph, node->out[0]) || qb_op_has(node->op, QB_TRAIT_CONVERT))
        return QB_OK;
    const int32_t view = qb_rewrite_made_for(rw, node->in[0], index);
    int32_t from = view, n = 0;
    for (; n < MOST_VIEWS && from >= 0 && moves_all(&rw->graph->nodes[from]); n++)
        from = qb_rewrite_made_for(rw, rw->graph->nodes[from].in[0], from);
    if (n == 0 || from < 0 || rw->graph->nodes[from].op->qrule != QB_QRULE_COMPUTE) return QB_OK;
    return qb_rewrite_before(rw, index, 0, view, "_before_view");
}

const qb_pass qb_pass_unary_before_view = {
    "unary-before-view",
    "moves functions of one value to the product before views and transpositions", .match = match};

/* Mul, Div, Add or Sub by a constant a channel behind a view of a product's rows, as
 * BatchNormalization behind Flatten is, moves before the view, to the product that it can be folded
 * into. */
#include "graph/passes_internal.h"

/* The view between a product with the channels last, read by it alone, and operand `side` of the
 * node, which alone reads it and keeps the channels; -1: none. */
static int32_t view_of(const qb_rewrite *rw, int32_t index, int32_t side, int64_t *channels) {
    const qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[side], view = qb_rewrite_made_for(rw, x, index);
    int32_t axis = 0;
    if (view < 0 || !qb_node_is_view(&graph->nodes[view])) return -1;
    const int32_t rows = graph->nodes[view].in[0], product = qb_rewrite_made_for(rw, rows, view);
    if (product < 0) return -1;
    const qb_shape *from = &graph->values[rows].shape, *to = &graph->values[x].shape;
    *channels = qb_affine_channels(rw, product, &axis);
    const bool last = *channels > 0 && from->rank > 0 && to->rank > 0 && axis == from->rank - 1 &&
                      from->dim[axis] == *channels && to->dim[to->rank - 1] == *channels;
    return last ? view : -1;
}

/* Does the constant mean the same for the rows as for the view, whose last dimension it varies
 * along? */
static bool is_of_channels(qb_rewrite *rw, int32_t index, int32_t side, int32_t rank,
                           int64_t channels, double *numbers) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_shape *shape = &graph->values[node->in[side]].shape;
    return graph->values[node->in[1 - side]].shape.rank <= rank &&
           qb_affine_numbers(graph, node, side, shape->rank - 1, channels, numbers) !=
               QB_AFFINE_NONE;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (qb_affine_of(node) == QB_AFFINE_NONE || !qb_value_is_plain(graph, node->out[0]))
        return QB_OK;
    for (int32_t side = 0; side < 2; side++) {
        int64_t channels;
        const int32_t view = view_of(rw, index, side, &channels);
        if (view < 0) continue;
        const int32_t rank = graph->values[graph->nodes[view].in[0]].shape.rank;
        double *numbers = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)channels, sizeof *numbers));
        const bool moves = is_of_channels(rw, index, side, rank, channels, numbers);
        qb_free(numbers);
        if (moves) return qb_rewrite_before(rw, index, side, view, "_rows");
    }
    return QB_OK;
}

const qb_pass qb_pass_scale_before_view = {
    "scale-before-view",
    "moves Mul, Div, Add, Sub by a constant a channel to the product before a view",
    .match = match};

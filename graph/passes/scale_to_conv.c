/* x scale[c] + shift[c], which nothing took in, as in networks that normalize and clamp before they
 * convolve, becomes a depthwise Conv with windows of one pixel: one step with what follows, in
 * place of two over the same memory, and exact in integers, where each channel's weight has its own
 * scale. */
#include "graph/passes_internal.h"

/* The input that is no constant of a Mul or Add with one number a channel, written to `numbers`;
 * *varies: with more than one for all. -1: none. */
static int32_t scaled(const qb_graph *graph, const qb_node *node, int64_t n, double *numbers,
                      bool *varies) {
    const qb_shape *out = &graph->values[node->out[0]].shape;
    for (int32_t side = 0; side < 2; side++) {
        const int32_t x = node->in[side], constant = node->in[1 - side];
        if (qb_value_is_const(graph, x) || !qb_value_is_plain(graph, x) ||
            graph->values[x].shape.rank != out->rank || graph->values[x].shape.dim[1] != n ||
            !qb_value_channels(graph, constant, out->rank, 1, n, numbers))
            continue;
        *varies = *varies || qb_shape_count(&graph->values[constant].shape) > 1;
        return x;
    }
    return -1;
}

/* Does the normalization of groups that makes the value take in what scales its channels? */
static bool is_group_norm(const qb_rewrite *rw, int32_t value) {
    const int32_t view = qb_rewrite_from(rw, value, "Reshape");
    return view >= 0 &&
           qb_rewrite_from(rw, rw->graph->nodes[view].in[0], "InstanceNormalization") >= 0;
}

static qb_status rewrite(qb_rewrite *rw, int32_t add, int32_t mul, int64_t n, double *work) {
    const qb_graph *graph = rw->graph;
    double *scale = work, *shift = work + n;
    bool varies = false;
    scaled(graph, &graph->nodes[add], n, shift, &varies);
    const int32_t x = scaled(graph, &graph->nodes[mul], n, scale, &varies);
    if (x < 0 || !varies || is_group_norm(rw, x)) return QB_OK;
    QB_TRY(qb_affine_conv(rw, add, x, n, scale, shift));
    qb_rewrite_kill(rw, mul);
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *add = &graph->nodes[index];
    if (!qb_node_is(add, "Add") || !qb_value_is_plain(graph, add->out[0])) return QB_OK;
    const qb_shape *shape = &graph->values[add->out[0]].shape;
    const int64_t n = shape->rank < 3 || shape->rank > 5 ? 0 : shape->dim[1];
    if (n < 2) return QB_OK;
    QB_FREED double *work = QB_NEW(rw->cx, qb_alloc(rw->cx, 2 * (size_t)n, sizeof *work));
    bool varies = false;
    const int32_t product = scaled(graph, add, n, work, &varies);
    const int32_t mul = product < 0 ? -1 : qb_rewrite_from(rw, product, "Mul");
    if (mul >= 0 && qb_uses_sole_user(graph, &rw->uses, product) == index)
        QB_TRY(rewrite(rw, index, mul, n, work));
    return QB_OK;
}

const qb_pass qb_pass_scale_to_conv = {
    "scale-to-conv", "makes Mul and Add by constants a channel a depthwise Conv of one pixel",
    .match = match};

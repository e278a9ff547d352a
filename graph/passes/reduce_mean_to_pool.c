/* ReduceMean over all spatial axes is GlobalAveragePool, which engines know how to run in any
 * layout; without keepdims the ones are squeezed away afterwards. */
#include "graph/passes_internal.h"

static qb_status squeeze(qb_rewrite *rw, int32_t from, int32_t rank, int32_t out) {
    int64_t axes[QB_MAX_RANK];
    for (int32_t i = 2; i < rank; i++) axes[i - 2] = i;
    int32_t in[2] = {from, -1};
    QB_TRY(qb_rewrite_int64s(rw, out, "_axes", axes, rank - 2, &in[1]));
    return qb_rewrite_append(rw, qb_op_find("Squeeze", ""), in, 2, out);
}

/* Is the mean subtracted from what it is the mean of? That is normalization, not pooling: the mean
 * may be next to nothing, and in integers runtimes refuse a pool that scales so much. */
static bool centres(const qb_rewrite *rw, const qb_node *mean) {
    const int32_t out = mean->out[0];
    for (int32_t u = 0; u < rw->uses.n_users[out]; u++) {
        const qb_node *user = &rw->graph->nodes[rw->uses.users[out][u]];
        if (qb_node_is(user, "Sub") && user->in[0] == mean->in[0]) return true;
    }
    return false;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is_spatial_mean(graph, node) || centres(rw, node)) return QB_OK;
    int32_t x = node->in[0], out = node->out[0], pooled = out;
    qb_shape shape = graph->values[x].shape;
    bool keep = qb_node_int(node, "keepdims", 1) != 0;
    if (!qb_value_is_plain(graph, x) || !qb_value_is_plain(graph, out)) return QB_OK;
    if (!keep) {
        for (int32_t i = 2; i < shape.rank; i++) shape.dim[i] = 1;
        QB_TRY(qb_rewrite_value(rw, out, "_pooled", &shape, &pooled));
        QB_TRY(squeeze(rw, pooled, shape.rank, out));
    }
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("GlobalAveragePool", ""), &x, 1, pooled));
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_reduce_mean_to_pool = {
    "reduce-mean-to-pool", "turns ReduceMean over the spatial axes into GlobalAveragePool",
    .match = match};

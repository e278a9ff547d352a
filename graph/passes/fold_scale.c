/* Mul, Div, Add or Sub by a constant a channel right after a Conv, ConvTranspose, Gemm or MatMul
 * moves into its weight and bias. */
#include "graph/passes_internal.h"

static qb_status try_side(qb_rewrite *rw, int32_t index, int32_t side, bool *done) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t x = node->in[side], axis = 0;
    int32_t producer = qb_rewrite_from(rw, x, NULL);
    if (producer < 0 || !qb_value_is_plain(graph, x)) return QB_OK;
    if (qb_uses_sole_user(graph, &rw->uses, x) != index) return QB_OK;
    int64_t n = qb_affine_channels(rw, producer, &axis);
    if (n < 1 || graph->values[x].shape.rank < 2) return QB_OK;
    QB_FREED double *numbers = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *numbers));
    const qb_affine kind = qb_affine_numbers(graph, node, side, axis, n, numbers);
    if (kind != QB_AFFINE_NONE)
        QB_TRY(qb_affine_fold(rw, producer, kind == QB_AFFINE_SCALE ? numbers : NULL,
                              kind == QB_AFFINE_SHIFT ? numbers : NULL, node->out[0], done));
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    bool done = false;
    if (qb_affine_of(&rw->graph->nodes[index]) == QB_AFFINE_NONE) return QB_OK;
    QB_TRY(try_side(rw, index, 0, &done));
    if (!done) QB_TRY(try_side(rw, index, 1, &done));
    if (!done) return QB_OK;
    qb_rewrite_kill(rw, index);
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_fold_scale = {
    "fold-scale", "moves Mul, Div, Add, Sub by a constant a channel into weights and bias",
    .match = match};

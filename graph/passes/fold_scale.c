/* Mul, Div, Add or Sub by a constant a channel right after a Conv, ConvTranspose, Gemm or MatMul
 * moves into its weight and bias. */
#include "graph/passes_internal.h"

typedef enum arithmetic { NONE, MUL, DIV, ADD, SUB } arithmetic;

static arithmetic arithmetic_of(const qb_node *node) {
    return qb_node_is(node, "Mul")   ? MUL
           : qb_node_is(node, "Div") ? DIV
           : qb_node_is(node, "Add") ? ADD
           : qb_node_is(node, "Sub") ? SUB
                                     : NONE;
}

static qb_status fold(qb_rewrite *rw, int32_t index, int32_t producer, arithmetic kind,
                      const double *c, double *work, int64_t n, bool *done) {
    for (int64_t i = 0; i < n; i++) work[i] = kind == DIV ? 1 / c[i] : kind == SUB ? -c[i] : c[i];
    bool scales = kind == MUL || kind == DIV;
    return qb_affine_fold(rw, producer, scales ? work : NULL, scales ? NULL : work,
                          rw->graph->nodes[index].out[0], done);
}

static qb_status try_side(qb_rewrite *rw, int32_t index, int32_t side, arithmetic kind,
                          bool *done) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t x = node->in[side], constant = node->in[1 - side], axis = 0;
    int32_t producer = qb_rewrite_from(rw, x, NULL);
    if (producer < 0 || !qb_value_is_plain(graph, x)) return QB_OK;
    if (qb_uses_sole_user(graph, &rw->uses, x) != index) return QB_OK;
    int64_t n = qb_affine_channels(rw, producer, &axis);
    int32_t rank = graph->values[x].shape.rank;
    if (n < 1 || rank < 2) return QB_OK;
    double *numbers = qb_alloc(rw->cx, 2 * (size_t)n, sizeof *numbers);
    if (!numbers) return rw->cx->code;
    qb_status status = QB_OK;
    if (qb_value_channels(graph, constant, rank, axis, n, numbers))
        status = fold(rw, index, producer, kind, numbers, numbers + n, n, done);
    qb_free(numbers);
    return status;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    arithmetic kind = arithmetic_of(&rw->graph->nodes[index]);
    if (kind == NONE) return QB_OK;
    bool done = false;
    QB_TRY(try_side(rw, index, 0, kind, &done));
    if (!done && (kind == MUL || kind == ADD)) QB_TRY(try_side(rw, index, 1, kind, &done));
    if (!done) return QB_OK;
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    return qb_rewrite_each(cx, graph, match, n_changes);
}

const qb_pass qb_pass_fold_scale = {
    "fold-scale", "moves Mul, Div, Add, Sub by a constant a channel into weights and bias", run};

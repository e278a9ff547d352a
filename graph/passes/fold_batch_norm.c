/* BatchNormalization (inference form) y = x s + t with s = gamma / sqrt(var + eps) and
 * t = beta - mean s moves into the Conv, ConvTranspose, Gemm or MatMul that alone made x; where
 * there is none, or x, y or the parameters are quantized, it becomes Mul and Add. Computed in
 * double and rounded once. */
#include <math.h>

#include "graph/passes_internal.h"

static bool is_float(const qb_value *v) { return v->q.n > 0 || v->dtype == QB_DTYPE_F32; }

/* s and t, `n` each, in one block; NULL without an error when they are not constant or not finite.
 */
static qb_status affine(qb_rewrite *rw, const qb_node *node, int64_t n, double **out) {
    const qb_graph *graph = rw->graph;
    const float *p[4];
    *out = NULL;
    for (int i = 0; i < 4; i++) {
        const int32_t value = qb_node_in(node, i + 1);
        if (value < 0 || !is_float(&graph->values[value]) || !graph->values[value].data ||
            qb_shape_count(&graph->values[value].shape) != n)
            return QB_OK;
        QB_TRY_NEW(rw->cx, p[i] = graph->values[value].q.n > 0 ? qb_rewrite_dequantized(rw, value)
                                                               : qb_value_floats(graph, value));
    }
    double *s = QB_NEW(rw->cx, qb_alloc(rw->cx, 2 * (size_t)n, sizeof *s));
    double eps = qb_node_float(node, "epsilon", 1e-5f);
    for (int64_t c = 0; c < n; c++) {
        s[c] = p[0][c] / sqrt(p[3][c] + eps);
        s[n + c] = p[1][c] - p[2][c] * s[c];
        if (!isfinite((float)s[c]) || !isfinite((float)s[n + c])) {
            qb_free(s);
            return QB_OK;
        }
    }
    *out = s;
    return QB_OK;
}

static qb_status vector_constant(qb_rewrite *rw, int32_t like, const char *suffix,
                                 const double *numbers, int64_t n, int32_t rank, int32_t *out) {
    qb_shape shape = {.rank = rank - 1}; /* [C, 1, ..., 1] */
    for (int32_t i = 0; i < shape.rank; i++) shape.dim[i] = i == 0 ? n : 1;
    QB_FREED float *rounded = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *rounded));
    for (int64_t i = 0; i < n; i++) rounded[i] = (float)numbers[i];
    return qb_rewrite_floats(rw, like, suffix, &shape, rounded, out);
}

static qb_status to_mul_add(qb_rewrite *rw, int32_t index, int64_t n, const double *s) {
    qb_graph *graph = rw->graph;
    int32_t x = graph->nodes[index].in[0], out = graph->nodes[index].out[0];
    qb_shape shape = graph->values[x].shape;
    int32_t mul_in[2] = {x, -1}, add_in[2];
    QB_TRY(qb_rewrite_value(rw, out, "_scaled", &shape, &add_in[0]));
    graph->values[add_in[0]].dtype = QB_DTYPE_F32; /* also where the result is quantized */
    graph->values[add_in[0]].q = (qb_qparams){.axis = -1};
    QB_TRY(vector_constant(rw, out, "_scale", s, n, shape.rank, &mul_in[1]));
    QB_TRY(vector_constant(rw, out, "_shift", s + n, n, shape.rank, &add_in[1]));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Mul", ""), mul_in, 2, add_in[0]));
    return qb_rewrite_node(rw, index, qb_op_find("Add", ""), add_in, 2, out);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "BatchNormalization") || qb_node_int(node, "training_mode", 0) != 0)
        return QB_OK;
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return QB_OK;
    int32_t x = node->in[0], out = node->out[0];
    const qb_shape *shape = &graph->values[x].shape;
    int64_t n = qb_node_in(node, 1) < 0 ? -1 : qb_shape_count(&graph->values[node->in[1]].shape);
    if (!is_float(&graph->values[x]) || !is_float(&graph->values[out]) || shape->rank < 2 || n < 1)
        return QB_OK;
    const bool plain = qb_value_is_plain(graph, x) && qb_value_is_plain(graph, out);
    QB_FREED double *s = NULL;
    QB_TRY(affine(rw, node, n, &s));
    if (!s) return QB_OK;
    bool done = false;
    int32_t axis = 0, producer = qb_rewrite_from(rw, x, NULL);
    if (plain && producer >= 0 && qb_uses_sole_user(graph, &rw->uses, x) == index &&
        qb_affine_channels(rw, producer, &axis) == n && axis == 1)
        QB_TRY(qb_affine_fold(rw, producer, s, s + n, out, &done));
    if (done)
        qb_rewrite_kill(rw, index);
    else
        QB_TRY(to_mul_add(rw, index, n, s));
    qb_rewrite_changed(rw);
    return QB_OK;
}

const qb_pass qb_pass_fold_batch_norm = {
    "fold-batch-norm", "moves BatchNormalization into weights, or makes it Mul and Add",
    .match = match};

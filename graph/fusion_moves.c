/* What other tools' quantization leaves where no kernel takes it, brought to what one does.
 *
 * Operators that only move elements, whatever lies around them: their data and their result get one
 * form, and what makes one form of another is a node of its own. Tools write quantization behind
 * and before such operators as they like; moving quantized values and converting them later gives
 * the same as the other way round, for each element becomes what it would have become. Where there
 * is a choice, quantized values are moved: they are smaller. */
#include "graph/fusion.h"
#include "graph/passes_internal.h"
#include "kernels/ref.h"

static bool is_float(const qb_value *v) {
    return v->q.n == 0 ? v->dtype == QB_DTYPE_F32
                       : v->q.n == 1 && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

static qb_status convert(qb_rewrite *rw, int32_t from, int32_t to) {
    qb_rewrite_changed(rw);
    return qb_rewrite_append(rw, qb_op_find("Identity", ""), &from, 1, to);
}

/* x is converted before, or the result behind the node. */
static qb_status finalize(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], y = graph->nodes[index].out[0];
    const qb_shape from = graph->values[x].shape, to = graph->values[y].shape;
    int32_t moved;
    if (graph->values[x].q.n > 0) {
        QB_TRY(qb_rewrite_value(rw, x, "moved", &to, &moved));
        graph->nodes[index].out[0] = moved;
        qb_rewrite_touch(rw, index);
        return convert(rw, moved, y);
    }
    QB_TRY(qb_rewrite_value(rw, y, "codes", &from, &moved));
    graph->nodes[index].in[0] = moved;
    qb_rewrite_touch(rw, index);
    return convert(rw, x, moved);
}

/* The reals that a constant stands for, in the graph's memory; NULL without memory. */
static float *reals_of(qb_rewrite *rw, const qb_value *v) {
    const int64_t n = qb_shape_count(&v->shape);
    int64_t inner = 1; /* elements behind the axis of the scales */
    float *to = qb_arena_alloc(rw->cx, rw->graph->arena, (size_t)n + 1, sizeof *to);
    for (int32_t d = v->q.axis + 1; v->q.n > 1 && d < v->shape.rank; d++) inner *= v->shape.dim[d];
    for (int64_t k = 0; to && k < n; k++) {
        const double code = qb_number_get(v->dtype, v->data, k);
        const int64_t s = v->q.n > 1 ? k / inner % v->q.n : 0;
        const int32_t zero = v->q.n > 0 && v->q.zero ? v->q.zero[s] : 0;
        to[k] = v->q.n > 0 ? v->q.scale[s] * (float)((int64_t)code - zero) : (float)code;
    }
    return to;
}

/* A constant that gets or loses its quantized values behind a view, as tools leave what several
 * layers share, is one of the reals that the result stands for. */
static qb_status settle_constant(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    float *to = reals_of(rw, &graph->values[graph->nodes[index].in[0]]);
    qb_value *y = &graph->values[graph->nodes[index].out[0]];
    const int64_t n = qb_shape_count(&y->shape);
    if (!to) return rw->cx->code;
    for (int64_t i = 0; i < n && y->q.n > 0; i++) {
        const int32_t zero = y->q.zero ? y->q.zero[0] : 0;
        const int32_t code = qb_quantize_value(to[i], y->q.scale[0], zero, y->q.dtype);
        to[i] = y->q.scale[0] * (float)(code - zero);
    }
    y->dtype = QB_DTYPE_F32;
    y->q = (qb_qparams){.axis = -1};
    y->data = to;
    y->bytes = (size_t)n * sizeof *to;
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* Input i, a constant of quantized values, becomes one of the reals that they stand for. */
static qb_status make_float(qb_rewrite *rw, int32_t index, int32_t i) {
    qb_graph *graph = rw->graph;
    const int32_t value = qb_node_in(&graph->nodes[index], i);
    if (value < 0 || !graph->values[value].data || graph->values[value].q.n == 0) return QB_OK;
    const qb_shape shape = graph->values[value].shape;
    const float *data = reals_of(rw, &graph->values[value]);
    int32_t real;
    if (!data) return rw->cx->code;
    const qb_status status = qb_rewrite_floats(rw, value, "real", &shape, data, &real);
    if (status != QB_OK) return status;
    graph->nodes[index].in[i] = real;
    qb_rewrite_touch(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* Quantized values of a weight that no integer arithmetic can use: the data are none, or the scales
 * lie along another axis than that of the outputs. */
static bool is_useless(const qb_graph *graph, const qb_node *node) {
    const int32_t weight = qb_node_in(node, node->op->weight_input);
    if (weight < 0) return false;
    const qb_value *w = &graph->values[weight], *x = &graph->values[node->in[0]];
    const qb_kind kind = node->op->kernel.kind;
    int32_t axis = kind == QB_KIND_CONV_TRANSPOSE ? 1 : 0;
    if (kind == QB_KIND_MATMUL)
        axis = w->shape.rank - (qb_node_int(node, "transB", 0) ? 2 : 1);
    else if (kind != QB_KIND_CONV && kind != QB_KIND_CONV_TRANSPOSE)
        return false;
    if (!w->data || w->q.n == 0 || (x->q.n == 0 && x->dtype != QB_DTYPE_F32)) return false;
    return x->q.n != 1 || (w->q.n > 1 && w->q.axis != axis);
}

/* Parts of a tensor along an axis, each by a node of its own. */
static qb_status split(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], n = graph->nodes[index].n_out;
    const int64_t rank = graph->values[x].shape.rank;
    const int64_t given = qb_node_int(&graph->nodes[index], "axis", 0);
    const int64_t axis = given < 0 ? given + rank : given;
    int64_t end = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t y = graph->nodes[index].out[k];
        if (y < 0) return QB_OK; /* where the others begin, nothing tells */
    }
    for (int32_t k = 0; k < n; k++) {
        const int32_t y = graph->nodes[index].out[k];
        const int64_t start = end;
        int32_t in[4] = {x};
        end += graph->values[y].shape.dim[axis];
        QB_TRY(qb_rewrite_int64s(rw, y, "start", &start, 1, &in[1]));
        QB_TRY(qb_rewrite_int64s(rw, y, "end", &end, 1, &in[2]));
        QB_TRY(qb_rewrite_int64s(rw, y, "axis", &axis, 1, &in[3]));
        QB_TRY(qb_rewrite_append(rw, qb_op_find("Slice", ""), in, 4, y));
    }
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (node->op->weight_input > 0 && is_useless(graph, node)) {
        QB_TRY(make_float(rw, index, node->op->weight_input));
        return make_float(rw, index, 2);
    }
    if (!node->op->strided && !qb_node_is_view(node)) return QB_OK;
    if (node->n_in < 1 || node->in[0] < 0 || node->out[0] < 0) return QB_OK;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    if (!qb_shape_known(&x->shape) || !qb_shape_known(&y->shape)) return QB_OK;
    if (x->data) {
        const bool floats = x->q.n > 0 || x->dtype == QB_DTYPE_F32;
        const bool finalizes = qb_node_is_view(node) && floats && (x->q.n > 0 || y->q.n > 0) &&
                               is_float(y) && !qb_graph_is_output(graph, node->out[0]);
        return finalizes ? settle_constant(rw, index) : QB_OK;
    }
    if (node->n_out > 1) return qb_node_is(node, "Split") ? split(rw, index) : QB_OK;
    if (!is_float(x) || !is_float(y)) return QB_OK;
    if (qb_node_is(node, "Identity") || qb_qparams_same(&x->q, &y->q)) return QB_OK;
    return finalize(rw, index);
}

qb_status qb_finalize_moves(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    qb_status status = QB_OK;
    for (int32_t i = 0; i < graph->n_nodes; i++) { /* those that are added, too */
        if (!graph->nodes[i].op) continue;
        QB_GO(qb_rewrite_refresh(&rw));
        QB_GO(match(&rw, i));
    }
    *n_changes = rw.n_changes;
    QB_GO(qb_rewrite_tidy(&rw));
out:
    qb_rewrite_release(&rw);
    return status;
}

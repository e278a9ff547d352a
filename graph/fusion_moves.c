/* What other tools' quantization leaves where no kernel takes it, brought to what one does.
 *
 * Operators that only move elements, whatever lies around them: their data and their result get one
 * form, and what makes one form of another is a node of its own. Tools write quantization behind
 * and before such operators as they like; moving quantized values and converting them later gives
 * the same as the other way round, for each element becomes what it would have become. Where there
 * is a choice, quantized values are moved: they are smaller. */
#include <math.h>
#include <string.h>

#include "graph/fusion.h"
#include "graph/graph_internal.h"
#include "graph/passes_internal.h"

static qb_status convert(qb_rewrite *rw, int32_t from, int32_t to) {
    qb_rewrite_changed(rw);
    return qb_rewrite_append(rw, qb_op_find("Identity", ""), &from, 1, to);
}

/* Does nobody but a normalization read the value? It reads quantized values as well as floats, and
 * the same follows. */
static bool is_normalized_alone(const qb_rewrite *rw, int32_t value) {
    const int32_t reader = qb_uses_sole_user(rw->graph, &rw->uses, value);
    return reader >= 0 && rw->graph->nodes[reader].op->kernel.kind == QB_KIND_LAYER_NORM &&
           rw->graph->nodes[reader].in[0] == value;
}

/* x is converted before, or the result behind the node: quantized values are moved, but where
 * several readers take parts of x only the parts are converted, not all of x for each reader. A
 * sole reader's conversion may be the epilogue of what makes x. */
static qb_status finalize(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], y = graph->nodes[index].out[0];
    const qb_shape from = graph->values[x].shape, to = graph->values[y].shape;
    const bool is_part = qb_shape_count(&to) < qb_shape_count(&from);
    int32_t moved;
    if (graph->values[x].q.n > 0 && graph->values[y].q.n == 0 && is_normalized_alone(rw, y)) {
        graph->values[y].dtype = graph->values[x].dtype;
        graph->values[y].q = graph->values[x].q;
        qb_rewrite_changed(rw);
        return QB_OK;
    }
    if (graph->values[x].q.n > 0 || (is_part && rw->uses.n_users[x] > 1)) {
        QB_TRY(qb_rewrite_value(rw, x, "moved", &to, &moved));
        graph->nodes[index].out[0] = moved;
        qb_rewrite_touch(rw, index);
        return convert(rw, moved, y);
    }
    QB_TRY(qb_rewrite_value(rw, y, "quantized", &from, &moved));
    graph->nodes[index].in[0] = moved;
    qb_rewrite_touch(rw, index);
    return convert(rw, x, moved);
}

/* A constant that gets or loses its quantized values behind a view, as tools leave what several
 * layers share, is one of the floats that the result stands for. */
static qb_status finalize_constant(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    float *to = qb_rewrite_dequantized(rw, graph->nodes[index].in[0]);
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

/* Input i, a constant of quantized values, becomes one of the floats that they stand for. */
static qb_status make_float(qb_rewrite *rw, int32_t index, int32_t i) {
    qb_graph *graph = rw->graph;
    const int32_t value = qb_node_in(&graph->nodes[index], i);
    if (value < 0 || !graph->values[value].data || graph->values[value].q.n == 0) return QB_OK;
    const qb_shape shape = graph->values[value].shape;
    const float *data = qb_rewrite_dequantized(rw, value);
    int32_t dequantized;
    if (!data) return rw->cx->code;
    const qb_status status = qb_rewrite_floats(rw, value, "real", &shape, data, &dequantized);
    if (status != QB_OK) return status;
    graph->nodes[index].in[i] = dequantized;
    qb_rewrite_touch(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* Quantized values of a weight that no integer arithmetic can use: the data are none, the scales
 * lie along another axis than that of the outputs, or there is a matrix for each item. */
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
    int64_t items = 1;
    for (int32_t d = 0; kind == QB_KIND_MATMUL && d < w->shape.rank - 2; d++)
        items *= w->shape.dim[d];
    return x->q.n != 1 || items != 1 || (w->q.n > 1 && w->q.axis != axis);
}

/* Kernels add an integer bias to the sums of products as it is: a tool may have given it any scale.
 */
static bool is_bias_of_sums(const qb_graph *graph, const qb_node *node, int32_t weight) {
    const int32_t in = qb_node_in(node, 2);
    const qb_qparams *x = &graph->values[node->in[0]].q, *w = &graph->values[weight].q;
    const qb_qparams *bias = in < 0 ? NULL : &graph->values[in].q;
    if (!bias || bias->n == 0 || x->n == 0 || w->n == 0) return true;
    const double factor = (double)qb_node_float(node, "alpha", 1) * (double)x->scale[0];
    for (int32_t i = 0; i < (w->n > bias->n ? w->n : bias->n); i++) {
        const int32_t of_bias = bias->n > 1 ? i : 0;
        const double wanted = factor * (double)w->scale[w->n > 1 ? i : 0];
        if (fabs((double)bias->scale[of_bias] - wanted) > 1e-5 * fabs(wanted)) return false;
        if (bias->zero && bias->zero[of_bias] != 0) return false;
    }
    return true;
}

/* Constants are part of what the operator computes with, and not moved or combined element by
 * element: gains and shifts of normalizations, weights of recurrent layers. Its arithmetic is in
 * floats, whatever form a tool gave them. */
static bool has_float_parameters(const qb_op *op) {
    const uint32_t keeps = QB_TRAIT_ELEMENTWISE | QB_TRAIT_REORDER | QB_TRAIT_INTEGERS;
    return op->weight_input <= 0 && !(op->traits & keeps) && op->kernel.kind != QB_KIND_CONCAT &&
           op->kernel.kind != QB_KIND_GATHER;
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

/* LogSoftmax as what it is made of: d - log(sum(exp(d))) with d = x - max(x). Reductions and chains
 * have kernels. The parts are in floats: they leave the range of a quantized result. */
static qb_status split_log_softmax(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const int32_t x = graph->nodes[index].in[0], y = graph->nodes[index].out[0];
    const qb_shape shape = graph->values[y].shape;
    const int64_t given = qb_node_int(&graph->nodes[index], "axis", -1);
    const int64_t axis = given < 0 ? given + shape.rank : given;
    qb_shape line = shape;
    int32_t axes, most, centred, power, sum, shift;
    if (!qb_shape_known(&shape) || shape.rank < 1 || !qb_value_has_one_scale(&graph->values[x]) ||
        !qb_value_has_one_scale(&graph->values[y]))
        return QB_OK;
    line.dim[axis] = 1;
    QB_TRY(qb_rewrite_int64s(rw, y, "axes", &axis, 1, &axes));
    QB_TRY(qb_rewrite_append_plain(rw, "ReduceMax", (int32_t[]){x, axes}, y, "part", &line, &most));
    QB_TRY(qb_rewrite_append_plain(rw, "Sub", (int32_t[]){x, most}, y, "part", &shape, &centred));
    QB_TRY(qb_rewrite_append_plain(rw, "Exp", (int32_t[]){centred, -1}, y, "part", &shape, &power));
    QB_TRY(
        qb_rewrite_append_plain(rw, "ReduceSum", (int32_t[]){power, axes}, y, "part", &line, &sum));
    QB_TRY(qb_rewrite_append_plain(rw, "Log", (int32_t[]){sum, -1}, y, "part", &line, &shift));
    const int32_t in[] = {centred, shift};
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Sub", ""), in, 2, y));
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return QB_OK;
}

/* Is all that the node computes with constant, and some of it or the result quantized? */
static bool is_constant(const qb_rewrite *rw, const qb_node *node) {
    const qb_graph *graph = rw->graph;
    if (node->n_out != 1 || node->out[0] < 0 || node->n_in < 1 ||
        qb_op_has(node->op, QB_TRAIT_INTEGERS) || qb_graph_is_output(graph, node->out[0]))
        return false;
    bool quantized = graph->values[node->out[0]].q.n > 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const qb_value *v = node->in[i] < 0 ? NULL : &graph->values[node->in[i]];
        if (v && !v->data) return false;
        quantized = quantized || (v && v->q.n > 0);
    }
    return quantized && qb_value_has_one_scale(&graph->values[node->out[0]]);
}

/* Such a node computes with the floats, and so is folded; its result is quantized behind it. */
static qb_status match_constant(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    if (!is_constant(rw, &graph->nodes[index])) return QB_OK;
    if (qb_node_is_view(&graph->nodes[index])) return finalize_constant(rw, index);
    for (int32_t i = 0; i < graph->nodes[index].n_in; i++) QB_TRY(make_float(rw, index, i));
    const int32_t y = graph->nodes[index].out[0];
    const qb_shape shape = graph->values[y].shape;
    int32_t dequantized;
    if (graph->values[y].q.n == 0) return QB_OK;
    QB_TRY(qb_rewrite_plain(rw, y, "real", &shape, &dequantized));
    graph->nodes[index].out[0] = dequantized;
    qb_rewrite_touch(rw, index);
    return convert(rw, dequantized, y);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    qb_read_before_expand(rw, index); /* sizes are known only here */
    if (node->op->weight_input > 0) {
        const int32_t weight = node->op->weight_input;
        QB_TRY(make_float(rw, index, 0)); /* data that are constant */
        if (is_useless(graph, &graph->nodes[index])) QB_TRY(make_float(rw, index, weight));
        const int32_t w = qb_node_in(&graph->nodes[index], weight);
        if (w >= 0 &&
            (qb_value_is_plain(graph, w) || !is_bias_of_sums(graph, &graph->nodes[index], w)))
            return make_float(rw, index, 2); /* bias */
    }
    node = &graph->nodes[index];
    if (qb_node_is(node, "LogSoftmax")) return split_log_softmax(rw, index);
    if (!node->op->strided && !qb_node_is_view(node)) {
        for (int32_t i = 1;
             has_float_parameters(rw->graph->nodes[index].op) && i < rw->graph->nodes[index].n_in;
             i++)
            QB_TRY(make_float(rw, index, i));
        return QB_OK;
    }
    if (node->n_in < 1 || node->in[0] < 0 || node->out[0] < 0) return QB_OK;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    if (!qb_shape_known(&x->shape) || !qb_shape_known(&y->shape)) return QB_OK;
    if (x->data) return QB_OK;
    if (node->n_out > 1) return qb_node_is(node, "Split") ? split(rw, index) : QB_OK;
    if (!qb_value_has_one_scale(x) || !qb_value_has_one_scale(y)) return QB_OK;
    if (qb_node_is(node, "Identity") || qb_qparams_same(&x->q, &y->q)) return QB_OK;
    return finalize(rw, index);
}

static qb_status each(qb_rewrite *rw, qb_match matches) {
    for (int32_t i = 0; i < rw->graph->n_nodes; i++) { /* those that are added, too */
        if (!rw->graph->nodes[i].op) continue;
        QB_TRY(qb_rewrite_refresh(rw));
        QB_TRY(matches(rw, i));
    }
    return qb_rewrite_tidy(rw);
}

static qb_status rewrite(qb_ctx *cx, qb_graph *graph, qb_match matches, int32_t *n_changes) {
    QB_RELEASED(qb_rewrite_release) qb_rewrite rw = {.cx = cx, .graph = graph};
    const qb_status status = each(&rw, matches);
    *n_changes += rw.n_changes;
    return status;
}

/* What folding may make here: as much again as before, for quantized values become floats. */
static size_t most_folded(const qb_graph *graph) {
    double bytes = QB_FOLD_LIMIT;
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].data)
            bytes +=
                QB_FOLD_GROWTH * sizeof(float) * (double)qb_shape_count(&graph->values[v].shape);
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

qb_status qb_finalize_moves(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    const size_t most = graph->folded + most_folded(graph);
    int32_t found = 1, folded;
    *n_changes = 0;
    while (found > 0) {
        found = 0;
        QB_TRY(rewrite(cx, graph, match_constant, &found));
        const size_t left = most > graph->folded ? most - graph->folded : 0;
        if (found > 0) QB_TRY(qb_graph_fold_within(cx, graph, left, &folded));
        *n_changes += found;
    }
    QB_TRY(qb_fuse_boxes(cx, graph, &found));
    *n_changes += found;
    QB_TRY(rewrite(cx, graph, qb_match_group_norm, n_changes));
    QB_TRY(qb_share_concats(cx, graph, n_changes));
    return rewrite(cx, graph, match, n_changes);
}

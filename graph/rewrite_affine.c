/* Moves scale[c] y + shift[c] into the weight and bias of the node that made y. */
#include <math.h>
#include <string.h>

#include "graph/rewrite_internal.h"

typedef struct anchor {
    int32_t node;
    int64_t channels;
    int32_t axis;       /* of the channels in the output */
    int64_t outer, mid; /* the weight as [outer][channels][inner]; ConvTranspose: see below */
    int64_t inner;
    int64_t groups; /* ConvTranspose: weight [groups][outer][channels / groups][inner] */
    double beta;    /* factor on the old bias */
} anchor;

/* The bias as one number a channel: absent, scalar, [n] or [1, n]. */
static bool bias_ok(const qb_graph *graph, int32_t bias, int64_t channels) {
    if (bias < 0) return true;
    if (!qb_value_floats(graph, bias)) return false;
    const qb_shape *shape = &graph->values[bias].shape;
    int64_t count = qb_shape_count(shape);
    bool rows = shape->rank == 2 && shape->dim[0] != 1; /* [m, 1] varies with the row */
    return shape->rank <= 2 && !rows && (count == 1 || count == channels);
}

static bool describe_conv(const qb_node *node, const qb_shape *w, anchor *a) {
    if (w->rank < 3) return false;
    a->axis = 1;
    a->groups = 1;
    a->inner = qb_shape_span(w, 2, w->rank);
    if (qb_node_is(node, "Conv")) {
        a->channels = w->dim[0];
        a->outer = 1;
        a->inner *= w->dim[1];
        return true;
    }
    a->groups = qb_node_int(node, "group", 1);
    if (a->groups < 1 || w->dim[0] % a->groups != 0) return false;
    a->outer = w->dim[0] / a->groups;
    a->channels = w->dim[1] * a->groups;
    return true;
}

static bool describe(const qb_rewrite *rw, int32_t index, anchor *a) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t weight = qb_node_in(node, 1), bias = qb_node_in(node, 2);
    *a = (anchor){.node = index, .beta = 1, .groups = 1};
    if (!node->op || node->n_out < 1 || !qb_value_floats(graph, weight)) return false;
    const qb_shape *w = &graph->values[weight].shape;
    if (qb_node_is(node, "Conv") || qb_node_is(node, "ConvTranspose")) {
        if (!describe_conv(node, w, a)) return false;
    } else if (qb_node_is(node, "Gemm") && w->rank == 2) {
        bool transposed = qb_node_int(node, "transB", 0) != 0;
        a->axis = 1;
        a->channels = w->dim[transposed ? 0 : 1];
        a->outer = transposed ? 1 : w->dim[0];
        a->inner = transposed ? w->dim[1] : 1;
        a->beta = qb_node_float(node, "beta", 1);
    } else if (qb_node_is(node, "MatMul") && w->rank == 2) {
        const qb_shape *y = &graph->values[node->out[0]].shape;
        if (y->rank < 2) return false;
        a->axis = y->rank - 1;
        a->channels = w->dim[1];
        a->outer = w->dim[0];
        a->inner = 1;
    } else {
        return false;
    }
    return a->channels > 0 && bias_ok(graph, bias, a->channels);
}

int64_t qb_affine_channels(const qb_rewrite *rw, int32_t node, int32_t *axis) {
    anchor a;
    if (!describe(rw, node, &a)) return 0;
    *axis = a.axis;
    return a.channels;
}

/* False when a product is not finite. */
static bool scale_weight(const anchor *a, const float *w, const double *scale, float *out) {
    int64_t per_group = a->channels / a->groups;
    for (int64_t g = 0, at = 0; g < a->groups; g++)
        for (int64_t o = 0; o < a->outer; o++)
            for (int64_t c = 0; c < per_group; c++)
                for (int64_t i = 0; i < a->inner; i++, at++) {
                    out[at] = (float)(w[at] * scale[g * per_group + c]);
                    if (!isfinite(out[at])) return false;
                }
    return true;
}

static bool shift_bias(const qb_graph *graph, const anchor *a, int32_t bias, const double *scale,
                       const double *shift, float *out) {
    const float *old = qb_value_floats(graph, bias);
    int64_t count = old ? qb_shape_count(&graph->values[bias].shape) : 0;
    for (int64_t c = 0; c < a->channels; c++) {
        double b = old ? a->beta * old[count == 1 ? 0 : c] : 0;
        out[c] = (float)(b * (scale ? scale[c] : 1) + (shift ? shift[c] : 0));
        if (!isfinite(out[c])) return false;
    }
    return true;
}

static bool all_are(const double *v, int64_t n, double number) {
    for (int64_t i = 0; v && i < n; i++)
        if (v[i] != number) return false;
    return true;
}

/* The new numbers are made before anything changes, so that a failure leaves the graph whole. */
static qb_status fold(qb_rewrite *rw, const anchor *a, const double *scale, const double *shift,
                      int32_t out, float *numbers, bool *done) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[a->node];
    int32_t weight = node->in[1], bias = qb_node_in(node, 2), data = node->in[0];
    float *vector = numbers, *matrix = numbers + a->channels;
    if (scale && !scale_weight(a, graph->values[weight].data, scale, matrix)) return QB_OK;
    if (!shift_bias(graph, a, bias, scale, shift, vector)) return QB_OK;
    const char *op = node->op->name;
    if (scale) {
        qb_shape shape = graph->values[weight].shape;
        QB_TRY(qb_rewrite_floats(rw, weight, "_folded", &shape, matrix, &weight));
    }
    bool was_matmul = strcmp(op, "MatMul") == 0;
    bool touched = scale || shift;
    if (shift || (bias >= 0 && touched)) {
        qb_shape shape = {.rank = 1, .dim = {a->channels}};
        const char *suffix = bias >= 0 ? "_folded" : "_bias";
        QB_TRY(qb_rewrite_floats(rw, bias >= 0 ? bias : out, suffix, &shape, vector, &bias));
    }
    int32_t in[3] = {data, weight, bias};
    if (was_matmul && bias >= 0) {
        QB_TRY(qb_rewrite_node(rw, a->node, qb_op_find("Gemm", ""), in, 3, out));
    } else {
        QB_TRY(qb_rewrite_inputs(rw, a->node, in, bias >= 0 ? 3 : 2));
        graph->nodes[a->node].out[0] = out;
        if (strcmp(op, "Gemm") == 0 && bias >= 0 && touched)
            QB_TRY(qb_node_set_float(rw, a->node, "beta", 1));
    }
    *done = true;
    return QB_OK;
}

qb_status qb_affine_fold(qb_rewrite *rw, int32_t node, const double *scale, const double *shift,
                         int32_t out, bool *done) {
    anchor a;
    *done = false;
    if (!describe(rw, node, &a)) return QB_OK;
    if (all_are(scale, a.channels, 1)) scale = NULL;
    if (all_are(shift, a.channels, 0)) shift = NULL;
    const qb_graph *graph = rw->graph;
    bool matmul = qb_node_is(&graph->nodes[node], "MatMul");
    int32_t data = graph->nodes[node].in[0];
    if (matmul && shift && (graph->values[data].shape.rank != 2 || !qb_op_find("Gemm", "")))
        return QB_OK;
    size_t count = (size_t)qb_shape_count(&graph->values[graph->nodes[node].in[1]].shape);
    QB_FREED float *numbers = qb_alloc(rw->cx, (size_t)a.channels + count, sizeof *numbers);
    if (!numbers) return rw->cx->code;
    return fold(rw, &a, scale, shift, out, numbers, done);
}

qb_affine qb_affine_of(const qb_node *node) {
    if (qb_node_is(node, "Mul") || qb_node_is(node, "Div")) return QB_AFFINE_SCALE;
    return qb_node_is(node, "Add") || qb_node_is(node, "Sub") ? QB_AFFINE_SHIFT : QB_AFFINE_NONE;
}

qb_affine qb_affine_numbers(const qb_graph *graph, const qb_node *node, int32_t side, int32_t axis,
                            int64_t n, double *numbers) {
    const bool div = qb_node_is(node, "Div"), sub = qb_node_is(node, "Sub");
    const int32_t rank = graph->values[node->in[side]].shape.rank;
    if (side == 1 && (div || sub)) return QB_AFFINE_NONE;
    if (!qb_value_channels(graph, node->in[1 - side], rank, axis, n, numbers))
        return QB_AFFINE_NONE;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = div ? 1 / numbers[i] : sub ? -numbers[i] : numbers[i];
    return qb_affine_of(node);
}

static qb_status pixel_conv(qb_rewrite *rw, int32_t node, int32_t x, int64_t n, const float *scale,
                            const float *shift) {
    qb_graph *graph = rw->graph;
    const int32_t out = graph->nodes[node].out[0], spatial = graph->values[out].shape.rank - 2;
    const qb_shape vector = {.rank = 1, .dim = {n}};
    const int64_t ones[3] = {1, 1, 1};
    const qb_shape weight = {.rank = spatial + 2, .dim = {n, 1, 1, 1, 1}};
    int32_t in[3] = {x};
    QB_TRY(qb_rewrite_floats(rw, out, "_scale", &weight, scale, &in[1]));
    QB_TRY(qb_rewrite_floats(rw, out, "_shift", &vector, shift, &in[2]));
    QB_TRY(qb_rewrite_node(rw, node, qb_op_find("Conv", ""), in, 3, out));
    QB_TRY(qb_node_set_ints(rw, node, "kernel_shape", ones, spatial));
    return qb_node_set_int(rw, node, "group", n);
}

qb_status qb_affine_conv(qb_rewrite *rw, int32_t node, int32_t x, int64_t n, const double *scale,
                         const double *shift) {
    QB_FREED float *numbers = QB_NEW(rw->cx, qb_alloc(rw->cx, 2 * (size_t)n, sizeof *numbers));
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (float)scale[i];
        numbers[n + i] = (float)shift[i];
    }
    return pixel_conv(rw, node, x, n, numbers, numbers + n);
}

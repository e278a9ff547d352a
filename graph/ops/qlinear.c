/* Operators of quantized models in onnxruntime's operator form (QLinearConv, QLinearAdd ...) as the
 * float operator between DequantizeLinear and QuantizeLinear, which the reader then folds into
 * parameters on values.
 *
 * QLinearConv and QLinearMatMul of ai.onnx are rewritten when all parameters are constant and keep
 * their own arithmetic otherwise; those of com.microsoft exist in files only. */
#include <math.h>

#include "build_internal.h"

/* A quantized input: value, scale and zero point (-1: none). */
typedef struct source {
    int32_t value, scale, zero;
} source;

static int32_t input_at(const qb_node *node, int32_t i) {
    return i < node->n_in ? node->in[i] : -1;
}

static source source_at(const qb_node *node, int32_t i) {
    return (source){input_at(node, i), input_at(node, i + 1), input_at(node, i + 2)};
}

static qb_status new_value(qb_ctx *cx, qb_graph *graph, const char *base, int32_t *id) {
    qb_shape unknown = {.rank = -1};
    const char *name = qb_arena_format(cx, graph->arena, "%s_real", base);
    *id = name ? qb_graph_add_value(cx, graph, name, QB_DTYPE_NONE, &unknown) : -1;
    return *id < 0 ? cx->code : QB_OK;
}

/* A QuantizeLinear or DequantizeLinear node. */
static qb_status add_node(qb_ctx *cx, qb_graph *graph, const char *name, source s, int64_t axis,
                          int32_t out) {
    const qb_op *op = qb_op_find(name, "");
    int32_t in[3] = {s.value, s.scale, s.zero};
    int32_t node = qb_graph_add_node(cx, graph, op, "", in, s.zero < 0 ? 2 : 3, &out, 1);
    if (node < 0) return cx->code;
    *(int64_t *)((char *)graph->nodes[node].attrs + qb_attr_find(op, "axis")->offset) = axis;
    return QB_OK;
}

/* The dequantized values of a quantized input. */
static qb_status dequantize(qb_ctx *cx, qb_graph *graph, source s, int64_t axis, int32_t *out) {
    if (s.value < 0 || s.scale < 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "an input or its scale is left out");
    QB_TRY(new_value(cx, graph, graph->values[s.value].name, out));
    return add_node(cx, graph, "DequantizeLinear", s, axis, *out);
}

/* The node becomes the float operator that its own is named after (QLinearAdd, QGemm) on the given
 * inputs, with its result quantized into the old output. */
static qb_status become(qb_ctx *cx, qb_graph *graph, int32_t node, const int32_t *in, int32_t n_in,
                        int32_t scale, int32_t zero) {
    const char *name = graph->nodes[node].op->name;
    name += strlen(strncmp(name, "QLinear", 7) == 0 ? "QLinear" : "Q");
    if (scale < 0 || zero < 0) /* the zero point says the type */
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output scale or zero point left out");
    int32_t fresh, old;
    QB_TRY(qb_node_detach_output(cx, graph, node, "real", &fresh, &old));
    QB_TRY(qb_node_inputs_set(cx, graph, node, in, n_in));
    graph->nodes[node].op = qb_op_find(name, "");
    if (!graph->nodes[node].op->attr_size) graph->nodes[node].attrs = NULL;
    return add_node(cx, graph, "QuantizeLinear", (source){fresh, scale, zero}, 1, old);
}

/* --- QLinearConv, QLinearMatMul, QGemm: a weight, and a bias whose scale is the product of theirs
 */

/* Number of elements of a constant float input; 0 when it is something else. */
static int64_t scales_of(const qb_graph *graph, int32_t value) {
    if (value < 0 || !graph->values[value].data) return 0;
    const qb_value *v = &graph->values[value];
    return v->dtype == QB_DTYPE_F32 && v->shape.rank <= 1 ? qb_shape_count(&v->shape) : 0;
}

/* As above; 0 as well where a scale is none: the operator's own arithmetic multiplies sums of
 * integers, where 0 times an infinite scale would not be 0. */
static int64_t sound_scales_of(const qb_graph *graph, int32_t value) {
    const int64_t n = scales_of(graph, value);
    const float *scale = n > 0 ? graph->values[value].data : NULL;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(scale[i]) || scale[i] <= 0) return 0;
    return n;
}

static bool all_constant(const qb_graph *graph, const qb_node *node, int32_t first, int32_t last) {
    for (int32_t i = first; i <= last; i++)
        if (input_at(node, i) >= 0 && !graph->values[node->in[i]].data) return false;
    return true;
}

/* The dequantized values of an int32 bias. */
static qb_status dequantize_bias(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t bias,
                                 int32_t x_scale, int32_t w_scale, float factor, int32_t *out) {
    int64_t n = scales_of(graph, w_scale);
    const float *x = graph->values[x_scale].data, *w = graph->values[w_scale].data;
    float *scales = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *scales));
    for (int64_t i = 0; i < n; i++) scales[i] = factor * x[0] * w[i];
    qb_shape shape = {.rank = n == 1 ? 0 : 1, .dim = {n}};
    int32_t id;
    QB_TRY(qb_node_const_floats(cx, graph, node, "bias_scale", &shape, scales, &id));
    return dequantize(cx, graph, (source){bias, id, -1}, 0, out);
}

qb_status qb_qlinear_conv_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    if (n->n_in < 8 || !all_constant(graph, n, 1, 2) || !all_constant(graph, n, 4, 7))
        return QB_OK; /* weights may be computed from constants */
    source x = source_at(n, 0), w = source_at(n, 3);
    int32_t bias = input_at(n, 8), y_scale = n->in[6], y_zero = n->in[7], in[3] = {-1, -1, -1};
    if (sound_scales_of(graph, x.scale) != 1 || sound_scales_of(graph, w.scale) < 1 ||
        sound_scales_of(graph, y_scale) != 1)
        return QB_OK;
    QB_TRY(dequantize(cx, graph, x, 1, &in[0]));
    QB_TRY(dequantize(cx, graph, w, 0, &in[1]));
    if (bias >= 0) QB_TRY(dequantize_bias(cx, graph, node, bias, x.scale, w.scale, 1.0f, &in[2]));
    return become(cx, graph, node, in, bias >= 0 ? 3 : 2, y_scale, y_zero);
}

qb_status qb_qlinear_matmul_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    if (n->n_in != 8 || !all_constant(graph, n, 1, 2) || !all_constant(graph, n, 4, 7))
        return QB_OK;
    source a = source_at(n, 0), b = source_at(n, 3);
    int32_t y_scale = n->in[6], y_zero = n->in[7], in[2];
    int64_t many = sound_scales_of(graph, b.scale);
    if (sound_scales_of(graph, a.scale) != 1 || many < 1 || sound_scales_of(graph, y_scale) != 1)
        return QB_OK;
    if (many > 1 && graph->values[b.value].shape.rank < 2) return QB_OK;
    QB_TRY(dequantize(cx, graph, a, 1, &in[0]));
    QB_TRY(dequantize(cx, graph, b, -1, &in[1]));
    return become(cx, graph, node, in, 2, y_scale, y_zero);
}

/* Inputs: a, b, their scales, their zero points, a bias. What has the scale of its data stays. */
qb_status qb_scaled_product_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    const source a = {input_at(n, 0), input_at(n, 2), input_at(n, 4)};
    const source b = {input_at(n, 1), input_at(n, 3), input_at(n, 5)};
    const int32_t bias = input_at(n, 6);
    const int64_t many = sound_scales_of(graph, b.scale);
    int32_t in[2], fresh, old;
    if (sound_scales_of(graph, a.scale) != 1 || many < 1 || !all_constant(graph, n, 4, 5) ||
        (many > 1 && graph->values[b.value].shape.rank < 2))
        return QB_OK;
    QB_TRY(dequantize(cx, graph, a, 1, &in[0]));
    QB_TRY(dequantize(cx, graph, b, -1, &in[1]));
    if (bias >= 0) {
        QB_TRY(qb_node_detach_output(cx, graph, node, "real", &fresh, &old));
        const int32_t sum[] = {fresh, bias};
        if (qb_graph_add_node(cx, graph, qb_op_find("Add", ""), "", sum, 2, &old, 1) < 0)
            return cx->code;
    }
    QB_TRY(qb_node_inputs_set(cx, graph, node, in, 2));
    graph->nodes[node].op = qb_op_find("MatMul", "");
    return QB_OK;
}

QB_ATTRS(gemm_attrs, QB_A_FLOAT(qb_gemm_attrs, alpha, "alpha", 1.0f),
         QB_A_FLOAT(qb_gemm_attrs, beta, "beta", 1.0f),
         QB_A_INT(qb_gemm_attrs, trans_a, "transA", 0, 0, 1),
         QB_A_INT(qb_gemm_attrs, trans_b, "transB", 0, 0, 1));

/* Inputs: A, B with parameters, C in int32 with scale alpha * that of A * that of B, output's
 * parameters. */
static qb_status upgrade_gemm(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    const qb_gemm_attrs *attrs = n->attrs;
    (void)version;
    source a = source_at(n, 0), b = source_at(n, 3);
    int32_t c = input_at(n, 6), y_scale = input_at(n, 7), y_zero = input_at(n, 8);
    int32_t in[3] = {-1, -1, -1};
    if (scales_of(graph, a.scale) != 1 || scales_of(graph, b.scale) < 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "scales that are not constant");
    QB_TRY(dequantize(cx, graph, a, 1, &in[0]));
    QB_TRY(dequantize(cx, graph, b, attrs->trans_b ? 0 : 1, &in[1]));
    if (c >= 0) QB_TRY(dequantize_bias(cx, graph, node, c, a.scale, b.scale, attrs->alpha, &in[2]));
    return become(cx, graph, node, in, c >= 0 ? 3 : 2, y_scale, y_zero);
}

/* --- element by element, pools, Concat ------------------------------------------------------- */

static qb_status upgrade_binary(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    source a = source_at(n, 0), b = source_at(n, 3);
    int32_t y_scale = input_at(n, 6), y_zero = input_at(n, 7), in[2];
    QB_TRY(dequantize(cx, graph, a, 1, &in[0]));
    QB_TRY(dequantize(cx, graph, b, 1, &in[1]));
    return become(cx, graph, node, in, 2, y_scale, y_zero);
}

static qb_status upgrade_unary(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    source x = source_at(n, 0);
    int32_t y_scale = input_at(n, 3), y_zero = input_at(n, 4), in;
    QB_TRY(dequantize(cx, graph, x, 1, &in));
    return become(cx, graph, node, &in, 1, y_scale, y_zero);
}

/* `opset` says whose Softmax it is: before 13 the tensor counts as a matrix whose rows begin at
 * `axis`, which is the same where that is the last one. */
typedef struct softmax_attrs {
    int64_t axis;
    int64_t opset;
} softmax_attrs;
QB_ATTRS(softmax_table, QB_A_INT(softmax_attrs, axis, "axis", -1, 0, 0),
         QB_A_NEED_INT(softmax_attrs, opset, "opset", 1, 1000));

static qb_status upgrade_softmax(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const softmax_attrs *attrs = graph->nodes[node].attrs;
    const int64_t axis = attrs->axis;
    const int32_t rank = graph->values[graph->nodes[node].in[0]].shape.rank;
    if (attrs->opset < 13 && axis != -1 && axis != rank - 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "attribute opset: %lld with axis %lld, expected 13 or the last axis",
                       (long long)attrs->opset, (long long)axis);
    return upgrade_unary(cx, graph, node, version); /* whose attributes begin with the axis */
}

QB_ATTRS(leaky_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 0.01f));
/* channels_last stands where MaxPool has storage_order; only 0 is read. */
QB_ATTRS(global_attrs, QB_A_INT(qb_pool_attrs, storage_order, "channels_last", 0, 0, 1));
QB_ATTRS(pool_attrs, QB_A_STRING(qb_pool_attrs, auto_pad, "auto_pad", "NOTSET"),
         QB_A_INTS(qb_pool_attrs, kernel_shape, "kernel_shape", 1, QB_ATTR_BIG),
         QB_A_INTS(qb_pool_attrs, strides, "strides", 1, QB_ATTR_BIG),
         QB_A_INTS(qb_pool_attrs, pads, "pads", 0, QB_ATTR_BIG),
         QB_A_INT(qb_pool_attrs, ceil_mode, "ceil_mode", 0, 0, 1),
         QB_A_INT(qb_pool_attrs, count_include_pad, "count_include_pad", 0, 0, 1),
         QB_A_INT(qb_pool_attrs, storage_order, "channels_last", 0, 0, 1));

static qb_status upgrade_pool(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_pool_attrs *attrs = graph->nodes[node].attrs;
    if (attrs->storage_order)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute channels_last: expected 0, got 1");
    return upgrade_unary(cx, graph, node, version);
}

QB_ATTRS(concat_attrs, QB_A_NEED_INT(qb_axis_attrs, axis, "axis", 0, 0));

/* Inputs: the output's scale and zero point, then three for each part. */
static qb_status upgrade_concat(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    (void)version;
    int32_t n = (graph->nodes[node].n_in - 2) / 3;
    if (n < 1 || graph->nodes[node].n_in != 2 + 3 * n)
        return qb_fail(cx, QB_STATUS_FORMAT, "expected 2 inputs and 3 for each part, got %d",
                       graph->nodes[node].n_in);
    int32_t *in = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *in));
    int32_t y_scale = graph->nodes[node].in[0], y_zero = graph->nodes[node].in[1];
    for (int32_t i = 0; i < n; i++)
        QB_TRY(dequantize(cx, graph, source_at(&graph->nodes[node], 2 + 3 * i), 1, &in[i]));
    return become(cx, graph, node, in, n, y_scale, y_zero);
}

/* Inputs: a condition, two values with parameters, the output's parameters. */
static qb_status upgrade_where(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    const qb_node *n = &graph->nodes[node];
    (void)version;
    source a = source_at(n, 1), b = source_at(n, 4);
    int32_t y_scale = input_at(n, 7), y_zero = input_at(n, 8), in[3] = {n->in[0]};
    QB_TRY(dequantize(cx, graph, a, 1, &in[1]));
    QB_TRY(dequantize(cx, graph, b, 1, &in[2]));
    return become(cx, graph, node, in, 3, y_scale, y_zero);
}

QB_ATTRS(mean_attrs, QB_A_OLD_INTS(qb_reduce_attrs, axes, "axes"),
         QB_A_INT(qb_reduce_attrs, keepdims, "keepdims", 1, 0, 1));

static qb_status upgrade_mean(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_reduce_attrs *attrs = graph->nodes[node].attrs;
    QB_TRY(upgrade_unary(cx, graph, node, version));
    return qb_node_axes_to_input(cx, graph, node, &attrs->axes, 1);
}

#define FILE_ONLY(SYMBOL, NAME, LOW, HIGH, SIZE, ATTRS, UPGRADE)                                   \
    QB_OP_OF_FILES(SYMBOL, NAME, "com.microsoft", LOW, HIGH, 1, SIZE, ATTRS, UPGRADE,              \
                   .types = QB_TYPES_QUANTIZED, .traits = QB_TRAIT_INTEGERS)

FILE_ONLY(qgemm, "QGemm", 2, 9, sizeof(qb_gemm_attrs), gemm_attrs, upgrade_gemm);
FILE_ONLY(qlinear_add, "QLinearAdd", 2, 8, 0, NULL, upgrade_binary);
FILE_ONLY(qlinear_average_pool, "QLinearAveragePool", 2, 5, sizeof(qb_pool_attrs), pool_attrs,
          upgrade_pool);
FILE_ONLY(qlinear_concat, "QLinearConcat", 2, INT32_MAX, sizeof(qb_axis_attrs), concat_attrs,
          upgrade_concat);
FILE_ONLY(qlinear_global_average_pool, "QLinearGlobalAveragePool", 2, 5, sizeof(qb_pool_attrs),
          global_attrs, upgrade_pool);
FILE_ONLY(qlinear_leaky_relu, "QLinearLeakyRelu", 2, 5, sizeof(qb_alpha_attrs), leaky_attrs,
          upgrade_unary);
FILE_ONLY(qlinear_mul, "QLinearMul", 2, 8, 0, NULL, upgrade_binary);
FILE_ONLY(qlinear_sigmoid, "QLinearSigmoid", 2, 5, 0, NULL, upgrade_unary);
FILE_ONLY(qlinear_softmax, "QLinearSoftmax", 5, 5, sizeof(softmax_attrs), softmax_table,
          upgrade_softmax);
FILE_ONLY(qlinear_reduce_mean, "QLinearReduceMean", 5, 5, sizeof(qb_reduce_attrs), mean_attrs,
          upgrade_mean);
FILE_ONLY(qlinear_where, "QLinearWhere", 9, 9, 0, NULL, upgrade_where);

/* Rules on what layers read: weights and biases. */
#include <math.h>

#include "quant/check_internal.h"

#define ALL "trt ort-cpu ort-cuda"
#define NVIDIA "trt ort-cuda"

/* The axis of a layer's weight that its output channels lie on. */
static int32_t channel_axis(const qb_lint *lint, int32_t layer, int32_t rank) {
    if (qb_lint_is(lint, layer, "Conv")) return 0;
    if (qb_lint_is(lint, layer, "ConvTranspose")) return 1;
    if (qb_lint_is(lint, layer, "Gemm"))
        return qb_attr_int(&lint->graph->nodes[layer], "transB", 0) ? 0 : 1;
    return rank - 1;
}

/* The constant that a weight's DQ, or the Q before it, stands on. */
static const qb_value *weight_of(const qb_lint *lint, int32_t dequantizer) {
    const qb_value *quantized = qb_lint_constant(lint, dequantizer, 0);
    if (quantized) return quantized;
    const int32_t maker = qb_lint_maker(lint, dequantizer, 0);
    return maker < 0 ? NULL : qb_lint_constant(lint, maker, 0);
}

static qb_status weight_axis(qb_lint *lint, int32_t node) {
    const float *scale;
    if (!qb_lint_is_layer(lint, node)) return QB_OK;
    const int32_t weight = qb_lint_dequantizer(lint, node, 1);
    const int64_t n = weight < 0 ? 0 : qb_lint_scales(lint, weight, &scale);
    const qb_value *data = weight < 0 ? NULL : weight_of(lint, weight);
    if (n <= 1 || !data) return QB_OK;
    const int32_t rank = data->shape.rank, wanted = channel_axis(lint, node, rank);
    int64_t axis = qb_attr_int(&lint->graph->nodes[weight], "axis", 1);
    if (axis < 0) axis += rank;
    if (axis != wanted)
        return qb_lint_found(lint, weight, "%lld scales along axis %lld, expected %d for %s",
                             (long long)n, (long long)axis, wanted,
                             lint->graph->nodes[node].op->name);
    const int64_t channels = axis >= 0 && axis < rank ? data->shape.dim[axis] : 0;
    if (channels != n)
        return qb_lint_found(lint, weight, "%lld scales for %lld channels", (long long)n,
                             (long long)channels);
    return QB_OK;
}

QB_LINT_RULE(weight_axis, "weight-axis", ALL,
             "set `axis` to the output channels: 0 for Conv (ONNX's default is 1)");

static qb_status half_quantized(qb_lint *lint, int32_t node) {
    if (!qb_lint_is_layer(lint, node)) return QB_OK;
    const bool data = qb_lint_dequantizer(lint, node, 0) >= 0;
    const bool weight = qb_lint_dequantizer(lint, node, 1) >= 0;
    if (data == weight) return QB_OK;
    if (data && !qb_lint_constant(lint, node, 1)) return QB_OK; /* a product of activations */
    return qb_lint_found(lint, node,
                         data ? "its data are quantized, its weight is not"
                              : "its weight is quantized, its data are not");
}

QB_LINT_RULE(half_quantized, "half-quantized", ALL,
             "quantize both or none: the layer runs in float, the Q/DQ only cost");

static qb_status float_bias(qb_lint *lint, int32_t node) {
    if (!qb_lint_is(lint, node, "DequantizeLinear")) return QB_OK;
    const qb_value *data = qb_lint_constant(lint, node, 0);
    if (!data || data->dtype != QB_DTYPE_S32) return QB_OK;
    return qb_lint_found(lint, node, "dequantizes s32, which the runtime does not read");
}

QB_LINT_RULE(float_bias, "float-bias", NVIDIA, "keep biases in float (quantize --for trt)");

/* Data and weight are dequantized: an integer layer as far as they go. */
static bool is_integer(const qb_lint *lint, int32_t node) {
    return (qb_lint_is(lint, node, "Conv") || qb_lint_is(lint, node, "Gemm")) &&
           qb_lint_dequantizer(lint, node, 0) >= 0 && qb_lint_dequantizer(lint, node, 1) >= 0;
}

static qb_status integer_bias(qb_lint *lint, int32_t node) {
    if (!is_integer(lint, node) || !qb_lint_constant(lint, node, 2)) return QB_OK;
    return qb_lint_found(lint, node, "its bias is float");
}

QB_LINT_RULE(integer_bias, "integer-bias", "ort-cpu",
             "quantize the bias to s32 with the scale Sx Sw (quantize --for ort-cpu)");

/* onnxruntime adds the bias to the sums as it is: with another scale the result is wrong. */
static qb_status bias_scale(qb_lint *lint, int32_t node) {
    const float *x, *w, *b;
    if (!is_integer(lint, node) || qb_lint_dequantizer(lint, node, 2) < 0) return QB_OK;
    const int32_t bias = qb_lint_dequantizer(lint, node, 2);
    const int64_t nx = qb_lint_scales(lint, qb_lint_dequantizer(lint, node, 0), &x);
    const int64_t nw = qb_lint_scales(lint, qb_lint_dequantizer(lint, node, 1), &w);
    const int64_t nb = qb_lint_scales(lint, bias, &b);
    if (nx != 1 || nw < 1 || nb < 1) return QB_OK;
    for (int64_t i = 0; i < (nw > nb ? nw : nb); i++) {
        const double wanted = (double)x[0] * (double)w[nw > 1 && i < nw ? i : 0];
        const double got = (double)b[nb > 1 && i < nb ? i : 0];
        if (!(fabs(got - wanted) <= 1e-5 * wanted))
            return qb_lint_found(lint, bias, "scale %g in channel %lld, expected Sx Sw = %g", got,
                                 (long long)i, wanted);
    }
    return QB_OK;
}

QB_LINT_RULE(bias_scale, "bias-scale", "ort-cpu",
             "quantize the bias with the product of the scales of data and weight");

static qb_status integer_operator(qb_lint *lint, int32_t node) {
    if (node < 0 || !qb_op_has(lint->graph->nodes[node].op, QB_TRAIT_INTEGERS)) return QB_OK;
    if (qb_lint_is_qdq(lint, node)) return QB_OK;
    return qb_lint_found(lint, node, "an operator on integers");
}

QB_LINT_RULE(integer_operator, "integer-operator", NVIDIA,
             "write the float operator between DequantizeLinear and QuantizeLinear");

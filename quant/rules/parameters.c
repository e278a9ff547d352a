/* Rules on scales, zero points and types of single Q and DQ nodes. */
#include <math.h>

#include "quant/check_internal.h"

#define ALL "trt ort-cpu ort-cuda"
#define NVIDIA "trt ort-cuda"

static qb_status nothing_quantized(qb_lint *lint, int32_t node) {
    if (node >= 0) return QB_OK;
    for (int32_t i = 0; i < lint->graph->n_nodes; i++)
        if (qb_lint_is_qdq(lint, i)) return QB_OK;
    return qb_lint_found(lint, -1, "no QuantizeLinear or DequantizeLinear node");
}

QB_LINT_RULE(nothing_quantized, "nothing-quantized", ALL,
             "quantize it: qbench calibrate, then qbench quantize --for TARGET");

static qb_status opset(qb_lint *lint, int32_t node) {
    const float *scale;
    if (lint->graph->opset >= 13 || !qb_lint_is_qdq(lint, node)) return QB_OK;
    const int64_t n = qb_lint_scales(lint, node, &scale);
    if (n <= 1) return QB_OK;
    return qb_lint_found(lint, node, "%lld scales in opset %d, which knows one", (long long)n,
                         lint->graph->opset);
}

QB_LINT_RULE(opset, "opset", ALL, "convert the model to opset 13 or higher");

static qb_status constant_scale(qb_lint *lint, int32_t node) {
    if (!qb_lint_is_qdq(lint, node)) return QB_OK;
    const qb_node *n = &lint->graph->nodes[node];
    if (!qb_lint_constant(lint, node, 1)) return qb_lint_found(lint, node, "the scale is computed");
    if (n->n_in > 2 && n->in[2] >= 0 && !qb_lint_constant(lint, node, 2))
        return qb_lint_found(lint, node, "the zero point is computed");
    return QB_OK;
}

QB_LINT_RULE(constant_scale, "constant-scale", ALL,
             "make it an initializer: only static quantization is compiled to integers");

static qb_status positive_scale(qb_lint *lint, int32_t node) {
    const float *scale;
    const int64_t n = qb_lint_is_qdq(lint, node) ? qb_lint_scales(lint, node, &scale) : 0;
    for (int64_t i = 0; i < n; i++)
        if (!(scale[i] > 0) || isinf(scale[i]))
            return qb_lint_found(lint, node, "scale %lld is %g", (long long)i, (double)scale[i]);
    return QB_OK;
}

QB_LINT_RULE(positive_scale, "positive-scale", ALL,
             "give a tensor or channel that is always zero the scale 1");

static qb_status per_tensor_activation(qb_lint *lint, int32_t node) {
    const float *scale;
    if (!qb_lint_is_qdq(lint, node) || qb_lint_constant(lint, node, 0)) return QB_OK;
    if (qb_lint_is(lint, node, "DequantizeLinear") && qb_lint_is_weight(lint, node)) return QB_OK;
    const int64_t n = qb_lint_scales(lint, node, &scale);
    return n <= 1 ? QB_OK : qb_lint_found(lint, node, "%lld scales on an activation", (long long)n);
}

QB_LINT_RULE(per_tensor_activation, "per-tensor-activation", ALL,
             "use one scale: only weights may have one a channel");

static qb_status zero_point(qb_lint *lint, int32_t node) {
    const qb_value *zero = qb_lint_is_qdq(lint, node) ? qb_lint_constant(lint, node, 2) : NULL;
    const int64_t n = zero ? qb_shape_count(&zero->shape) : 0;
    for (int64_t i = 0; i < n; i++)
        if (qb_lint_zero(lint, node, i) != 0)
            return qb_lint_found(lint, node, "zero point %d, expected 0",
                                 qb_lint_zero(lint, node, i));
    return QB_OK;
}

QB_LINT_RULE(zero_point, "zero-point", NVIDIA, "quantize symmetrically (quantize --for trt)");

/* s32 is for biases and has rules of its own. */
static qb_status signed_data(qb_lint *lint, int32_t node) {
    const qb_dtype quantized =
        qb_lint_is_qdq(lint, node) ? qb_lint_quantized_type(lint, node) : QB_DTYPE_NONE;
    if (quantized == QB_DTYPE_NONE || quantized == QB_DTYPE_S8 || quantized == QB_DTYPE_S32)
        return QB_OK;
    return qb_lint_found(lint, node, "quantized values are %s, expected s8%s",
                         qb_dtype_text(quantized),
                         qb_lint_constant(lint, node, 2) ? ""
                                                         : " (without a zero point ONNX "
                                                           "means u8)");
}

QB_LINT_RULE(signed_data, "signed-codes", NVIDIA,
             "quantize to s8 with a typed zero point of 0 (quantize --for trt)");

static qb_status unsigned_data(qb_lint *lint, int32_t node) {
    if (!qb_lint_is_layer(lint, node)) return QB_OK;
    const int32_t data = qb_lint_dequantizer(lint, node, 0);
    if (data < 0 || qb_lint_quantized_type(lint, data) != QB_DTYPE_S8) return QB_OK;
    return qb_lint_found(lint, node, "its data are s8: on x86 it stays float or runs slowly");
}

QB_LINT_RULE(unsigned_data, "unsigned-codes", "ort-cpu",
             "quantize activations to u8 (quantize --for ort-cpu)");

static qb_status scalar_data(qb_lint *lint, int32_t node) {
    const qb_value *data = qb_lint_is_qdq(lint, node) ? qb_lint_constant(lint, node, 0) : NULL;
    if (!data || data->shape.rank != 0) return QB_OK;
    return qb_lint_found(lint, node, "its data are a scalar");
}

QB_LINT_RULE(scalar_data, "scalar-data", NVIDIA,
             "leave the constant in float, or give it one dimension");

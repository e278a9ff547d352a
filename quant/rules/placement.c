/* Rules on where Q and DQ stand: what keeps operators from fusing. */
#include <math.h>

#include "quant/check_internal.h"
#include "quant/quant_internal.h"

#define NVIDIA "trt ort-cuda"

/* The Q behind a layer, the DQ behind that and its only reader; -1 where the chain ends. */
static int32_t reader_behind_pair(const qb_lint *lint, int32_t layer) {
    const int32_t q = qb_lint_sole_user(lint, layer);
    if (!qb_lint_is(lint, q, "QuantizeLinear")) return -1;
    const int32_t dq = qb_lint_sole_user(lint, q);
    return qb_lint_is(lint, dq, "DequantizeLinear") ? qb_lint_sole_user(lint, dq) : -1;
}

static qb_status split_activation(qb_lint *lint, int32_t node) {
    if (!qb_lint_is_layer(lint, node)) return QB_OK;
    const int32_t reader = reader_behind_pair(lint, node);
    const qb_op *op = reader < 0 ? NULL : lint->graph->nodes[reader].op;
    if (!op || op->kernel.kind != QB_KIND_UNARY) return QB_OK;
    return qb_lint_found(lint, node, "Q/DQ between it and %s", op->name);
}

QB_LINT_RULE(split_activation, "split-activation", NVIDIA,
             "quantize behind the activation only, so that both fuse");

/* Is input i of a sum a convolution that nobody else reads, behind Q/DQ? */
static bool is_quantized_layer(const qb_lint *lint, int32_t sum, int32_t i) {
    const int32_t dq = qb_lint_dequantizer(lint, sum, i);
    const int32_t q = dq < 0 ? -1 : qb_lint_maker(lint, dq, 0);
    const int32_t layer = qb_lint_is(lint, q, "QuantizeLinear") ? qb_lint_maker(lint, q, 0) : -1;
    return qb_lint_is(lint, layer, "Conv") && reader_behind_pair(lint, layer) == sum;
}

static qb_status split_sum(qb_lint *lint, int32_t node) {
    if (!qb_lint_is(lint, node, "Add") || lint->graph->nodes[node].n_in != 2) return QB_OK;
    if (qb_lint_dequantizer(lint, node, 0) < 0 || qb_lint_dequantizer(lint, node, 1) < 0)
        return QB_OK;
    if (!is_quantized_layer(lint, node, 0) && !is_quantized_layer(lint, node, 1)) return QB_OK;
    return qb_lint_found(lint, node, "both operands are quantized");
}

QB_LINT_RULE(split_sum, "split-sum", NVIDIA,
             "leave the convolution's side in float, so that convolution and sum fuse");

static qb_status concat_scales(qb_lint *lint, int32_t node) {
    if (!qb_lint_is(lint, node, "Concat")) return QB_OK;
    float first = 0;
    for (int32_t i = 0; i < lint->graph->nodes[node].n_in; i++) {
        const float *scale;
        const int32_t dq = qb_lint_dequantizer(lint, node, i);
        if (dq < 0 || qb_lint_scales(lint, dq, &scale) != 1) return QB_OK;
        if (i == 0) first = scale[0];
        if (scale[0] != first)
            return qb_lint_found(lint, node, "input %d has the scale %g, input 0 %g", i,
                                 (double)scale[0], (double)first);
    }
    return QB_OK;
}

QB_LINT_RULE(concat_scales, "concat-scales", NVIDIA,
             "give all inputs the largest scale: otherwise each is converted");

/* A clamp that changes none of the quantized values behind it. */
static bool is_implied(const qb_lint *lint, int32_t clamp, int32_t q) {
    const float *scale;
    float low = 0, high = INFINITY;
    if (qb_lint_scales(lint, q, &scale) != 1) return false;
    if (qb_lint_is(lint, clamp, "Clip")) {
        const qb_value *bound[2] = {qb_lint_constant(lint, clamp, 1),
                                    qb_lint_constant(lint, clamp, 2)};
        for (int i = 0; i < 2; i++)
            if (!bound[i] || bound[i]->dtype != QB_DTYPE_F32 || !bound[i]->bytes) return false;
        low = *(const float *)bound[0]->data;
        high = *(const float *)bound[1]->data;
    }
    return qb_quantized_range_implies(qb_lint_quantized_type(lint, q), scale[0],
                                      qb_lint_zero(lint, q, 0), low, high);
}

static qb_status layer_output(qb_lint *lint, int32_t node) {
    if (!qb_lint_is(lint, node, "Conv") || qb_lint_dequantizer(lint, node, 0) < 0 ||
        qb_lint_dequantizer(lint, node, 1) < 0)
        return QB_OK;
    const int32_t reader = qb_lint_sole_user(lint, node);
    const bool clamped = qb_lint_is(lint, reader, "Relu") || qb_lint_is(lint, reader, "Clip");
    const int32_t q = clamped ? qb_lint_sole_user(lint, reader) : reader;
    if (!qb_lint_is(lint, q, "QuantizeLinear"))
        return qb_lint_found(lint, node, "its result is not read by one QuantizeLinear alone");
    if (clamped && !is_implied(lint, reader, q))
        return qb_lint_found(lint, node,
                             "%s behind it is not implied by the quantized values it gets",
                             lint->graph->nodes[reader].op->name);
    const qb_dtype in = qb_lint_quantized_type(lint, qb_lint_dequantizer(lint, node, 0));
    const qb_dtype out = qb_lint_quantized_type(lint, q);
    if (in == out) return QB_OK;
    return qb_lint_found(lint, node, "its data are %s and its result %s", qb_dtype_text(in),
                         qb_dtype_text(out));
}

QB_LINT_RULE(layer_output, "layer-output", "ort-cpu",
             "quantize its own output with the type of its data (quantize --for ort-cpu); "
             "otherwise it stays float");

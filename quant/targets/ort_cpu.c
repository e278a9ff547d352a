/* onnxruntime's CPU provider: u8 activations (s8 ones are not fused on x86), s32 biases, and Q/DQ
 * around every convolution, so that each becomes QLinearConv. */
#include "quant/target.h"

const qb_target qb_target_ort_cpu = {
    .name = "ort-cpu",
    .other_name = "onnxruntime",
    .summary = "onnxruntime on CPUs: u8 activations, s32 biases, outputs quantized",
    .activations = QB_SCHEME_U8_AFFINE,
    .has_16_bits = true, /* in Q/DQ since opset 21; layers between them run in float */
    .quantized_layers = true,
};

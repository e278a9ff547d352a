/* TensorRT 10 and 11, explicit quantization: s8 with zero point 0, per-channel weights, float
 * biases, Q/DQ on the inputs of layers. A convolution that a residual is added to is not quantized
 * itself, only the other branch is, so that both fuse. */
#include "quant/target.h"

const qb_target qb_target_trt = {
    .name = "trt",
    .other_name = "tensorrt",
    .summary = "TensorRT 10 and 11: s8, zero point 0, float biases",
    .activations = QB_SCHEME_S8_SYMMETRIC,
    .float_bias = true,
    .float_functions = true,
};

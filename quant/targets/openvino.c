/* OpenVINO's CPU plugin: its frontend makes a FakeQuantize of each pair, and its low precision
 * passes want one on the inputs of layers, u8 values and s8 weights, and float biases. What stands
 * between layers stays in floats, for a pair on an output would only be one conversion more. */
#include "quant/target.h"

const qb_target qb_target_openvino = {
    .name = "openvino",
    .summary = "OpenVINO on CPUs: u8 activations, float biases, inputs of layers quantized",
    .activations = QB_SCHEME_U8_AFFINE,
    .float_bias = true,
    .float_functions = true,
};

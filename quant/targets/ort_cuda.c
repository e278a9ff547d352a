/* onnxruntime's TensorRT and CUDA providers. The former wants TensorRT's form; the latter has no
 * integer layers: it runs this form's Q and DQ beside float layers, and anything else (QLinear
 * operators, s32 biases) on the CPU. */
#include "quant/target.h"

const qb_target qb_target_ort_cuda = {
    .name = "ort-cuda",
    .summary = "onnxruntime on NVIDIA GPUs: as trt, nothing that falls back to the CPU",
    .activations = QB_SCHEME_S8_SYMMETRIC,
    .float_bias = true,
    .float_functions = true,
};

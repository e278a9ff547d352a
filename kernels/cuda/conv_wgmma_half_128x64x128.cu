#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_HALF_TILE(128, 64, 128, 3, false)

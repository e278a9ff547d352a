#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_WGMMA_TILE(256, 64, 64, 2, true, false)

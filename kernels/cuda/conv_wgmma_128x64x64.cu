#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_WGMMA_TILE(128, 64, 64, 3, false, true)

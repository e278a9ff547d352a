#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_WGMMA_TILE(64, 128, 64, 3, false, false)

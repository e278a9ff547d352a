#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_WGMMA_TILE(256, 128, 128, 2, true, true)

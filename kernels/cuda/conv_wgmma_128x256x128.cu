#include "kernels/cuda/conv_wgmma.cuh"

QB_CUDA_WGMMA_TILE(128, 256, 128, 2, true, true)

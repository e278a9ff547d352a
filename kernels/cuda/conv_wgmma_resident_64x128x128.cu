#include "kernels/cuda/conv_wgmma_resident.cuh"

QB_CUDA_RESIDENT_TILE(128, 128, 3)

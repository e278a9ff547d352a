#include "kernels/cuda/conv_wgmma_window.cuh"

QB_CUDA_WINDOW_TILE(128, 128)

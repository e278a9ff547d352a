// Sums and maxima over the lanes of a warp.
#ifndef QB_CUDA_WARP_CUH
#define QB_CUDA_WARP_CUH

#include "kernels/cuda/common/value.cuh"

// NaN wins.
QB_DEVICE float qb_warp_max(float v) {
    for (int d = 16; d > 0; d /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, v, d);
        v = other > v || other != other ? other : v;
    }
    return v;
}

QB_DEVICE float qb_warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

#endif

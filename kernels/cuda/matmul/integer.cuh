// What the kernels of MATMUL_INTEGER share.
#ifndef QB_CUDA_INTEGER_CUH
#define QB_CUDA_INTEGER_CUH

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/matmul/matmul.h"

// A zero point; 0 where there are none.
QB_DEVICE int qb_zero_of(const void *zeros, int i, bool is_signed) {
    return zeros ? qb_q8_at(((const uint8_t *)zeros)[i], 0, is_signed) : 0;
}

#endif

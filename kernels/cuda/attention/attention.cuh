// What the attention kernels share.
#ifndef QB_CUDA_ATTENTION_CUH
#define QB_CUDA_ATTENTION_CUH

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/value.cuh"

#define LOG2E 1.4426950408889634f

// The first token of a head.
QB_DEVICE int64_t head_at(const qb_heads &heads, uint32_t item, uint32_t head) {
    const uint32_t inner = (uint32_t)heads.inner;
    return heads.offset + item / inner * heads.stride[0] + item % inner * heads.stride[1] +
           head * heads.stride[2];
}

#endif

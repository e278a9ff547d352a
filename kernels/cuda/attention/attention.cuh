// What the attention kernels share.
#ifndef QB_CUDA_ATTENTION_CUH
#define QB_CUDA_ATTENTION_CUH

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/value.cuh"

#define LOG2E 1.4426950408889634f

QB_DEVICE float mask_at(const qb_cuda_attention &p, const void *mask, int64_t at) {
    return p.mask_value.dtype == QB_DTYPE_F16 ? __half2float(((const __half *)mask)[at])
                                              : ((const float *)mask)[at];
}

#endif

// What the products without Tensor Cores share: elements of operands of any type and stride, the
// matrices of a batch, and one sum on its way to the result.
#ifndef QB_CUDA_MATMUL_PLAIN_CUH
#define QB_CUDA_MATMUL_PLAIN_CUH

#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/matmul/matmul.h"

// Quantized values less the zero point, which may belong to the column.
template <class T>
QB_DEVICE T qb_element(const qb_cuda_value &p, const void *data, int64_t at, int zero) {
    if constexpr ((T)0.5f == (T)0) {
        return qb_q8_at(((const uint8_t *)data)[at], 0, p.dtype == QB_DTYPE_S8) - zero;
    } else {
        return p.dtype == QB_DTYPE_F16 ? __half2float(((const __half *)data)[at])
                                       : ((const float *)data)[at];
    }
}

// Where matrix `index` of the batch begins in both operands.
QB_DEVICE void qb_matrix_at(const qb_cuda_matmul &p, uint32_t index, int64_t *a, int64_t *b) {
    *a = *b = 0;
    for (int d = p.n_lead - 1; d >= 0; d--) {
        *a += index % p.lead[d] * p.a_lead[d];
        *b += index % p.lead[d] * p.b_lead[d];
        index /= p.lead[d];
    }
}

// One sum of matrix blockIdx.y to the result.
template <class T>
QB_DEVICE void qb_matmul_epilogue(const qb_cuda_matmul &p, const void *residual, const char *packed,
                                  void *out, T sum, int m, int n) {
    float f32 = (float)sum;
    if (p.integer) {
        if (p.has_bias && !p.has_float_bias)
            f32 = (float)((int)sum + ((const int *)(packed + p.at_bias))[n]);
        f32 = __fmul_rn(f32, ((const float *)(packed + p.at_multiplier))[n]);
    } else {
        f32 = __fmul_rn(f32, p.scale);
    }
    if (p.has_float_bias) f32 = __fadd_rn(f32, ((const float *)(packed + p.at_bias))[n]);
    int64_t at = ((int64_t)blockIdx.y * p.m + m) * p.n + n;
    qb_epilogue_of_value(p.end, residual, at, out, at, f32);
}

#endif

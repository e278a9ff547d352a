// What elementwise kernels share.
#ifndef QB_CUDA_ELEMENTWISE_CUH
#define QB_CUDA_ELEMENTWISE_CUH

#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/elementwise.h"

QB_DEVICE uint32_t qb_quotient(const qb_cuda_walk &w, uint32_t at, int d) {
    return (uint32_t)((uint64_t)at * w.inverse[d] >> w.shift[d]);
}

// Where element `at` of the walk lies in each of N operands.
template <int N> QB_DEVICE void qb_place(const qb_cuda_walk &w, uint32_t at, int64_t (&to)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++) to[k] = w.first[k];
    for (int d = w.rank - 1; d >= 0; d--) {
        uint32_t rest = d ? qb_quotient(w, at, d) : 0, i = at - rest * w.dim[d];
#pragma unroll
        for (int k = 0; k < N; k++) to[k] += i * w.stride[k][d];
        at = rest;
    }
}

// The step of operand k from element to element.
QB_DEVICE int64_t qb_step(const qb_cuda_walk &w, int k) {
    return w.rank ? w.stride[k][w.rank - 1] : 0;
}

#endif

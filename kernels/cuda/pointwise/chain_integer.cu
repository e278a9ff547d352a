// Chains of integers (kernels/integers.def), as those of ids and places: a thread has an element,
// and interprets the program with a register for each result in shared memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/chain.h"
#include "kernels/cuda/pointwise/elementwise.cuh"

#define THREADS 128

QB_DEVICE int64_t apply(int function, int64_t a, int64_t b, int64_t c) {
    switch (function) {
#define QB_INTEGER(NAME, EXPRESSION)                                                               \
    case QB_FUNCTION_##NAME:                                                                       \
        return EXPRESSION;
#include "kernels/integers.def"
#undef QB_INTEGER
    default: return (void)b, (void)c, a;
    }
}

QB_DEVICE int64_t load(int dtype, const void *data, int64_t at) {
    switch (dtype) {
    case QB_DTYPE_S64: return ((const int64_t *)data)[at];
    case QB_DTYPE_S32: return ((const int32_t *)data)[at];
    default: return ((const uint8_t *)data)[at] != 0;
    }
}

QB_DEVICE void store(int dtype, void *data, int64_t at, int64_t v) {
    switch (dtype) {
    case QB_DTYPE_S64: ((int64_t *)data)[at] = v; return;
    case QB_DTYPE_S32: ((int32_t *)data)[at] = (int32_t)v; return;
    default: ((uint8_t *)data)[at] = v != 0;
    }
}

typedef struct inputs {
    const void *data[QB_CHAIN_INPUTS];
} inputs;

static __global__ void __launch_bounds__(THREADS)
    chain_integer(const __grid_constant__ qb_cuda_chain p, const __grid_constant__ inputs in,
                  void *out) {
    qb_wait_for_dependencies();
    __shared__ int64_t registers[QB_CUDA_CHAIN_CONSTANT][THREADS]; // as operations number them
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.walk[0].count) return;
    int64_t to = 0;
    int64_t(*own)[THREADS] = (int64_t(*)[THREADS])(&registers[0][threadIdx.x]);
    for (int k = 0; k < p.n_in; k++) {
        int64_t place[3];
        qb_place<3>(p.walk[k / 2], at, place);
        to = place[0];
        own[QB_CUDA_CHAIN_INPUT + k][0] =
            load(p.in[k].dtype, in.data[k], k % 2 ? place[2] : place[1]);
    }
    int64_t last = 0;
#pragma unroll 1
    for (int n = 0; n < p.n_operations; n++) {
        const qb_cuda_chain_operation &o = p.operation[n];
        int64_t v[3] = {};
#pragma unroll
        for (int i = 0; i < 3; i++) {
            if (i < o.arguments)
                v[i] = o.from[i] < QB_CUDA_CHAIN_CONSTANT
                           ? own[o.from[i]][0]
                           : (int64_t)p.constant[o.from[i] - QB_CUDA_CHAIN_CONSTANT];
        }
        last = apply(o.function, v[0], v[1], v[2]);
        if (o.narrow) last = (int32_t)last;
        own[QB_CUDA_CHAIN_LAST][0] = last;
        if (o.slot < QB_CUDA_CHAIN_SLOTS) own[QB_CUDA_CHAIN_SLOT + o.slot][0] = last;
    }
    store(p.out.dtype, out, to, last);
}

extern "C" int qb_cuda_chain_integer_run(const qb_cuda_chain *p,
                                         const void *const in[QB_CHAIN_INPUTS], void *out,
                                         void *stream) {
    const unsigned blocks = (unsigned)(((uint64_t)p->walk[0].count + THREADS - 1) / THREADS);
    inputs list;
    for (int k = 0; k < QB_CHAIN_INPUTS; k++) list.data[k] = in[k];
    if (blocks == 0) return 0;
    return qb_launch(chain_integer, blocks, THREADS, 0, stream, *p, list, out);
}

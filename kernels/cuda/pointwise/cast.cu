// A thread an element: masks are small.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/cast.h"

#define THREADS 128

static __global__ void __launch_bounds__(THREADS)
    cast(const __grid_constant__ qb_cuda_cast p, const void *in, void *out) {
    qb_wait_for_dependencies();
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.count) return;
    float v[1];
    switch (p.from) {
    case QB_DTYPE_S64: v[0] = __ll2float_rn(((const int64_t *)in)[i]); break;
    case QB_DTYPE_S32: v[0] = __int2float_rn(((const int32_t *)in)[i]); break;
    default: v[0] = ((const uint8_t *)in)[i] ? 1.0f : 0.0f;
    }
    qb_store_floats<1, true>(p.out, out, i, v);
}

extern "C" int qb_cuda_cast_run(const qb_cuda_cast *p, const void *in, void *out, void *stream) {
    if (p->count == 0) return 0;
    return qb_launch(cast, (p->count + THREADS - 1) / THREADS, THREADS, 0, stream, *p, in, out);
}

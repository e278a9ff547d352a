// Quantized values between u8 and s8: the upper bit changes. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/vendor/cublaslt.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS) flip(const uint4 *in, uint4 *out, int64_t n) {
    qb_wait_for_dependencies();
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    uint4 v = in[i];
    const uint32_t bits = 0x80808080u;
    out[i] = make_uint4(v.x ^ bits, v.y ^ bits, v.z ^ bits, v.w ^ bits);
}

extern "C" int qb_cuda_flip_run(const void *in, void *out, int64_t n, void *stream) {
    int64_t pieces = n / 16;
    if (pieces == 0) return 0;
    return qb_launch(flip, (unsigned)((pieces + THREADS - 1) / THREADS), THREADS, 0, stream,
                     (const uint4 *)in, (uint4 *)out, pieces);
}

// Softmax: one warp a line, sums of exponentials in float. Lines of up to 512 elements stay in
// registers between the passes; longer ones are read three times, from L1 but for the first.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/pointwise/softmax.h"

#define WARPS 4
#define HELD 16 // elements that a lane keeps

QB_DEVICE float load(const qb_cuda_softmax &p, const void *in, int64_t at) {
    float v[1];
    qb_load_floats<1>(p.in, in, at, v);
    return v[0];
}

template <bool IN_REGISTERS>
static __global__ void __launch_bounds__(WARPS * 32)
    softmax(const __grid_constant__ qb_cuda_softmax p, const void *in, void *out) {
    int64_t line = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (line >= p.outer * p.step) return; // whole warps leave
    int lane = threadIdx.x % 32;
    int64_t first = line / p.step * p.n * p.step + line % p.step;
    float held[HELD], top = -INFINITY, sum = 0.0f;
    if constexpr (IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            int at = i * 32 + lane;
            held[i] = at < p.n ? load(p, in, first + at * p.step) : -INFINITY;
            top = held[i] > top || held[i] != held[i] ? held[i] : top;
        }
        top = qb_warp_max(top);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            held[i] = expf(held[i] - top);
            sum += i * 32 + lane < p.n ? held[i] : 0.0f;
        }
    } else {
        for (int at = lane; at < p.n; at += 32) {
            float v = load(p, in, first + at * p.step);
            top = v > top || v != v ? v : top;
        }
        top = qb_warp_max(top);
        for (int at = lane; at < p.n; at += 32) sum += expf(load(p, in, first + at * p.step) - top);
    }
    sum = qb_warp_sum(sum);
    bool zero = p.zero_nan && sum != sum;
    if constexpr (IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            int64_t at = first + (i * 32 + lane) * p.step;
            float v[1] = {zero ? 0.0f : held[i] / sum};
            if (i * 32 + lane < p.n) qb_store_floats<1, false>(p.out, out, at, v);
        }
    } else {
        for (int at = lane; at < p.n; at += 32) {
            float v[1] = {zero ? 0.0f : expf(load(p, in, first + at * p.step) - top) / sum};
            qb_store_floats<1, false>(p.out, out, first + at * p.step, v);
        }
    }
}

extern "C" int qb_cuda_softmax_run(const qb_cuda_softmax *p, const void *in, void *out,
                                   void *stream) {
    int64_t lines = p->outer * p->step;
    unsigned blocks = (unsigned)((lines + WARPS - 1) / WARPS);
    if (lines == 0 || p->n == 0) return 0;
    if (p->n <= HELD * 32)
        return qb_launch(softmax<true>, blocks, WARPS * 32, 0, stream, *p, in, out);
    return qb_launch(softmax<false>, blocks, WARPS * 32, 0, stream, *p, in, out);
}

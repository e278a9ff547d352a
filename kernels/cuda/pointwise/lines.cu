// Sums so far, and where extremes lie, along one dimension: a thread a line where lines are short
// or lie side by side, else a block (of sums) or a warp (of extremes).
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/lines.h"

#define THREADS 256
#define WARP 32
#define ALL 0xffffffffu

// The first element of a line.
QB_DEVICE int64_t first_of(const qb_cuda_lines &p, uint32_t line) {
    return (int64_t)(line / p.inner) * p.n * p.inner + line % p.inner;
}

// ---- sums

QB_DEVICE void load(const qb_cuda_lines &p, const void *in, int64_t at, float &v) {
    float one[1];
    qb_load_floats<1>(p.in, in, at, one);
    v = one[0];
}
QB_DEVICE void load(const qb_cuda_lines &p, const void *in, int64_t at, long long &v) {
    v = p.dtype == QB_DTYPE_S64 ? ((const long long *)in)[at] : ((const int32_t *)in)[at];
}
QB_DEVICE void store(const qb_cuda_lines &p, void *out, int64_t at, float v) {
    const float one[1] = {v};
    qb_store_floats<1, true>(p.out, out, at, one);
}
QB_DEVICE void store(const qb_cuda_lines &p, void *out, int64_t at, long long v) {
    if (p.dtype == QB_DTYPE_S64)
        ((long long *)out)[at] = v;
    else
        ((int32_t *)out)[at] = (int32_t)v;
}

template <class Sum>
static __global__ void __launch_bounds__(THREADS)
    scan_alone(const __grid_constant__ qb_cuda_lines p, const void *in, void *out) {
    qb_wait_for_dependencies();
    const uint32_t line = blockIdx.x * THREADS + threadIdx.x;
    if (line >= p.outer * p.inner) return;
    const bool exclusive = p.first, reverse = p.second;
    const int64_t first = first_of(p, line);
    Sum sum = 0, v;
    for (uint32_t i = 0; i < p.n; i++) {
        const int64_t at = first + (int64_t)(reverse ? p.n - 1 - i : i) * p.inner;
        load(p, in, at, v);
        const Sum with = sum + v;
        store(p, out, at, exclusive ? sum : with);
        sum = with;
    }
}

// A block's elements at once: sums within a warp, then those of the warps before.
template <class Sum>
static __global__ void __launch_bounds__(THREADS)
    scan_together(const __grid_constant__ qb_cuda_lines p, const void *in, void *out) {
    qb_wait_for_dependencies();
    __shared__ Sum of_warp[THREADS / WARP];
    const bool exclusive = p.first, reverse = p.second;
    const int64_t first = first_of(p, blockIdx.x);
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Sum before_all = 0;
    for (uint32_t begin = 0; begin < p.n; begin += THREADS) {
        const uint32_t i = begin + threadIdx.x;
        const int64_t at = first + (int64_t)(reverse ? p.n - 1 - i : i) * p.inner;
        Sum own = 0;
        if (i < p.n) load(p, in, at, own);
        Sum sum = own;
#pragma unroll
        for (int by = 1; by < WARP; by *= 2) {
            const Sum other = __shfl_up_sync(ALL, sum, by);
            if (lane >= by) sum += other;
        }
        Sum before = __shfl_up_sync(ALL, sum, 1);
        if (lane == 0) before = 0;
        if (lane == WARP - 1) of_warp[warp] = sum;
        __syncthreads();
        Sum base = before_all;
#pragma unroll
        for (int w = 0; w < THREADS / WARP; w++) {
            if (w < warp) base += of_warp[w];
            before_all += of_warp[w];
        }
        __syncthreads();
        before += base;
        if (i < p.n) store(p, out, at, exclusive ? before : before + own);
    }
}

template <class Sum>
static int scan_run(const qb_cuda_lines *p, const void *in, void *out, cudaStream_t s) {
    const uint32_t lines = p->outer * p->inner;
    return p->together > 1 ? qb_launch(scan_together<Sum>, lines, THREADS, 0, s, *p, in, out)
                           : qb_launch(scan_alone<Sum>, (lines + THREADS - 1) / THREADS, THREADS, 0,
                                       s, *p, in, out);
}

extern "C" int qb_cuda_scan_run(const qb_cuda_lines *p, const void *in, void *out, void *stream) {
    if (p->outer * p->inner == 0 || p->n == 0) return 0;
    return p->dtype == QB_DTYPE_NONE ? scan_run<float>(p, in, out, (cudaStream_t)stream)
                                     : scan_run<long long>(p, in, out, (cudaStream_t)stream);
}

// ---- extremes

struct extreme {
    float v;
    uint32_t at;
};

// Does b come before a? NaN is larger than any number.
QB_DEVICE bool is_better(const qb_cuda_lines &p, extreme a, extreme b) {
    const bool smallest = p.first, last = p.second;
    const bool above = b.v > a.v || (b.v != b.v && a.v == a.v);
    const bool below = b.v < a.v || (a.v != a.v && b.v == b.v);
    if (above || below) return smallest ? below : above;
    return last ? b.at > a.at : b.at < a.at;
}

template <int TOGETHER>
static __global__ void __launch_bounds__(THREADS)
    find_extremes(const __grid_constant__ qb_cuda_lines p, const void *in, int64_t *out) {
    qb_wait_for_dependencies();
    const uint32_t line = (blockIdx.x * THREADS + threadIdx.x) / TOGETHER;
    if (line >= p.outer * p.inner) return; // whole warps where they share
    const int64_t first = first_of(p, line);
    const uint32_t lane = threadIdx.x % TOGETHER;
    extreme best = {0.0f, lane};
    for (uint32_t i = lane; i < p.n; i += TOGETHER) {
        float v[1];
        qb_load_unscaled<1>(p.in, in, first + (int64_t)i * p.inner, v);
        const extreme next = {v[0], i};
        if (i == lane || is_better(p, best, next)) best = next;
    }
#pragma unroll
    for (int by = TOGETHER / 2; by > 0; by /= 2) {
        const extreme other = {__shfl_xor_sync(ALL, best.v, by), __shfl_xor_sync(ALL, best.at, by)};
        const bool has = best.at < p.n, has_other = other.at < p.n;
        if (has_other && (!has || is_better(p, best, other))) best = other;
    }
    if (lane == 0) out[line] = best.at;
}

extern "C" int qb_cuda_arg_run(const qb_cuda_lines *p, const void *in, int64_t *out, void *stream) {
    const uint64_t threads = (uint64_t)p->outer * p->inner * p->together;
    const unsigned blocks = (unsigned)((threads + THREADS - 1) / THREADS);
    if (blocks == 0) return 0;
    return qb_launch(p->together > 1 ? find_extremes<WARP> : find_extremes<1>, blocks, THREADS, 0,
                     stream, *p, in, out);
}

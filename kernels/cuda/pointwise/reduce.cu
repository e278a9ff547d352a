// Reductions: a thread adds up some elements of a result, a block its threads' in a tree, and what
// has more than one part a second kernel, part by part. The order depends on the shape alone.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/reduce.h"

#define THREADS QB_CUDA_REDUCE_THREADS

// How elements become part of a sum. LOG_SUM_EXP has two numbers: the largest element, and the sum
// of the exponentials less that.
enum way { ADD, ADD_SIZES, ADD_SQUARES, MULTIPLY, LARGEST, SMALLEST, LOG_SUM_EXP };

struct sum {
    float v, exponentials;
};

template <int WAY> QB_DEVICE sum start() {
    if (WAY == MULTIPLY) return {1.0f, 0.0f};
    if (WAY == LARGEST || WAY == LOG_SUM_EXP) return {-INFINITY, 0.0f};
    if (WAY == SMALLEST) return {INFINITY, 0.0f};
    return {0.0f, 0.0f};
}

// NaN wins. Infinities less themselves count as 0: e^0 = 1.
template <int WAY> QB_DEVICE sum both(sum a, sum b) {
    switch (WAY) {
    case MULTIPLY: return {__fmul_rn(a.v, b.v), 0.0f};
    case LARGEST: return {b.v > a.v || b.v != b.v ? b.v : a.v, 0.0f};
    case SMALLEST: return {b.v < a.v || b.v != b.v ? b.v : a.v, 0.0f};
    case LOG_SUM_EXP: {
        const float top = b.v > a.v || b.v != b.v ? b.v : a.v;
        const float low = a.v == top ? a.exponentials : a.exponentials * expf(a.v - top);
        const float high = b.v == top ? b.exponentials : b.exponentials * expf(b.v - top);
        return {top, low + high};
    }
    default: return {__fadd_rn(a.v, b.v), 0.0f};
    }
}

template <int WAY> QB_DEVICE sum of_element(float v) {
    if (WAY == ADD_SIZES) return {fabsf(v), 0.0f};
    if (WAY == ADD_SQUARES) return {__fmul_rn(v, v), 0.0f};
    return {v, 1.0f};
}

template <int WAY> QB_DEVICE float result_of(const qb_cuda_reduce &p, sum s) {
    switch (p.kind) {
    case QB_REDUCE_MEAN: return __fdiv_rn(s.v, (float)p.reduced.count);
    case QB_REDUCE_L2: return sqrtf(s.v);
    case QB_REDUCE_LOG_SUM: return logf(s.v);
    case QB_REDUCE_LOG_SUM_EXP: return s.v + logf(s.exponentials);
    default: return s.v;
    }
}

QB_DEVICE int64_t place(const qb_cuda_reduce_loops &l, const int64_t (&stride)[QB_MAX_RANK],
                        uint32_t at) {
    int64_t to = 0;
    for (int d = l.rank - 1; d >= 0; d--) {
        const uint32_t rest = d ? at / l.dim[d] : 0, i = at - rest * l.dim[d];
        to += i * stride[d];
        at = rest;
    }
    return to;
}

template <int WAY>
QB_DEVICE void finish(const qb_cuda_reduce &p, uint32_t result, sum s, void *out) {
    const float v[1] = {result_of<WAY>(p, s)};
    qb_store_floats<1, true>(p.out, out, p.out_first + place(p.kept, p.kept.to, result), v);
}

template <int WAY, int V>
static __global__ void __launch_bounds__(THREADS)
    reduce(const __grid_constant__ qb_cuda_reduce p, const void *in, void *out, sum *parts) {
    qb_wait_for_dependencies();
    __shared__ sum memory[THREADS];
    const uint32_t sharing = THREADS / p.results;
    const uint32_t mine = p.across ? threadIdx.x % p.results : threadIdx.x / sharing;
    const uint32_t share = p.across ? threadIdx.x / p.results : threadIdx.x % sharing;
    const uint32_t result = blockIdx.x * p.results + mine, begin = blockIdx.y * p.part;
    const uint32_t end = min(p.reduced.count, begin + p.part);
    sum s = start<WAY>();
    if (result < p.kept.count) {
        const int64_t first = p.in_first + place(p.kept, p.kept.from, result);
#pragma unroll 4
        for (uint32_t at = begin + share * V; at < end; at += sharing * V) {
            float v[V];
            qb_load_floats<V>(p.in, in, first + place(p.reduced, p.reduced.from, at), v);
#pragma unroll
            for (int i = 0; i < V; i++) s = both<WAY>(s, of_element<WAY>(v[i]));
        }
    }
    const uint32_t at = share * p.results + mine;
    memory[at] = s;
    for (uint32_t half = sharing / 2; half > 0; half /= 2) {
        __syncthreads();
        if (share < half) memory[at] = both<WAY>(memory[at], memory[at + half * p.results]);
    }
    if (share > 0 || result >= p.kept.count) return;
    if (parts)
        parts[(int64_t)blockIdx.y * p.kept.count + result] = memory[at];
    else
        finish<WAY>(p, result, memory[at], out);
}

template <int WAY>
static __global__ void __launch_bounds__(THREADS)
    join(const __grid_constant__ qb_cuda_reduce p, const sum *parts, void *out) {
    qb_wait_for_dependencies();
    const uint32_t result = blockIdx.x * THREADS + threadIdx.x;
    if (result >= p.kept.count) return;
    sum s = parts[result];
#pragma unroll 8
    for (uint32_t i = 1; i < p.parts; i++)
        s = both<WAY>(s, parts[(int64_t)i * p.kept.count + result]);
    finish<WAY>(p, result, s, out);
}

template <int WAY>
static int run(const qb_cuda_reduce *p, const void *in, void *out, void *scratch,
               cudaStream_t stream) {
    const dim3 grid((p->kept.count + p->results - 1) / p->results, p->parts);
    sum *parts = p->parts > 1 ? (sum *)scratch : nullptr;
    const auto kernel = p->width == 8 ? reduce<WAY, 8> : reduce<WAY, 1>;
    const int code = qb_launch(kernel, grid, THREADS, 0, stream, *p, in, out, parts);
    const unsigned blocks = (p->kept.count + THREADS - 1) / THREADS;
    return code || !parts ? code : qb_launch(join<WAY>, blocks, THREADS, 0, stream, *p, parts, out);
}

extern "C" int qb_cuda_reduce_run(const qb_cuda_reduce *p, const void *in, void *out, void *scratch,
                                  void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    if (p->kept.count == 0) return 0;
    switch (p->kind) {
    case QB_REDUCE_PROD: return run<MULTIPLY>(p, in, out, scratch, s);
    case QB_REDUCE_MAX: return run<LARGEST>(p, in, out, scratch, s);
    case QB_REDUCE_MIN: return run<SMALLEST>(p, in, out, scratch, s);
    case QB_REDUCE_L1: return run<ADD_SIZES>(p, in, out, scratch, s);
    case QB_REDUCE_L2:
    case QB_REDUCE_SUM_SQUARE: return run<ADD_SQUARES>(p, in, out, scratch, s);
    case QB_REDUCE_LOG_SUM_EXP: return run<LOG_SUM_EXP>(p, in, out, scratch, s);
    default: return run<ADD>(p, in, out, scratch, s);
    }
}

// Softmax, sums of exponentials in float: one warp a line, or a block where the line is long. Lanes
// keep their elements between the passes, but for those of very long lines, which are read three
// times, from L1 but for the first. Types that are common have code of their own: short code is
// what counts where lines are few.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/pointwise/softmax.h"

#define WARP 32
#define THREADS 128      // of a block that has a line for each warp
#define LONG_THREADS 256 // of one that has one line

// Elements in f32 or f16, or as the value says.
struct other {};
QB_DEVICE float load(const qb_cuda_value &, const float *in, int64_t at) { return in[at]; }
QB_DEVICE float load(const qb_cuda_value &, const __half *in, int64_t at) {
    return __half2float(in[at]);
}
QB_DEVICE float load(const qb_cuda_value &p, const other *in, int64_t at) {
    float v[1];
    qb_load_floats<1>(p, in, at, v);
    return v[0];
}
QB_DEVICE void store(const qb_cuda_value &, float *out, int64_t at, float v) { out[at] = v; }
QB_DEVICE void store(const qb_cuda_value &, __half *out, int64_t at, float v) {
    out[at] = __float2half_rn(v);
}
QB_DEVICE void store(const qb_cuda_value &p, other *out, int64_t at, float v) {
    const float one[1] = {v};
    qb_store_floats<1, false>(p, out, at, one);
}

QB_DEVICE float larger(float a, float b) { return b > a || b != b ? b : a; }

// Of all lanes that share a line; each warp's in turn where there are several.
template <int LANES, bool MAX> QB_DEVICE float of_line(float v, float *memory) {
    v = MAX ? qb_warp_max(v) : qb_warp_sum(v);
    if constexpr (LANES > WARP) {
        if (threadIdx.x % WARP == 0) memory[threadIdx.x / WARP] = v;
        __syncthreads();
        v = memory[0];
#pragma unroll
        for (int i = 1; i < LANES / WARP; i++) v = MAX ? larger(v, memory[i]) : v + memory[i];
    }
    return v;
}

// HELD: elements that a lane keeps; 0: none.
template <class T, int LANES, int HELD>
static __global__ void __launch_bounds__(LANES == WARP ? THREADS : LANES)
    softmax(const __grid_constant__ qb_cuda_softmax p, const T *in, T *out) {
    qb_wait_for_dependencies();
    constexpr int LINES = LANES == WARP ? THREADS / WARP : 1;
    __shared__ float memory[2][LONG_THREADS / WARP];
    const int64_t line = (int64_t)blockIdx.x * LINES + threadIdx.x / LANES;
    if (line >= p.outer * p.step) return; // whole warps leave
    const int lane = threadIdx.x % LANES;
    const int64_t first = line / p.step * p.n * p.step + line % p.step;
    float held[HELD > 0 ? HELD : 1], top = -INFINITY, sum = 0.0f;
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const int at = i * LANES + lane;
            held[i] = at < p.n ? load(p.in, in, first + at * p.step) : -INFINITY;
            top = larger(top, held[i]);
        }
    } else {
        for (int at = lane; at < p.n; at += LANES)
            top = larger(top, load(p.in, in, first + at * p.step));
    }
    top = of_line<LANES, true>(top, memory[0]);
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            held[i] = expf(held[i] - top);
            sum += i * LANES + lane < p.n ? held[i] : 0.0f;
        }
    } else {
        for (int at = lane; at < p.n; at += LANES)
            sum += expf(load(p.in, in, first + at * p.step) - top);
    }
    sum = of_line<LANES, false>(sum, memory[1]);
    const bool zero = p.zero_nan && sum != sum;
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const int at = i * LANES + lane;
            if (at < p.n) store(p.out, out, first + at * p.step, zero ? 0.0f : held[i] / sum);
        }
    } else {
        for (int at = lane; at < p.n; at += LANES) {
            const int64_t place = first + at * p.step;
            const float v = expf(load(p.in, in, place) - top);
            store(p.out, out, place, zero ? 0.0f : v / sum);
        }
    }
}

template <class T>
static int run(const qb_cuda_softmax *p, const void *in, void *out, cudaStream_t stream) {
    const int64_t lines = p->outer * p->step;
    const bool is_long = p->n > 16 * WARP;
    auto kernel = softmax<T, LONG_THREADS, 0>;
    if (p->n <= 2 * WARP)
        kernel = softmax<T, WARP, 2>;
    else if (p->n <= 8 * WARP)
        kernel = softmax<T, WARP, 8>;
    else if (!is_long)
        kernel = softmax<T, WARP, 16>;
    else if (p->n <= 16 * LONG_THREADS)
        kernel = softmax<T, LONG_THREADS, 16>;
    const int64_t each = is_long ? 1 : THREADS / WARP;
    return qb_launch(kernel, (unsigned)((lines + each - 1) / each),
                     is_long ? LONG_THREADS : THREADS, 0, stream, *p, (const T *)in, (T *)out);
}

extern "C" int qb_cuda_softmax_run(const qb_cuda_softmax *p, const void *in, void *out,
                                   void *stream) {
    const cudaStream_t s = (cudaStream_t)stream;
    if (p->outer * p->step == 0 || p->n == 0) return 0;
    if (p->in.dtype == p->out.dtype && p->in.dtype == QB_DTYPE_F16)
        return run<__half>(p, in, out, s);
    if (p->in.dtype == p->out.dtype && p->in.dtype == QB_DTYPE_F32)
        return run<float>(p, in, out, s);
    return run<other>(p, in, out, s);
}

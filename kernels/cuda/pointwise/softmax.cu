// Softmax, sums of exponentials in float: one warp a line, or a block where the line is long. Lanes
// keep their elements between the passes, but for those of very long lines, which are read three
// times, from L1 but for the first. Elements of a line that lie together are taken four at a time.
// Types that are common have code of their own: short code is what counts where lines are few.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/pointwise/softmax.h"

#define WARP 32
#define THREADS 128      // of a block that has a line for each warp
#define LONG_THREADS 256 // of one that has one line

// Elements in f32 or f16, or as the value says.
struct other {};
template <int V>
QB_DEVICE void load(const qb_cuda_value &, const float *in, int64_t at, float (&v)[V]) {
    const qb_words<V * 4> w = qb_read<V * 4>(in + at);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = __uint_as_float(w.word[i]);
}
template <int V>
QB_DEVICE void load(const qb_cuda_value &, const __half *in, int64_t at, float (&v)[V]) {
    const qb_words<V * 2> w = qb_read<V * 2>(in + at);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = qb_from_f16_bits(w.word[i / 2] >> i % 2 * 16 & 0xffffu);
}
template <int V>
QB_DEVICE void load(const qb_cuda_value &p, const other *in, int64_t at, float (&v)[V]) {
    qb_load_floats<V>(p, in, at, v);
}
template <int V>
QB_DEVICE void store(const qb_cuda_value &, float *out, int64_t at, const float (&v)[V]) {
    qb_words<V * 4> w;
#pragma unroll
    for (int i = 0; i < V; i++) w.word[i] = __float_as_uint(v[i]);
    qb_write<V * 4>(out + at, w);
}
template <int V>
QB_DEVICE void store(const qb_cuda_value &, __half *out, int64_t at, const float (&v)[V]) {
    qb_words<V * 2> w = {};
#pragma unroll
    for (int i = 0; i < V; i++)
        w.word[i / 2] |= (uint32_t)__half_as_ushort(__float2half_rn(v[i])) << i % 2 * 16;
    qb_write<V * 2>(out + at, w);
}
template <int V>
QB_DEVICE void store(const qb_cuda_value &p, other *out, int64_t at, const float (&v)[V]) {
    qb_store_floats<V, false>(p, out, at, v);
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

// A lane has pieces of V elements that lie together. HELD: pieces that it keeps; 0: none.
template <class T, int LANES, int HELD, int V>
static __global__ void __launch_bounds__(LANES == WARP ? THREADS : LANES)
    softmax(const __grid_constant__ qb_cuda_softmax p, const T *in, T *out) {
    qb_wait_for_dependencies();
    constexpr int LINES = LANES == WARP ? THREADS / WARP : 1;
    __shared__ float memory[2][LONG_THREADS / WARP];
    const int64_t line = (int64_t)blockIdx.x * LINES + threadIdx.x / LANES;
    if (line >= p.outer * p.step) return; // whole warps leave
    const int lane = threadIdx.x % LANES * V;
    const int64_t first = line / p.step * p.n * p.step + line % p.step;
    float held[HELD > 0 ? HELD : 1][V], top = -INFINITY, sum = 0.0f;
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const int at = i * LANES * V + lane;
#pragma unroll
            for (int k = 0; k < V; k++) held[i][k] = -INFINITY;
            if (at < p.n) load<V>(p.in, in, first + at * p.step, held[i]);
#pragma unroll
            for (int k = 0; k < V; k++) top = larger(top, held[i][k]);
        }
    } else {
        for (int at = lane; at < p.n; at += LANES * V) {
            load<V>(p.in, in, first + at * p.step, held[0]);
#pragma unroll
            for (int k = 0; k < V; k++) top = larger(top, held[0][k]);
        }
    }
    top = of_line<LANES, true>(top, memory[0]);
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++)
#pragma unroll
            for (int k = 0; k < V; k++) {
                held[i][k] = expf(held[i][k] - top);
                sum += i * LANES * V + lane < p.n ? held[i][k] : 0.0f;
            }
    } else {
        for (int at = lane; at < p.n; at += LANES * V) {
            load<V>(p.in, in, first + at * p.step, held[0]);
#pragma unroll
            for (int k = 0; k < V; k++) sum += expf(held[0][k] - top);
        }
    }
    sum = of_line<LANES, false>(sum, memory[1]);
    const bool zero = p.zero_nan && sum != sum;
#pragma unroll(HELD > 0 ? HELD : 1)
    for (int i = 0; HELD > 0 ? i < HELD : i * LANES * V + lane < p.n; i++) {
        const int at = i * LANES * V + lane;
        if (at >= p.n) continue;
        float(&v)[V] = held[HELD > 0 ? i : 0];
        if (HELD == 0) {
            load<V>(p.in, in, first + at * p.step, v);
#pragma unroll
            for (int k = 0; k < V; k++) v[k] = expf(v[k] - top);
        }
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = zero ? 0.0f : v[k] / sum;
        store<V>(p.out, out, first + at * p.step, v);
    }
}

template <class T, int LANES, int HELD, int V>
static int launch(const qb_cuda_softmax *p, const void *in, void *out, cudaStream_t stream) {
    const int64_t lines = p->outer * p->step, each = LANES == WARP ? THREADS / WARP : 1;
    return qb_launch(softmax<T, LANES, HELD, V>, (unsigned)((lines + each - 1) / each),
                     LANES == WARP ? THREADS : LANES, 0, stream, *p, (const T *)in, (T *)out);
}

template <class T>
static int run(const qb_cuda_softmax *p, const void *in, void *out, cudaStream_t stream) {
    const bool together = p->step == 1 && p->n % 4 == 0;
    if (p->n <= 2 * WARP) return launch<T, WARP, 2, 1>(p, in, out, stream);
    if (together && p->n <= 8 * WARP) return launch<T, WARP, 2, 4>(p, in, out, stream);
    if (together && p->n <= 32 * WARP) return launch<T, WARP, 8, 4>(p, in, out, stream);
    if (together && p->n <= 16 * LONG_THREADS)
        return launch<T, LONG_THREADS, 4, 4>(p, in, out, stream);
    if (p->n <= 8 * WARP) return launch<T, WARP, 8, 1>(p, in, out, stream);
    if (p->n <= 32 * WARP) return launch<T, WARP, 32, 1>(p, in, out, stream);
    if (p->n <= 16 * LONG_THREADS) return launch<T, LONG_THREADS, 16, 1>(p, in, out, stream);
    return launch<T, LONG_THREADS, 0, 1>(p, in, out, stream);
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

// Chains of elementwise functions. Every thread interprets the program for a few elements at once,
// so that reading an operation costs little of each: inputs and the last result are in registers,
// results that wait for a later operation in shared memory, a column for each thread.
//
// A thread takes eight elements that lie together or follow each other; where the result does not
// allow that, four that are a block's width apart, each with a place of its own (chain.h).
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/pointwise/chain.h"
#include "kernels/cuda/pointwise/elementwise.cuh"

#define THREADS 128
#define WIDE QB_CUDA_CHAIN_WIDE
#define APART 4
#define BLOCKS 4 // that a multiprocessor holds, at least

// ---- functions

QB_DEVICE float device_clip(float x, float low, float high) {
    const float v = x < low ? low : x;
    return v > high ? high : v;
}

// x tanh(log(1 + e^x)) = x (u^2 + 2 u) / (u^2 + 2 u + 2) with u = e^x.
QB_DEVICE float device_mish(float x) {
    const float u = expf(device_clip(x, -104.0f, 20.0f)), v = u * (u + 2.0f);
    return x < -100.0f ? 0.0f : x * (v / (v + 2.0f));
}

// sin(x) or cos(x): x less multiples k of pi / 2, in two parts of double, and the Taylor series of
// the quarter it falls into. Beyond 2^50 floats are so far apart that k means nothing: still
// between -1 and 1. The CUDA library's functions would take local memory.
QB_DEVICE float sine(float x, int quarter) {
    const double wide = fabsf(x) < 0x1p50f ? (double)x : (double)(x - x); // NaN of infinities
    const double k = rint(wide * 0x1.45f306dc9c883p-1);
    const double r = fma(-k, 0x1.1a62633145c07p-54, fma(-k, 0x1.921fb54442d18p+0, wide));
    const float y = (float)r, q = y * y;
    const int at = (int)((long long)k + quarter) & 3;
    float odd = 1.0f / 362880, even = 1.0f / 40320;
    odd = odd * q - 1.0f / 5040;
    odd = odd * q + 1.0f / 120;
    odd = odd * q - 1.0f / 6;
    odd = odd * q * y + y;
    even = even * q - 1.0f / 720;
    even = even * q + 1.0f / 24;
    even = even * q - 0.5f;
    even = even * q + 1.0f;
    const float v = at & 1 ? even : odd;
    return at & 2 ? -v : v;
}

#define device_exp expf
#define device_expm1 expm1f
#define device_log logf
#define device_log1p log1pf
#define device_erf erff
#define device_tanh tanhf
#define sinf(x) sine(x, 0)
#define cosf(x) sine(x, 1)
#define F(name) device_##name

QB_DEVICE float rounded(const qb_cuda_value &q, bool divide, float x) {
    float v = divide ? __fdiv_rn(x, q.scale) : __fmul_rn(x, q.inverse);
    v = v < q.lowest ? q.lowest : v > q.highest ? q.highest : v;
    return __fmul_rn(q.scale, (float)__float2int_rn(v)); // NaN is 0
}

template <int V>
QB_DEVICE void apply(const qb_cuda_chain &p, int n, const float (&first)[V],
                     const float (&second)[V], const float (&third)[V], float (&to)[V]) {
    switch (p.operation[n].function) {
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION)                                                   \
    case QB_FUNCTION_##NAME:                                                                       \
        _Pragma("unroll") for (int i = 0; i < V; i++) {                                            \
            const float a = first[i];                                                              \
            [[maybe_unused]] const float b = second[i];                                            \
            [[maybe_unused]] const float c = third[i];                                             \
            to[i] = EXPRESSION;                                                                    \
        }                                                                                          \
        break;
#include "kernels/functions.def"
#undef QB_FUNCTION
    default:
#pragma unroll
        for (int i = 0; i < V; i++)
            to[i] = rounded(p.quantized[n], p.operation[n].divide, first[i]);
    }
}
#undef sinf
#undef cosf

// ---- elements

// Integers that stand for themselves; false: the element has another type.
QB_DEVICE bool load_integer(int dtype, const void *data, int64_t at, float &v) {
    switch (dtype) {
    case QB_DTYPE_S64: v = __ll2float_rn(((const int64_t *)data)[at]); return true;
    case QB_DTYPE_S32: v = __int2float_rn(((const int32_t *)data)[at]); return true;
    case QB_DTYPE_BOOL: v = ((const uint8_t *)data)[at] ? 1.0f : 0.0f; return true;
    default: return false;
    }
}

// V elements from `at` on, or one of them V times.
template <int V>
QB_DEVICE void load(const qb_cuda_value &p, const void *data, int64_t at, bool spread,
                    float (&v)[V]) {
    float one[1];
    if (load_integer(p.dtype, data, at, one[0])) {
#pragma unroll
        for (int i = 1; i < V; i++) {
            v[i] = one[0];
            if (!spread) load_integer(p.dtype, data, at + i, v[i]);
        }
        v[0] = one[0];
    } else if (spread) {
        qb_load_floats<1>(p, data, at, one);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = one[0];
    } else {
        qb_load_floats<V>(p, data, at, v);
    }
}

// To the nearest integer; NaN becomes 0, what is too large the outermost one.
template <int V>
QB_DEVICE void store(const qb_cuda_chain &p, void *data, int64_t at, const float (&v)[V]) {
    switch (p.out.dtype) {
    case QB_DTYPE_S64:
#pragma unroll
        for (int i = 0; i < V; i++)
            ((int64_t *)data)[at + i] = v[i] != v[i] ? 0 : __float2ll_rn(v[i]);
        return;
    case QB_DTYPE_S32:
#pragma unroll
        for (int i = 0; i < V; i++)
            ((int32_t *)data)[at + i] = v[i] != v[i] ? 0 : __float2int_rn(v[i]);
        return;
    case QB_DTYPE_BOOL:
#pragma unroll
        for (int i = 0; i < V; i++) ((uint8_t *)data)[at + i] = v[i] != 0.0f;
        return;
    default:
        if (p.divide)
            qb_store_floats<V, true>(p.out, data, at, v);
        else
            qb_store_floats<V, false>(p.out, data, at, v);
    }
}

// ---- the kernel

typedef struct inputs {
    const void *data[QB_CHAIN_INPUTS];
} inputs;

template <int N, int V>
QB_DEVICE void fetch(const qb_cuda_chain &p, int from, const float (&last)[V],
                     const float (&x)[N][V], const float *slots, float (&to)[V]) {
    if (from == QB_CUDA_CHAIN_LAST) {
#pragma unroll
        for (int i = 0; i < V; i++) to[i] = last[i];
    } else if (from < QB_CUDA_CHAIN_SLOT) {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (from == QB_CUDA_CHAIN_INPUT + k) {
#pragma unroll
                for (int i = 0; i < V; i++) to[i] = x[k][i];
            }
    } else if (from < QB_CUDA_CHAIN_CONSTANT) {
        const float *column = slots + (from - QB_CUDA_CHAIN_SLOT) * (V * THREADS);
#pragma unroll
        for (int i = 0; i < V / 4; i++) {
            const float4 four = ((const float4 *)column)[i * THREADS];
            to[4 * i] = four.x, to[4 * i + 1] = four.y;
            to[4 * i + 2] = four.z, to[4 * i + 3] = four.w;
        }
    } else {
        const float c = p.constant[from - QB_CUDA_CHAIN_CONSTANT];
#pragma unroll
        for (int i = 0; i < V; i++) to[i] = c;
    }
}

// The whole program for V elements of each input; the last result is in `last`. `slots`: the
// thread's column, of which four elements lie together.
template <int N, int V>
QB_DEVICE void run(const qb_cuda_chain &p, const float (&x)[N][V], float *slots, float (&last)[V]) {
#pragma unroll
    for (int i = 0; i < V; i++) last[i] = 0.0f;
#pragma unroll 1
    for (int n = 0; n < p.n_operations; n++) {
        const qb_cuda_chain_operation &o = p.operation[n];
        float a[V], b[V], c[V];
        fetch<N, V>(p, o.from[0], last, x, slots, a);
#pragma unroll
        for (int i = 0; i < V; i++) b[i] = c[i] = 0.0f;
        if (o.arguments > 1) fetch<N, V>(p, o.from[1], last, x, slots, b);
        if (o.arguments > 2) fetch<N, V>(p, o.from[2], last, x, slots, c);
        apply<V>(p, n, a, b, c, last);
        if (o.slot == QB_CUDA_CHAIN_SLOTS) continue;
        float *column = slots + o.slot * (V * THREADS);
#pragma unroll
        for (int i = 0; i < V / 4; i++)
            ((float4 *)column)[i * THREADS] =
                make_float4(last[4 * i], last[4 * i + 1], last[4 * i + 2], last[4 * i + 3]);
    }
}

// Where element `at` lies in the result and in each of up to N inputs.
template <int N> QB_DEVICE void find(const qb_cuda_chain &p, uint32_t at, int64_t (&to)[N + 1]) {
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        int64_t place[3];
        qb_place<3>(p.walk[k / 2], at, place);
        to[0] = place[0];
        to[k + 1] = place[1];
        if (k + 1 < N) to[k + 2] = place[2];
    }
}

// Does one element of input k stand for all along the fastest dimension?
QB_DEVICE bool spreads(const qb_cuda_chain &p, int k) {
    return qb_step(p.walk[k / 2], 1 + k % 2) == 0;
}

// N: inputs, or more.
template <int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    chain_together(const __grid_constant__ qb_cuda_chain p, const __grid_constant__ inputs in,
                   void *out) {
    qb_wait_for_dependencies();
    extern __shared__ float4 memory[];
    const uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * WIDE;
    if (at >= p.walk[0].count) return;
    int64_t place[N + 1];
    find<N>(p, at, place);
    float x[N][WIDE], last[WIDE];
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < p.n_in) load<WIDE>(p.in[k], in.data[k], place[k + 1], spreads(p, k), x[k]);
    run<N, WIDE>(p, x, (float *)(memory + threadIdx.x), last);
    store<WIDE>(p, out, place[0], last);
}

// Eight elements of input k, one by one. A line of the walk's fastest dimension is gone along by
// its step; where it ends, the place is looked up again. By the thread's column, since registers
// have no index.
QB_DEVICE void gather(const qb_cuda_chain &p, int k, const void *data, uint32_t at, float *column,
                      float (&v)[WIDE]) {
    const qb_cuda_walk &w = p.walk[k / 2];
    const uint32_t n = w.dim[w.rank - 1];
    const int64_t step = qb_step(w, 1 + k % 2);
    int64_t from = 0;
    uint32_t left = 0;
#pragma unroll 1
    for (int i = 0; i < WIDE; i++, left--, from += step) {
        if (left == 0) {
            int64_t place[3];
            qb_place<3>(w, at + i, place);
            from = k % 2 ? place[2] : place[1];
            left = n - (at + i) % n;
        }
        float one[1];
        load<1>(p.in[k], data, from, true, one);
        column[i / 4 * (4 * THREADS) + i % 4] = one[0];
    }
#pragma unroll
    for (int i = 0; i < WIDE / 4; i++) {
        const float4 four = ((const float4 *)column)[i * THREADS];
        v[4 * i] = four.x, v[4 * i + 1] = four.y, v[4 * i + 2] = four.z, v[4 * i + 3] = four.w;
    }
}

template <int N>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    chain_following(const __grid_constant__ qb_cuda_chain p, const __grid_constant__ inputs in,
                    void *out) {
    qb_wait_for_dependencies();
    extern __shared__ float4 memory[];
    const uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * WIDE;
    if (at >= p.walk[0].count) return;
    float *column = (float *)(memory + threadIdx.x);
    float x[N][WIDE], last[WIDE];
#pragma unroll
    for (int k = 0; k < N; k++) {
        if (k >= p.n_in) continue;
        if (p.alike >> k & 1)
            load<WIDE>(p.in[k], in.data[k], p.walk[k / 2].first[1 + k % 2] + at, false, x[k]);
        else
            gather(p, k, in.data[k], at, column, x[k]);
    }
    run<N, WIDE>(p, x, column, last);
    store<WIDE>(p, out, p.walk[0].first[0] + at, last);
}

template <int N>
static __global__ void __launch_bounds__(THREADS)
    chain_apart(const __grid_constant__ qb_cuda_chain p, const __grid_constant__ inputs in,
                void *out) {
    qb_wait_for_dependencies();
    extern __shared__ float4 memory[];
    const uint32_t first = blockIdx.x * (THREADS * APART) + threadIdx.x;
    if (first >= p.walk[0].count) return;
    int64_t to[APART];
    float x[N][APART], last[APART];
#pragma unroll
    for (int i = 0; i < APART; i++) {
        const uint32_t at = first + i * THREADS;
        int64_t place[N + 1];
        find<N>(p, at < p.walk[0].count ? at : first, place);
        to[i] = place[0];
#pragma unroll
        for (int k = 0; k < N; k++) {
            float one[1] = {0.0f};
            if (k < p.n_in) load<1>(p.in[k], in.data[k], place[k + 1], true, one);
            x[k][i] = one[0];
        }
    }
    run<N, APART>(p, x, (float *)(memory + threadIdx.x), last);
#pragma unroll
    for (int i = 0; i < APART; i++) {
        const float one[1] = {last[i]};
        if (first + i * THREADS < p.walk[0].count) store<1>(p, out, to[i], one);
    }
}

template <int N> static auto kernel_of(int32_t way) {
    return way == QB_CUDA_CHAIN_TOGETHER    ? chain_together<N>
           : way == QB_CUDA_CHAIN_FOLLOWING ? chain_following<N>
                                            : chain_apart<N>;
}

extern "C" int qb_cuda_chain_run(const qb_cuda_chain *p, const void *const in[QB_CHAIN_INPUTS],
                                 void *out, void *stream) {
    const uint32_t each = THREADS * (p->way == QB_CUDA_CHAIN_APART ? APART : WIDE);
    const unsigned blocks = (unsigned)(((uint64_t)p->walk[0].count + each - 1) / each);
    const int slots = p->n_slots > 0 || p->way != QB_CUDA_CHAIN_FOLLOWING ? p->n_slots : 1;
    inputs list;
    for (int k = 0; k < QB_CHAIN_INPUTS; k++) list.data[k] = in[k];
    if (blocks == 0) return 0;
    const auto kernel = p->n_in == 1   ? kernel_of<1>(p->way)
                        : p->n_in == 2 ? kernel_of<2>(p->way)
                                       : kernel_of<4>(p->way);
    return qb_launch(kernel, blocks, THREADS, slots * each * sizeof(float), stream, *p, list, out);
}

// Maximum and average pooling. A thread takes 16, 8, 4 or 1 channels of an output pixel (1 where
// the channels do not lie together, 4 of averages where results are few). Windows that are large,
// of few outputs, are shared by 8, 32, 128 or 512 threads, which meet in shared memory. Bound by
// device memory, and by L1 where windows overlap.
//
// Maxima are compared as quantized values, which keeps the order: 16 channels of 8-bit values as
// halves of words, two a comparison, and so are 8 channels of f16. Averages sum in double, as the
// reference does; sums of quantized values are exact.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/pool.h"

#define THREADS 128

// Of one dimension of a window: taps first ... end - 1 lie inside the data; `counted` of them, the
// declared padding included, count for AVG_INCLUDE_PAD.
struct span {
    int start, first, end, counted;
};

QB_DEVICE int ceil_div(int a, int b) {
    if (b == 1) return a;
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

QB_DEVICE span span_of(const qb_cuda_window &w, int d, int out) {
    span s;
    s.start = out * w.stride[d] - w.pad[d];
    s.first = max(ceil_div(-s.start, w.dilation[d]), 0);
    s.end = max(min(ceil_div(w.in[d] - s.start, w.dilation[d]), w.kernel[d]), s.first);
    s.counted = ceil_div(w.in[d] + w.pad_end[d] - s.start, w.dilation[d]);
    s.counted = min(max(s.counted, 0), w.kernel[d]);
    return s;
}

// Output pixel and first channel of place `at`, in the order in which the result lies in memory.
struct place {
    int n, c, z, y, x;
};

// at % n, which leaves at / n: without a division where there is one.
QB_DEVICE int take(uint32_t &at, uint32_t n) {
    if (n == 1) return 0;
    const uint32_t whole = at / n, part = at - whole * n;
    at = whole;
    return (int)part;
}

QB_DEVICE place place_of(const qb_cuda_window &w, uint32_t at, int width) {
    place p;
    uint32_t pieces = w.out_c / width;
    if (w.channels_last) p.c = take(at, pieces) * width;
    p.x = take(at, w.out[2]);
    p.y = take(at, w.out[1]);
    p.z = take(at, w.out[0]);
    if (!w.channels_last) p.c = take(at, pieces) * width;
    p.n = at;
    return p;
}

template <bool MAX> struct sum_of { typedef double type; };
template <> struct sum_of<true> { typedef float type; };

template <int V, bool MAX>
QB_DEVICE void add(const qb_cuda_pool &p, float (&v)[V], typename sum_of<MAX>::type (&sum)[V]) {
    if constexpr (MAX) {
#pragma unroll
        for (int i = 0; i < V; i++) // NaN stays
            sum[i] = v[i] > sum[i] || v[i] != v[i] ? v[i] : sum[i];
    } else {
#pragma unroll
        for (int i = 0; i < V; i++)
            sum[i] += (double)v[i]; // quantized values less their zero point
    }
}

// NaN stays.
QB_DEVICE uint32_t max_f16x2(uint32_t a, uint32_t b) {
    uint32_t greater;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(greater) : "r"(a), "r"(b));
    return greater;
}

// Of bytes in halves. Before 9.0 no instruction compares halves as integers; as f16 these are
// numbers near 0 in the same order.
QB_DEVICE uint32_t max_bytes(uint32_t a, uint32_t b) {
#if __CUDA_ARCH__ >= 900
    return __vmaxu2(a, b);
#else
    return max_f16x2(a, b);
#endif
}

// The greatest quantized values of 16 channels: odd and even bytes, each in a half; signed
// quantized values with their top bit inverted.
struct greatest {
    uint32_t odd[4] = {}, even[4] = {};
    __device__ __forceinline__ void add(const qb_words<16> &quantized, bool is_signed) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t word = is_signed ? quantized.word[i] ^ 0x80808080u : quantized.word[i];
            odd[i] = max_bytes(odd[i], word >> 8 & 0x00ff00ffu);
            even[i] = max_bytes(even[i], word & 0x00ff00ffu);
        }
    }
    __device__ __forceinline__ void store(const qb_cuda_value &p, void *to, int64_t at) const {
        qb_words<16> quantized;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t word = odd[i] << 8 | even[i];
            quantized.word[i] = p.dtype == QB_DTYPE_S8 ? word ^ 0x80808080u : word;
        }
        qb_write<16>((uint8_t *)to + at, quantized);
    }
    // Less their zero point.
    __device__ __forceinline__ void quantized(const qb_cuda_value &p, float (&to)[16]) const {
        int zero = p.zero + (p.dtype == QB_DTYPE_S8 ? 128 : 0);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            uint32_t word = i % 2 ? odd[i / 4] : even[i / 4];
            to[i] = (float)((int)(word >> i % 4 / 2 * 16 & 255u) - zero);
        }
    }
};

// The greatest of 8 channels of f16.
struct greatest_f16 {
    uint32_t word[4] = {0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u}; // -infinity
    __device__ __forceinline__ void add(const qb_words<16> &v) {
#pragma unroll
        for (int i = 0; i < 4; i++) word[i] = max_f16x2(word[i], v.word[i]);
    }
    __device__ __forceinline__ void values(float (&to)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = qb_from_f16_bits(word[i / 2] >> i % 2 * 16 & 0xffffu);
    }
};

// Calls each(at) with the first elements of taps part, part + STEP, ... of a window.
// Without sharing there is nothing to divide, nor where all lines of the plane follow each other.
template <int STEP, int UNROLL, class Each>
QB_DEVICE void walk(const qb_cuda_window &w, const span &z, const span &y, const span &x, int part,
                    int64_t from, Each each) {
    int height = y.end - y.first, wide = x.end - x.first;
    if constexpr (STEP > 1) {
        int taps = (z.end - z.first) * height * wide;
        bool flat = taps == height * wide && w.dilation[1] == 1 && w.dilation[2] == 1 &&
                    w.in_stride[3] == wide * w.in_stride[4];
        int64_t begin = from + (z.start + z.first * w.dilation[0]) * w.in_stride[2] +
                        (y.start + y.first) * w.in_stride[3] + (x.start + x.first) * w.in_stride[4];
#pragma unroll(UNROLL)
        for (int t = part; t < taps && flat; t += STEP) each(begin + t * w.in_stride[4]);
        if (flat) return;
#pragma unroll 4
        for (int t = part; t < taps; t += STEP) {
            int row = t / wide, tx = x.first + t - row * wide;
            int tz = z.first + row / height;
            int ty = y.first + row - (tz - z.first) * height;
            each(from + (z.start + tz * w.dilation[0]) * w.in_stride[2] +
                 (y.start + ty * w.dilation[1]) * w.in_stride[3] +
                 (x.start + tx * w.dilation[2]) * w.in_stride[4]);
        }
        return;
    }
    const int64_t step = w.dilation[2] * w.in_stride[4];
    for (int tz = z.first; tz < z.end; tz++)
        for (int ty = y.first; ty < y.end; ty++) {
            int64_t at = from + (z.start + tz * w.dilation[0]) * w.in_stride[2] +
                         (y.start + ty * w.dilation[1]) * w.in_stride[3] +
                         (x.start + x.first * w.dilation[2]) * w.in_stride[4];
#pragma unroll 4
            for (int tx = 0; tx < wide; tx++, at += step) each(at);
        }
}

template <bool MAX, class T> QB_DEVICE T joined(T a, T b) {
    if constexpr (MAX)
        return b > a || b != b ? b : a;
    else
        return a + b;
}

// Sums (or maxima) of the lanes that share a window, by a step of half as many lanes and channels
// each: a lane hands on the half of its channels that the other one keeps, until each has one. The
// number of the first channel that the lane has left.
template <int V, bool MAX, int OUTPUTS, int STEP = 16, int N = V, class T>
QB_DEVICE int halve(T (&sum)[V]) {
    if constexpr (STEP < OUTPUTS) {
        return 0;
    } else {
        constexpr int KEPT = N > 1 ? N / 2 : 1;
        const bool upper = N > 1 && (threadIdx.x & STEP) != 0;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const T other = N > 1 && !upper ? sum[KEPT + i] : sum[i];
            const T own = upper ? sum[KEPT + i] : sum[i];
            sum[i] = joined<MAX>(own, __shfl_xor_sync(0xffffffffu, other, STEP));
        }
        return (upper ? KEPT : 0) + halve<V, MAX, OUTPUTS, STEP / 2, KEPT>(sum);
    }
}

// Channels that a lane has left of V after halving by lanes of `outputs` windows.
static constexpr int kept_of(int v, int outputs) {
    for (int step = 16; step >= outputs && v > 1; step /= 2) v /= 2;
    return v;
}

// Sums (or maxima) of the threads of a warp that share a window, into shared memory. A block has
// `OUTPUTS` windows, thread i works on window i % OUTPUTS.
template <int V, bool MAX, int WARPS, int OUTPUTS, class T>
QB_DEVICE void meet(T (&sum)[V], T (&memory)[V][WARPS][OUTPUTS]) {
    const int first = halve<V, MAX, OUTPUTS>(sum);
#pragma unroll
    for (int i = 0; i < kept_of(V, OUTPUTS); i++)
        memory[first + i][threadIdx.x / 32][threadIdx.x % OUTPUTS] = sum[i];
    __syncthreads();
}

// Blocks that a multiprocessor has registers for; sums in double take two each.
static constexpr int blocks_of(int width, bool max, int block, int share) {
    return share > 1 || (width == 16 && !max) ? 512 / block : 6;
}

// An output pixel's window, and where its first channel lies.
struct window {
    span z, y, x;
    int64_t from, end;
    __device__ window(const qb_cuda_window &w, uint32_t at, int width) {
        place to = place_of(w, at, width);
        z = span_of(w, 0, to.z), y = span_of(w, 1, to.y), x = span_of(w, 2, to.x);
        from = w.in_first + to.n * w.in_stride[0] + to.c * w.in_stride[1];
        end = w.out_first + to.n * w.out_stride[0] + to.c * w.out_stride[1] +
              to.z * w.out_stride[2] + to.y * w.out_stride[3] + to.x * w.out_stride[4];
    }
    __device__ int taps() const {
        return (z.end - z.first) * (y.end - y.first) * (x.end - x.first);
    }
};

// Sums (or maxima) to results from element `end` on.
template <int V, bool MAX, class T>
QB_DEVICE void finish(const qb_cuda_pool &p, const window &at, const T (&sum)[V], void *out,
                      int64_t end) {
    float f32[V];
    if constexpr (MAX) {
#pragma unroll
        for (int i = 0; i < V; i++) f32[i] = sum[i];
        qb_scale<V>(p.in, f32);
    } else {
        int counted = p.kind == QB_POOL_AVG_INCLUDE_PAD ? at.z.counted * at.y.counted * at.x.counted
                                                        : at.taps();
        if (counted == 0) {
#pragma unroll
            for (int i = 0; i < V; i++) f32[i] = 0.0f;
        } else if (qb_is_q8(p.in.dtype)) {
            const float factor = (float)__ddiv_rn((double)p.in.scale, (double)counted);
#pragma unroll
            for (int i = 0; i < V; i++) f32[i] = __fmul_rn(factor, (float)sum[i]);
        } else {
#pragma unroll
            for (int i = 0; i < V; i++) f32[i] = (float)__ddiv_rn(sum[i], (double)counted);
        }
    }
    if (p.end.act != QB_ACT_NONE) {
#pragma unroll
        for (int i = 0; i < V; i++)
            f32[i] = qb_act_exact(p.end.act, p.end.alpha, p.end.beta, f32[i]);
    }
    qb_store_floats<V, false>(p.end.out, out, end, f32);
}

template <int V, bool MAX, int BLOCK, int THREADS_OF_WINDOW>
static __global__ void __launch_bounds__(BLOCK, blocks_of(V, MAX, BLOCK, THREADS_OF_WINDOW))
    pool(const __grid_constant__ qb_cuda_pool p, uint32_t count, const void *in, void *out) {
    qb_wait_for_dependencies();
    typedef typename sum_of<MAX>::type sum_type;
    constexpr int OUTPUTS = BLOCK / THREADS_OF_WINDOW, WARPS = BLOCK / 32;
    int part = threadIdx.x / OUTPUTS; // neighbours have neighbouring channels
    uint32_t first = blockIdx.x * OUTPUTS, at = first + threadIdx.x % OUTPUTS;
    bool valid = at < count;
    const window win(p.w, valid ? at : 0, V);
    sum_type sum[V];
#pragma unroll
    for (int i = 0; i < V; i++) sum[i] = MAX ? -INFINITY : 0.0f;
    if constexpr (MAX && V == 16) {
        greatest g;
        walk<THREADS_OF_WINDOW, V <= 4 ? 8 : 4>(
            p.w, win.z, win.y, win.x, part, win.from, [&](int64_t at) {
                g.add(qb_read<16>((const uint8_t *)in + at), p.in.dtype == QB_DTYPE_S8);
            });
        if (THREADS_OF_WINDOW == 1 && p.keeps && win.taps() > 0) {
            if (valid) g.store(p.in, out, win.end);
            return;
        }
        if (part < win.taps()) g.quantized(p.in, sum);
    } else {
        const bool is_f16 = MAX && V == 8 && p.in.dtype == QB_DTYPE_F16;
        if constexpr (MAX && V == 8) {
            if (is_f16) {
                greatest_f16 g;
                walk<THREADS_OF_WINDOW, 4>(
                    p.w, win.z, win.y, win.x, part, win.from,
                    [&](int64_t at) { g.add(qb_read<16>((const uint16_t *)in + at)); });
                g.values(sum);
            }
        }
        if (!is_f16)
            walk<THREADS_OF_WINDOW, V <= 4 ? 8 : 4>(p.w, win.z, win.y, win.x, part, win.from,
                                                    [&](int64_t at) {
                                                        float v[V];
                                                        qb_load_unscaled<V>(p.in, in, at, v);
                                                        add<V, MAX>(p, v, sum);
                                                    });
    }
    if constexpr (THREADS_OF_WINDOW == 1) {
        if (valid) finish<V, MAX>(p, win, sum, out, win.end);
    } else { // divisions of doubles are long: a thread for each channel
        __shared__ sum_type memory[V][WARPS][OUTPUTS];
        meet<V, MAX, WARPS, OUTPUTS>(sum, memory);
        for (int i = threadIdx.x; i < V * OUTPUTS; i += BLOCK) {
            const int c = i % V, o = i / V;
            if (first + o >= count) break;
            sum_type all[1] = {memory[c][0][o]};
            for (int warp = 1; warp < WARPS; warp++)
                all[0] = joined<MAX>(all[0], memory[c][warp][o]);
            const window of(p.w, first + o, V);
            finish<1, MAX>(p, of, all, out, of.end + c);
        }
    }
}

template <int V, bool MAX, int BLOCK, int THREADS_OF_WINDOW>
static int launch_shared(const qb_cuda_pool *p, const void *in, void *out, cudaStream_t s) {
    const qb_cuda_window *w = &p->w;
    uint32_t count =
        (uint32_t)((int64_t)w->batch * (w->out_c / V) * w->out[0] * w->out[1] * w->out[2]);
    unsigned each = BLOCK / THREADS_OF_WINDOW, blocks = (count + each - 1) / each;
    return qb_launch(pool<V, MAX, BLOCK, THREADS_OF_WINDOW>, blocks, BLOCK, 0, s, *p, count, in,
                     out);
}

template <int V, bool MAX>
static int launch(const qb_cuda_pool *p, const void *in, void *out, cudaStream_t s) {
    switch (p->share) {
    case 1: return launch_shared<V, MAX, THREADS, 1>(p, in, out, s);
    case 8: return launch_shared<V, MAX, THREADS, 8>(p, in, out, s);
    case 32: return launch_shared<V, MAX, THREADS, 32>(p, in, out, s);
    case 128: return launch_shared<V, MAX, 2 * THREADS, 128>(p, in, out, s);
    default: return launch_shared<V, MAX, 4 * THREADS, 512>(p, in, out, s);
    }
}

extern "C" int qb_cuda_pool_run(const qb_cuda_pool *p, const void *in, void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    bool max = p->kind == QB_POOL_MAX;
    switch (p->width) { // 16: of quantized values; 4: of averages
    case 4: return launch<4, false>(p, in, out, s);
    case 16: return max ? launch<16, true>(p, in, out, s) : launch<16, false>(p, in, out, s);
    case 8: return max ? launch<8, true>(p, in, out, s) : launch<8, false>(p, in, out, s);
    default: return max ? launch<1, true>(p, in, out, s) : launch<1, false>(p, in, out, s);
    }
}

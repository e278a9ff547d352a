// Layer normalization (a warp a row), resizing and gathering (a thread a few elements). All are
// bound by device memory.
#include "kernels/cuda/nodes.h"
#include "kernels/cuda/warp.cuh"

#define WARPS 4
#define THREADS 128
#define WIDE 8 // wide layer normalization: elements that a lane reads at once,
#define WIDE_WARPS 8
#define WIDE_BLOCKS 4 // and blocks that a multiprocessor holds

// A lane has WIDE consecutive elements of each 256 of the row in registers; scale and bias stay in
// shared memory while a warp takes one row after the other.
template <int PIECES>
static __global__ void __launch_bounds__(WIDE_WARPS * 32, WIDE_BLOCKS)
    layer_norm_wide(const __grid_constant__ qb_cuda_layer_norm p, const void *in,
                    const float *scale, const float *bias, void *out) {
    __shared__ __align__(16) float gain[PIECES * 32 * WIDE], shift[PIECES * 32 * WIDE];
    int lane = threadIdx.x % 32;
    float x[PIECES][WIDE];
    auto place = [&](int i) { return (i * 32 + lane) * WIDE; };
    for (int i = threadIdx.x; i < p.n; i += WIDE_WARPS * 32) {
        gain[i] = scale[i];
        shift[i] = bias[i];
    }
    __syncthreads();
    int64_t step = (int64_t)gridDim.x * WIDE_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * WIDE_WARPS + threadIdx.x / 32; row < p.rows;
         row += step) {
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (place(i) < p.n) qb_load_real<WIDE>(p.in, in, row * p.n + place(i), x[i]);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum += place(i) < p.n ? x[i][k] : 0.0f;
        float mean = qb_warp_sum(sum) / (float)p.n;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                x[i][k] -= mean;
                squares += place(i) < p.n ? x[i][k] * x[i][k] : 0.0f;
            }
        float factor = 1.0f / sqrtf(qb_warp_sum(squares) / (float)p.n + p.epsilon);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if (place(i) >= p.n) continue;
            qb_words<WIDE * 4> a = qb_read<WIDE * 4>(gain + place(i));
            qb_words<WIDE * 4> b = qb_read<WIDE * 4>(shift + place(i));
            float y[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++)
                y[k] = x[i][k] * factor * __uint_as_float(a.word[k]) + __uint_as_float(b.word[k]);
            qb_store_real<WIDE, false>(p.out, out, row * p.n + place(i), y);
        }
    }
}

// Any row, read three times.
static __global__ void __launch_bounds__(WARPS * 32)
    layer_norm(const __grid_constant__ qb_cuda_layer_norm p, const void *in, const float *scale,
               const float *bias, void *out) {
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= p.rows) return; // whole warps leave
    float sum = 0.0f, squares = 0.0f, v[1];
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_real<1>(p.in, in, row * p.n + at, v);
        sum += v[0];
    }
    float mean = qb_warp_sum(sum) / (float)p.n;
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_real<1>(p.in, in, row * p.n + at, v);
        squares += (v[0] - mean) * (v[0] - mean);
    }
    float factor = 1.0f / sqrtf(qb_warp_sum(squares) / (float)p.n + p.epsilon);
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_real<1>(p.in, in, row * p.n + at, v);
        v[0] = (v[0] - mean) * factor * scale[at] + bias[at];
        qb_store_real<1, false>(p.out, out, row * p.n + at, v);
    }
}

extern "C" int qb_cuda_layer_norm_run(const qb_cuda_layer_norm *p, const void *in,
                                      const float *scale, const float *bias, void *out,
                                      void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    unsigned blocks = (unsigned)((p->rows + WARPS - 1) / WARPS);
    unsigned wide = (unsigned)((p->rows + WIDE_WARPS - 1) / WIDE_WARPS);
    int device = 0, multiprocessors = 0;
    if (p->rows == 0 || p->n == 0) return 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (code != cudaSuccess) return (int)code;
    unsigned most = (unsigned)multiprocessors * WIDE_BLOCKS; // they stay for several rows
    unsigned lasting = wide < most ? wide : most;
    if (p->n % WIDE || p->n > 4 * 32 * WIDE)
        layer_norm<<<blocks, WARPS * 32, 0, s>>>(*p, in, scale, bias, out);
    else if (p->n <= 2 * 32 * WIDE)
        layer_norm_wide<2><<<lasting, WIDE_WARPS * 32, 0, s>>>(*p, in, scale, bias, out);
    else if (p->n <= 3 * 32 * WIDE)
        layer_norm_wide<3><<<lasting, WIDE_WARPS * 32, 0, s>>>(*p, in, scale, bias, out);
    else
        layer_norm_wide<4><<<lasting, WIDE_WARPS * 32, 0, s>>>(*p, in, scale, bias, out);
    return (int)cudaGetLastError();
}

// Where an output pixel lies along one dimension: between `low` and `high`, `weight` of the latter.
struct position {
    int low, high;
    float weight;
};

QB_DEVICE position position_of(int o, int in, int out, bool linear) {
    position p = {(int)((int64_t)o * in / out), 0, 0.0f};
    if (linear) {
        float at = ((float)o + 0.5f) * ((float)in / (float)out) - 0.5f;
        at = fminf(fmaxf(at, 0.0f), (float)(in - 1));
        p.low = (int)at;
        p.weight = at - (float)p.low;
    }
    p.high = min(p.low + 1, in - 1);
    return p;
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    resize(const __grid_constant__ qb_cuda_resize p, uint32_t count, const void *in, void *out) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t pieces = p.channels / V, c = 0;
    if (p.channels_last) c = i % pieces, i /= pieces;
    uint32_t x = i % p.out_w, y = i / p.out_w % p.out_h, n = i / p.out_w / p.out_h;
    if (!p.channels_last) c = n % pieces, n /= pieces;
    position h = position_of(y, p.in_h, p.out_h, p.linear);
    position w = position_of(x, p.in_w, p.out_w, p.linear);
    int64_t from = p.in_first + n * p.in_stride[0] + c * V * p.in_stride[1];
    auto load = [&](int row, int column, float(&v)[V]) {
        qb_load_real<V>(p.in, in, from + row * p.in_stride[2] + column * p.in_stride[3], v);
    };
    float a[V];
    load(h.low, w.low, a);
    if (p.linear) {
        float b[V], above[V], below[V];
        load(h.low, w.high, b);
        load(h.high, w.low, above);
        load(h.high, w.high, below);
#pragma unroll
        for (int k = 0; k < V; k++) {
            float top = a[k] * (1.0f - w.weight) + b[k] * w.weight;
            float bottom = above[k] * (1.0f - w.weight) + below[k] * w.weight;
            a[k] = top * (1.0f - h.weight) + bottom * h.weight;
        }
    }
    int64_t to = p.out_first + n * p.out_stride[0] + c * V * p.out_stride[1] + y * p.out_stride[2] +
                 x * p.out_stride[3];
    qb_store_real<V, false>(p.out, out, to, a);
}

extern "C" int qb_cuda_resize_run(const qb_cuda_resize *p, const void *in, void *out,
                                  void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    uint32_t count = (uint32_t)((int64_t)p->batch * (p->channels / p->width) * p->out_h * p->out_w);
    unsigned blocks = (count + THREADS - 1) / THREADS;
    if (count == 0) return 0;
    if (p->width == 8)
        resize<8><<<blocks, THREADS, 0, s>>>(*p, count, in, out);
    else
        resize<1><<<blocks, THREADS, 0, s>>>(*p, count, in, out);
    return (int)cudaGetLastError();
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ qb_cuda_gather p, uint32_t count, const void *in,
           const void *index, void *out) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t pieces = (uint32_t)(p.inner / V), at = i / pieces % p.n, outer = i / pieces / p.n;
    int64_t from = p.wide_index ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
    if (from < 0) from += p.n_in;
    from = from < 0 ? 0 : from >= p.n_in ? p.n_in - 1 : from; // never outside of the data
    float v[V];
    qb_load_real<V>(p.in, in, (outer * (int64_t)p.n_in + from) * p.inner + i % pieces * V, v);
    qb_store_real<V, true>(p.out, out, (int64_t)i * V, v);
}

extern "C" int qb_cuda_gather_run(const qb_cuda_gather *p, const void *in, const void *index,
                                  void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    uint32_t count = (uint32_t)(p->outer * p->n * (p->inner / p->width));
    unsigned blocks = (count + THREADS - 1) / THREADS;
    if (count == 0) return 0;
    if (p->width == 4)
        gather<4><<<blocks, THREADS, 0, s>>>(*p, count, in, index, out);
    else
        gather<1><<<blocks, THREADS, 0, s>>>(*p, count, in, index, out);
    return (int)cudaGetLastError();
}

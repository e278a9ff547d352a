// Resizing and gathering: a thread a few elements. Both are bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/nodes.h"

#define THREADS 128

// Where an output pixel lies along one dimension: between `low` and `high`, `weight` of the latter.
struct position {
    int low, high;
    float weight;
};

QB_DEVICE position position_of(int o, int in, int out, int kind) {
    position p = {0, 0, 0.0f};
    if (kind == QB_RESIZE_NEAREST) {
        bool small = (uint32_t)out <= 0xffffu && (uint32_t)in <= 0xffffu;
        p.low = small ? (int)((uint32_t)o * (uint32_t)in / (uint32_t)out)
                      : (int)((int64_t)o * in / out);
    } else {
        float at = kind == QB_RESIZE_LINEAR ? ((float)o + 0.5f) * ((float)in / (float)out) - 0.5f
                   : kind == QB_RESIZE_LINEAR_ASYMMETRIC
                       ? (float)o * ((float)in / (float)out)
                       : (float)o * ((float)(in - 1) / (float)max(out - 1, 1));
        at = fminf(fmaxf(at, 0.0f), (float)(in - 1));
        p.low = (int)at;
        p.weight = at - (float)p.low;
    }
    p.high = min(p.low + 1, in - 1);
    return p;
}

// Between two rows of pixels and two columns, at `from` of the image.
template <int V>
QB_DEVICE void load_between(const qb_cuda_resize &p, const void *in, int64_t from,
                            const position &h, const position &w, float (&to)[V]) {
    auto load = [&](int row, int column, float(&v)[V]) {
        qb_load_floats<V>(p.in, in, from + row * p.in_stride[3] + column * p.in_stride[4], v);
    };
    load(h.low, w.low, to);
    if (V > 8 || p.kind == QB_RESIZE_NEAREST) return; // 16: of values that stay
    float b[V], above[V], below[V];
    load(h.low, w.high, b);
    load(h.high, w.low, above);
    load(h.high, w.high, below);
#pragma unroll
    for (int k = 0; k < V; k++) {
        float top = to[k] * (1.0f - w.weight) + b[k] * w.weight;
        float bottom = above[k] * (1.0f - w.weight) + below[k] * w.weight;
        to[k] = top * (1.0f - h.weight) + bottom * h.weight;
    }
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    resize(const __grid_constant__ qb_cuda_resize p, uint32_t count, const void *in, void *out) {
    qb_wait_for_dependencies();
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t pieces = p.channels / V, c = 0;
    if (p.channels_last) c = i % pieces, i /= pieces;
    uint32_t x = i % p.out_size[2], y = i / p.out_size[2] % p.out_size[1];
    uint32_t z = i / p.out_size[2] / p.out_size[1], n = z / p.out_size[0];
    z -= n * p.out_size[0];
    if (!p.channels_last) c = n % pieces, n /= pieces;
    position d = position_of(z, p.in_size[0], p.out_size[0], p.kind);
    position h = position_of(y, p.in_size[1], p.out_size[1], p.kind);
    position w = position_of(x, p.in_size[2], p.out_size[2], p.kind);
    int64_t from = p.in_first + n * p.in_stride[0] + c * V * p.in_stride[1];
    float a[V];
    load_between<V>(p, in, from + d.low * p.in_stride[2], h, w, a);
    if (V <= 8 && d.weight != 0.0f) {
        float behind[V];
        load_between<V>(p, in, from + d.high * p.in_stride[2], h, w, behind);
#pragma unroll
        for (int k = 0; k < V; k++) a[k] = a[k] * (1.0f - d.weight) + behind[k] * d.weight;
    }
    int64_t to = p.out_first + n * p.out_stride[0] + c * V * p.out_stride[1] + z * p.out_stride[2] +
                 y * p.out_stride[3] + x * p.out_stride[4];
    qb_store_floats<V, false>(p.out, out, to, a);
}

extern "C" int qb_cuda_resize_run(const qb_cuda_resize *p, const void *in, void *out,
                                  void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    uint32_t count = (uint32_t)((int64_t)p->batch * (p->channels / p->width) * p->out_size[0] *
                                p->out_size[1] * p->out_size[2]);
    unsigned blocks = (count + THREADS - 1) / THREADS;
    if (count == 0) return 0;
    if (p->width == 16)
        return qb_launch(resize<16>, blocks, THREADS, 0, s, *p, count, in, out);
    else if (p->width == 8)
        return qb_launch(resize<8>, blocks, THREADS, 0, s, *p, count, in, out);
    return qb_launch(resize<1>, blocks, THREADS, 0, s, *p, count, in, out);
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ qb_cuda_gather p, uint32_t count, const void *in,
           const void *index, void *out) {
    qb_wait_for_dependencies();
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t pieces = (uint32_t)(p.inner / V), at = i / pieces % p.n, outer = i / pieces / p.n;
    int64_t from = p.wide_index ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
    if (from < 0) from += p.n_in;
    from = from < 0 ? 0 : from >= p.n_in ? p.n_in - 1 : from; // never outside of the data
    float v[V];
    qb_load_floats<V>(p.in, in, (outer * (int64_t)p.n_in + from) * p.inner + i % pieces * V, v);
    qb_store_floats<V, true>(p.out, out, (int64_t)i * V, v);
}

extern "C" int qb_cuda_gather_run(const qb_cuda_gather *p, const void *in, const void *index,
                                  void *out, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    uint32_t count = (uint32_t)(p->outer * p->n * (p->inner / p->width));
    unsigned blocks = (count + THREADS - 1) / THREADS;
    if (count == 0) return 0;
    if (p->width == 4)
        return qb_launch(gather<4>, blocks, THREADS, 0, s, *p, count, in, index, out);
    return qb_launch(gather<1>, blocks, THREADS, 0, s, *p, count, in, index, out);
}

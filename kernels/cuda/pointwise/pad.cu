// Padding: a thread finds where its elements come from. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/pad.h"

#define THREADS 256

// Where index `at` comes from in a dimension of size n; -1: from nowhere.
QB_DEVICE int source(int mode, int at, int n) {
    if (at >= 0 && at < n) return at;
    switch (mode) {
    case QB_PAD_EDGE: return at < 0 ? 0 : n - 1;
    case QB_PAD_WRAP: return (at % n + n) % n;
    case QB_PAD_REFLECT: {
        if (n == 1) return 0;
        const int period = 2 * (n - 1), k = (at % period + period) % period;
        return k < n ? k : period - k;
    }
    default: return -1;
    }
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    pad(const __grid_constant__ qb_cuda_pad p, const void *in, void *out) {
    qb_wait_for_dependencies();
    uint32_t at = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (at >= p.count) return;
    int64_t from = p.from_first, to = p.to_first;
    bool inside = true;
    for (int d = p.rank - 1; d >= 0; d--) {
        const uint32_t rest = d ? at / p.to_dim[d] : 0;
        const int i = (int)(at - rest * p.to_dim[d]);
        const int k = source(p.mode, i - p.begin[d], p.from_dim[d]);
        inside = inside && k >= 0;
        from += k * p.from[d];
        to += i * p.to[d];
        at = rest;
    }
    float v[V];
    if (inside) {
        qb_load_floats<V>(p.in, in, from, v);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = p.value;
    }
    qb_store_floats<V, true>(p.out, out, to, v);
}

extern "C" int qb_cuda_pad_run(const qb_cuda_pad *p, const void *in, void *out, void *stream) {
    const uint32_t each = THREADS * p->width, blocks = (p->count + each - 1) / each;
    if (blocks == 0) return 0;
    if (p->width == 8) return qb_launch(pad<8>, blocks, THREADS, 0, stream, *p, in, out);
    return qb_launch(pad<1>, blocks, THREADS, 0, stream, *p, in, out);
}

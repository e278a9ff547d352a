// Elements at the places that indices name: a thread an element. Results do not depend on the order
// in which threads run: of several updates of an element the last one counts, and sums are in their
// order.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/places.h"
#include "kernels/place_of.h"

#define THREADS 256

QB_DEVICE void move(const qb_cuda_places &p, const qb_cuda_value &value, const void *in,
                    int64_t from, void *out, int64_t to) {
    if (p.wide) {
        ((uint64_t *)out)[to] = ((const uint64_t *)in)[from];
        return;
    }
    float v[1];
    qb_load_floats<1>(value, in, from, v);
    qb_store_floats<1, true>(p.out, out, to, v);
}

static __global__ void __launch_bounds__(THREADS)
    gather_places(const __grid_constant__ qb_cuda_places p, const void *in, const void *index,
                  void *out) {
    qb_wait_for_dependencies();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.count) return;
    move(p, p.in, in, qb_place_of(&p.places, index, p.wide_index, at), out, at);
}

static __global__ void __launch_bounds__(THREADS)
    find_owners(const __grid_constant__ qb_cuda_places p, const void *index, int32_t *owner) {
    qb_wait_for_dependencies();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.count) return;
    atomicMax(&owner[qb_place_of(&p.places, index, p.wide_index, at)], (int32_t)at);
}

static __global__ void __launch_bounds__(THREADS)
    scatter_owned(const __grid_constant__ qb_cuda_places p, const void *in, const void *updates,
                  const int32_t *owner, void *out) {
    qb_wait_for_dependencies();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.x_count) return;
    const int32_t update = owner[at];
    move(p, update < 0 ? p.in : p.updates, update < 0 ? in : updates, update < 0 ? at : update, out,
         at);
}

static __global__ void __launch_bounds__(THREADS)
    scatter_lines(const __grid_constant__ qb_cuda_places p, const void *in, const void *index,
                  const void *updates, void *out) {
    qb_wait_for_dependencies();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.x_count) return;
    const qb_place_line line = qb_place_line_of(&p.places, p.x_dim, p.axis, at);
    const bool replaces = p.reduce == QB_REDUCE_NONE;
    int64_t last = -1;
    float v[1] = {0.0f};
    if (!replaces) qb_load_floats<1>(p.in, in, at, v);
    for (int64_t i = 0; i < line.n; i++) {
        const int64_t from = line.update + i * line.update_step;
        if (qb_index_at(index, p.wide_index, line.index + i * line.index_step, p.places.size[0]) !=
            line.own)
            continue;
        last = from;
        float update[1];
        if (replaces) continue;
        qb_load_floats<1>(p.updates, updates, from, update);
        v[0] = qb_place_reduced((qb_reduce_kind)p.reduce, v[0], update[0]);
    }
    if (!replaces)
        qb_store_floats<1, true>(p.out, out, at, v);
    else
        move(p, last < 0 ? p.in : p.updates, last < 0 ? in : updates, last < 0 ? at : last, out,
             at);
}

static unsigned blocks_of(uint32_t count) { return (count + THREADS - 1) / THREADS; }

extern "C" int qb_cuda_gather_places_run(const qb_cuda_places *p, const void *in, const void *index,
                                         void *out, void *stream) {
    if (p->count == 0) return 0;
    return qb_launch(gather_places, blocks_of(p->count), THREADS, 0, stream, *p, in, index, out);
}

extern "C" size_t qb_cuda_scatter_bytes(const qb_cuda_places *p) {
    return p->axis >= 0 ? 0 : p->x_count * sizeof(int32_t);
}

extern "C" int qb_cuda_scatter_run(const qb_cuda_places *p, const void *in, const void *index,
                                   const void *updates, void *out, int32_t *owner, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    const unsigned blocks = blocks_of(p->x_count);
    if (blocks == 0) return 0;
    if (p->axis >= 0)
        return qb_launch(scatter_lines, blocks, THREADS, 0, s, *p, in, index, updates, out);
    const cudaError_t error = cudaMemsetAsync(owner, 0xff, qb_cuda_scatter_bytes(p), s); // -1
    if (error != cudaSuccess) return (int)error;
    const int code =
        p->count > 0 ? qb_launch(find_owners, blocks_of(p->count), THREADS, 0, s, *p, index, owner)
                     : 0;
    return code ? code
                : qb_launch(scatter_owned, blocks, THREADS, 0, s, *p, in, updates, owner, out);
}

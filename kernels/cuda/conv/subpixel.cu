// Phases of pixels to pixels: a thread moves up to 16 bytes. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/subpixel.h"

#define THREADS 256

// `pieces` of T in the channels of a group, `total` in a pixel of the tensor that has the result.
template <class T>
static __global__ void __launch_bounds__(THREADS)
    subpixel(const __grid_constant__ qb_cuda_subpixel p, uint32_t pieces, uint32_t total,
             uint32_t offset, uint32_t count, const T *in, T *out) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    qb_wait_for_dependencies();
    if (i >= count) return;
    const uint32_t each = p.group * pieces, pixel = i / each, channel = i % each;
    uint32_t rest = pixel, made = 0, phase = 0, planes = 1, phases = 1;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        const uint32_t at = rest % p.out[d] + p.cut[d];
        rest /= p.out[d];
        made += at / p.stride[d] * planes;
        phase += at % p.stride[d] * phases;
        planes *= p.made[d];
        phases *= p.stride[d];
    }
    const uint32_t group = (rest * planes + made) * p.group + channel / pieces;
    const uint32_t from = (group * phases + phase) * pieces + channel % pieces;
    out[(size_t)pixel * total + offset + channel] = in[from];
}

template <class T>
static int run(const qb_cuda_subpixel *p, const void *in, void *out, void *stream) {
    const uint32_t each = sizeof(T) / p->size, pieces = p->per_group / each;
    const uint32_t count =
        (uint32_t)p->batch * p->out[0] * p->out[1] * p->out[2] * p->group * pieces;
    const dim3 blocks((count + THREADS - 1) / THREADS);
    if (count == 0) return 0;
    return qb_launch(subpixel<T>, blocks, THREADS, 0, stream, *p, pieces, p->out_total / each,
                     p->out_offset / each, count, (const T *)in, (T *)out);
}

extern "C" int qb_cuda_subpixel_run(const qb_cuda_subpixel *p, const void *in, void *out,
                                    void *stream) {
    const int32_t bytes = (p->per_group | p->out_total | p->out_offset) * p->size;
    if (bytes % 16 == 0) return run<uint4>(p, in, out, stream);
    if (bytes % 4 == 0) return run<uint32_t>(p, in, out, stream);
    if (p->size == 2) return run<uint16_t>(p, in, out, stream);
    return run<uint8_t>(p, in, out, stream);
}

// Patches of an image to rows of a matrix: a thread moves 16 bytes. Bound by device memory.
#include "kernels/cuda/conv/patches.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS)
    patches(const __grid_constant__ qb_cuda_patches p, uint32_t count, const uint4 *in,
            uint4 *out) {
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t piece = i % p.line, rest = i / p.line, line = rest % p.lines;
    rest /= p.lines;
    uint32_t x = rest % p.out_w, y = rest / p.out_w % p.out_h, n = rest / p.out_w / p.out_h;
    out[i] = in[n * p.image_pieces + (y * (int64_t)p.lines + line) * p.row_pieces +
                x * (int64_t)p.line + piece];
}

extern "C" int qb_cuda_patches_run(const qb_cuda_patches *p, const void *in, void *out,
                                   void *stream) {
    uint32_t count = (uint32_t)p->batch * p->out_h * p->out_w * p->lines * p->line;
    if (count == 0) return 0;
    patches<<<(count + THREADS - 1) / THREADS, THREADS, 0, (cudaStream_t)stream>>>(
        *p, count, (const uint4 *)in, (uint4 *)out);
    return (int)cudaGetLastError();
}

// Windows of an image to rows of a matrix: a thread makes 16 bytes. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/im2col.h"

#define THREADS 256
#define PIECE 16 // bytes

template <class T>
static __global__ void __launch_bounds__(THREADS)
    im2col(const __grid_constant__ qb_cuda_im2col p, uint32_t count, const T *in, uint4 *out) {
    constexpr int EACH = PIECE / sizeof(T);
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    qb_wait_for_dependencies();
    if (i >= count) return;
    const uint32_t piece = i % p.pieces, window = i / p.pieces;
    const int x = window % p.out_w, y = window / p.out_w % p.out_h;
    const int64_t image = (int64_t)(window / p.out_w / p.out_h) * p.in_h;
    const int first = x * p.step - p.pad, top = y * p.stride_h - p.pad_h;
    int line = piece * EACH / p.line, at = piece * EACH % p.line;
    union {
        uint4 words;
        T element[EACH];
    } v = {make_uint4(p.fill, p.fill, p.fill, p.fill)};
    const T *from = in + (image + top + line) * p.row + first + at;
    const bool inside = at + EACH <= p.line && line < p.lines && top + line >= 0 &&
                        top + line < p.in_h && first + at >= 0 && first + at + EACH <= p.row;
    if (inside && (uintptr_t)from % PIECE == 0) {
        v.words = *(const uint4 *)from;
    } else {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int row = top + line, place = first + at;
            if (line < p.lines && row >= 0 && row < p.in_h && place >= 0 && place < p.row)
                v.element[k] = in[(image + row) * p.row + place];
            if (++at == p.line) at = 0, line++;
        }
    }
    out[i] = v.words;
}

extern "C" int qb_cuda_im2col_run(const qb_cuda_im2col *p, const void *in, void *out,
                                  void *stream) {
    const uint32_t count = (uint32_t)p->batch * p->out_h * p->out_w * p->pieces;
    const dim3 blocks((count + THREADS - 1) / THREADS);
    uint4 *to = (uint4 *)out;
    if (count == 0) return 0;
    cudaStream_t s = (cudaStream_t)stream;
    if (p->size == 1)
        return qb_launch(im2col<uint8_t>, blocks, THREADS, 0, s, *p, count, (const uint8_t *)in,
                         to);
    if (p->size == 2)
        return qb_launch(im2col<uint16_t>, blocks, THREADS, 0, s, *p, count, (const uint16_t *)in,
                         to);
    return qb_launch(im2col<uint32_t>, blocks, THREADS, 0, s, *p, count, (const uint32_t *)in, to);
}

// Windows of an image to rows of a matrix: a thread makes 16 bytes. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/im2col.h"

#define THREADS 256
#define PIECE 16 // bytes

// Where line `line` of the window at output (z, y, x) begins, in elements of the image's row, and
// its row among all; -1: it lies in none.
QB_DEVICE int place_line(const qb_cuda_im2col &p, int line, int z, int y, int x, int &first) {
    const int column = line % p.lines[2], down = line / p.lines[2];
    const int plane = z * p.stride[0] - p.pad[0] + down / p.lines[1] * p.dilation[0];
    const int row = y * p.stride[1] - p.pad[1] + down % p.lines[1] * p.dilation[1];
    first = x * p.stride[2] - p.pad[2] + column * p.dilation[2];
    const bool inside = down < p.lines[0] * p.lines[1] && (unsigned)plane < (unsigned)p.in[0] &&
                        (unsigned)row < (unsigned)p.in[1];
    return inside ? plane * p.in[1] + row : -1;
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    im2col(const __grid_constant__ qb_cuda_im2col p, uint32_t count, const T *in, uint4 *out) {
    constexpr int EACH = PIECE / sizeof(T);
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    qb_wait_for_dependencies();
    if (i >= count) return;
    const uint32_t piece = i % p.pieces, window = i / p.pieces;
    const int x = window % p.out[2], y = window / p.out[2] % p.out[1];
    const int plane = window / p.out[2] / p.out[1], z = plane % p.out[0];
    const T *image = in + (int64_t)(plane / p.out[0]) * p.in[0] * p.in[1] * p.in[2];
    int line = piece * EACH / p.line, at = piece * EACH % p.line, first;
    int row = place_line(p, line, z, y, x, first);
    union {
        uint4 words;
        T element[EACH];
    } v = {make_uint4(p.fill, p.fill, p.fill, p.fill)};
    const T *from = image + (int64_t)row * p.in[2] + first + at;
    const bool inside =
        at + EACH <= p.line && row >= 0 && first + at >= 0 && first + at + EACH <= p.in[2];
    if (inside && (uintptr_t)from % PIECE == 0) {
        v.words = *(const uint4 *)from;
    } else {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (row >= 0 && (unsigned)(first + at) < (unsigned)p.in[2])
                v.element[k] = image[(int64_t)row * p.in[2] + first + at];
            if (++at < p.line) continue;
            at = 0;
            row = place_line(p, ++line, z, y, x, first);
        }
    }
    out[i] = v.words;
}

extern "C" int qb_cuda_im2col_run(const qb_cuda_im2col *p, const void *in, void *out,
                                  void *stream) {
    const uint32_t count = (uint32_t)p->batch * p->out[0] * p->out[1] * p->out[2] * p->pieces;
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

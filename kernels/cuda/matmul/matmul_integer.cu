// Zero points around a product of s8 by a library: with a' = a - f and b' = b - g (f and g are 128
// for u8, else 0), za = Za - f and zb = Zb - g
//
//   sum (a - Za)(b - Zb) = sum a' b' - za sum b' - zb sum a' + k za zb
//
// Both kernels are bound by device memory. Sums wrap, as the library's do.
#include "kernels/cuda/matmul/integer.cuh"

#define WARPS 8
#define THREADS 256

// A warp takes a row.
static __global__ void __launch_bounds__(32 * WARPS)
    begin(const uint4 *a, uint4 *quantized, int *sums, int rows, int pieces, uint32_t flip) {
    qb_wait_for_dependencies();
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;
    int sum = 0;
    for (int i = threadIdx.x % 32; i < pieces; i += 32) {
        const int64_t at = (int64_t)row * pieces + i;
        uint4 v = a[at];
        v = make_uint4(v.x ^ flip, v.y ^ flip, v.z ^ flip, v.w ^ flip);
        if (quantized) quantized[at] = v;
        sum = __dp4a((int)v.x, 0x01010101, sum);
        sum = __dp4a((int)v.y, 0x01010101, sum);
        sum = __dp4a((int)v.z, 0x01010101, sum);
        sum = __dp4a((int)v.w, 0x01010101, sum);
    }
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (sums && threadIdx.x % 32 == 0) sums[row] = sum;
}

// Four results of a row a thread. `pieces`: of a row.
static __global__ void __launch_bounds__(THREADS)
    end(const __grid_constant__ qb_cuda_integer p, const void *a_zero, const void *b_zero,
        const int *sums, const int4 *columns, int4 *out, uint32_t n, uint32_t pieces) {
    qb_wait_for_dependencies();
    const uint32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= n) return;
    const uint32_t row = at / pieces, piece = at % pieces;
    const uint32_t za = qb_zero_of(a_zero, 0, p.a_signed) - (p.a_signed ? 0 : 128);
    const uint32_t sum = sums ? sums[row] : 0, whole = za * (uint32_t)p.shape.k - sum;
    const int4 column = columns[piece];
    int4 v = out[at];
    int *result[] = {&v.x, &v.y, &v.z, &v.w};
    const int b[] = {column.x, column.y, column.z, column.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int which = p.b_zeros > 1 ? (int)piece * 4 + i : 0;
        const uint32_t zb = qb_zero_of(b_zero, which, p.b_signed) - (p.b_signed ? 0 : 128);
        *result[i] += (int)(zb * whole - za * (uint32_t)b[i]);
    }
    out[at] = v;
}

extern "C" int qb_cuda_integer_begin_run(const qb_cuda_integer *p, const void *a, void *quantized,
                                         int32_t *sums, void *stream) {
    const int rows = p->shape.m * p->shape.matrices;
    return qb_launch(begin, (rows + WARPS - 1) / WARPS, 32 * WARPS, 0, stream, (const uint4 *)a,
                     (uint4 *)quantized, sums, rows, p->shape.k / 16,
                     p->a_signed ? 0 : 0x80808080u);
}

extern "C" int qb_cuda_integer_epilogue_run(const qb_cuda_integer *p, const void *a_zero,
                                            const void *b_zero, const int32_t *sums,
                                            const int32_t *columns, void *out, void *stream) {
    const uint32_t pieces = (uint32_t)p->shape.n / 4,
                   n = pieces * (uint32_t)(p->shape.m * p->shape.matrices);
    return qb_launch(end, (n + THREADS - 1) / THREADS, THREADS, 0, stream, *p, a_zero, b_zero, sums,
                     (const int4 *)columns, (int4 *)out, n, pieces);
}

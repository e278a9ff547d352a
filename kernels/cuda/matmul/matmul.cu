// The plain matrix product: blocks of 64 x 64 results through shared memory, 4 x 4 a thread, sums
// in float or int32 without Tensor Cores. Bound by shared memory.
#include "kernels/cuda/matmul/integer.cuh"
#include "kernels/cuda/matmul/plain.cuh"

#define SIDE 64  // of a block of results
#define DEPTH 16 // of K at a time
#define THREADS 256
#define PITCH (SIDE + 4)

// A DEPTH x SIDE piece of an operand: `across` runs along m or n, `down` along k.
template <class T, class Zero>
QB_DEVICE void load(const qb_cuda_value &p, const void *data, int64_t first, int64_t across_stride,
                    int64_t down_stride, int across0, int across_n, int down0, int down_n,
                    T (&to)[DEPTH][PITCH], Zero zero) {
    bool deep = down_stride == 1; // neighbours read what lies together
#pragma unroll
    for (int i = 0; i < SIDE * DEPTH / THREADS; i++) {
        int at = threadIdx.x + i * THREADS;
        int down = deep ? at % DEPTH : at / SIDE, across = deep ? at / DEPTH : at % SIDE;
        bool inside = across0 + across < across_n && down0 + down < down_n;
        to[down][across] = inside ? qb_element<T>(p, data,
                                                  first + (across0 + across) * across_stride +
                                                      (down0 + down) * down_stride,
                                                  zero(across0 + across))
                                  : (T)0;
    }
}

// A block's results, each to finish(sum, m, n).
template <class T, class ZeroA, class ZeroB, class Epilogue>
QB_DEVICE void multiply(const qb_cuda_matmul &p, uint32_t columns, const void *a, const void *b,
                        ZeroA zero_a, ZeroB zero_b, Epilogue epilogue) {
    __shared__ T left[DEPTH][PITCH], right[DEPTH][PITCH];
    int m0 = blockIdx.x / columns * SIDE, n0 = blockIdx.x % columns * SIDE;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    int64_t a_at, b_at;
    qb_matrix_at(p, blockIdx.y, &a_at, &b_at);
    T sum[4][4] = {};
    for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
        load<T>(p.a, a, a_at, p.a_row, p.a_step, m0, p.m, k0, p.k, left, zero_a);
        load<T>(p.b, b, b_at, p.b_step, p.b_row, n0, p.n, k0, p.k, right, zero_b);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    T x = left[k][row + i], y = right[k][column + j];
                    if constexpr ((T)0.5f == (T)0)
                        sum[i][j] += x * y;
                    else
                        sum[i][j] = fmaf(x, y, sum[i][j]);
                }
        __syncthreads();
    }
    T *mine = &left[0][0] + threadIdx.x; // by shared memory: the end is long and written once
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) mine[j * THREADS] = sum[i][j];
#pragma unroll 1
        for (int j = 0; j < 4; j++) {
            int m = m0 + row + i, n = n0 + column + j;
            if (m < p.m && n < p.n) epilogue(mine[j * THREADS], m, n);
        }
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    matmul(const __grid_constant__ qb_cuda_matmul p, uint32_t columns, const void *a, const void *b,
           const void *residual, const char *packed, void *out) {
    qb_wait_for_dependencies();
    const int *zeros = (const int *)(packed + p.at_weight_zero);
    multiply<T>(
        p, columns, a, b, [&](int) { return p.a.zero; },
        [&](int n) { return p.integer ? zeros[n] : 0; },
        [&](T sum, int m, int n) { qb_matmul_epilogue(p, residual, packed, out, sum, m, n); });
}

static __global__ void __launch_bounds__(THREADS)
    matmul_integer(const __grid_constant__ qb_cuda_integer p, uint32_t columns, const void *a,
                   const void *b, const void *a_zero, const void *b_zero, int *out) {
    qb_wait_for_dependencies();
    const qb_cuda_matmul &shape = p.shape;
    multiply<int>(
        shape, columns, a, b, [&](int) { return qb_zero_of(a_zero, 0, p.a_signed); },
        [&](int n) { return qb_zero_of(b_zero, p.b_zeros > 1 ? n : 0, p.b_signed); },
        [&](int sum, int m, int n) {
            out[((int64_t)blockIdx.y * shape.m + m) * shape.n + n] = sum;
        });
}

static uint32_t blocks_of(int32_t n) { return (uint32_t)(n + SIDE - 1) / SIDE; }

static dim3 grid_of(const qb_cuda_matmul *p) {
    return dim3(blocks_of(p->n) * blocks_of(p->m), (unsigned)p->matrices);
}

extern "C" int qb_cuda_matmul_integer_run(const qb_cuda_integer *p, const void *a, const void *b,
                                          const void *a_zero, const void *b_zero, void *out,
                                          void *stream) {
    const dim3 grid = grid_of(&p->shape);
    if (grid.x == 0 || grid.y == 0) return 0;
    return qb_launch(matmul_integer, grid, THREADS, 0, stream, *p, blocks_of(p->shape.n), a, b,
                     a_zero, b_zero, (int *)out);
}

extern "C" int qb_cuda_matmul_run(const qb_cuda_matmul *p, const void *a, const void *b,
                                  const void *residual, const char *packed, void *out,
                                  void *stream) {
    const uint32_t columns = blocks_of(p->n);
    const dim3 grid = grid_of(p);
    if (grid.x == 0 || grid.y == 0) return 0;
    return qb_launch(p->integer ? matmul<int> : matmul<float>, grid, THREADS, 0, stream, *p,
                     columns, a, b, residual, packed, out);
}

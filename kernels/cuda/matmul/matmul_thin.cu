// Matrix products of few columns and a short K (attention heads that talk to each other, gates,
// heads of few classes): a tile of Tensor Cores would be nearly empty. The right operand lies in
// shared memory, a thread computes a row, and the results are written as they lie. Up to four
// columns of a K that lies together: a warp computes a row. Bound by device memory.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/matmul/integer.cuh"
#include "kernels/cuda/matmul/plain.cuh"

#define ROWS 128  // of a block
#define COLUMNS 4 // at a time

template <class T>
static __global__ void __launch_bounds__(ROWS)
    thin(const __grid_constant__ qb_cuda_matmul p, const void *a, const void *b,
         const void *residual, const char *packed, void *out) {
    qb_wait_for_dependencies();
    __shared__ __align__(16) T weight[QB_CUDA_THIN_WEIGHT];
    __shared__ T sums[ROWS * (QB_CUDA_THIN_COLUMNS + 1)];
    const int *zeros = (const int *)(packed + p.at_weight_zero);
    const int stored = (p.n + COLUMNS - 1) / COLUMNS * COLUMNS, pitch = p.n | 1;
    int64_t a_at, b_at;
    qb_matrix_at(p, blockIdx.y, &a_at, &b_at);
    for (int i = threadIdx.x; i < p.k * stored; i += ROWS) {
        const int k = i / stored, n = i % stored;
        weight[i] = n < p.n ? qb_element<T>(p.b, b, b_at + k * p.b_row + n * p.b_step,
                                            p.integer ? zeros[n] : 0)
                            : (T)0;
    }
    __syncthreads();
    const int m0 = blockIdx.x * ROWS, m = m0 + threadIdx.x;
    const int64_t row = a_at + m * p.a_row;
    for (int n = 0; n < stored && m < p.m; n += COLUMNS) {
        T sum[COLUMNS] = {};
#pragma unroll 4
        for (int k = 0; k < p.k; k++) {
            const T x = qb_element<T>(p.a, a, row + k * p.a_step, p.a.zero);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const T y = weight[k * stored + n + j];
                if constexpr ((T)0.5f == (T)0)
                    sum[j] += x * y;
                else
                    sum[j] = fmaf(x, y, sum[j]);
            }
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (n + j < p.n) sums[threadIdx.x * pitch + n + j] = sum[j];
    }
    __syncthreads();
    const int count = min(ROWS, p.m - m0) * p.n;
    for (int i = threadIdx.x; i < count; i += ROWS) {
        const int r = i / p.n, n = i - r * p.n;
        qb_matmul_epilogue(p, residual, packed, out, sums[r * pitch + n], m0 + r, n);
    }
}

// The lanes share out K, in the same order each time.
template <class T>
static __global__ void __launch_bounds__(ROWS)
    thin_rows(const __grid_constant__ qb_cuda_matmul p, const void *a, const void *b,
              const void *residual, const char *packed, void *out) {
    const int lane = threadIdx.x % 32, m = blockIdx.x * (ROWS / 32) + threadIdx.x / 32;
    const int *zeros = (const int *)(packed + p.at_weight_zero);
    int64_t a_at, b_at;
    qb_matrix_at(p, blockIdx.y, &a_at, &b_at);
    qb_wait_for_dependencies();
    if (m >= p.m) return;
    const int64_t row = a_at + m * p.a_row;
    T sum[COLUMNS] = {};
#pragma unroll 4
    for (int k = lane; k < p.k; k += 32) {
        const T x = qb_element<T>(p.a, a, row + k, p.a.zero);
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
            if (n >= p.n) break;
            sum[n] += x * qb_element<T>(p.b, b, b_at + k * p.b_row + n * p.b_step,
                                        p.integer ? zeros[n] : 0);
        }
    }
    T mine = 0; // of column `lane`
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) {
        if (n >= p.n) break;
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            sum[n] += __shfl_xor_sync(0xffffffffu, sum[n], step);
        if (lane == n) mine = sum[n];
    }
    if (lane < p.n) qb_matmul_epilogue(p, residual, packed, out, mine, m, lane);
}

extern "C" int qb_cuda_matmul_thin_run(const qb_cuda_matmul *p, const void *a, const void *b,
                                       const void *residual, const char *packed, void *out,
                                       void *stream) {
    const bool by_warps = p->n <= COLUMNS && p->a_step == 1 && p->k >= 32;
    const int rows = by_warps ? ROWS / 32 : ROWS; // of a block
    const dim3 grid((unsigned)((p->m + rows - 1) / rows), (unsigned)p->matrices);
    cudaStream_t s = (cudaStream_t)stream;
    if (grid.x == 0 || grid.y == 0) return 0;
    if (by_warps && p->integer)
        return qb_launch(thin_rows<int>, grid, ROWS, 0, s, *p, a, b, residual, packed, out);
    if (by_warps)
        return qb_launch(thin_rows<float>, grid, ROWS, 0, s, *p, a, b, residual, packed, out);
    if (p->integer) return qb_launch(thin<int>, grid, ROWS, 0, s, *p, a, b, residual, packed, out);
    return qb_launch(thin<float>, grid, ROWS, 0, s, *p, a, b, residual, packed, out);
}

// The plain matrix product: blocks of 64 x 64 results through shared memory, 4 x 4 a thread, sums
// in float or int32 without Tensor Cores. Bound by shared memory.
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/real.cuh"

#define SIDE 64  // of a block of results
#define DEPTH 16 // of K at a time
#define THREADS 256
#define PITCH (SIDE + 4)

// Codes less the zero point, which may belong to the column.
template <class T>
QB_DEVICE T element(const qb_cuda_value &p, const void *data, int64_t at, int zero) {
    if constexpr ((T)0.5f == (T)0) {
        return qb_code_at(((const uint8_t *)data)[at], 0, p.dtype == QB_DTYPE_S8) - zero;
    } else {
        return p.dtype == QB_DTYPE_F16 ? __half2float(((const __half *)data)[at])
                                       : ((const float *)data)[at];
    }
}

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
        to[down][across] = inside ? element<T>(p, data,
                                               first + (across0 + across) * across_stride +
                                                   (down0 + down) * down_stride,
                                               zero(across0 + across))
                                  : (T)0;
    }
}

// One sum to the result.
template <class T>
QB_DEVICE void finish(const qb_cuda_matmul &p, const void *residual, const char *packed, void *out,
                      T sum, int m, int n) {
    float real = (float)sum;
    if (p.integer) {
        if (p.has_bias && !p.has_float_bias)
            real = (float)((int)sum + ((const int *)(packed + p.at_bias))[n]);
        real = __fmul_rn(real, ((const float *)(packed + p.at_multiplier))[n]);
    } else {
        real = __fmul_rn(real, p.scale);
    }
    if (p.has_float_bias) real = __fadd_rn(real, ((const float *)(packed + p.at_bias))[n]);
    int64_t at = ((int64_t)blockIdx.y * p.m + m) * p.n + n;
    qb_end_one(p.end, residual, at, out, at, real);
}

template <class T>
static __global__ void __launch_bounds__(THREADS)
    matmul(const __grid_constant__ qb_cuda_matmul p, uint32_t columns, const void *a, const void *b,
           const void *residual, const char *packed, void *out) {
    __shared__ T left[DEPTH][PITCH], right[DEPTH][PITCH];
    int m0 = blockIdx.x / columns * SIDE, n0 = blockIdx.x % columns * SIDE;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    int64_t a_at = 0, b_at = 0;
    uint32_t rest = blockIdx.y;
    for (int d = p.n_lead - 1; d >= 0; d--) {
        a_at += rest % p.lead[d] * p.a_lead[d];
        b_at += rest % p.lead[d] * p.b_lead[d];
        rest /= p.lead[d];
    }
    const int *zeros = (const int *)(packed + p.at_weight_zero);
    T sum[4][4] = {};
    for (int k0 = 0; k0 < p.k; k0 += DEPTH) {
        load<T>(p.a, a, a_at, p.a_row, p.a_step, m0, p.m, k0, p.k, left,
                [&](int) { return p.a.zero; });
        load<T>(p.b, b, b_at, p.b_step, p.b_row, n0, p.n, k0, p.k, right,
                [&](int n) { return p.integer ? zeros[n] : 0; });
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
            if (m < p.m && n < p.n) finish(p, residual, packed, out, mine[j * THREADS], m, n);
        }
    }
}

extern "C" int qb_cuda_matmul_run(const qb_cuda_matmul *p, const void *a, const void *b,
                                  const void *residual, const char *packed, void *out,
                                  void *stream) {
    uint32_t columns = (uint32_t)(p->n + SIDE - 1) / SIDE,
             rows = (uint32_t)(p->m + SIDE - 1) / SIDE;
    dim3 grid(columns * rows, (unsigned)p->matrices);
    cudaStream_t s = (cudaStream_t)stream;
    if (p->m == 0 || p->n == 0 || p->matrices == 0) return 0;
    if (p->integer)
        matmul<int><<<grid, THREADS, 0, s>>>(*p, columns, a, b, residual, packed, out);
    else
        matmul<float><<<grid, THREADS, 0, s>>>(*p, columns, a, b, residual, packed, out);
    return (int)cudaGetLastError();
}

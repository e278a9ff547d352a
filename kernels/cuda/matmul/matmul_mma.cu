// Matrix product of two f16 tensors on mma.sync m16n8k16, with batches and broadcasting: attention.
//
//   tile      64 x 64 results, 32 of K a step; four warps, each 32 x 32
//   shared    two steps of both operands, K innermost, rows 80 bytes apart so that no bank is met
//   twice bound by  device memory, and by short loads where rows are not multiples of 16 bytes
//
// Operands are read along whichever of their dimensions is contiguous: eight elements at a time
// where all strides allow it, else four or one (WIDTH). The next step is loaded into registers
// while the current one is multiplied.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/matmul/matmul.h"

#define SIDE 64
#define DEPTH 32
#define THREADS 128
#define PITCH (DEPTH + 8)             // f16 values
#define EACH (SIDE * DEPTH / THREADS) // elements of an operand that a thread loads
#define AHEAD 8                       // residuals that are under way at once

// One operand's view: `across` runs along m or n, `down` along k.
struct side {
    const uint16_t *data;
    int64_t across_stride, down_stride;
    int across_n;
};

// Position of a thread's piece i, of WIDTH elements along the contiguous dimension.
template <int WIDTH> QB_DEVICE void place_of(bool deep, int i, int &across, int &down) {
    int at = (threadIdx.x + i * THREADS) * WIDTH;
    across = deep ? at / DEPTH : at % SIDE;
    down = deep ? at % DEPTH : at / SIDE;
}

template <int WIDTH>
QB_DEVICE void load(const side &s, int across0, int down0, int down_n, uint32_t (&to)[EACH / 2]) {
    bool deep = s.down_stride == 1;
#pragma unroll
    for (int i = 0; i < EACH / WIDTH; i++) {
        int across, down;
        place_of<WIDTH>(deep, i, across, down);
        across += across0, down += down0;
        qb_words<WIDTH * 2> w = {};
        if (across < s.across_n && down < down_n) // pieces lie inside or outside as a whole
            w = qb_read<WIDTH * 2>(s.data + across * s.across_stride + down * s.down_stride);
        if constexpr (WIDTH > 1) {
#pragma unroll
            for (int k = 0; k < WIDTH / 2; k++) to[i * (WIDTH / 2) + k] = w.word[k];
        } else {
            to[i / 2] = i % 2 ? to[i / 2] | w.word[0] << 16 : w.word[0];
        }
    }
}

template <int WIDTH>
QB_DEVICE void put(bool deep, const uint32_t (&from)[EACH / 2], uint16_t (&to)[SIDE][PITCH]) {
#pragma unroll
    for (int i = 0; i < EACH / WIDTH; i++) {
        int across, down;
        place_of<WIDTH>(deep, i, across, down);
        if (WIDTH > 1 && deep) {
            qb_words<WIDTH * 2> w;
#pragma unroll
            for (int k = 0; k < WIDTH / 2; k++) w.word[k] = from[i * WIDTH / 2 + k];
            qb_write<WIDTH * 2>(&to[across][down], w);
            continue;
        }
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            to[across + k][down] =
                (uint16_t)(from[(i * WIDTH + k) / 2] >> (i * WIDTH + k) % 2 * 16);
    }
}

QB_DEVICE void multiply(const uint16_t (&left)[SIDE][PITCH], const uint16_t (&right)[SIDE][PITCH],
                        int row, int column, float (&sum)[2][4][4]) {
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint16_t *from = &left[row + i * 16 + g][k + t * 2];
            a[i][0] = *(const uint32_t *)from;
            a[i][1] = *(const uint32_t *)(from + 8 * PITCH);
            a[i][2] = *(const uint32_t *)(from + 8);
            a[i][3] = *(const uint32_t *)(from + 8 * PITCH + 8);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint16_t *from = &right[column + j * 8 + g][k + t * 2];
            uint32_t b0 = *(const uint32_t *)from, b1 = *(const uint32_t *)(from + 8);
            qb_mma<false>(sum[0][j], a[0], b0, b1);
            qb_mma<false>(sum[1][j], a[1], b0, b1);
        }
    }
}

template <int WIDTH>
static __global__ void __launch_bounds__(THREADS)
    matmul(const __grid_constant__ qb_cuda_matmul p, uint32_t columns, const void *a, const void *b,
           const void *residual, const char *packed, void *out) {
    qb_wait_for_dependencies();
    __shared__ __align__(16) uint16_t memory[4][SIDE][PITCH];
    uint16_t(*left)[SIDE][PITCH] = memory, (*right)[SIDE][PITCH] = memory + 2; // two steps each
    int m0 = blockIdx.x / columns * SIDE, n0 = blockIdx.x % columns * SIDE;
    side x = {(const uint16_t *)a, p.a_row, p.a_step, p.m};
    side y = {(const uint16_t *)b, p.b_step, p.b_row, p.n};
    uint32_t rest = blockIdx.y;
    for (int d = p.n_lead - 1; d >= 0; d--) {
        x.data += rest % p.lead[d] * p.a_lead[d];
        y.data += rest % p.lead[d] * p.b_lead[d];
        rest /= p.lead[d];
    }
    bool x_deep = x.down_stride == 1, y_deep = y.down_stride == 1;
    int warp = threadIdx.x >> 5, row = warp / 2 * 32, column = warp % 2 * 32;
    uint32_t next_x[EACH / 2], next_y[EACH / 2];
    float sum[2][4][4] = {};
    load<WIDTH>(x, m0, 0, p.k, next_x);
    load<WIDTH>(y, n0, 0, p.k, next_y);
    for (int k0 = 0, stage = 0; k0 < p.k; k0 += DEPTH, stage ^= 1) {
        put<WIDTH>(x_deep, next_x, left[stage]);
        put<WIDTH>(y_deep, next_y, right[stage]);
        __syncthreads(); // two steps: nobody writes what another still reads
        if (k0 + DEPTH < p.k) {
            load<WIDTH>(x, m0, k0 + DEPTH, p.k, next_x);
            load<WIDTH>(y, n0, k0 + DEPTH, p.k, next_y);
        }
        multiply(left[stage], right[stage], row, column, sum);
    }
    // by shared memory to whole rows; the end is long and written once
    float *results = (float *)memory;
    int lane = threadIdx.x & 31;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int m = row + i / 16 * 16 + i / 2 % 2 * 8 + lane / 4;
        int n = column + i / 4 % 4 * 8 + lane % 4 * 2 + i % 2;
        results[m * SIDE + n] = sum[i / 16][i / 4 % 4][i % 4];
    }
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.y * p.m * p.n;
#pragma unroll 1
    for (int i0 = threadIdx.x; i0 < SIDE * SIDE; i0 += AHEAD * THREADS) {
        float r[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = i0 + j * THREADS, m = m0 + i / SIDE, n = n0 + i % SIDE;
            const bool there = m < p.m && n < p.n;
            r[j] = there ? qb_residual_at(p.end, residual, first + (int64_t)m * p.n + n) : 0.0f;
        }
#pragma unroll 1
        for (int i = i0; i < i0 + AHEAD * THREADS; i += THREADS) {
            const int m = m0 + i / SIDE, n = n0 + i % SIDE;
            if (m < p.m && n < p.n) {
                float f32 = __fmul_rn(results[i], p.scale);
                if (p.has_float_bias)
                    f32 = __fadd_rn(f32, ((const float *)(packed + p.at_bias))[n]);
                qb_epilogue_with(p.end, r[0], out, first + (int64_t)m * p.n + n, f32);
            }
#pragma unroll
            for (int j = 1; j < AHEAD; j++) r[j - 1] = r[j];
        }
    }
}

extern "C" int qb_cuda_matmul_mma_run(const qb_cuda_matmul *p, const void *a, const void *b,
                                      const void *residual, const char *packed, void *out,
                                      void *stream) {
    uint32_t columns = (uint32_t)(p->n + SIDE - 1) / SIDE,
             rows = (uint32_t)(p->m + SIDE - 1) / SIDE;
    dim3 grid(columns * rows, (unsigned)p->matrices);
    cudaStream_t s = (cudaStream_t)stream;
    if (p->m == 0 || p->n == 0 || p->matrices == 0) return 0;
    const auto kernel = p->width == 8 ? matmul<8> : p->width == 4 ? matmul<4> : matmul<1>;
    return qb_launch(kernel, grid, THREADS, 0, s, *p, columns, a, b, residual, packed, out);
}

// Layer normalization: a warp takes whole rows. Bound by device memory.
//
// Rows of up to 1024 elements stay in registers as they were read. Sums of quantized values are
// exact: they are added, and their squares, as integers, four at a time; a zero point or an offset
// of all quantized values changes nothing. Scale and bias lie in shared memory, in units of the
// result's quantized values, while a warp takes one pair of rows after the other.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/pointwise/nodes.h"

#define WARPS 8
#define ROWS 2   // that a warp has at once
#define BLOCKS 4 // that a multiprocessor holds
#define PIECE 8  // elements that a lane reads at once

enum kind { QUANTIZED, F16, FLOATS };

// Rows at once: registers hold one of floats.
constexpr int rows_at_once(int from, int to) { return from == FLOATS || to == FLOATS ? 1 : ROWS; }

template <int KIND> struct piece {
    static constexpr int bytes = KIND == QUANTIZED ? PIECE : KIND == F16 ? PIECE * 2 : PIECE * 4;
    qb_words<bytes> words;
};

struct moments {
    float mean,
        factor; // of quantized values and floats as they were read: (x - mean) factor is normal
};

// Element `i` of a piece.
template <int KIND> QB_DEVICE float element(const piece<KIND> &p, int i, uint32_t flip) {
    const uint32_t(&word)[piece<KIND>::bytes / 4] = p.words.word;
    if (KIND == QUANTIZED) // 2^23 + code, and exactly back
        return __uint_as_float(__byte_perm(word[i / 4] ^ flip, 0x4b000000u, 0x7440 | i % 4)) -
               8388608.0f;
    if (KIND == F16) return qb_from_f16_bits(word[i / 2] >> i % 2 * 16 & 0xffffu);
    return __uint_as_float(word[i]);
}

template <int KIND, int PIECES>
QB_DEVICE moments moments_of(const qb_cuda_layer_norm &p, const piece<KIND> (&x)[PIECES],
                             uint32_t flip) {
    int lane = threadIdx.x % 32;
    float n = (float)p.n;
    if constexpr (KIND == QUANTIZED) {
        unsigned sum = 0, squares = 0; // what does not exist was read as `flip`
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t word = x[i].words.word[k] ^ flip;
                sum = __dp4a(word, 0x01010101u, sum);
                squares = __dp4a(word, word, squares);
            }
        sum = __reduce_add_sync(0xffffffffu, sum);
        squares = __reduce_add_sync(0xffffffffu, squares);
        if (p.rms) { // around the zero point, of the quantized values without sign
            int64_t zero = p.in.zero + (flip ? 128 : 0);
            int64_t around = (int64_t)squares - 2 * zero * sum + zero * zero * p.n;
            float mean_square = (float)around / n * p.in.scale * p.in.scale;
            return {(float)zero, p.in.scale / sqrtf(mean_square + p.epsilon)};
        }
        uint64_t spread = (uint64_t)squares * (uint32_t)p.n - (uint64_t)sum * sum;
        float variance = (float)spread / (n * n) * p.in.scale * p.in.scale;
        return {(float)sum / n, p.in.scale / sqrtf(variance + p.epsilon)};
    } else {
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int k = 0; k < PIECE; k++) sum += element<KIND>(x[i], k, flip);
        float mean = p.rms ? 0.0f : qb_warp_sum(sum) / n;
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            if ((i * 32 + lane) * PIECE >= p.n) continue;
#pragma unroll
            for (int k = 0; k < PIECE; k++) {
                float d = element<KIND>(x[i], k, flip) - mean;
                squares = __fmaf_rn(d, d, squares);
            }
        }
        return {mean, 1.0f / sqrtf(qb_warp_sum(squares) / n + p.epsilon)};
    }
}

// Eight results, quantized values in units of their scale, as they lie in memory.
template <int FROM, int TO>
QB_DEVICE qb_words<piece<TO>::bytes> words_of(const qb_cuda_value &p, const float (&y)[PIECE]) {
    qb_words<piece<TO>::bytes> w;
    if constexpr (TO == QUANTIZED) {
        uint32_t bits[PIECE];
#pragma unroll
        for (int k = 0; k < PIECE; k++) {
            float code = fminf(fmaxf(y[k], p.lowest), p.highest);
            if (FROM != QUANTIZED && y[k] != y[k]) code = 0.0f;
            bits[k] = __float_as_uint(__fadd_rn(code, QB_ROUND_MAGIC));
        }
        uint32_t zero = (uint32_t)(p.zero & 0xff) * 0x01010101u;
#pragma unroll
        for (int k = 0; k < 2; k++)
            w.word[k] = __vadd4(
                qb_pack4(bits[k * 4], bits[k * 4 + 1], bits[k * 4 + 2], bits[k * 4 + 3]), zero);
    } else {
#pragma unroll
        for (int k = 0; k < piece<TO>::bytes / 4; k++)
            w.word[k] = TO == F16 ? qb_f16_pair(y[2 * k], y[2 * k + 1]) : __float_as_uint(y[k]);
    }
    return w;
}

template <int FROM, int TO, int PIECES>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    layer_norm_wide(const __grid_constant__ qb_cuda_layer_norm p, int warps, const char *in,
                    const float *scale, const float *bias, char *out) {
    // of each piece first the lanes' first four elements, then the other four: no bank conflicts
    __shared__ float4 gain[PIECES * 2 * 32], shift[PIECES * 2 * 32];
    constexpr int TAKEN = rows_at_once(FROM, TO);
    int lane = threadIdx.x % 32;
    uint32_t flip = FROM == QUANTIZED && p.in.dtype == QB_DTYPE_S8 ? 0x80808080u : 0u;
    float unit = TO == QUANTIZED ? p.out.inverse : 1.0f;
    for (int i = threadIdx.x; i < p.n; i += WARPS * 32) {
        int at = (i / 256 * 2 + i % 8 / 4) * 32 + i % 256 / 8;
        ((float *)gain)[at * 4 + i % 4] = scale[i] * unit;
        ((float *)shift)[at * 4 + i % 4] = bias[i] * unit;
    }
    __syncthreads();
    qb_wait_for_dependencies();            // scale and bias are constants
    if (threadIdx.x / 32 >= warps) return; // this one only helped with scale and bias
    int64_t step = (int64_t)gridDim.x * warps * TAKEN;
    for (int64_t row = ((int64_t)blockIdx.x * warps + threadIdx.x / 32) * TAKEN; row < p.rows;
         row += step) {
        piece<FROM> x[TAKEN][PIECES];
        moments m[TAKEN];
#pragma unroll
        for (int r = 0; r < TAKEN; r++)
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                int at = (i * 32 + lane) * PIECE;
#pragma unroll
                for (int k = 0; k < piece<FROM>::bytes / 4; k++) x[r][i].words.word[k] = flip;
                if (at < p.n && row + r < p.rows)
                    x[r][i].words = qb_read<piece<FROM>::bytes>(
                        in + ((row + r) * p.n + at) * (piece<FROM>::bytes / PIECE));
            }
#pragma unroll
        for (int r = 0; r < TAKEN; r++) m[r] = moments_of<FROM, PIECES>(p, x[r], flip);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            int at = (i * 32 + lane) * PIECE;
            if (at >= p.n) continue;
            float4 g[2] = {gain[(i * 2) * 32 + lane], gain[(i * 2 + 1) * 32 + lane]};
            float4 b[2] = {shift[(i * 2) * 32 + lane], shift[(i * 2 + 1) * 32 + lane]};
            const float *gains = (const float *)g, *shifts = (const float *)b;
#pragma unroll
            for (int r = 0; r < TAKEN; r++) {
                float y[PIECE];
#pragma unroll
                for (int k = 0; k < PIECE; k++) {
                    float normal = (element<FROM>(x[r][i], k, flip) - m[r].mean) * m[r].factor;
                    y[k] = __fmaf_rn(normal, gains[k], shifts[k]);
                }
                if (row + r < p.rows)
                    qb_write<piece<TO>::bytes>(out + ((row + r) * p.n + at) *
                                                         (piece<TO>::bytes / PIECE),
                                               words_of<FROM, TO>(p.out, y));
            }
        }
    }
}

// Any row, read three times.
static __global__ void __launch_bounds__(WARPS * 32)
    layer_norm(const __grid_constant__ qb_cuda_layer_norm p, const void *in, const float *scale,
               const float *bias, void *out) {
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    qb_wait_for_dependencies();
    if (row >= p.rows) return; // whole warps leave
    float sum = 0.0f, squares = 0.0f, v[1];
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_floats<1>(p.in, in, row * p.n + at, v);
        sum += v[0];
    }
    float mean = p.rms ? 0.0f : qb_warp_sum(sum) / (float)p.n;
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_floats<1>(p.in, in, row * p.n + at, v);
        squares += (v[0] - mean) * (v[0] - mean);
    }
    float factor = 1.0f / sqrtf(qb_warp_sum(squares) / (float)p.n + p.epsilon);
    for (int at = threadIdx.x % 32; at < p.n; at += 32) {
        qb_load_floats<1>(p.in, in, row * p.n + at, v);
        v[0] = (v[0] - mean) * factor * scale[at] + bias[at];
        qb_store_floats<1, false>(p.out, out, row * p.n + at, v);
    }
}

static int kind_of(const qb_cuda_value *v) {
    return v->dtype == QB_DTYPE_F32 ? FLOATS : v->dtype == QB_DTYPE_F16 ? F16 : QUANTIZED;
}

template <int FROM, int TO>
static int launch_wide(const qb_cuda_layer_norm *p, const void *in, const float *scale,
                       const float *bias, void *out, int32_t multiprocessors, cudaStream_t stream) {
    // as many warps of a block take rows as leave a block for each multiprocessor
    int64_t most = (int64_t)multiprocessors * BLOCKS, taken = rows_at_once(FROM, TO);
    int64_t pairs = (p->rows + taken - 1) / taken;
    int warps = WARPS;
    while (warps > 1 && pairs < (int64_t)multiprocessors * warps) warps /= 2;
    int64_t blocks = (pairs + warps - 1) / warps;
    unsigned grid = (unsigned)(blocks < most ? blocks : most), threads = WARPS * 32;
    const char *x = (const char *)in;
    char *y = (char *)out;
    auto kernel =
        p->n <= 3 * 32 * PIECE ? layer_norm_wide<FROM, TO, 3> : layer_norm_wide<FROM, TO, 4>;
    return qb_launch(kernel, grid, threads, 0, stream, *p, warps, x, scale, bias, y);
}

template <int FROM>
static int launch_from(const qb_cuda_layer_norm *p, const void *in, const float *scale,
                       const float *bias, void *out, int32_t multiprocessors, cudaStream_t stream) {
    auto run = kind_of(&p->out) == QUANTIZED ? launch_wide<FROM, QUANTIZED>
               : kind_of(&p->out) == F16     ? launch_wide<FROM, F16>
                                             : launch_wide<FROM, FLOATS>;
    return run(p, in, scale, bias, out, multiprocessors, stream);
}

extern "C" int qb_cuda_layer_norm_run(const qb_cuda_layer_norm *p, const void *in,
                                      const float *scale, const float *bias, void *out,
                                      int32_t multiprocessors, void *stream) {
    cudaStream_t s = (cudaStream_t)stream;
    if (p->rows == 0 || p->n == 0) return 0;
    if (p->n % PIECE == 0 && p->n <= 4 * 32 * PIECE) {
        auto run = kind_of(&p->in) == QUANTIZED ? launch_from<QUANTIZED>
                   : kind_of(&p->in) == F16     ? launch_from<F16>
                                                : launch_from<FLOATS>;
        return run(p, in, scale, bias, out, multiprocessors, s);
    }
    unsigned blocks = (unsigned)((p->rows + WARPS - 1) / WARPS);
    return qb_launch(layer_norm, blocks, WARPS * 32, 0, s, *p, in, scale, bias, out);
}

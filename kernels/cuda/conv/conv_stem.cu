// Convolution of images with at most four channels, 8-bit values or f16, channels last: the first
// layer of a network. A block computes 4 rows x 64 pixels x 64 channels. The pixels it needs are
// laid in shared memory with four channels each, so that a row of the matrix, the pixels under one
// kernel row, is a run of words: operands of mma are read from where the pixels lie, without
// im2col.
//
//   threads   8 warps, each 32 pixels of a row x 64 channels
//   shared    the pixels under the block, the weight in the order of the operands, and 16 KiB of
//             staging for the general epilogue
//   bound by  shared memory reads of the weight
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/tile_epilogue.cuh"

#define THREADS 256
#define ROWS 4
#define WIDTH 64
#define TILES 8 // of 8 channels

static constexpr int words_of(bool f16) { return f16 ? 2 : 1; } // of a pixel

// Steps of 8 words for one kernel row; pixels of a line in shared memory; lines.
static inline __host__ __device__ int steps_of(const qb_cuda_conv &p, int words) {
    return (p.kernel_w * words + 7) / 8;
}
static inline __host__ __device__ int line_of(const qb_cuda_conv &p, int words) {
    return (WIDTH - 1) * p.stride_w + steps_of(p, words) * 8 / words;
}
static inline __host__ __device__ int lines_of(const qb_cuda_conv &p) {
    return (ROWS - 1) * p.stride_h + p.kernel_h;
}

// One pixel as words of four channels; those that do not exist are 0.
template <bool F16>
QB_DEVICE void load_pixel(const qb_cuda_conv &p, const void *in, size_t at, bool valid,
                          uint32_t *to) {
    uint32_t word[2] = {0, 0};
    if (valid) {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (c >= p.in_c) break;
            if (F16)
                word[c / 2] |= (uint32_t)((const uint16_t *)in)[at + c] << c % 2 * 16;
            else
                word[0] |= (uint32_t)((const uint8_t *)in)[at + c] << c * 8;
        }
    }
#pragma unroll
    for (int i = 0; i < words_of(F16); i++) to[i] = word[i];
}

template <bool F16, bool SIGNED, class T>
QB_DEVICE void multiply(const qb_cuda_conv &p, const uint32_t *pixels, const uint2 *weight, int row,
                        int x, T (&sum)[2][TILES][4]) {
    constexpr int WORDS = words_of(F16);
    int lane = threadIdx.x & 31, steps = steps_of(p, WORDS), pitch = line_of(p, WORDS) * WORDS;
    int step_x = p.stride_w * WORDS; // words from pixel to pixel of the result
    const uint32_t *first =
        pixels + row * p.stride_h * pitch + (x + (lane >> 2)) * step_x + (lane & 3);
    for (int r = 0; r < p.kernel_h; r++)
        for (int s = 0; s < steps; s++, weight += TILES * 32) {
            const uint32_t *from = first + r * pitch + s * 8;
            uint32_t a[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                a[i][0] = from[i * 16 * step_x];
                a[i][1] = from[(i * 16 + 8) * step_x];
                a[i][2] = from[i * 16 * step_x + 4];
                a[i][3] = from[(i * 16 + 8) * step_x + 4];
            }
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                uint2 b = weight[j * 32 + lane];
                qb_mma<SIGNED>(sum[0][j], a[0], b.x, b.y);
                qb_mma<SIGNED>(sum[1][j], a[1], b.x, b.y);
            }
        }
}

template <qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(THREADS)
    stem(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    typedef qb_epilogue_of<EPILOGUE> E;
    constexpr bool F16 = E::f16;
    constexpr int WORDS = words_of(F16);
    extern __shared__ __align__(16) char memory[];
    int line = line_of(p, WORDS), lines = lines_of(p);
    int weights = p.kernel_h * steps_of(p, WORDS) * TILES * 32;
    uint2 *weight = (uint2 *)memory;
    uint32_t *pixels = (uint32_t *)(weight + weights);
    int y0 = blockIdx.y * ROWS, x0 = blockIdx.x * WIDTH, blocks = p.n_pad / 64;
    int image = blockIdx.z / blocks, channel = blockIdx.z % blocks * 64;
    const uint2 *packed = (const uint2 *)io.packed + (size_t)(channel / 64) * weights;
    for (int i = threadIdx.x; i < weights; i += THREADS) weight[i] = packed[i];
    qb_wait_for_dependencies();
    for (int i = threadIdx.x; i < line * lines; i += THREADS) {
        int iy = y0 * p.stride_h - p.pad_h + i / line, ix = x0 * p.stride_w - p.pad_w + i % line;
        bool valid = iy >= 0 && iy < p.in_h && ix >= 0 && ix < p.in_w;
        size_t at =
            valid ? (((size_t)image * p.in_h + iy) * p.in_w + ix) * p.in_total + p.in_offset : 0;
        load_pixel<F16>(p, io.in, at, valid, pixels + i * WORDS);
    }
    __syncthreads();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp / 2, x = warp % 2 * 32;
    typename E::sum sum[2][TILES][4] = {};
    if (!F16 && p.in_signed)
        multiply<F16, true>(p, pixels, weight, row, x, sum);
    else
        multiply<F16, false>(p, pixels, weight, row, x, sum);
    int oy = y0 + row, ox = x0 + x + (lane >> 2);
    auto row_of = [&](int i) { // p.rows: not there
        bool there = oy < p.out_h && ox + i * 8 < p.out_w;
        return there ? (image * p.out_h + oy) * p.out_w + ox + i * 8 : p.rows;
    };
    auto value = [&](int i, int, int j) { return sum[i / 2][j / 2][i % 2 * 2 + j % 2]; };
    if constexpr (E::staging > 0) __syncthreads(); // the staging lies over the pixels
    qb_epilogue<E, 4, 1, THREADS>(p, io, channel, row_of, value, memory);
}

extern "C" int qb_cuda_conv_stem_shared(const qb_cuda_conv *p) {
    int words = words_of(qb_cuda_conv_is_f16(p)), staging = THREADS * 64;
    int bytes = p->kernel_h * steps_of(*p, words) * TILES * 32 * 8 +
                line_of(*p, words) * lines_of(*p) * words * 4;
    return bytes > staging ? bytes : staging;
}

extern "C" int qb_cuda_conv_stem(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    if (!call->io) return 0;
    dim3 grid((p->out_w + WIDTH - 1) / WIDTH, (p->out_h + ROWS - 1) / ROWS,
              p->batch * (p->n_pad / 64));
    return qb_dispatch_epilogue<QB_EPILOGUES_STEM>(p, [&](auto epilogue) {
        return qb_launch(stem<epilogue()>, grid, THREADS, qb_cuda_conv_stem_shared(p), call->stream,
                         *p, *call->io);
    });
}

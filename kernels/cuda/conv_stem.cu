// Convolution of images with at most four channels, codes or f16, channels last: the first layer of
// a network. A block computes 4 rows x 64 pixels x 64 channels. The pixels it needs are laid in
// shared memory with four channels each, so that a row of the matrix, the pixels under one kernel
// row, is a run of words: operands of mma are read from where the pixels lie, without im2col.
//
//   threads   8 warps, each 32 pixels of a row x 64 channels
//   shared    the pixels under the block, the weight in the order of the operands, and 16 KiB of
//             staging in the general mode
//   bound by  shared memory reads of the weight
#include "kernels/cuda/conv_epilogue.cuh"
#include "kernels/cuda/mma.cuh"

#define THREADS 256
#define ROWS 4
#define WIDTH 64
#define TILES 8 // of 8 channels

template <bool HALF> struct stem_of {
    typedef int sum_type;
    static constexpr int words = 1; // of a pixel
};
template <> struct stem_of<true> {
    typedef float sum_type;
    static constexpr int words = 2;
};

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
template <bool HALF>
QB_DEVICE void load_pixel(const qb_cuda_conv &p, const void *in, size_t at, bool valid,
                          uint32_t *to) {
    uint32_t word[2] = {0, 0};
    if (valid) {
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (c >= p.in_c) break;
            if (HALF)
                word[c / 2] |= (uint32_t)((const uint16_t *)in)[at + c] << c % 2 * 16;
            else
                word[0] |= (uint32_t)((const uint8_t *)in)[at + c] << c * 8;
        }
    }
#pragma unroll
    for (int i = 0; i < stem_of<HALF>::words; i++) to[i] = word[i];
}

template <bool HALF, bool SIGNED, class T>
QB_DEVICE void multiply(const qb_cuda_conv &p, const uint32_t *pixels, const uint2 *weight, int row,
                        int x, T (&sum)[2][TILES][4]) {
    constexpr int WORDS = stem_of<HALF>::words;
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

template <int MODE>
static __global__ void __launch_bounds__(THREADS)
    stem(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    constexpr bool HALF = MODE >= QB_CUDA_HALF;
    constexpr bool STAGED = MODE == QB_CUDA_GENERAL || MODE == QB_CUDA_HALF_GENERAL;
    constexpr int WORDS = stem_of<HALF>::words;
    typedef typename stem_of<HALF>::sum_type sum_type;
    extern __shared__ __align__(16) char memory[];
    int line = line_of(p, WORDS), lines = lines_of(p);
    int weights = p.kernel_h * steps_of(p, WORDS) * TILES * 32;
    uint2 *weight = (uint2 *)memory;
    uint32_t *pixels = (uint32_t *)(weight + weights);
    int y0 = blockIdx.y * ROWS, x0 = blockIdx.x * WIDTH, blocks = p.n_pad / 64;
    int image = blockIdx.z / blocks, channel = blockIdx.z % blocks * 64;
    const uint2 *packed = (const uint2 *)io.packed + (size_t)(channel / 64) * weights;
    for (int i = threadIdx.x; i < weights; i += THREADS) weight[i] = packed[i];
    for (int i = threadIdx.x; i < line * lines; i += THREADS) {
        int iy = y0 * p.stride_h - p.pad_h + i / line, ix = x0 * p.stride_w - p.pad_w + i % line;
        bool valid = iy >= 0 && iy < p.in_h && ix >= 0 && ix < p.in_w;
        size_t at =
            valid ? (((size_t)image * p.in_h + iy) * p.in_w + ix) * p.in_total + p.in_offset : 0;
        load_pixel<HALF>(p, io.in, at, valid, pixels + i * WORDS);
    }
    __syncthreads();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp / 2, x = warp % 2 * 32;
    sum_type sum[2][TILES][4] = {};
    if (!HALF && p.in_signed)
        multiply<HALF, true>(p, pixels, weight, row, x, sum);
    else
        multiply<HALF, false>(p, pixels, weight, row, x, sum);
    int oy = y0 + row, ox = x0 + x + (lane >> 2);
    auto row_of = [&](int i) { // p.rows: not there
        bool there = oy < p.out_h && ox + i * 8 < p.out_w;
        return there ? (image * p.out_h + oy) * p.out_w + ox + i * 8 : p.rows;
    };
    auto value = [&](int i, int, int j) { return sum[i / 2][j / 2][i % 2 * 2 + j % 2]; };
    if constexpr (STAGED) {
        __syncthreads(); // the staging lies over the pixels
        sum_type *slot = (sum_type *)memory + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 16; j++) slot[j * THREADS] = value(i, 0, j);
            if (row_of(i) < p.rows)
                qb_finish_staged(p, io, slot, THREADS, row_of(i), channel + (lane & 3) * 16);
        }
    } else if constexpr (HALF) {
        qb_finish_half<MODE, 4, 1>(p, io, channel, row_of, value);
    } else {
        qb_finish_vector<MODE, 4, 1, false>(p, io, channel, NULL, row_of, value);
    }
}

template <int MODE>
static int launch(const qb_cuda_conv *p, const qb_cuda_conv_io *io, cudaStream_t s) {
    dim3 grid((p->out_w + WIDTH - 1) / WIDTH, (p->out_h + ROWS - 1) / ROWS,
              p->batch * (p->n_pad / 64));
    stem<MODE><<<grid, THREADS, qb_cuda_conv_stem_shared(p), s>>>(*p, *io);
    return (int)cudaGetLastError();
}

extern "C" int qb_cuda_conv_stem_shared(const qb_cuda_conv *p) {
    int words = p->half ? 2 : 1, staging = THREADS * 64;
    int bytes = p->kernel_h * steps_of(*p, words) * TILES * 32 * 8 +
                line_of(*p, words) * lines_of(*p) * words * 4;
    return bytes > staging ? bytes : staging;
}

extern "C" int qb_cuda_conv_stem(const qb_cuda_conv *p, const qb_cuda_conv_io *io,
                                 const qb_cuda_encode *encode, int32_t multiprocessors,
                                 void *stream) {
    (void)encode, (void)multiprocessors;
    cudaStream_t s = (cudaStream_t)stream;
    switch (p->mode) {
    case QB_CUDA_PLAIN:
    case QB_CUDA_PLAIN_ZERO:
    case QB_CUDA_BORDER: return launch<QB_CUDA_BORDER>(p, io, s);
    case QB_CUDA_HALF: return launch<QB_CUDA_HALF>(p, io, s);
    case QB_CUDA_HALF_RESIDUAL:
    case QB_CUDA_HALF_GENERAL: return launch<QB_CUDA_HALF_GENERAL>(p, io, s);
    default: return launch<QB_CUDA_GENERAL>(p, io, s);
    }
}

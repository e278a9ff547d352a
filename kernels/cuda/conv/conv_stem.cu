// Convolution of images with at most four channels, 8-bit values or f16, channels last: the first
// layer of a network. A block computes tiles of 4 rows x 64 pixels x 64 channels, one below the
// other. The pixels it needs are laid in shared memory with four channels each, so that a row of
// the matrix, the pixels under one kernel row, is a run of words: operands of mma are read from
// where the pixels lie, without im2col. Padding is filled with the zero point, so that all results
// have the same bias; few channels are several results side by side (merge_results).
//
//   threads   8 warps, each 32 pixels of a row x 64 channels
//   shared    the weight in the order of the operands, and the pixels under a tile, over which the
//             general epilogue lays 16 KiB of staging
//   bound by  the arithmetic of the epilogue, and shared memory reads of operands
#include "kernels/cuda/common/copies.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/conv_stem_pixels.cuh"
#include "kernels/cuda/conv/tile_epilogue.cuh"

#define THREADS 256
#define ROWS 4
#define WIDTH 64
#define TILES 8      // of 8 channels
#define AT_ONCE 4    // reads of a thread that are on their way at a time
#define PER_DEVICE 8 // blocks for each multiprocessor; with more of them each has several tiles

static constexpr int words_of(bool f16) { return f16 ? 2 : 1; } // of a pixel

// Steps of 8 words for one kernel row; pieces of 16 bytes of a line in shared memory; lines.
static inline __host__ __device__ int steps_of(const qb_cuda_conv &p, int words) {
    return (p.kernel_w * words + 7) / 8;
}
static inline __host__ __device__ int line_of(const qb_cuda_conv &p, int words) {
    return ((WIDTH - 1) * p.stride_w * words + steps_of(p, words) * 8 + 3) / 4;
}
static inline __host__ __device__ int lines_of(const qb_cuda_conv &p) {
    return (ROWS - 1) * p.stride_h + p.kernel_h;
}
// Pieces of 16 bytes of the weight of 64 channels.
static inline __host__ __device__ int weights_of(const qb_cuda_conv &p, int words) {
    return p.kernel_h * steps_of(p, words) * (TILES * 32 / 2);
}

// Fills the lines with the data from (iy, ix) on.
template <bool F16>
QB_DEVICE void load_lines(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int image, int iy,
                          int ix, uint4 *to) {
    const int line = line_of(p, words_of(F16)), all = line * lines_of(p);
    const uint32_t reciprocal = 0xffffffffu / (uint32_t)line + 1; // exact below 2^16
    auto line_at = [&](int i) { return (int)__umulhi((uint32_t)i, reciprocal); };
    auto pixel_at = [&](int i) { return ix + (i - line_at(i) * line) * pixels_of_16_bytes<F16>; };
    if (p.in_total != p.in_c) {
        for (int i = threadIdx.x; i < all; i += THREADS)
            to[i] = gather_pixels<F16>(p, io, image, iy + line_at(i), pixel_at(i));
        return;
    }
    for (int i = threadIdx.x; i < all; i += AT_ONCE * THREADS) {
        pixels v[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int at = i + k * THREADS;
            v[k] = fetch_pixels<F16>(p, io, image, at < all ? iy + line_at(at) : -1, pixel_at(at));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * THREADS < all) to[i + k * THREADS] = arrange_pixels<F16>(p, v[k]);
    }
}

template <bool F16, bool SIGNED, class T>
QB_DEVICE void multiply(const qb_cuda_conv &p, const uint32_t *pixels, const uint2 *weight, int row,
                        int x, T (&sum)[2][TILES][4]) {
    constexpr int WORDS = words_of(F16);
    int lane = threadIdx.x & 31, steps = steps_of(p, WORDS), pitch = line_of(p, WORDS) * 4;
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

// Blocks that a multiprocessor has registers for.
template <class Store> static constexpr int blocks_of = 2;
template <> constexpr int blocks_of<qb_store_VECTOR> = 1;

template <qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(THREADS,
                                         blocks_of<typename qb_epilogue_of<EPILOGUE>::store>)
    stem(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    typedef qb_epilogue_of<EPILOGUE> E;
    constexpr bool F16 = E::f16;
    extern __shared__ __align__(16) char memory[];
    int weights = weights_of(p, words_of(F16)), blocks = p.n_pad / 64;
    int image = blockIdx.z / blocks, channel = blockIdx.z % blocks * 64;
    uint4 *pixels = (uint4 *)memory + weights;
    const uint4 *packed = (const uint4 *)io.packed + (size_t)(channel / 64) * weights;
    for (int i = threadIdx.x; i < weights; i += THREADS)
        qb_copy16_if(qb_shared_address_of(memory) + i * 16, packed + i, true);
    qb_copies_commit();
    qb_wait_for_dependencies();
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp / 2, x = warp % 2 * 32;
    int ox = blockIdx.x * WIDTH + x + (lane >> 2);
    for (int y = blockIdx.y * ROWS; y < p.out_h; y += gridDim.y * ROWS) {
        load_lines<F16>(p, io, image, y * p.stride_h - p.pad_h,
                        (int)blockIdx.x * WIDTH * p.stride_w - p.pad_w, pixels);
        qb_copies_wait<0>();
        __syncthreads();
        typename E::sum sum[2][TILES][4] = {};
        if (!F16 && p.in_signed)
            multiply<F16, true>(p, (uint32_t *)pixels, (uint2 *)memory, row, x, sum);
        else
            multiply<F16, false>(p, (uint32_t *)pixels, (uint2 *)memory, row, x, sum);
        __syncthreads();           // what follows, staging or the next tile, lies over the pixels
        auto row_of = [&](int i) { // p.rows: not there
            bool there = y + row < p.out_h && ox + i * 8 < p.out_w;
            return there ? (image * p.out_h + y + row) * p.out_w + ox + i * 8 : p.rows;
        };
        auto value = [&](int i, int, int j) { return sum[i / 2][j / 2][i % 2 * 2 + j % 2]; };
        qb_epilogue<E, 4, 1, THREADS>(p, io, channel, row_of, value, (char *)pixels);
        if (E::staging > 0) __syncthreads();
    }
}

extern "C" int qb_cuda_conv_stem_shared(const qb_cuda_conv *p) {
    int words = words_of(qb_cuda_conv_is_f16(p)), staging = THREADS * 64;
    int lines = line_of(*p, words) * lines_of(*p) * 16;
    return weights_of(*p, words) * 16 + (lines > staging ? lines : staging);
}

extern "C" int qb_cuda_conv_stem(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    if (!call->io) return 0;
    dim3 grid((p->out_w + WIDTH - 1) / WIDTH, (p->out_h + ROWS - 1) / ROWS,
              p->batch * (p->n_pad / 64));
    const unsigned most = (unsigned)call->multiprocessors * PER_DEVICE / (grid.x * grid.z);
    if (grid.y > most) grid.y = most > 0 ? most : 1;
    return qb_dispatch_epilogue<QB_EPILOGUES_STEM>(p, [&](auto epilogue) {
        return qb_launch(stem<epilogue()>, grid, THREADS, qb_cuda_conv_stem_shared(p), call->stream,
                         *p, *call->io);
    });
}

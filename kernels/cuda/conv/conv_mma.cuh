// INT8 convolution as an implicit matrix product on mma.sync m16n8k32 (compute capability 8.0 and
// later): rows are output pixels, columns output channels, K runs over taps and input channels.
//
//   tile      64 or 128 rows x 64 or 128 channels, 64 bytes of K a step
//   threads   one warp for 32 (or 16) rows x 64 channels: 128 or 256
//   shared    4 steps of (rows + channels) x 64 bytes: 32 to 64 KiB, filled by cp.async
//   registers at most 128 (two blocks of 256 threads a multiprocessor), 255 with some epilogues
//   (one) bound by  L2 reads of the im2col form for 3x3, device memory for 1x1
//
// A row of a step is 64 bytes; its 16-byte pieces are permuted by bits 1 and 2 of the row, so that
// ldmatrix meets no bank twice. Padding and rows behind the end are zero-filled by cp.async. With
// splits > 1 blocks of the same tile share K and leave int32 partial sums in the workspace, which a
// second kernel (conv_reduce.cu) adds up; integer sums do not depend on the order.
#ifndef QB_CUDA_CONV_MMA_CUH
#define QB_CUDA_CONV_MMA_CUH

#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/tile.cuh"

#define BLOCK_K 64
#define STAGES 4

QB_DEVICE uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

QB_DEVICE void copy16(uint32_t to, const void *from, bool valid) {
    int bytes = valid ? 16 : 0; // the rest is zero-filled
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// Two pieces of 8 bytes, zero-filled each for itself.
QB_DEVICE void copy8x2(uint32_t to, const char *from, bool valid, bool valid_too) {
    int first = valid ? 8 : 0, second = valid_too ? 8 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(first));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to + 8),
                 "l"(valid_too ? from + 8 : from), "r"(second));
}

QB_DEVICE void load_matrices(uint32_t (&r)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

// Byte offset of 16-byte piece `piece` of row `row`.
QB_DEVICE uint32_t swizzled(int row, int piece) {
    return (uint32_t)(row * BLOCK_K + ((piece ^ (row >> 1 & 3)) << 4));
}

// WARPS_M x WARPS_N warps, each with MT x 16 rows and 64 channels.
template <int WARPS_M, int WARPS_N, int MT> struct tile {
    static constexpr int threads = 32 * WARPS_M * WARPS_N;
    static constexpr int rows = WARPS_M * MT * 16, channels = WARPS_N * 64;
    static constexpr int a_pieces = rows * 4 / threads, b_pieces = channels * 4 / threads;
    static constexpr int stage_bytes = (rows + channels) * BLOCK_K;
    static constexpr int shared_bytes = STAGES * stage_bytes;
    static_assert(a_pieces * threads == rows * 4 && b_pieces * threads == channels * 4, "pieces");
    static_assert(shared_bytes == QB_CUDA_MMA_SHARED(rows, channels), "what tactics ask for");
    static_assert(threads * 64 <= shared_bytes, "staging of the general epilogue");
};

// What one thread copies: fixed rows, one 16-byte column of K.
template <class T> struct loader {
    const char *image[T::a_pieces]; // first pixel of the image
    int y[T::a_pieces], x[T::a_pieces];
    const char *weight;
    int tap_r, tap_s, k; // next step
    int channels;        // from the first that the tile meets on
    uint32_t to;

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0, int channel0,
                         int step) {
        int piece = threadIdx.x & 3, line = threadIdx.x >> 2;
        int k_steps = p.k_pad / BLOCK_K, tap = step / k_steps;
        tap_r = tap / p.kernel_w;
        tap_s = tap % p.kernel_w;
        k = step % k_steps * BLOCK_K + piece * 16;
        int first = T::channels == 64 && p.group > 1 ? QB_CUDA_CONV_FIRST(&p, channel0) : 0;
        channels = p.in_c - first;
        to = swizzled(line, piece); // rows apart by a multiple of 8 share the permutation
        weight = io.packed + (size_t)(channel0 + line) * p.kernel_h * p.kernel_w * p.k_pad +
                 (size_t)tap * p.k_pad + k;
#pragma unroll
        for (int i = 0; i < T::a_pieces; i++) {
            int row = row0 + line + i * (T::threads / 4);
            int ox = row % p.out_w, oy = row / p.out_w % p.out_h, n = row / p.out_w / p.out_h;
            bool inside = row < p.rows;
            image[i] = (const char *)io.in + p.in_offset + first +
                       (size_t)(inside ? n : 0) * p.in_h * p.in_w * p.in_total;
            y[i] = inside ? oy * p.stride_h - p.pad_h : -(1 << 20);
            x[i] = ox * p.stride_w - p.pad_w;
        }
    }

    __device__ void load(const qb_cuda_conv &p, uint32_t stage) {
        int dy = tap_r * p.dilation_h, dx = tap_s * p.dilation_w;
#pragma unroll
        for (int i = 0; i < T::a_pieces; i++) {
            int iy = y[i] + dy, ix = x[i] + dx;
            bool valid =
                (unsigned)iy < (unsigned)p.in_h && (unsigned)ix < (unsigned)p.in_w && k < channels;
            size_t at = valid ? (size_t)(iy * p.in_w + ix) * p.in_total + k : 0;
            uint32_t slot = stage + to + i * (T::threads / 4 * BLOCK_K);
            if (p.in_pieces_of_8)
                copy8x2(slot, image[i] + at, valid, valid && k + 8 < channels);
            else
                copy16(slot, image[i] + at, valid);
        }
#pragma unroll
        for (int i = 0; i < T::b_pieces; i++)
            copy16(stage + T::rows * BLOCK_K + to + i * (T::threads / 4 * BLOCK_K),
                   weight + (size_t)i * (T::threads / 4) * p.kernel_h * p.kernel_w * p.k_pad, true);
        weight += BLOCK_K;
        k += BLOCK_K;
        if (k < p.k_pad) return;
        k -= p.k_pad;
        if (++tap_s == p.kernel_w) tap_s = 0, tap_r++;
    }
};

template <class T, int MT, bool SIGNED>
QB_DEVICE void multiply_step(uint32_t stage, int warp_row, int warp_channel, int (&acc)[MT][8][4]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < BLOCK_K / 32; k++) {
        uint32_t a[MT][4];
#pragma unroll
        for (int i = 0; i < MT; i++)
            load_matrices(a[i],
                          stage + swizzled(warp_row + i * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < 4; j++) { // 16 channels at a time
            uint32_t b[4];
            load_matrices(b, stage + T::rows * BLOCK_K +
                                 swizzled(warp_channel + j * 16 + (lane & 7) + (lane >> 4) * 8,
                                          k * 2 + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < MT; i++) {
                qb_mma<SIGNED>(acc[i][2 * j], a[i], b[0], b[1]);
                qb_mma<SIGNED>(acc[i][2 * j + 1], a[i], b[2], b[3]);
            }
        }
    }
}

template <class T, int MT, bool SIGNED>
QB_DEVICE void main_loop(const qb_cuda_conv &p, loader<T> &from, int steps, uint32_t shared,
                         int warp_row, int warp_channel, int (&acc)[MT][8][4]) {
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) from.load(p, shared + s * T::stage_bytes);
        asm volatile("cp.async.commit_group;");
    }
    int stage = 0, next = STAGES - 1;
    for (int s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (s + STAGES - 1 < steps) from.load(p, shared + next * T::stage_bytes);
        asm volatile("cp.async.commit_group;");
        multiply_step<T, MT, SIGNED>(shared + stage * T::stage_bytes, warp_row, warp_channel, acc);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
}

template <int MT>
QB_DEVICE void store_partial(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0,
                             int channel, int (&acc)[MT][8][4]) {
    int *base = (int *)io.workspace + (size_t)blockIdx.y * p.rows * p.n_pad;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        int row = row0 + i * 8;
        if (row >= p.rows) continue;
        int4 *to = (int4 *)(base + (size_t)row * p.n_pad + channel);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int *lo = &acc[i / 2][2 * j][i % 2 * 2], *hi = &acc[i / 2][2 * j + 1][i % 2 * 2];
            to[j] = make_int4(lo[0], lo[1], hi[0], hi[1]);
        }
    }
}

// Blocks that a multiprocessor has registers for. Biases by class and floats take some more.
template <qb_cuda_epilogue EPILOGUE> static constexpr int blocks_of(int warps) {
    typedef qb_epilogue_of<EPILOGUE> E;
    constexpr bool q8 = E::template is<typename E::store, qb_store_Q8>;
    constexpr bool element = E::template is<typename E::store, qb_store_ELEMENT>;
    const bool most = q8 ? E::bounds && E::by_class : !element;
    return warps < 8 ? 3 : most ? 1 : 2;
}

template <int WARPS_M, int WARPS_N, int MT, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(32 * WARPS_M * WARPS_N,
                                         blocks_of<EPILOGUE>(WARPS_M *WARPS_N))
    conv_mma(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    typedef tile<WARPS_M, WARPS_N, MT> T;
    extern __shared__ __align__(128) char memory[];
    int columns = p.n_pad / T::channels; // of tiles; blocks that share rows run side by side
    int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int warp_row = warp % WARPS_M * (MT * 16), warp_channel = warp / WARPS_M * 64;
    int all = p.kernel_h * p.kernel_w * (p.k_pad / BLOCK_K);
    int begin = (int)((int64_t)all * blockIdx.y / p.splits);
    int end = (int)((int64_t)all * (blockIdx.y + 1) / p.splits);
    int acc[MT][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    if (p.in_signed)
        main_loop<T, MT, true>(p, from, end - begin, shared_address(memory), warp_row, warp_channel,
                               acc);
    else
        main_loop<T, MT, false>(p, from, end - begin, shared_address(memory), warp_row,
                                warp_channel, acc);
    int row = row0 + warp_row + (lane >> 2), channel = channel0 + warp_channel;
    if (p.splits > 1) {
        store_partial<MT>(p, io, row, channel + (lane & 3) * 16, acc);
        return;
    }
    auto row_of = [&](int i) { return row + i * 8; };
    auto value = [&](int i, int, int j) -> auto & { return acc[i / 2][j / 2][i % 2 * 2 + j % 2]; };
    qb_epilogue<qb_epilogue_of<EPILOGUE>, MT * 2, 1, T::threads>(p, io, channel, row_of, value,
                                                                 memory);
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef tile<4, N / 64, M / 64> T;
    const auto kernel = conv_mma<4, N / 64, M / 64, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    static_assert(K == BLOCK_K && GROUPS * 128 == T::threads, "its row in tiles.def");
    if (!call->io) return qb_reserve_shared(kernel, T::shared_bytes);
    dim3 grid(p->n_pad / T::channels * ((p->rows + T::rows - 1) / T::rows), p->splits);
    kernel<<<grid, T::threads, T::shared_bytes, (cudaStream_t)call->stream>>>(*p, *call->io);
    if (p->splits > 1) return qb_cuda_conv_reduce(p, call->io, call->stream);
    return (int)cudaGetLastError();
}

#endif

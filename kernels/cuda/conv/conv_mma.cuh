// INT8 and f16 convolution as an implicit matrix product on mma.sync m16n8k32 and m16n8k16 (compute
// capability 8.0 and later): rows are output pixels, columns output channels, K runs over taps and
// input channels. In bytes, operands and sums of both lie alike in a warp's registers.
//
//   tile      64 to 256 rows x 64 or 128 channels, 64 or 128 bytes of K a step
//   threads   GROUPS times four warps, each of which has 64 channels and the rows that this leaves:
//             16, 32 or 64
//   shared    4 steps (of 128 bytes: 3) of (rows + channels) x K, filled by cp.async: 32 to 96 KiB
//   registers at most 128 (two blocks of 256 threads a multiprocessor), 255 with 64 rows a warp and
//             with some epilogues
//   bound by  L2 reads of the im2col form for 3x3, device memory for 1x1; ldmatrix with less than
//   64
//             rows a warp, whose operands are each multiplied more often
//
// A row of a step is K bytes; its 16-byte pieces are permuted by bits of the row, so that ldmatrix
// meets no bank twice. Padding and rows behind the end are zero-filled by cp.async. With splits > 1
// blocks of the same tile share K and leave partial sums in the workspace, which a second kernel
// (conv_reduce.cu) adds up, in the same order each time.
#ifndef QB_CUDA_CONV_MMA_CUH
#define QB_CUDA_CONV_MMA_CUH

#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/tile.cuh"

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

// Byte offset of 16-byte piece `piece` of row `row` of K bytes.
template <int K> QB_DEVICE uint32_t swizzled(int row, int piece) {
    return (uint32_t)(row * K + ((piece ^ (K == 64 ? row >> 1 & 3 : row & 7)) << 4));
}

// A tile of ROWS x CHANNELS and a step of K bytes of elements of ELEMENT bytes, for GROUPS times
// four warps.
template <int ROWS, int CHANNELS, int K, int GROUPS, int ELEMENT> struct tile {
    static constexpr int rows = ROWS, channels = CHANNELS, k = K, element = ELEMENT;
    static constexpr int warps = 4 * GROUPS, threads = 32 * warps;
    static constexpr int warps_m = warps / (CHANNELS / 64); // warps side by side along the rows
    static constexpr int mt = ROWS / warps_m / 16;          // of 16 rows for each warp
    static constexpr int stages = QB_CUDA_MMA_STAGES(K);
    static constexpr int pieces = K / 16;          // of a row of a step
    static constexpr int lines = threads / pieces; // that a piece of each thread makes up
    static constexpr int a_pieces = ROWS / lines, b_pieces = CHANNELS / lines; // of a thread
    static constexpr int stage_bytes = (ROWS + CHANNELS) * K;
    static constexpr int shared_bytes = stages * stage_bytes;
    static_assert(K == 64 || K == 128, "permutation");
    static_assert(warps_m * mt * 16 == ROWS && mt <= 4, "warps");
    static_assert(lines % 8 == 0 && a_pieces * lines == ROWS && b_pieces * lines == CHANNELS,
                  "pieces");
    static_assert(shared_bytes == QB_CUDA_MMA_SHARED(ROWS, CHANNELS, K), "what tactics ask for");
    static_assert(threads * 64 <= shared_bytes, "staging of the general epilogue");
};

// What one thread copies: fixed rows, one 16-byte column of K. K is counted in bytes.
template <class T> struct loader {
    const char *image[T::a_pieces]; // first pixel of the image
    int y[T::a_pieces], x[T::a_pieces];
    const char *weight;
    int tap_r, tap_s, k; // next step
    int channels;        // from the first that the tile meets on
    uint32_t to;

    __device__ void init(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0, int channel0,
                         int step) {
        int piece = threadIdx.x % T::pieces, line = threadIdx.x / T::pieces;
        int tap_bytes = p.k_pad * T::element, k_steps = tap_bytes / T::k, tap = step / k_steps;
        tap_r = tap / p.kernel_w;
        tap_s = tap % p.kernel_w;
        k = step % k_steps * T::k + piece * 16;
        int first = T::channels == 64 && p.group > 1 ? QB_CUDA_CONV_FIRST(&p, channel0) : 0;
        channels = (p.in_c - first) * T::element;
        to = swizzled<T::k>(line, piece); // rows apart by a multiple of 8 share the permutation
        weight = io.packed + (size_t)(channel0 + line) * p.kernel_h * p.kernel_w * tap_bytes +
                 (size_t)tap * tap_bytes + k;
        size_t image_bytes = (size_t)p.in_h * p.in_w * p.in_total * T::element;
#pragma unroll
        for (int i = 0; i < T::a_pieces; i++) {
            int row = row0 + line + i * T::lines;
            int ox = row % p.out_w, oy = row / p.out_w % p.out_h, n = row / p.out_w / p.out_h;
            bool inside = row < p.rows;
            image[i] = (const char *)io.in + (size_t)(p.in_offset + first) * T::element +
                       (inside ? n : 0) * image_bytes;
            y[i] = inside ? oy * p.stride_h - p.pad_h : -(1 << 20);
            x[i] = ox * p.stride_w - p.pad_w;
        }
    }

    __device__ void load(const qb_cuda_conv &p, uint32_t stage) {
        int dy = tap_r * p.dilation_h, dx = tap_s * p.dilation_w;
        int pixel_bytes = p.in_total * T::element, tap_bytes = p.k_pad * T::element;
#pragma unroll
        for (int i = 0; i < T::a_pieces; i++) {
            int iy = y[i] + dy, ix = x[i] + dx;
            bool valid =
                (unsigned)iy < (unsigned)p.in_h && (unsigned)ix < (unsigned)p.in_w && k < channels;
            size_t at = valid ? (size_t)(iy * p.in_w + ix) * pixel_bytes + k : 0;
            uint32_t slot = stage + to + i * (T::lines * T::k);
            if (T::element == 1 && p.in_pieces_of_8)
                copy8x2(slot, image[i] + at, valid, valid && k + 8 < channels);
            else
                copy16(slot, image[i] + at, valid);
        }
#pragma unroll
        for (int i = 0; i < T::b_pieces; i++)
            copy16(stage + T::rows * T::k + to + i * (T::lines * T::k),
                   weight + (size_t)i * T::lines * p.kernel_h * p.kernel_w * tap_bytes, true);
        weight += T::k;
        k += T::k;
        if (k < tap_bytes) return;
        k -= tap_bytes;
        if (++tap_s == p.kernel_w) tap_s = 0, tap_r++;
    }
};

template <class T, bool SIGNED, class Sum>
QB_DEVICE void multiply_step(uint32_t stage, int warp_row, int warp_channel,
                             Sum (&acc)[T::mt][8][4]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < T::k / 32; k++) {
        uint32_t a[T::mt][4];
#pragma unroll
        for (int i = 0; i < T::mt; i++)
            load_matrices(
                a[i], stage + swizzled<T::k>(warp_row + i * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < 4; j++) { // 16 channels at a time
            uint32_t b[4];
            load_matrices(b,
                          stage + T::rows * T::k +
                              swizzled<T::k>(warp_channel + j * 16 + (lane & 7) + (lane >> 4) * 8,
                                             k * 2 + (lane >> 3 & 1)));
#pragma unroll
            for (int i = 0; i < T::mt; i++) {
                qb_mma<SIGNED>(acc[i][2 * j], a[i], b[0], b[1]);
                qb_mma<SIGNED>(acc[i][2 * j + 1], a[i], b[2], b[3]);
            }
        }
    }
}

template <class T, bool SIGNED, class Sum>
QB_DEVICE void main_loop(const qb_cuda_conv &p, loader<T> &from, int steps, uint32_t shared,
                         int warp_row, int warp_channel, Sum (&acc)[T::mt][8][4]) {
#pragma unroll
    for (int s = 0; s < T::stages - 1; s++) {
        if (s < steps) from.load(p, shared + s * T::stage_bytes);
        asm volatile("cp.async.commit_group;");
    }
    int stage = 0, next = T::stages - 1;
    for (int s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(T::stages - 2));
        __syncthreads();
        if (s + T::stages - 1 < steps) from.load(p, shared + next * T::stage_bytes);
        asm volatile("cp.async.commit_group;");
        multiply_step<T, SIGNED>(shared + stage * T::stage_bytes, warp_row, warp_channel, acc);
        stage = stage + 1 == T::stages ? 0 : stage + 1;
        next = next + 1 == T::stages ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
}

// Four sums, of either type, as they lie in the workspace.
template <class Sum> QB_DEVICE uint4 words_of(const Sum *low, const Sum *high) {
    uint4 v;
    memcpy(&v.x, low, 8);
    memcpy(&v.z, high, 8);
    return v;
}

template <class T, class Sum>
QB_DEVICE void store_partial(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row0,
                             int channel, Sum (&acc)[T::mt][8][4]) {
    Sum *base = (Sum *)io.workspace + (size_t)blockIdx.y * p.rows * p.n_pad;
#pragma unroll
    for (int i = 0; i < T::mt * 2; i++) {
        int row = row0 + i * 8;
        if (row >= p.rows) continue;
        uint4 *to = (uint4 *)(base + (size_t)row * p.n_pad + channel);
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[j] = words_of(&acc[i / 2][2 * j][i % 2 * 2], &acc[i / 2][2 * j + 1][i % 2 * 2]);
    }
}

// Blocks that a multiprocessor has registers for. Biases by class and floats take some more.
template <class T, qb_cuda_epilogue EPILOGUE> static constexpr int blocks_of() {
    typedef qb_epilogue_of<EPILOGUE> E;
    constexpr bool q8 = E::template is<typename E::store, qb_store_Q8>;
    constexpr bool element = E::template is<typename E::store, qb_store_ELEMENT>;
    const bool most = T::mt == 4 || (q8 ? E::bounds && E::by_class : !element);
    return T::warps < 8 ? T::mt == 4 ? 2 : 3 : most ? 1 : 2;
}

template <class T, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(T::threads, (blocks_of<T, EPILOGUE>()))
    conv_mma(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    typedef qb_epilogue_of<EPILOGUE> E;
    extern __shared__ __align__(128) char memory[];
    int columns = p.n_pad / T::channels; // of tiles; blocks that share rows run side by side
    int row0 = blockIdx.x / columns * T::rows, channel0 = blockIdx.x % columns * T::channels;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int warp_row = warp % T::warps_m * (T::mt * 16), warp_channel = warp / T::warps_m * 64;
    int all = p.kernel_h * p.kernel_w * (p.k_pad * T::element / T::k);
    int begin = (int)((int64_t)all * blockIdx.y / p.splits);
    int end = (int)((int64_t)all * (blockIdx.y + 1) / p.splits);
    typename E::sum acc[T::mt][8][4] = {};
    loader<T> from;
    from.init(p, io, row0, channel0, begin);
    if (!E::f16 && p.in_signed)
        main_loop<T, true>(p, from, end - begin, shared_address(memory), warp_row, warp_channel,
                           acc);
    else
        main_loop<T, false>(p, from, end - begin, shared_address(memory), warp_row, warp_channel,
                            acc);
    int row = row0 + warp_row + (lane >> 2), channel = channel0 + warp_channel;
    if (p.splits > 1) {
        store_partial<T>(p, io, row, channel + (lane & 3) * 16, acc);
        return;
    }
    auto row_of = [&](int i) { return row + i * 8; };
    auto value = [&](int i, int, int j) -> auto & { return acc[i / 2][j / 2][i % 2 * 2 + j % 2]; };
    qb_epilogue<E, T::mt * 2, 1, T::threads>(p, io, channel, row_of, value, memory);
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return (void)p, true;
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef tile<M, N, K, GROUPS, qb_epilogue_of<EPILOGUE>::f16 ? 2 : 1> T;
    const auto kernel = conv_mma<T, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    if (!call->io) return qb_reserve_shared(kernel, T::shared_bytes);
    dim3 grid(p->n_pad / T::channels * ((p->rows + T::rows - 1) / T::rows), p->splits);
    kernel<<<grid, T::threads, T::shared_bytes, (cudaStream_t)call->stream>>>(*p, *call->io);
    if (p->splits > 1) return qb_cuda_conv_reduce(p, call->io, call->stream);
    return (int)cudaGetLastError();
}

#endif

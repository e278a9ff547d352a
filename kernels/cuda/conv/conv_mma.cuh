// INT8 and f16 convolution as an implicit matrix product on mma.sync m16n8k32 and m16n8k16 (compute
// capability 8.0 and later): rows are output pixels, columns output channels, K runs over taps and
// input channels. In bytes, operands and sums of both lie alike in a warp's registers.
//
//   tile      64 to 256 rows x 64 or 128 channels, 64 or 128 bytes of K a step
//   threads   GROUPS times four warps, each of which has 64 channels and the rows that this leaves:
//             16, 32 or 64
//   shared    4 steps (of 128 bytes: 3) of (rows + channels) x K, filled by cp.async: 32 to 96 KiB
//   registers at most 128 (two blocks of 256 threads a multiprocessor, four of 128), 255 with 64
//             rows a warp and with some epilogues
//   bound by  copies and the epilogue where K is short; ldmatrix with less than 64 rows a warp,
//             whose operands are each multiplied more often
//
// Where tiles are more than the device takes at once a block has several (is_ahead).
//
// A row of a step is K bytes; its 16-byte pieces are permuted by bits of the row, so that ldmatrix
// meets no bank twice. Padding and rows behind the end are zero-filled by cp.async. With splits > 1
// blocks of the same tile share K and leave partial sums in the workspace, which a second kernel
// (conv_reduce.cu) adds up, in the same order each time.
#ifndef QB_CUDA_CONV_MMA_CUH
#define QB_CUDA_CONV_MMA_CUH

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/conv/conv_mma_loop.cuh"
#include "kernels/cuda/conv/tile.cuh"

// Blocks that a multiprocessor has registers for. Biases by class, and results of integers that are
// floats, take some more.
template <class T, qb_cuda_epilogue EPILOGUE> static constexpr int blocks_of() {
    typedef qb_epilogue_of<EPILOGUE> E;
    constexpr bool q8 = E::template is<typename E::store, qb_store_Q8>;
    constexpr bool element = E::template is<typename E::store, qb_store_ELEMENT>;
    const bool most = T::mt == 4 || (q8 ? E::bounds && E::by_class : !element);
    if (T::warps == 4) return T::mt == 4 ? 2 : E::f16 || (q8 && !E::by_class) ? 4 : 3;
    return most ? 1 : 2;
}

// Has a block several tiles, the copies of the next one under way during the epilogue? Not where
// that uses the shared memory, nor where its registers would leave room for fewer blocks.
template <class T, class E> static constexpr bool is_ahead() {
    return T::mt == 4 && E::staging == 0 && !E::by_class && !E::residual::q8;
}

template <class T, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(T::threads, (blocks_of<T, EPILOGUE>()))
    conv_mma(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io) {
    typedef qb_epilogue_of<EPILOGUE> E;
    extern __shared__ __align__(128) char memory[];
    const uint32_t shared = qb_shared_address_of(memory);
    int columns = p.n_pad / T::channels; // of tiles; blocks that share rows run side by side
    int tiles = columns * ((p.rows + T::rows - 1) / T::rows), tile = blockIdx.x;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int warp_row = warp % T::warps_m * (T::mt * 16), warp_channel = warp / T::warps_m * 64;
    int all = p.taps * (p.k_pad * T::element / T::k);
    int begin = (int)((int64_t)all * blockIdx.y / p.splits);
    int steps = (int)((int64_t)all * (blockIdx.y + 1) / p.splits) - begin;
    loader<T> from;
    auto start = [&](int tile) { // what is constant
        const int channel0 = tile % columns * T::channels;
        if (!E::f16) qb_prefetch_constants<T::threads>(p, io, channel0, T::channels);
        from.init(p, io, tile / columns * T::rows, channel0, begin);
        load_first_weights<T>(p, from, steps, shared);
    };
    start(tile);
    qb_wait_for_dependencies();
    load_first_data<T>(p, from, steps, shared);
    while (true) {
        typename E::sum acc[T::mt][8][4] = {};
        if (!E::f16 && p.in_signed)
            main_loop<T, true>(p, from, steps, shared, warp_row, warp_channel, acc);
        else
            main_loop<T, false>(p, from, steps, shared, warp_row, warp_channel, acc);
        const int row = tile / columns * T::rows + warp_row + (lane >> 2);
        const int channel = tile % columns * T::channels + warp_channel;
        tile += gridDim.x;
        constexpr bool AHEAD = is_ahead<T, E>();
        if (AHEAD && tile < tiles) {
            start(tile);
            load_first_data<T>(p, from, steps, shared);
        }
        if (p.splits > 1) {
            store_partial<T>(p, io, row, channel + (lane & 3) * 16, acc);
        } else {
            auto row_of = [&](int i) { return row + i * 8; };
            auto value = [&](int i, int, int j) -> auto & {
                return acc[i / 2][j / 2][i % 2 * 2 + j % 2];
            };
            qb_epilogue<E, T::mt * 2, 1, T::threads>(p, io, channel, row_of, value, memory);
        }
        if (!AHEAD || tile >= tiles) return;
    }
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return taps_fit(p);
}

template <int M, int N, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef tile<M, N, K, GROUPS, qb_epilogue_of<EPILOGUE>::f16 ? 2 : 1> T;
    const auto kernel = conv_mma<T, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    if (!call->io) return qb_reserve_shared(kernel, T::shared_bytes);
    const unsigned tiles = p->n_pad / T::channels * ((p->rows + T::rows - 1) / T::rows);
    const unsigned most = (unsigned)call->multiprocessors * blocks_of<T, EPILOGUE>();
    const bool several = is_ahead<T, qb_epilogue_of<EPILOGUE>>() && p->splits == 1 && tiles > most;
    const dim3 grid(several ? most : tiles, p->splits);
    const int code =
        qb_launch(kernel, grid, T::threads, T::shared_bytes, call->stream, *p, *call->io);
    return code || p->splits == 1 ? code : qb_cuda_conv_reduce(p, call->io, call->stream);
}

#endif

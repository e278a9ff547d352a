// INT8 and f16 convolution as an implicit matrix product on Hopper's wgmma (sm_90a only): rows are
// output pixels, columns output channels, K runs over taps and input channels.
//
//   tile      BM (64, 128, 256) rows x BN (64, 128, 256) channels, BK (64, 128) bytes of K a step
//   threads   GROUPS (2, 3) groups of four warps that multiply, and one of which one thread copies:
//             384 or 512, one block a multiprocessor
//   shared    a ring of (BM + BN) x BK bytes, as many as fit 227 KiB, 12 at most
//   registers the copying group leaves its own to the others: 24, and 240 or 160
//   bound by  device memory and the arithmetic of the epilogue for 1x1; L2 reads of the im2col
//             form, then the matrix unit, for 3x3
//
// Copies are bulk tensor copies: im2col addresses (stride, dilation and padding by the copy engine,
// zero-filled) for the data, a plain 2-D matrix for 1x1 windows and for the weight. Blocks stay and
// walk over tiles, channels fastest. Either the groups SHARE a tile by rows, or each has its own
// tile and a turn at the ring (common/pipeline.cuh): one finishes a tile while others multiply. In
// both cases the copies run ahead into the next tiles.
//
// Launches are programmatically dependent: a kernel starts on multiprocessors that the one before
// it has left, sets up its barriers, and touches memory only when that one is finished.
#ifndef QB_CUDA_CONV_WGMMA_CUH
#define QB_CUDA_CONV_WGMMA_CUH

#include "kernels/cuda/common/pipeline.cuh"
#include "kernels/cuda/conv/tensor_maps.cuh"
#include "kernels/cuda/conv/tile.cuh"

template <int BM, int BN, int BK, int GROUPS, bool SHARE, qb_cuda_epilogue EPILOGUE>
struct qb_wgmma_tile {
    typedef qb_epilogue_of<EPILOGUE> E;
    static constexpr bool residual = E::residual::q8; // comes through the ring
    static constexpr int workers = GROUPS * 128, threads = workers + 128;
    static constexpr int repeats = (SHARE ? BM / GROUPS : BM) / 64; // of 64 rows for each group
    static constexpr int stage_bytes = (BM + BN) * BK;
    static constexpr int staging_bytes = workers * E::staging;
    // 1024 to align the ring, 256 for the barriers behind it
    static constexpr int fitting =
        (QB_CUDA_WGMMA_SHARED - 1024 - 256 - staging_bytes) / stage_bytes;
    static constexpr int stages = fitting > 12 ? 12 : fitting;
    static constexpr int shared_bytes = 1024 + stages * stage_bytes + 256 + staging_bytes;
    typedef qb_pipeline<stages> pipeline;
    static_assert(stages >= 3 && repeats >= 1, "ring");
    static_assert(!residual || (BM * BN <= stage_bytes && stages > GROUPS), "stages for residuals");
};

// A residual of quantized values (map_r) comes after the steps of its tile and takes a stage as
// they do: blocks of BM rows x 64 channels. It stays until the tile is finished, so that steps of
// the same tile must not have to pass it.
template <class T, int BM, int BN, int BK>
QB_DEVICE void qb_produce(const CUtensorMap *map_a, const CUtensorMap *map_b,
                          const CUtensorMap *map_r, const qb_cuda_conv &p, int flat, int tiles,
                          int columns, const typename T::pipeline &pipeline) {
    constexpr int ELEMENTS = T::E::f16 ? BK / 2 : BK; // of a step
    qb_pipeline_state at = pipeline.producer_start();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int row0 = tile / columns * BM, channel0 = tile % columns * BN;
        int w = row0 % p.out_w * p.stride_w - p.pad_w;
        int h = row0 / p.out_w % p.out_h * p.stride_h - p.pad_h;
        int n = row0 / p.out_w / p.out_h, k = 0;
        // only tiles of 64 channels take groups: others have no registers for them
        int first = BN == 64 && p.group > 1 ? QB_CUDA_CONV_FIRST(&p, channel0) : 0;
        int end = first + p.k_pad;
        for (int r = 0; r < p.kernel_h; r++)
            for (int s = 0; s < p.kernel_w; s++)
                for (int c = first; c < end; c += ELEMENTS, k += ELEMENTS) {
                    uint32_t to = pipeline.at(at);
                    pipeline.producer_acquire(at);
                    uint32_t full = pipeline.producer_expect(at, T::stage_bytes);
                    if (flat)
                        qb_tma_load_2d(to, map_a, full, c, row0);
                    else
                        qb_tma_load_im2col(to, map_a, full, c, w, h, n,
                                           (uint16_t)(s * p.dilation_w),
                                           (uint16_t)(r * p.dilation_h));
                    qb_tma_load_2d(to + BM * BK, map_b, full, k, channel0);
                    pipeline.advance(at);
                }
        if (T::residual) {
            uint32_t to = pipeline.at(at);
            pipeline.producer_acquire(at);
            uint32_t full = pipeline.producer_expect(at, BM * BN);
            for (int block = 0; block < BN / 64; block++)
                qb_tma_load_2d(to + block * (BM * 64), map_r, full, channel0 + block * 64, row0);
            pipeline.advance(at);
        }
    }
}

// One tile's sums of rows from row0 on. `pass_on`: the turn of the next group, 0 for none. A
// residual's arrival is seen with the last step.
template <class T, int BM, int BN, int BK, bool SIGNED>
QB_DEVICE void qb_sums(int steps, int row0, const typename T::pipeline &pipeline, uint32_t pass_on,
                       qb_pipeline_state &at, typename T::E::sum (&acc)[T::repeats][BN / 2]) {
    auto arrived = [=, &pipeline, &at](int step) {
        if (T::residual && step == steps - 1) {
            qb_pipeline_state last = at;
            pipeline.advance(last);
            pipeline.consumer_wait(last);
        }
        if (pass_on && step == steps - 1 && threadIdx.x % 32 == 0) qb_barrier_arrive(pass_on);
    };
    auto multiply = [&acc, row0](int step, uint32_t data) {
#pragma unroll
        for (int k = 0; k < BK / 32; k++) {
            uint64_t b = qb_smem_descriptor<BK>(data + BM * BK) + k * 2;
#pragma unroll
            for (int i = 0; i < T::repeats; i++) {
                uint64_t a = qb_smem_descriptor<BK>(data + (row0 + i * 64) * BK) + k * 2;
                qb_multiply<BN, SIGNED>(acc[i], a, b, step > 0 || k > 0);
            }
        }
    };
    qb_consume(pipeline, at, steps, threadIdx.x % QB_WARP_GROUP == 0, arrived, multiply);
}

template <int BM, int BN, int BK, int GROUPS, bool SHARE, qb_cuda_epilogue EPILOGUE>
QB_DEVICE void
qb_work(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int tiles, int columns,
        const typename qb_wgmma_tile<BM, BN, BK, GROUPS, SHARE, EPILOGUE>::pipeline &pipeline,
        const qb_ordered_sequence<GROUPS> &order, char *staging) {
    typedef qb_wgmma_tile<BM, BN, BK, GROUPS, SHARE, EPILOGUE> T;
    int group = qb_warp_group_of(QB_WARP_GROUP), lane = threadIdx.x % 32;
    int steps = p.kernel_h * p.kernel_w * (p.k_pad / (T::E::f16 ? BK / 2 : BK));
    int places = steps + T::residual;                  // stages of a tile
    int first = SHARE ? group * (T::repeats * 64) : 0; // row in the tile
    int tile = blockIdx.x + (SHARE ? 0 : group * gridDim.x);
    typename T::E::sum acc[T::repeats][BN / 2];
    // constants stay in registers where there is room for them beside the sums
    constexpr int CAPACITY = GROUPS == 3 ? 96 : T::residual ? 160 : 192;
    constexpr bool HELD = T::E::holds && T::repeats * BN / 2 + BN / 2 <= CAPACITY;
    qb_constants<HELD ? BN / 64 : 1> held;
    int held_channel = -1; // where those begin; the grid is such that it seldom changes
    qb_pipeline_state at = pipeline.consumer_start();
    uint32_t phase = group == 0, pass_on = SHARE ? 0 : order.next(group);
    if (!SHARE) pipeline.advance(at, group * places);
    for (; tile < tiles; tile += gridDim.x * (SHARE ? 1 : GROUPS), phase ^= 1) {
        int channel0 = tile % columns * BN;
        if (HELD && channel0 != held_channel) {
            if constexpr (HELD) qb_load_constants<typename T::E>(p, io, channel0, held);
            held_channel = channel0;
        }
        if (!SHARE) order.wait(group, phase);
        if (!T::E::f16 && p.in_signed)
            qb_sums<T, BM, BN, BK, true>(steps, first, pipeline, pass_on, at, acc);
        else
            qb_sums<T, BM, BN, BK, false>(steps, first, pipeline, pass_on, at, acc);
        const qb_pipeline_state residual = at; // its stage
        if (T::residual) pipeline.advance(at);
        if (!SHARE) pipeline.advance(at, (GROUPS - 1) * places);
        int row0 = tile / columns * BM + first + threadIdx.x / 32 % 4 * 16 + lane / 4;
        auto row_of = [&](int i) { return row0 + i / 2 * 64 + i % 2 * 8; };
        auto value = [&](int i, int block, int j) -> auto & {
            return acc[i / 2][(block * 8 + j / 2) * 4 + i % 2 * 2 + j % 2];
        };
        uint32_t from = pipeline.at(residual) + lane % 4 * 16 +
                        (first + threadIdx.x / 32 % 4 * 16 + lane / 4) * 64;
        auto read = [&](int i, int block) {
            return qb_load_shared16(from + block * (BM * 64) + (i / 2 * 64 + i % 2 * 8) * 64);
        };
        qb_epilogue<typename T::E, T::repeats * 2, BN / 64, T::workers, HELD>(
            p, io, channel0, &held, row_of, value, read, staging);
        if constexpr (T::residual) {
            qb_barrier_of_warps(1 + group, QB_WARP_GROUP); // all of the group have read their part
            if (threadIdx.x % QB_WARP_GROUP == 0) pipeline.consumer_release(residual.index);
        }
    }
}

template <int BM, int BN, int BK, int GROUPS, bool SHARE, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    qb_conv_wgmma(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_r, const __grid_constant__ qb_cuda_conv p,
                  const __grid_constant__ qb_cuda_conv_io io, int flat) {
    typedef qb_wgmma_tile<BM, BN, BK, GROUPS, SHARE, EPILOGUE> T;
    extern __shared__ char memory[];
    uint32_t base = qb_shared_address(memory), ring = (base + 1023) & ~1023u;
    uint32_t barriers = ring + T::stages * T::stage_bytes;
    const typename T::pipeline pipeline = {ring, barriers, barriers + T::stages * 8, T::stage_bytes,
                                           T::stages};
    const qb_ordered_sequence<GROUPS> order = {barriers + T::stages * 16};
    int columns = p.n_pad / BN, tiles = (p.rows + BM - 1) / BM * columns;
    if (threadIdx.x == 0) {
        pipeline.init(SHARE ? GROUPS : 1);
        order.init();
        qb_fence_barrier_init();
    }
    qb_begin_pipeline();
    if (threadIdx.x >= T::workers) {
        qb_warp_group_reg_dealloc<24>();
        if (threadIdx.x == T::workers)
            qb_produce<T, BM, BN, BK>(&map_a, &map_b, &map_r, p, flat, tiles, columns, pipeline);
    } else {
        qb_warp_group_reg_alloc<GROUPS == 2 ? 240 : 160>();
        if (!T::E::f16)
            qb_prefetch_constants<T::workers>(p, io, (int)blockIdx.x % columns * BN, BN);
        qb_work<BM, BN, BK, GROUPS, SHARE, EPILOGUE>(p, io, tiles, columns, pipeline, order,
                                                     memory + (barriers + 256 - base));
    }
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return qb_im2col_fits(p);
}

template <int BM, int BN, int BK, int GROUPS, bool SHARE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    typedef qb_wgmma_tile<BM, BN, BK, GROUPS, SHARE, EPILOGUE> T;
    const auto kernel = qb_conv_wgmma<BM, BN, BK, GROUPS, SHARE, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    const qb_cuda_conv_io *io = call->io;
    if (!io) return qb_reserve_shared(kernel, T::shared_bytes);
    CUtensorMap a, b, r = {};
    int taps = p->kernel_h * p->kernel_w, flat = qb_is_flat(p);
    constexpr int element = T::E::f16 ? 2 : 1;
    const char *data = (const char *)io->in + (size_t)p->in_offset * element;
    int code =
        flat ? qb_map_matrix(call->maps, &a, data, p->in_c, p->rows, p->in_total, element, BK, BM)
             : qb_map_im2col(call->maps, &a, p, data, element, BK, BM);
    int64_t k = (int64_t)taps * p->k_pad;
    if (code == CUDA_SUCCESS)
        code = qb_map_matrix(call->maps, &b, io->packed, k, p->n_pad, k, element, BK, BN);
    if (code == CUDA_SUCCESS && T::residual)
        code = qb_map_matrix(call->maps, &r, (const char *)io->residual + p->res_offset, p->out_c,
                             p->rows, p->res_total, 1, 64, BM, false);
    if (code != CUDA_SUCCESS) return (int)cudaErrorInvalidValue;
    int64_t tiles = (int64_t)((p->rows + BM - 1) / BM) * (p->n_pad / BN);
    // a block that steps by whole rows of tiles keeps its channels, and with them its constants
    int columns = p->n_pad / BN, sms = call->multiprocessors, whole = sms / columns * columns;
    int blocks = columns > 1 && whole * 16 >= sms * 15 ? whole : sms;
    return qb_launch(kernel, (unsigned)(tiles < blocks ? tiles : blocks), T::threads,
                     T::shared_bytes, call->stream, a, b, r, *p, *io, flat);
}

#endif

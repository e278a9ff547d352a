// INT8 convolution of windows of one pixel on Hopper's wgmma (sm_90a only) where K is short: the
// weight of a block's channels stays in shared memory, and groups of warps go their own ways.
//
//   tile      64 rows x BN (64, 128) channels for a group of four warps, all of K
//   threads   GROUPS (3, 4) groups, and one of which a thread of each warp copies for one of them:
//             512 or 640, one block a multiprocessor
//   shared    the weight, BN x K bytes, and a ring for each group, whose stages take 64 x BK bytes:
//             of a step of K, or the residual and then the result of a tile
//   bound by  device memory, and the arithmetic of the epilogue
//
// A group asks for its own copies as soon as a place in its ring is free, so that nothing but
// memory ties one group to another: while one multiplies, others finish their tiles. Results go out
// by the copy engine, in whole rows of the tile. Launches are programmatically dependent, as those
// of conv_wgmma.cuh.
#ifndef QB_CUDA_CONV_WGMMA_WEIGHT_STATIONARY_CUH
#define QB_CUDA_CONV_WGMMA_WEIGHT_STATIONARY_CUH

#include "kernels/cuda/common/pipeline.cuh"
#include "kernels/cuda/conv/tensor_maps.cuh"
#include "kernels/cuda/conv/tile.cuh"

template <int BN, int BK, int GROUPS, qb_cuda_epilogue EPILOGUE> struct qb_stationary_tile {
    typedef qb_epilogue_of<EPILOGUE> E;
    static constexpr bool residual = E::residual::q8;
    static constexpr int step_bytes = 64 * BK, result_bytes = 64 * BN;
    static constexpr int stage_bytes = step_bytes > result_bytes ? step_bytes : result_bytes;
    static constexpr int workers = GROUPS * 128, threads = workers + 128;
    static constexpr int working_registers = GROUPS == 4 ? 112 : 160, copying_registers = 32;
    // constants stay in registers where there is room for them beside the sums
    static constexpr bool held = BN <= (GROUPS == 4 ? 64 : 128);
};

// Where a group works: its tiles, and its ring.
struct qb_stationary_group {
    int tile, stride, tiles, channel0; // first tile, and how far apart they are
    int steps;
    bool flat;          // a row of the data for each of the result
    uint32_t weight;    // shared memory: one operand
    qb_pipeline<> ring; // steps of the other, and results
};

// One thread's work for a group: brings the steps of each tile and what its result is added to, and
// sends off results. A place is free when all four warps are done with it; one with a result then
// has to be read first.
template <int BN, int BK, int GROUPS, qb_cuda_epilogue EPILOGUE>
QB_DEVICE void qb_stationary_copy(const CUtensorMap *map_a, const CUtensorMap *map_r,
                                  const CUtensorMap *map_o, const qb_cuda_conv &p,
                                  const qb_stationary_group &g) {
    typedef qb_stationary_tile<BN, BK, GROUPS, EPILOGUE> T;
    qb_pipeline_state at = g.ring.producer_start();
    int taken = 0;                    // stages in use
    int done = g.tile, done_step = 0; // what the oldest of them holds
    auto take_back = [&]() {
        g.ring.producer_acquire(at);
        if (done_step == g.steps) {
            qb_tma_store_2d(map_o, g.ring.at(at), g.channel0, done * 64);
            qb_tma_stores_read();
        }
        if (++done_step > g.steps) done_step = 0, done += g.stride;
    };
    for (int tile = g.tile; tile < g.tiles; tile += g.stride) {
        int line = tile * 64 / p.out_w, w = (tile * 64 - line * p.out_w) * p.stride_w - p.pad_w;
        int h = line % p.out_h * p.stride_h - p.pad_h, n = line / p.out_h;
        for (int step = 0; step <= g.steps; step++) {
            if (taken == g.ring.count)
                take_back();
            else
                taken++;
            uint32_t to = g.ring.at(at);
            if (step < g.steps) {
                uint32_t full = g.ring.producer_expect(at, T::step_bytes);
                if (g.flat)
                    qb_tma_load_2d(to, map_a, full, step * BK, tile * 64);
                else
                    qb_tma_load_im2col(to, map_a, full, step * BK, w, h, n, 0, 0);
            } else if (T::residual) {
                uint32_t full = g.ring.producer_expect(at, T::result_bytes);
                qb_tma_load_2d(to, map_r, full, g.channel0, tile * 64);
            } else {
                g.ring.producer_commit(at);
            }
            g.ring.advance(at);
        }
    }
    if (taken < g.ring.count) at = {0, 0}; // the ring was never full
    for (; taken > 0; taken--, g.ring.advance(at)) take_back();
    qb_tma_stores_done();
}

// One tile's sums.
template <int BN, int BK, bool SIGNED>
QB_DEVICE void qb_stationary_sums(const qb_stationary_group &g, qb_pipeline_state &at,
                                  int (&acc)[BN / 2]) {
    auto multiply = [&acc, &g](int step, uint32_t data) {
        uint64_t a = qb_smem_descriptor<BK>(data);
        uint64_t b = qb_smem_descriptor<BK>(g.weight + step * (BN * BK));
#pragma unroll
        for (int k = 0; k < BK / 32; k++)
            qb_wgmma<BN, SIGNED>(acc, a + k * 2, b + k * 2, step > 0 || k > 0);
    };
    qb_consume(
        g.ring, at, g.steps, threadIdx.x % 32 == 0, [](int) {}, multiply);
}

template <int BN, int BK, int GROUPS, qb_cuda_epilogue EPILOGUE>
QB_DEVICE void qb_stationary_work(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                                  const qb_stationary_group &g, uint32_t weight_ready) {
    typedef qb_stationary_tile<BN, BK, GROUPS, EPILOGUE> T;
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4; // in the tile
    qb_constants<T::held ? BN / 64 : 1> held;
    if constexpr (T::held) qb_load_constants<typename T::E>(p, io, g.channel0, held);
    qb_barrier_wait(weight_ready, 0);
    qb_pipeline_state at = g.ring.consumer_start();
    int acc[BN / 2];
    for (int tile = g.tile; tile < g.tiles; tile += g.stride) {
        if (p.in_signed)
            qb_stationary_sums<BN, BK, true>(g, at, acc);
        else
            qb_stationary_sums<BN, BK, false>(g, at, acc);
        auto value = [&](int i, int block, int j) {
            return acc[(block * 8 + j / 2) * 4 + i * 2 + j % 2];
        };
        // the place of the result: rows of BN bytes, swizzled over 128 if they are as long
        uint32_t result = g.ring.at(at) + row * BN;
        g.ring.consumer_wait(at);
        auto slot_of = [&](int i, int block) {
            return result + i * (8 * BN) +
                   ((block * 4 + lane % 4) ^ (BN == 128 ? lane / 4 : 0)) * 16;
        };
        auto read = [&](int i, int block) { return qb_load_shared16(slot_of(i, block)); };
        auto store = [&](int i, int block, uint4 v) { qb_store_shared16(slot_of(i, block), v); };
        qb_epilogue_q8<typename T::E, 2, BN / 64, T::held>(p, io, g.channel0, &held, qb_in_shared(),
                                                           value, read, store);
        qb_fence_shared();
        __syncwarp();
        if (lane == 0) g.ring.consumer_release(at.index);
        g.ring.advance(at);
    }
}

template <int BN, int BK, int GROUPS, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(GROUPS * 128 + 128, 1)
    qb_conv_stationary(const __grid_constant__ CUtensorMap map_a,
                       const __grid_constant__ CUtensorMap map_b,
                       const __grid_constant__ CUtensorMap map_r,
                       const __grid_constant__ CUtensorMap map_o,
                       const __grid_constant__ qb_cuda_conv p,
                       const __grid_constant__ qb_cuda_conv_io io, int stages, int flat) {
    typedef qb_stationary_tile<BN, BK, GROUPS, EPILOGUE> T;
    extern __shared__ char memory[];
    int steps = p.k_pad / BK, columns = p.n_pad / BN, channel0 = blockIdx.x % columns * BN;
    uint32_t weight = (qb_shared_address(memory) + 1023) & ~1023u;
    uint32_t rings = weight + steps * (BN * BK), ring_bytes = stages * T::stage_bytes;
    uint32_t full = rings + GROUPS * ring_bytes, empty = full + GROUPS * stages * 8;
    uint32_t weight_ready = empty + GROUPS * stages * 8;
    if (threadIdx.x == 0) {
        qb_pipeline<>{rings, full, empty, T::stage_bytes, GROUPS * stages}.init(4);
        qb_barrier_init(weight_ready, 1);
        qb_fence_barrier_init();
        qb_barrier_expect(weight_ready, steps * (BN * BK));
        for (int i = 0; i < steps; i++)
            qb_tma_load_2d(weight + i * (BN * BK), &map_b, weight_ready, i * BK, channel0);
    }
    qb_begin_pipeline();
    bool copies = threadIdx.x >= T::workers;
    int group = copies ? threadIdx.x % QB_WARP_GROUP / 32 : threadIdx.x / QB_WARP_GROUP;
    int blocks = gridDim.x / columns;
    // groups of a block are far apart, so that what is left at the end is shared among the blocks
    qb_stationary_group g = {(int)blockIdx.x / columns + group * blocks,
                             blocks * GROUPS,
                             (p.rows + 63) / 64,
                             channel0,
                             steps,
                             flat != 0,
                             weight,
                             {rings + group * ring_bytes, full + group * stages * 8,
                              empty + group * stages * 8, T::stage_bytes, stages}};
    if (copies) {
        qb_warp_group_reg_dealloc<T::copying_registers>();
        if (group < GROUPS && threadIdx.x % 32 == 0)
            qb_stationary_copy<BN, BK, GROUPS, EPILOGUE>(&map_a, &map_r, &map_o, p, g);
    } else {
        qb_warp_group_reg_alloc<T::working_registers>();
        qb_stationary_work<BN, BK, GROUPS, EPILOGUE>(p, io, g, weight_ready);
    }
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    return p->group == 1 && p->kernel_h * p->kernel_w == 1 && qb_im2col_fits(p) &&
           qb_cuda_stationary_stages(p, N, K, GROUPS) >= QB_CUDA_STATIONARY_LEAST;
}

template <int M, int BN, int BK, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    static_assert(M == 64 && !COOPERATIVE, "its row in tiles.def");
    typedef qb_stationary_tile<BN, BK, GROUPS, EPILOGUE> T;
    const auto kernel = qb_conv_stationary<BN, BK, GROUPS, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    const qb_cuda_conv_io *io = call->io;
    if (!io) return qb_reserve_shared(kernel, QB_CUDA_WGMMA_SHARED);
    CUtensorMap a, b, r = {}, o;
    const char *data = (const char *)io->in + p->in_offset;
    int flat = qb_is_flat(p);
    int code = flat ? qb_map_matrix(call->maps, &a, data, p->in_c, p->rows, p->in_total, 1, BK, 64)
                    : qb_map_im2col(call->maps, &a, p, data, 1, BK, 64);
    if (code == CUDA_SUCCESS)
        code = qb_map_matrix(call->maps, &b, io->packed, p->k_pad, p->n_pad, p->k_pad, 1, BK, BN);
    if (code == CUDA_SUCCESS && T::residual)
        code = qb_map_matrix(call->maps, &r, (const char *)io->residual + p->res_offset, p->out_c,
                             p->rows, p->res_total, 1, BN, 64, BN == 128);
    if (code == CUDA_SUCCESS)
        code = qb_map_matrix(call->maps, &o, (const char *)io->out + p->out_offset, p->out_c,
                             p->rows, p->out_total, 1, BN, 64, BN == 128);
    if (code != CUDA_SUCCESS) return (int)cudaErrorInvalidValue;
    int stages = qb_cuda_stationary_stages(p, BN, BK, GROUPS);
    int columns = p->n_pad / BN, tiles = (p->rows + 63) / 64;
    int blocks = call->multiprocessors / columns; // of a column
    if (blocks < 1) blocks = 1;
    if (blocks > tiles) blocks = tiles;
    const size_t shared = QB_CUDA_STATIONARY_FIXED(p, BN) + stages * GROUPS * (T::stage_bytes + 16);
    return qb_launch(kernel, (unsigned)(blocks * columns), T::threads, shared, call->stream, a, b,
                     r, o, *p, *io, stages, flat);
}

#endif

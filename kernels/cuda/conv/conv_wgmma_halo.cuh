// INT8 convolution of windows of several rows on Hopper's wgmma (sm_90a only), a stride apart: a
// pixel of the data is brought once for each column of the window, not once for each of its taps.
//
//   tile      `rows` lines x `columns` pixels of one image, at most 64 CHUNKS, x BN (64, 128)
//             channels; a multiplication takes 64 pixels in the order in which they lie
//   threads   two groups of four warps, which take turns at tiles, and one of which one thread
//             copies: 384, one block a multiprocessor
//   shared    a ring of boxes, (rows + kernel_h - 1) x columns pixels x 64 bytes of channels, and
//             the weight of BN channels for as long as the block is there
//   bound by  L2 reads: kernel_w (rows + kernel_h - 1) / rows of the data; the matrix unit
//
// A box lies a column of the window to the right of the one before it; for the rows of the window
// an operand begins some lines further down in it. Columns come in eights, so that each line begins
// where swizzling does. What a box has outside of the image is zero. Pixels that fill up the last
// multiplication, or stand beside the image, are computed of what lies there, and not written.
// Launches are programmatically dependent, as those of conv_wgmma.cuh.
#ifndef QB_CUDA_CONV_WGMMA_HALO_CUH
#define QB_CUDA_CONV_WGMMA_HALO_CUH

#include "kernels/cuda/common/pipeline.cuh"
#include "kernels/cuda/conv/tensor_maps.cuh"
#include "kernels/cuda/conv/tile.cuh"

template <int BN, int CHUNKS, qb_cuda_epilogue EPILOGUE> struct qb_halo_tile {
    static constexpr int workers = 256, threads = workers + 128;
    typedef qb_epilogue_of<EPILOGUE> E;
    static constexpr bool residual = E::residual::q8;
    static constexpr int weight_bytes = BN * 64; // of a tap, for 64 input channels
    static constexpr int parts = CHUNKS > 2 ? (residual ? 4 : 2) : 1;
    static constexpr int rows = CHUNKS * 2 / parts; // of a thread's, in each part
    // constants stay in registers where there is room for them beside the sums
    static constexpr bool held = E::holds && !residual && !E::by_class && BN == 64;
};

// What a block works on.
struct qb_halo_work {
    int tile, stride, tiles, channel0; // first tile, and how far apart they are
    int across, down;                  // tiles of an image
    int steps, slices;                 // boxes of a tile; of 64 channels each
    qb_pipeline<0, true> boxes;        // a ring in shared memory
    uint32_t weight;                   // taps there
    qb_ordered_sequence<2> order;      // of the groups
};

// Where a tile begins in the result.
struct qb_halo_corner {
    int n, y, x;
    __device__ __forceinline__ qb_halo_corner(const qb_cuda_halo &w, const qb_halo_work &at,
                                              int tile) {
        int line = tile / at.across;
        x = (tile - line * at.across) * w.columns;
        n = line / at.down;
        y = (line - n * at.down) * w.rows;
    }
};

// The row of the result that pixel `k` of a tile is; p.rows where there is none.
QB_DEVICE int qb_halo_row(const qb_cuda_conv &p, const qb_cuda_halo &w,
                          const qb_halo_corner &corner, int k) {
    int line = k / w.columns, y = corner.y + line, x = corner.x + k - line * w.columns;
    bool exists = line < w.rows && y < p.out_h && x < p.out_w;
    return exists ? (corner.n * p.out_h + y) * p.out_w + x : p.rows;
}

// One thread's work.
QB_DEVICE void qb_halo_copy(const CUtensorMap *map, const qb_cuda_conv &p, const qb_cuda_halo &w,
                            const qb_halo_work &at) {
    qb_pipeline_state place = at.boxes.producer_start();
    for (int tile = at.tile; tile < at.tiles; tile += at.stride) {
        qb_halo_corner corner(w, at, tile);
        for (int slice = 0; slice < at.slices; slice++)
            for (int s = 0; s < p.kernel_w; s++) {
                at.boxes.producer_acquire(place);
                uint32_t full = at.boxes.producer_expect(place, w.stage_bytes);
                qb_tma_load_4d(at.boxes.at(place), map, full, slice * 64, corner.x + s - p.pad_w,
                               corner.y - p.pad_h, corner.n);
                at.boxes.advance(place);
            }
    }
}

// One tile's sums; see qb_sums.
template <int BN, int CHUNKS, bool SIGNED>
QB_DEVICE void qb_halo_sums(const qb_cuda_conv &p, const qb_cuda_halo &w, const qb_halo_work &at,
                            uint32_t pass_on, qb_pipeline_state &place,
                            int (&acc)[CHUNKS][BN / 2]) {
    bool first = threadIdx.x % 32 == 0;
    int s = 0, slice = 0;
    auto arrived = [=, &at](int step) {
        if (first && step == at.steps - 1) qb_barrier_arrive(pass_on);
    };
    auto multiply = [&acc, &p, &w, &at, &s, &slice](int step, uint32_t data) {
        uint32_t tap = at.weight + (s * at.slices + slice) * (BN * 64);
        for (int r = 0; r < p.kernel_h; r++) {
            uint64_t a = qb_smem_descriptor<64>(data + r * w.columns * 64);
            uint64_t b = qb_smem_descriptor<64>(tap + r * p.kernel_w * at.slices * (BN * 64));
#pragma unroll
            for (int k = 0; k < 2; k++)
#pragma unroll
                for (int i = 0; i < CHUNKS; i++)
                    qb_wgmma<BN, SIGNED>(acc[i], a + i * (64 * 64 / 16) + k * 2, b + k * 2,
                                         step > 0 || r > 0 || k > 0);
        }
        if (++s == p.kernel_w) s = 0, slice++;
    };
    qb_consume(at.boxes, place, at.steps, first, arrived, multiply);
}

template <int BN, int CHUNKS, qb_cuda_epilogue EPILOGUE>
QB_DEVICE void qb_halo_multiply(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                                const qb_cuda_halo &w, const qb_halo_work &at,
                                uint32_t weight_ready) {
    typedef qb_halo_tile<BN, CHUNKS, EPILOGUE> T;
    int group = qb_warp_group_of(QB_WARP_GROUP),
        pixel = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    int acc[CHUNKS][BN / 2];
    qb_constants<T::held ? BN / 64 : 1> held;
    if constexpr (T::held) qb_load_constants<typename T::E>(p, io, at.channel0, held);
    qb_barrier_wait(weight_ready, 0);
    qb_pipeline_state place = at.boxes.consumer_start();
    uint32_t phase = group == 0, pass_on = at.order.next(group);
    at.boxes.advance(place, group * at.steps);
    for (int tile = at.tile + group * at.stride; tile < at.tiles;
         tile += 2 * at.stride, phase ^= 1) {
        qb_halo_corner corner(w, at, tile);
        auto pixel_of = [&](int i) { return pixel + i / 2 * 64 + i % 2 * 8; };
        uint4 residual[T::residual ? CHUNKS * 2 : 1][BN / 64];
        auto fetch = [&](int part) { // is there when the sums are
#pragma unroll
            for (int i = part * T::rows; T::residual && i < (part + 1) * T::rows; i++) {
                int row = qb_halo_row(p, w, corner, pixel_of(i));
#pragma unroll
                for (int block = 0; block < BN / 64; block++) {
                    int c = at.channel0 + block * 64 + threadIdx.x % 4 * 16;
                    if (row < p.rows && c < p.out_c)
                        residual[i][block] =
                            qb_load16((const char *)io.residual +
                                      ((uint32_t)row * p.res_total + p.res_offset + c));
                }
            }
        };
        fetch(0);
        at.order.wait(group, phase);
        if (p.in_signed)
            qb_halo_sums<BN, CHUNKS, true>(p, w, at, pass_on, place, acc);
        else
            qb_halo_sums<BN, CHUNKS, false>(p, w, at, pass_on, place, acc);
        at.boxes.advance(place, at.steps);
        // some rows at a time: registers are scarce
#pragma unroll
        for (int part = 0; part < T::parts; part++) {
            int row[T::rows];
            if (part + 1 < T::parts) fetch(part + 1);
#pragma unroll
            for (int i = 0; i < T::rows; i++)
                row[i] = qb_halo_row(p, w, corner, pixel_of(part * T::rows + i));
            auto row_of = [&](int i) { return row[i]; };
            auto value = [&](int i, int block, int j) {
                int k = part * T::rows + i;
                return acc[k / 2][(block * 8 + j / 2) * 4 + k % 2 * 2 + j % 2];
            };
            auto read = [&](int i, int block) { return residual[part * T::rows + i][block]; };
            qb_epilogue<typename T::E, T::rows, BN / 64, T::workers, T::held>(
                p, io, at.channel0, &held, row_of, value, read, NULL);
        }
    }
}

template <int BN, int CHUNKS, qb_cuda_epilogue EPILOGUE>
static __global__ void __launch_bounds__(384, 1)
    qb_conv_halo(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b, const __grid_constant__ qb_cuda_conv p,
                 const __grid_constant__ qb_cuda_conv_io io,
                 const __grid_constant__ qb_cuda_halo w) {
    typedef qb_halo_tile<BN, CHUNKS, EPILOGUE> T;
    extern __shared__ char memory[];
    int columns = p.n_pad / BN, taps = p.kernel_h * p.kernel_w;
    qb_halo_work at;
    at.across = (p.out_w + w.columns - 1) / w.columns;
    at.down = (p.out_h + w.rows - 1) / w.rows;
    at.tile = blockIdx.x / columns;
    at.stride = gridDim.x / columns;
    at.tiles = p.batch * at.down * at.across;
    at.channel0 = blockIdx.x % columns * BN;
    at.slices = p.k_pad / 64;
    at.steps = at.slices * p.kernel_w;
    uint32_t ring = (qb_shared_address(memory) + 1023) & ~1023u;
    at.weight = ring + w.stages * w.stage_bytes;
    uint32_t full = at.weight + taps * at.slices * T::weight_bytes, empty = full + w.stages * 8;
    at.boxes = {ring, full, empty, w.stage_bytes, w.stages};
    at.order = {empty + w.stages * 8};
    uint32_t weight_ready = at.order.barriers + 16;
    if (threadIdx.x == 0) {
        at.boxes.init(4);
        at.order.init();
        qb_barrier_init(weight_ready, 1);
        qb_fence_barrier_init();
        qb_barrier_expect(weight_ready, taps * at.slices * T::weight_bytes);
        for (int i = 0; i < taps * at.slices; i++)
            qb_tma_load_2d(at.weight + i * T::weight_bytes, &map_b, weight_ready, i * 64,
                           at.channel0);
    }
    qb_begin_pipeline();
    if (threadIdx.x >= T::workers) {
        qb_warp_group_reg_dealloc<24>();
        if (threadIdx.x == T::workers) qb_halo_copy(&map_a, p, w, at);
    } else {
        qb_warp_group_reg_alloc<240>();
        qb_halo_multiply<BN, CHUNKS, EPILOGUE>(p, io, w, at, weight_ready);
    }
}

template <int M, int N, int K, int GROUPS> static bool qb_tile_fits(const qb_cuda_conv *p) {
    qb_cuda_halo halo;
    return qb_cuda_halo_of(p, N, M, &halo);
}

template <int M, int BN, int K, int GROUPS, bool COOPERATIVE, qb_cuda_epilogue EPILOGUE>
static int qb_launch_tile(const qb_cuda_conv_call *call) {
    constexpr int CHUNKS = M / 64;
    static_assert(K == 64 && GROUPS == 2 && !COOPERATIVE, "its row in tiles.def");
    typedef qb_halo_tile<BN, CHUNKS, EPILOGUE> T;
    const auto kernel = qb_conv_halo<BN, CHUNKS, EPILOGUE>;
    const qb_cuda_conv *p = call->conv;
    const qb_cuda_conv_io *io = call->io;
    if (!io) return qb_reserve_shared(kernel, QB_CUDA_WGMMA_SHARED);
    CUtensorMap a, b;
    qb_cuda_halo w;
    if (!qb_cuda_halo_of(p, BN, CHUNKS * 64, &w)) return (int)cudaErrorInvalidValue;
    int64_t k = (int64_t)p->kernel_h * p->kernel_w * p->k_pad;
    int code = qb_map_tiles(call->maps, &a, p, (const char *)io->in + p->in_offset, w.columns,
                            w.rows + p->kernel_h - 1);
    if (code == CUDA_SUCCESS)
        code = qb_map_matrix(call->maps, &b, io->packed, k, p->n_pad, k, 1, 64, BN);
    if (code != CUDA_SUCCESS) return (int)cudaErrorInvalidValue;
    int columns = p->n_pad / BN, blocks = call->multiprocessors / columns; // of a column
    int64_t tiles = (int64_t)p->batch * ((p->out_w + w.columns - 1) / w.columns) *
                    ((p->out_h + w.rows - 1) / w.rows);
    if (blocks < 1) blocks = 1;
    if (blocks > tiles) blocks = (int)tiles;
    return qb_launch(kernel, (unsigned)(blocks * columns), T::threads, (size_t)w.shared_bytes,
                     call->stream, a, b, *p, *io, w);
}

#endif

// LSTM and GRU of the usual cells in f16, weight-stationary: R stays in registers for all steps. A
// warp has eight units, and a lane the sums of all gates of one of them, for two items of a tile of
// eight: a step exchanges h and nothing else. A team of several blocks is a cluster (compute
// capability 9.0), whose blocks write h into each other's shared memory.
#include <limits.h>

#include "kernels/cuda/common/copies.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/recurrent/recurrent.cuh"

#define WARP 32
#define UNITS 8 // of a warp
#define TILE QB_CUDA_RECURRENT_ITEMS_8
#define LANE_ITEMS 2 // of a tile
#define GATES 4
#define NOWHERE INT_MIN
#define AHEAD 2 // steps whose sums of X W are under way

typedef qb_cuda_recurrent params;
typedef qb_cuda_recurrent_io buffers;

// ---- the cluster: bytes sent to a block count down what its barrier waits for

// 16 bytes of shared memory go to the same place of a block of the cluster; its barrier counts
// them.
QB_DEVICE void send(const void *from, const uint64_t *barrier, int block) {
#if __CUDA_ARCH__ >= 900
    const uint4 v = *(const uint4 *)from;
    uint32_t to, there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"(qb_shared_address_of(from)), "r"(block));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(qb_shared_address_of(barrier)), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, "
                 "%4}, [%5];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(there)
                 : "memory");
#endif
}

QB_DEVICE void expect(const uint64_t *barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     qb_shared_address_of(barrier)),
                 "r"(bytes)
                 : "memory");
#endif
}

// The bytes of a phase have come from all blocks.
QB_DEVICE void await(const uint64_t *barrier, int parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;}" ::"r"(qb_shared_address_of(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

// Barriers that one arrival completes, then all blocks are there.
QB_DEVICE void begin_cluster(uint64_t *barriers, int n) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0)
        for (int i = 0; i < n; i++)
            asm volatile(
                "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(qb_shared_address_of(&barriers[i])));
    asm volatile("fence.mbarrier_init.release.cluster;\n"
                 "barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

// No block leaves while another one may write into it.
QB_DEVICE void end_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

// ---- a lane

// An item of a lane's unit. What a lane has too many is computed as the others are, since branches
// cost more, and is not stored.
struct item_state {
    int length; // 0: no such item
    float h, c;
    int x; // the sums of X W of the step that is loaded next, those of the last step at the end
    int y; // where h of the next step goes, or NOWHERE
};

template <int TILES> struct lane_state {
    int unit; // of all units
    item_state item[TILES][LANE_ITEMS];
};

template <int TILES> struct sums { float4 gates[TILES][LANE_ITEMS]; };

QB_DEVICE int item_at(int tile, int i) { return tile * TILE + threadIdx.x % 4 * LANE_ITEMS + i; }

// The sums of X W of a step, in the order of steps.
template <int TILES>
QB_DEVICE void load_x(const float *x, int x_step, int step, lane_state<TILES> &own,
                      sums<TILES> &to) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            item_state &item = own.item[t][i];
            to.gates[t][i] = *(const float4 *)(x + item.x);
            item.x += step + 1 < item.length ? x_step : 0;
        }
}

// Gates i, o, f, c.
QB_DEVICE void lstm(const float4 &gate, float &h, float &c) {
    c = fast_sigmoid(gate.z) * c + fast_sigmoid(gate.x) * fast_tanh(gate.w);
    h = fast_sigmoid(gate.y) * fast_tanh(c);
}

// A step of a lane: `before` and `after` are h as products read it.
template <qb_cell_kind CELL, int CHUNKS, int TILES>
QB_DEVICE void step_of(const uint4 (&r)[2][2 * CHUNKS], float bias, const sums<TILES> &x, int step,
                       const __half *before, __half *after, int pitch, lane_state<TILES> &own) {
    constexpr int CHAINS = CHUNKS == 8 ? 4 : 1; // of products that wait for each other
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        // Rows of the first product: gates 0 and 1 of eight units; of the second: 2 and 3.
        float sum[CHAINS][2][4] = {};
        const uint4 *h = (const uint4 *)(before + (t * TILE + lane / 4) * pitch + lane % 4 * 8);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            const uint4 v = h[chunk * (QB_CUDA_RECURRENT_DEPTH / 8)];
#pragma unroll
            for (int k = 0; k < 2; k++)
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    const uint4 w = r[m][chunk * 2 + k];
                    const uint32_t left[4] = {w.x, w.y, w.z, w.w};
                    qb_mma<false>(sum[chunk % CHAINS][m], left, k ? v.z : v.x, k ? v.w : v.y);
                }
        }
#pragma unroll
        for (int chain = 1; chain < CHAINS; chain++)
#pragma unroll
            for (int k = 0; k < 8; k++) sum[0][k / 4][k % 4] += sum[chain][k / 4][k % 4];
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            item_state &item = own.item[t][i];
            const float4 gate = x.gates[t][i];
            const float4 product = {sum[0][0][i], sum[0][0][2 + i], sum[0][1][i], sum[0][1][2 + i]};
            float next = item.h, cell = item.c;
            if (CELL == QB_CELL_LSTM) {
                lstm({gate.x + product.x, gate.y + product.y, gate.z + product.z,
                      gate.w + product.w},
                     next, cell);
            } else {
                const float update = fast_sigmoid(gate.x + product.x);
                const float reset = fast_sigmoid(gate.y + product.y);
                gru(update, fast_tanh(gate.z + reset * (product.z + bias)), next);
            }
            const bool active = step < item.length; // else the states stay
            item.h = active ? next : item.h;
            item.c = active ? cell : item.c;
            after[item_at(t, i) * pitch + own.unit] = __float2half_rn(item.h);
        }
    }
}

template <int TILES>
QB_DEVICE void write_y(const params &p, const buffers &io, int y_step, int step,
                       lane_state<TILES> &own) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            item_state &item = own.item[t][i];
            if (item.y != NOWHERE && step < item.length) {
                store(p.out_dtype, io.y, item.y, item.h);
                item.y += y_step;
            }
        }
}

template <int TILES>
QB_DEVICE void begin(const params &p, const buffers &io, const team &b, int x_row,
                     lane_state<TILES> &own) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int number = item_at(t, i);
            const bool there = number < b.items, inside = there && own.unit < p.hidden;
            item_state &item = own.item[t][i];
            item.length = !there       ? 0
                          : io.lengths ? min(max(io.lengths[b.first_item + number], 0), p.steps)
                                       : p.steps;
            const int first = b.back ? max(item.length - 1, 0) : 0;
            const int64_t at = inside ? state_at(p, b, number) + own.unit : 0;
            const int64_t y = inside ? y_at(p, b, number, first) + own.unit : 0;
            item.h = inside && io.h ? load(p.h_dtype, io.h, at) : 0.0f;
            item.c = inside && io.c ? load(p.c_dtype, io.c, at) : 0.0f;
            item.x = there ? x_row * (int)row_of(p, b, number, first) : 0;
            item.y = inside && io.y ? (int)y : NOWHERE;
        }
}

template <int TILES>
QB_DEVICE void end(const params &p, const buffers &io, const team &b,
                   const lane_state<TILES> &own) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int number = item_at(t, i);
            if (number >= b.items || own.unit >= p.hidden) continue;
            const int64_t to = state_at(p, b, number) + own.unit;
            const item_state &item = own.item[t][i];
            for (int step = item.length; io.y && step < p.steps; step++) // of Y: zeros
                store(p.out_dtype, io.y, y_at(p, b, number, step) + own.unit, 0.0f);
            if (io.y_h) store(p.out_dtype, io.y_h, to, item.h);
            if (io.y_c) store(p.out_dtype, io.y_c, to, item.c);
        }
}

// ---- a block

// h before the first step, of all units, in both buffers; what pads its rows is zero.
QB_DEVICE void fill_states(const params &p, const buffers &io, const team &b, __half *states,
                           int rows, int pitch) {
    for (int at = threadIdx.x; at < 2 * rows * pitch; at += blockDim.x) {
        const int item = at / pitch % rows, unit = at % pitch;
        const bool given = io.h && item < b.items && unit < p.hidden;
        states[at] =
            __float2half_rn(given ? load(p.h_dtype, io.h, state_at(p, b, item) + unit) : 0.0f);
    }
}

template <qb_cell_kind CELL, int CHUNKS, int TILES, int THREADS, bool CLUSTER>
static __global__ void __launch_bounds__(THREADS)
    recurrent(const __grid_constant__ params p, const __grid_constant__ buffers io) {
    // Rows of h are 64 bytes apart modulo 128: neighbours are in other banks.
    constexpr int DEPTH = CHUNKS * QB_CUDA_RECURRENT_DEPTH, ROWS = TILES * TILE;
    constexpr int PITCH = DEPTH + (CHUNKS % 2 ? 0 : 32);
    __shared__ __align__(16) __half states[2][ROWS * PITCH];
    __shared__ uint64_t come[2]; // by buffer: all of h is there
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int blocks = CLUSTER ? p.blocks : 1, block = CLUSTER ? blockIdx.x % blocks : 0;
    const int first = block * p.units + warp * UNITS;
    const team b = team_of(p, blockIdx.x / blocks);
    const char *weights =
        io.packed + p.at_weights + (int64_t)(b.direction * blocks + block) * p.weight_bytes;
    uint4 r[2][2 * CHUNKS];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int k = 0; k < 2 * CHUNKS; k++)
            r[m][k] =
                __ldg((const uint4 *)weights + ((warp * 2 + m) * 2 * CHUNKS + k) * WARP + lane);
    lane_state<TILES> own;
    own.unit = first + lane / 4;
    const float *last_bias = (const float *)(io.packed + p.at_last_bias) + b.direction * p.hidden;
    const float bias = CELL == QB_CELL_GRU && own.unit < p.hidden ? last_bias[own.unit] : 0.0f;
    qb_wait_for_dependencies();
    qb_launch_dependents();
    const int x_row = p.directions * blocks * p.units * GATES;
    const float *x = (const float *)(io.workspace + p.at_x) +
                     ((int64_t)b.direction * blocks * p.units + own.unit) * GATES;
    begin(p, io, b, x_row, own);
    const int forward = b.back ? -1 : 1;
    const int x_step = forward * (int)(row_of(p, b, 0, 1) - row_of(p, b, 0, 0)) * x_row;
    const int y_step = forward * (int)(y_at(p, b, 0, 1) - y_at(p, b, 0, 0));
    fill_states(p, io, b, states[0], ROWS, PITCH);
    if (CLUSTER)
        begin_cluster(come, 2); // no block writes into one that has not begun
    else
        __syncthreads();
    sums<TILES> ahead[AHEAD] = {};
#pragma unroll
    for (int i = 0; i < AHEAD; i++) load_x(x, x_step, i, own, ahead[i]);
    for (int begin = 0; begin < p.steps; begin += AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int step = begin + i;
            if (step >= p.steps) break;
            __half *after = states[(i + 1) % 2];
            if (CLUSTER && threadIdx.x == 0) expect(&come[i % 2], b.items * blocks * p.units * 2);
            step_of<CELL, CHUNKS>(r, bias, ahead[i], step, states[i % 2], after, PITCH, own);
            if (CLUSTER) {
                __syncwarp();
                for (int at = lane; at < b.items * blocks; at += WARP)
                    send(after + at / blocks * PITCH + first, &come[i % 2], at % blocks);
            }
            load_x(x, x_step, step + AHEAD, own, ahead[i]);
            write_y(p, io, y_step, step, own);
            if (CLUSTER)
                await(&come[i % 2], begin / AHEAD % 2);
            else
                __syncthreads();
        }
    if (CLUSTER) end_cluster();
    end(p, io, b, own);
}

template <qb_cell_kind CELL, int CHUNKS, int TILES, int THREADS, bool CLUSTER>
static int launch(const params *p, const buffers *io, void *stream) {
    return qb_launch_clusters(recurrent<CELL, CHUNKS, TILES, THREADS, CLUSTER>,
                              dim3((unsigned)(p->directions * p->groups * p->blocks)),
                              (unsigned)p->blocks, (unsigned)(p->units / UNITS * WARP), 0, stream,
                              *p, *io);
}

template <qb_cell_kind CELL> static int run(const params *p, const buffers *io, void *s) {
    const bool wide = p->items > TILE;
    switch (p->depth / QB_CUDA_RECURRENT_DEPTH) {
    case 2:
        return wide ? launch<CELL, 2, 2, 256, false>(p, io, s)
                    : launch<CELL, 2, 1, 256, false>(p, io, s);
    case 4: return launch<CELL, 4, 1, 512, false>(p, io, s);
    case 8: return launch<CELL, 8, 1, 256, true>(p, io, s);
    default: return (int)cudaErrorInvalidValue;
    }
}

extern "C" int qb_cuda_recurrent_stationary_run(const qb_cuda_recurrent *p,
                                                const qb_cuda_recurrent_io *io, void *stream) {
    return p->layer.cell == QB_CELL_LSTM ? run<QB_CELL_LSTM>(p, io, stream)
                                         : run<QB_CELL_GRU>(p, io, stream);
}

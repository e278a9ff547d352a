// LSTM and GRU of the usual cells in f16, weight-stationary: R stays in registers for all steps. A
// warp has eight units, and a lane the sums of all gates of one of them, for two items of a tile of
// eight: a step exchanges h and nothing else. A team of several blocks is a cluster (compute
// capability 9.0), whose blocks write h into each other's shared memory.
#include "kernels/cuda/common/dependent_launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/recurrent/recurrent.cuh"

#define WARP 32
#define UNITS 8 // of a warp
#define TILE QB_CUDA_RECURRENT_ITEMS_8
#define LANE_ITEMS 2 // of a tile
#define GATES 4
#define AHEAD 2 // steps whose sums of X W are under way

typedef qb_cuda_recurrent params;
typedef qb_cuda_recurrent_io buffers;

// ---- the cluster

QB_DEVICE void arrive_and_wait(int blocks) {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;" ::
                         : "memory");
        return;
    }
#endif
    __syncthreads();
}

// 16 bytes of shared memory go to the same place of another block.
QB_DEVICE void send(const void *from, int block) {
#if __CUDA_ARCH__ >= 900
    const uint4 v = *(const uint4 *)from;
    uint32_t to;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(to)
        : "r"((uint32_t)__cvta_generic_to_shared(from)), "r"(block));
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
#endif
}

// ---- a lane

// One unit and its items of all tiles.
template <int TILES> struct lane_state {
    int unit;                      // of all units
    int length[TILES][LANE_ITEMS]; // 0: no such item
    float h[TILES][LANE_ITEMS], c[TILES][LANE_ITEMS];
};

template <int TILES> struct sums { float gate[TILES][LANE_ITEMS][GATES]; };

QB_DEVICE int item_at(int tile, int i) { return tile * TILE + threadIdx.x % 4 * LANE_ITEMS + i; }

// The sums of X W of a step. What no item needs stays as it is.
template <qb_cell_kind CELL, int TILES>
QB_DEVICE void load_x(const params &p, const team &b, const lane_state<TILES> &own, const float *x,
                      int step, sums<TILES> &to) {
    constexpr int gates = CELL == QB_CELL_LSTM ? 4 : 3;
    const int64_t row = (int64_t)p.directions * p.blocks * p.units * gates;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int length = own.length[t][i];
            if (step >= length) continue;
            const float *from =
                x + row * row_of(p, b, item_at(t, i), b.back ? length - 1 - step : step);
            if (CELL == QB_CELL_LSTM) {
                const float4 v = *(const float4 *)from;
                to.gate[t][i][0] = v.x, to.gate[t][i][1] = v.y;
                to.gate[t][i][2] = v.z, to.gate[t][i][3] = v.w;
            } else {
#pragma unroll
                for (int g = 0; g < gates; g++) to.gate[t][i][g] = from[g];
            }
        }
}

// Gates i, o, f, c.
QB_DEVICE void lstm(const float (&gate)[GATES], float &h, float &c) {
    c = fast_sigmoid(gate[2]) * c + fast_sigmoid(gate[0]) * fast_tanh(gate[3]);
    h = fast_sigmoid(gate[1]) * fast_tanh(c);
}

// Steps of all blocks: `before` and `after` are h as products read it.
template <qb_cell_kind CELL, int CHUNKS, int TILES>
QB_DEVICE void step_of(const params &p, const uint4 (&r)[2][2 * CHUNKS], float bias,
                       const sums<TILES> &x, int step, const __half *before, __half *after,
                       int pitch, lane_state<TILES> &own) {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        // Rows of the first product: gates 0 and 1 of eight units; of the second: 2 and 3.
        float sum[2][4] = {};
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
                    qb_mma<false>(sum[m], left, k ? v.z : v.x, k ? v.w : v.y);
                }
        }
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            float &state = own.h[t][i];
            const float product[GATES] = {sum[0][i], sum[0][2 + i], sum[1][i], sum[1][2 + i]};
            if (step < own.length[t][i]) { // else the states stay
                if (CELL == QB_CELL_LSTM) {
                    float gate[GATES];
#pragma unroll
                    for (int g = 0; g < GATES; g++) gate[g] = x.gate[t][i][g] + product[g];
                    lstm(gate, state, own.c[t][i]);
                } else {
                    const float update = fast_sigmoid(x.gate[t][i][0] + product[0]);
                    const float reset = fast_sigmoid(x.gate[t][i][1] + product[1]);
                    gru(update, fast_tanh(x.gate[t][i][2] + reset * (product[2] + bias)), state);
                }
            }
            after[item_at(t, i) * pitch + own.unit] = __float2half_rn(state);
        }
    }
}

// The step's h, or zero where a sequence is at its end.
template <int TILES>
QB_DEVICE void write_y(const params &p, const buffers &io, const team &b, int step,
                       const lane_state<TILES> &own) {
    if (!io.y || own.unit >= p.hidden) return;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int item = item_at(t, i), length = own.length[t][i];
            if (item >= b.items) continue;
            const bool active = step < length;
            const int at = active && b.back ? length - 1 - step : step;
            store(p.out_dtype, io.y, y_at(p, b, item, at) + own.unit, active ? own.h[t][i] : 0.0f);
        }
}

template <int TILES>
QB_DEVICE void begin(const params &p, const buffers &io, const team &b, lane_state<TILES> &own) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int item = item_at(t, i);
            const bool there = item < b.items, inside = there && own.unit < p.hidden;
            own.length[t][i] = !there       ? 0
                               : io.lengths ? min(max(io.lengths[b.first_item + item], 0), p.steps)
                                            : p.steps;
            const int64_t at = inside ? state_at(p, b, item) + own.unit : 0;
            own.h[t][i] = inside && io.h ? load(p.h_dtype, io.h, at) : 0.0f;
            own.c[t][i] = inside && io.c ? load(p.c_dtype, io.c, at) : 0.0f;
        }
}

template <int TILES>
QB_DEVICE void end(const params &p, const buffers &io, const team &b,
                   const lane_state<TILES> &own) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < LANE_ITEMS; i++) {
            const int item = item_at(t, i);
            if (item >= b.items || own.unit >= p.hidden) continue;
            const int64_t to = state_at(p, b, item) + own.unit;
            if (io.y_h) store(p.out_dtype, io.y_h, to, own.h[t][i]);
            if (io.y_c) store(p.out_dtype, io.y_c, to, own.c[t][i]);
        }
}

// ---- a block

// h before the first step, of all units; what pads its rows is zero.
QB_DEVICE void fill_states(const params &p, const buffers &io, const team &b, __half *states,
                           int rows, int pitch) {
    for (int at = threadIdx.x; at < 2 * rows * pitch; at += blockDim.x) {
        const int item = at / pitch, unit = at % pitch;
        const bool given = io.h && item < b.items && unit < p.hidden;
        states[at] =
            __float2half_rn(given ? load(p.h_dtype, io.h, state_at(p, b, item) + unit) : 0.0f);
    }
}

template <qb_cell_kind CELL, int CHUNKS, int TILES, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    recurrent(const __grid_constant__ params p, const __grid_constant__ buffers io) {
    // Rows of h are 64 bytes apart modulo 128: neighbours are in other banks.
    constexpr int DEPTH = CHUNKS * QB_CUDA_RECURRENT_DEPTH, ROWS = TILES * TILE;
    constexpr int PITCH = DEPTH + (CHUNKS % 2 ? 0 : 32);
    __shared__ __align__(16) __half states[2][ROWS * PITCH];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int block = blockIdx.x % p.blocks, first = block * p.units + warp * UNITS;
    const team b = team_of(p, blockIdx.x / p.blocks);
    const char *weights =
        io.packed + p.at_weights + (int64_t)(b.direction * p.blocks + block) * p.weight_bytes;
    uint4 r[2][2 * CHUNKS];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int k = 0; k < 2 * CHUNKS; k++)
            r[m][k] =
                __ldg((const uint4 *)weights + ((warp * 2 + m) * 2 * CHUNKS + k) * WARP + lane);
    lane_state<TILES> own;
    own.unit = first + lane / 4;
    const float bias =
        CELL == QB_CELL_GRU && own.unit < p.hidden
            ? ((const float *)(io.packed + p.at_last_bias))[b.direction * p.hidden + own.unit]
            : 0.0f;
    qb_wait_for_dependencies();
    qb_launch_dependents();
    const float *x = (const float *)(io.workspace + p.at_x) +
                     ((int64_t)b.direction * p.blocks * p.units + own.unit) * p.gates;
    begin(p, io, b, own);
    fill_states(p, io, b, states[0], ROWS, PITCH);
    arrive_and_wait(p.blocks); // no block writes into one that has not begun
    sums<TILES> ahead[AHEAD] = {};
#pragma unroll
    for (int i = 0; i < AHEAD; i++) load_x<CELL>(p, b, own, x, i, ahead[i]);
    for (int begin = 0; begin < p.steps; begin += AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int step = begin + i;
            if (step >= p.steps) break;
            __half *after = states[(i + 1) % 2];
            step_of<CELL, CHUNKS>(p, r, bias, ahead[i], step, states[i % 2], after, PITCH, own);
            load_x<CELL>(p, b, own, x, step + AHEAD, ahead[i]);
            if (p.blocks > 1 && step + 1 < p.steps) {
                __syncwarp();
                for (int at = lane; at < b.items * (p.blocks - 1); at += WARP) {
                    const int item = at / (p.blocks - 1), other = at % (p.blocks - 1) + 1;
                    send(after + item * PITCH + first, (block + other) % p.blocks);
                }
            }
            if (step + 1 < p.steps) arrive_and_wait(p.blocks);
            write_y(p, io, b, step, own);
        }
    end(p, io, b, own);
}

template <qb_cell_kind CELL, int CHUNKS, int TILES, int THREADS>
static int launch(const params *p, const buffers *io, void *stream) {
    return qb_launch_clusters(recurrent<CELL, CHUNKS, TILES, THREADS>,
                              dim3((unsigned)(p->directions * p->groups * p->blocks)),
                              (unsigned)p->blocks, (unsigned)(p->units / UNITS * WARP), 0, stream,
                              *p, *io);
}

template <qb_cell_kind CELL> static int run(const params *p, const buffers *io, void *s) {
    const bool wide = p->items > TILE;
    switch (p->depth / QB_CUDA_RECURRENT_DEPTH) {
    case 2: return wide ? launch<CELL, 2, 2, 256>(p, io, s) : launch<CELL, 2, 1, 256>(p, io, s);
    case 4: return launch<CELL, 4, 1, 512>(p, io, s);
    case 8: return wide ? launch<CELL, 8, 2, 256>(p, io, s) : launch<CELL, 8, 1, 256>(p, io, s);
    default: return (int)cudaErrorInvalidValue;
    }
}

extern "C" int qb_cuda_recurrent_stationary_run(const qb_cuda_recurrent *p,
                                                const qb_cuda_recurrent_io *io, void *stream) {
    return p->layer.cell == QB_CELL_LSTM ? run<QB_CELL_LSTM>(p, io, stream)
                                         : run<QB_CELL_GRU>(p, io, stream);
}

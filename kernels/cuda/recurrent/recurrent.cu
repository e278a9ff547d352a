// The walk of a recurrent layer over time in one launch: products with h on Tensor Cores (f16) or
// in f32, gates in f32, and a barrier among the blocks of a team after each step.
#include "kernels/cuda/common/copies.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/recurrent/recurrent.cuh"

#define THREADS QB_CUDA_RECURRENT_THREADS
#define WARP 32
#define ROWS QB_CUDA_RECURRENT_ROWS
#define TILE 8 // items of a product of matrices
#define DEPTH QB_CUDA_RECURRENT_DEPTH

typedef qb_cuda_recurrent params;
typedef qb_cuda_recurrent_io buffers;
typedef qb_cuda_recurrent_pass pass_params;

// ---- who a block is

struct block : team {
    int number, first_unit;
    const float *x;    // the block's columns of the sums of X W, first row
    float *x_now;      // those of a step and of the next one: [items][units][gates]
    float *sums;       // [slices][items at once][pitch]
    float *h, *c;      // [items][units]; c: LSTM's, or GRU's update gate between its passes
    int *lengths;      // [items]
    char *states;      // of the team's items
    unsigned *counter; // of the team
    unsigned arrivals; // that the counter shows when all are here
};

// Of `at` = item * units + unit.
QB_DEVICE int item_of(int at, int units, int items) { return items == 1 ? 0 : at / units; }

template <class T, bool ALONE>
QB_DEVICE block block_of(const params &p, const buffers &io, char *shared) {
    const int team = blockIdx.x / p.blocks;
    block b;
    (struct team &)b = team_of(p, team);
    b.number = blockIdx.x % p.blocks;
    b.first_unit = b.number * p.units;
    b.x = (const float *)(io.workspace + p.at_x) +
          (int64_t)(b.direction * p.blocks + b.number) * p.units * p.gates;
    b.x_now = (float *)(shared + p.shared.x);
    b.sums = (float *)(shared + p.shared.sums);
    b.h = (float *)(shared + p.shared.h);
    b.c = (float *)(shared + p.shared.c);
    b.lengths = (int *)(shared + p.shared.lengths);
    b.counter =
        (unsigned *)(io.workspace + p.at_counters + (int64_t)team * QB_CUDA_RECURRENT_STRIDE);
    b.arrivals = 0;
    const int64_t row = (int64_t)b.direction * p.padded_items + b.first_item;
    b.states =
        ALONE ? shared + p.shared.states : io.workspace + p.at_states + row * p.depth * sizeof(T);
    return b;
}

// The states of the team's items as products read them: 0 and 1 are h, by turns; 2 is GRU's reset
// h.
template <class T, bool ALONE> QB_DEVICE T *states_of(const params &p, const block &b, int which) {
    const int rows = ALONE ? QB_CUDA_RECURRENT_ITEMS_8 : p.directions * p.padded_items;
    return (T *)b.states + (int64_t)which * rows * p.depth;
}

QB_DEVICE const float *x_of(const params &p, const block &b, int step) {
    return b.x_now + (step & 1) * (p.items * p.units * p.gates);
}

QB_DEVICE int time_of(const block &b, int item, int step) {
    return b.back ? b.lengths[item] - 1 - step : step;
}

// States of a team go past the multiprocessor's own cache, which does not see what other blocks
// write; those of a block that is alone are in shared memory.
template <bool ALONE> QB_DEVICE void send(__half *to, float v) {
    if (ALONE)
        *to = __float2half_rn(v);
    else
        __stcg(to, __float2half_rn(v));
}
template <bool ALONE> QB_DEVICE void send(float *to, float v) {
    if (ALONE)
        *to = v;
    else
        __stcg(to, v);
}
template <bool ALONE, class Words> QB_DEVICE Words receive(const Words *from) {
    return ALONE ? *from : __ldcg(from);
}

// ---- the barrier of a team

QB_DEVICE void arrive(const params &p, block &b) {
    __syncthreads();
    b.arrivals += p.blocks;
    if (p.blocks > 1 && threadIdx.x == 0) {
        __threadfence();
        atomicAdd(b.counter, 1u);
    }
}

QB_DEVICE void await(const params &p, const block &b) {
    if (p.blocks == 1) return;
    if (threadIdx.x == 0) {
        unsigned seen;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(b.counter)
                         : "memory");
        while (seen < b.arrivals);
    }
    __syncthreads();
}

// ---- products: sums[slice][item][row] of the items from `first` on

// What a warp has of a product: rows in parts, `across` apart, and a slice of the depth. The same
// in all steps, so that steps of few items do not divide for it.
struct share {
    int part, slice;
};

QB_DEVICE int parts_of(const pass_params &pass) { return (pass.rows + ROWS - 1) / ROWS; }
QB_DEVICE int across_of(const pass_params &pass) {
    return min(parts_of(pass), QB_CUDA_RECURRENT_WARPS);
}

QB_DEVICE share share_of(const pass_params &pass) {
    const int warp = threadIdx.x / WARP, slice = warp / across_of(pass);
    return {warp - slice * across_of(pass), slice};
}

// The order of the depth within 32 is that in which a thread's 16 bytes of h are two operands; R is
// packed in the same order.
template <int TILES, bool SHARED, bool ALONE>
QB_DEVICE void multiply(const params &p, const pass_params &pass, share own, const block &b,
                        const char *r, const __half *h, int first) {
    constexpr int DEEP = TILES == 1 ? 4 : 1; // loads under way
    const int lane = threadIdx.x % WARP, slice = own.slice;
    const int tiles = pass.rows / 16, chunks = p.depth / DEPTH;
    if (slice >= pass.slices) return;
    const uint4 *weights = (const uint4 *)(r + pass.at_weights) + lane;
    const uint4 *from = (const uint4 *)(h + (first + lane / 4) * p.depth + lane % 4 * 8);
#pragma unroll 1
    for (int part = own.part; part < parts_of(pass); part += across_of(pass)) {
        float sum[2][TILES][4] = {};
#pragma unroll 1
        for (int begin = slice; begin < chunks; begin += DEEP * pass.slices) {
            uint4 right[DEEP][TILES];
#pragma unroll
            for (int i = 0; i < DEEP; i++)
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    const int chunk = begin + i * pass.slices;
                    const bool inside = chunk < chunks && first + t * TILE < b.items;
                    const int at = (t * TILE * p.depth + chunk * DEPTH) / 8;
                    right[i][t] = inside ? receive<ALONE>(from + at) : make_uint4(0, 0, 0, 0);
                }
#pragma unroll
            for (int i = 0; i < DEEP; i++) {
                const int chunk = begin + i * pass.slices;
                if (chunk >= chunks) break;
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    const int tile = part * 2 + m;
                    if (tile >= tiles) break;
#pragma unroll
                    for (int k = 0; k < 2; k++) {
                        const uint4 *at = weights + (tile * (chunks * 2) + chunk * 2 + k) * WARP;
                        const uint4 v = SHARED ? *at : __ldg(at);
                        const uint32_t left[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                        for (int t = 0; t < TILES; t++)
                            qb_mma<false>(sum[m][t], left, k ? right[i][t].z : right[i][t].x,
                                          k ? right[i][t].w : right[i][t].y);
                    }
                }
            }
        }
        float *to = b.sums + slice * p.at_once * pass.pitch;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int row = (part * 2 + m) * 16 + lane / 4 + i / 2 * 8;
                    const int item = t * TILE + lane % 4 * 2 + i % 2;
                    if (row < pass.rows) to[item * pass.pitch + row] = sum[m][t][i];
                }
    }
}

// A lane has a row.
template <int TILES, bool SHARED, bool ALONE>
QB_DEVICE void multiply(const params &p, const pass_params &pass, share own, const block &b,
                        const char *r, const float *h, int first) {
    constexpr int ITEMS = TILES * TILE;
    const int lane = threadIdx.x % WARP, slice = own.slice;
    const int items = min(ITEMS, b.items - first);
    if (slice >= pass.slices) return;
#pragma unroll 1
    for (int part = own.part; part < parts_of(pass); part += across_of(pass)) {
        const int row = part * ROWS + lane;
        const bool inside = row < pass.rows;
        const float *weights = (const float *)(r + pass.at_weights) + (inside ? row : 0);
        float sum[ITEMS] = {};
        for (int k = slice * 4; k < p.depth; k += pass.slices * 4) {
            float left[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *at = weights + (int64_t)(k + i) * pass.rows;
                left[i] = SHARED ? *at : __ldg(at);
            }
#pragma unroll
            for (int n = 0; n < ITEMS; n++) {
                if (n >= items) break;
                const float4 v =
                    receive<ALONE>((const float4 *)(h + (int64_t)(first + n) * p.depth + k));
                sum[n] = __fmaf_rn(left[0], v.x, sum[n]);
                sum[n] = __fmaf_rn(left[1], v.y, sum[n]);
                sum[n] = __fmaf_rn(left[2], v.z, sum[n]);
                sum[n] = __fmaf_rn(left[3], v.w, sum[n]);
            }
        }
        float *to = b.sums + slice * p.at_once * pass.pitch + row;
#pragma unroll
        for (int n = 0; n < ITEMS; n++)
            if (inside) to[n * pass.pitch] = sum[n];
    }
}

// ---- cells

// Called, as it is long.
static __device__ __noinline__ float activate(int kind, float alpha, float beta, float x) {
    return qb_act_of(kind, alpha, beta, x);
}

// Sigmoid and tanh, as most layers have them: gates that do not wait for each other overlap.
QB_DEVICE bool is_standard(const params &p, const qb_act *act) {
    return p.layer.cell != QB_CELL_RNN && act[0].kind == QB_ACT_SIGMOID &&
           act[1].kind == QB_ACT_TANH &&
           (p.layer.cell == QB_CELL_GRU || act[2].kind == QB_ACT_TANH);
}

// A unit of an item in a pass; T: what the states are rounded to.
template <class T, bool STANDARD> struct unit {
    const params *p;
    const pass_params *pass;
    const qb_act *act; // of the direction
    const float *sums, *x;
    int stride; // from a slice's sums to the next one's

    __device__ __forceinline__ float product(int gate) const {
        float sum = 0.0f;
        for (int s = 0; s < pass->slices; s++) sum += sums[s * stride + gate * p->units];
        return sum;
    }
    // What goes into a gate, of the pass.
    __device__ __forceinline__ float gate(int g) const {
        return x[pass->first_gate + g] + product(g);
    }
    __device__ __forceinline__ float apply(int i, float v) const {
        if (STANDARD) return i == 0 ? sigmoid<T>(v) : hyperbolic<T>(v);
        return activate((int)act[i].kind, act[i].alpha, act[i].beta, v);
    }
    __device__ __forceinline__ float squash(int i, float v) const {
        const float most = p->layer.clip;
        return apply(i, most > 0.0f ? fmaxf(-most, fminf(most, v)) : v);
    }
};

// Gates i, o, f, c. `weight`: peepholes [i, o, f][hidden] at the unit; NULL: none.
template <class T, bool STANDARD>
QB_DEVICE void lstm(const unit<T, STANDARD> &u, const float *weight, float &h, float &c) {
    const int n = u.p->hidden;
    const float i = u.squash(0, u.gate(0) + (weight ? weight[0] * c : 0.0f));
    const float f = u.p->layer.input_forget
                        ? 1.0f - i
                        : u.squash(0, u.gate(2) + (weight ? weight[2 * n] * c : 0.0f));
    c = f * c + i * u.squash(1, u.gate(3));
    const float o = u.squash(0, u.gate(1) + (weight ? weight[n] * c : 0.0f));
    h = o * u.apply(2, c);
}

// The items from `first` on: sums and states become states.
template <class T, bool ALONE, bool STANDARD>
QB_DEVICE void finish(const params &p, const buffers &io, const block &b, int number, int step,
                      int first, T *after, T *reset) {
    const pass_params &pass = p.pass[number];
    const int items = min(p.at_once, b.items - first);
#pragma unroll 1
    for (int at = threadIdx.x; at < items * p.units; at += THREADS) {
        const int n = item_of(at, p.units, items), k = at - n * p.units, item = first + n;
        const int hidden = b.first_unit + k;
        if (hidden >= p.hidden) continue;
        const bool active = step < b.lengths[item];
        const int state = item * p.units + k;
        const int sent = item * p.depth + hidden; // states are fewer than 2^31
        float h = b.h[state];
        if (!active) { // stays
            if (number == p.n_passes - 1) send<ALONE>(after + sent, h);
            continue;
        }
        const unit<T, STANDARD> u = {&p,
                                     &pass,
                                     p.layer.act + b.direction * QB_CELL_ACTS,
                                     b.sums + n * pass.pitch + k,
                                     x_of(p, b, step) + state * p.gates,
                                     p.at_once * pass.pitch};
        if (p.layer.cell == QB_CELL_LSTM) {
            const float *weight = (const float *)(io.packed + p.at_peepholes) +
                                  (int64_t)b.direction * 3 * p.hidden + hidden;
            lstm(u, p.at_peepholes >= 0 ? weight : nullptr, h, b.c[state]);
        } else if (p.layer.cell == QB_CELL_RNN) {
            h = u.squash(0, u.gate(0));
        } else if (p.n_passes == 1) {
            const float *bias = (const float *)(io.packed + p.at_last_bias) +
                                (int64_t)b.direction * p.hidden + hidden;
            const float r = u.squash(0, u.gate(1));
            gru(u.squash(0, u.gate(0)), u.squash(1, u.x[2] + r * (u.product(2) + *bias)), h);
        } else if (number == 0) {
            b.c[state] = u.squash(0, u.gate(0));
            send<ALONE>(reset + sent, u.squash(0, u.gate(1)) * h);
            continue;
        } else {
            gru(b.c[state], u.squash(1, u.gate(0)), h);
        }
        b.h[state] = h;
        send<ALONE>(after + sent, h);
    }
}

// LSTM and GRU with sigmoid and tanh, no bounds and no peepholes, whose gates are all of one pass:
// four lanes have a unit, a gate each. GRU's last gate waits for its reset gate: the lane hands on
// the product alone.
template <class T, bool ALONE>
QB_DEVICE void finish_lanes(const params &p, const buffers &io, const block &b, int step, int first,
                            T *after) {
    const pass_params &pass = p.pass[0];
    const int items = min(p.at_once, b.items - first), units = items * p.units;
    const int gate = threadIdx.x % 4, gates = p.gates;
    const bool lstm = p.layer.cell == QB_CELL_LSTM;
    const float *x = x_of(p, b, step) + first * p.units * gates;
    const float *bias = (const float *)(io.packed + p.at_last_bias) + b.direction * p.hidden;
#pragma unroll 1
    for (int at = threadIdx.x; at < (units * 4 + WARP - 1) / WARP * WARP; at += THREADS) {
        const int whole = min(at / 4, units - 1); // lanes behind the last one repeat it
        const int n = item_of(whole, p.units, items), k = whole - n * p.units;
        const int item = first + n, hidden = b.first_unit + k, state = item * p.units + k;
        const int own = min(gate, gates - 1);
        const float *sums = b.sums + n * pass.pitch + own * p.units + k;
        float v = 0.0f;
        for (int s = 0; s < pass.slices; s++) v += sums[s * p.at_once * pass.pitch];
        if (lstm || own < 2)
            v = lstm && own == 3 ? hyperbolic<T>(v + x[whole * gates + own])
                                 : sigmoid<T>(v + x[whole * gates + own]);
        float all[4];
#pragma unroll
        for (int g = 0; g < 4; g++) all[g] = __shfl_sync(0xffffffffu, v, g, 4);
        if (gate != 0 || at / 4 >= units || hidden >= p.hidden) continue;
        if (step < b.lengths[item]) { // else the states stay
            if (lstm) {
                const float c = all[2] * b.c[state] + all[0] * all[3];
                b.c[state] = c;
                b.h[state] = all[1] * hyperbolic<T>(c);
            } else {
                const float last = x[whole * gates + 2] + all[1] * (all[2] + bias[hidden]);
                gru(all[0], hyperbolic<T>(last), b.h[state]);
            }
        }
        send<ALONE>(after + (int64_t)item * p.depth + hidden, b.h[state]);
    }
}

// Does that pay? Only where threads would have nothing to do.
QB_DEVICE bool is_for_lanes(const params &p, const block &b) {
    return p.usual && min(p.at_once, b.items) * p.units * 4 <= 2 * THREADS;
}

// ---- a block

// The sums of X W of the step, on their way to shared memory.
QB_DEVICE void fetch_x(const params &p, const block &b, int step) {
    const int pieces = p.units * p.gates / 4;
    const int64_t row_size = (int64_t)p.directions * p.blocks * p.units * p.gates;
    const uint32_t to = qb_shared_address_of(x_of(p, b, step));
#pragma unroll 1
    for (int at = threadIdx.x; at < b.items * pieces && step < p.steps; at += THREADS) {
        const int item = item_of(at, pieces, b.items), piece = at - item * pieces;
        if (step >= b.lengths[item]) continue;
        const int64_t row = row_of(p, b, item, time_of(b, item, step));
        qb_copy16(to + at * 16, b.x + row * row_size + piece * 4, 16);
    }
    qb_copies_commit();
}

// The step's h, or zero where a sequence is at its end.
QB_DEVICE void write_y(const params &p, const buffers &io, const block &b, int step) {
    if (!io.y) return;
#pragma unroll 1
    for (int at = threadIdx.x; at < b.items * p.units; at += THREADS) {
        const int item = item_of(at, p.units, b.items);
        const int hidden = b.first_unit + at - item * p.units;
        const bool active = step < b.lengths[item];
        if (hidden >= p.hidden) continue;
        const int t = active ? time_of(b, item, step) : step;
        store(p.out_dtype, io.y, y_at(p, b, item, t) + hidden, active ? b.h[at] : 0.0f);
    }
}

// Lengths, then states: the caller's or zero; what pads the rows is zero.
template <class T, bool ALONE>
QB_DEVICE void begin(const params &p, const buffers &io, const block &b) {
    T *h = states_of<T, ALONE>(p, b, 0);
    for (int item = threadIdx.x; item < b.items; item += THREADS)
        b.lengths[item] =
            io.lengths ? min(max(io.lengths[b.first_item + item], 0), p.steps) : p.steps;
#pragma unroll 1
    for (int at = threadIdx.x; at < b.items * p.units; at += THREADS) {
        const int item = at / p.units, hidden = b.first_unit + at % p.units;
        const bool inside = hidden < p.hidden;
        const int64_t from = state_at(p, b, item) + hidden;
        b.h[at] = inside && io.h ? load(p.h_dtype, io.h, from) : 0.0f;
        b.c[at] = inside && io.c ? load(p.c_dtype, io.c, from) : 0.0f;
        if (inside) send<ALONE>(h + (int64_t)item * p.depth + hidden, b.h[at]);
    }
    const int pad = p.depth - p.hidden;
#pragma unroll 1
    for (int at = threadIdx.x; b.number == 0 && at < 3 * b.items * pad; at += THREADS) {
        const int item = at / pad % b.items;
        T *states = states_of<T, ALONE>(p, b, at / pad / b.items);
        send<ALONE>(states + (int64_t)item * p.depth + p.hidden + at % pad, 0.0f);
    }
}

QB_DEVICE void end(const params &p, const buffers &io, const block &b) {
#pragma unroll 1
    for (int at = threadIdx.x; at < b.items * p.units; at += THREADS) {
        const int item = at / p.units, hidden = b.first_unit + at % p.units;
        if (hidden >= p.hidden) continue;
        const int64_t to = state_at(p, b, item) + hidden;
        if (io.y_h) store(p.out_dtype, io.y_h, to, b.h[at]);
        if (io.y_c) store(p.out_dtype, io.y_c, to, b.c[at]);
    }
}

template <class T, int TILES, bool SHARED, bool ALONE>
static __global__ void __launch_bounds__(THREADS, QB_CUDA_RECURRENT_BLOCKS)
    recurrent(const __grid_constant__ params p, const __grid_constant__ buffers io) {
    extern __shared__ __align__(16) char shared[];
    block b = block_of<T, ALONE>(p, io, shared);
    const char *r =
        io.packed + p.at_weights + (int64_t)(b.direction * p.blocks + b.number) * p.weight_bytes;
    if (SHARED) {
        const uint32_t to = qb_shared_address_of(shared);
        for (int at = threadIdx.x * 16; at < p.weight_bytes; at += THREADS * 16)
            qb_copy16(to + at, r + at, 16);
        r = shared;
    }
    qb_wait_for_dependencies();
    begin<T, ALONE>(p, io, b);
    __syncthreads(); // the lengths
    fetch_x(p, b, 0);
    T *reset = states_of<T, ALONE>(p, b, 2);
    const qb_act *act = p.layer.act + b.direction * QB_CELL_ACTS;
    const bool standard = is_standard(p, act), by_lanes = is_for_lanes(p, b);
    const share first_pass = share_of(p.pass[0]);
    for (int step = 0; step < p.steps; step++) {
        const T *before = states_of<T, ALONE>(p, b, step % 2);
        T *after = states_of<T, ALONE>(p, b, (step + 1) % 2);
        for (int number = 0; number < p.n_passes; number++) {
            arrive(p, b); // h, or reset h, is written
            if (number == 0) {
                fetch_x(p, b, step + 1);
                if (step > 0) write_y(p, io, b, step - 1);
            }
            await(p, b);
            qb_copies_wait<1>();            // the next step's x is under way
            if (step == 0) __syncthreads(); // R
            for (int first = 0; first < b.items; first += TILES * TILE) {
                const pass_params &pass = p.pass[number];
                const share own = TILES > 1 || number == 1 ? share_of(pass) : first_pass;
                multiply<TILES, SHARED, ALONE>(p, pass, own, b, r,
                                               number ? (const T *)reset : before, first);
                __syncthreads();
                if (TILES == 1 && by_lanes)
                    finish_lanes<T, ALONE>(p, io, b, step, first, after);
                else if (TILES == 1 && standard)
                    finish<T, ALONE, true>(p, io, b, number, step, first, after, reset);
                else
                    finish<T, ALONE, false>(p, io, b, number, step, first, after, reset);
                __syncthreads();
            }
        }
    }
    write_y(p, io, b, p.steps - 1);
    end(p, io, b);
}

template <class T, int TILES>
static int launch(const params *p, const buffers *io, cudaStream_t stream) {
    void (*kernel)(params, buffers) = recurrent<T, TILES, false, false>;
    if (p->in_shared) kernel = recurrent<T, TILES, true, false>;
    if (p->alone) kernel = recurrent<T, 1, true, true>;
    const int code = qb_reserve_shared(kernel, p->shared.bytes);
    if (code != 0) return code;
    const dim3 blocks((unsigned)(p->directions * p->groups * p->blocks));
    if (p->blocks == 1)
        return qb_launch(kernel, blocks, THREADS, (size_t)p->shared.bytes, stream, *p, *io);
    cudaLaunchAttribute together = {}; // blocks that wait for each other run at once, or not at all
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = (size_t)p->shared.bytes;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = 1;
    return (int)cudaLaunchKernelEx(&config, kernel, *p, *io);
}

extern "C" int qb_cuda_recurrent_run(const qb_cuda_recurrent *p, const qb_cuda_recurrent_io *io,
                                     void *stream) {
    const cudaStream_t s = (cudaStream_t)stream;
    if (!p->f16) return launch<float, 1>(p, io, s);
    return p->at_once == QB_CUDA_RECURRENT_ITEMS_8 ? launch<__half, 1>(p, io, s)
                                                   : launch<__half, 4>(p, io, s);
}

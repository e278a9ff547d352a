// Observers: extremes, counts and the histogram of one tensor in one pass, see observe.h.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/observe.h"

#define THREADS 1024
#define HALF (QB_STATS_BINS / 2)
#define ONE_TO_24 0x4b000000u // the bits of 2^23: floats are one apart from there on
#define NOTHING 0xffffffffu   // key of an extreme that is not there

// 2^12 - exponent: what values are multiplied by for their place in the histogram.
static __device__ __forceinline__ float scale_of(int exponent) {
    return __uint_as_float((uint32_t)(127 + 12 - exponent) << 23);
}

// The bin, or QB_STATS_BINS and more where the value is outside, infinite or NaN. Rounding down at
// 2^23 is floor, and the low mantissa bits of the sum are the bin; nothing underflows in a fused
// multiply-add.
static __device__ __forceinline__ uint32_t bin_of(float value, float scale) {
    return __float_as_uint(__fmaf_rd(value, scale, 8388608.0f + HALF)) - ONE_TO_24;
}

// The smallest exponent whose range holds a value that is outside of the smallest range.
static __device__ __forceinline__ int exponent_of(float value) {
    uint32_t bits = __float_as_uint(value);
    int power = (int)(bits >> 23 & 0xff) - 126;                      // |value| < 2^power
    return bits >> 31 && (bits & 0x7fffff) == 0 ? power - 1 : power; // -2^e itself is inside
}

// The same for the extremes of all values, as the host defines it.
static __device__ int exponent_for(float low, float high) {
    int above = high >= 1.1754944e-38f ? exponent_of(high) : QB_STATS_MIN_EXPONENT;
    int below = low <= -1.1754944e-38f ? exponent_of(low) : QB_STATS_MIN_EXPONENT;
    int exponent = above > below ? above : below;
    return exponent > QB_STATS_MIN_EXPONENT ? exponent : QB_STATS_MIN_EXPONENT;
}

// Integers in the order of the values. -0 counts as 0.
static __device__ __forceinline__ uint32_t key_of(float value) {
    uint32_t bits = __float_as_uint(value + 0.0f);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

static __device__ __forceinline__ float value_of(uint32_t key) {
    return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu));
}

// What a thread has seen.
struct seen {
    float low, high;
    uint32_t zeros, outside;
};

// A value that is in no bin; returns whether it is finite. Rare, but for a tensor's first values.
static __device__ __noinline__ bool add_odd(float value, qb_cuda_observed *state, uint32_t *table) {
    uint64_t *count = value != value       ? &state->stats.nan
                      : value == INFINITY  ? &state->stats.pos_inf
                      : value == -INFINITY ? &state->stats.neg_inf
                                           : nullptr;
    if (count) {
        atomicAdd((unsigned long long *)count, 1ull);
        return false;
    }
    int exponent = exponent_of(value);
    uint32_t bin = bin_of(value, scale_of(exponent)); // in the outer half: below 2048, or from 6144
    uint32_t at = value > 0.0f ? bin - HALF : bin;
    atomicAdd(&table[(uint32_t)(exponent - QB_STATS_MIN_EXPONENT) * HALF + at], 1u);
    return true;
}

// Where a block counts.
struct places {
    uint32_t *bins;
    qb_cuda_observed *state;
    uint32_t *table;
    float scale;
};

static __device__ __forceinline__ void add(seen &s, float value, const places &to) {
    uint32_t bin = bin_of(value, to.scale);
    if (bin >= QB_STATS_BINS) {
        if (!add_odd(value, to.state, to.table)) return;
        s.outside = 1;
    } else if (value == 0.0f) {
        s.zeros++;
    } else {
        atomicAdd(&to.bins[bin], 1u);
    }
    s.low = fminf(s.low, value);
    s.high = fmaxf(s.high, value);
}

// One segment of one item.
static __device__ __forceinline__ void add_segment(const qb_cuda_observe_shape &p,
                                                   const float *item, uint32_t begin, uint32_t n,
                                                   seen &s, const places &to) {
    if (p.quads) {
#pragma unroll 4
        for (uint32_t k = threadIdx.x * 4; k < n; k += THREADS * 4) {
            uint32_t at = begin + k, row = p.rows > 1 ? at / p.lanes : 0;
            float4 v = *reinterpret_cast<const float4 *>(item + (int64_t)row * p.row_stride +
                                                         (at - row * p.lanes));
            add(s, v.x, to);
            add(s, v.y, to);
            add(s, v.z, to);
            add(s, v.w, to);
        }
    } else {
        for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
            uint32_t at = begin + k, row = p.rows > 1 ? at / p.lanes : 0;
            add(s, item[(int64_t)row * p.row_stride + (at - row * p.lanes)], to);
        }
    }
}

// The thread's extremes go to the item's.
static __device__ void keep_extremes(seen &s, uint32_t *low, uint32_t *high) {
    bool any = s.low <= s.high;
    uint32_t least = __reduce_min_sync(0xffffffffu, any ? key_of(s.low) : NOTHING);
    uint32_t most = __reduce_min_sync(0xffffffffu, any ? ~key_of(s.high) : NOTHING);
    if (threadIdx.x % 32 == 0 && least != NOTHING) {
        atomicMin(low, least);
        atomicMin(high, most);
    }
    s.low = INFINITY;
    s.high = -INFINITY;
}

// Bins merge in pairs `doublings` times, by all threads of the block. Bin HALF + i goes to HALF + i
// / width, its mirror HALF - 1 - i likewise.
static __device__ void grow(unsigned long long *bin, int doublings) {
    const int width = doublings < 12 ? 1 << doublings : HALF;
    unsigned long long sum[QB_STATS_BINS / THREADS];
#pragma unroll
    for (int j = 0; j < QB_STATS_BINS / THREADS; j++) {
        int to = (int)threadIdx.x + j * THREADS, i = to < HALF ? HALF - 1 - to : to - HALF;
        sum[j] = 0;
        for (int k = i * width; k < (i + 1) * width && k < HALF; k++)
            sum[j] += __ldcg(&bin[to < HALF ? HALF - 1 - k : HALF + k]);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < QB_STATS_BINS / THREADS; j++) bin[threadIdx.x + j * THREADS] = sum[j];
    __threadfence();
    __syncthreads();
}

// Counts from the table, of exponents above `from` up to `to`, into bins at exponent `to`.
static __device__ void empty_table(unsigned long long *bin, uint32_t *table, int from, int to) {
    for (int e = from + 1; e <= to; e++) {
        int shift = to - e < 12 ? to - e : 12;
        uint32_t *row = table + (e - QB_STATS_MIN_EXPONENT) * HALF;
        for (int at = threadIdx.x; at < HALF; at += THREADS) {
            uint32_t n = __ldcg(&row[at]);
            if (n == 0) continue;
            int into = at < HALF / 2 ? HALF - 1 - ((HALF - 1 - at) >> shift) : HALF + (at >> shift);
            atomicAdd(&bin[into], (unsigned long long)n);
            row[at] = 0;
        }
    }
}

// The last block: extremes of the whole tensor, and a range that holds them.
static __device__ void finalize(const qb_cuda_observe_shape &p, qb_cuda_observed *state,
                                uint32_t *table, const uint32_t *low, const uint32_t *high) {
    __shared__ uint32_t least, most;
    if (threadIdx.x == 0) least = most = NOTHING;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < p.items; i += THREADS) {
        atomicMin(&least, __ldcg(&low[i]));
        atomicMin(&most, __ldcg(&high[i]));
    }
    __syncthreads();
    const int before = state->stats.exponent;
    unsigned long long *bin = (unsigned long long *)state->stats.bin;
    if (least != NOTHING) {
        float min = fminf(state->stats.min, value_of(least));
        float max = fmaxf(state->stats.max, value_of(~most));
        int exponent = exponent_for(min, max);
        __syncthreads(); // all have read what the first thread writes
        if (__ldcg(&state->outside)) {
            grow(bin, exponent - before);
            empty_table(bin, table, before, exponent);
        }
        if (threadIdx.x == 0) {
            state->stats.min = min;
            state->stats.max = max;
            if (exponent > before) state->stats.exponent = exponent;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        qb_stats *s = &state->stats;
        state->values += (uint64_t)p.items * p.rows * p.lanes;
        s->count = state->values - __ldcg((unsigned long long *)&s->nan) -
                   __ldcg((unsigned long long *)&s->pos_inf) -
                   __ldcg((unsigned long long *)&s->neg_inf);
        state->outside = 0;
        state->done = 0;
    }
}

static __device__ void add_count(uint64_t *to, uint32_t n) {
    n = __reduce_add_sync(0xffffffffu, n);
    if (threadIdx.x % 32 == 0 && n > 0) atomicAdd((unsigned long long *)to, (unsigned long long)n);
}

static __global__ void __launch_bounds__(THREADS, 1)
    observe(const __grid_constant__ qb_cuda_observe_shape p, const float *data,
            qb_cuda_observed *state, uint32_t *table, uint32_t *low, uint32_t *high) {
    qb_wait_for_dependencies();
    __shared__ uint32_t bins[QB_STATS_BINS];
    __shared__ uint32_t is_last;
    for (int i = threadIdx.x; i < QB_STATS_BINS; i += THREADS) bins[i] = 0;
    const places to = {bins, state, table, scale_of(state->stats.exponent)};
    const uint32_t size = p.rows * p.lanes;
    seen s = {INFINITY, -INFINITY, 0, 0};
    __syncthreads();
    for (uint32_t unit = blockIdx.x; unit < p.items * p.segments; unit += gridDim.x) {
        uint32_t item = unit / p.segments;
        uint32_t begin = (unit - item * p.segments) * QB_CUDA_OBSERVE_SEGMENT;
        uint32_t n =
            size - begin < QB_CUDA_OBSERVE_SEGMENT ? size - begin : QB_CUDA_OBSERVE_SEGMENT;
        add_segment(p, data + p.first + item * p.item_stride, begin, n, s, to);
        keep_extremes(s, &low[item], &high[item]);
    }
    qb_stats *stats = &state->stats;
    add_count(&stats->zeros, s.zeros);
    add_count(&stats->bin[HALF], s.zeros);
    if (s.outside) atomicMax(&state->outside, 1u);
    __syncthreads();
    for (int k = threadIdx.x; k < QB_STATS_BINS; k += THREADS) {
        int i = (k + blockIdx.x * 256) % QB_STATS_BINS; // blocks begin at different places
        if (bins[i]) atomicAdd((unsigned long long *)&stats->bin[i], (unsigned long long)bins[i]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(&state->done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    finalize(p, state, table, low, high);
}

extern "C" int qb_cuda_observe_run(const qb_cuda_observe_shape *p, const float *data,
                                   qb_cuda_observed *state, uint32_t *table, uint32_t *low,
                                   uint32_t *high, int32_t blocks, void *stream) {
    return qb_launch(observe, (unsigned)blocks, THREADS, 0, stream, *p, data, state, table, low,
                     high);
}

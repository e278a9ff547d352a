// Where the first elements of a line lie in descending or ascending order: a block a line. Short
// lines are sorted; of long ones the k first are selected digit by digit before.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/pointwise/lines.h"

#define SHORT_THREADS 256
#define LONG_THREADS 1024 // of a line that is not sorted as a whole
#define DIGIT 8           // bits
#define DIGITS (1 << DIGIT)

// An element as a number: those that come first have the larger ones, and no two have the same. NaN
// is larger than any number; of equal elements the first one comes first.
QB_DEVICE uint64_t key_of(const qb_cuda_lines &p, float v, uint32_t at) {
    const uint32_t bits = __float_as_uint(v + 0.0f); // no negative zero
    const uint32_t above = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    const uint32_t order = v != v ? 0xffffffffu : above;
    return (uint64_t)(p.first ? ~order : order) << 32 | (uint32_t)~at;
}

QB_DEVICE uint64_t load(const qb_cuda_lines &p, const void *in, int64_t first, uint32_t at) {
    float v[1];
    qb_load_unscaled<1>(p.in, in, first + (int64_t)at * p.inner, v);
    return key_of(p, v[0], at);
}

// Adds one to count[digit] for the lanes that ask for it; all of a warp come here. Where many
// elements are alike, one of them adds for all.
QB_DEVICE void count_digit(uint32_t *count, bool asks, uint32_t digit) {
    const uint32_t lanes = __ballot_sync(0xffffffffu, asks);
    if (lanes == 0) return;
    const int leader = __ffs(lanes) - 1;
    const bool alike = digit == __shfl_sync(0xffffffffu, digit, leader);
    if (__all_sync(0xffffffffu, alike || !asks)) {
        if (threadIdx.x % 32 == leader) atomicAdd(&count[digit], __popc(lanes));
    } else if (asks) {
        atomicAdd(&count[digit], 1u);
    }
}

// By one warp: the digit of the element that is number `wanted` from the largest digit on; how many
// are still wanted of those that have it, 0 for all. One lane has the answer.
QB_DEVICE bool choose_digit(const uint32_t *count, uint32_t wanted, uint32_t &digit,
                            uint32_t &missing) {
    constexpr int EACH = DIGITS / 32;
    uint32_t sum = 0, before;
    digit = DIGITS - 1 - threadIdx.x * EACH;
#pragma unroll
    for (int i = 0; i < EACH; i++) sum += count[digit - i];
    before = sum;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, before, by);
        if (threadIdx.x >= by) before += other;
    }
    before -= sum;
    if (before >= wanted || before + sum < wanted) return false;
    uint32_t left = wanted - before;
    while (count[digit] < left) left -= count[digit--];
    missing = count[digit] == left ? 0 : left;
    return true;
}

// The smallest number among the p.k largest of a line.
template <int THREADS>
QB_DEVICE uint64_t select(const qb_cuda_lines &p, const void *in, int64_t first) {
    __shared__ uint32_t count[DIGITS];
    __shared__ uint64_t chosen;
    __shared__ uint32_t missing;
    uint64_t prefix = 0;
    uint32_t wanted = p.k; // of those that begin with the prefix
    for (int shift = 64 - DIGIT; shift >= 0; shift -= DIGIT) {
        if (shift < 32 && (uint64_t)(p.n - 1) >> shift == 0) { // places are smaller than that
            prefix |= (uint64_t)(DIGITS - 1) << shift;
            continue;
        }
        for (int i = threadIdx.x; i < DIGITS; i += THREADS) count[i] = 0;
        __syncthreads();
        for (uint32_t from = 0; from < p.n; from += THREADS) {
            const uint32_t i = from + threadIdx.x;
            const uint64_t key = i < p.n ? load(p, in, first, i) : 0;
            const bool begins = shift == 64 - DIGIT || (key ^ prefix) >> shift >> DIGIT == 0;
            count_digit(count, i < p.n && begins, key >> shift & (DIGITS - 1));
        }
        __syncthreads();
        uint32_t digit, left;
        if (threadIdx.x < 32 && choose_digit(count, wanted, digit, left)) {
            chosen = prefix | (uint64_t)digit << shift;
            missing = left; // none: the rest does not matter
        }
        __syncthreads();
        prefix = chosen;
        wanted = missing;
        if (wanted == 0) break;
    }
    return prefix;
}

// Descending; n is a power of two.
template <int THREADS> QB_DEVICE void sort(uint64_t *key, uint32_t n) {
    for (uint32_t size = 2; size <= n; size *= 2)
        for (uint32_t by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < n / 2; i += THREADS) {
                const uint32_t low = i / by * by * 2 + i % by, high = low + by;
                const bool ascends = low & size;
                const uint64_t a = key[low], b = key[high];
                if ((a < b) != ascends) key[low] = b, key[high] = a;
            }
        }
    __syncthreads();
}

template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    find_first(const __grid_constant__ qb_cuda_lines p, const void *in, int64_t *out) {
    qb_wait_for_dependencies();
    __shared__ uint64_t key[QB_CUDA_FIRST_MOST];
    __shared__ uint32_t taken;
    const uint32_t outer = blockIdx.x / p.inner, beside = blockIdx.x % p.inner;
    const int64_t first = (int64_t)outer * p.n * p.inner + beside;
    const bool all = p.n <= QB_CUDA_FIRST_MOST;
    const uint64_t least = all ? 0 : select<THREADS>(p, in, first);
    uint32_t n = 1;
    while (n < (all ? p.n : p.k)) n *= 2;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) key[i] = 0;
    if (threadIdx.x == 0) taken = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < p.n; i += THREADS) {
        const uint64_t own = load(p, in, first, i);
        if (own >= least) key[atomicAdd(&taken, 1u)] = own; // in any order: it is sorted
    }
    sort<THREADS>(key, n);
    int64_t *to = out + (int64_t)outer * p.k * p.inner + beside;
    for (uint32_t i = threadIdx.x; i < p.k; i += THREADS)
        to[(int64_t)i * p.inner] = (uint32_t) ~(uint32_t)key[i];
}

extern "C" int qb_cuda_first_run(const qb_cuda_lines *p, const void *in, int64_t *out,
                                 void *stream) {
    const uint32_t lines = p->outer * p->inner;
    if (lines == 0 || p->k == 0) return 0;
    if (p->n > QB_CUDA_FIRST_MOST)
        return qb_launch(find_first<LONG_THREADS>, lines, LONG_THREADS, 0, stream, *p, in, out);
    return qb_launch(find_first<SHORT_THREADS>, lines, SHORT_THREADS, 0, stream, *p, in, out);
}

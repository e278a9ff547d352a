/* One pass over a chunk: extremes, bins, and whether there is a bin for each value at all. That is
 * so but for a tensor's first values, so nobody looks before.
 *
 * The bin of v is floor(v scale) + QB_STATS_ZERO_BIN, exactly, also where v scale is below the
 * smallest float (a tiny negative value belongs to the bin left of zero). */
#include "base/processor.h"
#include "kernels/stats_internal.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define QB_STATS_X86 1
#include <immintrin.h>
#endif

static bool always(void) { return true; }

static qb_stats_found locate_portable(const float *value, size_t n, float scale, uint16_t *index) {
    qb_stats_found found = {.inside = true, .min = value[0], .max = value[0]};
    for (size_t i = 0; i < n; i++) {
        const double x = (double)value[i] * scale; /* exact: a float times a power of two */
        const bool inside = x >= -QB_STATS_ZERO_BIN && x < QB_STATS_ZERO_BIN; /* not so for NaN */
        int32_t whole = inside ? (int32_t)x : 0;
        whole -= x < whole;
        index[found.used] = (uint16_t)(whole + QB_STATS_ZERO_BIN);
        found.used += value[i] != 0.0f;
        found.inside &= inside;
        found.min = value[i] < found.min ? value[i] : found.min;
        found.max = value[i] > found.max ? value[i] : found.max;
    }
    return found;
}

#ifdef QB_STATS_X86

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))

static bool has_avx2(void) { return qb_processor_has(QB_TIER_AVX2); }
static bool has_avx512(void) { return qb_processor_has(QB_TIER_AVX512); }

AVX2 static qb_stats_found locate_avx2(const float *value, size_t n, float scale, uint16_t *index) {
    if (n < 8) return locate_portable(value, n, scale, index);
    const __m256 factor = _mm256_set1_ps(scale), zero = _mm256_setzero_ps();
    const __m256 end = _mm256_set1_ps(QB_STATS_ZERO_BIN), begin = _mm256_sub_ps(zero, end);
    const __m256i center = _mm256_set1_epi32(QB_STATS_ZERO_BIN);
    __m256 low = _mm256_loadu_ps(value), high = low;
    __m256 inside = _mm256_cmp_ps(zero, zero, _CMP_EQ_OQ);
    size_t used = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(value + i);
        __m256 x = _mm256_mul_ps(v, factor);
        inside = _mm256_and_ps(inside, _mm256_cmp_ps(x, begin, _CMP_GE_OQ));
        inside = _mm256_and_ps(inside, _mm256_cmp_ps(x, end, _CMP_LT_OQ));
        low = _mm256_min_ps(low, v);
        high = _mm256_max_ps(high, v);
        /* A negative product that underflowed to zero still has to round down to -1. */
        __m256 negative = _mm256_cmp_ps(v, zero, _CMP_LT_OQ);
        x = _mm256_blendv_ps(x, _mm256_min_ps(x, _mm256_set1_ps(-0.5f)), negative);
        __m256i bin = _mm256_add_epi32(_mm256_cvttps_epi32(_mm256_floor_ps(x)), center);
        int keep = _mm256_movemask_ps(_mm256_cmp_ps(v, zero, _CMP_NEQ_OQ));
        uint32_t bins[8];
        _mm256_storeu_si256((__m256i *)bins, bin);
        for (int k = 0; k < 8; k++) {
            index[used] = (uint16_t)bins[k];
            used += (size_t)(keep >> k & 1);
        }
    }
    float lows[8], highs[8];
    _mm256_storeu_ps(lows, low);
    _mm256_storeu_ps(highs, high);
    qb_stats_found found = {_mm256_movemask_ps(inside) == 0xff, lows[0], highs[0], used};
    for (int k = 1; k < 8; k++) {
        found.min = lows[k] < found.min ? lows[k] : found.min;
        found.max = highs[k] > found.max ? highs[k] : found.max;
    }
    if (i == n) return found;
    const qb_stats_found rest = locate_portable(value + i, n - i, scale, index + used);
    found.inside &= rest.inside;
    found.min = rest.min < found.min ? rest.min : found.min;
    found.max = rest.max > found.max ? rest.max : found.max;
    found.used += rest.used;
    return found;
}

AVX512 static qb_stats_found locate_avx512(const float *value, size_t n, float scale,
                                           uint16_t *index) {
    /* Rounding down at 2^23, where floats are one apart, is floor; what the sum's bits are above
     * those of 2^23 is then the bin, and no bin for values outside, infinities and NaN. The fused
     * multiply-add has no product that could underflow. */
    const __m512 factor = _mm512_set1_ps(scale);
    const __m512 center = _mm512_set1_ps(8388608.0f + QB_STATS_ZERO_BIN);
    const __m512i base = _mm512_castps_si512(_mm512_set1_ps(8388608.0f));
    const __m512 first = _mm512_set1_ps(value[0]);
    __m512 low = first, high = first;
    __m512i largest = _mm512_setzero_si512();
    size_t used = 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 valid = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(valid, value + i);
        __mmask16 keep = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        uint32_t kept = keep;
        asm("" : "+r"(kept)); /* gcc 12 puts 16 bits aside and reads 32, under -fsanitize=thread */
        __m512i bin = _mm512_castps_si512(
            _mm512_fmadd_round_ps(v, factor, center, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
        bin = _mm512_sub_epi32(bin, base);
        largest = _mm512_max_epu32(largest, bin);
        low = _mm512_mask_min_ps(low, valid, low, v);
        high = _mm512_mask_max_ps(high, valid, high, v);
        /* Compressing in a register and storing all of it is faster than a compressing store. */
        __m256i packed = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(keep, bin));
        _mm256_storeu_si256((__m256i *)(index + used), packed);
        used += (size_t)_mm_popcnt_u32(kept);
    }
    return (qb_stats_found){_mm512_reduce_max_epu32(largest) < QB_STATS_BINS,
                            _mm512_reduce_min_ps(low), _mm512_reduce_max_ps(high), used};
}

#endif

static const qb_stats_path paths[] = {
#ifdef QB_STATS_X86
    {"avx512", has_avx512, locate_avx512},
    {"avx2", has_avx2, locate_avx2},
#endif
    {"portable", always, locate_portable},
};

const qb_stats_path *qb_stats_paths(int32_t *n) {
    *n = (int32_t)(sizeof paths / sizeof paths[0]);
    return paths;
}

/* Two passes over a chunk that lies in the first-level cache: extremes, then bins.
 *
 * The bin of v is floor(v scale) + QB_STATS_ZERO_BIN, exactly, also where v scale is below the
 * smallest float (a tiny negative value belongs to the bin left of zero). */
#include "kernels/stats_internal.h"

#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define QB_STATS_X86 1
#include <immintrin.h>
#endif

#define FIRST_NOT_FINITE 0x7f800000u /* bits of |v| from which on v is an infinity or NaN */

static bool always(void) { return true; }

static qb_stats_extent scan_portable(const float *value, size_t n) {
    float low = value[0], high = value[0];
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
        finite &= isfinite(value[i]) != 0;
    }
    return (qb_stats_extent){low, high, finite};
}

static size_t locate_portable(const float *value, size_t n, float scale, uint16_t *index) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)value[i] * scale; /* exact: a product of a float and a power of two */
        int32_t whole = (int32_t)x;
        whole -= x < whole;
        index[used] = (uint16_t)(whole + QB_STATS_ZERO_BIN);
        used += value[i] != 0.0f;
    }
    return used;
}

#ifdef QB_STATS_X86

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))

static bool has_avx2(void) { return __builtin_cpu_supports("avx2"); }

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

AVX2 static qb_stats_extent scan_avx2(const float *value, size_t n) {
    if (n < 8) return scan_portable(value, n);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256 low = _mm256_loadu_ps(value), high = low;
    __m256i largest = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8) {
        /* The last vector overlaps the one before: extremes do not mind. */
        __m256 v = _mm256_loadu_ps(value + (i + 8 <= n ? i : n - 8));
        low = _mm256_min_ps(low, v);
        high = _mm256_max_ps(high, v);
        largest = _mm256_max_epu32(largest, _mm256_and_si256(_mm256_castps_si256(v), magnitude));
    }
    float lows[8], highs[8];
    uint32_t bits[8];
    _mm256_storeu_ps(lows, low);
    _mm256_storeu_ps(highs, high);
    _mm256_storeu_si256((__m256i *)bits, largest);
    qb_stats_extent extent = {lows[0], highs[0], true};
    for (int i = 0; i < 8; i++) {
        extent.min = lows[i] < extent.min ? lows[i] : extent.min;
        extent.max = highs[i] > extent.max ? highs[i] : extent.max;
        extent.finite &= bits[i] < FIRST_NOT_FINITE;
    }
    return extent;
}

AVX2 static size_t locate_avx2(const float *value, size_t n, float scale, uint16_t *index) {
    const __m256 factor = _mm256_set1_ps(scale), zero = _mm256_setzero_ps();
    const __m256i center = _mm256_set1_epi32(QB_STATS_ZERO_BIN);
    size_t used = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(value + i);
        __m256 x = _mm256_mul_ps(v, factor);
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
    return used + locate_portable(value + i, n - i, scale, index + used);
}

AVX512 static qb_stats_extent scan_avx512(const float *value, size_t n) {
    if (n < 32) return scan_portable(value, n);
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512 low0 = _mm512_loadu_ps(value), high0 = low0, low1 = low0, high1 = low0;
    __m512i largest0 = _mm512_setzero_si512(), largest1 = largest0;
    for (size_t i = 0; i < n; i += 32) {
        const float *at = value + (i + 32 <= n ? i : n - 32); /* overlaps at the end */
        __m512 a = _mm512_loadu_ps(at), b = _mm512_loadu_ps(at + 16);
        low0 = _mm512_min_ps(low0, a);
        low1 = _mm512_min_ps(low1, b);
        high0 = _mm512_max_ps(high0, a);
        high1 = _mm512_max_ps(high1, b);
        largest0 = _mm512_max_epu32(largest0, _mm512_and_si512(_mm512_castps_si512(a), magnitude));
        largest1 = _mm512_max_epu32(largest1, _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    }
    return (qb_stats_extent){
        .min = _mm512_reduce_min_ps(_mm512_min_ps(low0, low1)),
        .max = _mm512_reduce_max_ps(_mm512_max_ps(high0, high1)),
        .finite = _mm512_reduce_max_epu32(_mm512_max_epu32(largest0, largest1)) < FIRST_NOT_FINITE};
}

AVX512 static size_t locate_avx512(const float *value, size_t n, float scale, uint16_t *index) {
    /* Rounding down at 2^23, where floats are one apart, is floor; the sum's low mantissa bits are
     * then the bin. The fused multiply-add has no product that could underflow. */
    const __m512 factor = _mm512_set1_ps(scale);
    const __m512 center = _mm512_set1_ps(8388608.0f + QB_STATS_ZERO_BIN);
    size_t used = 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 valid = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(valid, value + i);
        __mmask16 keep = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_OQ);
        __m512i bin = _mm512_castps_si512(
            _mm512_fmadd_round_ps(v, factor, center, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
        /* Compressing in a register and storing all of it is faster than a compressing store. */
        __m256i packed = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(keep, bin));
        _mm256_storeu_si256((__m256i *)(index + used), packed);
        used += (size_t)_mm_popcnt_u32(keep);
    }
    return used;
}

#endif

static const qb_stats_path paths[] = {
#ifdef QB_STATS_X86
    {"avx512", has_avx512, scan_avx512, locate_avx512},
    {"avx2", has_avx2, scan_avx2, locate_avx2},
#endif
    {"portable", always, scan_portable, locate_portable},
};

const qb_stats_path *qb_stats_paths(int32_t *n) {
    *n = (int32_t)(sizeof paths / sizeof paths[0]);
    return paths;
}

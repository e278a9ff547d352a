/* Pooling windows with AVX-512: a vector of channels stays in a register over the whole window. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "finish_simd.h"
#include "pool_internal.h"

#if QB_X86

/* One vector of maxima; LOAD takes a byte address. */
#define MAXIMUM(VECTOR, LOAD, MAX)                                                                 \
    const char *row = w->first + at;                                                               \
    VECTOR best = LOAD(row);                                                                       \
    for (int64_t y = 0; y < w->rows; y++, row += w->down) {                                        \
        const char *from = row;                                                                    \
        for (int64_t x = 0; x < w->columns; x++, from += w->right) best = MAX(best, LOAD(from));   \
    }

/* of two operands the second is the result when either is NaN, so NaN is kept from both sides */
#define MAX_FLOAT(best, v)                                                                         \
    _mm512_mask_mov_ps(_mm512_max_ps(v, best), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v)

QB_AVX512 static void max_f32(const qb_pool_window *w) {
    for (int64_t c = 0; c < w->channels; c += 16) {
        int64_t at = c * 4, left = w->channels - c;
        __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
#define LOAD(p) _mm512_maskz_loadu_ps(mask, p)
        MAXIMUM(__m512, LOAD, MAX_FLOAT)
#undef LOAD
        _mm512_mask_storeu_ps(w->out + at, mask, best);
    }
}

QB_AVX512 static void max_bf16(const qb_pool_window *w) {
    for (int64_t c = 0; c < w->channels; c += 16) {
        int64_t at = c * 2, left = w->channels - c;
        __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
#define LOAD(p) vf_load_bf16(p, mask)
        MAXIMUM(__m512, LOAD, MAX_FLOAT)
#undef LOAD
        vf_store_bf16(w->out + at, best, mask);
    }
}

QB_AVX512 static void look_up(const qb_pool *p, char *code, int64_t n) {
    for (int64_t i = 0; i < n; i++) code[i] = (char)p->table[(uint8_t)code[i]];
}

QB_AVX512 static void max_code(const qb_pool *p, const qb_pool_window *w) {
    bool is_signed = p->in_dtype == QB_DTYPE_S8;
    for (int64_t at = 0; at < w->channels; at += 64) {
        int64_t left = w->channels - at;
        __mmask64 mask = left >= 64 ? ~0ull : (1ull << left) - 1ull;
#define LOAD(p) _mm512_maskz_loadu_epi8(mask, p)
        if (is_signed) {
            MAXIMUM(__m512i, LOAD, _mm512_max_epi8)
            _mm512_mask_storeu_epi8(w->out + at, mask, best);
        } else {
            MAXIMUM(__m512i, LOAD, _mm512_max_epu8)
            _mm512_mask_storeu_epi8(w->out + at, mask, best);
        }
#undef LOAD
    }
    if (p->converts) look_up(p, w->out, w->channels);
}

void qb_pool_max_avx512(const qb_pool *pool, const qb_pool_window *window) {
    if (pool->in_dtype == QB_DTYPE_F32)
        max_f32(window);
    else if (pool->in_dtype == QB_DTYPE_BF16)
        max_bf16(window);
    else
        max_code(pool, window);
}

/* Sixteen reals of any input type. */
QB_AVX512 QB_FORCE_INLINE __m512 load_real(const qb_pool *p, const char *from, __mmask16 mask) {
    if (p->in_dtype == QB_DTYPE_F32) return _mm512_maskz_loadu_ps(mask, from);
    if (p->in_dtype == QB_DTYPE_BF16) return vf_load_bf16(from, mask);
    return qb_codes(from, p->in_dtype == QB_DTYPE_S8, _mm512_set1_epi32(p->zero),
                    _mm512_set1_ps(p->scale), mask);
}

QB_AVX512 void qb_pool_average_avx512(const qb_pool *pool, const qb_pool_window *w) {
    int64_t in_size = (int64_t)qb_dtype_size(pool->in_dtype);
    int64_t out_size = (int64_t)qb_dtype_size(pool->out_dtype);
    __m512d count = _mm512_set1_pd(w->count);
    for (int64_t c = 0; c < w->channels; c += 16) {
        int64_t left = w->channels - c;
        __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
        __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
        const char *row = w->first + c * in_size;
        for (int64_t y = 0; y < w->rows; y++, row += w->down) {
            const char *from = row;
            for (int64_t x = 0; x < w->columns; x++, from += w->right) {
                __m512 real = load_real(pool, from, mask);
                low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(real)));
                high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(real, 1)));
            }
        }
        __m512 mean = _mm512_castps256_ps512(_mm512_cvtpd_ps(_mm512_div_pd(low, count)));
        mean = _mm512_insertf32x8(mean, _mm512_cvtpd_ps(_mm512_div_pd(high, count)), 1);
        qb_finish_vector(&pool->finish, mean, mask, NULL, w->out + c * out_size, pool->out_dtype,
                         false, false);
    }
}

#endif

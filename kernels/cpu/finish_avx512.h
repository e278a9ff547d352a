/* The end of a fused step, sixteen values at a time. The same operations in the same order as
 * qb_finish_run, so the same bits but for activations with an exponential. */
#ifndef QB_CPU_FINISH_AVX512_H
#define QB_CPU_FINISH_AVX512_H

#include "act_avx512.h"

#if QB_X86
#include <immintrin.h>

/* Activations that bounds cannot express. */
QB_AVX512 static inline __m512 qb_act_avx512(qb_act act, __m512 v) {
    const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f);
    const __m512 alpha = _mm512_set1_ps(act.alpha), beta = _mm512_set1_ps(act.beta);
    switch (act.kind) {
    case QB_ACT_LEAKY_RELU:
        return _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, zero, _CMP_LT_OQ), alpha, v);
    case QB_ACT_HARD_SIGMOID:
        v = _mm512_add_ps(_mm512_mul_ps(alpha, v), beta);
        return _mm512_min_ps(one, _mm512_max_ps(zero, v));
    case QB_ACT_HARD_SWISH: {
        __m512 gate = _mm512_add_ps(_mm512_div_ps(v, _mm512_set1_ps(6.0f)), _mm512_set1_ps(0.5f));
        return _mm512_mul_ps(v, _mm512_min_ps(one, _mm512_max_ps(zero, gate)));
    }
    case QB_ACT_SIGMOID: return qb_logistic_avx512(one, v);
    case QB_ACT_SILU: return qb_logistic_avx512(v, v);
    case QB_ACT_TANH: return qb_tanh_avx512(v);
    case QB_ACT_GELU: return qb_gelu_avx512(v);
    case QB_ACT_GELU_TANH: return qb_gelu_tanh_avx512(v);
    default: break;
    }
    float lane[16];
    _mm512_storeu_ps(lane, v);
    for (int i = 0; i < 16; i++) lane[i] = qb_act_apply(act, lane[i]);
    return _mm512_loadu_ps(lane);
}

/* Sixteen 8-bit codes less their zero point as reals. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_codes_avx512(__m128i bytes, bool is_signed, __m512i zero,
                                                 __m512 scale) {
    __m512i code = is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_sub_epi32(code, zero)));
}

/* The end of integer steps when nothing but bounds is left: int32 codes without their zero point,
 * for four vectors at once, packed with saturation. s8 goes through u8 with 128 more. */
typedef struct qb_pack_avx512 {
    __m512i zero, low, high, flip; /* 16-bit, 16-bit, 16-bit, bytes */
} qb_pack_avx512;

QB_AVX512 QB_FORCE_INLINE qb_pack_avx512 qb_pack_of(const qb_finish *f) {
    int more = f->out == QB_DTYPE_S8 ? 128 : 0;
    qb_pack_avx512 pack;
    pack.zero = _mm512_set1_epi16((short)(f->zero + more));
    pack.low = _mm512_set1_epi16((short)(f->low_code + more));
    pack.high = _mm512_set1_epi16((short)(f->high_code + more));
    pack.flip = _mm512_set1_epi8(more ? (char)-128 : 0);
    return pack;
}

/* Of each 128-bit lane: four bytes of a, of b, of c, of d. */
QB_AVX512 QB_FORCE_INLINE __m512i qb_pack_codes(const qb_pack_avx512 *p, __m512i a, __m512i b,
                                                __m512i c, __m512i d) {
    __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), p->zero);
    __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), p->zero);
    ab = _mm512_min_epi16(p->high, _mm512_max_epi16(p->low, ab));
    cd = _mm512_min_epi16(p->high, _mm512_max_epi16(p->low, cd));
    return _mm512_xor_si512(_mm512_packus_epi16(ab, cd), p->flip);
}

/* Sixteen bf16 values, which are the upper halves of floats. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_load_bf16(const void *from, __mmask16 mask) {
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

/* To the nearest, ties to even; a NaN stays one. */
QB_AVX512 QB_FORCE_INLINE void qb_store_bf16(void *to, __mmask16 mask, __m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/* Residuals of the lanes in `mask`. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_residual_avx512(const qb_finish *f, const char *from,
                                                    __mmask16 mask) {
    if (f->residual == QB_DTYPE_F32) return _mm512_maskz_loadu_ps(mask, from);
    if (f->residual == QB_DTYPE_BF16) return qb_load_bf16(from, mask);
    return qb_codes_avx512(_mm_maskz_loadu_epi8(mask, from), f->residual == QB_DTYPE_S8,
                           _mm512_set1_epi32(f->residual_zero), _mm512_set1_ps(f->residual_scale));
}

/* `out`, `has_residual` and `has_act` repeat what is in `f` so that callers can make them
 * constants. */
QB_AVX512 QB_FORCE_INLINE void qb_finish_avx512(const qb_finish *f, __m512 v, __mmask16 mask,
                                                const char *residual, char *to, qb_dtype out,
                                                bool has_residual, bool has_act) {
    if (has_residual) {
        if (f->clamp_first)
            v = _mm512_min_ps(_mm512_set1_ps(f->first_high),
                              _mm512_max_ps(_mm512_set1_ps(f->first_low), v));
        if (has_act && f->act_first) v = qb_act_avx512(f->act, v);
        v = _mm512_add_ps(v, qb_residual_avx512(f, residual, mask));
    }
    if (has_act && !f->act_first) v = qb_act_avx512(f->act, v);
    if (out != QB_DTYPE_F32) v = _mm512_mul_ps(v, _mm512_set1_ps(f->inverse));
    /* NaN is the second operand, which these instructions return */
    v = _mm512_min_ps(_mm512_set1_ps(f->high), _mm512_max_ps(_mm512_set1_ps(f->low), v));
    if (out == QB_DTYPE_F32) {
        if (mask == 0xffff)
            _mm512_storeu_ps(to, v);
        else
            _mm512_mask_storeu_ps(to, mask, v);
        return;
    }
    if (out == QB_DTYPE_BF16) {
        qb_store_bf16(to, mask, v);
        return;
    }
    /* ordered with itself: not NaN, which becomes the zero point */
    __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    __m512i code = _mm512_maskz_cvtps_epi32(number, v);
    __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(code, _mm512_set1_epi32(f->zero)));
    if (mask == 0xffff)
        _mm_storeu_si128((__m128i *)(void *)to, bytes);
    else
        _mm_mask_storeu_epi8(to, mask, bytes);
}

/* qb_finish_run, sixteen at a time. */
QB_AVX512 static inline void qb_finish_run_avx512(const qb_finish *f, const float *real, int64_t n,
                                                  const void *residual, void *out) {
    const bool has_act = f->act.kind != QB_ACT_NONE;
    const size_t size = qb_dtype_size(f->out), residual_size = qb_dtype_size(f->residual);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1u);
        qb_finish_avx512(f, _mm512_maskz_loadu_ps(mask, real + i), mask,
                         residual ? (const char *)residual + (size_t)i * residual_size : NULL,
                         (char *)out + (size_t)i * size, f->out, residual != NULL, has_act);
    }
}

#endif
#endif

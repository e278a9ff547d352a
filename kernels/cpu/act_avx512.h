/* Activations with an exponential in them, sixteen values at a time, to a few units in the last
 * place of the result (of one, where a difference is taken). */
#ifndef QB_CPU_ACT_AVX512_H
#define QB_CPU_ACT_AVX512_H

#include "cpu_internal.h"

#if QB_X86
#include <immintrin.h>

/* e^x = 2^n e^r with |r| <= ln(2) / 2 and the Taylor polynomial of degree 7 for e^r, whose error is
 * below 2^-27. NaN stays, too large gives infinity, too small zero. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_exp_avx512(__m512 x) {
    const __m512 low = _mm512_set1_ps(-104.0f), high = _mm512_set1_ps(89.0f);
    x = _mm512_min_ps(high,
                      _mm512_max_ps(low, x)); /* the second operand is the one that NaN keeps */
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x); /* ln(2) in two parts */
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* numerator / (1 + e^-x): the logistic function of x, and SILU. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_logistic_avx512(__m512 numerator, __m512 x) {
    __m512 e = qb_exp_avx512(_mm512_sub_ps(_mm512_setzero_ps(), x));
    return _mm512_div_ps(numerator, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

/* 1 - 2 / (e^2x + 1); near zero, where that loses digits, the Taylor series up to x^15, whose error
 * is below 2^-26 of the result. */
QB_AVX512 QB_FORCE_INLINE __m512 qb_tanh_avx512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f);
    __m512 e = qb_exp_avx512(_mm512_add_ps(x, x));
    __m512 far = _mm512_sub_ps(one, _mm512_div_ps(two, _mm512_add_ps(e, one)));
    __m512 square = _mm512_mul_ps(x, x);
    __m512 near = _mm512_set1_ps(-929569.0f / 638512875);
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(21844.0f / 6081075));
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(-1382.0f / 155925));
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(62.0f / 2835));
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(-17.0f / 315));
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(2.0f / 15));
    near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(-1.0f / 3));
    near = _mm512_fmadd_ps(_mm512_mul_ps(near, square), x, x);
    __mmask16 is_near = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0.5f), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(far, is_near, near);
}

/* 0.5 x (1 + erf(x / sqrt 2)), where 1 - erf(z) = t (a1 + t (a2 + ...)) e^(-z^2), t = 1 / (1 + p z)
 * for z >= 0 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, error 1.5e-7). */
QB_AVX512 QB_FORCE_INLINE __m512 qb_gelu_avx512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f);
    __m512 z = _mm512_abs_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.6a09e6p-1f)));
    __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(_mm512_set1_ps(0.3275911f), z, one));
    __m512 p = _mm512_set1_ps(1.061405429f);
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-1.453152027f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.421413741f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-0.284496736f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.254829592f));
    p = _mm512_mul_ps(p, t);
    __m512 tail =
        _mm512_mul_ps(p, qb_exp_avx512(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z))));
    tail = _mm512_mul_ps(half, tail); /* the normal distribution's weight beyond |x| */
    __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    __m512 share = _mm512_mask_mov_ps(_mm512_sub_ps(one, tail), negative, tail);
    __m512 y = _mm512_mul_ps(x, share);
    /* minus infinity: 0 times infinity would be NaN */
    __mmask16 gone = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-40.0f), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(y, gone, _mm512_setzero_ps());
}

/* 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3) */
QB_AVX512 QB_FORCE_INLINE __m512 qb_gelu_tanh_avx512(__m512 x) {
    __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
    __m512 u = _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), cube, x);
    return qb_logistic_avx512(x, _mm512_mul_ps(_mm512_set1_ps(2 * 0.797884561f), u));
}

#endif
#endif

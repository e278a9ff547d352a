/* Activations with an exponential in them, a vector at a time, to a few units in the last
 * place of the result (of one, where a difference is taken). */
#ifndef QB_CPU_ACT_INTERNAL_H
#define QB_CPU_ACT_INTERNAL_H

#include "simd_internal.h"

#if QB_X86

/* e^x = 2^n e^r with |r| <= ln(2) / 2 and the polynomial of degree 6 for e^r that is nearest to it
 * (Lawson's iteration), whose error is below 2^-27. */

/* x / ln(2), rounded to the whole number n, as n + QB_WHOLE: a float whose lowest bits are those of
 * n + 127, as vf_power takes them. |x| below 2^21. */
#define QB_WHOLE 0x1.8000fep23f
QB_V vf qb_whole(vf x) { return vf_fma(x, vf_set(1.44269504f), vf_set(QB_WHOLE)); }
QB_V vf qb_exp_rest(vf x, vf whole) { /* x - n ln(2), with ln(2) in two parts */
    const vf n = vf_sub(whole, vf_set(QB_WHOLE));
    const vf r = vf_fnma(n, vf_set(0x1.62e4p-1f), x);
    return vf_fnma(n, vf_set(0x1.7f7d1cp-20f), r);
}
QB_V vf qb_exp_slope(vf r) { /* (e^r - 1 - r) / r^2 */
    vf p = vf_set(0x1.6db47ep-10f);
    p = vf_fma(p, r, vf_set(0x1.123b92p-7f));
    p = vf_fma(p, r, vf_set(0x1.55545ep-5f));
    p = vf_fma(p, r, vf_set(0x1.55548ep-3f));
    return vf_fma(p, r, vf_set(0.5f));
}
/* x from -88 to 89: beyond the range of normal numbers 0 and infinity. NaN stays. */
QB_V vf qb_exp(vf x) {
    const vf whole = qb_whole(x), r = qb_exp_rest(x, whole);
    const vf p = vf_fma(qb_exp_slope(r), r, vf_set(1.0f));
    return vf_mul(vf_fma(p, r, vf_set(1.0f)), vf_power(whole));
}

/* e^x of x below 89; 0 where it is below `far`, which is above -88. */
QB_V vf qb_exp_or_0(vf x, float far) {
    const vmask below = vf_less(x, vf_set(far));
    const vf zero = vf_set(0.0f);
    return vf_select(below, zero, qb_exp(vf_select(below, zero, x)));
}

/* numerator / (1 + e^-x): the logistic function of x, and SILU. */
QB_V vf qb_logistic(vf numerator, vf x) {
    /* the second operand is the one that NaN keeps */
    const vf bounded = vf_min(vf_set(88.0f), vf_max(vf_set(-89.0f), x));
    const vf e = qb_exp(vf_sub(vf_set(0.0f), bounded));
    return vf_div(numerator, vf_add(vf_set(1.0f), e));
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), which near zero loses no digits; up to 20, and below -20 as
 * there: -1 to the last place. */
QB_V vf qb_expm1(vf x) {
    x = vf_min(vf_set(20.0f), vf_max(vf_set(-20.0f), x));
    const vf whole = qb_whole(x), r = qb_exp_rest(x, whole), power = vf_power(whole);
    const vf p = vf_fma(vf_mul(qb_exp_slope(r), r), r, r);
    return vf_fma(power, p, vf_sub(power, vf_set(1.0f)));
}

/* m / (m + 2) with m = e^2x - 1; beyond 10 the result is 1. */
QB_V vf qb_tanh(vf x) {
    vf m = qb_expm1(vf_add(x, x));
    return vf_div(m, vf_add(m, vf_set(2.0f)));
}

/* erf, without the bound of its result: 4e-7 beyond 1 at most. */
QB_V vf qb_erf(vf x) {
    static const float p[] = QB_ERF_P, q[] = QB_ERF_Q;
    x = vf_min(vf_set(QB_ERF_BOUND), vf_max(vf_set(-QB_ERF_BOUND), x));
    const vf square = vf_mul(x, x);
    vf above = vf_set(p[0]), below = vf_set(q[0]);
    QB_UNROLL for (size_t i = 1; i < sizeof p / sizeof *p; i++) above =
        vf_fma(above, square, vf_set(p[i]));
    QB_UNROLL for (size_t i = 1; i < sizeof q / sizeof *q; i++) below =
        vf_fma(below, square, vf_set(q[i]));
    return vf_div(vf_mul(x, above), below);
}

/* 0.5 x (1 + erf(x / sqrt 2)); below -5.5, where a rounding of erf would count x times, 0. */
QB_V vf qb_gelu(vf x) {
    const vf half = vf_mul(vf_set(0.5f), x);
    const vf y = vf_fma(half, qb_erf(vf_mul(vf_set(0x1.6a09e6p-1f), x)), half);
    return vf_select(vf_less(x, vf_set(-5.5f)), vf_set(0.0f), y);
}

/* 0.5 x (1 + tanh(u)) = x / (1 + e^(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3) */
QB_V vf qb_gelu_tanh(vf x) {
    vf cube = vf_mul(vf_mul(x, x), x);
    vf u = vf_fma(vf_set(0.044715f), cube, x);
    return qb_logistic(x, vf_mul(vf_set(2 * 0.797884561f), u));
}

#endif
#endif

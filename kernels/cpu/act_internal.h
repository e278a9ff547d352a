/* Activations with an exponential in them, a vector at a time, to a few units in the last
 * place of the result (of one, where a difference is taken). */
#ifndef QB_CPU_ACT_INTERNAL_H
#define QB_CPU_ACT_INTERNAL_H

#include "simd_internal.h"

#if QB_X86

/* e^x = 2^n e^r with |r| <= ln(2) / 2 and the Taylor polynomial of degree 7 for e^r, whose error is
 * below 2^-27. NaN stays, too large gives infinity, too small zero. */
QB_V vf qb_exp_rest(vf x, vf n) { /* x - n ln(2), with ln(2) in two parts */
    vf r = vf_fnma(n, vf_set(0x1.62e4p-1f), x);
    return vf_fnma(n, vf_set(0x1.7f7d1cp-20f), r);
}
QB_V vf qb_exp_slope(vf r) { /* (e^r - 1 - r) / r^2 */
    vf p = vf_set(1.0f / 5040);
    p = vf_fma(p, r, vf_set(1.0f / 720));
    p = vf_fma(p, r, vf_set(1.0f / 120));
    p = vf_fma(p, r, vf_set(1.0f / 24));
    p = vf_fma(p, r, vf_set(1.0f / 6));
    return vf_fma(p, r, vf_set(0.5f));
}
QB_V vf qb_exp(vf x) {
    const vf low = vf_set(-104.0f), high = vf_set(89.0f);
    x = vf_min(high, vf_max(low, x)); /* the second operand is the one that NaN keeps */
    vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = qb_exp_rest(x, n);
    vf p = vf_fma(qb_exp_slope(r), r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    return vf_scale(p, n);
}

/* e^x; 0 where x is below `far`. */
QB_V vf qb_exp_or_0(vf x, float far) {
    const vmask below = vf_less(x, vf_set(far));
    const vf zero = vf_set(0.0f);
    return vf_select(below, zero, qb_exp(vf_select(below, zero, x)));
}

/* numerator / (1 + e^-x): the logistic function of x, and SILU. */
QB_V vf qb_logistic(vf numerator, vf x) {
    vf e = qb_exp(vf_sub(vf_set(0.0f), x));
    return vf_div(numerator, vf_add(vf_set(1.0f), e));
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), which near zero loses no digits; up to 20, and below -20 as
 * there: -1 to the last place. */
QB_V vf qb_expm1(vf x) {
    x = vf_min(vf_set(20.0f), vf_max(vf_set(-20.0f), x));
    vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = qb_exp_rest(x, n);
    vf p = vf_fma(vf_mul(qb_exp_slope(r), r), r, r);
    vf power = vf_power(n);
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

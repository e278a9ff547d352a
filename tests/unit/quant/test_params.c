/* Scale and zero point of a range. */
#include "qb_test.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "quant/quant.h"

static void ranges_map_onto_the_codes(void **state) {
    (void)state;
    static const struct {
        qb_act_scheme scheme;
        float lo, hi;
        double scale;
        int32_t zero;
    } rows[] = {
        {QB_SCHEME_U8_AFFINE, 0, 127.5f, 0.5, 0},
        {QB_SCHEME_U8_AFFINE, 3, 127.5f, 0.5, 0}, /* never negative: zero is in the range anyway */
        {QB_SCHEME_U8_AFFINE, -1, 1.55f, 0.01, 100},
        {QB_SCHEME_U8_AFFINE, -51, -20, 0.2, 255},
        {QB_SCHEME_U8_AFFINE, -127.5f, 127.5f, 1, 128}, /* 127.5 rounds to even */
        {QB_SCHEME_S8_AFFINE, 0, 127.5f, 0.5, -128},
        {QB_SCHEME_S8_AFFINE, -1, 1.55f, 0.01, -28},
        {QB_SCHEME_S8_AFFINE, -51, 0, 0.2, 127},
        {QB_SCHEME_S8_SYMMETRIC, 0, 127, 1, 0},
        {QB_SCHEME_S8_SYMMETRIC, -254, 10, 2, 0},
        {QB_SCHEME_U8_AFFINE, 0, 0, 1, 0},
        {QB_SCHEME_S8_AFFINE, 0, 0, 1, -128},
        {QB_SCHEME_S8_SYMMETRIC, 0, 0, 1, 0},
        {QB_SCHEME_U8_AFFINE, 0, FLT_TRUE_MIN, 1, 0}, /* too small to divide by */
        {QB_SCHEME_U8_AFFINE, -FLT_MAX, FLT_MAX, 2.0 * FLT_MAX / 255, 128},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float scale;
        int32_t zero;
        qb_affine_params((qb_range){rows[i].lo, rows[i].hi}, rows[i].scheme, 8, &scale, &zero);
        if (fabs((double)scale - rows[i].scale) > 1e-6 * rows[i].scale || zero != rows[i].zero)
            fail_msg("row %zu: got %g, %d, expected %g, %d", i, (double)scale, zero, rows[i].scale,
                     rows[i].zero);
    }
}

static void zero_is_exact_and_the_range_is_reached_within_half_a_step(void **state) {
    (void)state;
    static const int32_t low[] = {0, -128, -127}, high[] = {255, 127, 127};
    qb_rng rng;
    qb_rng_seed(&rng, 11);
    for (int i = 0; i < 30000; i++) {
        const qb_act_scheme scheme = (qb_act_scheme)(i % 3);
        const double size = exp2(qb_rng_uniform(&rng) * 200 - 100);
        qb_range r = {(float)((qb_rng_uniform(&rng) - 0.7) * size), 0};
        r.hi = r.lo + (float)(qb_rng_uniform(&rng) * size);
        float scale;
        int32_t zero;
        qb_affine_params(r, scheme, 8, &scale, &zero);
        assert_true(zero >= low[scheme] && zero <= high[scheme]);
        const double lo = fmin(r.lo, 0), hi = fmax(r.hi, 0), slack = 0.5001 * (double)scale;
        assert_true((low[scheme] - zero) * (double)scale <= lo + slack);
        assert_true((high[scheme] - zero) * (double)scale >= hi - slack);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranges_map_onto_the_codes),
    cmocka_unit_test(zero_is_exact_and_the_range_is_reached_within_half_a_step),
};

QB_TEST_MAIN(tests)

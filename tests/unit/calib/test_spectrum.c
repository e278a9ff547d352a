/* The histogram against a model that keeps every value, and the error measure against sums over the
 * values themselves. */
#include "qb_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "calib/spectrum.h"
#include "histograms.h"

#define HALF (QB_STATS_BINS / 2)

/* The definition in kernels/stats.h, value by value. */
static qb_stats *by_definition(const float *value, size_t n) {
    qb_stats *s = malloc(sizeof *s);
    qb_stats_init(s);
    for (size_t i = 0; i < n; i++) {
        if (isnan(value[i])) s->nan++;
        if (isinf(value[i])) (*(value[i] > 0 ? &s->pos_inf : &s->neg_inf))++;
        if (!isfinite(value[i])) continue;
        s->count++;
        s->zeros += value[i] == 0;
        s->min = fminf(s->min, value[i] + 0.0f);
        s->max = fmaxf(s->max, value[i] + 0.0f);
    }
    while (s->count > 0 && (s->min < -ldexp(1, s->exponent) || s->max >= ldexp(1, s->exponent)))
        s->exponent++;
    for (size_t i = 0; i < n; i++)
        if (isfinite(value[i]))
            s->bin[(int)floor(ldexp((double)value[i], -s->exponent) * HALF) + HALF]++;
    return s;
}

static float odd_value(qb_rng *rng) {
    static const float special[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 1, -1, 1e-40f, -1e-40f};
    const uint64_t kind = qb_rng_below(rng, 16);
    if (kind < 9) return special[kind];
    return (float)(qb_rng_normal(rng) * exp2((double)qb_rng_below(rng, 24) - 12));
}

/* Any order, in pieces of any size, merged in any order. */
static void histogram_is_that_of_the_definition(void **state) {
    (void)state;
    enum { N = 3000, TRIALS = 40 };
    float *value = malloc(N * sizeof *value);
    qb_stats *whole = malloc(sizeof *whole), *part = malloc(sizeof *part);
    qb_rng rng;
    qb_rng_seed(&rng, 8);
    for (int trial = 0; trial < TRIALS; trial++) {
        const size_t n = 1 + (size_t)qb_rng_below(&rng, N);
        for (size_t i = 0; i < n; i++) value[i] = odd_value(&rng);
        qb_stats *expected = by_definition(value, n);
        for (size_t i = n - 1; i > 0; i--) { /* another order */
            const size_t k = (size_t)qb_rng_below(&rng, i + 1);
            const float swap = value[i];
            value[i] = value[k];
            value[k] = swap;
        }
        qb_stats_init(whole);
        for (size_t at = 0; at < n;) {
            const size_t left = n - at, piece = 1 + (size_t)qb_rng_below(&rng, left);
            qb_stats_init(part);
            qb_stats_add(part, value + at, piece);
            if (trial % 2) {
                qb_stats_merge(whole, part);
            } else {
                qb_stats_merge(part, whole);
                memcpy(whole, part, sizeof *whole);
            }
            at += piece;
        }
        assert_memory_equal(whole, expected, sizeof *whole);
        free(expected);
    }
    free(part);
    free(whole);
    free(value);
}

static qb_spectrum *spectrum_of(const qb_stats *stats) {
    qb_spectrum *s = malloc(sizeof *s);
    qb_spectrum_init(stats, s);
    return s;
}

/* Against every value's own error, for ranges from a tenth of what was seen to all of it. Integers
 * are left out: they all lie at the left ends of their bins. */
static void error_is_that_of_the_values(void **state) {
    (void)state;
    for (int shape = 0; shape < DATA_COUNT; shape++) {
        if (shape == DATA_BYTES || shape == DATA_RELU6) continue;
        float *value = data_make((shape_of_data)shape, 1);
        qb_stats *stats = data_stats(value, N_DATA);
        qb_spectrum *s = spectrum_of(stats);
        for (int k = 1; k <= 10; k++) {
            const qb_range r = {stats->min * (float)k / 10, stats->max * (float)k / 10};
            qb_range_quality q;
            qb_range_quality_of(s, r, false, &q);
            const double exact = data_sqnr(value, N_DATA, r.lo, r.hi);
            if (fabs(q.sqnr_db - exact) > 0.1)
                fail_msg("data %d, %d/10: %.3f dB, exactly %.3f dB", shape, k, q.sqnr_db, exact);
            int64_t outside = 0;
            for (int i = 0; i < N_DATA; i++)
                outside += value[i] < fminf(r.lo, 0) || value[i] > fmaxf(r.hi, 0);
            assert_true(fabs(q.saturated - (double)outside / N_DATA) < 2e-3);
        }
        free(s);
        free(stats);
        free(value);
    }
}

static void full_range_saturates_nothing(void **state) {
    (void)state;
    const float value[] = {-3, 0, 0, 0.5f, 7};
    qb_stats *stats = data_stats(value, 5);
    qb_spectrum *s = spectrum_of(stats);
    qb_range_quality q;
    qb_range_quality_of(s, (qb_range){-3, 7}, false, &q);
    assert_true(q.saturated == 0);
    assert_true(fabs(q.unused - 252.0 / 256) < 1e-9); /* four quantized values are used */
    qb_range_quality_of(s, (qb_range){-1, 7}, false, &q);
    assert_true(fabs(q.saturated - 0.2) < 1e-9);
    qb_range_quality_of(s, (qb_range){0, 0}, false, &q);
    assert_true(fabs(q.saturated - 0.6) < 1e-9 && fabs(q.sqnr_db) < 1e-9);
    free(s);
    free(stats);
}

static void grids_are_those_of_the_quantizer(void **state) {
    (void)state;
    const float value[] = {-1, 3};
    qb_stats *stats = data_stats(value, 2);
    qb_spectrum *s = spectrum_of(stats);
    const qb_grid affine = qb_grid_of(s, (qb_range){-1, 3}, false);
    assert_true(fabs(affine.step * s->width - 4.0 / 255) < 1e-12);
    assert_int_equal(affine.zero, 64); /* 63.75 */
    const qb_grid symmetric = qb_grid_of(s, (qb_range){-1, 3}, true);
    assert_true(fabs(symmetric.step * s->width - 3.0 / 127) < 1e-12);
    assert_int_equal(symmetric.zero, 0);
    assert_int_equal(symmetric.low, -127);
    free(s);
    free(stats);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(histogram_is_that_of_the_definition),
    cmocka_unit_test(error_is_that_of_the_values),
    cmocka_unit_test(full_range_saturates_nothing),
    cmocka_unit_test(grids_are_those_of_the_quantizer),
};

QB_TEST_MAIN(tests)

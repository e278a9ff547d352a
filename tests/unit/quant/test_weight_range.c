/* Ranges of weights against the definition: every bound tried, every weight divided and rounded. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "small_graph.h"

enum { N = 1153, SHAPES = 6 }; /* a prime: the partial sums do not come out even */

static const qb_weight_range *range_of(const char *name) {
    qb_ctx cx;
    const qb_weight_range *range = NULL;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_weight_range_find(&cx, name, &range));
    return range;
}

static float most_of(const float *w, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(w[i]));
    return most;
}

/* Normal, heavy tails, one outlier, few values, all equal, one large and tiny others. */
static void fill(float *w, int shape, uint64_t seed) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int i = 0; i < N; i++) {
        const double normal = qb_rng_normal(&rng), even = qb_rng_uniform(&rng);
        const double value[SHAPES] = {
            normal, normal * normal * normal, i == 17 ? 40 : normal, floor(even * 5) - 2,
            0.37,   i == 3 ? -1 : even * 1e-4};
        w[i] = (float)value[shape];
    }
}

static double error_of(const float *w, int64_t n, double bound) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double code = fmax(-127, fmin(127, nearbyint((double)w[i] * 127 / bound)));
        const double error = (double)w[i] - code * bound / 127;
        sum += error * error;
    }
    return sum;
}

static void minmax_clips_nothing(void **state) {
    (void)state;
    float w[N];
    for (int shape = 0; shape < SHAPES; shape++) {
        fill(w, shape, 1);
        assert_true(range_of("minmax")->bound(w, N) == most_of(w, N));
    }
}

static void mse_has_the_least_error_of_all_steps(void **state) {
    (void)state;
    const qb_weight_range *mse = range_of("mse");
    float w[N];
    int clipped = 0;
    for (int trial = 0; trial < 30; trial++) {
        const int64_t n = trial < 18 ? N : 9;
        fill(w, trial % SHAPES, (uint64_t)trial);
        const double most = (double)most_of(w, n);
        double least = INFINITY;
        for (int k = 1; k <= 128; k++) least = fmin(least, error_of(w, n, most * k / 128));
        const float bound = mse->bound(w, n);
        assert_true(bound > 0 && (double)bound <= most);
        /* Single precision may take another of two that are as good. */
        assert_true(error_of(w, n, (double)bound) <= least * (1 + 1e-5) + 1e-14);
        clipped += (double)bound < most;
    }
    assert_true(clipped >= 5); /* otherwise this compared minmax with itself */
}

static void mse_follows_powers_of_two_exactly(void **state) {
    (void)state;
    const qb_weight_range *mse = range_of("mse");
    float w[N], scaled[N];
    for (int shape = 0; shape < SHAPES; shape++)
        for (int e = -60; e <= 60; e += 20) {
            fill(w, shape, 5);
            for (int i = 0; i < N; i++) scaled[i] = ldexpf(w[i], e);
            assert_true(mse->bound(scaled, N) == ldexpf(mse->bound(w, N), e));
        }
}

static void nothing_to_search_in_nothing(void **state) {
    (void)state;
    static const float zero[3], tiny[] = {FLT_MIN, 0, -2 * FLT_MIN}, huge[] = {FLT_MAX, -1, 0};
    const qb_weight_range *mse = range_of("mse");
    assert_true(mse->bound(zero, 3) == 0);
    assert_true(mse->bound(tiny, 3) == 2 * FLT_MIN);
    assert_true(mse->bound(huge, 3) == FLT_MAX);
    assert_true(mse->bound(zero, 0) == 0);
}

/* The outlier of the first channel is clipped, the second channel keeps its range. */
static void channels_are_searched_apart(void **state) {
    (void)state;
    enum { K = 4000 };
    float *w = calloc(2 * K, sizeof *w);
    qb_rng rng;
    qb_rng_seed(&rng, 3);
    for (int i = 0; i < 2 * K; i++) w[i] = (float)(qb_rng_normal(&rng) * 0.1);
    w[5] = 1.1f;
    for (int i = K; i < 2 * K; i++) w[i] = i & 1 ? 0.5f : -0.25f;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x4000x1x1");
    small_output(&s, NODE(&s, "Conv", "y", x, small_constant(&s, "w", "2x4000x1x1", w)));
    small_range(&s, "x", 0, 2.55f);
    const qb_weight_range *const mse = range_of("mse");
    small_quantize(&s, &(qb_quant_options){.weights = mse});
    const qb_value *q = small_value(&s, "w_quantized");
    const float expected[] = {mse->bound(w, K) / 127, mse->bound(w + K, K) / 127};
    assert_floats(q->q.scale, expected, 2, 1e-6f, 0);
    assert_true(q->q.scale[0] < 1.1f / 127);
    assert_int_equal(((const int8_t *)q->data)[5], 127);
    small_quantize(&s, NULL);
    static const float whole[] = {1.1f / 127, 0.5f / 127};
    assert_floats(small_value(&s, "w_quantized")->q.scale, whole, 2, 1e-6f, 0);
    small_release(&s);
    free(w);
}

static void unknown_names_list_the_known_ones(void **state) {
    (void)state;
    qb_ctx cx;
    const qb_weight_range *range = NULL;
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_weight_range_find(&cx, "entropy", &range), QB_STATUS_USAGE);
    assert_message(&cx, "'entropy': expected minmax, mse");
    assert_null(range);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(minmax_clips_nothing),
    cmocka_unit_test(mse_has_the_least_error_of_all_steps),
    cmocka_unit_test(mse_follows_powers_of_two_exactly),
    cmocka_unit_test(nothing_to_search_in_nothing),
    cmocka_unit_test(channels_are_searched_apart),
    cmocka_unit_test(unknown_names_list_the_known_ones),
};
QB_TEST_MAIN(tests)

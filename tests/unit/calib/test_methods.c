/* The calibration methods on distributions whose good ranges are known. */
#include "qb_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "calib/calib.h"
#include "histograms.h"

static qb_range choose(const char *method, const qb_stats *stats) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_method_choice choice;
    qb_range range;
    assert_ok(&cx, qb_method_parse(&cx, method, &choice));
    const qb_observed seen = {.stats = stats};
    assert_ok(&cx, choice.method->range(&cx, &seen, &choice, &range));
    if (!(range.lo >= stats->min && range.lo <= range.hi && range.hi <= stats->max))
        fail_msg("%s: [%g, %g] is not inside [%g, %g]", method, (double)range.lo, (double)range.hi,
                 (double)stats->min, (double)stats->max);
    return range;
}

static qb_range range_of(const char *method, shape_of_data shape, float factor) {
    float *value = data_make(shape, factor);
    qb_stats *stats = data_stats(value, N_DATA);
    qb_range range = choose(method, stats);
    free(stats);
    free(value);
    return range;
}

static double quality(const char *method, shape_of_data shape) {
    float *value = data_make(shape, 1);
    qb_stats *stats = data_stats(value, N_DATA);
    qb_range range = choose(method, stats);
    double db = data_sqnr(value, N_DATA, range.lo, range.hi);
    free(stats);
    free(value);
    return db;
}

static qb_range range_of_values(const char *method, const float *value, size_t n) {
    qb_stats *stats = data_stats(value, n);
    qb_range range = choose(method, stats);
    free(stats);
    return range;
}

static void assert_range(qb_range range, double lo, double hi, double tolerance) {
    if (fabs(range.lo - lo) > tolerance || fabs(range.hi - hi) > tolerance)
        fail_msg("range [%g, %g], expected [%g, %g]", (double)range.lo, (double)range.hi, lo, hi);
}

static void minmax_keeps_everything(void **state) {
    (void)state;
    const float value[] = {-1.25f, 0, 3, 120.5f};
    assert_range(range_of_values("minmax", value, 4), -1.25, 120.5, 0);
    assert_range(range_of_values("minmax", value + 2, 2), 3, 120.5, 0);
}

/* 1000 values 0.5, 1.5, ... and P = 90: each tail loses 50 values. */
static void percentile_cuts_half_of_the_rest_from_each_tail(void **state) {
    (void)state;
    float value[1000];
    for (int i = 0; i < 1000; i++) value[i] = (float)i - 499.5f;
    assert_range(range_of_values("percentile:90", value, 1000), -450, 450, 0.6);
    assert_range(range_of_values("percentile:99.9", value, 1000), -499.5, 499.5, 0.6);
    assert_range(range_of_values("percentile:100", value, 1000), -499.5, 499.5, 0);
    for (int i = 0; i < 1000; i++) value[i] = (float)i + 0.5f;
    assert_range(range_of_values("percentile:90", value, 1000), 0.5, 950, 0.6);
    for (int i = 0; i < 1000; i++) value[i] = -(float)i - 0.5f;
    assert_range(range_of_values("percentile:90", value, 1000), -950, -0.5, 0.6);
}

static void percentile_interpolates_inside_a_bin(void **state) {
    (void)state;
    /* 1 stretches the range so that all the small values share the bin [0, 2^-12 * 2). */
    float value[1001];
    for (int i = 0; i < 1000; i++) value[i] = 1e-4f;
    value[1000] = 1;
    const double width = 2.0 / 4096;
    assert_range(range_of_values("percentile:50", value, 1001), 1e-4, width * 0.75 * 1.001, 1e-7);
}

static void percentile_clips_an_outlier(void **state) {
    (void)state;
    qb_range range = range_of("percentile", DATA_OUTLIER, 1);
    assert_true(range.hi < 15 && range.hi > 6);
    assert_true(range.lo > -15 && range.lo < -6);
}

static void entropy_clips_an_outlier_but_not_the_signal(void **state) {
    (void)state;
    qb_range range = range_of("entropy", DATA_OUTLIER, 1);
    qb_range without = range_of("entropy", DATA_LAPLACE, 1);
    assert_true(range.hi < 15 && range.hi > 7);
    assert_true(range.lo > -15 && range.lo < -7);
    assert_range(range, without.lo, without.hi, 3);
}

/* Both ends equally far from zero where both clip; one-sided data keeps its one side. */
static void symmetric_entropy_has_ends_equally_far_from_zero(void **state) {
    (void)state;
    const qb_range both = range_of("entropy:symmetric", DATA_OUTLIER, 1);
    assert_true(both.hi < 15 && both.hi > 7 && both.lo == -both.hi);
    const qb_range right = range_of("entropy:symmetric", DATA_RELU, 1);
    assert_true(right.lo == 0 && right.hi > 0);
    assert_range(range_of("entropy:symmetric", DATA_UNIFORM, 1), -3, 5, 0.02);
}

static void entropy_keeps_the_full_range_of_uniform_data(void **state) {
    (void)state;
    qb_range range = range_of("entropy", DATA_UNIFORM, 1);
    assert_range(range, -3, 5, 0.02);
}

static void entropy_keeps_spikes_at_the_ends_and_exact_grids(void **state) {
    (void)state;
    assert_range(range_of("entropy", DATA_RELU6, 1), 0, 6, 0);
    assert_range(range_of("entropy", DATA_BYTES, 1), 0, 255, 0);
}

/* Methods that let the number of values near zero outvote the signal lose 15 dB on these. */
static void entropy_does_not_collapse_onto_the_values_near_zero(void **state) {
    (void)state;
    static const shape_of_data shapes[] = {DATA_GAUSS,   DATA_RELU,  DATA_LAPLACE,
                                           DATA_UNIFORM, DATA_LEAKY, DATA_HEAVY};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double entropy = quality("entropy", shapes[i]), minmax = quality("minmax", shapes[i]);
        if (entropy < minmax - 0.5)
            fail_msg("data %d: entropy %.2f dB, minmax %.2f dB", (int)shapes[i], entropy, minmax);
    }
}

static void entropy_is_not_misled_by_few_samples(void **state) {
    (void)state;
    static const size_t counts[] = {200, 1000, 10000};
    for (int shape = 0; shape < DATA_COUNT; shape++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            if (shape == DATA_OUTLIER) continue;
            const size_t n = counts[i];
            float *value = data_make((shape_of_data)shape, 1);
            qb_range range = range_of_values("entropy", value, n);
            qb_range full = range_of_values("minmax", value, n);
            double entropy = data_sqnr(value, n, range.lo, range.hi);
            double minmax = data_sqnr(value, n, full.lo, full.hi);
            if (entropy < minmax - 0.5)
                fail_msg("data %d, %zu values: entropy %.2f dB, minmax %.2f dB", shape, n, entropy,
                         minmax);
            free(value);
        }
}

/* Data of a few dozen values, each seen many times, as flat images give: a code that covers several
 * of them loses much by divergence and nothing by error. The veto holds on anything. */
static void entropy_costs_at_most_one_bit(void **state) {
    (void)state;
    enum { N = 20000 };
    float *value = malloc(N * sizeof *value);
    qb_rng rng;
    qb_rng_seed(&rng, 21);
    for (int trial = 0; trial < 60; trial++) {
        float spike[64];
        const int n_spikes = 3 + (int)qb_rng_below(&rng, 61);
        const double floor = trial % 2 ? 0 : -1;
        for (int i = 0; i < n_spikes; i++)
            spike[i] = (float)(fmax(qb_rng_normal(&rng), floor) * exp(1.5 * qb_rng_normal(&rng)));
        for (int i = 0; i < N; i++) /* the first ones are seen most */
            value[i] = spike[qb_rng_below(&rng, 1 + qb_rng_below(&rng, (uint64_t)n_spikes))];
        qb_range range = range_of_values("entropy", value, N);
        qb_range full = range_of_values("minmax", value, N);
        double entropy = data_sqnr(value, N, range.lo, range.hi);
        double minmax = data_sqnr(value, N, full.lo, full.hi);
        /* 6.02 dB, and what counting by bins does not see. */
        if (entropy < minmax - 7 && entropy < 50)
            fail_msg("trial %d: entropy %.2f dB, minmax %.2f dB", trial, entropy, minmax);
    }
    free(value);
}

static void entropy_ignores_how_many_zeros_there_are(void **state) {
    (void)state;
    float *value = calloc(2 * N_DATA, sizeof *value);
    float *some = data_make(DATA_RELU, 1);
    memcpy(value, some, N_DATA * sizeof *value);
    qb_range few = range_of_values("entropy", value, N_DATA);
    qb_range many = range_of_values("entropy", value, 2 * N_DATA);
    assert_range(many, few.lo, few.hi, 0);
    free(some);
    free(value);
}

static void ranges_scale_exactly_with_powers_of_two(void **state) {
    (void)state;
    static const char *const methods[] = {"minmax",
                                          "percentile",
                                          "percentile:99:one-sided",
                                          "entropy",
                                          "mse",
                                          "mse:symmetric",
                                          "lp",
                                          "aciq",
                                          "entropy:nvidia",
                                          "entropy:ort",
                                          "entropy:ncnn",
                                          "entropy:ppq",
                                          "entropy:symmetric"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (int shape = 0; shape < DATA_COUNT; shape++) {
            qb_range one = range_of(methods[m], (shape_of_data)shape, 1);
            for (int k = -10; k <= 20; k += 15) {
                qb_range scaled = range_of(methods[m], (shape_of_data)shape, ldexpf(1, k));
                assert_true(scaled.lo == ldexpf(one.lo, k) && scaled.hi == ldexpf(one.hi, k));
            }
        }
}

static void mirrored_data_gives_a_mirrored_entropy_range(void **state) {
    (void)state;
    /* One-sided data: the search is the same from both sides. (Two-sided data is searched from the
     * right first.) Values are kept off the bins' edges, which belong to one side only. */
    float *value = data_make(DATA_RELU, 1);
    qb_range right = range_of_values("entropy", value, N_DATA);
    for (int i = 0; i < N_DATA; i++) value[i] = -value[i];
    qb_range left = range_of_values("entropy", value, N_DATA);
    assert_range(left, -right.hi, -right.lo, 0.002);
    free(value);
}

static void degenerate_data_gives_what_was_seen(void **state) {
    (void)state;
    static const char *const methods[] = {"minmax",  "percentile", "percentile:99:one-sided",
                                          "entropy", "mse",        "mse:symmetric",
                                          "lp:3",    "aciq",       "entropy:symmetric"};
    const float zeros[] = {0, -0.0f, 0};
    const float one[] = {2.5f};
    const float tiny[] = {FLT_TRUE_MIN, -FLT_TRUE_MIN, 0};
    const float huge[] = {FLT_MAX, -FLT_MAX, 1};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        assert_range(range_of_values(methods[m], zeros, 3), 0, 0, 0);
        assert_range(range_of_values(methods[m], one, 1), 2.5, 2.5, 0);
        qb_range range = range_of_values(methods[m], tiny, 3);
        assert_true(isfinite(range.lo) && isfinite(range.hi));
        range = range_of_values(methods[m], huge, 3);
        assert_true(isfinite(range.lo) && isfinite(range.hi));
    }
}

/* Ranges stay in what was seen (choose() checks it) whatever a tool's definition says. */
static void every_method_survives_crafted_data(void **state) {
    (void)state;
    static const char *const methods[] = {"minmax",
                                          "percentile",
                                          "percentile:50",
                                          "percentile:99.9:one-sided",
                                          "entropy",
                                          "entropy:nvidia",
                                          "entropy:ort",
                                          "entropy:ncnn",
                                          "entropy:ppq",
                                          "mse",
                                          "mse:symmetric",
                                          "lp:0.5",
                                          "lp:8",
                                          "aciq",
                                          "aciq:gauss",
                                          "aciq:laplace",
                                          "entropy:symmetric"};
    float value[4000];
    qb_rng rng;
    qb_rng_seed(&rng, 5);
    for (int kind = 0; kind < 6; kind++) {
        for (int i = 0; i < 4000; i++) {
            const float g = (float)qb_rng_normal(&rng);
            switch (kind) {
            case 0: value[i] = i % 10 ? 0 : fabsf(g); break;    /* ReLU: a spike at zero */
            case 1: value[i] = -7; break;                       /* a single value */
            case 2: value[i] = -1 - fabsf(g); break;            /* all negative */
            case 3: value[i] = i == 1234 ? 1e6f : g; break;     /* a huge outlier */
            case 4: value[i] = 100 + 1e-3f * g; break;          /* far from zero and narrow */
            default: value[i] = i % 2 ? 1e-38f : -1e38f; break; /* both ends of the scale */
            }
        }
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            const qb_range range = range_of_values(methods[m], value, 4000);
            assert_true(isfinite(range.lo) && isfinite(range.hi));
        }
    }
}

/* Errors counted value by value: no other window of the grid that was searched is better. */
static void mse_is_the_least_squared_error(void **state) {
    (void)state;
    for (int shape = 0; shape < DATA_COUNT; shape++) {
        float *value = data_make((shape_of_data)shape, 1);
        qb_stats *stats = data_stats(value, N_DATA);
        const qb_range mse = choose("mse", stats);
        const double found = data_sqnr(value, N_DATA, mse.lo, mse.hi);
        const bool signed_data = stats->min < 0;
        for (int k = 100; k >= 10; k -= 3) {
            const float hi = stats->max * (float)k / 100;
            const float lo = signed_data ? fmaxf(stats->min, stats->min * (float)k / 100) : 0;
            const double other = data_sqnr(value, N_DATA, lo, hi);
            if (other > found + 0.05 && other < 60)
                fail_msg("data %d: [%g, %g] has %.2f dB, mse's [%g, %g] %.2f dB", shape, (double)lo,
                         (double)hi, other, (double)mse.lo, (double)mse.hi, found);
        }
        free(stats);
        free(value);
    }
}

static void mse_symmetric_is_symmetric_and_wider_than_needed_nowhere(void **state) {
    (void)state;
    const qb_range gauss = range_of("mse:symmetric", DATA_GAUSS, 1);
    assert_range(gauss, -gauss.hi, gauss.hi, 0);
    assert_true(gauss.hi > 3.7 && gauss.hi < 4.3); /* of a Gaussian: 3.92 sigma */
    const qb_range outlier = range_of("mse:symmetric", DATA_OUTLIER, 1);
    assert_true(outlier.hi < 60); /* 120 would cost every other value its precision */
}

/* Source: the table in the head of aciq.c. */
static void aciq_knows_gauss_and_laplace(void **state) {
    (void)state;
    assert_range(range_of("aciq", DATA_GAUSS, 1), -3.92, 3.92, 0.05);
    assert_range(range_of("aciq", DATA_LAPLACE, 1), -9.9, 9.9, 0.15);
    const qb_range all = range_of("minmax", DATA_GAUSS, 1); /* a Laplace wants +-7.9 */
    assert_range(range_of("aciq:laplace", DATA_GAUSS, 1), all.lo, all.hi, 0);
    assert_range(range_of("aciq:gauss", DATA_GAUSS, 8), -31.4, 31.4, 0.4);
}

static void a_larger_power_clips_less(void **state) {
    (void)state;
    double before = 0;
    static const char *const methods[] = {"lp:1", "lp:2", "lp:2.4", "lp:4", "lp:8"};
    for (int i = 0; i < 5; i++) {
        const qb_range range = range_of(methods[i], DATA_HEAVY, 1);
        assert_true(range.hi >= before);
        before = range.hi;
    }
    const qb_range mse = range_of("mse", DATA_LAPLACE, 1), two = range_of("lp:2", DATA_LAPLACE, 1);
    assert_range(two, mse.lo, mse.hi, 0.5);
}

static void one_sided_percentile_is_of_the_magnitudes(void **state) {
    (void)state;
    float value[1000];
    for (int i = 0; i < 1000; i++) value[i] = (i % 2 ? -1.0f : 1.0f) * ((float)i + 0.5f);
    assert_range(range_of_values("percentile:90:one-sided", value, 1000), -900, 900, 0.6);
    for (int i = 0; i < 1000; i++) value[i] = i < 990 ? (float)i / 100 : -(float)i;
    assert_range(range_of_values("percentile:99:one-sided", value, 1000), -9.9, 9.9, 0.3);
}

/* In the order of the samples, starting from the first that has values. */
static void moving_average_goes_by_sample(void **state) {
    (void)state;
    const float low[] = {INFINITY, -4, 0, -8}, high[] = {-INFINITY, 2, 10, 4};
    const float value[] = {-8, 10};
    qb_stats *stats = data_stats(value, 2);
    const qb_observed seen = {
        .stats = stats, .sample_min = low, .sample_max = high, .n_samples = 4};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_method_choice choice;
    qb_range range;
    assert_ok(&cx, qb_method_parse(&cx, "moving-average:0.5", &choice));
    assert_ok(&cx, choice.method->range(&cx, &seen, &choice, &range));
    assert_range(range, -5, 5, 0);
    assert_ok(&cx, qb_method_parse(&cx, "moving-average:1", &choice));
    assert_ok(&cx, choice.method->range(&cx, &seen, &choice, &range));
    assert_range(range, -8, 4, 0);
    free(stats);
}

static void auto_takes_the_best_and_never_less_than_minmax(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int shape = 0; shape < DATA_COUNT; shape++) {
        float *value = data_make((shape_of_data)shape, 1);
        qb_stats *stats = data_stats(value, N_DATA);
        const qb_range mse = choose("mse", stats);
        const qb_range candidates[] = {choose("percentile:50", stats), mse};
        qb_method_choice choice;
        assert_ok(&cx, qb_method_parse(&cx, "auto", &choice));
        for (int n = 0; n <= 2; n++) {
            qb_range range;
            const qb_observed seen = {.stats = stats, .candidate = candidates, .n_candidates = n};
            assert_ok(&cx, choice.method->range(&cx, &seen, &choice, &range));
            const double got = data_sqnr(value, N_DATA, range.lo, range.hi);
            const double full = data_sqnr(value, N_DATA, stats->min, stats->max);
            assert_true(got >= full - 0.05 || got > 55); /* counted by bins and value by value */
            if (n == 2)
                assert_true(got >= data_sqnr(value, N_DATA, mse.lo, mse.hi) - 0.05 || got > 55);
        }
        free(stats);
        free(value);
    }
}

static void spelling_is_parsed_and_canonical(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"entropy", "entropy"},
                                          {"minmax", "minmax"},
                                          {"percentile", "percentile:99.99"},
                                          {"percentile:99.90", "percentile:99.9"},
                                          {"percentile:100", "percentile:100"},
                                          {"percentile:one-sided", "percentile:99.99:one-sided"},
                                          {"percentile:99:two-sided", "percentile:99"},
                                          {"percentile:99:one-sided", "percentile:99:one-sided"},
                                          {"entropy:amplitude", "entropy"},
                                          {"entropy:nvidia", "entropy:nvidia"},
                                          {"mse:symmetric", "mse:symmetric"},
                                          {"moving-average", "moving-average:0.01"},
                                          {"lp", "lp:2.4"},
                                          {"auto", "auto"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_method_choice choice;
        char text[QB_METHOD_TEXT];
        assert_ok(&cx, qb_method_parse(&cx, rows[i][0], &choice));
        assert_string_equal(qb_method_text(&choice, text, sizeof text), rows[i][1]);
    }
}

static void bad_spelling_says_what_was_expected(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"kl", "percentile[:P][:two-sided|one-sided], minmax, moving-average[:C], mse"},
        {"entrop", "unknown calibration method 'entrop'"},
        {"", "unknown calibration method ''"},
        {"minmax:3", "takes no argument, got '3'"},
        {"entropy:3", "expected amplitude, symmetric, nvidia, ort, ncnn, ppq"},
        {"entropy:ort:ort", "got 'ort'"},
        {"percentile:one-sided:99", "got '99'"},
        {"percentile:99:99", "got '99'"},
        {"moving-average:0", "from 1e-06 to 1"},
        {"percentile:", "from 50 to 100"},
        {"percentile:101", "got '101'"},
        {"percentile:nan", "got 'nan'"},
        {"percentile:99x", "got '99x'"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_method_choice choice;
        assert_fails(&cx, qb_method_parse(&cx, rows[i][0], &choice), QB_STATUS_USAGE);
        assert_message(&cx, rows[i][1]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(minmax_keeps_everything),
    cmocka_unit_test(percentile_cuts_half_of_the_rest_from_each_tail),
    cmocka_unit_test(percentile_interpolates_inside_a_bin),
    cmocka_unit_test(percentile_clips_an_outlier),
    cmocka_unit_test(entropy_clips_an_outlier_but_not_the_signal),
    cmocka_unit_test(symmetric_entropy_has_ends_equally_far_from_zero),
    cmocka_unit_test(entropy_keeps_the_full_range_of_uniform_data),
    cmocka_unit_test(entropy_keeps_spikes_at_the_ends_and_exact_grids),
    cmocka_unit_test(entropy_does_not_collapse_onto_the_values_near_zero),
    cmocka_unit_test(entropy_is_not_misled_by_few_samples),
    cmocka_unit_test(entropy_costs_at_most_one_bit),
    cmocka_unit_test(entropy_ignores_how_many_zeros_there_are),
    cmocka_unit_test(ranges_scale_exactly_with_powers_of_two),
    cmocka_unit_test(mirrored_data_gives_a_mirrored_entropy_range),
    cmocka_unit_test(degenerate_data_gives_what_was_seen),
    cmocka_unit_test(every_method_survives_crafted_data),
    cmocka_unit_test(mse_is_the_least_squared_error),
    cmocka_unit_test(mse_symmetric_is_symmetric_and_wider_than_needed_nowhere),
    cmocka_unit_test(aciq_knows_gauss_and_laplace),
    cmocka_unit_test(a_larger_power_clips_less),
    cmocka_unit_test(one_sided_percentile_is_of_the_magnitudes),
    cmocka_unit_test(moving_average_goes_by_sample),
    cmocka_unit_test(auto_takes_the_best_and_never_less_than_minmax),
    cmocka_unit_test(spelling_is_parsed_and_canonical),
    cmocka_unit_test(bad_spelling_says_what_was_expected),
};

QB_TEST_MAIN(tests)

/* Statistics against SciPy's (stats_reference.h, written by make_stats_reference.py) and against
 * published tables. */
#include "eval/stats.h"

#include <math.h>

#include "base/rng.h"
#include "qb_test.h"
#include "stats_reference.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static void close_to(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance)) fail_msg("expected %.12g, got %.12g", expected, got);
}

static void wilson_is_scipys(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(wilson_reference); i++) {
        const qb_interval ci = qb_wilson(wilson_reference[i].right, wilson_reference[i].n);
        close_to(ci.lo, wilson_reference[i].lo, 1e-9);
        close_to(ci.hi, wilson_reference[i].hi, 1e-9);
    }
}

/* Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17,
 * 1998, table I, method 3. */
static void wilson_is_the_published_one(void **state) {
    (void)state;
    static const struct {
        int right, n;
        double lo, hi;
    } published[] = {
        {81, 263, 25.53, 36.62}, {15, 148, 6.24, 16.05}, {0, 20, 0, 16.11}, {1, 29, 0.61, 17.18}};
    for (size_t i = 0; i < COUNT(published); i++) {
        const qb_interval ci = qb_wilson(published[i].right, published[i].n);
        close_to(ci.lo, published[i].lo, 0.005);
        close_to(ci.hi, published[i].hi, 0.005);
    }
}

/* Armitage and Berry, "Statistical Methods in Medical Research", 1994, page 127 (12 and 2 of 50),
 * and Fagerland, Lydersen and Laake, "The McNemar test for binary matched-pairs data", BMC Medical
 * Research Methodology 13:91, 2013 (1 and 7 of 21). */
static void mcnemar_is_the_published_one(void **state) {
    (void)state;
    close_to(qb_mcnemar(12, 2), 0.0129, 0.00005);
    close_to(qb_mcnemar(1, 7), 0.0703, 0.00005);
}

/* Fagerland, Lydersen and Laake, "Recommended tests and confidence intervals for paired binomial
 * proportions", Statistics in Medicine 33, 2014: Tango's interval of the same 1 and 7 of 21. */
static void paired_difference_is_the_published_one(void **state) {
    (void)state;
    const qb_interval ci = qb_paired_difference(1, 7, 21);
    close_to(ci.lo, -51.7, 0.05);
    close_to(ci.hi, -2.6, 0.05);
}

static void mcnemar_is_scipys(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(mcnemar_reference); i++)
        close_to(qb_mcnemar(mcnemar_reference[i].lost, mcnemar_reference[i].gained),
                 mcnemar_reference[i].p, 2e-9 * mcnemar_reference[i].p + 1e-300);
}

static void paired_difference_inverts_the_score_test(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(tango_reference); i++) {
        const qb_interval ci = qb_paired_difference(
            tango_reference[i].lost, tango_reference[i].gained, tango_reference[i].n);
        close_to(ci.lo, tango_reference[i].lo, 1e-7);
        close_to(ci.hi, tango_reference[i].hi, 1e-7);
        const qb_interval transposed = qb_paired_difference(
            tango_reference[i].gained, tango_reference[i].lost, tango_reference[i].n);
        close_to(transposed.lo, -ci.hi, 1e-9);
        close_to(transposed.hi, -ci.lo, 1e-9);
    }
}

/* Without a changed sample the interval is z^2 / (n + z^2) wide on either side: Wilson's for 0. */
static void no_change_leaves_room_for_chance(void **state) {
    (void)state;
    const qb_interval ci = qb_paired_difference(0, 0, 500), wilson = qb_wilson(0, 500);
    close_to(ci.hi, wilson.hi, 1e-9);
    close_to(ci.lo, -wilson.hi, 1e-9);
    close_to(qb_paired_difference(500, 0, 500).hi, 100, 0);
}

static void impossible_counts_are_unknown(void **state) {
    (void)state;
    assert_true(isnan(qb_wilson(0, 0).lo));
    assert_true(isnan(qb_wilson(5, 4).lo));
    assert_true(isnan(qb_mcnemar(-1, 0)));
    assert_true(isnan(qb_paired_difference(3, 3, 5).hi));
    assert_true(isnan(qb_mean_interval(3, 9, 1).lo));
}

static void mean_interval_is_scipys(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(mean_reference); i++) {
        double sum = 0, square = 0;
        for (int k = 0; k < mean_reference[i].n; k++) {
            sum += mean_reference[i].value[k];
            square += mean_reference[i].value[k] * mean_reference[i].value[k];
        }
        const qb_interval ci = qb_mean_interval(sum, square, mean_reference[i].n);
        close_to(ci.lo, mean_reference[i].lo, 1e-7); /* digits that the sum of squares cancels */
        close_to(ci.hi, mean_reference[i].hi, 1e-7);
    }
}

enum { N_ROUNDS = 20, EACH = 25 };

/* Rounds of normal noise around 10, each with a shift of its own; returns the bootstrap's interval.
 */
static qb_interval bootstrap(uint64_t seed, double *draws) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    double ms[N_ROUNDS * EACH];
    int32_t round[N_ROUNDS * EACH];
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int r = 0; r < N_ROUNDS; r++) {
        const double shift = qb_rng_normal(&rng);
        for (int i = 0; i < EACH; i++) {
            ms[r * EACH + i] = 10 + shift + 0.5 * qb_rng_normal(&rng);
            round[r * EACH + i] = r;
        }
    }
    const qb_samples samples = {ms, round, N_ROUNDS * EACH};
    assert_ok(&cx, qb_bootstrap_medians(&cx, &samples, N_ROUNDS, draws));
    return qb_bootstrap_interval(draws);
}

static void bootstrap_gives_the_same_interval_again(void **state) {
    (void)state;
    double draws[QB_BOOTSTRAP_DRAWS];
    const qb_interval first = bootstrap(7, draws), second = bootstrap(7, draws);
    close_to(second.lo, first.lo, 0);
    close_to(second.hi, first.hi, 0);
}

/* The median of many rounds is 10: about 95 % of the intervals must hold it. 100 trials: 88 to 100
 * (a binomial with p = 0.95 is outside less than once in 300). */
static void bootstrap_covers_the_truth(void **state) {
    (void)state;
    double draws[QB_BOOTSTRAP_DRAWS];
    int covered = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const qb_interval ci = bootstrap(seed, draws);
        covered += ci.lo <= 10 && ci.hi >= 10;
    }
    if (covered < 88) fail_msg("%d of 100 intervals hold the true median", covered);
}

/* One run a round: how often the median of the drawn ones is at most the k-th is known exactly. The
 * share of N draws is within four standard deviations of it (each k: once in 16,000). */
static void bootstrap_draws_as_the_exact_distribution(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < COUNT(median_reference); i++) {
        double ms[41], draws[QB_BOOTSTRAP_DRAWS];
        int32_t round[41];
        const int n = median_reference[i].n;
        for (int k = 0; k < n; k++) {
            round[k] = k;
            ms[k] = k + 1;
        }
        assert_ok(&cx, qb_bootstrap_medians(&cx, &(qb_samples){ms, round, n}, n, draws));
        for (int k = 0; k < n; k++) {
            const double p = median_reference[i].share[k];
            int below = 0;
            for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++) below += draws[b] <= k + 1;
            close_to((double)below / QB_BOOTSTRAP_DRAWS, p,
                     4 * sqrt(p * (1 - p) / QB_BOOTSTRAP_DRAWS) + 1e-9);
        }
    }
}

static void bootstrap_of_equal_runs_has_no_width(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const double ms[4] = {2, 2, 2, 2};
    const int32_t round[4] = {0, 0, 1, 1};
    double draws[QB_BOOTSTRAP_DRAWS];
    assert_ok(&cx, qb_bootstrap_medians(&cx, &(qb_samples){ms, round, 4}, 2, draws));
    const qb_interval ci = qb_bootstrap_interval(draws);
    close_to(ci.lo, 2, 0);
    close_to(ci.hi, 2, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(wilson_is_scipys),
    cmocka_unit_test(wilson_is_the_published_one),
    cmocka_unit_test(mcnemar_is_scipys),
    cmocka_unit_test(mcnemar_is_the_published_one),
    cmocka_unit_test(paired_difference_is_the_published_one),
    cmocka_unit_test(paired_difference_inverts_the_score_test),
    cmocka_unit_test(no_change_leaves_room_for_chance),
    cmocka_unit_test(impossible_counts_are_unknown),
    cmocka_unit_test(mean_interval_is_scipys),
    cmocka_unit_test(bootstrap_gives_the_same_interval_again),
    cmocka_unit_test(bootstrap_covers_the_truth),
    cmocka_unit_test(bootstrap_draws_as_the_exact_distribution),
    cmocka_unit_test(bootstrap_of_equal_runs_has_no_width),
};
QB_TEST_MAIN(tests)

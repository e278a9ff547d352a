#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "qb_test.h"

/* xoshiro256** from the state {1, 2, 3, 4}: the authors' test sequence. */
static void known_answers_of_the_generator(void **state) {
    (void)state;
    static const uint64_t expected[] = {
        11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u, 607988272756665600u};
    qb_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(qb_rng_u64(&rng) == expected[i]);
}

/* SplitMix64 from the seed 1234567: the authors' test sequence. */
static void known_answers_of_the_seeding(void **state) {
    (void)state;
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u};
    qb_rng rng;
    qb_rng_seed(&rng, 1234567);
    for (int i = 0; i < 4; i++) assert_true(rng.s[i] == expected[i]);
}

static void same_seed_same_numbers(void **state) {
    (void)state;
    qb_rng a, b, c;
    qb_rng_seed(&a, 0);
    qb_rng_seed(&b, 0);
    qb_rng_seed(&c, 1);
    int different = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = qb_rng_u64(&a);
        assert_true(x == qb_rng_u64(&b));
        different += x != qb_rng_u64(&c);
    }
    assert_int_equal(different, 100);
}

static void uniform_fills_the_unit_interval(void **state) {
    (void)state;
    enum { N = 100000, BINS = 20 };
    qb_rng rng;
    qb_rng_seed(&rng, 7);
    int count[BINS] = {0};
    for (int i = 0; i < N; i++) {
        double u = qb_rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        count[(int)(u * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) /* 5 sigma of the binomial distribution */
        assert_true(fabs(count[i] - (double)N / BINS) < 5 * sqrt((double)N / BINS));
}

static void below_is_unbiased_and_in_range(void **state) {
    (void)state;
    enum { N = 60000 };
    qb_rng rng;
    qb_rng_seed(&rng, 99);
    int count[6] = {0};
    for (int i = 0; i < N; i++) {
        uint64_t x = qb_rng_below(&rng, 6);
        assert_true(x < 6);
        count[x]++;
    }
    for (int i = 0; i < 6; i++) assert_true(fabs(count[i] - N / 6.0) < 5 * sqrt(N / 6.0));
    for (int i = 0; i < 10; i++) assert_true(qb_rng_below(&rng, 1) == 0);
    /* 3 * 2^62: taking the remainder alone would give the lower third twice as often. */
    uint64_t n = (uint64_t)3 << 62;
    int low = 0;
    for (int i = 0; i < N; i++) low += qb_rng_below(&rng, n) < (uint64_t)1 << 62;
    assert_true(fabs(low - N / 3.0) < 5 * sqrt(N / 3.0));
}

static void normal_has_its_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    qb_rng rng;
    qb_rng_seed(&rng, 5);
    double sum = 0, square = 0, fourth = 0;
    for (int i = 0; i < N; i++) {
        double x = qb_rng_normal(&rng);
        assert_true(isfinite(x));
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(square / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_answers_of_the_generator),
    cmocka_unit_test(known_answers_of_the_seeding),
    cmocka_unit_test(same_seed_same_numbers),
    cmocka_unit_test(uniform_fills_the_unit_interval),
    cmocka_unit_test(below_is_unbiased_and_in_range),
    cmocka_unit_test(normal_has_its_moments),
};
QB_TEST_MAIN(tests)

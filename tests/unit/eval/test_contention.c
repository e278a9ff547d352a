/* Shares of the time between two marks. */
#include <math.h>

#include "eval/contention.h"
#include "qb_test.h"

static void shares_are_of_the_time_between(void **state) {
    (void)state;
    const qb_contention_mark before = {.wall = 10, .waited = 1, .stolen = 5, .ticks = 100},
                             after = {.wall = 14, .waited = 3, .stolen = 25, .ticks = 300};
    const qb_contention c = qb_contention_between(&before, &after, 2);
    assert_float_equal(c.waited, 0.25, 1e-12); /* 2 of 4 s x 2 threads */
    assert_float_equal(c.stolen, 0.1, 1e-12);
    const qb_contention none = qb_contention_between(&before, &before, 2);
    assert_true(isnan(none.waited) && isnan(none.stolen));
}

static void marks_of_this_machine_grow(void **state) {
    (void)state;
    qb_contention_mark before, after;
    qb_contention_read(&before);
    volatile double sum = 0;
    for (int i = 0; i < 20000000; i++) sum = sum + i;
    qb_contention_read(&after);
    assert_true(after.wall > before.wall);
    assert_true(isnan(after.waited) || after.waited >= before.waited);
    assert_true(isnan(after.ticks) || after.ticks >= before.ticks);
    const qb_contention c = qb_contention_between(&before, &after, 1);
    assert_true(isnan(c.waited) || (c.waited >= 0 && c.waited < 2));
}

/* A machine that is a little busy is no alarm where medians lie at the least run. */
static void busy_is_wrong_where_it_shows(void **state) {
    (void)state;
    const qb_interval same = {0.99, 1.01};
    const struct {
        qb_disturbance d;
        double shift;
        bool disturbed;
    } cases[] = {
        {{0.00, 0.00, 0.01, same}, 0.20, false}, /* the engine's own: nobody else ran */
        {{0.12, 0.00, 0.02, same}, 0.02, false},
        {{0.12, 0.00, 0.02, same}, 0.08, true},
        {{0.12, 0.00, 0.02, same}, NAN, true},
        {{0.30, 0.00, 0.02, same}, 0.02, true},
        {{0.00, 0.05, 0.02, same}, 0.02, false},
        {{0.00, 0.05, 0.02, same}, 0.06, true},
        {{0.00, 0.12, 0.02, same}, 0.02, true},
        {{0.00, 0.00, 0.12, same}, 0.02, true},
        {{0.00, 0.00, 0.02, {0.85, 1.00}}, 0.02, true},
        {{0.00, 0.00, 0.02, {0.99, 1.15}}, 0.02, true},
        {{NAN, NAN, 0.02, same}, 0.02, false}, /* a GPU, or no /proc */
        {{NAN, NAN, 0.12, same}, 0.02, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(qb_contention_disturbs(&cases[i].d, cases[i].shift), cases[i].disturbed);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shares_are_of_the_time_between),
    cmocka_unit_test(marks_of_this_machine_grow),
    cmocka_unit_test(busy_is_wrong_where_it_shows),
};
QB_TEST_MAIN(tests)

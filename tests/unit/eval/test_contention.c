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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shares_are_of_the_time_between),
    cmocka_unit_test(marks_of_this_machine_grow),
};
QB_TEST_MAIN(tests)

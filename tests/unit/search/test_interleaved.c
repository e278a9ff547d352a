/* Rounds of things that are timed against each other, by a clock that the tests set: what a machine
 * that others use as well does to them. */
#include <math.h>

#include "qb_test.h"
#include "search/interleaved.h"

enum { THINGS = 2, CALLS_OF_A_SLICE = 2 };

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* What the second thing takes in each try, times the first: more and less in some rounds. */
typedef struct machine {
    double ratio[3], swing[3];
    int64_t calls, calls_of_a_try; /* 0: not known yet */
    int64_t fails_at;              /* this call does; 0: none */
} machine;

static qb_status run(qb_ctx *cx, void *user, int32_t i, double *ms) {
    machine *m = user;
    const int64_t each = m->calls_of_a_try ? m->calls_of_a_try : INT64_MAX;
    const int64_t call = m->calls % each, try = m->calls / each;
    const int64_t round = call / (CALLS_OF_A_SLICE * THINGS);
    m->calls++;
    if (m->calls == m->fails_at) return qb_fail(cx, QB_STATUS_IO, "the device is gone");
    *ms = i == 0 ? 3 : 3 * m->ratio[try] * (1 + m->swing[try] * (double)(round % 3 - 1));
    if (call % CALLS_OF_A_SLICE == 0) *ms *= 10; /* the caches are another thing's */
    return QB_OK;
}

/* Slices of no time: two runs each. Returns how often something ran. */
static int64_t time_all(machine *m, qb_interleaved_time *out) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    m->calls = 0;
    assert_ok(&cx, qb_time_rounds(&cx, run, m, THINGS, 0, out));
    return m->calls;
}

static int64_t calls_of_a_try(void) {
    qb_interleaved_time out[THINGS];
    return time_all(&(machine){.ratio = {1}}, out);
}

static void a_steady_machine_is_timed_once(void **state) {
    (void)state;
    qb_interleaved_time out[THINGS];
    machine m = {.ratio = {2, 9, 9}, .calls_of_a_try = calls_of_a_try()};
    assert_int_equal(time_all(&m, out), m.calls_of_a_try);
    assert_near(out[0].ms, 3);
    assert_near(out[1].ms, 6);
    assert_near(out[0].ratio, 1);
    assert_near(out[1].ratio, 2);
    assert_near(out[1].range.hi - out[1].range.lo, 0);
}

static void unsteady_rounds_are_repeated(void **state) {
    (void)state;
    qb_interleaved_time out[THINGS];
    machine m = {.ratio = {1.5, 1.2, 9}, .swing = {0.3, 0.01}, .calls_of_a_try = calls_of_a_try()};
    assert_int_equal(time_all(&m, out), 2 * m.calls_of_a_try);
    assert_near(out[1].ratio, 1.2);
    assert_true(out[1].range.hi - out[1].range.lo < 0.1);
}

static void the_steadiest_of_three_tries_counts(void **state) {
    (void)state;
    for (int best = 0; best < 3; best++) {
        qb_interleaved_time out[THINGS];
        machine m = {
            .ratio = {1.2, 1.4, 1.6}, .swing = {0.4, 0.4, 0.4}, .calls_of_a_try = calls_of_a_try()};
        m.swing[best] = 0.15;
        assert_int_equal(time_all(&m, out), 3 * m.calls_of_a_try);
        assert_near(out[1].ratio, m.ratio[best]);
    }
}

static void a_run_that_fails_ends_it(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_interleaved_time out[THINGS];
    machine m = {.ratio = {1}, .fails_at = 5};
    assert_int_equal(qb_time_rounds(&cx, run, &m, THINGS, 0, out), QB_STATUS_IO);
    assert_int_equal(m.calls, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_machine_is_timed_once),
        cmocka_unit_test(unsteady_rounds_are_repeated),
        cmocka_unit_test(the_steadiest_of_three_tries_counts),
        cmocka_unit_test(a_run_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

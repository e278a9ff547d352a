#include <math.h>
#include <string.h>

#include "eval/gate.h"
#include "qb_test.h"
#include "run_fixture.h"

/* Runs the gate on the fixture (int8: drop 1.0, agreement 94, 31 dB, latency ratio 0.4). */
static bool gate(qb_gate_limits limits, int32_t *n, qb_gate_check checks[8]) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    bool held;
    assert_ok(&cx, qb_gate(&cx, run, NULL, &limits, checks, 8, n, &held));
    for (int32_t i = 0; i < *n; i++) assert_string_equal(checks[i].row, "int8");
    qb_run_free(run);
    return held;
}

static bool holds(qb_gate_limits limits) {
    int32_t n;
    qb_gate_check checks[8];
    const bool held = gate(limits, &n, checks);
    assert_int_equal(n, 1);
    assert_int_equal(checks[0].held, held);
    return held;
}

static void each_limit_holds_at_its_value_and_breaks_beyond(void **state) {
    (void)state;
    qb_gate_limits l = qb_gate_no_limits();
    l.max_drop = 1.0;
    assert_true(holds(l));
    l.max_drop = 0.99;
    assert_false(holds(l));
    l = qb_gate_no_limits();
    l.min_agreement = 94;
    assert_true(holds(l));
    l.min_agreement = 94.01;
    assert_false(holds(l));
    l = qb_gate_no_limits();
    l.min_sqnr = 31;
    assert_true(holds(l));
    l.min_sqnr = 31.1;
    assert_false(holds(l));
    l = qb_gate_no_limits();
    l.max_latency_ratio = 0.4;
    assert_true(holds(l));
    l.max_latency_ratio = 0.39;
    assert_false(holds(l));
}

static void rounding_of_percentages_does_not_break_a_limit(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    run->row[1].drop = 61.6 - 60.6; /* 1.0000000000000000 or just above it */
    qb_gate_limits limits = qb_gate_no_limits();
    limits.max_drop = 1.0;
    qb_gate_check checks[1];
    int32_t n;
    bool held;
    assert_ok(&cx, qb_gate(&cx, run, NULL, &limits, checks, 1, &n, &held));
    assert_true(held);
    qb_run_free(run);
}

/* Percent of nothing: the 99 % rule cannot hold, and says why. */
static void shares_of_zero_are_not_measured(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    run->row[0].top1 = run->row[1].top1 = run->row[1].drop = 0;
    qb_gate_limits limits = qb_gate_no_limits();
    limits.mlperf = true;
    qb_gate_check checks[1];
    int32_t n;
    bool held;
    assert_ok(&cx, qb_gate(&cx, run, NULL, &limits, checks, 1, &n, &held));
    assert_false(held);
    assert_false(checks[0].measured);
    assert_string_equal(checks[0].reason, "the first row's own is 0");
    qb_run_free(run);
}

static void what_could_not_be_measured_does_not_hold(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    run->row[1].drop = NAN;
    qb_gate_limits limits = qb_gate_no_limits();
    limits.max_drop = 100;
    qb_gate_check checks[1];
    int32_t n;
    bool held;
    assert_ok(&cx, qb_gate(&cx, run, NULL, &limits, checks, 1, &n, &held));
    assert_false(held);
    assert_false(checks[0].measured);
    qb_run_free(run);
}

static void nothing_to_check_does_not_hold(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    const qb_gate_limits none = qb_gate_no_limits();
    qb_gate_limits limits = none;
    limits.max_drop = 100;
    int32_t n = -1;
    bool held = true;
    assert_ok(&cx, qb_gate(&cx, run, "fp16", &limits, NULL, 0, &n, &held));
    assert_int_equal(n, 0);
    assert_false(held);
    assert_ok(&cx, qb_gate(&cx, run, NULL, &none, NULL, 0, &n, &held));
    assert_false(held);
    qb_run_free(run);
}

static void one_broken_limit_of_several_breaks_the_gate(void **state) {
    (void)state;
    qb_gate_limits limits = qb_gate_no_limits();
    limits.max_drop = 5;
    limits.min_agreement = 90;
    limits.min_sqnr = 40;
    limits.max_latency_ratio = 1;
    int32_t n;
    qb_gate_check checks[8];
    assert_false(gate(limits, &n, checks));
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(checks[i].held, i != 2);
    assert_string_equal(checks[2].name, "min-sqnr");
}

static void more_checks_than_room_is_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    qb_gate_limits limits = qb_gate_no_limits();
    limits.max_drop = 5;
    limits.min_agreement = 90;
    qb_gate_check checks[1];
    int32_t n;
    bool held;
    assert_fails(&cx, qb_gate(&cx, run, NULL, &limits, checks, 1, &n, &held), QB_STATUS_INVALID);
    qb_run_free(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_limit_holds_at_its_value_and_breaks_beyond),
    cmocka_unit_test(rounding_of_percentages_does_not_break_a_limit),
    cmocka_unit_test(shares_of_zero_are_not_measured),
    cmocka_unit_test(what_could_not_be_measured_does_not_hold),
    cmocka_unit_test(nothing_to_check_does_not_hold),
    cmocka_unit_test(one_broken_limit_of_several_breaks_the_gate),
    cmocka_unit_test(more_checks_than_room_is_an_error),
};
QB_TEST_MAIN(tests)

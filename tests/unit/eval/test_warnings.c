/* What a record warns of, as data. */
#include <math.h>
#include <string.h>

#include "eval/gate.h"
#include "eval/warnings.h"
#include "qb_test.h"

#define RECORD QB_SOURCE_DIR "/tests/golden/reports/full.json"

static qb_run *load(qb_ctx *cx) {
    qb_run *run;
    assert_ok(cx, qb_run_load(cx, RECORD, &run));
    return run;
}

/* The text of the warning of this name about this row; "" where there is none. */
static const char *text_of(const qb_run *run, const char *name, const char *row) {
    for (int32_t i = 0; i < run->n_warnings; i++)
        if (strcmp(run->warning[i].name, name) == 0 && strcmp(run->warning[i].row, row) == 0)
            return run->warning[i].text;
    return "";
}

/* Labels of other numbers than the model's, a row that waits for a kernel which is not there, and
 * one whose latency is not of the engine that was scored. */
static void numbers_that_mislead_come_with_a_warning(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    assert_false(qb_warning_has(run, "chance"));
    assert_false(qb_warning_has(run, "unlabelled"));
    run->row[0].recall[0].n -= 3;
    qb_free(run->task);
    run->task = qb_strdup(&cx, "classify");
    assert_false(qb_warning_has(run, "no-kernel"));
    assert_false(qb_warning_has(run, "int8-slower"));
    for (int32_t i = 0; i < run->row[0].n_metrics; i++)
        if (strcmp(run->row[0].metric[i].name, "top1") == 0)
            run->row[0].metric[i].ci.lo = 99.0 / run->row[0].n_recall;
    qb_run_step *step = &run->row[1].step[1];
    qb_free(step->tactic);
    step->tactic = qb_strdup(&cx, "ref.conv");
    step->ms = 50;
    run->row[1].layers = (qb_layer_counts){.int8 = 7, .fp16 = 3};
    assert_ok(&cx, qb_warnings_derive(&cx, run));
    assert_non_null(strstr(text_of(run, "unlabelled", ""), "3 of 1000 samples have no class"));
    assert_non_null(strstr(text_of(run, "chance", ""),
                           "fp32: top-1 95.80 % over 10 classes is no more than chance"));
    assert_non_null(strstr(text_of(run, "no-kernel", "int8"),
                           "of the time is the scalar reference's, most in "));
    assert_non_null(strstr(text_of(run, "no-kernel", "int8"), ": cpu has no kernel for it"));
    const char *slower = text_of(run, "int8-slower", "int8");
    assert_non_null(strstr(slower, "int8: some steps are slower than in fp32"));
    assert_non_null(strstr(slower, step->name));
    assert_non_null(strstr(slower, "50.000 ms"));
    assert_string_equal(text_of(run, "int8-slower", "fp32"), "");
    qb_run_free(run);
}

/* Times of steps say nothing of INT8 where others ran on the machine. */
static void a_contended_run_blames_no_step(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    run->row[1].step[1].ms = 50;
    run->row[1].layers = (qb_layer_counts){.int8 = 7, .fp16 = 3};
    assert_ok(&cx, qb_warning_add(&cx, run, "contention", "", "others ran on the machine"));
    assert_ok(&cx, qb_warnings_derive(&cx, run));
    assert_false(qb_warning_has(run, "int8-slower"));
    qb_run_free(run);
}

/* People read one line a kind: the first row's numbers, and who else. */
static void rows_with_one_warning_share_a_line(void **state) {
    (void)state;
    qb_ctx cx;
    char text[QB_WARNING_TEXT];
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    const int32_t first = run->n_warnings;
    assert_ok(&cx, qb_warning_add(&cx, run, "nan", "a", "a: outputs hold NaN"));
    assert_ok(&cx, qb_warning_add(&cx, run, "no-kernel", "b", "b: slow"));
    assert_ok(&cx, qb_warning_add(&cx, run, "nan", "c", "c: outputs hold NaN"));
    assert_ok(&cx, qb_warning_add(&cx, run, "nan", "d", "d: outputs hold NaN"));
    assert_string_equal(qb_warning_said(run, first, text), "a: outputs hold NaN; likewise c, d");
    assert_string_equal(qb_warning_said(run, first + 1, text), "b: slow");
    assert_null(qb_warning_said(run, first + 2, text));
    assert_null(qb_warning_said(run, first + 3, text));
    qb_run_free(run);
}

/* Warnings are part of the record: written, read back, never twice. */
static void warnings_are_kept_once(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx), *again;
    char *text;
    assert_ok(&cx, qb_warning_add(&cx, run, "calibration-data", "", "scored on %s", "calib"));
    assert_ok(&cx, qb_warning_add(&cx, run, "calibration-data", "", "said twice"));
    const int32_t n = run->n_warnings;
    assert_ok(&cx, qb_run_json(&cx, run, &text));
    assert_ok(&cx, qb_run_parse(&cx, "again.json", text, strlen(text), &again));
    assert_int_equal(again->n_warnings, n);
    assert_string_equal(text_of(again, "calibration-data", ""), "scored on calib");
    assert_string_equal(qb_warning_find(again, QB_TOUCHES_ACCURACY, "int8", NULL, 0)->name,
                        "calibration-data");
    const char *const allowed[] = {"calibration-data"};
    assert_null(qb_warning_find(again, QB_TOUCHES_ACCURACY, "int8", allowed, 1));
    qb_free(text);
    qb_run_free(again);
    qb_run_free(run);
}

/* A text that is too long ends with a whole character: it goes into JSON. */
static void long_texts_are_cut_between_characters(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int shift = 0; shift < 3; shift++) {
        qb_run *run = load(&cx);
        char name[1024], *text;
        memset(name, 'a', sizeof name);
        for (size_t i = (size_t)shift; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 3);
        name[sizeof name - 1] = '\0';
        assert_ok(&cx, qb_warning_add(&cx, run, "nan", "int8", "%s", name));
        assert_ok(&cx, qb_run_json(&cx, run, &text));
        qb_free(text);
        qb_run_free(run);
    }
}

static void the_gate_is_blocked_by_what_touches_the_limit(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    qb_gate_check check[4];
    int32_t n;
    bool held;
    qb_gate_limits limits = qb_gate_no_limits();
    limits.max_drop = 1;
    limits.max_latency = 1;
    limits.max_engine_size = 1;
    limits.min_top1 = 90;
    assert_ok(&cx, qb_gate(&cx, run, "int8", &limits, check, 4, &n, &held));
    assert_true(held);
    assert_ok(&cx, qb_warning_add(&cx, run, "contention", "", "others ran"));
    assert_ok(&cx, qb_gate(&cx, run, "int8", &limits, check, 4, &n, &held));
    assert_false(held);
    for (int32_t i = 0; i < n; i++) {
        const bool latency = strcmp(check[i].name, "max-latency") == 0;
        assert_int_equal(check[i].held, !latency);
        assert_int_equal(check[i].measured, !latency);
        assert_true(latency ? strcmp(check[i].blocked, "contention") == 0 : !check[i].blocked);
    }
    const char *const allowed[] = {"contention", "chance"};
    limits.allowed = allowed;
    limits.n_allowed = 2;
    assert_ok(&cx, qb_gate(&cx, run, "int8", &limits, check, 4, &n, &held));
    assert_true(held);
    limits.n_allowed = 1;
    assert_ok(&cx, qb_warning_add(&cx, run, "chance", "", "guesses"));
    assert_ok(&cx, qb_gate(&cx, run, "int8", &limits, check, 4, &n, &held));
    for (int32_t i = 0; i < n; i++) assert_int_equal(check[i].held, check[i].blocked == NULL);
    assert_false(held);
    qb_run_free(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_that_mislead_come_with_a_warning),
    cmocka_unit_test(a_contended_run_blames_no_step),
    cmocka_unit_test(rows_with_one_warning_share_a_line),
    cmocka_unit_test(warnings_are_kept_once),
    cmocka_unit_test(long_texts_are_cut_between_characters),
    cmocka_unit_test(the_gate_is_blocked_by_what_touches_the_limit),
};
QB_TEST_MAIN(tests)

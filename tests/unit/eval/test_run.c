#include <math.h>
#include <string.h>

#include "base/file.h"
#include "eval/warnings.h"
#include "qb_test.h"
#include "run_fixture.h"

static void saved_record_reads_back_the_same(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "compare.json");
    qb_run *run = run_fixture(&cx), *back;
    assert_ok(&cx, qb_warnings_derive(&cx, run)); /* as a comparison does, and a reader */
    assert_ok(&cx, qb_run_save(&cx, run, path));
    assert_ok(&cx, qb_run_load(&cx, path, &back));
    char *first, *second;
    assert_ok(&cx, qb_run_json(&cx, run, &first));
    assert_ok(&cx, qb_run_json(&cx, back, &second));
    assert_string_equal(first, second);
    assert_true(isinf(back->row[0].sqnr_db));
    assert_true(isnan(back->row[1].top5));
    assert_true(qb_hash_equal(back->data_hash, run->data_hash));
    assert_int_equal(back->row[1].layers.int8, 26);
    qb_free(first);
    qb_free(second);
    qb_run_free(run);
    qb_run_free(back);
}

/* Writes `text` with `from` replaced by `to` and expects the reader to refuse it. */
static void refuse(const char *text, const char *from, const char *to, const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "bad.json");
    const char *at = strstr(text, from);
    assert_non_null(at);
    char *bad = qb_format(&cx, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_ok(&cx, qb_file_write(&cx, path, bad, strlen(bad)));
    qb_run *run = NULL;
    assert_fails(&cx, qb_run_load(&cx, path, &run), QB_STATUS_FORMAT);
    assert_null(run);
    assert_message(&cx, "bad.json");
    assert_message(&cx, message);
    qb_free(bad);
}

static void wrong_records_are_refused_by_field(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    char *text;
    assert_ok(&cx, qb_run_json(&cx, run, &text));
    refuse(text, "qbench.compare/1", "qbench.compare/9", "schema");
    refuse(text, "\"rows\"", "\"lines\"", "rows");
    refuse(text, "\"precision\": \"int8\"", "\"precision\": 8", "precision");
    refuse(text, "\"agreement_top1\": 94.0", "\"agreement_top1\": \"94\"", "agreement_top1");
    refuse(text, "\"batch\": 8", "\"batch\": -8", "batch");
    refuse(text, "\"int8\": 26", "\"int8\": 99999999999", "int8");
    refuse(text, "\"hash\": \"", "\"hash\": \"zz", "hash");
    refuse(text, "\"latency_ms\"", "\"latency\"", "runs");
    refuse(text, "\"drop\": 0.0", "\"drop\": \"-inf\"", "drop");
    refuse(text, "\"sqnr_db\": \"inf\"", "\"sqnr_db\": \"nan\"", "sqnr_db");
    refuse(text, "\"samples\": 500", "\"samples\": -1", "samples");
    refuse(text, "\"threads\": 2", "\"threads\": 4294967298", "threads");
    refuse(text, "\"top1\": 61.5", "\"top1\": 61.5, \"top1\": 99.0", "duplicate");
    refuse(text, "}", "", "bad.json");
    refuse(text, "\"sample\": 0", "\"sample\": 1", "worst");
    refuse(text, "\"answer\": 9", "\"answer\": -2", "answer");
    refuse(text, "\"recall\": [", "\"recall\": 5, \"old\": [", "recall");
    refuse(text, "\"median_low\": 3.9", "\"median_low\": \"inf\"", "median_low");
    qb_free(text);
    qb_run_free(run);
}

/* Names of layers, engines and classes come from files: they are shown, and read again. */
static void names_of_any_bytes_are_made_clean(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx), *back = NULL;
    char *text;
    qb_free(run->row[1].precision);
    run->row[1].precision = qb_strdup(&cx, "a\tb\x1b[2J\n\xff");
    assert_ok(&cx, qb_run_json(&cx, run, &text)); /* also what nobody made clean before */
    assert_ok(&cx, qb_run_parse(&cx, "again", text, strlen(text), &back));
    assert_string_equal(back->row[1].precision, "a\\x09b\\x1b[2J\\x0a\\xff");
    assert_ok(&cx, qb_run_clean(&cx, run));
    assert_string_equal(run->row[1].precision, back->row[1].precision);
    qb_free(text);
    qb_run_free(run);
    qb_run_free(back);
}

/* Records of before these keys existed are still read: nothing was measured then. */
static void newer_keys_may_be_absent(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run;
    assert_ok(&cx, qb_run_load(&cx, QB_SOURCE_DIR "/tests/golden/reports/compare.json", &run));
    assert_true(isnan(run->row[1].paired.p_value));
    assert_true(isnan(run->row[1].latency.median_ci.lo));
    assert_true(isnan(qb_run_metric_ci(&run->row[1], "top1").lo));
    assert_int_equal(run->row[1].n_layers, 0);
    qb_run_free(run);
}

static void classes_without_a_name_are_their_number(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = run_fixture(&cx);
    char text[16];
    assert_string_equal(qb_run_class_text(run, 7, text), "horse");
    assert_string_equal(qb_run_class_text(run, 8, text), "8");
    assert_string_equal(qb_run_class_text(run, -1, text), "none");
    qb_run_free(run);
}

static void missing_file_is_named(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = NULL;
    assert_int_not_equal(qb_run_load(&cx, "/nonexistent/compare.json", &run), QB_OK);
    assert_message(&cx, "/nonexistent/compare.json");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(saved_record_reads_back_the_same),
    cmocka_unit_test(wrong_records_are_refused_by_field),
    cmocka_unit_test(names_of_any_bytes_are_made_clean),
    cmocka_unit_test(newer_keys_may_be_absent),
    cmocka_unit_test(classes_without_a_name_are_their_number),
    cmocka_unit_test(missing_file_is_named),
};
QB_TEST_MAIN(tests)

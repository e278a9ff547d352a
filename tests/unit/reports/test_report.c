/* Table and figures of a fixed record against golden text: tests/golden/reports. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "qb_test.h"
#include "reports/figure_internal.h"

#define GOLDEN QB_SOURCE_DIR "/tests/golden/reports/"

static qb_run *load(qb_ctx *cx) {
    qb_run *run;
    assert_ok(cx, qb_run_load(cx, GOLDEN "compare.json", &run));
    return run;
}

/* The files are equal; to renew one, look at what the test printed and edit it. */
static void same_text(qb_ctx *cx, const char *text, const char *golden) {
    char *expected;
    assert_ok(cx, qb_file_read(cx, golden, 1 << 20, &expected, NULL));
    assert_string_equal(text, expected);
    qb_free(expected);
}

/* What `write` prints, new memory. */
static char *printed(void (*write)(FILE *stream, const qb_run *run), const qb_run *run) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    write(stream, run);
    fclose(stream);
    return text;
}

static void table_is_the_golden_one(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    char *text = printed(qb_report_table, run);
    same_text(&cx, text, GOLDEN "table.txt");
    free(text);
    qb_run_free(run);
}

static void folder_text(qb_ctx *cx, const char *folder, const char *name, const char *golden) {
    char path[QB_TEST_PATH], *text;
    qb_test_join(path, folder, name);
    assert_ok(cx, qb_file_read(cx, path, 1 << 20, &text, NULL));
    same_text(cx, text, golden);
    qb_free(text);
}

static void draw_without_gnuplot(qb_ctx *cx, char folder[QB_TEST_PATH]) {
    qb_run *run = load(cx);
    char *path = qb_strdup(cx, getenv("PATH") ? getenv("PATH") : "");
    qb_test_temp_dir(folder);
    setenv("PATH", folder, 1);
    assert_fails(cx, qb_report_figures(cx, run, folder), QB_STATUS_NOTFOUND);
    setenv("PATH", path, 1);
    qb_free(path);
    qb_run_free(run);
}

static void data_and_scripts_are_the_golden_ones_and_stay_without_gnuplot(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH];
    draw_without_gnuplot(&cx, folder);
    assert_message(&cx, "gnuplot is not installed");
    assert_message(&cx, folder);
    folder_text(&cx, folder, "latency.tsv", GOLDEN "latency.tsv");
    folder_text(&cx, folder, "latency.gp", GOLDEN "latency.gp");
    folder_text(&cx, folder, "accuracy.tsv", GOLDEN "accuracy.tsv");
    folder_text(&cx, folder, "accuracy.gp", GOLDEN "accuracy.gp");
}

static void need_gnuplot(void) {
    if (system("gnuplot --version >/dev/null 2>&1") != 0) qb_test_skip("gnuplot is not installed");
}

static void pictures_have_their_kind_and_nothing_else_is_left(void **state) {
    (void)state;
    need_gnuplot();
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *text;
    size_t size;
    qb_test_temp_dir(folder);
    qb_run *run = load(&cx);
    assert_ok(&cx, qb_report_figures(&cx, run, folder));
    qb_test_join(path, folder, "latency.png");
    assert_ok(&cx, qb_file_read(&cx, path, 1 << 24, &text, &size));
    assert_memory_equal(text, "\x89PNG", 4);
    qb_free(text);
    qb_test_join(path, folder, "accuracy.svg");
    assert_ok(&cx, qb_file_read(&cx, path, 1 << 24, &text, &size));
    for (int32_t i = 0; i < run->n_rows; i++) { /* a long name has two lines */
        const char *name = run->row[i].precision, *rest = strchr(name, '+');
        char *first = qb_format(&cx, "%.*s", (int)(rest ? rest - name : (long)strlen(name)), name);
        assert_non_null(strstr(text, first));
        if (rest) assert_non_null(strstr(text, rest));
        qb_free(first);
    }
    qb_free(text);
    char *command = qb_format(&cx, "test $(ls -A '%s' | wc -l) = 12", folder);
    assert_int_equal(system(command), 0);
    qb_free(command);
    qb_run_free(run);
}

/* A name from a record must stay a name: quotes end no string, nothing is run. */
static void names_cannot_leave_their_string(void **state) {
    (void)state;
    need_gnuplot();
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], trap[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(trap, folder, "trapped");
    qb_run *run = load(&cx);
    qb_free(run->row[0].precision);
    run->row[0].precision = qb_format(&cx, "a'; system('touch %s'); b='", trap);
    qb_free(run->model);
    run->model = qb_strdup(&cx, "'`touch trapped`\" {/Bold it}_1^2");
    assert_ok(&cx, qb_report_figures(&cx, run, folder));
    assert_false(qb_path_exists(trap));
    qb_run_free(run);
}

static void script_has(qb_ctx *cx, const char *folder, const char *name, const char *words) {
    char path[QB_TEST_PATH], *text;
    qb_test_join(path, folder, name);
    assert_ok(cx, qb_file_read(cx, path, 1 << 20, &text, NULL));
    if (!strstr(text, words)) fail_msg("%s lacks %s:\n%s", name, words, text);
    qb_free(text);
}

/* Rows of several backends are told apart: colours of bars, shapes of points, dashes of lines. */
static void charts_group_by_backend(void **state) {
    (void)state;
    need_gnuplot();
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_run *run;
    assert_ok(&cx, qb_run_load(&cx, GOLDEN "full.json", &run));
    qb_free(run->row[1].backend);
    run->row[1].backend = qb_strdup(&cx, "it's");
    assert_int_equal(qb_backends_count(run), 2);
    assert_int_equal(qb_backend_index(run, 1), 1);
    assert_int_equal(qb_backend_index(run, 2), 0);
    assert_ok(&cx, qb_report_figures(&cx, run, folder));
    script_has(&cx, folder, "latency.gp", "(strcol(7) eq 'it''s' ? $2 : NaN)");
    script_has(&cx, folder, "latency.gp", "title 'cpu'");
    script_has(&cx, folder, "pareto.gp", "title 'int8 on it''s'");
    script_has(&cx, folder, "throughput.gp", "using 1:3 with linespoints lw 2 dt 2 pt 5");
    char *text = printed(qb_report_table, run);
    assert_non_null(strstr(text, "\nint8                                 it's     "));
    free(text);
    qb_run_free(run);
}

/* Without labels there is nothing to say about top-1, top-5 and drop: no columns of dashes. */
static void columns_that_no_row_has_are_left_out(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx);
    for (int32_t i = 0; i < run->n_rows; i++)
        run->row[i].top1 = run->row[i].top5 = run->row[i].drop = NAN;
    char *table = printed(qb_report_table, run), *markdown = printed(qb_report_markdown, run);
    assert_null(strstr(table, "top-"));
    assert_null(strstr(markdown, "drop"));
    assert_non_null(strstr(table, "1000 samples without labels (3 skipped)"));
    assert_non_null(strstr(table, "agree %"));
    assert_non_null(strstr(markdown, "without labels"));
    free(table);
    free(markdown);
    qb_run_free(run);
}

/* Records may hold nothing but nulls: there is less to see, but no error. */
static void unmeasured_values_draw_nothing(void **state) {
    (void)state;
    need_gnuplot();
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_run *run = load(&cx);
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        row->top1 = row->top5 = row->sqnr_db = row->drop = NAN;
        row->latency.median = row->latency.p99 = i == 1 ? 3 : NAN;
    }
    assert_ok(&cx, qb_report_figures(&cx, run, folder));
    qb_run_free(run);
}

static void gnuplot_failing_is_an_error_with_its_words(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], fake[QB_TEST_PATH], picture[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(fake, folder, "gnuplot");
    static const char words[] = "#!/bin/sh\necho cannot draw today\nexit 1\n";
    assert_ok(&cx, qb_file_write(&cx, fake, words, sizeof words - 1));
    char *command = qb_format(&cx, "chmod +x '%s'", fake);
    assert_int_equal(system(command), 0);
    qb_free(command);
    qb_run *run = load(&cx);
    char *path = qb_strdup(&cx, getenv("PATH"));
    setenv("PATH", folder, 1);
    assert_fails(&cx, qb_report_figures(&cx, run, folder), QB_STATUS_IO);
    setenv("PATH", path, 1);
    assert_message(&cx, "cannot draw today");
    qb_test_join(picture, folder, "latency.png");
    assert_false(qb_path_exists(picture));
    qb_free(path);
    qb_run_free(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(table_is_the_golden_one),
    cmocka_unit_test(data_and_scripts_are_the_golden_ones_and_stay_without_gnuplot),
    cmocka_unit_test(pictures_have_their_kind_and_nothing_else_is_left),
    cmocka_unit_test(names_cannot_leave_their_string),
    cmocka_unit_test(charts_group_by_backend),
    cmocka_unit_test(columns_that_no_row_has_are_left_out),
    cmocka_unit_test(unmeasured_values_draw_nothing),
    cmocka_unit_test(gnuplot_failing_is_an_error_with_its_words),
};
QB_TEST_MAIN(tests)

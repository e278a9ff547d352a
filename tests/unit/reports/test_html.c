/* The HTML page of a fixed record: whole, small, self-contained, and nothing in a record can leave
 * its place. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "qb_test.h"
#include "reports/report.h"

#define GOLDEN QB_SOURCE_DIR "/tests/golden/reports/"

/* Not inlined: gcc 12 takes the stream's buffer for a local variable otherwise. */
__attribute__((noinline)) static char *page_of(qb_ctx *cx, const qb_run *run, const char *figures) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_ok(cx, qb_report_html(cx, run, NULL, figures, stream));
    fclose(stream);
    return text;
}

static qb_run *load(qb_ctx *cx, const char *name) {
    char path[QB_TEST_PATH];
    qb_run *run;
    qb_test_join(path, GOLDEN, name);
    assert_ok(cx, qb_run_load(cx, path, &run));
    return run;
}

static void contains(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("the page lacks: %s", part);
}

static void lacks(const char *text, const char *part) {
    const char *at = strstr(text, part);
    if (at) fail_msg("the page has: %.60s", at);
}

static void page_says_what_int8_costs(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    char *page = page_of(&cx, run, NULL);
    contains(page, "Fastest without a loss beyond chance: <b>int8</b>, drop +0.20 points, 2.00 "
                   "times as fast.");
    contains(page, "No loss beyond chance; a loss of more than 1.13 points is ruled out.");
    contains(page, "Loses accuracy: 4.5 to 8.1 points, more than chance.");
    contains(page, "<code>--max-drop 0.20</code>, with <code>--confidence pass</code> from 1.13");
    contains(page, "10, 8 <span class=\"soft\">(p = 0.81)</span>");
    contains(page, "data:image/png;base64,");
    contains(page, "</html>");
    free(page);
    qb_run_free(run);
}

static void page_needs_nothing_else(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    char *page = page_of(&cx, run, NULL);
    lacks(page, "http://");
    lacks(page, "https://");
    lacks(page, "<link");
    lacks(page, "src=\"/");
    assert_true(strlen(page) < 2000000);
    free(page);
    qb_run_free(run);
}

/* Every list of tags that open also closes. */
static void tags_are_balanced(void **state) {
    (void)state;
    static const char *const tags[] = {"table", "section", "details", "div",     "tr", "td", "th",
                                       "dl",    "p",       "ul",      "summary", "li", "nav"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int old = 0; old < 2; old++) {
        qb_run *run = load(&cx, old ? "compare.json" : "full.json");
        char *page = page_of(&cx, run, NULL);
        for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
            char open[32], close[32];
            int balance = 0;
            snprintf(open, sizeof open, "<%s", tags[i]);
            snprintf(close, sizeof close, "</%s>", tags[i]);
            for (const char *at = page; (at = strstr(at, open)) != NULL; at++) {
                const char after = at[strlen(open)];
                balance += after == '>' || after == ' ';
            }
            for (const char *at = page; (at = strstr(at, close)) != NULL; at++) balance--;
            if (balance != 0) fail_msg("%s: %d more open than close", tags[i], balance);
        }
        free(page);
        qb_run_free(run);
    }
}

static void texts_of_a_record_stay_texts(void **state) {
    (void)state;
    static const char trap[] = "\"><script>alert('x')</script>&";
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    char **texts[] = {&run->model,
                      &run->dataset,
                      &run->cpu,
                      &run->libraries,
                      &run->row[1].precision,
                      &run->row[1].metric[0].definition,
                      &run->row[1].step[0].name,
                      &run->row[0].metric[0].definition,
                      &run->shown[0].name,
                      &run->shown[0].thumbnail,
                      &run->row[1].layer[0].name,
                      &run->row[1].calibration};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qb_free(*texts[i]);
        *texts[i] = qb_strdup(&cx, trap);
    }
    char *page = page_of(&cx, run, NULL);
    lacks(page, "<script>alert");
    contains(page, "&lt;script&gt;alert(&#39;x&#39;)");
    free(page);
    qb_run_free(run);
}

static void figures_are_inside_the_page(void **state) {
    (void)state;
    if (system("gnuplot --version >/dev/null 2>&1") != 0) qb_test_skip("gnuplot is not installed");
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_run *run = load(&cx, "full.json");
    assert_ok(&cx, qb_report_figures(&cx, run, folder));
    char *page = page_of(&cx, run, folder);
    static const char *const names[] = {"accuracy", "latency", "pareto",  "throughput",
                                        "layers",   "steps",   "roofline"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char id[64];
        snprintf(id, sizeof id, "id='%s-gpDot'", names[i]);
        contains(page, id);
        snprintf(id, sizeof id, "figures/%s.tsv", names[i]);
        contains(page, id);
    }
    lacks(page, "<?xml");
    free(page);
    qb_run_free(run);
}

/* The line to paste says all that a shell and the command need. */
static void keep_line_can_be_pasted(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    qb_run_layer *worst = &run->row[1].layer[0];
    qb_free(worst->name);
    qb_free(run->dataset);
    qb_free(run->row[0].precision);
    worst->name = qb_strdup(&cx, "it's block[0]/conv");
    worst->share = 99;
    run->dataset = qb_strdup(&cx, "my val");
    run->row[0].precision = qb_strdup(&cx, "fp32@dnnl");
    char *page = page_of(&cx, run, NULL);
    contains(page, "qbench compare fp32@dnnl int8 --data &#39;my val&#39; --keep-float "
                   "&#39;it&#39;\\&#39;&#39;s block\\[0]/conv&#39; --keep-float ");
    free(page);
    qb_run_free(run);
}

static void equal_classes_make_no_table(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    qb_run_row *first = &run->row[0];
    enum { MANY = 30 };
    for (int32_t r = 0; r < run->n_rows; r++) {
        qb_free(run->row[r].recall);
        run->row[r].recall = qb_alloc(&cx, MANY, sizeof(qb_run_recall));
        run->row[r].n_recall = MANY;
        for (int32_t i = 0; i < MANY; i++) run->row[r].recall[i] = (qb_run_recall){i, 2, 1};
    }
    char *page = page_of(&cx, run, NULL);
    contains(page, "In each of the 30 classes all rows are right equally often.");
    lacks(page, "Recall in percent");
    free(page);
    first->recall[3].right = 2;
    page = page_of(&cx, run, NULL);
    contains(page, "Recall in percent");
    contains(page, "29 more classes");
    free(page);
    qb_run_free(run);
}

static void markdown_and_tsv_have_a_line_a_row(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    qb_report_markdown(stream, run);
    qb_report_tsv(stream, run);
    fclose(stream);
    contains(text, "### model.onnx: 1000 samples of d/test");
    contains(text, "| int8 | 95.60 | 94.1 to 96.7 |");
    contains(text, "\nprecision\ttop1\ttop1_low\ttop1_high\t");
    contains(text, "\nint8\t95.6\t");
    free(text);
    qb_run_free(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(page_says_what_int8_costs),
    cmocka_unit_test(page_needs_nothing_else),
    cmocka_unit_test(tags_are_balanced),
    cmocka_unit_test(texts_of_a_record_stay_texts),
    cmocka_unit_test(figures_are_inside_the_page),
    cmocka_unit_test(keep_line_can_be_pasted),
    cmocka_unit_test(equal_classes_make_no_table),
    cmocka_unit_test(markdown_and_tsv_have_a_line_a_row),
};
QB_TEST_MAIN(tests)

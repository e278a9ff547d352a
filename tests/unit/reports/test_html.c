/* The HTML page of a fixed record: whole, small, self-contained, and nothing in a record can leave
 * its place. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "eval/warnings.h"
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

/* Rows whose latencies overlap, or that run one plan, are as fast as each other. */
static void no_winner_by_noise(void **state) {
    (void)state;
    for (int one_plan = 0; one_plan < 2; one_plan++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_run *run = load(&cx, "full.json");
        qb_run_row *own = &run->row[1], *other = &run->row[2];
        other->paired.drop_ci.lo = -1;
        other->latency.median_ci.hi = 0.9 * own->latency.median_ci.lo;
        char *page = page_of(&cx, run, NULL);
        lacks(page, "cannot be told apart");
        free(page);
        if (one_plan) {
            qb_free(own->plan);
            qb_free(other->plan);
            own->plan = qb_strdup(&cx, "5b3a277c");
            other->plan = qb_strdup(&cx, "5b3a277c");
        } else {
            other->latency.median_ci.hi = own->latency.median_ci.lo;
        }
        page = page_of(&cx, run, NULL);
        contains(page, "<b>int8</b>, <b>int8:minmax+s8-symmetric+per-tensor</b> (their latencies "
                       "cannot be told apart)");
        free(page);
        qb_run_free(run);
    }
}

/* Others on the machine: no speed-up, and no price of layers in float, which is of steps' times. */
static void a_contended_page_claims_no_times(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    char *page = page_of(&cx, run, NULL);
    contains(page, "Expected price: ");
    free(page);
    assert_ok(&cx, qb_warning_add(&cx, run, "contention", "", "others ran on the machine"));
    page = page_of(&cx, run, NULL);
    contains(page, "no speed-up is claimed, others ran on the machine");
    contains(page, "To keep the ");
    lacks(page, "times as fast");
    lacks(page, "Expected price: ");
    free(page);
    qb_run_free(run);
}

/* A warning that touches accuracy: no word of a loss or of limits that hold, for the rows it is
 * about. */
static void a_doubtful_page_claims_no_accuracy(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_run *run = load(&cx, "full.json");
        assert_ok(&cx, qb_warning_add(&cx, run, all ? "chance" : "nan",
                                      all ? "" : run->row[1].precision, "a sentence"));
        char *page = page_of(&cx, run, NULL);
        lacks(page, "No loss beyond chance");
        lacks(page, "<code>--max-drop 0.20</code>");
        lacks(page, "Fastest without a loss");
        lacks(page, "Every row loses");
        contains(page, all ? "The loss is not known: the reference answers no better than guessing."
                           : "The loss is not known: outputs hold NaN or several infinities.");
        contains(page, all ? "<code>--allow chance</code>" : "<code>--allow nan</code>");
        (all ? lacks : contains)(page, "Loses accuracy: 4.5 to 8.1 points, more than chance.");
        free(page);
        qb_run_free(run);
    }
}

/* Medians that are not settled choose no fastest row. */
static void an_unstable_page_claims_no_speed(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    assert_ok(&cx, qb_warning_add(&cx, run, "unstable", run->row[0].precision, "a sentence"));
    char *page = page_of(&cx, run, NULL);
    contains(page, "no speed-up is claimed, the median latency is not settled");
    contains(page, "<dt>speed-up, in doubt</dt>");
    lacks(page, "times as fast");
    free(page);
    qb_run_free(run);
}

/* No layer is above the roof, whatever the ceilings' measurement reached. */
static void points_lie_below_the_roof(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = load(&cx, "full.json");
    run->ceilings = (qb_ceilings){.f32_gops = 1e-3, .s8_gops = 1e-3, .memory_gbs = 1e-3};
    const qb_ceilings roof = qb_report_roof(run);
    int32_t seen = 0;
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_steps; i++) {
            const qb_run_step *s = &run->row[r].step[i];
            if (!(s->flops > 0 && s->bytes > 0 && s->ms > 0)) continue;
            const double top = s->dtype[0] == 'f' ? roof.f32_gops : roof.s8_gops;
            assert_true(s->flops / s->ms * 1e-6 <= top * (1 + 1e-12));
            assert_true(s->bytes / s->ms * 1e-6 <= roof.memory_gbs * (1 + 1e-12));
            seen++;
        }
    assert_true(seen > 5);
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
    cmocka_unit_test(no_winner_by_noise),
    cmocka_unit_test(a_contended_page_claims_no_times),
    cmocka_unit_test(a_doubtful_page_claims_no_accuracy),
    cmocka_unit_test(an_unstable_page_claims_no_speed),
    cmocka_unit_test(points_lie_below_the_roof),
    cmocka_unit_test(page_needs_nothing_else),
    cmocka_unit_test(tags_are_balanced),
    cmocka_unit_test(texts_of_a_record_stay_texts),
    cmocka_unit_test(figures_are_inside_the_page),
    cmocka_unit_test(keep_line_can_be_pasted),
    cmocka_unit_test(equal_classes_make_no_table),
    cmocka_unit_test(markdown_and_tsv_have_a_line_a_row),
};
QB_TEST_MAIN(tests)

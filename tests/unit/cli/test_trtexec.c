/* docs/trtexec.md and cli/bench/trtexec.inc say what bench does with each flag of trtexec: it does.
 * QB_UPDATE=1 writes the page anew. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "cli/bench/trtexec.h"
#include "cli/command.h"
#include "cli/settings/pairs.h"

static const qb_opt *row(const qb_opt *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

static void handled_flags_are_options_of_bench(void **state) {
    (void)state;
    const qb_command *bench = qb_command_find("bench");
    for (const qb_trtexec_flag *f = qb_trtexec_flags; f->name; f++) {
        if (f->verdict == QB_TRTEXEC_HANDLED && !row(bench->options, f->name))
            fail_msg("--%s is no option of bench", f->name);
        if (f->verdict != QB_TRTEXEC_HANDLED && row(bench->options, f->name))
            fail_msg("--%s is an option of bench", f->name);
        for (const qb_trtexec_flag *g = qb_trtexec_flags; g < f; g++)
            assert_string_not_equal(f->name, g->name);
    }
}

/* With and without a value, as trtexec spells both. */
static void the_others_are_parsed_and_accepted_or_refused(void **state) {
    (void)state;
    const qb_command *bench = qb_command_find("bench");
    int n[3] = {0};
    for (const qb_trtexec_flag *f = qb_trtexec_flags; f->name; f++) {
        n[f->verdict]++;
        if (f->verdict == QB_TRTEXEC_HANDLED) continue;
        for (int with_value = 0; with_value < 2; with_value++) {
            qb_ctx cx;
            char word[128];
            char *argv[] = {(char[]){"bench"}, word};
            qb_opt_list rest = {.n = 0};
            qb_ctx_init(&cx);
            void *options = qb_alloc(&cx, 1, bench->options_size);
            assert_non_null(options);
            snprintf(word, sizeof word, "--%s%s", f->name, with_value ? "=1" : "");
            assert_ok(&cx, qb_opt_parse(&cx, bench->options, bench->also, 2, argv, options, &rest));
            const qb_opt_list *given =
                (const qb_opt_list *)(void *)((char *)options + row(bench->also, f->name)->offset);
            assert_int_equal(given->n, 2);
            if (f->verdict == QB_TRTEXEC_ACCEPTED) {
                assert_ok(&cx, qb_trtexec_check(&cx, given));
            } else {
                assert_fails(&cx, qb_trtexec_check(&cx, given), QB_STATUS_USAGE);
                assert_message(&cx, f->name);
                assert_message(&cx, f->text);
            }
            qb_free(options);
        }
    }
    print_message("%d flags handled, %d accepted, %d refused\n", n[0], n[1], n[2]);
}

/* trtexec's switch, and a number of threads. */
static void threads_need_no_number(void **state) {
    (void)state;
    const struct {
        int argc;
        char *argv[4];
        int64_t threads;
    } rows[] = {{2, {(char[]){"bench"}, (char[]){"--threads"}}, -1},
                {3, {(char[]){"bench"}, (char[]){"--threads"}, (char[]){"--useSpinWait"}}, -1},
                {3, {(char[]){"bench"}, (char[]){"--threads"}, (char[]){"--fp16"}}, -1},
                {3, {(char[]){"bench"}, (char[]){"--threads"}, (char[]){"3"}}, 3},
                {2, {(char[]){"bench"}, (char[]){"--threads=3"}}, 3}};
    const qb_command *bench = qb_command_find("bench");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_ctx cx;
        char *argv[4];
        qb_opt_list rest = {.n = 0};
        qb_ctx_init(&cx);
        qb_common *common = qb_alloc(&cx, 1, bench->options_size);
        assert_non_null(common);
        common->threads = -1;
        memcpy(argv, rows[i].argv, sizeof argv);
        assert_ok(
            &cx, qb_opt_parse(&cx, bench->options, bench->also, rows[i].argc, argv, common, &rest));
        assert_int_equal(common->threads, rows[i].threads);
        qb_free(common);
    }
}

static void an_unknown_input_is_answered_with_those_there_are(void **state) {
    (void)state;
    static const char *const names[] = {"left", "right"};
    const char *text = "other:1x3";
    qb_pair pair;
    qb_ctx cx;
    int32_t index;
    assert_true(qb_pair_next(&text, &pair));
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_pair_input(&cx, "shapes", &pair, names, 2, &index), QB_STATUS_USAGE);
    assert_message(&cx, "--shapes: the model has no input 'other'; it has left, right");
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_pair_input(&cx, "shapes", &pair, names, 0, &index), QB_STATUS_USAGE);
    assert_message(&cx, "--shapes: the model has no input 'other'; it has none");
}

static void add_table(qb_strbuf *out, qb_trtexec_verdict verdict, const char *title,
                      const char *column) {
    qb_strbuf_addf(out, "\n## %s\n\n| flag | %s |\n| --- | --- |\n", title, column);
    for (const qb_trtexec_flag *f = qb_trtexec_flags; f->name; f++)
        if (f->verdict == verdict) qb_strbuf_addf(out, "| `--%s` | %s |\n", f->name, f->text);
}

static void the_page_is_what_the_table_says(void **state) {
    (void)state;
    qb_ctx cx;
    qb_strbuf page = {0};
    char *written;
    size_t size;
    const char *path = QB_SOURCE_DIR "/docs/trtexec.md";
    qb_ctx_init(&cx);
    qb_strbuf_add(
        &page,
        "# trtexec's flags\n\n"
        "What `qbench bench` does with each flag of trtexec, up to TensorRT 11. Written from\n"
        "`cli/bench/trtexec.inc` by `tests/unit/cli/test_trtexec.c`, which also parses every "
        "one.\n");
    add_table(&page, QB_TRTEXEC_HANDLED, "Handled", "meaning");
    add_table(&page, QB_TRTEXEC_ACCEPTED, "Accepted", "changes nothing, because");
    add_table(&page, QB_TRTEXEC_REFUSED, "Refused: an error that says",
              "what to do instead, or why");
    assert_false(page.failed);
    if (getenv("QB_UPDATE")) assert_ok(&cx, qb_file_write(&cx, path, page.data, page.size));
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 20, &written, &size));
    assert_int_equal(size, page.size);
    assert_memory_equal(written, page.data, size);
    qb_free(written);
    qb_strbuf_release(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handled_flags_are_options_of_bench),
        cmocka_unit_test(the_others_are_parsed_and_accepted_or_refused),
        cmocka_unit_test(threads_need_no_number),
        cmocka_unit_test(an_unknown_input_is_answered_with_those_there_are),
        cmocka_unit_test(the_page_is_what_the_table_says),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    qb_log log;
    FILE *stream;
} fixture;

static int setup(void **state) {
    static fixture f;
    memset(&f, 0, sizeof f);
    qb_ctx_init(&f.cx);
    f.stream = tmpfile();
    if (!f.stream) return -1;
    qb_log_init(&f.log, f.stream, QB_LEVEL_INFO, false);
    f.cx.log = &f.log;
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fclose(f->stream);
    return 0;
}

static const char *output(fixture *f) {
    static char text[1 << 20];
    rewind(f->stream);
    text[fread(text, 1, sizeof text - 1, f->stream)] = '\0';
    return text;
}

static void a_file_is_no_terminal(void **state) {
    fixture *f = *state;
    assert_false(f->log.terminal);
    assert_false(f->log.color);
    assert_false(f->log.quiet);
}

static void levels_filter_and_mark(void **state) {
    fixture *f = *state;
    qb_logf(&f->cx, QB_LEVEL_ERROR, "e%d", 1);
    qb_warn(&f->cx, "w%d", 2);
    qb_info(&f->cx, "i%d", 3);
    qb_debug(&f->cx, "d%d", 4);
    assert_string_equal(output(f), "qbench: error: e1\nqbench: warning: w2\ni3\n");
}

static void without_a_log_nothing_happens(void **state) {
    fixture *f = *state;
    f->cx.log = NULL;
    qb_info(&f->cx, "x");
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "x", "y", 1);
    qb_progress_step(&p, 1);
    qb_progress_end(&p);
    assert_int_equal(p.done, 1);
    assert_string_equal(output(f), "");
}

static void color_only_where_wanted(void **state) {
    fixture *f = *state;
    f->log.color = true;
    qb_warn(&f->cx, "w");
    assert_non_null(strstr(output(f), "\x1b[1;33mwarning:\x1b[0m w\n"));
}

static void *log_lines(void *user) {
    const qb_ctx *cx = user;
    for (int i = 0; i < 500; i++) qb_info(cx, "%0100d", i);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    fixture *f = *state;
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, log_lines, &f->cx), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    const char *text = output(f);
    int lines = 0;
    for (const char *p = text; *p; p += 101, lines++) assert_int_equal(strcspn(p, "\n"), 100);
    assert_int_equal(lines, 2000);
}

static void plain_progress_is_one_closing_line_when_fast(void **state) {
    fixture *f = *state;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "calibrate", "images", 10);
    for (int i = 0; i < 10; i++) qb_progress_step(&p, 1);
    qb_progress_end(&p);
    qb_progress_end(&p);
    const char *text = output(f);
    assert_memory_equal(text, "calibrate: 10 images in ", 24);
    assert_non_null(strstr(text, " images/s\n"));
    assert_int_equal(strcspn(text, "\n") + 1, strlen(text));
    assert_null(strchr(text, '\r'));
}

static void plain_progress_tells_every_ten_seconds(void **state) {
    fixture *f = *state;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "calibrate", "images", 200);
    p.started -= 20; /* as if 20 seconds had passed */
    p.drawn -= 20;
    qb_progress_step(&p, 50);
    qb_progress_step(&p, 50); /* too soon for another line */
    const char *text = output(f);
    assert_memory_equal(text, "calibrate  25 %  50/200 images  2.50 images/s  1 min 00 s left\n",
                        63);
    assert_int_equal(strlen(text), 63);
}

/* An engine that took an hour to build says nothing of the hours that 20 samples need. */
static void work_done_once_has_its_own_line(void **state) {
    fixture *f = *state;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "evaluate", "samples", 20);
    p.started -= 3600;
    p.drawn -= 3600;
    qb_progress_once(&p, 1, "engines built");
    p.once_at -= 10;
    p.drawn -= 20;
    qb_progress_step(&p, 10);
    qb_progress_end(&p);
    const char *text = output(f);
    assert_non_null(strstr(text, "evaluate: engines built in 1 h 00 min\n"));
    assert_non_null(strstr(text, "11/20 samples  1.00 samples/s  9.0 s left\n"));
    assert_non_null(strstr(text, "evaluate: 11 samples in 10 s, 1.00 samples/s\n"));
    const char *first =
        strstr(text, " 1/20 samples"); /* told before anything is known of the rest */
    assert_true(!first || !strstr(first, " left") || strstr(first, " left") > strchr(first, '\n'));
}

static void fast_work_may_have_no_line(void **state) {
    fixture *f = *state;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "build", "engines", 2);
    p.only_slow = true;
    qb_progress_step(&p, 2);
    qb_progress_end(&p);
    assert_string_equal(output(f), "");
    qb_progress_begin(&f->cx, &p, "build", "engines", 2);
    p.only_slow = true;
    p.started -= 4;
    qb_progress_step(&p, 2);
    qb_progress_end(&p);
    assert_memory_equal(output(f), "build: 2 engines in 4.0 s", 25);
}

/* One drawing of 125 of 500 samples on a terminal so wide, without the code that clears the line.
 */
static void drawn_on_a_terminal(fixture *f, int columns, char text[256]) {
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        qb_test_skip("no pseudo-terminal");
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
    FILE *stream = fdopen(slave, "w");
    qb_log log;
    qb_log_init(&log, stream, QB_LEVEL_INFO, false);
    assert_true(log.terminal);
    f->cx.log = &log;
    qb_progress p = {.cx = &f->cx, .total = 500, .done = 124, .open = true};
    strcpy(p.label, "evaluate");
    strcpy(p.unit, "samples");
    p.started = qb_now() - 100;
    qb_progress_step(&p, 1);
    fflush(stream);
    const ssize_t n = read(master, text, 255);
    assert_true(n > 4);
    text[n] = '\0';
    memmove(text, text + 4, (size_t)n - 3);
    fclose(stream);
    close(master);
    f->cx.log = &f->log;
}

/* Words are never cut where the bar, the memory or the rate can give way. */
static void progress_fits_the_terminal(void **state) {
    fixture *f = *state;
    static const struct {
        int columns, bar;
        const char *words;
    } rows[] = {{120, 24, " 25 %  125/500 samples  1.25 samples/s  5 min 00 s left  "},
                {84, 9, " 25 %  125/500 samples  1.25 samples/s  5 min 00 s left  "},
                {75, 0, "evaluate  25 %  125/500 samples  1.25 samples/s  5 min 00 s left  "},
                {66, 0, "evaluate  25 %  125/500 samples  1.25 samples/s  5 min 00 s left"},
                {60, 0, "evaluate  25 %  125/500 samples  5 min 00 s left"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        drawn_on_a_terminal(f, rows[i].columns, text);
        if (!strstr(text, rows[i].words) || (int)strlen(text) >= rows[i].columns)
            fail_msg("%d columns: '%s'", rows[i].columns, text);
        const char *open = strchr(text, '['), *close = strchr(text, ']');
        assert_true((open != NULL) == (rows[i].bar > 0));
        if (open && close - open - 1 > rows[i].bar) fail_msg("'%s'", text);
        if (rows[i].columns > 70) assert_non_null(strstr(text, " MiB"));
    }
}

static void progress_without_a_total_has_no_share(void **state) {
    fixture *f = *state;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "read", "files", 0);
    p.started -= 20;
    p.drawn -= 20;
    qb_progress_step(&p, 50);
    const char *text = output(f);
    assert_memory_equal(text, "read 50 files  2.50 files/s\n", 28);
    assert_null(strchr(text, '%'));
}

static void quiet_and_error_level_show_no_progress(void **state) {
    fixture *f = *state;
    qb_progress p;
    for (int i = 0; i < 2; i++) {
        f->log.quiet = i == 0;
        f->log.level = i == 0 ? QB_LEVEL_INFO : QB_LEVEL_WARN;
        qb_progress_begin(&f->cx, &p, "x", "y", 2);
        p.drawn -= 100;
        qb_progress_step(&p, 1);
        qb_progress_end(&p);
    }
    assert_string_equal(output(f), "");
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

static void terminal_progress_redraws_one_line(void **state) {
    fixture *f = *state;
    f->log.terminal = true;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "run", "x", 4);        /* leaves room for the whole bar */
    for (int i = 0; i < 2; i++) qb_progress_step(&p, 1); /* faster than ten a second: not drawn */
    p.drawn -= 1;
    p.started -= 1;
    qb_progress_step(&p, 0);
    qb_progress_end(&p);
    const char *text = output(f);
    assert_int_equal(count(text, "\r\x1b[K"), 3); /* begin, one step, end */
    assert_int_equal(count(text, "\n"), 1);
    assert_int_equal(count(text, "[============>           ]"), 1);
    assert_non_null(strstr(text, " 50 %"));
    for (const char *line = text; (line = strstr(line, "\x1b[K")); line++)
        assert_true(strcspn(line + 3, "\r\n") < 80); /* never wraps */
}

static void messages_replace_a_bar_on_a_terminal(void **state) {
    fixture *f = *state;
    f->log.terminal = true;
    qb_info(&f->cx, "hello");
    assert_string_equal(output(f), "\r\x1b[Khello\n");
}

static void more_steps_than_announced_stay_at_the_end(void **state) {
    fixture *f = *state;
    f->log.terminal = true;
    qb_progress p;
    qb_progress_begin(&f->cx, &p, "x", "y", 2);
    p.drawn -= 1;
    qb_progress_step(&p, 5);
    assert_non_null(strstr(output(f), "[========================] 100 %"));
    qb_progress_end(&p);
}

static void clock_goes_forward(void **state) {
    (void)state;
    double a = qb_now();
    usleep(2000);
    double b = qb_now();
    assert_true(b - a >= 0.0015 && b - a < 60);
}

static void peak_rss_sees_a_large_block(void **state) {
    (void)state;
    size_t n = (size_t)64 << 20, before = qb_peak_rss();
    assert_true(before > 100000);
    volatile char *block = malloc(n);
    assert_non_null((const void *)(uintptr_t)block);
    for (size_t i = 0; i < n; i += 4096) block[i] = 1;
    free((void *)(uintptr_t)block);
    assert_true(qb_peak_rss() >= before + n / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
static const struct CMUnitTest tests[] = {
    TEST(a_file_is_no_terminal),
    TEST(levels_filter_and_mark),
    TEST(without_a_log_nothing_happens),
    TEST(color_only_where_wanted),
    TEST(lines_of_threads_do_not_mix),
    TEST(plain_progress_is_one_closing_line_when_fast),
    TEST(plain_progress_tells_every_ten_seconds),
    TEST(work_done_once_has_its_own_line),
    TEST(fast_work_may_have_no_line),
    TEST(progress_fits_the_terminal),
    TEST(progress_without_a_total_has_no_share),
    TEST(quiet_and_error_level_show_no_progress),
    TEST(terminal_progress_redraws_one_line),
    TEST(messages_replace_a_bar_on_a_terminal),
    TEST(more_steps_than_announced_stay_at_the_end),
    TEST(clock_goes_forward),
    TEST(peak_rss_sees_a_large_block),
};
QB_TEST_MAIN(tests)

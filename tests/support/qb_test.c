#include "qb_test.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEMP_DIRS 64

static size_t skipped;
static char temp_dirs[MAX_TEMP_DIRS][QB_TEST_PATH];
static int n_temp_dirs;

static const char *status_text(qb_status status) {
    static const char *const texts[QB_STATUS_COUNT] = {
#define X(name, text) [QB_STATUS_##name] = text,
        QB_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < QB_STATUS_COUNT ? texts[status] : "unknown status";
}

void qb_test_status(const qb_ctx *cx, qb_status got, qb_status expected, const char *expr,
                    const char *file, int line) {
    if (got != expected) {
        print_error("%s:%d: %s\n  expected: %s\n  got: %s (%s)\n", file, line, expr,
                    status_text(expected), status_text(got), cx->message);
        _fail(file, line);
    }
    if (expected != QB_OK && (cx->code != expected || cx->message[0] == '\0')) {
        print_error("%s:%d: %s\n  the context records: %s \"%s\"\n", file, line, expr,
                    status_text(cx->code), cx->message);
        _fail(file, line);
    }
}

void qb_test_message(const qb_ctx *cx, const char *text, const char *file, int line) {
    if (strstr(cx->message, text)) return;
    print_error("%s:%d: message\n  expected to contain: %s\n  got: %s\n", file, line, text,
                cx->message);
    _fail(file, line);
}

void qb_test_floats(const float *actual, const float *expected, size_t n, float rtol, float atol,
                    const char *file, int line) {
    size_t bad = 0, worst = 0;
    double excess = -1;
    for (size_t i = 0; i < n; i++) {
        double a = actual[i], e = expected[i];
        if (a == e || (isnan(a) && isnan(e))) continue;
        double over = fabs(a - e) - ((double)atol + (double)rtol * fabs(e));
        if (over <= 0) continue; /* false for NaN: it counts as bad */
        if (!bad++ || !(over <= excess)) {
            worst = i;
            excess = over;
        }
    }
    if (bad == 0) return;
    print_error("%s:%d: %zu of %zu values differ, worst at %zu: expected %.9g, got %.9g\n", file,
                line, bad, n, worst, (double)expected[worst], (double)actual[worst]);
    _fail(file, line);
}

void qb_test_skip(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fputs("skipped: ", stdout);
    vprintf(fmt, args);
    putchar('\n');
    va_end(args);
    skipped++;
    skip();
}

bool qb_test_shared(char path[QB_TEST_PATH], const char *name) {
    const char *folder = getenv("QB_SHARED");
    qb_test_join(path, folder && *folder ? folder : QB_SHARED_DIR, name);
    return access(path, R_OK) == 0;
}

void qb_test_need_shared(char path[QB_TEST_PATH], const char *name) {
    if (!qb_test_shared(path, name)) qb_test_skip("%s is not there", path);
}

void qb_test_source(char path[QB_TEST_PATH], const char *name) {
    qb_test_join(path, QB_SOURCE_DIR, name);
}

void qb_test_join(char path[QB_TEST_PATH], const char *folder, const char *name) {
    int n = snprintf(path, QB_TEST_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= QB_TEST_PATH) fail_msg("path too long: %s/%s", folder, name);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_temp_dirs(void) {
    for (int i = 0; i < n_temp_dirs; i++)
        nftw(temp_dirs[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void qb_test_temp_dir(char path[QB_TEST_PATH]) {
    const char *base = getenv("TMPDIR");
    qb_test_join(path, base && *base ? base : "/tmp", "qb_test_XXXXXX");
    if (n_temp_dirs >= MAX_TEMP_DIRS || !mkdtemp(path)) fail_msg("no temporary folder %s", path);
    if (n_temp_dirs == 0) atexit(remove_temp_dirs);
    memcpy(temp_dirs[n_temp_dirs++], path, QB_TEST_PATH);
}

int qb_test_count_files(const char *folder) {
    DIR *dir = opendir(folder);
    if (!dir) return -1;
    int n = 0;
    for (const struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

int qb_test_alloc_sweep(qb_status (*body)(qb_ctx *cx, void *user), void *user) {
    enum { LIMIT = 100000 };
    for (int n = 1; n < LIMIT; n++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        cx.fail_alloc_at = n;
        qb_status status = body(&cx, user);
        if (cx.fail_alloc_at > 0) { /* fewer allocations than n: nothing failed */
            if (status != QB_OK) fail_msg("without a failure: %s", cx.message);
            return n - 1;
        }
        if (status != QB_STATUS_NOMEM)
            fail_msg("allocation %d failed, expected \"out of memory\", got %s (%s)", n,
                     status_text(status), cx.message);
    }
    fail_msg("no end after %d allocations", LIMIT);
    return -1;
}

int qb_test_exit_code(int failed, size_t n_tests) {
    if (failed == 0 && n_tests > 0 && skipped == n_tests) return 77;
    return failed ? 1 : 0;
}

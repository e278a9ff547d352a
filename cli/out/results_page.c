/* The HTML report as a file, and as PDF by a browser. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/out/gate.h"
#include "cli/out/results.h"
#include "reports/report.h"

/* Draws into figures/ beside the page. *figures is NULL where nothing was drawn. */
static qb_status draw_beside(qb_ctx *cx, const char *path, const qb_run *run, char **figures) {
    QB_FREED char *folder = QB_NEW(cx, qb_path_dir(cx, path));
    QB_FREED char *place = QB_NEW(cx, qb_path_join(cx, folder, "figures"));
    const qb_status status = qb_report_figures(cx, run, place);
    if (status == QB_STATUS_NOTFOUND) { /* no gnuplot */
        qb_warn(cx, "%s", cx->message);
        qb_ctx_clear(cx);
        *figures = NULL;
        return QB_OK;
    }
    if (status == QB_OK) *figures = QB_MOVE(place);
    return status;
}

/* The gate's word by the limits of the settings file; nothing where there are none, or where they
 * are of something else than this record has. */
static qb_status judge(qb_ctx *cx, const qb_common *common, const qb_run *run,
                       qb_verdict_text *out) {
    qb_ctx child;
    qb_ctx_child(cx, &child);
    const qb_status status = qb_gate_verdict_of(&child, common, run, out);
    if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED) {
        qb_ctx_take(cx, &child);
        return status;
    }
    if (status != QB_OK) qb_warn(cx, "the page has no verdict: %s", child.message);
    return QB_OK;
}

static void verdict_release(qb_verdict_text *verdict) {
    QB_FREE_ALL(verdict->text, verdict->lines);
}

qb_status qb_results_html(qb_ctx *cx, const qb_common *common, const char *path, const qb_run *run,
                          bool figures) {
    QB_FREED char *folder = NULL;
    QB_RELEASED(verdict_release) qb_verdict_text verdict = {0};
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    QB_TRY(judge(cx, common, run, &verdict));
    if (figures) QB_TRY(draw_beside(cx, path, run, &folder));
    QB_TRY(qb_writer_open(cx, path, &writer));
    const qb_verdict judged = {verdict.word, verdict.text, verdict.lines};
    QB_TRY(qb_report_html(cx, run, verdict.word ? &judged : NULL, folder, writer.stream));
    return qb_writer_commit(cx, &writer);
}

qb_status qb_results_page(qb_ctx *cx, const qb_common *common, const char *folder,
                          const qb_run *run) {
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, folder, "report.html"));
    QB_FREED char *text = NULL;
    QB_RELEASED(qb_run_free_at) qb_run *record = NULL;
    QB_TRY(qb_run_json(cx, run, &text)); /* whose digits everybody draws who has the file */
    QB_TRY(qb_run_parse(cx, "record", text, strlen(text), &record));
    QB_TRY(qb_results_html(cx, common, path, record, true));
    qb_info(cx, "wrote %s; its charts are in figures/", path);
    return QB_OK;
}

/* ---- PDF ---- */

/* Runs the browser on the page. Returns 0, an errno, or -1 when it failed. */
static int print_page(const char *browser, char *profile, char *target, char *page) {
    extern char **environ;
    /* No sandbox: the page is our own, loads nothing, and containers rarely allow one. */
    char *const words[] = {(char *)(uintptr_t)browser,
                           "--headless",
                           "--no-sandbox",
                           "--disable-gpu",
                           "--no-first-run",
                           "--no-pdf-header-footer",
                           "--print-to-pdf-no-header",
                           profile,
                           target,
                           page,
                           NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) return error;
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
    error = posix_spawnp(&child, browser, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return error;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The first browser that there is. */
static qb_status print_with_any(qb_ctx *cx, char *profile, char *target, char *page) {
    static const char *const browsers[] = {"chromium", "chromium-browser", "google-chrome",
                                           "chromium-headless-shell"};
    for (size_t i = 0; i < sizeof browsers / sizeof browsers[0]; i++) {
        const int error = print_page(browsers[i], profile, target, page);
        QB_TRY(qb_check_cancel(cx));
        if (error == 0) return QB_OK;
        if (error != ENOENT)
            return qb_fail(cx, QB_STATUS_IO, "report: %s could not print the page", browsers[i]);
    }
    return qb_fail(cx, QB_STATUS_NOTFOUND,
                   "report: --format pdf prints through Chromium, which is not installed: install "
                   "chromium, or write --format html and print it in any browser");
}

/* file:// and the path, of which an URL takes letters, digits and a few signs as they are. */
static char *url_of(qb_ctx *cx, const char *path) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._~-";
    const char scheme[] = "file://";
    char *url = qb_alloc(cx, sizeof scheme + 3 * strlen(path), 1), *to = url;
    if (!url) return NULL;
    to += sprintf(to, "%s", scheme);
    for (; *path; path++)
        to += strchr(plain, *path) ? sprintf(to, "%c", *path)
                                   : sprintf(to, "%%%02X", (unsigned char)*path);
    return url;
}

static qb_status print_in(qb_ctx *cx, const qb_common *common, const char *folder, const char *path,
                          const qb_run *run, bool figures) {
    QB_FREED char *page = qb_format(cx, "%s/report.html", folder);
    QB_FREED char *target = qb_format(cx, "--print-to-pdf=%s/report.pdf", folder);
    QB_FREED char *printed = qb_format(cx, "%s/report.pdf", folder), *bytes = NULL;
    QB_FREED char *profile = qb_format(cx, "--user-data-dir=%s/profile", folder);
    QB_FREED char *url = page ? url_of(cx, page) : NULL;
    size_t size;
    if (!page || !target || !printed || !profile || !url) return cx->code;
    QB_TRY(qb_results_html(cx, common, page, run, figures));
    QB_TRY(print_with_any(cx, profile, target, url));
    QB_TRY(qb_file_read(cx, printed, (size_t)256 << 20, &bytes, &size));
    return qb_file_write(cx, path, bytes, size);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

qb_status qb_results_pdf(qb_ctx *cx, const qb_common *common, const char *path, const qb_run *run,
                         bool figures) {
    const char *place = getenv("TMPDIR"); /* Chromium keeps its own files there as well */
    QB_FREED char *folder =
        QB_NEW(cx, qb_path_join(cx, place && *place ? place : "/tmp", "qbench-report-XXXXXX"));
    qb_status status = QB_OK;
    if (!mkdtemp(folder)) return qb_fail_errno(cx, "make folder %s", folder);
    char *whole = realpath(folder, NULL); /* a URL has no current folder */
    status = whole ? print_in(cx, common, whole, path, run, figures)
                   : qb_fail_errno(cx, "open %s", folder);
    free(whole);
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        qb_warn(cx, "%s could not be removed", folder);
    return status;
}

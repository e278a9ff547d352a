#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_INTERRUPTED = 130 };

static volatile sig_atomic_t interrupted;

/* ---- stopping ---- */

static void say(const char *text, size_t n) { (void)!write(STDERR_FILENO, text, n); }
#define SAY(TEXT) say(TEXT, sizeof(TEXT) - 1)

/* The first Ctrl-C asks; the second one kills. */
static void on_interrupt(int number) {
    const int error = errno;
    const struct itimerval limit = {.it_value = {.tv_usec = QB_STOP_MS * 1000}};
    interrupted = QB_CANCEL_ASKED;
    signal(number, SIG_DFL);
    setitimer(ITIMER_REAL, &limit, NULL);
    errno = error;
}

/* Temporary files that are being written go: writers have them open. For signal handlers. */
static void remove_temporary_files(void) {
    enum { MOST = 1000, FOLDER = 14, ENDING = 4 };
    char link[FOLDER + 4] = "/proc/self/fd/", path[PATH_MAX + 1];
    for (int fd = 3; fd < MOST; fd++) {
        int at = FOLDER;
        if (fd >= 100) link[at++] = (char)('0' + fd / 100);
        if (fd >= 10) link[at++] = (char)('0' + fd / 10 % 10);
        link[at++] = (char)('0' + fd % 10);
        link[at] = '\0';
        const ssize_t n = readlink(link, path, PATH_MAX);
        if (n < ENDING) continue;
        path[n] = '\0';
        if (strstr(path, ".qbench-") && strcmp(path + n - ENDING, ".tmp") == 0) unlink(path);
    }
}

/* The time is over. Who has looked at the flag is on its way out and tidies up. */
static void on_limit(int number) {
    (void)number;
    if (interrupted != QB_CANCEL_ASKED) return;
    remove_temporary_files();
    SAY("qbench: error: interrupted\n");
    _exit(EXIT_INTERRUPTED);
}

/* std::terminate: oneDNN lets std::bad_alloc out of its C functions. */
static void on_abort(int number) {
    (void)number;
    remove_temporary_files();
    SAY("qbench: error: a library gave up: out of memory, or a defect (SIGABRT)\n");
    _exit(EXIT_FAILED);
}

static volatile sig_atomic_t is_done; /* main ends on its own */

/* HDF5 1.10 calls exit(-1) where it finds no memory for what it has to remember. */
static void on_exit_of_library(void) {
    if (is_done) return;
    remove_temporary_files();
    SAY("qbench: error: a library ended the program: out of memory, or a plugin that exits\n");
    _exit(EXIT_FAILED);
}

void qb_signals_done(void) { is_done = 1; }

/* ---- a file that was cut short ---- */

/* A line of /proc/self/maps: "BEGIN-END RIGHTS OFFSET DEVICE INODE    PATH". */
typedef struct line {
    uintptr_t begin, end;
    const char *path; /* NULL: the mapping has none */
    size_t n;
} line;

static uintptr_t hex(const char **at) {
    uintptr_t value = 0;
    for (;; ++*at) {
        const char c = **at;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uintptr_t)(c - 'a' + 10);
        else
            return value;
    }
}

static line read_line(const char *text) {
    line out = {.begin = hex(&text)};
    text++;
    out.end = hex(&text);
    const size_t n = strcspn(text, "\n"), before = strcspn(text, "/\n");
    if (before < n) out = (line){out.begin, out.end, text + before, n - before};
    return out;
}

/* Names the mapped file that holds `address`. A handler may neither allocate nor use streams: the
 * list is read a piece at a time, of which what follows the last line break goes to the next. */
static void name_file(uintptr_t address) {
    char text[8192];
    size_t used = 0;
    ssize_t got;
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        char *at = text;
        for (char *end; (end = strchr(at, '\n')); at = end + 1) {
            const line l = read_line(at);
            if (address < l.begin || address >= l.end || !l.path) continue;
            say(l.path, l.n);
            SAY(": ");
            close(fd);
            return;
        }
        used -= (size_t)(at - text);
        memmove(text, at, used);
        if (used == sizeof text - 1) used = 0; /* longer than any line is */
    }
    if (fd >= 0) close(fd);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(number, SIG_DFL); /* a fault of the machine, not of a file */
        return;
    }
    SAY("qbench: error: ");
    name_file((uintptr_t)info->si_addr);
    SAY("the file was cut short while it was read\n");
    _exit(EXIT_FAILED);
}

void qb_signals_init(qb_ctx *cx) {
    static const int handled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGALRM, SIGBUS,
                                  SIGABRT, SIGPIPE, SIGXFSZ, SIGCHLD};
    const struct sigaction stop = {.sa_handler = on_interrupt}, limit = {.sa_handler = on_limit},
                           abort = {.sa_handler = on_abort},
                           bus = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    struct sigaction hangup;
    cx->cancel = &interrupted;
    /* Whoever starts this program may have blocked signals for itself, or have no use for the ends
     * of its children; both are handed down. */
    sigset_t own;
    sigemptyset(&own);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) sigaddset(&own, handled[i]);
    sigprocmask(SIG_UNBLOCK, &own, NULL);
    signal(SIGCHLD, SIG_DFL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* not with nohup */
        sigaction(SIGHUP, &stop, NULL);
    sigaction(SIGALRM, &limit, NULL);
    sigaction(SIGBUS, &bus, NULL);
    sigaction(SIGABRT, &abort, NULL);
    atexit(on_exit_of_library);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file over the size limit is an error of that write */
}

#include "log.h"

#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CLEAR_LINE "\r\x1b[K"
#define BAR_WIDTH 24
#define BAR_LEAST 6
#define TERMINAL_INTERVAL 0.1 /* seconds between two drawings */
#define PLAIN_INTERVAL 10.0
#define SLOW 1.0 /* seconds: work that has a line of its own */

void qb_log_init(qb_log *log, FILE *stream, qb_level level, bool no_color) {
    int fd = fileno(stream);
    bool terminal = fd >= 0 && isatty(fd);
    *log = (qb_log){
        .stream = stream, .level = level, .terminal = terminal, .color = terminal && !no_color};
}

/* One fwrite under the stream's lock, so that lines of several threads do not mix. */
static void put(const qb_log *log, const char *text, size_t n) {
    fflush(stdout); /* results that were printed before stand before, also in one file */
    fwrite(text, 1, n, log->stream);
    fflush(log->stream);
}

void qb_logf(const qb_ctx *cx, qb_level level, const char *fmt, ...) {
    static const char *const prefix[] = {"qbench: error: ", "qbench: warning: ", "", "debug: "};
    static const char *const colored[] = {"qbench: \x1b[1;31merror:\x1b[0m ",
                                          "qbench: \x1b[1;33mwarning:\x1b[0m ", "",
                                          "\x1b[2mdebug:\x1b[0m "};
    const qb_log *log = cx->log;
    if (!log || level > log->level) return;
    char message[QB_MESSAGE_MAX], *line = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (n < 0) return;
    qb_text_clean_message(message, sizeof message);
    /* A bar may stand on the line: it goes, and comes back with the next step. */
    const char *clear = log->terminal && !log->quiet ? CLEAR_LINE : "";
    const char *start = log->color ? colored[level] : prefix[level];
    n = asprintf(&line, "%s%s%s\n", clear, start, message);
    if (n >= 0) {
        put(log, line, (size_t)n);
        free(line);
    }
}

double qb_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

size_t qb_peak_rss(void) {
    /* getrusage counts what the process was before exec as well, so the kernel's own high-water
     * mark of this memory map comes first. */
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    if (f) {
        char line[256];
        while (kib == 0 && fgets(line, sizeof line, f))
            if (sscanf(line, "VmHWM: %llu kB", &kib) != 1) kib = 0;
        fclose(f);
    }
    if (kib == 0) {
        struct rusage usage;
        if (getrusage(RUSAGE_SELF, &usage) == 0) kib = (unsigned long long)usage.ru_maxrss;
    }
    return (size_t)kib * 1024;
}

/* ---- progress ---- */

static bool progress_shown(const qb_progress *p) {
    const qb_log *log = p->cx->log;
    return log && !log->quiet && log->level >= QB_LEVEL_INFO;
}

static void format_seconds(double s, char *text, size_t n) {
    if (s < 10) {
        snprintf(text, n, "%.1f s", s);
    } else if (s < 60) {
        snprintf(text, n, "%.0f s", s);
    } else if (s < 3600) {
        snprintf(text, n, "%d min %02d s", (int)(s / 60), (int)s % 60);
    } else if (s < 1e7) {
        snprintf(text, n, "%d h %02d min", (int)(s / 3600), (int)s / 60 % 60);
    } else {
        snprintf(text, n, "a very long time");
    }
}

/* When the steps began that rates are told from. */
static double counted_from(const qb_progress *p) {
    return p->once > 0 && p->done > p->once ? p->once_at : p->started;
}

static void format_rate(const qb_progress *p, double now, char *text, size_t n) {
    const double elapsed = now - counted_from(p);
    const int64_t done = p->done > p->once ? p->done - p->once : p->done;
    const double rate = elapsed > 0 ? (double)done / elapsed : 0;
    snprintf(text, n,
             rate < 10     ? "%.2f %s/s"
             : rate < 1000 ? "%.1f %s/s"
                           : "%.0f %s/s",
             rate, p->unit);
}

/* "[=====>    ] " as wide as there is room, at most BAR_WIDTH inside; "" where there is little. */
static void format_bar(double share, int capacity, char drawing[BAR_WIDTH + 4]) {
    const int width = capacity - 3 < BAR_WIDTH ? capacity - 3 : BAR_WIDTH;
    char *d = drawing;
    if (width >= BAR_LEAST) {
        const int filled = (int)(share * width);
        *d++ = '[';
        for (int i = 0; i < width; i++) *d++ = i < filled ? '=' : i == filled ? '>' : ' ';
        *d++ = ']';
        *d++ = ' ';
    }
    *d = '\0';
}

/* "label [=====>    ]  42 %  210/500 images  61.3 images/s  4.7 s left  51 MiB" (the most memory so
 * far) in `room` characters: the bar gives way first, then the memory and the rate. Room 0: a line
 * of a log, without bar and memory. */
static int format_line(const qb_progress *p, double now, int capacity, char *text, size_t n) {
    char rate[64], left[64] = "", drawing[BAR_WIDTH + 4] = "", counts[80], memory[32] = "";
    double share = 0;
    format_rate(p, now, rate, sizeof rate);
    if (capacity > 0) snprintf(memory, sizeof memory, "  %zu MiB", qb_peak_rss() >> 20);
    if (p->total > 0) {
        share = fmin((double)p->done / (double)p->total, 1);
        snprintf(counts, sizeof counts, "%3.0f %%  %lld/%lld %s", 100 * share, (long long)p->done,
                 (long long)p->total, p->unit);
    } else {
        snprintf(counts, sizeof counts, "%lld %s", (long long)p->done, p->unit);
    }
    if (p->done > p->once && p->done < p->total) {
        char seconds[32];
        const double each = (now - counted_from(p)) / (double)(p->done - p->once);
        format_seconds(each * (double)(p->total - p->done), seconds, sizeof seconds);
        snprintf(left, sizeof left, "  %s left", seconds);
    }
    int words = (int)(strlen(p->label) + 1 + strlen(counts) + 2 + strlen(rate) + strlen(left));
    if (words + (int)strlen(memory) > capacity) memory[0] = '\0';
    words += (int)strlen(memory);
    if (p->total > 0 && capacity > 0) format_bar(share, capacity - words, drawing);
    const bool all = capacity == 0 || words <= capacity;
    return snprintf(text, n, "%s %s%s%s%s%s%s", p->label, drawing, counts, all ? "  " : "",
                    all ? rate : "", left, memory);
}

/* What a line may fill: one that wraps could not be cleared again. */
static int terminal_width(const qb_log *log) {
    struct winsize size;
    const bool known = ioctl(fileno(log->stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col - 1 : 79;
}

static void draw(qb_progress *p, double now) {
    const qb_log *log = p->cx->log;
    char text[512], line[600];
    const int capacity = log->terminal ? terminal_width(log) : 0;
    p->drawn = now;
    int n = format_line(p, now, capacity, text, sizeof text);
    if (n < 0) return;
    n = log->terminal ? snprintf(line, sizeof line, CLEAR_LINE "%.*s", capacity, text)
                      : snprintf(line, sizeof line, "%s\n", text);
    if (n > 0) put(log, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void qb_progress_begin(const qb_ctx *cx, qb_progress *p, const char *label, const char *unit,
                       int64_t total) {
    *p = (qb_progress){.cx = cx, .total = total, .open = true};
    snprintf(p->label, sizeof p->label, "%s", label);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    p->started = p->drawn = qb_now();
    if (progress_shown(p) && cx->log->terminal) draw(p, p->started);
}

void qb_progress_step(qb_progress *p, int64_t done_now) {
    p->done += done_now;
    if (!p->open || !progress_shown(p)) return;
    double now = qb_now();
    if (now - p->drawn >= (p->cx->log->terminal ? TERMINAL_INTERVAL : PLAIN_INTERVAL)) draw(p, now);
}

void qb_progress_once(qb_progress *p, int64_t done_now, const char *what) {
    char seconds[32];
    p->once = p->done + done_now;
    p->once_at = qb_now();
    format_seconds(p->once_at - p->started, seconds, sizeof seconds);
    if (p->open && progress_shown(p) && p->once_at - p->started >= SLOW)
        qb_info(p->cx, "%s: %s in %s", p->label, what, seconds);
    qb_progress_step(p, done_now);
}

void qb_progress_end(qb_progress *p) {
    if (!p->open) return;
    p->open = false;
    if (!progress_shown(p)) return;
    const qb_log *log = p->cx->log;
    char rate[64], seconds[32], line[512];
    const double now = qb_now();
    if (p->only_slow && now - p->started < SLOW) {
        if (log->terminal) put(log, CLEAR_LINE, strlen(CLEAR_LINE));
        return;
    }
    format_rate(p, now, rate, sizeof rate);
    format_seconds(now - counted_from(p), seconds, sizeof seconds);
    int n =
        snprintf(line, sizeof line, "%s%s: %lld %s in %s, %s\n", log->terminal ? CLEAR_LINE : "",
                 p->label, (long long)p->done, p->unit, seconds, rate);
    if (n > 0) put(log, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

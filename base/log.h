/* Messages for people, on stderr; results go to stdout and never through here. */
#ifndef QB_BASE_LOG_H
#define QB_BASE_LOG_H

#include <stdint.h>
#include <stdio.h>

#include "ctx.h"

typedef enum qb_level { QB_LEVEL_ERROR, QB_LEVEL_WARN, QB_LEVEL_INFO, QB_LEVEL_DEBUG } qb_level;

typedef struct qb_log {
    FILE *stream;
    qb_level level; /* messages above it are dropped */
    bool terminal;  /* stream is a terminal: progress bars, colour */
    bool color;
    bool quiet; /* no progress either */
} qb_log;

/* Looks at the stream (isatty) and the given flags; `no_color` as NO_COLOR asks. */
void qb_log_init(qb_log *log, FILE *stream, qb_level level, bool no_color);
/* Thread safe; accepts a context without a log. */
void qb_logf(const qb_ctx *cx, qb_level level, const char *fmt, ...) QB_PRINTF(3, 4);
#define qb_info(cx, ...) qb_logf((cx), QB_LEVEL_INFO, __VA_ARGS__)
#define qb_warn(cx, ...) qb_logf((cx), QB_LEVEL_WARN, __VA_ARGS__)
#define qb_debug(cx, ...) qb_logf((cx), QB_LEVEL_DEBUG, __VA_ARGS__)

/* Progress with rate and time left: a bar that redraws on a terminal (at most 10 times a second),
 * a plain line every 10 s otherwise, nothing when quiet. */
typedef struct qb_progress {
    const qb_ctx *cx;
    char label[64];
    char unit[16];
    int64_t done, total;
    double started, drawn;
    bool open;
    int64_t once; /* done with work that is not done again, such as building an engine */
    double once_at;
    bool only_slow; /* set after begin: what takes less than a second has no closing line */
} qb_progress;

void qb_progress_begin(const qb_ctx *cx, qb_progress *p, const char *label, const char *unit,
                       int64_t total);
void qb_progress_step(qb_progress *p, int64_t done_now); /* adds to `done` */
/* The same for a step that held such work ("engines built"): it has a line of its own, and rate and
 * time left are told from later steps alone. */
void qb_progress_once(qb_progress *p, int64_t done_now, const char *what);
void qb_progress_end(qb_progress *p); /* prints the closing line; idempotent */

/* Seconds on the monotonic clock. */
double qb_now(void);
/* Peak resident set size of the process so far, bytes. */
size_t qb_peak_rss(void);
#endif

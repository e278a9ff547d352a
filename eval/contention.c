#include "eval/contention.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* A small file of /proc; "" where there is none. */
static void read_text(const char *path, char *text, size_t capacity) {
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(text, 1, capacity - 1, file) : 0;
    text[n] = '\0';
    if (file) fclose(file);
}

/* The second number of a thread's schedstat: nanoseconds on a run queue. */
static double waited_of(const char *thread) {
    char path[300], text[128], *end;
    snprintf(path, sizeof path, "/proc/self/task/%.64s/schedstat", thread);
    read_text(path, text, sizeof text);
    strtod(text, &end);
    return end == text ? NAN : 1e-9 * strtod(end, NULL);
}

static double waited_by_all(void) {
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return NAN;
    double sum = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.') sum += waited_of(entry->d_name);
    closedir(folder);
    return sum;
}

/* "cpu  user nice system idle iowait irq softirq steal ..." */
static void read_processors(qb_contention_mark *out) {
    char text[512], *at = text + strlen("cpu");
    out->stolen = out->ticks = NAN;
    read_text("/proc/stat", text, sizeof text);
    if (strncmp(text, "cpu ", 4) != 0) return;
    double sum = 0;
    for (int i = 0; i < 8; i++) {
        char *end;
        const double ticks = strtod(at, &end);
        if (end == at) return;
        if (i == 7) out->stolen = ticks;
        sum += ticks;
        at = end;
    }
    out->ticks = sum;
}

void qb_contention_read(qb_contention_mark *out) {
    out->wall = qb_now();
    out->waited = waited_by_all();
    read_processors(out);
}

qb_contention qb_contention_between(const qb_contention_mark *before,
                                    const qb_contention_mark *after, int threads) {
    const double wall = after->wall - before->wall, ticks = after->ticks - before->ticks;
    return (qb_contention){
        .waited = wall > 0 ? fmax(after->waited - before->waited, 0) / (wall * threads) : NAN,
        .stolen = ticks > 0 ? (after->stolen - before->stolen) / ticks : NAN};
}

/* What may be without anybody being wrong about a median: shares. */
#define WAITED_LITTLE 0.05
#define WAITED_MOST 0.25
#define STOLEN_LITTLE 0.02
#define STOLEN_MOST 0.1
#define SHIFT_MOST 0.05
#define MINIMA_MOST 0.1
#define CONTROL_MOST 0.1

bool qb_contention_disturbs(const qb_disturbance *d, double shift) {
    const bool busy = d->waited > WAITED_LITTLE || d->stolen > STOLEN_LITTLE;
    return (busy && !(shift <= SHIFT_MOST)) || d->waited > WAITED_MOST || d->stolen > STOLEN_MOST ||
           d->minima > MINIMA_MOST || d->control.lo < 1 - CONTROL_MOST ||
           d->control.hi > 1 + CONTROL_MOST;
}

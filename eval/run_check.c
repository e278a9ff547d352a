/* What the tables of a record cannot say: that its numbers do not contradict each other. A record
 * is a file that anybody can edit, and the gate believes it. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "eval/run.h"

enum { NAME_MAX_ESCAPED = 4 * PATH_MAX };

typedef struct checked {
    qb_ctx *cx;
    const char *name; /* of the file */
    const qb_run *run;
    int32_t row; /* the one that is looked at */
} checked;

static qb_status QB_PRINTF(2, 3) bad(const checked *c, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return qb_fail(c->cx, QB_STATUS_FORMAT, "%s: rows[%d]: %s", c->name, (int)c->row, text);
}

/* NaN was not measured. */
static qb_status within(const checked *c, const char *key, double value, double most) {
    if (isnan(value) || (value >= 0 && value <= most)) return QB_OK;
    return isinf(most) ? bad(c, "%s: expected 0 or more, got %g", key, value)
                       : bad(c, "%s: expected 0 to %g, got %g", key, most, value);
}

static qb_status ordered(const checked *c, const char *key, qb_interval ci) {
    if (!(ci.lo > ci.hi)) return QB_OK;
    return bad(c, "%s: the interval's ends %g and %g are in the wrong order", key, ci.lo, ci.hi);
}

/* Files have nine digits. */
static bool differ(double a, double b) { return fabs(a - b) > 1e-5; }

/* Numbers that stand in the row and in the list of metrics. */
static qb_status check_metrics(const checked *c, const qb_run_row *row) {
    const struct {
        const char *name;
        double value;
    } twice[] = {{"top1", row->top1}, {"top5", row->top5}, {"agreement", row->agreement_top1}};
    for (int32_t i = 0; i < row->n_metrics; i++) {
        const qb_run_metric *m = &row->metric[i];
        if (qb_run_metric_find(row, m->name) != m)
            return bad(c, "metrics: '%s' is given twice", m->name);
        QB_TRY(ordered(c, m->name, m->ci));
        QB_TRY(ordered(c, m->name, m->drop_ci));
    }
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        const qb_run_metric *m = qb_run_metric_find(row, twice[i].name);
        QB_TRY(within(c, twice[i].name, twice[i].value, 100));
        if (m && (isnan(m->value) != isnan(twice[i].value) || differ(m->value, twice[i].value)))
            return bad(c, "%s: %g in the row, %g in its metrics", m->name, twice[i].value,
                       m->value);
    }
    return QB_OK;
}

/* A task's own metric has its drop beside it; else it follows from top-1. */
static qb_status check_drop(const checked *c, const qb_run_row *row) {
    const double expected = c->run->row[0].top1 - row->top1;
    if (qb_run_own_metric(c->run) || !differ(row->drop, expected)) return QB_OK;
    return bad(c, "drop: %g, but top1 is %g in the first row and %g here", row->drop,
               c->run->row[0].top1, row->top1);
}

static qb_status check_counts(const checked *c, const qb_run_row *row) {
    const int64_t count[] = {row->paired.both, row->paired.lost, row->paired.gained,
                             row->paired.neither};
    int64_t left = c->run->samples;
    for (size_t i = 0; i < sizeof count / sizeof *count; left -= count[i++])
        if (count[i] > left)
            return bad(c, "paired: more than the %lld samples", (long long)c->run->samples);
    for (int32_t i = 0; i < row->n_recall; i++)
        if (row->recall[i].right > row->recall[i].n)
            return bad(c, "recall: %lld of %lld are right", (long long)row->recall[i].right,
                       (long long)row->recall[i].n);
    for (int32_t i = 0; i < row->n_worst; i++)
        if (row->worst[i].shown >= c->run->n_shown)
            return bad(c, "worst: sample: expected below %d, got %d", c->run->n_shown,
                       row->worst[i].shown);
    return QB_OK;
}

static qb_status check_latency(const checked *c, const qb_run_row *row) {
    const qb_latency *l = &row->latency;
    const double number[] = {l->mean, l->median, l->p90, l->p95, l->p99, l->min, l->max, l->cv};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        QB_TRY(within(c, "latency_ms", number[i], INFINITY));
    QB_TRY(ordered(c, "latency_ms", l->median_ci));
    QB_TRY(ordered(c, "latency_ms", l->ratio_ci));
    QB_TRY(ordered(c, "paired", row->paired.drop_ci));
    return within(c, "speedup", row->speedup, INFINITY);
}

/* An engine may be measured twice, but is as accurate both times. */
static qb_status check_twins(const checked *c, const qb_run_row *row) {
    for (int32_t r = 0; r < c->row; r++) {
        const qb_run_row *other = &c->run->row[r];
        if (strcmp(other->precision, row->precision) == 0 &&
            (differ(other->top1, row->top1) || differ(other->drop, row->drop)))
            return bad(c, "'%.64s' has other scores than in rows[%d]", row->precision, (int)r);
    }
    return QB_OK;
}

static qb_status check_row(const checked *c) {
    const qb_run_row *row = &c->run->row[c->row];
    /* pages repeat it many times */
    if (strlen(row->precision) > NAME_MAX_ESCAPED)
        return bad(c, "precision: expected at most %d bytes, got %zu", NAME_MAX_ESCAPED,
                   strlen(row->precision));
    QB_TRY(check_twins(c, row));
    QB_TRY(check_metrics(c, row));
    QB_TRY(check_drop(c, row));
    QB_TRY(check_counts(c, row));
    return check_latency(c, row);
}

qb_status qb_run_check(qb_ctx *cx, const char *name, const qb_run *run) {
    checked c = {cx, name, run, 0};
    for (; c.row < run->n_rows; c.row++) QB_TRY(check_row(&c));
    for (int32_t i = 0; i < run->n_warnings; i++) {
        const char *touches = run->warning[i].touches;
        if (touches && *touches && strcmp(touches, "accuracy") != 0 &&
            strcmp(touches, "latency") != 0)
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "%s: warnings: touches: expected accuracy or latency, got '%s'", name,
                           touches);
    }
    return QB_OK;
}

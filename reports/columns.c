/* The columns of the comparison, shared by all forms of its table. */
#include <math.h>
#include <string.h>

#include "reports/report.h"

#define VALUE(NAME, EXPR)                                                                          \
    static double NAME(const qb_run_row *r) { return (EXPR); }
#define INTERVAL(NAME, EXPR)                                                                       \
    static qb_interval NAME(const qb_run_row *r) { return (EXPR); }

static double metric(const qb_run_row *row, const char *name) {
    const qb_run_metric *m = qb_run_metric_find(row, name);
    return m ? m->value : NAN;
}

INTERVAL(top1_ci, qb_run_metric_ci(r, "top1"))
INTERVAL(top5_ci, qb_run_metric_ci(r, "top5"))
INTERVAL(agreement_ci, qb_run_metric_ci(r, "agreement"))
INTERVAL(psnr_ci, qb_run_metric_ci(r, "psnr"))
INTERVAL(target_psnr_ci, qb_run_metric_ci(r, "target_psnr"))
VALUE(recall_value, metric(r, "recall"))
VALUE(cosine_value, metric(r, "cosine"))
VALUE(max_error_value, metric(r, "max_error"))
VALUE(psnr_value, metric(r, "psnr"))
VALUE(target_psnr_value, metric(r, "target_psnr"))
VALUE(top1_flat, r->top1) /* records without metrics have these */
VALUE(top5_flat, r->top5)
VALUE(agreement_flat, r->agreement_top1)
VALUE(sqnr_flat, r->sqnr_db)
VALUE(drop, r->drop)
INTERVAL(drop_ci, r->paired.drop_ci)
static bool is_paired(const qb_run_row *r) { return !isnan(r->paired.p_value); }
VALUE(lost, is_paired(r) ? (double)r->paired.lost : NAN)
VALUE(gained, is_paired(r) ? (double)r->paired.gained : NAN)
VALUE(p_value, r->paired.p_value)
static const char *backend(const qb_run_row *row) { return row->backend; }
VALUE(median, r->latency.median)
INTERVAL(median_ci, r->latency.median_ci)
VALUE(p99, r->latency.p99)
VALUE(cv, 100 * r->latency.cv)
VALUE(speedup, r->speedup)
/* The speed-up is one over the ratio, so its ends change places. */
INTERVAL(speedup_ci, ((qb_interval){1 / r->latency.ratio_ci.hi, 1 / r->latency.ratio_ci.lo}))
VALUE(throughput, r->throughput)
VALUE(weights, (double)r->weights_bytes)
VALUE(arena, (double)r->arena_bytes)
VALUE(engine, (double)r->engine_bytes)

#define CI "95 % interval"
#define A QB_GROUP_ACCURACY
#define S QB_GROUP_SPEED
static const qb_column columns[] = {
    {"top1", "top-1 %", A, "%.2f", top1_flat, NULL, false, false, NULL, NULL},
    {"top1", CI, A, "%.1f", NULL, top1_ci, false, false, NULL, NULL},
    {"top5", "top-5 %", A, "%.2f", top5_flat, NULL, false, false, NULL, NULL},
    {"top5", CI, A, "%.1f", NULL, top5_ci, false, true, NULL, NULL},
    {"recall", "mean recall %", A, "%.2f", recall_value, NULL, false, true, NULL, NULL},
    {"drop", "drop", A, "%+.2f", drop, NULL, false, false,
     "points of top-1 lost against the first row; interval: Tango's score interval of paired "
     "proportions",
     NULL},
    {"drop", CI, A, "%+.2f", NULL, drop_ci, false, false, NULL, NULL},
    {"lost", "lost", A, "%.0f", lost, NULL, false, false,
     "samples that only the first row answers right; gained: only this one", NULL},
    {"gained", "gained", A, "%.0f", gained, NULL, false, false, NULL, NULL},
    {"mcnemar_p", "McNemar p", A, "%.2g", p_value, NULL, false, false,
     "how likely so uneven a split of lost and gained is when both are equally good (exact, "
     "two-sided)",
     NULL},
    {"agreement", "agree %", A, "%.2f", agreement_flat, NULL, false, false, NULL, NULL},
    {"agreement", CI, A, "%.1f", NULL, agreement_ci, false, false, NULL, NULL},
    {"sqnr", "SQNR dB", A, "%.1f", sqnr_flat, NULL, true, false, NULL, NULL},
    {"cosine", "cosine", A, "%.5f", cosine_value, NULL, false, true, NULL, NULL},
    {"max_error", "max error", A, "%.3g", max_error_value, NULL, false, true, NULL, NULL},
    {"psnr", "PSNR dB", A, "%.2f", psnr_value, NULL, false, false, NULL, NULL},
    {"psnr", CI, A, "%.2f", NULL, psnr_ci, false, false, NULL, NULL},
    {"target_psnr", "PSNR to target dB", A, "%.2f", target_psnr_value, NULL, false, false, NULL,
     NULL},
    {"target_psnr", CI, A, "%.2f", NULL, target_psnr_ci, false, false, NULL, NULL},
    {.key = "backend",
     .title = "backend",
     .group = S,
     .definition = "what ran it: cpu is every family of kernels for the processor, cpu,ref "
                   "qbench's own alone",
     .text = backend},
    {"median_ms", "median ms", S, "%.3f", median, NULL, true, false,
     "milliseconds a run of one batch after warm-up, engines alternating; interval: bootstrap over "
     "rounds",
     NULL},
    {"median_ms", CI, S, "%.3f", NULL, median_ci, false, false, NULL, NULL},
    {"p99_ms", "p99 ms", S, "%.3f", p99, NULL, true, false, NULL, NULL},
    {"cv_percent", "cv %", S, "%.1f", cv, NULL, true, true, "standard deviation over mean latency",
     NULL},
    {"speedup", "speed-up", S, "%.2fx", speedup, NULL, true, false,
     "the first row's median over this one's; interval: from the same rounds of both", NULL},
    {"speedup", CI, S, "%.2f", NULL, speedup_ci, false, false, NULL, NULL},
    {"throughput", "items/s", S, "%.1f", throughput, NULL, true, false, "batch over mean latency",
     NULL},
    {"weights_bytes", "weights", S, NULL, weights, NULL, true, false, NULL, NULL},
    {"arena_bytes", "arena", S, NULL, arena, NULL, true, false, "activations of one batch", NULL},
    {"engine_bytes", "engine", S, NULL, engine, NULL, true, false, NULL, NULL},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

const qb_column *qb_columns(int32_t *n) {
    *n = COLUMNS;
    return columns;
}

double qb_column_order(const qb_column *c, const qb_run_row *row) {
    return c->text ? NAN : c->interval ? c->interval(row).lo : c->value(row);
}

static bool rows_differ(const qb_column *c, const qb_run *run) {
    for (int32_t r = 1; r < run->n_rows; r++)
        if (strcmp(c->text(&run->row[r]), c->text(&run->row[0])) != 0) return true;
    return false;
}

bool qb_column_shown(const qb_column *column, const qb_run *run) {
    if (column->text) return rows_differ(column, run);
    bool shown = column->always;
    for (int32_t r = 0; r < run->n_rows; r++)
        shown = shown || !isnan(qb_column_order(column, &run->row[r]));
    return shown;
}

void qb_bytes_text(int64_t bytes, char text[QB_CELL]) {
    const char *unit[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1024 && u < 3; u++) value /= 1024;
    snprintf(text, QB_CELL, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
}

static void put(char text[QB_CELL], const char *format, double value) {
    if (isinf(value))
        snprintf(text, QB_CELL, value > 0 ? "inf" : "-inf");
    else
        snprintf(text, QB_CELL, format, value);
}

void qb_column_cell(const qb_column *column, const qb_run_row *row, char text[QB_CELL]) {
    if (column->text) {
        snprintf(text, QB_CELL, "%s", column->text(row));
    } else if (isnan(qb_column_order(column, row))) {
        snprintf(text, QB_CELL, "-");
    } else if (column->interval) {
        const qb_interval ci = column->interval(row);
        char low[QB_CELL], high[QB_CELL];
        put(low, column->format, ci.lo);
        put(high, column->format, ci.hi);
        snprintf(text, QB_CELL, "%.40s to %.40s", low, high);
    } else if (!column->format) {
        qb_bytes_text((int64_t)column->value(row), text);
    } else {
        put(text, column->format, column->value(row));
    }
}

bool qb_report_lacks_labels(const qb_run *run) {
    for (int32_t r = 0; r < run->n_rows; r++)
        if (!isnan(run->row[r].top1)) return false;
    return !isnan(run->row[0].agreement_top1);
}

/* ---- what stands under the numbers ---- */

void qb_report_definitions(const qb_run *run, bool detail,
                           void (*say)(void *user, const char *term, const char *text),
                           void *user) {
    for (int32_t c = 0; c < COLUMNS; c++) {
        const qb_column *column = &columns[c];
        if (column->interval || !qb_column_shown(column, run)) continue;
        if (column->detail && !detail) continue;
        const qb_run_metric *m = qb_run_metric_find(&run->row[0], column->key);
        const char *text = column->definition ? column->definition : m ? m->definition : NULL;
        if (text) say(user, column->title, text);
    }
}

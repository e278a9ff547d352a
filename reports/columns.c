/* The columns of the comparison, shared by all forms of its table. */
#include <math.h>
#include <string.h>

#include "reports/report.h"

#define VALUE(NAME, EXPR)                                                                          \
    static double NAME(const qb_run_row *r) { return (EXPR); }
#define INTERVAL(NAME, EXPR)                                                                       \
    static qb_interval NAME(const qb_run_row *r) { return (EXPR); }

INTERVAL(top1_ci, qb_run_metric_ci(r, "top1"))
INTERVAL(top5_ci, qb_run_metric_ci(r, "top5"))
INTERVAL(agreement_ci, qb_run_metric_ci(r, "agreement"))
INTERVAL(psnr_ci, qb_run_metric_ci(r, "psnr"))
INTERVAL(target_psnr_ci, qb_run_metric_ci(r, "target_psnr"))
INTERVAL(ap_ci, qb_run_metric_ci(r, "ap"))
INTERVAL(map_ci, qb_run_metric_ci(r, "map"))
INTERVAL(miou_ci, qb_run_metric_ci(r, "miou"))
INTERVAL(tokens_ci, qb_run_metric_ci(r, "token_top1"))
INTERVAL(perplexity_ci, qb_run_metric_ci(r, "perplexity"))
INTERVAL(ap50_ci, qb_run_metric_ci(r, "ap50"))
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
VALUE(minimum,
      isnan(r->speedup_minima) ? NAN : r->latency.min) /* beside medians that are not sure */
VALUE(speedup_minima, r->speedup_minima)
static double share(double percent) { return percent > 0 ? percent : NAN; }
VALUE(time_int8, share(r->time.int8))
VALUE(time_fp16, share(r->time.fp16))
VALUE(time_bf16, share(r->time.bf16))
VALUE(time_fp32, share(r->time.fp32))
static const char *plan(const qb_run_row *row) { return row->plan ? row->plan : ""; }
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
    {"recall", "mean recall %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ap", "AP %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"ap", CI, A, "%.1f", NULL, ap_ci, false, false, NULL, NULL},
    {"ap50", "AP50 %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"ap50", CI, A, "%.1f", NULL, ap50_ci, false, true, NULL, NULL},
    {"ap75", "AP75 %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"ap_small", "AP small %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ap_medium", "AP medium %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ap_large", "AP large %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ar1", "AR1 %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ar10", "AR10 %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ar100", "AR100 %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"ar20", "AR20 %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"point_shift", "point shift px", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"voc", "VOC AP %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"voc11", "VOC AP, 11 points %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"user_recall", "recall %", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"miou", "mIoU %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"miou", CI, A, "%.1f", NULL, miou_ci, false, false, NULL, NULL},
    {"pixel_accuracy", "pixels %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"boundary_f", "boundary F %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"map", "mAP %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"map", CI, A, "%.1f", NULL, map_ci, false, false, NULL, NULL},
    {"f1", "F1 %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"token_top1", "tokens %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"token_top1", CI, A, "%.1f", NULL, tokens_ci, false, false, NULL, NULL},
    {"sequence_top1", "sequences %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"perplexity", "perplexity", A, "%.3f", NULL, NULL, false, false, NULL, NULL},
    {"perplexity", CI, A, "%.3f", NULL, perplexity_ci, false, true, NULL, NULL},
    {"drop", "drop", A, "%+.2f", drop, NULL, false, false,
     "points of the task's first metric lost against the first row; interval: Tango's score "
     "interval of paired proportions (top-1), or the same bootstrap draws of both rows (AP, mIoU)",
     NULL},
    {"drop", CI, A, "%+.2f", NULL, drop_ci, false, false, NULL, NULL},
    {"lost", "lost", A, "%.0f", lost, NULL, false, false,
     "samples that only the first row answers right; gained: only this one", NULL},
    {"gained", "gained", A, "%.0f", gained, NULL, false, false, NULL, NULL},
    {"mcnemar_p", "McNemar p", A, "%.2g", p_value, NULL, false, false,
     "how likely so uneven a split of lost and gained is when both are equally good (exact, "
     "two-sided)",
     NULL},
    {"boxes", "boxes", A, "%.1f", NULL, NULL, false, false, NULL, NULL},
    {"refound", "refound %", A, "%.1f", NULL, NULL, false, false, NULL, NULL},
    {"score_shift", "score shift", A, "%+.4f", NULL, NULL, false, false, NULL, NULL},
    {"box_iou", "box IoU", A, "%.3f", NULL, NULL, false, false, NULL, NULL},
    {"box_shift", "box shift px", A, "%.2f", NULL, NULL, false, true, NULL, NULL},
    {"same_pixels", "same pixels %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"same_tokens", "same tokens %", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"agreement", "agree %", A, "%.2f", agreement_flat, NULL, false, false, NULL, NULL},
    {"agreement", CI, A, "%.1f", NULL, agreement_ci, false, false, NULL, NULL},
    {"sqnr", "SQNR dB", A, "%.1f", sqnr_flat, NULL, true, false, NULL, NULL},
    {"cosine", "cosine", A, "%.5f", NULL, NULL, false, true, NULL, NULL},
    {"max_error", "max error", A, "%.3g", NULL, NULL, false, true, NULL, NULL},
    {"psnr", "PSNR dB", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
    {"psnr", CI, A, "%.2f", NULL, psnr_ci, false, false, NULL, NULL},
    {"target_psnr", "PSNR to target dB", A, "%.2f", NULL, NULL, false, false, NULL, NULL},
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
    {"min_ms", "min ms", S, "%.3f", minimum, NULL, false, false,
     "the least of all runs, shown where others disturbed the measurement", NULL},
    {"p99_ms", "p99 ms", S, "%.3f", p99, NULL, true, false, NULL, NULL},
    {"cv_percent", "cv %", S, "%.1f", cv, NULL, true, true, "standard deviation over mean latency",
     NULL},
    {"speedup", "speed-up", S, "%.2fx", speedup, NULL, true, false,
     "the first row's median over this one's; interval: from the same rounds of both", NULL},
    {"speedup", CI, S, "%.2f", NULL, speedup_ci, false, false, NULL, NULL},
    {"speedup_minima", "by minima", S, "%.2fx", speedup_minima, NULL, false, false,
     "the first row's least run over this one's", NULL},
    {"throughput", "items/s", S, "%.1f", throughput, NULL, true, false, "batch over mean latency",
     NULL},
    {"time_int8", "INT8 time %", S, "%.0f", time_int8, NULL, false, false,
     "share of a run's time in steps of this precision", NULL},
    {"time_fp16", "FP16 time %", S, "%.0f", time_fp16, NULL, false, false, NULL, NULL},
    {"time_bf16", "BF16 time %", S, "%.0f", time_bf16, NULL, false, false, NULL, NULL},
    {"time_fp32", "FP32 time %", S, "%.0f", time_fp32, NULL, false, false, NULL, NULL},
    {.key = "plan",
     .title = "plan",
     .group = S,
     .detail = true,
     .definition =
         "beginning of the hash of what the engine's plan decides: rows of one plan run the same "
         "kernels",
     .text = plan},
    {"weights_bytes", "weights", S, NULL, weights, NULL, true, false, NULL, NULL},
    {"arena_bytes", "arena", S, NULL, arena, NULL, true, false, "activations of one batch", NULL},
    {"engine_bytes", "engine", S, NULL, engine, NULL, true, false,
     "constants and plan in memory; a file holds the graph, too", NULL},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };
_Static_assert(COLUMNS < QB_COLUMNS_MAX, "metrics have places, too");

/* Behind the other columns of accuracy, those of metrics that the table does not name. */
static int32_t add_metrics(const qb_run *run, qb_column *out, int32_t most) {
    int32_t n = 0;
    for (int32_t i = 0; i < run->row[0].n_metrics && n < most; i++) {
        const qb_run_metric *m = &run->row[0].metric[i];
        int32_t c = 0;
        while (c < COLUMNS && strcmp(columns[c].key, m->name) != 0) c++;
        if (c == COLUMNS)
            out[n++] = (qb_column){
                .key = m->name, .title = m->title, .group = A, .format = "%.4g", .detail = true};
    }
    return n;
}

int32_t qb_columns(const qb_run *run, qb_column out[QB_COLUMNS_MAX]) {
    int32_t n = 0, c = 0;
    for (; c < COLUMNS && columns[c].group == A; c++) out[n++] = columns[c];
    n += add_metrics(run, out + n, QB_COLUMNS_MAX - COLUMNS);
    for (; c < COLUMNS; c++) out[n++] = columns[c];
    return n;
}

double qb_column_order(const qb_column *c, const qb_run_row *row) {
    if (c->text) return NAN;
    return c->interval ? c->interval(row).lo
           : c->value  ? c->value(row)
                       : qb_run_metric_value(row, c->key);
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
        snprintf(text, QB_CELL, "%.12s", column->text(row)); /* a hash: the record has all of it */
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
        put(text, column->format, qb_column_order(column, row));
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
    qb_column all[QB_COLUMNS_MAX];
    const int32_t n = qb_columns(run, all);
    for (int32_t c = 0; c < n; c++) {
        const qb_column *column = &all[c];
        if (column->interval || !qb_column_shown(column, run)) continue;
        if (column->detail && !detail) continue;
        const qb_run_metric *m = qb_run_metric_find(&run->row[0], column->key);
        const char *text = column->definition ? column->definition : m ? m->definition : NULL;
        if (text) say(user, column->title, text);
    }
}

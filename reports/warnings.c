/* What a reader should know before trusting the numbers. */
#include <math.h>
#include <string.h>

#include "reports/report.h"

typedef struct teller {
    void (*say)(void *user, const char *text);
    void *user;
    int32_t n;
} teller;

static void warn(teller *t, const char *format, ...) QB_PRINTF(2, 3);
static void warn(teller *t, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->say(t->user, text);
    t->n++;
}

/* Median of the later half of the rounds over that of the earlier half, minus 1. */
static double drift_of(const qb_run_row *row) {
    const int32_t half = row->n_rounds / 2;
    double sum[2] = {0, 0};
    if (half < 2) return 0;
    for (int32_t i = 0; i < half; i++) {
        sum[0] += row->round[i];
        sum[1] += row->round[row->n_rounds - 1 - i];
    }
    return sum[1] / sum[0] - 1;
}

/* One line a row, as one cause shows in all three; true where only another measurement helps. */
static bool warn_of_latency(teller *t, const qb_run_row *row) {
    const qb_latency *l = &row->latency;
    const double width = (l->median_ci.hi - l->median_ci.lo) / l->median, drift = drift_of(row);
    const bool unstable = width > 0.1 || fabs(drift) > 0.1;
    if (unstable)
        warn(t,
             "%s: latency is unstable: the median's interval is %.0f %% wide, rounds drifted by "
             "%+.0f %%, coefficient of variation %.0f %%",
             row->precision, 100 * width, 100 * drift, 100 * l->cv);
    else if (l->cv > 0.1)
        warn(t,
             "%s: single runs are unstable: coefficient of variation %.0f %%; the median is not "
             "affected",
             row->precision, 100 * l->cv);
    if (l->runs > 0 && l->runs < 20)
        warn(t, "%s: only %lld runs: percentiles mean little", row->precision, (long long)l->runs);
    return unstable;
}

/* Right no more often than guessing among the classes that occur: then the labels are other numbers
 * than the model's, and every accuracy is noise. */
static void warn_of_labels(teller *t, const qb_run *run) {
    const qb_run_row *first = &run->row[0];
    const qb_interval ci = qb_run_metric_ci(first, "top1");
    if (first->n_recall < 2 || !(ci.lo <= 100.0 / first->n_recall)) return;
    warn(t,
         "%s: top-1 %.2f %% over %d classes is no more than chance: do the labels "
         "number the classes as the model does? (--labels)",
         first->precision, first->top1, first->n_recall);
}

/* A row may be slow for want of a kernel: nobody may take that for the backend's speed. */
static void warn_of_reference(teller *t, const qb_run_row *row) {
    double all = 0, slow = 0, most = 0;
    const char *name = "";
    for (int32_t i = 0; i < row->n_steps; i++) {
        const qb_run_step *s = &row->step[i];
        if (!isfinite(s->ms)) continue;
        all += s->ms;
        if (strncmp(s->tactic, "ref.", 4) != 0) continue;
        slow += s->ms;
        if (s->ms > most) name = s->name;
        most = fmax(most, s->ms);
    }
    if (strcmp(row->backend, "ref") != 0 && slow > 0.25 * all)
        warn(t,
             "%s: %.0f %% of the time is the scalar reference's, most in %s: %s has no kernel for "
             "it",
             row->precision, 100 * slow / all, name, row->backend);
}

/* Accuracy is that of INT8 in every layer, so that it does not depend on what timing found; latency
 * is that of the engine which runs. Whoever reads both in one row should know where they part. */
static void warn_of_mixing(teller *t, const qb_run_row *row) {
    const int32_t half = row->layers.fp16, codes = row->layers.int8;
    if (half == 0 || strncmp(row->precision, "int8", 4) != 0) return;
    warn(t,
         "%s: %d of %d layers run in FP16, as that is faster here: the latency is of this engine, "
         "the accuracy of INT8 in all of them (--no-mixing times that one)",
         row->precision, half, half + codes + row->layers.fp32);
}

int32_t qb_report_warnings(const qb_run *run, void (*say)(void *user, const char *text),
                           void *user) {
    teller t = {say, user, 0};
    if (run->skipped > 0)
        warn(&t, "%lld samples could not be read and are left out", (long long)run->skipped);
    if (run->decoder && run->decoder[0] != '\0')
        warn(&t,
             "images decoded by %s, to pixels that differ a little from the processor's: to be "
             "compared with records of the same decoder only",
             run->decoder);
    if (run->samples < 100)
        warn(&t, "%lld samples: one is %.1f points; small drops cannot be told from chance",
             (long long)run->samples, 100.0 / (double)(run->samples > 0 ? run->samples : 1));
    warn_of_labels(&t, run);
    for (int32_t r = 0; r < run->n_rows; r++) {
        warn_of_reference(&t, &run->row[r]);
        warn_of_mixing(&t, &run->row[r]);
    }
    bool unstable = false;
    for (int32_t r = 0; r < run->n_rows; r++)
        unstable = warn_of_latency(&t, &run->row[r]) || unstable;
    if (unstable) warn(&t, "unstable latencies: measure longer (--duration) or on a quiet machine");
    return t.n;
}

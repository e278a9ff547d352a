/* What a reader should know before trusting the numbers. */
#include "eval/warnings.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"

typedef struct kind {
    const char *name, *touches, *means;
} kind;

static const kind kinds[] = {
#define QB_WARNING(name, touches, means) {name, QB_TOUCHES_##touches, means},
#include "eval/warnings.def"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *const *qb_warning_names(void) {
    static const char *const names[] = {
#define QB_WARNING(name, touches, means) name,
#include "eval/warnings.def"
        NULL};
    return names;
}

static const kind *kind_of(const char *name) {
    static const kind other = {"", QB_TOUCHES_NOTHING, ""};
    for (int32_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return &other;
}

const char *qb_warning_means(const qb_run_warning *warning) {
    const char *means = kind_of(warning->name)->means;
    return means[0] ? means : warning->text;
}

/* A text that was cut ends with a whole character. */
static void end_whole(char *text, size_t size) {
    size_t n = strlen(text);
    if (n + 1 < size) return;
    while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80) n--;
    if (n > 0 && (unsigned char)text[n - 1] >= 0x80) n--;
    text[n] = '\0';
}

qb_status qb_warning_add(qb_ctx *cx, qb_run *run, const char *name, const char *row,
                         const char *format, ...) {
    char text[512];
    va_list args;
    for (int32_t i = 0; i < run->n_warnings; i++)
        if (strcmp(run->warning[i].name, name) == 0 && strcmp(run->warning[i].row, row) == 0)
            return QB_OK;
    size_t capacity = (size_t)run->n_warnings;
    QB_TRY(qb_grow(cx, &run->warning, &capacity, capacity + 1, sizeof *run->warning));
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_whole(text, sizeof text);
    qb_run_warning *out = &run->warning[run->n_warnings++];
    *out = (qb_run_warning){qb_strdup(cx, name), qb_strdup(cx, kind_of(name)->touches),
                            qb_strdup(cx, row), qb_strdup(cx, text)};
    return out->name && out->touches && out->row && out->text ? QB_OK : cx->code;
}

static bool is_among(const char *name, const char *const *names, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

const qb_run_warning *qb_warning_find(const qb_run *run, const char *what, const char *row,
                                      const char *const *allowed, int32_t n) {
    if (what[0] == '\0') return NULL; /* notes are about nothing that has a limit */
    for (int32_t i = 0; i < run->n_warnings; i++) {
        const qb_run_warning *w = &run->warning[i];
        if (strcmp(w->touches, what) != 0 || is_among(w->name, allowed, n)) continue;
        if (w->row[0] == '\0' || strcmp(w->row, row) == 0) return w;
    }
    return NULL;
}

bool qb_warning_has(const qb_run *run, const char *name) {
    for (int32_t i = 0; i < run->n_warnings; i++)
        if (strcmp(run->warning[i].name, name) == 0) return true;
    return false;
}

const char *qb_warning_said(const qb_run *run, int32_t i, char text[QB_WARNING_TEXT]) {
    const qb_run_warning *w = &run->warning[i];
    const char *before = "; likewise ";
    for (int32_t k = 0; k < i; k++)
        if (strcmp(run->warning[k].name, w->name) == 0) return NULL;
    size_t at = (size_t)snprintf(text, QB_WARNING_TEXT, "%s", w->text);
    for (int32_t k = i + 1; k < run->n_warnings && at < QB_WARNING_TEXT; k++) {
        if (strcmp(run->warning[k].name, w->name) != 0) continue;
        at +=
            (size_t)snprintf(text + at, QB_WARNING_TEXT - at, "%s%s", before, run->warning[k].row);
        before = ", ";
    }
    end_whole(text, QB_WARNING_TEXT);
    return text;
}

/* ---- what the numbers say ---- */

/* Median of the later half of the rounds over that of the earlier half, minus 1. */
static double drift_of(const qb_run_row *row) {
    const int32_t n = row->n_rounds / 2;
    double sum[2] = {0, 0};
    if (n < 2) return 0;
    for (int32_t i = 0; i < n; i++) {
        sum[0] += row->round[i];
        sum[1] += row->round[row->n_rounds - 1 - i];
    }
    return sum[1] / sum[0] - 1;
}

/* One warning a row, as one cause shows in all three. */
static qb_status of_latency(qb_ctx *cx, qb_run *run, const qb_run_row *row) {
    const qb_latency *l = &row->latency;
    const double width = (l->median_ci.hi - l->median_ci.lo) / l->median, drift = drift_of(row);
    if (l->runs > 0 && l->runs < 20)
        QB_TRY(qb_warning_add(cx, run, "few-runs", row->precision,
                              "%s: only %lld runs: percentiles mean little", row->precision,
                              (long long)l->runs));
    if (width > 0.1 || fabs(drift) > 0.1)
        return qb_warning_add(
            cx, run, "unstable", row->precision,
            "%s: latency is unstable: the median's interval is %.0f %% wide, rounds drifted by "
            "%+.0f %%, coefficient of variation %.0f %%: measure longer (--duration) or on a quiet "
            "machine",
            row->precision, 100 * width, 100 * drift, 100 * l->cv);
    if (l->cv > 0.1)
        return qb_warning_add(
            cx, run, "single-runs", row->precision,
            "%s: single runs are unstable: coefficient of variation %.0f %%; the median is not "
            "affected",
            row->precision, 100 * l->cv);
    return QB_OK;
}

/* The classes that occur; where that is one, those that were answered in its place as well. */
static int32_t guessed_among(const qb_run_row *row) {
    int32_t n = row->n_recall;
    for (int32_t i = 0; row->n_recall == 1 && i < row->n_confusion; i++)
        n += row->confusion[i].answer >= 0;
    return n;
}

/* A segmentation that finds no class but one, whatever the images show. */
static bool finds_one_class(const qb_run *run) {
    const qb_run_row *first = &run->row[0];
    int32_t occur = 0, found = 0;
    for (int32_t i = 0; i < first->n_per_class; i++) {
        occur += first->per_class[i].n > 0;
        found += first->per_class[i].value > 0;
    }
    return run->task && strcmp(run->task, "segment") == 0 && occur > 1 && found < 2;
}

/* Right no more often than guessing among the classes that occur: then the labels are other numbers
 * than the model's, or its input is prepared otherwise, and every accuracy is noise. */
static qb_status of_labels(qb_ctx *cx, qb_run *run) {
    const qb_run_row *first = &run->row[0];
    const int32_t classes = guessed_among(first);
    const qb_interval ci = qb_run_metric_ci(first, "top1");
    const qb_run_metric *ap = qb_run_metric_find(first, "ap");
    if (ap && ap->value < 1)
        return qb_warning_add(cx, run, "chance", "",
                              "%s: AP %.2f %% is no more than chance: do category_ids, preprocess "
                              "and detection say what the model means?",
                              first->precision, ap->value);
    if (finds_one_class(run))
        return qb_warning_add(cx, run, "chance", "",
                              "%s: one class alone is found: are the inputs prepared as in "
                              "training, and is the output the right one?",
                              first->precision);
    if (classes == 1)
        QB_TRY(qb_warning_add(cx, run, "one-class", "",
                              "all samples are of one class, and all are right: a model that "
                              "answers nothing else would be, too"));
    if (classes < 2 || !(ci.lo <= 100.0 / classes)) return QB_OK;
    return qb_warning_add(cx, run, "chance", "",
                          "%s: top-1 %.2f %% over %d classes is no more than chance: do the labels "
                          "number the classes as the model does (--labels), and are the inputs "
                          "prepared as in training?",
                          first->precision, first->top1, classes);
}

/* A row may be slow for want of a kernel: nobody may take that for the backend's speed. */
static qb_status of_reference(qb_ctx *cx, qb_run *run, const qb_run_row *row) {
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
    if (strcmp(row->backend, "ref") == 0 || slow <= 0.25 * all) return QB_OK;
    return qb_warning_add(cx, run, "no-kernel", row->precision,
                          "%s: %.0f %% of the time is the scalar reference's, most in %s: %s has "
                          "no kernel for it",
                          row->precision, 100 * slow / all, name, row->backend);
}

/* ---- INT8 that is slower than floats ---- */

#define SLOWER_STEP                                                                                \
    1.1 /* a step takes longer where it takes more than this times the float one's */
#define SLOWER_SHARE 0.01 /* and loses more than this share of the engine's time by it */
enum { SLOWER_SHOWN = 3 };

static bool is_integer_row(const qb_run_row *row) { return row->layers.int8 > 0; }

static double steps_ms(const qb_run_row *row) {
    double all = 0;
    for (int32_t i = 0; i < row->n_steps; i++)
        if (isfinite(row->step[i].ms)) all += row->step[i].ms;
    return all;
}

static const qb_run_step *step_of(const qb_run_row *row, const char *name) {
    for (int32_t i = 0; i < row->n_steps; i++)
        if (strcmp(row->step[i].name, name) == 0 && row->step[i].flops > 0) return &row->step[i];
    return NULL;
}

/* The fastest row without integers that ran where this one did; NULL: none. */
static const qb_run_row *fastest_float(const qb_run *run, const qb_run_row *row) {
    const qb_run_row *found = NULL;
    for (int32_t r = 0; r < run->n_rows; r++) {
        const qb_run_row *other = &run->row[r];
        if (is_integer_row(other) || strcmp(other->backend, row->backend) != 0) continue;
        if (!found || other->latency.median < found->latency.median) found = other;
    }
    return found;
}

/* A step that loses time against the float one, with the reason where one is known. */
static void add_slower(qb_strbuf *text, const qb_run_step *s, const qb_run_step *f,
                       const char *reference) {
    qb_strbuf_addf(text, "%s %s %.3f ms (%s %.3f%s%s)", text->size > 0 ? "," : "", s->name, s->ms,
                   reference, f->ms, s->reason[0] ? ": " : "", s->reason);
}

/* Steps in the order of what they lose. */
static qb_status list_slower(qb_ctx *cx, const qb_run_row *row, const qb_run_row *reference,
                             qb_strbuf *text, int32_t *n) {
    QB_FREED bool *told = QB_NEW(cx, qb_alloc(cx, (size_t)row->n_steps, sizeof *told));
    const double least = SLOWER_SHARE * steps_ms(row);
    for (*n = 0;; ++*n) {
        int32_t most = -1;
        double lost = 0;
        for (int32_t i = 0; i < row->n_steps; i++) {
            const qb_run_step *s = &row->step[i], *f = step_of(reference, s->name);
            if (told[i] || s->flops <= 0 || !f || !(s->ms > SLOWER_STEP * f->ms)) continue;
            if (s->ms - f->ms > least && s->ms - f->ms > lost) lost = s->ms - f->ms, most = i;
        }
        if (most < 0) break;
        told[most] = true;
        if (*n < SLOWER_SHOWN)
            add_slower(text, &row->step[most], step_of(reference, row->step[most].name),
                       reference->precision);
    }
    if (*n > SLOWER_SHOWN) qb_strbuf_addf(text, ", and %d more", (int)(*n - SLOWER_SHOWN));
    return QB_OK;
}

/* INT8 is chosen for its speed: where a row, or a step of it, has none, the record says why. */
static qb_status of_slower(qb_ctx *cx, qb_run *run, const qb_run_row *row) {
    const qb_run_row *reference = fastest_float(run, row);
    QB_RELEASED(qb_strbuf_release) qb_strbuf text = {0};
    int32_t n = 0;
    if (!is_integer_row(row) || !reference || row->n_steps == 0) return QB_OK;
    if (qb_warning_has(run, "contention")) return QB_OK; /* times of steps are the others' */
    const bool slower = row->latency.median > reference->latency.median;
    QB_TRY(list_slower(cx, row, reference, &text, &n));
    if (text.failed) return qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
    if (slower)
        QB_TRY(qb_warning_add(cx, run, "int8-slower", row->precision,
                              "%s is slower than %s (%.3f ms, %.3f ms)%s%s", row->precision,
                              reference->precision, row->latency.median, reference->latency.median,
                              n > 0 ? ":" : "", n > 0 ? text.data : ""));
    if (!slower && n > 0)
        QB_TRY(qb_warning_add(cx, run, "int8-slower", row->precision,
                              "%s: some steps are slower than in %s:%s", row->precision,
                              reference->precision, text.data));
    return QB_OK;
}

/* Samples whose class is known, where there are any. */
static int64_t labelled(const qb_run *run) {
    const qb_run_row *first = &run->row[0];
    int64_t n = 0;
    if (!run->task || strcmp(run->task, "classify") != 0) return run->samples;
    for (int32_t i = 0; i < first->n_recall; i++) n += first->recall[i].n;
    return n > 0 ? n : run->samples;
}

static qb_status of_data(qb_ctx *cx, qb_run *run) {
    const int64_t all = run->samples + run->skipped, known = labelled(run);
    if (known < run->samples)
        QB_TRY(qb_warning_add(cx, run, "unlabelled", "",
                              "%lld of %lld samples have no class: accuracy is of the others",
                              (long long)(run->samples - known), (long long)run->samples));
    if (run->skipped > 0)
        QB_TRY(qb_warning_add(cx, run, 100 * run->skipped > all ? "skipped" : "skipped-few", "",
                              "%lld sample%s could not be read", (long long)run->skipped,
                              run->skipped == 1 ? "" : "s"));
    if (run->decoder && run->decoder[0] != '\0')
        QB_TRY(qb_warning_add(
            cx, run, "decoder", "",
            "images decoded by %s, to pixels that differ a little from the processor's: to be "
            "compared with records of the same decoder only",
            run->decoder));
    if (run->samples >= 100) return QB_OK;
    if (qb_run_own_metric(run)) /* is of all samples together: one has no share of its own */
        return qb_warning_add(cx, run, "few-samples", "",
                              "%lld samples: small drops cannot be told from chance",
                              (long long)run->samples);
    return qb_warning_add(
        cx, run, "few-samples", "",
        "%lld samples: one is %.1f points; small drops cannot be told from chance",
        (long long)run->samples, 100.0 / (double)(run->samples > 0 ? run->samples : 1));
}

/* What a known warning touches does not depend on what a record says. */
static qb_status touch_as_known(qb_ctx *cx, qb_run *run) {
    for (int32_t i = 0; i < run->n_warnings; i++) {
        qb_run_warning *w = &run->warning[i];
        const kind *k = kind_of(w->name);
        if (k->name[0] == '\0' || strcmp(k->touches, w->touches) == 0) continue;
        char *touches = QB_NEW(cx, qb_strdup(cx, k->touches));
        qb_free(w->touches);
        w->touches = touches;
    }
    return QB_OK;
}

qb_status qb_warnings_derive(qb_ctx *cx, qb_run *run) {
    QB_TRY(touch_as_known(cx, run));
    QB_TRY(of_data(cx, run));
    QB_TRY(of_labels(cx, run));
    for (int32_t r = 0; r < run->n_rows; r++) {
        QB_TRY(of_reference(cx, run, &run->row[r]));
        QB_TRY(of_slower(cx, run, &run->row[r]));
    }
    for (int32_t r = 0; r < run->n_rows; r++) QB_TRY(of_latency(cx, run, &run->row[r]));
    return QB_OK;
}

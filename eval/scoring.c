/* From the answers to the rows of a record: metrics with intervals, who was right where the other
 * was not, classes, and the samples that suffer most. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "eval/compare_internal.h"
#include "eval/stats.h"
#include "eval/warnings.h"

enum { WORST = 10, CONFUSIONS = 400 }; /* kept a row */

typedef struct scorer {
    const qb_answers *answers;
    const qb_answer *answer, *reference; /* of the row at hand */
    int64_t n;
    const qb_task *task; /* that knows which samples are bad; NULL: the answers tell */
    const void *state;
    int32_t row;
} scorer;

/* An engine that computes NaN is broken, whatever its other answers are worth. One infinity is
 * ahead, or behind, as any number would be. */
static qb_status warn_of_nan(qb_ctx *cx, const char *precision, const scorer *s, qb_run *run) {
    int64_t bad = 0, infinite = 0;
    char text[256];
    for (int64_t i = 0; i < s->n; i++) {
        bad += s->answer[i].top1 == QB_NO_ANSWER;
        infinite += s->answer[i].top1 != QB_NO_ANSWER && isinf(s->answer[i].out_square);
    }
    if (infinite > 0)
        QB_TRY(qb_warning_add(cx, run, "infinite", precision,
                              "%s: the output of %lld of %lld samples holds an infinity: it has no "
                              "signal-to-noise ratio",
                              precision, (long long)infinite, (long long)s->n));
    if (bad == 0) return QB_OK;
    snprintf(
        text, sizeof text,
        "%s: the output of %lld of %lld samples holds NaN, several infinities or a class below "
        "0: counted as wrong",
        precision, (long long)bad, (long long)s->n);
    qb_warn(cx, "%s", text);
    return qb_warning_add(cx, run, "nan", precision, "%s", text);
}

/* ---- metrics ---- */

static qb_status fill_metrics(qb_ctx *cx, const scorer *s, qb_run_row *row) {
    size_t n = 0;
    while (qb_metrics[n]) n++;
    QB_TRY_NEW(cx, row->metric = qb_alloc(cx, n, sizeof *row->metric));
    for (size_t i = 0; i < n; i++) {
        const qb_metric *m = qb_metrics[i];
        const bool fits = (m->kinds & (unsigned)s->answers->kind) != 0;
        const qb_estimate e = fits ? m->value(s->answer, s->reference, s->n) : qb_estimate_none();
        qb_run_metric *out = &row->metric[row->n_metrics++];
        *out = (qb_run_metric){.name = qb_strdup(cx, m->name),
                               .title = qb_strdup(cx, m->title),
                               .unit = qb_strdup(cx, m->unit),
                               .definition = qb_strdup(cx, m->definition),
                               .value = e.value,
                               .ci = e.ci,
                               .drop = NAN,
                               .drop_ci = {NAN, NAN}};
        if (!out->name || !out->title || !out->unit || !out->definition) return cx->code;
    }
    return QB_OK;
}

static double metric_value(const qb_run_row *row, const char *name) {
    return qb_run_metric_find(row, name)->value;
}

static void fill_paired(const scorer *s, qb_paired *out) {
    qb_paired p = {.p_value = NAN, .drop_ci = {NAN, NAN}};
    for (int64_t i = 0; i < s->n; i++) {
        if (s->answer[i].label_rank < 0) continue;
        const bool now = s->answer[i].label_rank == 0, before = s->reference[i].label_rank == 0;
        int64_t *slot = before ? (now ? &p.both : &p.lost) : (now ? &p.gained : &p.neither);
        ++*slot;
    }
    const int64_t n = p.both + p.lost + p.gained + p.neither;
    if (n > 0) {
        p.p_value = qb_mcnemar(p.lost, p.gained);
        p.drop_ci = qb_paired_difference(p.lost, p.gained, n);
    }
    *out = p;
}

/* ---- classes ---- */

/* Wrong answers of labelled samples, sorted: equal pairs stand together. */
static int by_pair(const void *a, const void *b) {
    const qb_run_confusion *x = a, *y = b;
    if (x->label != y->label) return (x->label > y->label) - (x->label < y->label);
    return (x->answer > y->answer) - (x->answer < y->answer);
}

static int by_count(const void *a, const void *b) {
    const qb_run_confusion *x = a, *y = b;
    if (x->n != y->n) return (x->n < y->n) - (x->n > y->n);
    return by_pair(a, b);
}

/* Merges sorted equal pairs; returns how many are left. */
static int64_t merge_pairs(qb_run_confusion *pair, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (kept > 0 && by_pair(&pair[kept - 1], &pair[i]) == 0)
            pair[kept - 1].n += pair[i].n;
        else
            pair[kept++] = pair[i];
    }
    return kept;
}

/* Counts (label, answer) over all labelled samples, also the right ones. */
static qb_status count_pairs(qb_ctx *cx, const scorer *s, qb_run_confusion **out, int64_t *n) {
    qb_run_confusion *pair = qb_alloc(cx, (size_t)s->n, sizeof *pair);
    int64_t used = 0;
    if (!pair) return cx->code;
    for (int64_t i = 0; i < s->n; i++)
        if (s->answer[i].label_rank >= 0)
            pair[used++] = (qb_run_confusion){s->answer[i].label, s->answer[i].top1, 1};
    qsort(pair, (size_t)used, sizeof *pair, by_pair);
    *n = merge_pairs(pair, used);
    *out = pair;
    return QB_OK;
}

/* Splits the counts: classes with their hits, and the most frequent mistakes. */
static qb_status fill_classes(qb_ctx *cx, const scorer *s, qb_run_row *row) {
    qb_run_confusion *pair;
    int64_t n, wrong = 0;
    QB_TRY(count_pairs(cx, s, &pair, &n));
    row->recall = qb_alloc(cx, (size_t)n, sizeof *row->recall);
    qb_status status = row->recall ? QB_OK : cx->code;
    for (int64_t i = 0; i < n && status == QB_OK; i++) {
        qb_run_recall *last = row->n_recall > 0 ? &row->recall[row->n_recall - 1] : NULL;
        if (!last || last->label != pair[i].label) {
            last = &row->recall[row->n_recall++];
            last->label = pair[i].label;
        }
        last->n += pair[i].n;
        if (pair[i].answer == pair[i].label)
            last->right += pair[i].n;
        else
            pair[wrong++] = pair[i];
    }
    qsort(pair, (size_t)wrong, sizeof *pair, by_count);
    row->confusion = pair;
    row->n_confusion = (int32_t)(wrong < CONFUSIONS ? wrong : CONFUSIONS);
    return status;
}

/* Names of the classes that occur as label or answer in what the record holds. */
static qb_status fill_names(qb_ctx *cx, const qb_labels *labels, qb_run *run) {
    if (!labels || labels->n < 1) return QB_OK;
    QB_FREED bool *used = QB_NEW(cx, qb_alloc(cx, (size_t)labels->n, sizeof *used));
    int32_t n = 0;
    for (int32_t r = 0; r < run->n_rows; r++) {
        const qb_run_row *row = &run->row[r];
        for (int32_t i = 0; i < row->n_recall; i++)
            if (row->recall[i].label < labels->n) used[row->recall[i].label] = true;
        for (int32_t i = 0; i < row->n_confusion; i++)
            if (row->confusion[i].answer >= 0 && row->confusion[i].answer < labels->n)
                used[row->confusion[i].answer] = true;
        for (int32_t i = 0; i < row->n_worst; i++)
            for (int k = 0; k < 2; k++) {
                const int32_t a = k ? row->worst[i].answer : row->worst[i].reference_answer;
                if (a >= 0 && a < labels->n) used[a] = true;
            }
    }
    for (int32_t c = 0; c < labels->n; c++) n += used[c];
    QB_TRY_NEW(cx, run->class_name = qb_alloc(cx, (size_t)n, sizeof *run->class_name));
    for (int32_t c = 0; c < labels->n; c++) {
        if (!used[c]) continue;
        qb_run_class *class = &run->class_name[run->n_classes++];
        *class = (qb_run_class){c, qb_strdup(cx, labels->name[c])};
        if (!class->name) return cx->code;
    }
    return QB_OK;
}

/* ---- the worst samples ---- */

typedef struct candidate {
    int64_t i; /* among the answers */
    bool changed;
    double sqnr, bad; /* the more, the worse */
} candidate;

/* Another answer than the reference's first, then the noisier output, then the earlier sample. */
static int by_badness(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->changed != y->changed) return y->changed - x->changed;
    if (x->bad != y->bad) return x->bad > y->bad ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

static candidate candidate_of(const scorer *s, int64_t i) {
    const qb_answer *a = &s->answer[i];
    const double sqnr = a->err_square > 0   ? 10 * log10(a->ref_square / a->err_square)
                        : a->err_square < 0 ? NAN
                                            : INFINITY;
    const bool classes = s->answers->kind & QB_OUTPUT_ANSWER;
    candidate c = {.i = i,
                   .changed = classes && a->top1 != s->reference[i].top1,
                   .sqnr = isnan(a->err_square) || isnan(sqnr) ? -INFINITY : sqnr};
    c.bad = -c.sqnr;
    if (s->task) {
        c.changed = false;
        c.bad = s->task->badness(s->state, s->row, s->answers->index[i]);
        if (c.bad <= 0) c.bad = -INFINITY;
    }
    return c;
}

/* The place of a sample in run->shown, added when it is new. The list has room. */
static qb_status show(qb_ctx *cx, const qb_compare_options *o, const scorer *s, int64_t i,
                      qb_run *run, int32_t *at) {
    const int64_t index = s->answers->index[i];
    for (*at = 0; *at < run->n_shown; ++*at)
        if (run->shown[*at].index == index) return QB_OK;
    qb_run_shown *shown = &run->shown[run->n_shown++];
    *shown = (qb_run_shown){.index = index,
                            .label = s->answer[i].label,
                            .name = qb_strdup(cx, qb_dataset_sample_name(o->loader.dataset, index)),
                            .thumbnail = qb_strdup(cx, "")};
    return shown->name && shown->thumbnail ? QB_OK : cx->code;
}

static qb_status fill_worst(qb_ctx *cx, const qb_compare_options *o, const scorer *s, qb_run *run,
                            qb_run_row *row) {
    QB_FREED candidate *list = QB_NEW(cx, qb_alloc(cx, (size_t)s->n, sizeof *list));
    QB_TRY_NEW(cx, row->worst = qb_alloc(cx, WORST, sizeof *row->worst));
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const candidate c = candidate_of(s, i);
        if (c.changed || c.bad > -INFINITY) list[n++] = c;
    }
    qsort(list, (size_t)n, sizeof *list, by_badness);
    for (int64_t k = 0; k < n && k < WORST; k++) {
        const int64_t i = list[k].i;
        qb_run_worst *worst = &row->worst[row->n_worst++];
        *worst = (qb_run_worst){.answer = s->task ? -1 : s->answer[i].top1,
                                .reference_answer = s->task ? -1 : s->reference[i].top1,
                                .sqnr_db = list[k].sqnr};
        QB_TRY(show(cx, o, s, i, run, &worst->shown));
        if (s->task)
            QB_TRY(s->task->illustrate(cx, s->state, s->row, s->answers->index[i],
                                       &run->shown[worst->shown], worst));
    }
    return QB_OK;
}

/* ---- a row ---- */

static qb_status fill_row(qb_ctx *cx, const scorer *s, qb_run *run, int32_t r) {
    qb_run_row *row = &run->row[r];
    QB_TRY(warn_of_nan(cx, row->precision, s, run));
    QB_TRY(fill_metrics(cx, s, row));
    row->top1 = metric_value(row, "top1");
    row->top5 = metric_value(row, "top5");
    row->agreement_top1 = metric_value(row, "agreement");
    row->sqnr_db = metric_value(row, "sqnr");
    row->drop = run->row[0].top1 - row->top1;
    if (s->answers->kind & QB_OUTPUT_ANSWER) {
        if (r > 0) fill_paired(s, &row->paired);
        QB_TRY(fill_classes(cx, s, row));
    }
    return QB_OK;
}

static scorer scorer_of(const qb_answers *a, int32_t row) {
    return (scorer){.answers = a,
                    .answer = a->answer + row * a->n,
                    .reference = a->answer,
                    .n = a->n,
                    .row = row};
}

qb_status qb_score_fill(qb_ctx *cx, const qb_answers *answers, qb_run *run) {
    run->samples = answers->stream.samples;
    run->skipped = answers->stream.skipped;
    run->data_hash = answers->stream.data_hash;
    if (answers->key) {
        QB_TRY_NEW(cx, run->sample_key = qb_alloc(cx, (size_t)answers->n, sizeof *run->sample_key));
        memcpy(run->sample_key, answers->key, (size_t)answers->n * sizeof *run->sample_key);
        run->n_sample_keys = answers->n;
    }
    for (int32_t r = 0; r < run->n_rows; r++) {
        const scorer s = scorer_of(answers, r);
        QB_TRY(fill_row(cx, &s, run, r));
    }
    return QB_OK;
}

qb_status qb_worst_fill(qb_ctx *cx, const qb_compare_options *options, const qb_answers *answers,
                        const qb_task *task, const void *state, qb_run *run) {
    QB_TRY_NEW(cx, run->shown = qb_alloc(cx, (size_t)run->n_rows * WORST, sizeof *run->shown));
    for (int32_t r = 1; r < run->n_rows; r++) {
        scorer s = scorer_of(answers, r);
        s.task = task && task->badness ? task : NULL;
        s.state = state;
        QB_TRY(fill_worst(cx, options, &s, run, &run->row[r]));
    }
    return fill_names(cx, options->labels, run);
}

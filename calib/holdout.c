#include "calib/holdout.h"

#include <math.h>
#include <string.h>

#include "base/log.h"

/* Is the squared error `a` less than `b` by more than twice the difference's standard error? */
static bool surely_beats(const double *a, const double *b, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double gain = b[i] - a[i];
        sum += gain;
        squares += gain * gain;
    }
    const double variance = fmax(0, squares / (double)n - sum / (double)n * (sum / (double)n));
    return sum > 2 * sqrt((double)n * variance);
}

static void choose(const qb_method_scores *s, const qb_table *table, int32_t automatic,
                   qb_holdout *out) {
    const double *own = s->err_square + automatic * s->samples;
    const bool broken = isnan(s->sqnr_db[automatic]);
    double best = s->sqnr_db[automatic];
    *out = (qb_holdout){.n = table->n_methods, .samples = s->samples, .best = automatic};
    for (int32_t m = 0; m < out->n; m++) {
        strcpy(out->item[m].method, table->method[m]);
        out->item[m].sqnr_db = s->sqnr_db[m];
        out->item[m].agreement = s->agreement[m];
        if (!(s->sqnr_db[m] > best || isnan(best))) continue;
        if (!broken && !surely_beats(s->err_square + m * s->samples, own, s->samples)) continue;
        best = s->sqnr_db[m];
        out->best = m;
    }
}

qb_status qb_calib_hold_out(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                            int32_t automatic, qb_score_methods_fn score, const void *user,
                            qb_table *table, qb_holdout *out) {
    qb_calib_options others = *options;
    const int64_t n = qb_dataset_count(options->loader.dataset);
    others.hold_back = QB_HOLDOUT_EVERY;
    others.checkpoint = NULL;
    others.resume = false;
    others.memory = NULL;
    *out = (qb_holdout){0};
    if (n < 2 * QB_HOLDOUT_EVERY) {
        qb_warn(cx, "auto: %lld samples are too few to hold some back: chosen by tensor only",
                (long long)n);
        return QB_OK;
    }
    qb_info(cx, "auto: once more without each %dth sample, to judge the methods on those",
            QB_HOLDOUT_EVERY);
    qb_table *training;
    qb_method_scores scores = {0};
    QB_TRY(qb_calibrate(cx, graph, &others, &training));
    const qb_status status = score(cx, user, graph, training, &others, &scores);
    if (status == QB_OK) {
        choose(&scores, training, automatic, out);
        for (int32_t i = 0; i < table->n_entries; i++)
            table->entry[i].range[automatic] = table->entry[i].range[out->best];
    }
    qb_free(scores.err_square);
    qb_table_free(training);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "auto");
}

/* Metrics of a task with intervals: a paired bootstrap over samples. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "eval/stats.h"
#include "eval/task.h"

typedef double draws[QB_TASK_METRICS][QB_BOOTSTRAP_DRAWS];

static qb_status draw_all(qb_ctx *cx, const qb_task_scores *s, int32_t *weight, draws *out) {
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++) {
        QB_TRY(qb_check_cancel(cx));
        memset(weight, 0, (size_t)s->samples * sizeof *weight);
        for (int64_t i = 0; i < s->samples; i++) {
            const int64_t k = (int64_t)qb_rng_below(&rng, (uint64_t)s->samples);
            weight[k] += s->seen[k];
        }
        for (int32_t e = 0; e < s->n_engines; e++) {
            double value[QB_TASK_METRICS];
            QB_TRY(s->value(cx, s->state, e, weight, true, value));
            for (int32_t m = 0; m < s->n; m++)
                if (s->metric[m].interval) out[e][m][b] = isnan(value[m]) ? 0 : value[m];
        }
    }
    return QB_OK;
}

/* Sorts the draws: those of the difference are taken before. */
static qb_status add_row(qb_ctx *cx, const qb_task_scores *s, const double *value,
                         const double *first, draws *d, int32_t engine, qb_run_row *row) {
    for (int32_t m = 0; m < s->n; m++) {
        const double sign = s->falls >> m & 1 ? -1 : 1;
        qb_run_metric metric = {.value = value[m],
                                .ci = {NAN, NAN},
                                .drop = engine > 0 ? sign * (first[m] - value[m]) : NAN,
                                .drop_ci = {NAN, NAN}};
        if (d && s->metric[m].interval && !isnan(value[m])) {
            double difference[QB_BOOTSTRAP_DRAWS], own[QB_BOOTSTRAP_DRAWS];
            for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++) {
                own[b] = d[engine][m][b];
                difference[b] = sign * (d[0][m][b] - own[b]);
            }
            metric.ci = qb_bootstrap_corrected(own, value[m]);
            if (engine > 0) metric.drop_ci = qb_bootstrap_corrected(difference, metric.drop);
        }
        QB_TRY(qb_run_metric_add(cx, row, &s->metric[m].label, &metric));
        if (m > 0) continue;
        row->drop = engine > 0 ? metric.drop : 0;
        if (engine > 0) row->paired.drop_ci = metric.drop_ci;
    }
    return QB_OK;
}

qb_status qb_task_score(qb_ctx *cx, const qb_task_scores *s, qb_run *run) {
    QB_FREED int32_t *weight = qb_alloc(cx, (size_t)s->samples, sizeof *weight);
    QB_FREED draws *d = run->points_only ? NULL : qb_alloc(cx, (size_t)s->n_engines, sizeof *d);
    QB_FREED double(*value)[QB_TASK_METRICS] = qb_alloc(cx, (size_t)s->n_engines, sizeof *value);
    if (!weight || (!d && !run->points_only) || !value) return cx->code;
    for (int64_t i = 0; i < s->samples; i++) weight[i] = s->seen[i];
    for (int32_t e = 0; e < s->n_engines; e++)
        QB_TRY(s->value(cx, s->state, e, weight, false, value[e]));
    if (d) QB_TRY(draw_all(cx, s, weight, d));
    for (int32_t e = 0; e < s->n_engines; e++)
        QB_TRY(add_row(cx, s, value[e], value[0], d, e, &run->row[e]));
    return QB_OK;
}

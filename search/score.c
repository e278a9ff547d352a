/* Accuracy of alternatives: several engines over the data at once. */
#include <math.h>
#include <string.h>

#include "eval/task.h"
#include "search/search.h"

/* Engines of a pass over the data; each has contexts for all workers. */
enum { PASS = 16 };

char *qb_search_key(qb_ctx *cx, const qb_space *s, const qb_alternative *a) {
    const bool floats = qb_space_count_float(s, a) > 0;
    char *key = qb_format(cx, "%d/%s/%*s", (int)a->way,
                          qb_dtype_text(floats ? a->floats : QB_DTYPE_F32), (int)s->n, "");
    char *at = key ? strrchr(key, '/') + 1 : NULL;
    for (int32_t g = 0; at && g < s->n; g++) at[g] = a->is_float[g] ? '1' : '0';
    return key;
}

/* ---- in the journal -------------------------------------------------------------------------- */

static const char *kind_of(bool intervals) { return intervals ? "score" : "sensitivity"; }

static json_t *number(double value) {
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return isnan(value) ? json_null() : json_real(value);
}

static double number_of(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    const char *text = json_string_value(value);
    if (text) return strcmp(text, "inf") == 0 ? INFINITY : -INFINITY;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *score_json(const qb_search_score *s) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sqnr_db", number(s->sqnr_db),
                     "agreement", number(s->agreement), "divergence", number(s->divergence),
                     "metric", number(s->metric), "drop", number(s->drop), "drop_low",
                     number(s->drop_ci.lo), "drop_high", number(s->drop_ci.hi));
}

static bool find_score(const qb_journal *journal, bool intervals, const char *key,
                       qb_search_score *out) {
    const json_t *json = qb_journal_find(journal, kind_of(intervals), key);
    if (!json) return false;
    *out =
        (qb_search_score){.sqnr_db = number_of(json, "sqnr_db"),
                          .agreement = number_of(json, "agreement"),
                          .divergence = number_of(json, "divergence"),
                          .metric = number_of(json, "metric"),
                          .drop = number_of(json, "drop"),
                          .drop_ci = {number_of(json, "drop_low"), number_of(json, "drop_high")}};
    return true;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* What the task is about, in the journal, too: a search that goes on may run nothing. */
static qb_status keep_task(qb_ctx *cx, const qb_search_options *o, const qb_run *run,
                           qb_search *search, const qb_run_metric **metric) {
    const qb_task *task = run->task ? qb_task_find(run->task) : NULL;
    *metric = task && task->metric ? qb_run_metric_find(&run->row[0], task->metric) : NULL;
    if (*metric && isnan((*metric)->value)) *metric = NULL;
    if (search->samples > 0) return QB_OK;
    QB_TRY(qb_journal_add(cx, o->journal, "data", "set",
                          json_pack("{s:I, s:s?}", "samples", (json_int_t)run->samples, "metric",
                                    *metric ? (*metric)->title : NULL)));
    return qb_search_recall_data(cx, o->journal, search);
}

qb_status qb_search_recall_data(qb_ctx *cx, const qb_journal *journal, qb_search *search) {
    const json_t *set = qb_journal_find(journal, "data", "set");
    const char *metric = json_string_value(json_object_get(set, "metric"));
    search->samples = json_integer_value(json_object_get(set, "samples"));
    if (!metric) return QB_OK;
    search->metric = qb_strdup(cx, metric);
    return search->metric ? QB_OK : cx->code;
}

static qb_search_score score_of(const qb_run_row *row, const char *metric) {
    return (qb_search_score){.sqnr_db = row->sqnr_db,
                             .agreement = row->agreement_top1,
                             .divergence = qb_run_metric_value(row, "divergence"),
                             .metric = metric ? qb_run_metric_value(row, metric) : NAN,
                             .drop = row->drop,
                             .drop_ci = row->paired.drop_ci};
}

/* The float model stands first. */
static qb_status run_pass(qb_ctx *cx, const qb_search_options *o, const qb_alternative *const *a,
                          int32_t n, bool intervals, qb_search_score *out, qb_search *search) {
    const qb_space *space = o->space;
    qb_graph *graph[PASS] = {NULL};
    qb_candidate candidate[PASS + 1];
    qb_compare_options compare = o->compare;
    const qb_run_metric *metric;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    qb_status status = QB_OK;
    candidate[0] = (qb_candidate){.precision = "fp32",
                                  .calibration = "",
                                  .graph = o->reference,
                                  .spec = space->spec,
                                  .devices = {0}};
    candidate[0].spec.float_type = QB_DTYPE_F32;
    for (int32_t i = 0; i < n; i++) {
        QB_GO(qb_space_quantize(cx, space, a[i], &graph[i]));
        candidate[i + 1] = (qb_candidate){.precision = "alternative",
                                          .calibration = "",
                                          .graph = graph[i],
                                          .spec = qb_space_spec(space, a[i])};
    }
    for (int32_t i = 0; i <= n; i++) candidate[i].spec.input_shapes = NULL;
    compare.candidate = candidate;
    compare.n_candidates = n + 1;
    compare.points_only = !intervals;
    QB_GO(qb_compare_accuracy(cx, &compare, &run));
    QB_GO(keep_task(cx, o, run, search, &metric));
    for (int32_t i = 0; i < n; i++)
        out[i] = score_of(&run->row[i + 1], metric ? metric->name : NULL);
out:
    for (int32_t i = 0; i < n; i++) qb_graph_free(graph[i]);
    return status;
}

qb_status qb_search_score_all(qb_ctx *cx, const qb_search_options *o,
                              const qb_alternative *const *alternatives, int32_t n, bool intervals,
                              qb_search_score *out, qb_search *search) {
    const qb_alternative *left[PASS];
    qb_search_score scores[PASS];
    char *key[PASS];
    int32_t at[PASS], n_left = 0;
    qb_status status = QB_OK;
    for (int32_t i = 0; i < n && status == QB_OK; i++) {
        QB_GO_NEW(cx, key[n_left] = qb_search_key(cx, o->space, alternatives[i]));
        left[n_left] = alternatives[i];
        at[n_left] = i;
        if (find_score(o->journal, intervals, key[n_left], &out[i]))
            qb_free(key[n_left]);
        else
            n_left++;
        if (n_left == 0 || (n_left < PASS && i + 1 < n)) continue;
        status = run_pass(cx, o, left, n_left, intervals, scores, search);
        for (int32_t k = 0; k < n_left; k++) {
            if (status == QB_OK)
                status = qb_journal_add(cx, o->journal, kind_of(intervals), key[k],
                                        score_json(&scores[k]));
            if (status == QB_OK) out[at[k]] = scores[k];
            qb_free(key[k]);
        }
        n_left = 0;
    }
out:
    for (int32_t k = 0; k < n_left; k++) qb_free(key[k]);
    return status;
}

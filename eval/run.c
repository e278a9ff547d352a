/* The run record as JSON: the tables below say how; record.c does it. */
#include "eval/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_clean.h"
#include "eval/eval.h"
#include "eval/record_internal.h"
#include "eval/warnings.h"

#define SCHEMA "qbench.compare/1"
#define JSON_MAX ((size_t)64 << 20)
enum { ROWS_MAX = 256, ITEMS_MAX = 100000 };

/* Members of the record R by their keys, or by their own names (OWN); MAY be absent. */
#define FIELD(KEY, TYPE, MEMBER)                                                                   \
    { .key = (KEY), .type = QB_FIELD_##TYPE, .offset = offsetof(R, MEMBER) }
#define MAY(KEY, TYPE, MEMBER)                                                                     \
    { .key = (KEY), .type = QB_FIELD_##TYPE, .offset = offsetof(R, MEMBER), .optional = true }
#define OWN(TYPE, MEMBER) FIELD(#MEMBER, TYPE, MEMBER)
#define MAY_OWN(TYPE, MEMBER) MAY(#MEMBER, TYPE, MEMBER)
#define OBJECT(KEY, RECORD)                                                                        \
    { .key = (KEY), .type = QB_FIELD_OBJECT, .record = &(RECORD) }
#define DOUBLES(KEY, MEMBER, COUNT)                                                                \
    {                                                                                              \
        .key = (KEY), .type = QB_FIELD_DOUBLES, .offset = offsetof(R, MEMBER),                     \
        .count = offsetof(R, COUNT), .most = ITEMS_MAX, .optional = true                           \
    }
#define LIST(KEY, MEMBER, COUNT, RECORD)                                                           \
    {                                                                                              \
        .key = (KEY), .type = QB_FIELD_LIST, .offset = offsetof(R, MEMBER), .record = &(RECORD),   \
        .count = offsetof(R, COUNT), .most = ITEMS_MAX, .optional = true                           \
    }
/* The record NAME_record; SIZE 0: part of the structure that it stands in. */
#define RECORD(NAME, SIZE, ...)                                                                    \
    static const qb_field NAME##_fields[] = {__VA_ARGS__, {0}};                                    \
    static const qb_record NAME##_record = {SIZE, NAME##_fields}

#define R qb_run_metric
RECORD(metric, sizeof(R), OWN(TEXT, name), OWN(TEXT, title), OWN(TEXT, unit), OWN(TEXT, definition),
       OWN(LEVEL, value), FIELD("low", LEVEL, ci.lo), FIELD("high", LEVEL, ci.hi), OWN(SCORE, drop),
       FIELD("drop_low", SCORE, drop_ci.lo), FIELD("drop_high", SCORE, drop_ci.hi));
#undef R

#define R qb_run_class_score
RECORD(class_score, sizeof(R), OWN(TEXT, name), OWN(DOUBLE, value), OWN(INT64, n));
#undef R

#define R qb_run_recall
RECORD(recall, sizeof(R), OWN(INT32, label), OWN(INT64, n), OWN(INT64, right));
#undef R

#define R qb_run_confusion
RECORD(confusion, sizeof(R), OWN(INT32, label), OWN(CLASS, answer), OWN(INT64, n));
#undef R

#define R qb_run_box
RECORD(box, sizeof(R), OWN(DOUBLE, x), OWN(DOUBLE, y), OWN(DOUBLE, width), OWN(DOUBLE, height),
       OWN(DOUBLE, score), OWN(INT32, matched), OWN(TEXT, name));
#undef R

#define R qb_run_worst
RECORD(worst, sizeof(R), FIELD("sample", INT32, shown), OWN(CLASS, answer),
       OWN(CLASS, reference_answer), OWN(LEVEL, sqnr_db), LIST("boxes", box, n_boxes, box_record),
       LIST("reference_boxes", reference_box, n_reference_boxes, box_record), MAY_OWN(TEXT, mask),
       MAY_OWN(TEXT, reference_mask));
#undef R

#define R qb_run_layer
RECORD(layer, sizeof(R), OWN(TEXT, name), OWN(TEXT, op), OWN(TEXT, value), OWN(TEXT, precision),
       OWN(LEVEL, own_db), OWN(LEVEL, total_db), OWN(DOUBLE, saturated),
       FIELD("range_low", DOUBLE, range_lo), FIELD("range_high", DOUBLE, range_hi),
       FIELD("seen_low", DOUBLE, seen_lo), FIELD("seen_high", DOUBLE, seen_hi),
       OWN(CLASS, unused_codes), MAY_OWN(TEXT, method), OWN(SCORE, float_db),
       OWN(SCORE, float_drop), OWN(DOUBLE, share));
#undef R

#define R qb_run_step
RECORD(step, sizeof(R), OWN(TEXT, name), OWN(TEXT, op), OWN(TEXT, tactic), OWN(TEXT, dtype),
       MAY_OWN(TEXT, reason), OWN(DOUBLE, ms), OWN(DOUBLE, flops), OWN(DOUBLE, bytes));
#undef R

#define R qb_run_batch
RECORD(batch, sizeof(R), OWN(INT64, batch), FIELD("median_ms", DOUBLE, median),
       OWN(DOUBLE, throughput));
#undef R

#define R qb_run_row
RECORD(latency, 0, FIELD("runs", INT64, latency.runs), FIELD("mean", DOUBLE, latency.mean),
       FIELD("median", DOUBLE, latency.median), FIELD("p90", DOUBLE, latency.p90),
       FIELD("p95", DOUBLE, latency.p95), FIELD("p99", DOUBLE, latency.p99),
       FIELD("min", DOUBLE, latency.min), FIELD("max", DOUBLE, latency.max),
       FIELD("cv", DOUBLE, latency.cv), MAY("median_low", DOUBLE, latency.median_ci.lo),
       MAY("median_high", DOUBLE, latency.median_ci.hi),
       MAY("ratio_low", DOUBLE, latency.ratio_ci.lo),
       MAY("ratio_high", DOUBLE, latency.ratio_ci.hi), DOUBLES("rounds", round, n_rounds));
RECORD(count, 0, FIELD("int8", INT32, layers.int8), FIELD("fp16", INT32, layers.fp16),
       MAY("bf16", INT32, layers.bf16), FIELD("fp32", INT32, layers.fp32));
RECORD(time, 0, MAY("int8", DOUBLE, time.int8), MAY("fp16", DOUBLE, time.fp16),
       MAY("bf16", DOUBLE, time.bf16), MAY("fp32", DOUBLE, time.fp32));
RECORD(paired, 0, MAY("both_right", INT64, paired.both), MAY("lost", INT64, paired.lost),
       MAY("gained", INT64, paired.gained), MAY("both_wrong", INT64, paired.neither),
       MAY("mcnemar_p", DOUBLE, paired.p_value), MAY("drop_low", DOUBLE, paired.drop_ci.lo),
       MAY("drop_high", DOUBLE, paired.drop_ci.hi));

RECORD(row, sizeof(R), OWN(TEXT, precision), OWN(TEXT, backend), OWN(TEXT, calibration),
       OWN(DOUBLE, top1), OWN(DOUBLE, top5), OWN(DOUBLE, agreement_top1), OWN(LEVEL, sqnr_db),
       OWN(DOUBLE, drop), OWN(DOUBLE, speedup), OWN(SCORE, speedup_minima), MAY_OWN(TEXT, plan),
       MAY_OWN(TEXT, scheme), MAY_OWN(TEXT, suggestion), OWN(DOUBLE, throughput), OWN(INT64, batch),
       OWN(INT64, weights_bytes), OWN(INT64, arena_bytes), OWN(INT64, engine_bytes),
       OBJECT("latency_ms", latency_record), OBJECT("layers", count_record),
       OBJECT("time", time_record), OBJECT("paired", paired_record),
       LIST("metrics", metric, n_metrics, metric_record),
       DOUBLES("precision_recall", curve, n_curve),
       LIST("per_class", per_class, n_per_class, class_score_record),
       LIST("recall", recall, n_recall, recall_record),
       LIST("confusion", confusion, n_confusion, confusion_record),
       LIST("worst", worst, n_worst, worst_record),
       LIST("layer_errors", layer, n_layers, layer_record),
       LIST("steps", step, n_steps, step_record),
       LIST("batches", batches, n_batches, batch_record));
#undef R

#define R qb_run_class
RECORD(class, sizeof(R), OWN(INT32, index), OWN(TEXT, name));
#undef R

#define R qb_run_shown
RECORD(shown, sizeof(R), OWN(INT64, index), OWN(CLASS, label), OWN(TEXT, name),
       OWN(TEXT, thumbnail), MAY_OWN(INT32, width), MAY_OWN(INT32, height));
#undef R

#define R qb_run_warning
RECORD(warning, sizeof(R), OWN(TEXT, name), MAY_OWN(TEXT, touches), MAY_OWN(TEXT, row),
       OWN(TEXT, text));
#undef R

#define R qb_run
RECORD(model, 0, FIELD("name", TEXT, model), FIELD("hash", HASH, model_hash));
RECORD(dataset, 0, FIELD("path", TEXT, dataset), FIELD("hash", HASH, data_hash),
       OWN(INT64, samples), OWN(INT64, skipped), MAY_OWN(TEXT, decoder), MAY_OWN(TEXT, part));
RECORD(environment, 0, FIELD("qbench", TEXT, version), OWN(TEXT, cpu), FIELD("os", TEXT, host_os),
       OWN(TEXT, libraries), OWN(INT32, threads), MAY("f32_gops", DOUBLE, ceilings.f32_gops),
       MAY("s8_gops", DOUBLE, ceilings.s8_gops), MAY("memory_gbs", DOUBLE, ceilings.memory_gbs));
RECORD(disturbance, 0, MAY("waited", DOUBLE, disturbance.waited),
       MAY("stolen", DOUBLE, disturbance.stolen), MAY("minima_spread", DOUBLE, disturbance.minima),
       MAY("control_low", DOUBLE, disturbance.control.lo),
       MAY("control_high", DOUBLE, disturbance.control.hi));
RECORD(run, sizeof(R), MAY_OWN(TEXT, task), MAY_OWN(TEXT, made), MAY_OWN(TEXT, command),
       MAY_OWN(TEXT, calibrated_on), MAY_OWN(INT64, calibration_samples),
       OBJECT("model", model_record), OBJECT("dataset", dataset_record),
       OBJECT("environment", environment_record), OBJECT("disturbance", disturbance_record),
       LIST("warnings", warning, n_warnings, warning_record),
       LIST("classes", class_name, n_classes, class_record),
       LIST("samples", shown, n_shown, shown_record),
       {.key = "rows",
        .type = QB_FIELD_LIST,
        .offset = offsetof(R, row),
        .record = &row_record,
        .count = offsetof(R, n_rows),
        .least = 1,
        .most = ROWS_MAX});
#undef R

/* ---- the structure ---- */

qb_status qb_run_create(qb_ctx *cx, int32_t n_rows, qb_run **out) {
    QB_FREED qb_run *run = QB_NEW(cx, qb_alloc(cx, 1, sizeof *run));
    QB_TRY_NEW(cx, run->row = qb_alloc(cx, (size_t)n_rows, sizeof *run->row));
    run->n_rows = n_rows;
    run->ceilings = (qb_ceilings){NAN, NAN, NAN};
    run->disturbance = (qb_disturbance){NAN, NAN, NAN, {NAN, NAN}};
    for (int32_t i = 0; i < n_rows; i++) {
        run->row[i].paired = (qb_paired){.p_value = NAN, .drop_ci = {NAN, NAN}};
        run->row[i].speedup_minima = NAN;
        run->row[i].time = (qb_time_shares){NAN, NAN, NAN, NAN};
        run->row[i].latency.median_ci = run->row[i].latency.ratio_ci = (qb_interval){NAN, NAN};
    }
    *out = QB_MOVE(run);
    return QB_OK;
}

qb_status qb_run_clean(qb_ctx *cx, qb_run *run) { return qb_record_clean(cx, &run_record, run); }

void qb_run_free(qb_run *run) {
    if (!run) return;
    qb_record_release(&run_record, run);
    QB_FREE_ALL(run->sample_key, run);
}

const char *qb_run_own_metric(const qb_run *run) {
    const qb_task *task = run->task ? qb_task_find(run->task) : NULL;
    return task && task->finish ? task->metric : NULL;
}

const qb_run_metric *qb_run_metric_find(const qb_run_row *row, const char *name) {
    for (int32_t i = 0; i < row->n_metrics; i++)
        if (strcmp(row->metric[i].name, name) == 0) return &row->metric[i];
    return NULL;
}

double qb_run_metric_value(const qb_run_row *row, const char *name) {
    const qb_run_metric *m = qb_run_metric_find(row, name);
    return m ? m->value : NAN;
}

qb_interval qb_run_metric_ci(const qb_run_row *row, const char *name) {
    const qb_run_metric *metric = qb_run_metric_find(row, name);
    return metric ? metric->ci : (qb_interval){NAN, NAN};
}

const char *qb_run_class_text(const qb_run *run, int32_t index, char text[16]) {
    for (int32_t i = 0; i < run->n_classes; i++)
        if (run->class_name[i].index == index) return run->class_name[i].name;
    snprintf(text, 16, index < 0 ? "none" : "%d", index);
    return text;
}

/* ---- files ---- */

/* What a task measures of its own also stands in the row itself, where scripts look for it. */
static int spread_metrics(const qb_run *run, json_t *rows) {
    const qb_task *task = run->task ? qb_task_find(run->task) : NULL;
    for (int32_t r = 0; task && task->finish && r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_metrics; i++) {
            const qb_run_metric *m = &run->row[r].metric[i];
            json_t *row = json_array_get(rows, (size_t)r);
            if (qb_metric_find(m->name) || json_object_get(row, m->name)) continue;
            json_t *value = qb_json_finite(m->value);
            if (json_object_set_new(row, m->name, value) != 0) return -1;
        }
    return 0;
}

qb_status qb_run_json(qb_ctx *cx, const qb_run *run, char **out) {
    json_t *body = qb_record_write(&run_record, run);
    json_t *root = body ? json_pack("{s:s}", "schema", SCHEMA) : NULL;
    if (root) json_object_update(root, body);
    const bool whole = root && spread_metrics(run, json_object_get(root, "rows")) == 0;
    char *text = whole ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(body);
    json_decref(root);
    if (!text)
        return qb_fail(cx, QB_STATUS_INTERNAL, "run record: a text is missing or is not UTF-8");
    *out = qb_format(cx, "%s\n", text);
    free(text);
    return *out ? QB_OK : cx->code;
}

qb_status qb_run_save(qb_ctx *cx, const qb_run *run, const char *path) {
    QB_FREED char *text = NULL;
    QB_TRY_WRAP(cx, qb_run_json(cx, run, &text), "%s", path);
    return qb_file_write(cx, path, text, strlen(text));
}

static qb_status read_root(qb_ctx *cx, const char *name, const json_t *root, qb_run **out) {
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: schema: expected %s, got %s", name, SCHEMA,
                       schema ? schema : "none");
    QB_RELEASED(qb_run_free_at) qb_run *run = QB_NEW(cx, qb_alloc(cx, 1, sizeof *run));
    QB_TRY(qb_record_read(cx, name, root, &run_record, run));
    QB_TRY(qb_run_check(cx, name, run));
    QB_TRY(qb_warnings_derive(cx, run));
    *out = QB_MOVE(run);
    return QB_OK;
}

qb_status qb_run_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_run **out) {
    json_error_t error;
    json_auto_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s:%d:%d: %s", name, error.line, error.column,
                       error.text);
    return read_root(cx, name, root, out);
}

qb_status qb_run_load(qb_ctx *cx, const char *path, qb_run **out) {
    QB_FREED char *text = NULL;
    size_t size;
    QB_TRY(qb_file_read(cx, path, JSON_MAX, &text, &size));
    return qb_run_parse(cx, path, text, size, out);
}

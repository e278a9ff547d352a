/* The run record as JSON: the tables below say how; record.c does it. */
#include "eval/run.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "eval/eval.h"
#include "eval/record_internal.h"
#include "eval/warnings.h"

#define SCHEMA "qbench.compare/1"
#define JSON_MAX ((size_t)64 << 20)
enum { ROWS_MAX = 256, ITEMS_MAX = 100000, NAME_MAX_ESCAPED = 4 * PATH_MAX };

#define FIELD(S, KEY, TYPE, MEMBER)                                                                \
    { .key = (KEY), .type = QB_FIELD_##TYPE, .offset = offsetof(S, MEMBER) }
#define MAY(S, KEY, TYPE, MEMBER)                                                                  \
    { .key = (KEY), .type = QB_FIELD_##TYPE, .offset = offsetof(S, MEMBER), .optional = true }
#define LIST(S, KEY, MEMBER, COUNT, RECORD)                                                        \
    {                                                                                              \
        .key = (KEY), .type = QB_FIELD_LIST, .offset = offsetof(S, MEMBER), .record = &(RECORD),   \
        .count = offsetof(S, COUNT), .most = ITEMS_MAX, .optional = true                           \
    }

#define R qb_run_metric
static const qb_field metric_fields[] = {FIELD(R, "name", TEXT, name),
                                         FIELD(R, "title", TEXT, title),
                                         FIELD(R, "unit", TEXT, unit),
                                         FIELD(R, "definition", TEXT, definition),
                                         FIELD(R, "value", LEVEL, value),
                                         FIELD(R, "low", LEVEL, ci.lo),
                                         FIELD(R, "high", LEVEL, ci.hi),
                                         FIELD(R, "drop", SCORE, drop),
                                         FIELD(R, "drop_low", SCORE, drop_ci.lo),
                                         FIELD(R, "drop_high", SCORE, drop_ci.hi),
                                         {0}};
static const qb_record metric_record = {sizeof(R), metric_fields};
#undef R

#define R qb_run_class_score
static const qb_field class_score_fields[] = {
    FIELD(R, "name", TEXT, name), FIELD(R, "value", DOUBLE, value), FIELD(R, "n", INT64, n), {0}};
static const qb_record class_score_record = {sizeof(R), class_score_fields};
#undef R

#define R qb_run_recall
static const qb_field recall_fields[] = {
    FIELD(R, "label", INT32, label), FIELD(R, "n", INT64, n), FIELD(R, "right", INT64, right), {0}};
static const qb_record recall_record = {sizeof(R), recall_fields};
#undef R

#define R qb_run_confusion
static const qb_field confusion_fields[] = {FIELD(R, "label", INT32, label),
                                            FIELD(R, "answer", CLASS, answer),
                                            FIELD(R, "n", INT64, n),
                                            {0}};
static const qb_record confusion_record = {sizeof(R), confusion_fields};
#undef R

#define R qb_run_box
static const qb_field box_fields[] = {
    FIELD(R, "x", DOUBLE, x),         FIELD(R, "y", DOUBLE, y),
    FIELD(R, "width", DOUBLE, width), FIELD(R, "height", DOUBLE, height),
    FIELD(R, "score", DOUBLE, score), FIELD(R, "matched", INT32, matched),
    FIELD(R, "name", TEXT, name),     {0}};
static const qb_record box_record = {sizeof(R), box_fields};
#undef R

#define R qb_run_worst
static const qb_field worst_fields[] = {
    FIELD(R, "sample", INT32, shown),
    FIELD(R, "answer", CLASS, answer),
    FIELD(R, "reference_answer", CLASS, reference_answer),
    FIELD(R, "sqnr_db", LEVEL, sqnr_db),
    LIST(R, "boxes", box, n_boxes, box_record),
    LIST(R, "reference_boxes", reference_box, n_reference_boxes, box_record),
    MAY(R, "mask", TEXT, mask),
    MAY(R, "reference_mask", TEXT, reference_mask),
    {0}};
static const qb_record worst_record = {sizeof(R), worst_fields};
#undef R

#define R qb_run_layer
static const qb_field layer_fields[] = {FIELD(R, "name", TEXT, name),
                                        FIELD(R, "op", TEXT, op),
                                        FIELD(R, "value", TEXT, value),
                                        FIELD(R, "precision", TEXT, precision),
                                        FIELD(R, "own_db", LEVEL, own_db),
                                        FIELD(R, "total_db", LEVEL, total_db),
                                        FIELD(R, "saturated", DOUBLE, saturated),
                                        FIELD(R, "range_low", DOUBLE, range_lo),
                                        FIELD(R, "range_high", DOUBLE, range_hi),
                                        FIELD(R, "seen_low", DOUBLE, seen_lo),
                                        FIELD(R, "seen_high", DOUBLE, seen_hi),
                                        FIELD(R, "unused_codes", CLASS, unused_codes),
                                        MAY(R, "method", TEXT, method),
                                        FIELD(R, "float_db", SCORE, float_db),
                                        FIELD(R, "float_drop", SCORE, float_drop),
                                        FIELD(R, "share", DOUBLE, share),
                                        {0}};
static const qb_record layer_record = {sizeof(R), layer_fields};
#undef R

#define R qb_run_step
static const qb_field step_fields[] = {FIELD(R, "name", TEXT, name),
                                       FIELD(R, "op", TEXT, op),
                                       FIELD(R, "tactic", TEXT, tactic),
                                       FIELD(R, "dtype", TEXT, dtype),
                                       MAY(R, "reason", TEXT, reason),
                                       FIELD(R, "ms", DOUBLE, ms),
                                       FIELD(R, "flops", DOUBLE, flops),
                                       FIELD(R, "bytes", DOUBLE, bytes),
                                       {0}};
static const qb_record step_record = {sizeof(R), step_fields};
#undef R

#define R qb_run_batch
static const qb_field batch_fields[] = {FIELD(R, "batch", INT64, batch),
                                        FIELD(R, "median_ms", DOUBLE, median),
                                        FIELD(R, "throughput", DOUBLE, throughput),
                                        {0}};
static const qb_record batch_record = {sizeof(R), batch_fields};
#undef R

#define R qb_run_row
static const qb_field latency_fields[] = {FIELD(R, "runs", INT64, latency.runs),
                                          FIELD(R, "mean", DOUBLE, latency.mean),
                                          FIELD(R, "median", DOUBLE, latency.median),
                                          FIELD(R, "p90", DOUBLE, latency.p90),
                                          FIELD(R, "p95", DOUBLE, latency.p95),
                                          FIELD(R, "p99", DOUBLE, latency.p99),
                                          FIELD(R, "min", DOUBLE, latency.min),
                                          FIELD(R, "max", DOUBLE, latency.max),
                                          FIELD(R, "cv", DOUBLE, latency.cv),
                                          MAY(R, "median_low", DOUBLE, latency.median_ci.lo),
                                          MAY(R, "median_high", DOUBLE, latency.median_ci.hi),
                                          MAY(R, "ratio_low", DOUBLE, latency.ratio_ci.lo),
                                          MAY(R, "ratio_high", DOUBLE, latency.ratio_ci.hi),
                                          {.key = "rounds",
                                           .type = QB_FIELD_DOUBLES,
                                           .offset = offsetof(R, round),
                                           .count = offsetof(R, n_rounds),
                                           .most = ITEMS_MAX,
                                           .optional = true},
                                          {0}};
static const qb_record latency_record = {0, latency_fields};
static const qb_field count_fields[] = {FIELD(R, "int8", INT32, layers.int8),
                                        FIELD(R, "fp16", INT32, layers.fp16),
                                        MAY(R, "bf16", INT32, layers.bf16),
                                        FIELD(R, "fp32", INT32, layers.fp32),
                                        {0}};
static const qb_record count_record = {0, count_fields};
static const qb_field time_fields[] = {MAY(R, "int8", DOUBLE, time.int8),
                                       MAY(R, "fp16", DOUBLE, time.fp16),
                                       MAY(R, "bf16", DOUBLE, time.bf16),
                                       MAY(R, "fp32", DOUBLE, time.fp32),
                                       {0}};
static const qb_record time_record = {0, time_fields};
static const qb_field paired_fields[] = {
    MAY(R, "both_right", INT64, paired.both),       MAY(R, "lost", INT64, paired.lost),
    MAY(R, "gained", INT64, paired.gained),         MAY(R, "both_wrong", INT64, paired.neither),
    MAY(R, "mcnemar_p", DOUBLE, paired.p_value),    MAY(R, "drop_low", DOUBLE, paired.drop_ci.lo),
    MAY(R, "drop_high", DOUBLE, paired.drop_ci.hi), {0}};
static const qb_record paired_record = {0, paired_fields};

static const qb_field row_fields[] = {
    FIELD(R, "precision", TEXT, precision),
    FIELD(R, "backend", TEXT, backend),
    FIELD(R, "calibration", TEXT, calibration),
    FIELD(R, "top1", DOUBLE, top1),
    FIELD(R, "top5", DOUBLE, top5),
    FIELD(R, "agreement_top1", DOUBLE, agreement_top1),
    FIELD(R, "sqnr_db", LEVEL, sqnr_db),
    FIELD(R, "drop", DOUBLE, drop),
    FIELD(R, "speedup", DOUBLE, speedup),
    FIELD(R, "speedup_minima", SCORE, speedup_minima),
    MAY(R, "plan", TEXT, plan),
    MAY(R, "scheme", TEXT, scheme),
    MAY(R, "suggestion", TEXT, suggestion),
    FIELD(R, "throughput", DOUBLE, throughput),
    FIELD(R, "batch", INT64, batch),
    FIELD(R, "weights_bytes", INT64, weights_bytes),
    FIELD(R, "arena_bytes", INT64, arena_bytes),
    FIELD(R, "engine_bytes", INT64, engine_bytes),
    {.key = "latency_ms", .type = QB_FIELD_OBJECT, .record = &latency_record},
    {.key = "layers", .type = QB_FIELD_OBJECT, .record = &count_record},
    {.key = "time", .type = QB_FIELD_OBJECT, .record = &time_record},
    {.key = "paired", .type = QB_FIELD_OBJECT, .record = &paired_record},
    LIST(R, "metrics", metric, n_metrics, metric_record),
    {.key = "precision_recall",
     .type = QB_FIELD_DOUBLES,
     .offset = offsetof(R, curve),
     .count = offsetof(R, n_curve),
     .most = ITEMS_MAX,
     .optional = true},
    LIST(R, "per_class", per_class, n_per_class, class_score_record),
    LIST(R, "recall", recall, n_recall, recall_record),
    LIST(R, "confusion", confusion, n_confusion, confusion_record),
    LIST(R, "worst", worst, n_worst, worst_record),
    LIST(R, "layer_errors", layer, n_layers, layer_record),
    LIST(R, "steps", step, n_steps, step_record),
    LIST(R, "batches", batches, n_batches, batch_record),
    {0}};
static const qb_record row_record = {sizeof(R), row_fields};
#undef R

#define R qb_run_class
static const qb_field class_fields[] = {
    FIELD(R, "index", INT32, index), FIELD(R, "name", TEXT, name), {0}};
static const qb_record class_record = {sizeof(R), class_fields};
#undef R

#define R qb_run_shown
static const qb_field shown_fields[] = {FIELD(R, "index", INT64, index),
                                        FIELD(R, "label", CLASS, label),
                                        FIELD(R, "name", TEXT, name),
                                        FIELD(R, "thumbnail", TEXT, thumbnail),
                                        MAY(R, "width", INT32, width),
                                        MAY(R, "height", INT32, height),
                                        {0}};
static const qb_record shown_record = {sizeof(R), shown_fields};
#undef R

#define R qb_run_warning
static const qb_field warning_fields[] = {FIELD(R, "name", TEXT, name),
                                          MAY(R, "touches", TEXT, touches),
                                          MAY(R, "row", TEXT, row),
                                          FIELD(R, "text", TEXT, text),
                                          {0}};
static const qb_record warning_record = {sizeof(R), warning_fields};
#undef R

#define R qb_run
static const qb_field model_fields[] = {
    FIELD(R, "name", TEXT, model), FIELD(R, "hash", HASH, model_hash), {0}};
static const qb_record model_record = {0, model_fields};
static const qb_field dataset_fields[] = {FIELD(R, "path", TEXT, dataset),
                                          FIELD(R, "hash", HASH, data_hash),
                                          FIELD(R, "samples", INT64, samples),
                                          FIELD(R, "skipped", INT64, skipped),
                                          MAY(R, "decoder", TEXT, decoder),
                                          MAY(R, "part", TEXT, part),
                                          {0}};
static const qb_record dataset_record = {0, dataset_fields};
static const qb_field environment_fields[] = {FIELD(R, "qbench", TEXT, version),
                                              FIELD(R, "cpu", TEXT, cpu),
                                              FIELD(R, "os", TEXT, host_os),
                                              FIELD(R, "libraries", TEXT, libraries),
                                              FIELD(R, "threads", INT32, threads),
                                              MAY(R, "f32_gops", DOUBLE, ceilings.f32_gops),
                                              MAY(R, "s8_gops", DOUBLE, ceilings.s8_gops),
                                              MAY(R, "memory_gbs", DOUBLE, ceilings.memory_gbs),
                                              {0}};
static const qb_record environment_record = {0, environment_fields};
static const qb_field disturbance_fields[] = {
    MAY(R, "waited", DOUBLE, disturbance.waited),
    MAY(R, "stolen", DOUBLE, disturbance.stolen),
    MAY(R, "minima_spread", DOUBLE, disturbance.minima),
    MAY(R, "control_low", DOUBLE, disturbance.control.lo),
    MAY(R, "control_high", DOUBLE, disturbance.control.hi),
    {0}};
static const qb_record disturbance_record = {0, disturbance_fields};
static const qb_field run_fields[] = {
    MAY(R, "task", TEXT, task),
    MAY(R, "made", TEXT, made),
    MAY(R, "command", TEXT, command),
    MAY(R, "calibrated_on", TEXT, calibrated_on),
    MAY(R, "calibration_samples", INT64, calibration_samples),
    {.key = "model", .type = QB_FIELD_OBJECT, .record = &model_record},
    {.key = "dataset", .type = QB_FIELD_OBJECT, .record = &dataset_record},
    {.key = "environment", .type = QB_FIELD_OBJECT, .record = &environment_record},
    {.key = "disturbance", .type = QB_FIELD_OBJECT, .record = &disturbance_record},
    LIST(R, "warnings", warning, n_warnings, warning_record),
    LIST(R, "classes", class_name, n_classes, class_record),
    LIST(R, "samples", shown, n_shown, shown_record),
    {.key = "rows",
     .type = QB_FIELD_LIST,
     .offset = offsetof(R, row),
     .record = &row_record,
     .count = offsetof(R, n_rows),
     .least = 1,
     .most = ROWS_MAX},
    {0}};
static const qb_record run_record = {sizeof(R), run_fields};
#undef R

/* ---- the structure ---- */

qb_status qb_run_create(qb_ctx *cx, int32_t n_rows, qb_run **out) {
    qb_run *run = qb_alloc(cx, 1, sizeof *run);
    if (!run) return cx->code;
    run->row = qb_alloc(cx, (size_t)n_rows, sizeof *run->row);
    if (!run->row) {
        qb_free(run);
        return cx->code;
    }
    run->n_rows = n_rows;
    run->ceilings = (qb_ceilings){NAN, NAN, NAN};
    run->disturbance = (qb_disturbance){NAN, NAN, NAN, {NAN, NAN}};
    for (int32_t i = 0; i < n_rows; i++) {
        run->row[i].paired = (qb_paired){.p_value = NAN, .drop_ci = {NAN, NAN}};
        run->row[i].speedup_minima = NAN;
        run->row[i].time = (qb_time_shares){NAN, NAN, NAN, NAN};
        run->row[i].latency.median_ci = run->row[i].latency.ratio_ci = (qb_interval){NAN, NAN};
    }
    *out = run;
    return QB_OK;
}

qb_status qb_run_clean(qb_ctx *cx, qb_run *run) { return qb_record_clean(cx, &run_record, run); }

void qb_run_free(qb_run *run) {
    if (!run) return;
    qb_record_release(&run_record, run);
    qb_free(run);
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
            json_t *value = isfinite(m->value) ? json_real(m->value) : json_null();
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
    char *text;
    QB_TRY_WRAP(cx, qb_run_json(cx, run, &text), "%s", path);
    qb_status status = qb_file_write(cx, path, text, strlen(text));
    qb_free(text);
    return status;
}

/* What the tables cannot say: indices from one list into another, and that pages repeat the name of
 * a row, which is that of a file at most, many times. */
static qb_status check_rows(qb_ctx *cx, const char *name, const qb_run *run) {
    for (int32_t r = 0; r < run->n_rows; r++)
        if (strlen(run->row[r].precision) > NAME_MAX_ESCAPED)
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "%s: rows[%d]: precision: expected at most %d bytes, got %zu", name,
                           (int)r, NAME_MAX_ESCAPED, strlen(run->row[r].precision));
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_worst; i++)
            if (run->row[r].worst[i].shown >= run->n_shown)
                return qb_fail(cx, QB_STATUS_FORMAT, "%s: worst: sample: expected below %d, got %d",
                               name, run->n_shown, run->row[r].worst[i].shown);
    return QB_OK;
}

static qb_status read_root(qb_ctx *cx, const char *name, const json_t *root, qb_run **out) {
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: schema: expected %s, got %s", name, SCHEMA,
                       schema ? schema : "none");
    qb_run *run = qb_alloc(cx, 1, sizeof *run);
    if (!run) return cx->code;
    qb_status status = qb_record_read(cx, name, root, &run_record, run);
    if (status == QB_OK) status = check_rows(cx, name, run);
    if (status == QB_OK) status = qb_warnings_derive(cx, run);
    if (status == QB_OK)
        *out = run;
    else
        qb_run_free(run);
    return status;
}

qb_status qb_run_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_run **out) {
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s:%d:%d: %s", name, error.line, error.column,
                       error.text);
    qb_status status = read_root(cx, name, root, out);
    json_decref(root);
    return status;
}

qb_status qb_run_load(qb_ctx *cx, const char *path, qb_run **out) {
    char *text;
    size_t size;
    QB_TRY(qb_file_read(cx, path, JSON_MAX, &text, &size));
    qb_status status = qb_run_parse(cx, path, text, size, out);
    qb_free(text);
    return status;
}

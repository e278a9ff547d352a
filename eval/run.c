/* The run record as JSON (jansson), both ways. */
#include "eval/run.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define SCHEMA "qbench.compare/1"
#define ROWS_MAX 256
#define JSON_MAX ((size_t)16 << 20)

qb_status qb_run_create(qb_ctx *cx, int32_t n_rows, qb_run **out) {
    qb_run *run = qb_alloc(cx, 1, sizeof *run);
    if (!run) return cx->code;
    run->row = qb_alloc(cx, (size_t)n_rows, sizeof *run->row);
    if (!run->row) {
        qb_free(run);
        return cx->code;
    }
    run->n_rows = n_rows;
    *out = run;
    return QB_OK;
}

void qb_run_free(qb_run *run) {
    if (!run) return;
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_free(run->row[i].precision);
        qb_free(run->row[i].backend);
        qb_free(run->row[i].calibration);
    }
    qb_free(run->row);
    qb_free(run->model);
    qb_free(run->dataset);
    qb_free(run->version);
    qb_free(run->cpu);
    qb_free(run->host_os);
    qb_free(run->libraries);
    qb_free(run);
}

/* Numbers of a row and of its latency by JSON key: writing and reading use the same tables. */
typedef struct field {
    const char *key;
    size_t offset;
    enum { F_DOUBLE, F_LEVEL, F_INT64, F_INT32 } type; /* a level in dB may be infinite */
} field;

static const field row_fields[] = {
    {"top1", offsetof(qb_run_row, top1), F_DOUBLE},
    {"top5", offsetof(qb_run_row, top5), F_DOUBLE},
    {"agreement_top1", offsetof(qb_run_row, agreement_top1), F_DOUBLE},
    {"sqnr_db", offsetof(qb_run_row, sqnr_db), F_LEVEL},
    {"drop", offsetof(qb_run_row, drop), F_DOUBLE},
    {"speedup", offsetof(qb_run_row, speedup), F_DOUBLE},
    {"throughput", offsetof(qb_run_row, throughput), F_DOUBLE},
    {"batch", offsetof(qb_run_row, batch), F_INT64},
    {"weights_bytes", offsetof(qb_run_row, weights_bytes), F_INT64},
    {"arena_bytes", offsetof(qb_run_row, arena_bytes), F_INT64},
    {"engine_bytes", offsetof(qb_run_row, engine_bytes), F_INT64},
};
static const field latency_fields[] = {
    {"runs", offsetof(qb_latency, runs), F_INT64},
    {"mean", offsetof(qb_latency, mean), F_DOUBLE},
    {"median", offsetof(qb_latency, median), F_DOUBLE},
    {"p90", offsetof(qb_latency, p90), F_DOUBLE},
    {"p95", offsetof(qb_latency, p95), F_DOUBLE},
    {"p99", offsetof(qb_latency, p99), F_DOUBLE},
    {"min", offsetof(qb_latency, min), F_DOUBLE},
    {"max", offsetof(qb_latency, max), F_DOUBLE},
    {"cv", offsetof(qb_latency, cv), F_DOUBLE},
};
static const field layer_fields[] = {
    {"int8", offsetof(qb_run_row, layers_int8), F_INT32},
    {"fp16", offsetof(qb_run_row, layers_fp16), F_INT32},
    {"fp32", offsetof(qb_run_row, layers_fp32), F_INT32},
};
static const field dataset_fields[] = {
    {"samples", offsetof(qb_run, samples), F_INT64},
    {"skipped", offsetof(qb_run, skipped), F_INT64},
};
static const field environment_fields[] = {{"threads", offsetof(qb_run, threads), F_INT32}};
#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* JSON has no infinities: "inf" as a string; what was not measured is null. */
static json_t *number(double value) {
    if (isnan(value)) return json_null();
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}

static void write_fields(json_t *object, const void *base, const field *table, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)base + table[i].offset;
        json_t *value = NULL;
        switch (table[i].type) {
        case F_DOUBLE:
        case F_LEVEL: value = number(*(const double *)(const void *)at); break;
        case F_INT64: value = json_integer(*(const int64_t *)(const void *)at); break;
        case F_INT32: value = json_integer(*(const int32_t *)(const void *)at); break;
        }
        json_object_set_new(object, table[i].key, value);
    }
}

static json_t *row_json(const qb_run_row *row) {
    json_t *object = json_object(), *latency = json_object(), *layers = json_object();
    json_object_set_new(object, "precision", json_string(row->precision));
    json_object_set_new(object, "backend", json_string(row->backend));
    json_object_set_new(object, "calibration", json_string(row->calibration));
    write_fields(object, row, row_fields, COUNT(row_fields));
    write_fields(latency, &row->latency, latency_fields, COUNT(latency_fields));
    write_fields(layers, row, layer_fields, COUNT(layer_fields));
    json_object_set_new(object, "latency_ms", latency);
    json_object_set_new(object, "layers", layers);
    return object;
}

/* The record as a JSON value; NULL when memory runs out or a text is missing or is not UTF-8. */
static json_t *run_json(const qb_run *run) {
    char model_hash[33], data_hash[33];
    qb_hash_hex(run->model_hash, model_hash);
    qb_hash_hex(run->data_hash, data_hash);
    json_t *rows = json_array();
    for (int32_t i = 0; i < run->n_rows; i++) json_array_append_new(rows, row_json(&run->row[i]));
    json_t *dataset = json_pack("{s:s, s:s}", "path", run->dataset, "hash", data_hash);
    json_t *environment = json_pack("{s:s, s:s, s:s, s:s}", "qbench", run->version, "cpu", run->cpu,
                                    "os", run->host_os, "libraries", run->libraries);
    write_fields(dataset, run, dataset_fields, COUNT(dataset_fields));
    write_fields(environment, run, environment_fields, COUNT(environment_fields));
    return json_pack("{s:s, s:{s:s, s:s}, s:o, s:o, s:o}", "schema", SCHEMA, "model", "name",
                     run->model, "hash", model_hash, "dataset", dataset, "environment", environment,
                     "rows", rows);
}

qb_status qb_run_json(qb_ctx *cx, const qb_run *run, char **out) {
    json_t *root = run_json(run);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
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

/* ---- reading ---- */

typedef struct reader {
    qb_ctx *cx;
    const char *path;
} reader;

static qb_status bad(const reader *r, const char *where, const char *expected) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: %s: expected %s", r->path, where, expected);
}

static qb_status read_text(const reader *r, const json_t *object, const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return bad(r, key, "a string");
    /* Texts go to terminals and into plots as they are. */
    for (const char *c = json_string_value(value); *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return bad(r, key, "a string without control characters");
    *out = qb_strdup(r->cx, json_string_value(value));
    return *out ? QB_OK : r->cx->code;
}

static qb_status read_double(const reader *r, const json_t *value, const field *f, double *out) {
    const char *text = f->type == F_LEVEL ? json_string_value(value) : NULL;
    if (json_is_null(value))
        *out = NAN;
    else if (json_is_number(value))
        *out = json_number_value(value);
    else if (text && strcmp(text, "inf") == 0)
        *out = INFINITY;
    else if (text && strcmp(text, "-inf") == 0)
        *out = -INFINITY;
    else
        return bad(r, f->key,
                   f->type == F_LEVEL ? "a number, null, \"inf\" or \"-inf\"" : "a number or null");
    return QB_OK;
}

static qb_status read_fields(const reader *r, const json_t *object, void *base, const field *table,
                             size_t n) {
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, table[i].key);
        void *at = (char *)base + table[i].offset;
        if (table[i].type == F_DOUBLE || table[i].type == F_LEVEL) {
            QB_TRY(read_double(r, value, &table[i], at));
            continue;
        }
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return bad(r, table[i].key, "an integer, 0 or more");
        json_int_t number_read = json_integer_value(value);
        if (table[i].type == F_INT64)
            *(int64_t *)at = number_read;
        else if (number_read > INT32_MAX)
            return bad(r, table[i].key, "an integer of 31 bits");
        else
            *(int32_t *)at = (int32_t)number_read;
    }
    return QB_OK;
}

static qb_status read_row(const reader *r, const json_t *object, qb_run_row *row) {
    QB_TRY(read_text(r, object, "precision", &row->precision));
    QB_TRY(read_text(r, object, "backend", &row->backend));
    QB_TRY(read_text(r, object, "calibration", &row->calibration));
    QB_TRY(read_fields(r, object, row, row_fields, COUNT(row_fields)));
    QB_TRY(read_fields(r, json_object_get(object, "latency_ms"), &row->latency, latency_fields,
                       COUNT(latency_fields)));
    return read_fields(r, json_object_get(object, "layers"), row, layer_fields,
                       COUNT(layer_fields));
}

static qb_status read_hash(const reader *r, const json_t *object, qb_hash *out) {
    const char *text = json_string_value(json_object_get(object, "hash"));
    if (!text || !qb_hash_parse(text, out)) return bad(r, "hash", "32 hexadecimal digits");
    return QB_OK;
}

static qb_status read_head(const reader *r, const json_t *root, qb_run *run) {
    const json_t *model = json_object_get(root, "model"), *data = json_object_get(root, "dataset"),
                 *environment = json_object_get(root, "environment");
    QB_TRY(read_text(r, model, "name", &run->model));
    QB_TRY(read_hash(r, model, &run->model_hash));
    QB_TRY(read_text(r, data, "path", &run->dataset));
    QB_TRY(read_hash(r, data, &run->data_hash));
    QB_TRY(read_fields(r, data, run, dataset_fields, COUNT(dataset_fields)));
    QB_TRY(read_fields(r, environment, run, environment_fields, COUNT(environment_fields)));
    QB_TRY(read_text(r, environment, "qbench", &run->version));
    QB_TRY(read_text(r, environment, "cpu", &run->cpu));
    QB_TRY(read_text(r, environment, "os", &run->host_os));
    return read_text(r, environment, "libraries", &run->libraries);
}

static qb_status read_root(const reader *r, const json_t *root, qb_run **out) {
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: schema: expected %s, got %s", r->path, SCHEMA,
                       schema ? schema : "none");
    const json_t *rows = json_object_get(root, "rows");
    size_t n = json_array_size(rows);
    if (n < 1 || n > ROWS_MAX) return bad(r, "rows", "a list of 1 to 256 rows");
    qb_run *run;
    QB_TRY(qb_run_create(r->cx, (int32_t)n, &run));
    qb_status status = read_head(r, root, run);
    for (size_t i = 0; i < n && status == QB_OK; i++)
        status = read_row(r, json_array_get(rows, i), &run->row[i]);
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
    const reader r = {cx, name};
    qb_status status = read_root(&r, root, out);
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

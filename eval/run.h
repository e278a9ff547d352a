/* The run record: what a comparison measured, on what, with which engines. Written as compare.json
 * (schema "qbench.compare/1"), read back by the gate and the reports; neither needs the model. */
#ifndef QB_EVAL_RUN_H
#define QB_EVAL_RUN_H

#include <stdint.h>

#include "base/hash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds a run (one batch), after warm-up. Percentile p of n sorted samples is element
 * max(n - 1 - floor((100 - p) n / 100), 0), no interpolation; the median of an even n is the mean
 * of the two middle ones. cv is standard deviation over mean. */
typedef struct qb_latency {
    int64_t runs;
    double mean, median, p90, p95, p99, min, max, cv;
} qb_latency;

/* Values that could not be measured are NaN (null in JSON), for example top-1 without labels. */
typedef struct qb_run_row {
    char *precision;       /* "fp32", "int8", "int8:percentile:99.99" */
    char *backend;         /* "cpu" */
    char *calibration;     /* method for integer engines, else "" */
    double top1, top5;     /* percent */
    double agreement_top1; /* percent of samples with the first row's top-1 class */
    double sqnr_db;        /* against the first row, over all samples; +inf when equal */
    double drop;           /* top-1 of the first row minus this one, points */
    double speedup;        /* first row's median latency over this one's */
    qb_latency latency;
    double throughput; /* items a second: batch / mean latency */
    int64_t batch;
    int64_t weights_bytes, arena_bytes, engine_bytes;
    int32_t layers_int8, layers_fp16, layers_fp32;
} qb_run_row;

typedef struct qb_run {
    char *model, *dataset; /* names as given */
    int64_t samples, skipped;
    qb_hash model_hash, data_hash;
    /* Environment. */
    char *version, *cpu, *host_os;
    int32_t threads;
    char *libraries; /* "oneDNN 2.6.3, ..." */
    int32_t n_rows;
    qb_run_row *row;
} qb_run;

qb_status qb_run_create(qb_ctx *cx, int32_t n_rows, qb_run **out);
void qb_run_free(qb_run *run); /* accepts NULL */
qb_status qb_run_save(qb_ctx *cx, const qb_run *run, const char *path);
/* Checks the schema, types and bounds; errors name the file and the field. */
qb_status qb_run_load(qb_ctx *cx, const char *path, qb_run **out);
/* The same from memory; `name` for messages. */
qb_status qb_run_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_run **out);
/* The JSON text, new memory. */
qb_status qb_run_json(qb_ctx *cx, const qb_run *run, char **out);

#ifdef __cplusplus
}
#endif
#endif

/* What bench prints and exports: trtexec's lines, with the batch's items counted as well. */
#ifndef QB_CLI_BENCH_REPORT_H
#define QB_CLI_BENCH_REPORT_H

#include <jansson.h>

#include "eval/bench.h"

#define QB_BENCH_PERCENTILES 16

/* How one time is distributed over the queries, in milliseconds. */
typedef struct qb_bench_spread {
    double min, max, mean, median, cv, sum;
    double percentile[QB_BENCH_PERCENTILES];
} qb_bench_spread;

/* Parts of a query on a device, as trtexec names them. */
typedef enum qb_bench_part {
    QB_BENCH_ENQUEUE,
    QB_BENCH_H2D,
    QB_BENCH_COMPUTE,
    QB_BENCH_D2H,
    QB_BENCH_PARTS
} qb_bench_part;

typedef struct qb_bench_summary {
    double throughput;  /* queries a second over the wall time */
    double items_per_s; /* the same times the items of a batch */
    double wall_ms;
    qb_bench_spread latency;
    qb_bench_spread part[QB_BENCH_PARTS]; /* zeros for an engine of the host */
    double percent[QB_BENCH_PERCENTILES];
    int32_t n_percentiles;
} qb_bench_summary;

/* "90,95,99.9" into out->percent. */
qb_status qb_bench_percents(qb_ctx *cx, const char *text, qb_bench_summary *out);
/* Fills what `percent` does not say. `batch`: items of a query. */
qb_status qb_bench_summarize(qb_ctx *cx, const qb_bench *bench, int64_t batch,
                             qb_bench_summary *out);
/* Averages of `every` queries at a time, then the summary, then warnings, all to stdout. */
void qb_bench_print(const qb_bench *bench, const qb_bench_summary *s, int64_t every,
                    int32_t streams);
/* New references; NULL when memory runs out. */
json_t *qb_bench_summary_json(const qb_bench *bench, const qb_bench_summary *s);
json_t *qb_bench_times_json(const qb_bench *bench);
json_t *qb_bench_layers_json(const qb_engine *engine);

/* One row a step: mean and median over `runs` and its share of the whole.
 * `seconds` as from qb_bench_profile; it is sorted within each step. */
json_t *qb_bench_profile_json(const qb_engine *engine, double *seconds, int64_t runs);
void qb_bench_profile_print(json_t *profile);

#endif

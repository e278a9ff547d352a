/* What bench prints and exports: trtexec's lines, with the batch's items counted as well. */
#ifndef QB_CLI_BENCH_REPORT_H
#define QB_CLI_BENCH_REPORT_H

#include <jansson.h>
#include <stdio.h>

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
typedef struct qb_bench_said {
    double warmup_ms; /* of each stream */
    int64_t every;    /* queries of one line of the trace; 0: no trace */
    int32_t streams;  /* over all devices */
} qb_bench_said;

/* Where it runs and what a context takes there. */
qb_status qb_bench_print_engine(qb_ctx *cx, const qb_engine *engine);
/* Averages of some queries at a time, then the summary, then warnings. */
void qb_bench_print(FILE *to, const qb_bench *bench, const qb_bench_summary *s,
                    const qb_bench_said *said);
/* New references; NULL when memory runs out. */
json_t *qb_bench_summary_json(const qb_bench *bench, const qb_bench_summary *s);
json_t *qb_bench_times_json(const qb_bench *bench);
json_t *qb_bench_layers_json(const qb_engine *engine);

/* One row a step: mean and median over the runs and its share of the whole; its seconds are sorted.
 * Steps that are timed one by one take longer than a run: on the host they are scaled so that their
 * medians add up to `median_ms`, a run's (NaN: they are not). The first row says what was measured
 * before it was scaled. */
json_t *qb_bench_profile_json(const qb_engine *engine, qb_bench_steps *steps, double median_ms);
void qb_bench_profile_print(json_t *profile);

#endif

/* Speed of one engine by itself, as trtexec measures it: streams of queries for a while. */
#ifndef QB_EVAL_BENCH_H
#define QB_EVAL_BENCH_H

#include "engine/engine.h"

typedef struct qb_bench_options {
    int32_t streams;                /* execution contexts, each on a thread of its own; 0: 1 */
    const qb_engine *const *others; /* the same on other devices, each with as many streams */
    int32_t n_others;
    double warmup_ms;  /* each stream runs this long before anything counts */
    double duration_s; /* queries start for this long (negative: until cancelled) ... */
    int64_t min_runs;  /* ... and until a stream has done this many */
    double idle_ms;    /* pause between a stream's queries */
    bool no_transfers; /* on a device: inputs and outputs stay there */
} qb_bench_options;

/* One run of a batch. Times are milliseconds since the first query that counts began. */
typedef struct qb_query {
    int32_t stream;
    double start_ms, end_ms;
    qb_run_times device; /* zeros for an engine of the host */
} qb_query;

typedef struct qb_bench {
    qb_query *query; /* by stream, then by time */
    int64_t n;
    int64_t warmup_queries; /* over all streams */
    double wall_ms;         /* from the first start to the last end */
    bool on_device;
} qb_bench;

/* Measures. `inputs` are one host buffer an input, shared by all streams; outputs are computed and
 * dropped. A cancelled measurement ends early and keeps what it has, unless it has nothing. */
qb_status qb_bench_run(qb_ctx *cx, const qb_engine *engine, const void *const *inputs,
                       const qb_bench_options *options, qb_bench *out);
void qb_bench_release(qb_bench *bench);

typedef struct qb_bench_steps {
    int64_t runs;
    double *seconds;      /* [step * runs + run] */
    qb_profile_raw raw;   /* sums over the runs */
    double *late;         /* [runs] seconds of nodes behind the steps; 0 where there are none */
    int32_t late_engines; /* in which such nodes ran in the last run */
} qb_bench_steps;
/* Times every step in `runs` runs by themselves. */
qb_status qb_bench_profile(qb_ctx *cx, const qb_engine *engine, const void *const *inputs,
                           int64_t runs, qb_bench_steps *out);
void qb_bench_steps_release(qb_bench_steps *steps);

/* "AMD EPYC" as the system names it, else "unknown processor". New memory. */
char *qb_processor_name(qb_ctx *cx);

/* One buffer an output of the engine; NULL with an error when memory runs out. */
void **qb_outputs_new(qb_ctx *cx, const qb_engine *engine);
void qb_outputs_free(const qb_engine *engine, void **outputs); /* accepts NULL */

/* Element max(n - 1 - floor((100 - percent) n / 100), 0) of n sorted values, as trtexec counts. */
double qb_percentile(const double *sorted, int64_t n, double percent);
/* The mean of the two middle ones of n sorted values. */
double qb_median(const double *sorted, int64_t n);
#endif

/* When each kernel began and ended, as NVIDIA's CUPTI records it: the only clock that sees gaps
 * between kernels without marks of its own between them. The library is opened when it is asked
 * for. */
#ifndef QB_PERF_CUDA_TRACE_H
#define QB_PERF_CUDA_TRACE_H

#include <jansson.h>

#include "base/ctx.h"

/* Medians over the runs traced, in milliseconds. */
typedef struct bench_trace {
    int kernels;       /* of a run: kernels, copies, fills */
    double span;       /* from the first begin to the last end */
    double busy;       /* of it some kernel ran */
    double sum;        /* of the kernels' times, which may overlap */
    double idle;       /* (span - busy) / span */
    double idle_worst; /* the same of the worst run */
} bench_trace;

/* From here on kernels are recorded; UNSUPPORTED without the library. */
qb_status bench_trace_begin(qb_ctx *cx);
/* What was recorded up to here does not count. */
void bench_trace_forget(void);
/* No more is recorded; what was is `runs` runs of the same kernels, the first of which warms up. */
qb_status bench_trace_end(qb_ctx *cx, int runs, bench_trace *out);
json_t *bench_trace_json(const bench_trace *trace);

#endif

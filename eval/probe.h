/* Inputs to measure speed with: one sample of the data, repeated to a batch. */
#ifndef QB_EVAL_PROBE_H
#define QB_EVAL_PROBE_H

#include "datasets/loader.h"
#include "graph/graph.h"

typedef struct qb_probe {
    int32_t n;
    qb_shape *shape; /* [n], one an input */
    void **data;     /* [n], row-major */
} qb_probe;

/* The first readable sample, `batch` times along the first axis of every input whose batch the
 * graph leaves open and the sample has as 1. */
qb_status qb_probe_load(qb_ctx *cx, const qb_graph *graph, const qb_loader_options *loader,
                        int64_t batch, qb_probe *out);
/* Can some input have this batch? QB_STATUS_INVALID where all of them are fixed. */
qb_status qb_probe_check(qb_ctx *cx, const qb_graph *graph, int64_t batch);
void qb_probe_release(qb_probe *probe); /* accepts zeroed */
#endif

/* Threads that share what one loader delivers: the loop of everything that goes over a data set. */
#ifndef QB_STREAM_WORKERS_H
#define QB_STREAM_WORKERS_H

#include "datasets/loader.h"

/* Sample i of a batch, by worker 0 .. workers - 1; calls with the same number never overlap.
 * Several threads call it, in no particular order of samples. */
typedef qb_status (*qb_worker_fn)(qb_ctx *cx, void *user, int32_t worker, const qb_batch *batch,
                                  int32_t i);
/* Called while no sample is under way: everything before progress->next has been through `sample`,
 * nothing else has. */
typedef qb_status (*qb_pause_fn)(qb_ctx *cx, void *user, const qb_loader_progress *progress);

typedef struct qb_stream_workers_options {
    const qb_loader_options *loader;
    int32_t workers;     /* >= 1 */
    const char *label;   /* of the progress bar */
    qb_worker_fn sample; /* its errors are told with the sample's name */
    qb_pause_fn pause;   /* may be NULL */
    double pause_s;      /* seconds between its calls */
    void *user;
} qb_stream_workers_options;

/* What a run over a data set came to. */
typedef struct qb_stream_result {
    int64_t samples, skipped, blank; /* blank: see qb_loader_progress */
    qb_hash data_hash, data_sum;     /* see qb_loader_hash; the sum behind it */
} qb_stream_result;

/* Every sample through `sample` once. The first error of any worker stops all and is returned. */
qb_status qb_stream_workers_run(qb_ctx *cx, const qb_stream_workers_options *options,
                                qb_stream_result *out);
#endif

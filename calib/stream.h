/* Streaming a dataset through engines: several workers, each with its own contexts, one sample at a
 * time. Shared by calibration and evaluation.
 *
 * Every sample runs alone (batch 1) on one thread, so what an engine answers for it does not depend
 * on batch size, worker count or the samples around it. */
#ifndef QB_CALIB_STREAM_H
#define QB_CALIB_STREAM_H

#include "datasets/loader.h"
#include "engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_stream_sample {
    int32_t worker;             /* 0 .. workers - 1; calls with the same number never overlap */
    int64_t index;              /* in the dataset */
    int32_t label;              /* -1 unknown */
    const float *input;         /* channels x height x width */
    qb_context *const *context; /* this worker's, one an engine */
} qb_stream_sample;

/* Called once a sample, from several threads, in no particular order. */
typedef qb_status (*qb_sample_fn)(qb_ctx *cx, void *user, const qb_stream_sample *sample);

typedef struct qb_stream_options {
    const qb_engine *const *engine; /* built for batch 1 and one thread */
    int32_t n_engines;
    const qb_loader_options *loader;
    int32_t workers;   /* >= 1 */
    const char *label; /* of the progress bar */
    qb_sample_fn sample;
    void *user;
} qb_stream_options;

typedef struct qb_stream_result {
    int64_t samples, skipped;
    qb_hash data_hash; /* see qb_loader_hash */
} qb_stream_result;

/* The first error of any worker stops all and is returned. */
qb_status qb_stream(qb_ctx *cx, const qb_stream_options *options, qb_stream_result *out);

#ifdef __cplusplus
}
#endif
#endif

/* Streaming a dataset through engines: several workers, each with its own contexts, one sample at a
 * time. Shared by calibration and evaluation.
 *
 * Every sample runs alone on one thread, at its own shape, so what an engine answers for it does
 * not depend on batch size, worker count or the samples around it. */
#ifndef QB_STREAM_STREAM_H
#define QB_STREAM_STREAM_H

#include "engine/devices.h"
#include "stream/workers.h"

/* What to run: an engine of one thread is built for each combination of input shapes. On several
 * devices it is built on the first and copied to the others, or built on each where
 * `spec.first_tactic` makes all builds the same; worker w runs on the device w modulo their number.
 */
typedef struct qb_stream_model {
    const qb_graph *graph;
    const char *file; /* an engine file, loaded instead of building from the graph: it takes samples
                         of its own shapes only. NULL: none */
    qb_build_spec spec; /* but for shapes and threads */
    qb_devices devices; /* for backends that begin with a device; none: spec.device */
    const char *name;   /* for messages: a precision; NULL: none */
} qb_stream_model;

typedef struct qb_stream_sample {
    int32_t worker;             /* 0 .. workers - 1; calls with the same number never overlap */
    int64_t index;              /* in the dataset */
    int32_t label;              /* -1 unknown */
    uint64_t key;               /* of its content, see qb_batch */
    const qb_tensor *input;     /* one a graph input */
    const void *const *inputs;  /* their data, as qb_context_run takes them */
    qb_engine *const *engine;   /* one a model, for this sample's shapes */
    qb_context *const *context; /* this worker's, one an engine */
} qb_stream_sample;

/* Called once a sample, from several threads, in no particular order. */
typedef qb_status (*qb_sample_fn)(qb_ctx *cx, void *user, const qb_stream_sample *sample);
typedef struct qb_stream_options {
    const qb_stream_model *model;
    int32_t n_models; /* the first one's inputs are what the loader gives */
    /* Engines already built for a batch of 1 and one thread, in place of models: they take samples
     * of their shapes only. */
    const qb_engine *const *engine;
    int32_t n_engines;
    const qb_loader_options *loader;
    int32_t workers;   /* >= 1 */
    const char *label; /* of the progress bar */
    qb_sample_fn sample;
    void *user;
    qb_pause_fn pause; /* may be NULL */
    double pause_s;    /* seconds between its calls */
} qb_stream_options;

/* The first error of any worker stops all and is returned. */
qb_status qb_stream(qb_ctx *cx, const qb_stream_options *options, qb_stream_result *out);
#endif

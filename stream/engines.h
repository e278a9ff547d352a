/* Engines by input shape: samples of one stream may have different sizes, and an engine is built
 * for one. A few engines are kept; the least recently used make room. */
#ifndef QB_STREAM_ENGINES_H
#define QB_STREAM_ENGINES_H

#include "engine/engine.h"

/* Most sets of engines that are kept, and bytes of theirs, unless more are in use at once. */
#define QB_ENGINES_SETS 8
#define QB_ENGINES_BYTES ((size_t)512 << 20)

/* The engines for one combination of shapes and each worker's execution contexts. */
typedef struct qb_engine_set {
    qb_shape *shape;      /* of the inputs */
    qb_engine **engine;   /* [devices x engines], see qb_engines_of */
    qb_context **context; /* [workers x engines], made when a worker first comes */
    size_t bytes;
    int32_t users;
    uint64_t used; /* when, as a count */
    bool ready;    /* otherwise somebody is building it */
    bool given;    /* the caller's engines */
} qb_engine_set;

/* Builds engine `e` for these input shapes, for the first device (`device` 0, `first` NULL); then
 * its equal for each of the others, or `first` itself where that serves them, too. */
typedef qb_status (*qb_engine_build_fn)(qb_ctx *cx, void *user, int32_t e, int32_t device,
                                        const qb_engine *first, const qb_shape *shape,
                                        qb_engine **out);

typedef struct qb_engines qb_engines;

typedef struct qb_engines_options {
    int32_t n_engines, n_inputs, workers;
    int32_t n_devices;             /* >= 1; worker w is for device w modulo their number */
    const qb_engine *const *given; /* engines for the only shapes there are, and of one device;
                                      NULL: they are built */
    qb_engine_build_fn build;      /* unless they are given */
    void *user;
} qb_engines_options;

qb_status qb_engines_create(qb_ctx *cx, const qb_engines_options *options, qb_engines **out);
void qb_engines_free(qb_engines *engines); /* accepts NULL; nothing may be in use */
/* The set for these inputs, built when it is not there; several threads may ask, each with its own
 * worker number. The worker's contexts are set->context[worker * n_engines ...]. */
qb_status qb_engines_acquire(qb_ctx *cx, qb_engines *engines, int32_t worker,
                             const qb_tensor *input, qb_engine_set **out);
void qb_engines_release(qb_engines *engines, qb_engine_set *set);
/* The engines that a worker runs, one a kind. */
qb_engine *const *qb_engines_of(const qb_engines *engines, const qb_engine_set *set,
                                int32_t worker);
#endif

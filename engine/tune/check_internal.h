/* Checking the steps of an engine against the reference before anybody uses it. */
#ifndef QB_ENGINE_TUNE_CHECK_INTERNAL_H
#define QB_ENGINE_TUNE_CHECK_INTERNAL_H

#include "engine/engine_internal.h"
#include "engine/timings.h"

/* A step whose kernel computes something else than kernels/ref does. */
typedef struct qb_wrong_step {
    char *value; /* that the step makes */
    char *text;  /* the tactic, where, and what was expected */
} qb_wrong_step;

/* All that were found in the candidates of a build. */
typedef struct qb_wrong_steps {
    qb_wrong_step *item;
    size_t n, capacity;
} qb_wrong_steps;
void qb_wrong_steps_free(qb_wrong_steps *wrong);

/* Runs steps, each on random data of its own, and holds a sample of what it makes
 * against kernels/ref: integers equal or within what the tactic states, floats within the bound of
 * their sums. A wrong tactic is added to `denied` with its problem (as one that does not take it)
 * and to `wrong`; *n counts those of this call. QB_STATUS_INTERNAL when a fused step's reference is
 * not what its nodes compute one by one (steps of the host): no other tactic would help. Steps that
 * the reference has no kernel for are left out. */
qb_status qb_check_engine(qb_ctx *cx, const qb_engine *engine, qb_timings *denied,
                          qb_wrong_steps *wrong, int32_t *n);

/* ---- check_device.c ---- */

/* Runs a step of the engine's device on inputs of the host, in the layouts that its kernel takes
 * (NULL: it reads packed constants, or none); `out` as large as the kernel's result. */
qb_status qb_check_launch(qb_ctx *cx, const qb_engine *engine, const qb_step *step,
                          const void *const *in, void *out);

/* ---- check_sample.c ---- */

/* A part of a step's problem that the reference computes, and where its results stand among all. */
typedef struct qb_check_sample {
    qb_problem problem; /* row-major */
    qb_desc in[QB_MAX_INPUTS];
    const void *data[QB_MAX_INPUTS];
    bool whole;             /* the results are all there are */
    int64_t first, run, of; /* result i is number first + i / run * of + i % run */
    void *own;              /* memory behind data */
} qb_check_sample;

/* Of a problem with row-major inputs; false where the reference has no kernel for it, or the least
 * part of it takes too long. `seed` chooses the part. The caller frees out->own. */
qb_status qb_check_sample_of(qb_ctx *cx, const qb_problem *row, const void *const *data,
                             uint64_t seed, qb_check_sample *out, bool *taken);
/* The reference's results, `out` being as large as problem.out says. */
qb_status qb_check_reference(qb_ctx *cx, const qb_check_sample *sample, void *out);
/* How far a float of the results may be from the reference's, for each of them; `half`: the step
 * rounds data or weights to so many bits behind the point. */
qb_status qb_check_bounds(qb_ctx *cx, const qb_check_sample *sample, const float *expected,
                          int bits, double *bound);

/* ---- check_fusion.c ---- */

/* Do the nodes of the group compute what the reference of its sample did? Texts say where not. */
qb_status qb_check_fusion(qb_ctx *cx, const qb_graph *graph, const qb_group *group,
                          const qb_check_sample *sample, const void *expected);

#endif

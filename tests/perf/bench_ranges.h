/* Engines for ranges of shapes of the zoo's models, and for one set of shapes beside them. All
 * inputs of a model have the same shape. */
#ifndef QB_BENCH_RANGES_H
#define QB_BENCH_RANGES_H

#include "bench_models.h"
#include "engine/profiles.h"

#define BENCH_INPUTS_MAX 3
#define BENCH_PROFILES_MAX 2

/* A shape for every input. */
typedef struct bench_shapes {
    qb_shape of[BENCH_INPUTS_MAX];
} bench_shapes;
bench_shapes bench_shapes_of(const qb_shape *shape);

typedef struct bench_range {
    qb_shape min, opt, max;
} bench_range;

/* A model of the zoo with open batch (and length), optimized; in INT8, or with open height and
 * width where that is asked for. */
qb_status bench_range_model(qb_ctx *cx, const char *name, bool int8, bool sides, qb_graph **out);
/* qb_engine_build with a profile for each range (at most BENCH_PROFILES_MAX), or for one shape. */
qb_status bench_build_ranges(qb_ctx *cx, const qb_graph *graph, const bench_range *ranges,
                             int32_t n, qb_build_spec options, qb_engine **out);
qb_status bench_build_at(qb_ctx *cx, const qb_graph *graph, const qb_shape *shape,
                         qb_build_spec options, qb_engine **out);
/* Turns the context to the shape and runs it on seeded inputs: bench_ports_new with the token
 * numbers drawn, too. A smaller batch has the first items of a larger one. */
qb_status bench_run_at(qb_ctx *cx, qb_context *context, const qb_shape *shape, bench_ports *ports);

#endif

/* What the measuring programs share: seeded inputs and models quantized on them. */
#ifndef QB_BENCH_MODELS_H
#define QB_BENCH_MODELS_H

#include "base/rng.h"
#include "engine/engine.h"

/* Standard normal floats; integers are zero. */
void bench_fill(qb_rng *rng, const qb_desc *desc, void *data);
/* New memory for each input of the engine, filled, and for each output; `seed` makes them. Free
 * with bench_ports_free. */
typedef struct bench_ports {
    int32_t n_in, n_out;
    void **in, **out;
} bench_ports;
qb_status bench_ports_new(qb_ctx *cx, const qb_engine *engine, uint64_t seed, bench_ports *ports);
void bench_ports_free(bench_ports *ports); /* accepts a zeroed one */
/* A model of the zoo with its usual number of tokens; only the batch is open. */
qb_status bench_zoo(qb_ctx *cx, const char *name, qb_graph **out);
/* The optimized graph in INT8, u8 affine, calibrated by min-max on seeded inputs. */
qb_status bench_quantize(qb_ctx *cx, const qb_graph *graph, qb_graph **out);

#endif

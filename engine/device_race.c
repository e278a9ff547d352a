/* Whole engines against each other on a device. */
#include <stdlib.h>

#include "base/hash.h"
#include "device_internal.h"
#include "timings.h"

enum { LAPS = 21 };

static int by_time(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static qb_status run_on_zeros(qb_ctx *cx, const qb_engine *e, qb_context *context) {
    qb_status status = QB_OK;
    void **inputs = qb_alloc(cx, (size_t)e->n_inputs, sizeof *inputs);
    void **outputs = qb_alloc(cx, (size_t)e->n_outputs, sizeof *outputs); /* none is wanted */
    if (!inputs || !outputs) QB_GO(cx->code);
    for (int32_t i = 0; i < e->n_inputs; i++) {
        inputs[i] = qb_alloc(cx, 1, qb_desc_bytes(&e->inputs[i].desc));
        if (!inputs[i]) QB_GO(cx->code);
    }
    QB_GO(qb_context_run(cx, context, (const void *const *)inputs, outputs));
out:
    for (int32_t i = 0; inputs && i < e->n_inputs; i++) qb_free(inputs[i]);
    qb_free(inputs);
    qb_free(outputs);
    return status;
}

static qb_status race(qb_ctx *cx, const qb_engine *engine, double *ms) {
    double lap[LAPS];
    qb_context *context;
    qb_status status = QB_OK;
    QB_TRY(qb_context_create(cx, engine, &context));
    QB_GO(run_on_zeros(cx, engine, context));
    QB_GO(qb_context_replay(cx, context, LAPS, lap)); /* warms up */
    QB_GO(qb_context_replay(cx, context, LAPS, lap));
    qsort(lap, LAPS, sizeof *lap, by_time);
    *ms = lap[LAPS / 2];
out:
    qb_context_free(context);
    return status;
}

/* Engines with the same steps take the same time. */
static qb_status key_of(qb_ctx *cx, const qb_engine *e, char key[33]) {
    qb_hasher *h;
    qb_status status = QB_OK;
    QB_TRY(qb_hasher_create(cx, &h));
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_kernel *kernel = e->steps[s].kernel;
        char *problem;
        qb_hasher_string(h, e->steps[s].op);
        qb_hasher_string(h, e->steps[s].tactic);
        if (!kernel) continue;
        QB_GO(qb_problem_key(cx, &kernel->problem, NULL, &problem));
        qb_hasher_string(h, problem);
        qb_free(problem);
    }
    qb_hash_hex(qb_hasher_digest(h), key);
out:
    qb_hasher_free(h);
    return status;
}

qb_status qb_device_race(qb_ctx *cx, const qb_engine *engine, qb_timings *timings, double *ms) {
    char key[33];
    qb_timing timing = {0};
    QB_TRY(key_of(cx, engine, key));
    if (!qb_timings_find(timings, "engine", key, &timing)) {
        QB_TRY(race(cx, engine, ms));
        timing.seconds = *ms * 1e-3;
        QB_TRY(qb_timings_add(cx, timings, "engine", key, &timing));
    }
    *ms = timing.seconds * 1e3;
    return QB_OK;
}

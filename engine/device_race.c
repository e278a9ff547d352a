/* Two whole engines against each other on a device. */
#include <stdlib.h>

#include "base/hash.h"
#include "device_internal.h"
#include "timings.h"

enum { ROUNDS = 21, LAPS = 3 };

static int by_time(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms, size_t n) {
    qsort(ms, n, sizeof *ms, by_time);
    return ms[n / 2];
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

/* By turns, so that what else goes on at a time meets both. */
static qb_status race(qb_ctx *cx, const qb_engine *const engine[2], double ms[2]) {
    double lap[LAPS], round[2][ROUNDS];
    qb_context *context[2] = {NULL, NULL};
    qb_status status = QB_OK;
    for (int e = 0; e < 2; e++) {
        QB_GO(qb_context_create(cx, engine[e], &context[e]));
        QB_GO(run_on_zeros(cx, engine[e], context[e]));
        QB_GO(qb_context_replay(cx, context[e], LAPS, lap)); /* warms up */
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int e = 0; e < 2; e++) {
            QB_GO(qb_context_replay(cx, context[e], LAPS, lap));
            round[e][r] = median(lap, LAPS);
        }
    for (int e = 0; e < 2; e++) ms[e] = median(round[e], ROUNDS);
out:
    for (int e = 0; e < 2; e++) qb_context_free(context[e]);
    return status;
}

static qb_status add_steps(qb_ctx *cx, const qb_engine *e, qb_hasher *h) {
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_kernel *kernel = e->steps[s].kernel;
        char *problem;
        qb_hasher_string(h, e->steps[s].op);
        qb_hasher_string(h, e->steps[s].tactic);
        if (!kernel) continue;
        QB_TRY(qb_problem_key(cx, &kernel->problem, NULL, &problem));
        qb_hasher_string(h, problem);
        qb_free(problem);
    }
    return QB_OK;
}

/* Engines with the same steps take the same time against each other. */
static qb_status key_of(qb_ctx *cx, const qb_engine *const engine[2], char key[33]) {
    qb_hasher *h;
    qb_status status = QB_OK;
    QB_TRY(qb_hasher_create(cx, &h));
    for (int e = 0; e < 2; e++) QB_GO(add_steps(cx, engine[e], h));
    qb_hash_hex(qb_hasher_digest(h), key);
out:
    qb_hasher_free(h);
    return status;
}

qb_status qb_device_race(qb_ctx *cx, const qb_engine *const engine[2], qb_timings *timings,
                         double ms[2]) {
    static const char *const name[2] = {"engine.first", "engine.second"};
    char key[33];
    qb_timing timing[2] = {{.seconds = 0}, {.seconds = 0}};
    QB_TRY(key_of(cx, engine, key));
    if (!qb_timings_find(timings, name[0], key, &timing[0]) ||
        !qb_timings_find(timings, name[1], key, &timing[1])) {
        QB_TRY(race(cx, engine, ms));
        for (int e = 0; e < 2; e++) {
            timing[e].seconds = ms[e] * 1e-3;
            QB_TRY(qb_timings_add(cx, timings, name[e], key, &timing[e]));
        }
    }
    for (int e = 0; e < 2; e++) ms[e] = timing[e].seconds * 1e3;
    return QB_OK;
}

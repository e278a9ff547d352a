/* Two whole engines against each other on a device. */
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/sort.h"
#include "engine/tune/tune_internal.h"

enum { ROUNDS = 21, SAMPLES = 3 };

static double median(double *ms, size_t n) {
    qb_sort_doubles(ms, n);
    return ms[n / 2];
}

/* An engine at the start, with inputs that stay for as long as it is replayed: steps of the
 * processor read them where they are. */
typedef struct side {
    const qb_engine *engine;
    qb_context *context;
    void **inputs, **outputs; /* none of these is wanted */
} side;

/* An engine at the start, with inputs that stay for as long as it is replayed: steps of the
 * processor read them where they are. Noise that a model does not take, for it makes indices of
 * floats, becomes zeros. */
static qb_status start(qb_ctx *cx, const qb_engine *e, side *out) {
    out->engine = e;
    QB_TRY_NEW(cx, out->inputs = qb_alloc(cx, (size_t)e->n_inputs, sizeof *out->inputs));
    QB_TRY_NEW(cx, out->outputs = qb_alloc(cx, (size_t)e->n_outputs, sizeof *out->outputs));
    for (int32_t i = 0; i < e->n_inputs; i++) {
        const qb_desc *d = &e->inputs[i].desc;
        QB_TRY_NEW(cx, out->inputs[i] = qb_alloc(cx, 1, qb_desc_bytes(d)));
        if (d->dtype == QB_DTYPE_F32) /* what else there is may be an index: 0 */
            qb_rng_timing_noise(out->inputs[i], qb_shape_count(&d->shape));
    }
    QB_TRY(qb_context_create(cx, e, &out->context));
    const void *const *inputs = (const void *const *)out->inputs;
    const qb_status status = qb_context_run(cx, out->context, inputs, out->outputs);
    if (status != QB_STATUS_INVALID) return status;
    qb_ctx_clear(cx);
    for (int32_t i = 0; i < e->n_inputs; i++)
        memset(out->inputs[i], 0, qb_desc_bytes(&e->inputs[i].desc));
    return qb_context_run(cx, out->context, inputs, out->outputs);
}

static void leave(side *r) {
    qb_context_free(r->context);
    for (int32_t i = 0; r->inputs && i < r->engine->n_inputs; i++) qb_free(r->inputs[i]);
    QB_FREE_ALL(r->inputs, r->outputs);
}

/* Interleaved, so that what else goes on at a time meets both. */
static qb_status measure(qb_ctx *cx, const qb_engine *const engine[2], double ms[2]) {
    double sample[SAMPLES], round[2][ROUNDS];
    side run[2] = {{0}, {0}};
    qb_status status = QB_OK;
    for (int e = 0; e < 2; e++) {
        QB_GO(start(cx, engine[e], &run[e]));
        QB_GO(qb_context_replay(cx, run[e].context, SAMPLES, sample)); /* warms up */
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int e = 0; e < 2; e++) {
            QB_GO(qb_context_replay(cx, run[e].context, SAMPLES, sample));
            round[e][r] = median(sample, SAMPLES);
        }
    for (int e = 0; e < 2; e++) ms[e] = median(round[e], ROUNDS);
out:
    for (int e = 0; e < 2; e++) leave(&run[e]);
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
    QB_RELEASED(qb_hasher_free_at) qb_hasher *h = NULL;
    QB_TRY(qb_hasher_create(cx, &h));
    for (int e = 0; e < 2; e++) QB_TRY(add_steps(cx, engine[e], h));
    qb_hash_hex(qb_hasher_digest(h), key);
    return QB_OK;
}

qb_status qb_ab_compare(qb_ctx *cx, const qb_engine *const engine[2], const char *const name[2],
                        qb_timings *timings, qb_ab_run_fn run, void *user, double ms[2]) {
    char key[33];
    qb_timing timing[2] = {{.seconds = 0}, {.seconds = 0}};
    QB_TRY(key_of(cx, engine, key));
    if (!qb_timings_find(timings, name[0], key, &timing[0]) ||
        !qb_timings_find(timings, name[1], key, &timing[1])) {
        QB_TRY(run(cx, user, ms));
        for (int e = 0; e < 2; e++) {
            timing[e].seconds = ms[e] * 1e-3;
            QB_TRY(qb_timings_add(cx, timings, name[e], key, &timing[e]));
        }
    }
    for (int e = 0; e < 2; e++) ms[e] = timing[e].seconds * 1e3;
    return QB_OK;
}

static qb_status run_both(qb_ctx *cx, void *user, double ms[2]) { return measure(cx, user, ms); }

qb_status qb_ab_comparison(qb_ctx *cx, const qb_engine *const engine[2], qb_timings *timings,
                           double ms[2]) {
    static const char *const name[2] = {"engine.mixed", "engine.f16"};
    return qb_ab_compare(cx, engine, name, timings, run_both, (void *)(uintptr_t)engine, ms);
}

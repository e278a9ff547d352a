#include "search/interleaved.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/sort.h"
#include "eval/bench.h"
#include "eval/stats.h"

#define STEADY 0.1 /* intervals wider than that are measured again */
enum { ROUNDS = 15, TRIES = 3 };

/* ---- inputs ---------------------------------------------------------------------------------- */

qb_status qb_timing_inputs_create(qb_ctx *cx, const qb_engine *engine, qb_timing_inputs *out) {
    qb_timing_inputs in = {.n = qb_engine_n_inputs(engine)};
    in.data = qb_alloc(cx, (size_t)in.n, sizeof *in.data);
    for (int32_t i = 0; in.data && i < in.n; i++) {
        const qb_desc *desc = qb_engine_input(engine, i);
        in.data[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(desc) + 1);
        if (!in.data[i]) {
            qb_timing_inputs_release(&in);
            return cx->code;
        }
        memset(in.data[i], 0, qb_desc_bytes(desc));
        if (desc->dtype == QB_DTYPE_F32)
            qb_rng_timing_noise(in.data[i], qb_shape_count(&desc->shape));
    }
    *out = in;
    return in.data ? QB_OK : cx->code;
}

void qb_timing_inputs_release(qb_timing_inputs *inputs) {
    for (int32_t i = 0; inputs->data && i < inputs->n; i++) qb_free(inputs->data[i]);
    qb_free(inputs->data);
    *inputs = (qb_timing_inputs){0};
}

/* ---- rounds ---------------------------------------------------------------------------------- */

typedef double rounds[ROUNDS]; /* milliseconds of the least run of each */

/* At least two runs: the first one finds the caches as another engine left them. */
static qb_status slice(qb_ctx *cx, qb_time_once_fn run, void *user, int32_t i, double seconds,
                       double *least) {
    double spent = 0, ms;
    *least = INFINITY;
    for (int runs = 0; runs < 2 || spent < seconds; runs++) {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(run(cx, user, i, &ms));
        spent += ms * 1e-3;
        *least = fmin(*least, ms);
    }
    return QB_OK;
}

static double median(const double *values, const int32_t *pick, int32_t n) {
    double sorted[ROUNDS];
    for (int32_t i = 0; i < n; i++) sorted[i] = values[pick ? pick[i] : i];
    qb_sort_doubles(sorted, (size_t)n);
    return qb_median(sorted, n);
}

/* The same draws of rounds for every engine. */
static qb_interval interval_of(const double *ratio) {
    double draws[QB_BOOTSTRAP_DRAWS];
    qb_rng rng;
    qb_rng_seed(&rng, 95);
    for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++) {
        int32_t pick[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) pick[i] = (int32_t)qb_rng_below(&rng, ROUNDS);
        draws[b] = median(ratio, pick, ROUNDS);
    }
    return qb_bootstrap_interval(draws);
}

static void summarize(rounds *least, int32_t n, qb_interleaved_time *out) {
    const double first = median(least[0], NULL, ROUNDS);
    for (int32_t i = 0; i < n; i++) {
        double ratio[ROUNDS];
        for (int k = 0; k < ROUNDS; k++) ratio[k] = least[i][k] / least[0][k];
        out[i].ratio = median(ratio, NULL, ROUNDS);
        out[i].range = interval_of(ratio);
        out[i].ms = first * out[i].ratio;
    }
}

static double widest(const qb_interleaved_time *times, int32_t n) {
    double most = 0;
    for (int32_t i = 0; i < n; i++) most = fmax(most, times[i].range.hi - times[i].range.lo);
    return most;
}

qb_status qb_time_rounds(qb_ctx *cx, qb_time_once_fn run, void *user, int32_t n, double seconds,
                         qb_interleaved_time *out) {
    QB_FREED rounds *least = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *least));
    QB_FREED qb_interleaved_time *now = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *now));
    for (int try = 0; try < TRIES && (try == 0 || widest(out, n) > STEADY); try++) {
        for (int k = 0; k < ROUNDS; k++)
            for (int32_t i = 0; i < n; i++)
                QB_TRY(slice(cx, run, user, i, seconds / ROUNDS, &least[i][k]));
        summarize(least, n, now);
        if (try == 0 || widest(now, n) < widest(out, n)) memcpy(out, now, (size_t)n * sizeof *out);
    }
    return QB_OK;
}

/* ---- engines --------------------------------------------------------------------------------- */

typedef struct timed {
    const qb_engine *engine;
    const qb_timing_inputs *inputs;
    qb_context *context;
    void **outputs;
} timed;

static qb_status run_once(qb_ctx *cx, void *user, int32_t i, double *ms) {
    const timed *r = &((const timed *)user)[i];
    if (qb_engine_device(r->engine)) return qb_context_replay(cx, r->context, 1, ms);
    const double began = qb_now();
    QB_TRY(qb_context_run(cx, r->context, (const void *const *)r->inputs->data, r->outputs));
    *ms = (qb_now() - began) * 1e3;
    return QB_OK;
}

static qb_status start(qb_ctx *cx, const qb_engine *engine, const qb_timing_inputs *in, timed *r) {
    *r = (timed){.engine = engine, .inputs = in, .outputs = qb_outputs_new(cx, engine)};
    if (!r->outputs) return cx->code;
    QB_TRY(qb_context_create(cx, engine, &r->context));
    return qb_context_run(cx, r->context, (const void *const *)in->data, r->outputs);
}

static void stop(timed *r) {
    qb_context_free(r->context);
    if (r->engine) qb_outputs_free(r->engine, r->outputs);
}

qb_status qb_time_interleaved(qb_ctx *cx, const qb_engine *const *engines, int32_t n,
                              const qb_timing_inputs *inputs, double seconds,
                              qb_interleaved_time *out) {
    qb_status status = QB_OK;
    QB_FREED timed *all = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *all));
    for (int32_t i = 0; i < n; i++) QB_GO(start(cx, engines[i], inputs, &all[i]));
    QB_GO(qb_time_rounds(cx, run_once, all, n, seconds, out));
out:
    for (int32_t i = 0; i < n; i++) stop(&all[i]);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static qb_status name_steps(qb_ctx *cx, const qb_engine *engine, qb_step_times *times) {
    for (int32_t s = 0; s < times->n; s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        times->step[s] = (qb_step_time){
            .key = qb_format(cx, "%s|%s|%s|%s|%.0f", info.output ? info.output : info.name, info.op,
                             info.tactic, qb_dtype_text(info.dtype), info.bytes),
            .value = info.output ? info.output : info.name,
            .dtype = info.dtype,
            .seconds = INFINITY};
        if (!times->step[s].key) return cx->code;
    }
    return QB_OK;
}

static qb_status profile(qb_ctx *cx, const timed *r, int32_t runs, double *seconds,
                         qb_step_times *times) {
    for (int32_t k = 0; k < runs; k++) {
        memset(seconds, 0, (size_t)times->n * sizeof *seconds);
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(qb_context_profile(cx, r->context, (const void *const *)r->inputs->data, r->outputs,
                                  seconds));
        for (int32_t s = 0; s < times->n; s++)
            times->step[s].seconds = fmin(times->step[s].seconds, seconds[s]);
    }
    return QB_OK;
}

qb_status qb_step_times_measure(qb_ctx *cx, const qb_engine *engine, const qb_timing_inputs *inputs,
                                int32_t runs, qb_step_times *out) {
    QB_RELEASED(qb_step_times_release) qb_step_times times = {.n = qb_engine_n_steps(engine)};
    QB_RELEASED(stop) timed r = {0};
    QB_FREED double *seconds = qb_alloc(cx, (size_t)times.n, sizeof *seconds);
    times.step = qb_alloc(cx, (size_t)times.n, sizeof *times.step);
    if (!times.step || !seconds) return cx->code;
    QB_TRY(name_steps(cx, engine, &times));
    QB_TRY(start(cx, engine, inputs, &r));
    QB_TRY(profile(cx, &r, runs, seconds, &times));
    *out = QB_MOVE(times);
    return QB_OK;
}

void qb_step_times_release(qb_step_times *times) {
    for (int32_t s = 0; times->step && s < times->n; s++) qb_free(times->step[s].key);
    qb_free(times->step);
    *times = (qb_step_times){0};
}

static bool has(const qb_step_times *times, const char *key) {
    for (int32_t s = 0; s < times->n; s++)
        if (strcmp(times->step[s].key, key) == 0) return true;
    return false;
}

double qb_step_times_more(const qb_step_times *base, const qb_step_times *other) {
    double more = 0;
    for (int32_t s = 0; s < other->n; s++)
        if (!has(base, other->step[s].key)) more += other->step[s].seconds;
    for (int32_t s = 0; s < base->n; s++)
        if (!has(other, base->step[s].key)) more -= base->step[s].seconds;
    return more;
}

#include "bench_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "bench_models.h"

#define SECONDS 0.5
#define ROUNDS_MIN 9
#define ROUNDS_MAX 201
#define SAMPLES 5

static bool same_steps(const qb_engine *a, const qb_engine *b) {
    bool same = qb_engine_n_steps(a) == qb_engine_n_steps(b);
    for (int32_t s = 0; same && s < qb_engine_n_steps(a); s++) {
        qb_step_info x, y;
        qb_engine_step(a, s, &x);
        qb_engine_step(b, s, &y);
        same = strcmp(x.op, y.op) == 0 && strcmp(x.tactic, y.tactic) == 0 &&
               strcmp(x.impl, y.impl) == 0 && x.dtype == y.dtype;
    }
    return same;
}

/* The inputs come to the device with the first run; steps of the processor read and write the ports
 * at every replay. */
static qb_status warm_up(qb_ctx *cx, const qb_engine *engine, qb_context *context,
                         bench_ports *ports, double *ms) {
    double sample[SAMPLES];
    QB_TRY(bench_ports_new(cx, engine, 3, ports));
    QB_TRY(qb_context_run(cx, context, (const void *const *)ports->in, ports->out));
    QB_TRY(qb_context_replay(cx, context, SAMPLES, sample));
    *ms = sample[SAMPLES - 1];
    return QB_OK;
}

static qb_status sample_time(qb_ctx *cx, qb_context *context, double *ms) {
    double sample[SAMPLES];
    QB_TRY(qb_context_replay(cx, context, SAMPLES, sample));
    qb_sort_doubles(sample, SAMPLES);
    *ms = sample[SAMPLES / 2];
    return QB_OK;
}

static qb_status interleave(qb_ctx *cx, qb_context *const context[2], bench_pair *pair) {
    double ms[2][ROUNDS_MAX], ratio[ROUNDS_MAX];
    const int n = pair->rounds;
    for (int r = 0; r < n; r++) {
        for (int e = 0; e < 2; e++) /* each comes first every other time */
            QB_TRY(sample_time(cx, context[(e + r) % 2], &ms[(e + r) % 2][r]));
        ratio[r] = ms[1][r] / ms[0][r];
    }
    qb_sort_doubles(ratio, (size_t)n);
    for (int e = 0; e < 2; e++) {
        qb_sort_doubles(ms[e], (size_t)n);
        pair->ms[e] = ms[e][n / 2];
    }
    pair->ratio = ratio[n / 2];
    pair->low = ratio[n / 4];
    pair->high = ratio[n - 1 - n / 4];
    return QB_OK;
}

qb_status bench_pair_measure(qb_ctx *cx, const qb_engine *first, const qb_engine *second,
                             bench_pair *out) {
    const qb_engine *engine[2] = {first, second};
    qb_context *context[2] = {NULL, NULL};
    bench_ports ports[2] = {{0}};
    bench_pair pair = {.same = same_steps(first, second)};
    qb_status status = QB_OK;
    double ms[2];
    for (int e = 0; e < 2; e++) {
        QB_GO(qb_context_create(cx, engine[e], &context[e]));
        QB_GO(warm_up(cx, engine[e], context[e], &ports[e], &ms[e]));
    }
    const double rounds = SECONDS * 1e3 / (SAMPLES * (ms[0] + ms[1]));
    pair.rounds = rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
    QB_GO(interleave(cx, context, &pair));
    *out = pair;
out:
    for (int e = 0; e < 2; e++) {
        qb_context_free(context[e]);
        bench_ports_free(&ports[e]);
    }
    return status;
}

bool bench_pair_slower(const bench_pair *pair) { return !pair->same && pair->ratio > 1.0; }

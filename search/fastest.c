#include "search/fastest.h"

#include <string.h>

#include "base/log.h"
#include "engine/backends.h"
#include "search/costs.h"

#define CLEARLY 0.99 /* what is proposed must take less than this share of all integers' time */
#define TIMED_SECONDS 0.4 /* for each engine */
enum { PROFILES = 7, ENTRIES = 16 };

typedef struct candidate {
    qb_alternative a;
    qb_engine *engine;
    const char *name; /* how it was proposed */
} candidate;

typedef struct choice {
    const qb_space *space;
    qb_timing_inputs inputs;
    qb_step_times integers;
    candidate candidate[ENTRIES];
    int32_t n;
} choice;

/* Enters an engine, unless one like it is there or its backends cannot run it. `is_float`: copied;
 * NULL: `all` for each group. */
static qb_status enter(qb_ctx *cx, choice *c, const char *name, qb_dtype floats,
                       const bool *is_float, bool all, candidate **out) {
    const size_t n = (size_t)c->space->n;
    candidate *e = &c->candidate[c->n];
    *out = NULL;
    if (c->n == ENTRIES) return QB_OK;
    for (int32_t i = 0; is_float && i < c->n; i++) {
        const qb_alternative *other = &c->candidate[i].a;
        const bool alike = memcmp(other->is_float, is_float, n) == 0;
        if (alike && (other->floats == floats || qb_space_count_float(c->space, other) == 0))
            return QB_OK;
    }
    *e = (candidate){.name = name,
                     .a = {.floats = floats, .is_float = qb_alloc(cx, n, sizeof(bool))}};
    if (!e->a.is_float) return cx->code;
    c->n++;
    for (size_t g = 0; g < n; g++) e->a.is_float[g] = is_float ? is_float[g] : all;
    QB_TRY(qb_space_build(cx, c->space, &e->a, &e->engine));
    *out = e;
    return QB_OK;
}

/* Groups whose steps are faster in float, then all that the model says. */
static qb_status propose(qb_ctx *cx, choice *c, qb_dtype floats, const qb_step_times *times) {
    const int32_t n = c->space->n;
    const double rate = qb_costs_copy_rate(c->space, &c->integers);
    QB_RELEASED(qb_costs_release) qb_costs costs = {0};
    candidate *ignored;
    QB_FREED bool *is_float = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *is_float));
    QB_TRY(qb_costs_create(cx, c->space, &costs));
    qb_costs_estimate(&costs, &c->integers, times, rate);
    for (int32_t g = 0; g < n; g++)
        if (costs.more[g] < 0)
            QB_TRY(qb_costs_measure(cx, &costs, g, floats, 0, &c->integers, &c->inputs));
    qb_costs_share_conversions(&costs, rate);
    qb_costs_descend(&costs, NULL, 0, is_float);
    QB_TRY(enter(cx, c, "mixed, from integers", floats, is_float, false, &ignored));
    memset(is_float, 1, (size_t)n * sizeof *is_float);
    qb_costs_descend(&costs, NULL, 0, is_float);
    return enter(cx, c, "mixed, from floats", floats, is_float, false, &ignored);
}

static qb_status of_floats(qb_ctx *cx, choice *c, qb_dtype floats) {
    QB_RELEASED(qb_step_times_release) qb_step_times times = {0};
    candidate *all;
    QB_TRY(enter(cx, c, "all float", floats, NULL, true, &all));
    QB_TRY(qb_step_times_measure(cx, all->engine, &c->inputs, PROFILES, &times));
    return propose(cx, c, floats, &times);
}

/* The candidate that takes the least time; the first one unless another is clearly faster. */
static qb_status decide(qb_ctx *cx, choice *c, int32_t *fastest) {
    const qb_engine *engines[ENTRIES];
    qb_interleaved_time times[ENTRIES];
    for (int32_t i = 0; i < c->n; i++) engines[i] = c->candidate[i].engine;
    QB_TRY(qb_time_interleaved(cx, engines, c->n, &c->inputs, TIMED_SECONDS, times));
    *fastest = 0;
    for (int32_t i = 1; i < c->n; i++)
        if (times[i].ratio < (*fastest == 0 ? CLEARLY : times[*fastest].ratio)) *fastest = i;
    for (int32_t i = 0; i < c->n; i++)
        qb_info(cx, "best: %s (%d of %d groups in %s): %.3f ms%s", c->candidate[i].name,
                (int)qb_space_count_float(c->space, &c->candidate[i].a), (int)c->space->n,
                qb_dtype_text(c->candidate[i].a.floats), times[i].ms,
                i == *fastest ? ", taken" : "");
    return QB_OK;
}

static qb_status on_host(qb_ctx *cx, choice *c, int32_t *fastest) {
    candidate *integers;
    QB_TRY(enter(cx, c, "all integers", QB_DTYPE_F32, NULL, false, &integers));
    QB_TRY(qb_timing_inputs_create(cx, integers->engine, &c->inputs));
    QB_TRY(qb_step_times_measure(cx, integers->engine, &c->inputs, PROFILES, &c->integers));
    QB_TRY(of_floats(cx, c, QB_DTYPE_F32));
    if (!qb_engine_no_bf16(c->space->spec.backends)) QB_TRY(of_floats(cx, c, QB_DTYPE_BF16));
    return decide(cx, c, fastest);
}

static void choice_release(choice *c) {
    for (int32_t i = 0; i < c->n; i++) {
        qb_engine_free(c->candidate[i].engine);
        qb_free(c->candidate[i].a.is_float);
    }
    qb_step_times_release(&c->integers);
    qb_timing_inputs_release(&c->inputs);
}

qb_status qb_fastest(qb_ctx *cx, const qb_space *space, qb_graph **graph, qb_dtype *floats) {
    QB_RELEASED(choice_release) choice c = {.space = space};
    QB_FREED bool *none = QB_NEW(cx, qb_alloc(cx, (size_t)space->n, sizeof *none));
    const qb_alternative integers = {.floats = QB_DTYPE_F16, .is_float = none};
    const qb_alternative *taken = &integers;
    if (!qb_backends_name_device(space->spec.backends)) {
        int32_t fastest = 0;
        QB_TRY(on_host(cx, &c, &fastest));
        taken = &c.candidate[fastest].a;
    }
    QB_TRY(qb_space_quantize(cx, space, taken, graph));
    *floats = taken->floats;
    return QB_OK;
}

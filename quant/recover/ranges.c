/* Ranges of activations by the network's output: one tensor's range after the other becomes
 * narrower or wider where that makes the output less wrong, with all that was recovered before it
 * in place. Calibration chooses each range by its own tensor; here all layers behind it count.
 *
 * Outputs are compared as quant/recover/judged.h says. The
 * number of samples follows from the work of a run and the number of ranges, not from the clock:
 * the result is the same on any machine and for any number of threads. */
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "quant/recover/judged.h"
#include "quant/recover/recover_internal.h"

#define WORK 4e12 /* operations of all trials together */
#define TRIALS 3  /* about so many for each range */
#define MOST_STEPS 4
#define SURE 2 /* standard errors: many ranges are tried, and chance would favour some of them */
enum { LEAST_SAMPLES = 8, MOST_SAMPLES = 64 };

typedef struct search {
    qb_recover_state *state;
    qb_judged judged;
    int32_t n_samples;
    float *(*wanted)[QB_JUDGED_MOST]; /* [samples] of the reference, each value */
    qb_shape shape[QB_JUDGED_MOST];   /* of the values */
    double *error, *trial; /* [1 + parts][samples] as it is, and of a trial: the sum first */
    int32_t changed;
    bool widens_alone;
} search;

/* Runs of one engine, each sample's errors apart. */
typedef struct runs {
    const search *search;
    const qb_engine *engine;
    qb_context **context;   /* [workers] */
    bool keeps;             /* outputs become what is wanted; else they are compared */
    double *error, *signal; /* [samples][parts] */
} runs;

/* ---- outputs ---- */

static qb_status build(qb_ctx *cx, const search *s, const qb_graph *graph, qb_engine **out) {
    const qb_build_spec spec = {.input_shapes = s->state->samples->shape, .threads = 1};
    QB_RELEASED(qb_graph_free_at) qb_graph *exposed = NULL;
    QB_TRY(qb_judged_expose(cx, &s->judged, graph, &exposed));
    return qb_engine_build(cx, exposed, &spec, out);
}

static qb_status run_sample(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    runs *r = user;
    const search *s = r->search;
    const qb_samples *samples = s->state->samples;
    const void *const *inputs =
        (const void *const *)(samples->data + (size_t)i * (size_t)samples->n_inputs);
    float *outputs[QB_JUDGED_MOST] = {0}, **wanted = s->wanted[i];
    const int32_t parts = s->judged.n_parts;
    qb_status status = QB_OK;
    if (!r->context[worker]) QB_GO(qb_context_create(cx, r->engine, &r->context[worker]));
    for (int32_t o = 0; o < s->judged.n; o++) {
        outputs[o] = qb_alloc_aligned(cx, (size_t)qb_shape_count(&s->shape[o]) + 1, sizeof(float));
        if (!outputs[o]) QB_GO(cx->code);
    }
    QB_GO(qb_context_run(cx, r->context[worker], inputs, (void **)outputs));
    for (int32_t o = 0, p = 0; o < s->judged.n; p += s->judged.value[o++].n_parts) {
        if (!r->keeps) {
            qb_judged_compare(&s->judged.value[o], &s->shape[o], wanted[o], outputs[o],
                              r->error + i * parts + p, r->signal + i * parts + p);
            continue;
        }
        wanted[o] = outputs[o];
        outputs[o] = NULL;
    }
out:
    for (int32_t o = 0; o < s->judged.n; o++) qb_free(outputs[o]);
    return status;
}

/* error[1 + parts][samples]: see qb_judged_sum; NULL: what comes out is what is wanted. */
static qb_status run_all(qb_ctx *cx, const search *s, const qb_engine *engine, double *error) {
    const size_t n = (size_t)s->n_samples * (size_t)s->judged.n_parts;
    const int workers = qb_threads(cx);
    runs r = {.search = s,
              .engine = engine,
              .keeps = !error,
              .context = qb_alloc(cx, (size_t)workers, sizeof(qb_context *)),
              .error = qb_alloc(cx, n, sizeof *r.error),
              .signal = qb_alloc(cx, n, sizeof *r.signal)};
    qb_status status = r.context && r.error && r.signal ? QB_OK : cx->code;
    if (status == QB_OK) status = qb_each(cx, s->n_samples, run_sample, &r);
    if (status == QB_OK && error)
        qb_judged_sum(&s->judged, s->n_samples, r.error, r.signal, error, error + s->n_samples);
    for (int w = 0; r.context && w < workers; w++) qb_context_free(r.context[w]);
    QB_FREE_ALL(r.context, r.error, r.signal);
    return status;
}

/* The error of the state's graph as its table has it now. */
static qb_status error_now(qb_ctx *cx, const search *s, double *error) {
    QB_RELEASED(qb_graph_free_at) qb_graph *quantized = NULL;
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_TRY(qb_recover_quantize(cx, s->state, &quantized));
    QB_TRY(build(cx, s, quantized, &engine));
    return run_all(cx, s, engine, error);
}

/* ---- the search ---- */

static bool is_known_float(const qb_desc *desc) {
    return desc->dtype == QB_DTYPE_F32 && qb_shape_known(&desc->shape);
}

/* *able: the outputs can be compared. */
static qb_status prepare(qb_ctx *cx, search *s, int32_t n_ranges, bool *able) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    double flops = 0;
    *able = false;
    QB_TRY(qb_judged_find(cx, s->state->reference, &s->judged));
    QB_TRY(build(cx, s, s->state->reference, &engine));
    for (int32_t i = 0; i < s->judged.n; i++) {
        if (!is_known_float(qb_engine_output(engine, i))) return QB_OK;
        s->shape[i] = qb_engine_output(engine, i)->shape;
    }
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        flops += info.flops;
    }
    const double fit = WORK / (TRIALS * (double)n_ranges * fmax(flops, 1e6));
    s->n_samples = fit < LEAST_SAMPLES  ? LEAST_SAMPLES
                   : fit < MOST_SAMPLES ? (int32_t)fit
                                        : MOST_SAMPLES;
    if (s->n_samples > s->state->samples->n) s->n_samples = s->state->samples->n;
    QB_TRY_NEW(cx, s->wanted = qb_alloc(cx, (size_t)s->n_samples, sizeof *s->wanted));
    QB_TRY(run_all(cx, s, engine, NULL));
    const size_t errors = (size_t)s->n_samples * (size_t)(s->judged.n_parts + 1);
    QB_TRY_NEW(cx, s->error = qb_alloc(cx, errors, sizeof *s->error));
    QB_TRY_NEW(cx, s->trial = qb_alloc(cx, errors, sizeof *s->trial));
    *able = true;
    return QB_OK;
}

static void search_release(search *s) {
    for (int32_t i = 0; s->wanted && i < s->n_samples; i++)
        for (int32_t o = 0; o < s->judged.n; o++) qb_free(s->wanted[i][o]);
    QB_FREE_ALL(s->wanted, s->error, s->trial);
}

/* The range times a factor, within what was seen. */
static qb_range scaled(const qb_table_entry *entry, qb_range range, double factor) {
    return (qb_range){fmaxf((float)(range.lo * factor), fminf(entry->stats->min, range.lo)),
                      fminf((float)(range.hi * factor), fmaxf(entry->stats->max, range.hi))};
}

/* Less wrong beyond chance, and no part of the outputs pays for the others. */
static bool is_better(const search *s) {
    const int64_t n = s->n_samples;
    if (!qb_recover_is_less(s->trial, s->error, n, SURE)) return false;
    for (int32_t p = 1; p <= s->judged.n_parts; p++)
        if (qb_recover_is_less(s->error + p * n, s->trial + p * n, n, 1)) return false;
    return true;
}

/* Moves one range as long as the error becomes less beyond chance. */
static qb_status improve(qb_ctx *cx, search *s, qb_table_entry *entry) {
    static const double factors[] = {0.84, 1.19};
    qb_range *range = &entry->range[s->state->method];
    const qb_range start = *range;
    for (int way = s->widens_alone; way < 2; way++) {
        for (int step = 0; step < MOST_STEPS; step++) {
            const qb_range before = *range;
            *range = scaled(entry, before, factors[way]);
            if (range->lo == before.lo && range->hi == before.hi) break;
            QB_TRY(error_now(cx, s, s->trial));
            if (!is_better(s)) {
                *range = before;
                break;
            }
            double *worse = s->error;
            s->error = s->trial;
            s->trial = worse;
        }
        if (range->lo != start.lo || range->hi != start.hi) break;
    }
    s->changed += range->lo != start.lo || range->hi != start.hi;
    return QB_OK;
}

/* Names of the tensors that are quantized, in execution order. */
static qb_status quantized_names(qb_ctx *cx, const qb_recover_state *state, qb_graph **quantized,
                                 const char ***names, int32_t *n) {
    QB_TRY(qb_recover_quantize(cx, state, quantized));
    const qb_graph *graph = *quantized;
    *n = 0;
    QB_TRY_NEW(cx, *names = qb_alloc(cx, (size_t)graph->n_values + 1, sizeof(char *)));
    for (int32_t i = -graph->n_inputs; i < graph->n_nodes; i++) {
        const int32_t *out = i < 0 ? &graph->inputs[i + graph->n_inputs] : graph->nodes[i].out;
        const int32_t outs = i < 0 ? 1 : graph->nodes[i].n_out;
        for (int32_t k = 0; k < outs; k++) {
            if (out[k] < 0 || graph->values[out[k]].q.n != 1) continue;
            const char *name = graph->values[out[k]].name;
            if (qb_table_find(state->table, name)) (*names)[(*n)++] = name;
        }
    }
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    /* auto has tried eight ends of each range: to cut off more makes the mean error less by the few
     * large values that objects are found by (FastestDet: 1.7 dB better, 0.1 to 0.7 less AP). */
    QB_RELEASED(search_release)
    search s = {.state = state,
                .widens_alone = strcmp(state->table->method[state->method], "auto") == 0};
    QB_RELEASED(qb_graph_free_at) qb_graph *quantized = NULL;
    QB_FREED const char **names = NULL;
    int32_t n = 0;
    bool able = false;
    QB_TRY(quantized_names(cx, state, &quantized, &names, &n));
    if (n > 0) QB_TRY(prepare(cx, &s, n, &able));
    if (!able) return QB_OK;
    QB_TRY(error_now(cx, &s, s.error));
    for (int32_t i = 0; i < n; i++) {
        qb_table_entry *entry;
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(qb_table_slot(cx, state->table, names[i], &entry));
        QB_TRY(improve(cx, &s, entry));
    }
    *changed = s.changed;
    return QB_OK;
}

const qb_recovery qb_recovery_ranges = {
    .name = "ranges",
    .summary = "ranges of activations by the error of the network's output",
    .phase = QB_RECOVER_OUTPUT,
    .run = run,
};

/* Latency of several engines in alternating rounds, so that what disturbs the machine disturbs all
 * of them; the time of each step; and throughput at other batch sizes. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/sort.h"
#include "engine/file.h"
#include "eval/compare_internal.h"
#include "eval/contention.h"
#include "eval/probe.h"
#include "eval/stats.h"
#include "eval/warnings.h"
#include "graph/op.h"

enum {
    ROUNDS = 20,          /* a measurement's slices of time */
    RUNS_MAX = 100000,    /* latencies kept */
    ROUNDS_MAX = RUNS_MAX /* a round has at least one run */
};

typedef struct timed {
    qb_engine *engine;
    qb_context *context;
    void **output;
    double *ms;
    int32_t *round;
    int64_t n;
    double spent; /* seconds measured */
    bool primed;  /* on a device: its inputs are there */
} timed;

/* Engines of one batch size and what they run on. */
typedef struct qb_row_engines {
    timed *item;
    int32_t n, n_rounds;
    timed control; /* the first engine once more in each round: what makes it differ from itself
                      makes engines differ. It borrows all but its samples */
    qb_probe probe;
    qb_contention contention; /* while the rounds ran */
} timing;

const qb_engine *qb_row_engine(const timing *t, int32_t row) { return t->item[row].engine; }

static void timed_release(timed *t) {
    const int32_t n = t->engine ? qb_engine_n_outputs(t->engine) : 0;
    for (int32_t i = 0; t->output && i < n; i++) qb_free(t->output[i]);
    QB_FREE_ALL(t->output, t->ms, t->round);
    qb_context_free(t->context);
    qb_engine_free(t->engine);
}

static void timing_release(timing *t) {
    for (int32_t i = 0; t->item && i < t->n; i++) timed_release(&t->item[i]);
    QB_FREE_ALL(t->item, t->control.ms, t->control.round);
    qb_probe_release(&t->probe);
}

/* An engine file runs at its own batch only: at others the item stays empty. */
static qb_status timed_load(qb_ctx *cx, const qb_compare_options *o, const qb_candidate *c,
                            const qb_shape *shapes, timed *t) {
    const int threads = o->threads > 0 ? o->threads : qb_threads(cx);
    bool fits = true;
    QB_TRY(qb_engine_load_on(cx, c->file, c->spec.device, &t->engine));
    for (int32_t i = 0; i < qb_engine_n_inputs(t->engine); i++)
        fits = fits && qb_shape_equal(&qb_engine_input(t->engine, i)->shape, &shapes[i]);
    if (!fits) {
        qb_engine_free(QB_MOVE(t->engine));
    } else if (qb_engine_threads(t->engine) != threads) {
        qb_warn(cx, "%s was built for %d threads, the others run in %d", c->precision,
                qb_engine_threads(t->engine), threads);
    }
    return QB_OK;
}

static qb_status timed_make(qb_ctx *cx, const qb_compare_options *o, const qb_candidate *c,
                            const qb_shape *shapes, timed *t) {
    if (c->file) return timed_load(cx, o, c, shapes, t);
    qb_build_spec spec = c->spec;
    spec.input_shapes = shapes;
    spec.threads = o->threads;
    return qb_engine_build(cx, c->graph, &spec, &t->engine);
}

/* What it takes to run. */
static qb_status timed_start(qb_ctx *cx, timed *t) {
    if (!t->engine) return QB_OK;
    QB_TRY(qb_context_create(cx, t->engine, &t->context));
    const int32_t n = qb_engine_n_outputs(t->engine);
    QB_TRY_NEW(cx, t->output = qb_alloc(cx, (size_t)n, sizeof *t->output));
    QB_TRY_NEW(cx, t->ms = qb_alloc(cx, RUNS_MAX, sizeof *t->ms));
    QB_TRY_NEW(cx, t->round = qb_alloc(cx, RUNS_MAX, sizeof *t->round));
    for (int32_t i = 0; i < n; i++) {
        t->output[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(qb_engine_output(t->engine, i)));
        if (!t->output[i]) return cx->code;
    }
    return QB_OK;
}

static qb_status timing_build(qb_ctx *cx, const qb_compare_options *o, int64_t batch, timing *t) {
    t->n = o->n_candidates;
    QB_TRY_NEW(cx, t->item = qb_alloc(cx, (size_t)t->n, sizeof *t->item));
    QB_TRY(qb_probe_load(cx, o->candidate[0].graph, &o->loader, batch, &t->probe));
    qb_progress progress;
    qb_progress_begin(cx, &progress, "build", "engines", t->n);
    progress.only_slow = true;
    qb_status status = QB_OK;
    for (int32_t i = 0; i < t->n && status == QB_OK; i++) {
        status = timed_make(cx, o, &o->candidate[i], t->probe.shape, &t->item[i]);
        if (status != QB_OK) qb_wrap(cx, "%s", o->candidate[i].precision);
        qb_progress_step(&progress, 1);
    }
    qb_progress_end(&progress);
    return status;
}

/* Where a file has another batch. */
static qb_status misfit(qb_ctx *cx, const qb_candidate *c, const timing *t, int64_t batch) {
    qb_engine *engine;
    char built[96], run[96];
    int32_t i = 0;
    QB_TRY(qb_engine_load_on(cx, c->file, c->spec.device, &engine));
    while (i + 1 < t->probe.n &&
           qb_shape_equal(&qb_engine_input(engine, i)->shape, &t->probe.shape[i]))
        i++;
    qb_fail(cx, QB_STATUS_MISMATCH,
            "%s was not built for batch %lld: input '%s' was built for %s, a run takes %s",
            c->precision, (long long)batch, qb_engine_input_name(engine, i),
            qb_shape_text(&qb_engine_input(engine, i)->shape, built, sizeof built),
            qb_shape_text(&t->probe.shape[i], run, sizeof run));
    qb_engine_free(engine);
    return cx->code;
}

qb_status qb_row_engines_build(qb_ctx *cx, const qb_compare_options *options, timing **out) {
    QB_RELEASED(qb_row_engines_free_at) timing *t = QB_NEW(cx, qb_alloc(cx, 1, sizeof *t));
    QB_TRY(timing_build(cx, options, options->batch, t));
    for (int32_t i = 0; i < t->n; i++)
        if (!t->item[i].engine) return misfit(cx, &options->candidate[i], t, options->batch);
    *out = QB_MOVE(t);
    return QB_OK;
}

void qb_row_engines_free(timing *t) {
    if (t) timing_release(t);
    qb_free(t);
}

static qb_status timing_start(qb_ctx *cx, timing *t) {
    for (int32_t i = 0; i < t->n; i++) QB_TRY(timed_start(cx, &t->item[i]));
    return QB_OK;
}

static qb_status add_control(qb_ctx *cx, timing *t) {
    const timed *first = &t->item[0];
    t->control = (timed){.engine = first->engine,
                         .context = first->context,
                         .output = first->output,
                         .primed = true,
                         .ms = qb_alloc(cx, RUNS_MAX, sizeof *first->ms),
                         .round = qb_alloc(cx, RUNS_MAX, sizeof *first->round)};
    return t->control.ms && t->control.round ? QB_OK : cx->code;
}

/* ---- rounds ---- */

/* On a device: by its clock, on inputs that are there from the first run on. */
static qb_status run_there(qb_ctx *cx, timed *t, const void *const *inputs, double *seconds) {
    double ms;
    if (!t->primed) QB_TRY(qb_context_run(cx, t->context, inputs, t->output));
    t->primed = true;
    QB_TRY(qb_context_replay(cx, t->context, 1, &ms));
    *seconds = ms * 1e-3;
    return QB_OK;
}

static qb_status run_once(qb_ctx *cx, timed *t, const qb_probe *probe, double *seconds) {
    if (qb_engine_device(t->engine))
        return run_there(cx, t, (const void *const *)probe->data, seconds);
    const double start = qb_now();
    QB_TRY(qb_context_run(cx, t->context, (const void *const *)probe->data, t->output));
    *seconds = qb_now() - start;
    return QB_OK;
}

/* Runs an engine for `budget` seconds, at least once. Very fast engines run more often than is
 * kept: each round keeps its share, so that all rounds count. Round -1 warms up and keeps nothing.
 */
static qb_status measure_slice(qb_ctx *cx, timed *t, const qb_probe *probe, int32_t round,
                               double budget) {
    const int64_t keep = round < ROUNDS ? (int64_t)(round + 1) * (RUNS_MAX / ROUNDS) : RUNS_MAX;
    double spent = 0, seconds;
    if (!t->engine) return QB_OK;
    do {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(run_once(cx, t, probe, &seconds));
        spent += seconds;
        if (t->n < keep) {
            t->round[t->n] = round;
            t->ms[t->n++] = seconds * 1e3;
        }
    } while (spent < budget);
    if (round >= 0) t->spent += spent;
    return QB_OK;
}

/* Each round gives every engine a slice of time, so that drifts of the machine hit all alike. */
static qb_status measure_rounds(qb_ctx *cx, const qb_compare_options *o, const char *label,
                                double duration, timing *t) {
    const double warmup = o->warmup_s > 0 ? o->warmup_s : 0.2;
    const int64_t min_runs = o->min_runs < 1 ? 20 : o->min_runs > RUNS_MAX ? RUNS_MAX : o->min_runs;
    for (int32_t e = 0; e < t->n; e++)
        QB_TRY(measure_slice(cx, &t->item[e], &t->probe, -1, warmup));
    qb_progress progress;
    qb_contention_mark before, after;
    qb_contention_read(&before);
    qb_progress_begin(cx, &progress, label, "rounds", ROUNDS);
    bool more = true;
    for (t->n_rounds = 0; more && t->n_rounds < ROUNDS_MAX; t->n_rounds++) {
        more = false;
        for (int32_t e = 0; e < t->n; e++) {
            timed *item = &t->item[e];
            QB_TRY(measure_slice(cx, item, &t->probe, t->n_rounds, duration / ROUNDS));
            more = more || (item->engine && (item->n < min_runs || item->spent < duration));
        }
        if (t->control.engine)
            QB_TRY(measure_slice(cx, &t->control, &t->probe, t->n_rounds, duration / ROUNDS));
        if (progress.done < progress.total) qb_progress_step(&progress, 1);
    }
    qb_progress_end(&progress);
    qb_contention_read(&after);
    t->contention =
        qb_contention_between(&before, &after, o->threads > 0 ? o->threads : qb_threads(cx));
    return QB_OK;
}

/* ---- what the rounds say ---- */

/* The median of each round, in `row->round`. */
static qb_status fill_rounds(qb_ctx *cx, const timed *t, int32_t n_rounds, qb_run_row *row) {
    QB_FREED double *own = QB_NEW(cx, qb_alloc(cx, (size_t)t->n, sizeof *own));
    QB_TRY_NEW(cx, row->round = qb_alloc(cx, (size_t)n_rounds, sizeof *row->round));
    for (int64_t i = 0; i < t->n;) {
        qb_latency latency;
        int64_t n = 0;
        const int32_t round = t->round[i];
        for (; i < t->n && t->round[i] == round; i++) own[n++] = t->ms[i];
        qb_latency_of(own, n, &latency);
        row->round[row->n_rounds++] = latency.median;
    }
    return QB_OK;
}

/* The draws' ratio to the first engine's. */
static qb_interval ratio_of(const double *draws, const double *first) {
    double ratio[QB_BOOTSTRAP_DRAWS];
    for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++) ratio[b] = draws[b] / first[b];
    return qb_bootstrap_interval(ratio);
}

static qb_status fill_intervals(qb_ctx *cx, const timing *t, qb_run *run) {
    enum { N = QB_BOOTSTRAP_DRAWS };
    QB_FREED double *draws = qb_alloc(cx, 2 * N, sizeof *draws);
    double *first = draws + N;
    if (!draws) return cx->code;
    for (int32_t i = 0; i < t->n; i++) {
        const qb_samples samples = {t->item[i].ms, t->item[i].round, t->item[i].n};
        qb_latency *latency = &run->row[i].latency;
        QB_TRY(qb_bootstrap_medians(cx, &samples, t->n_rounds, draws));
        if (i == 0) memcpy(first, draws, N * sizeof *draws);
        if (i > 0) latency->ratio_ci = ratio_of(draws, first);
        latency->median_ci = qb_bootstrap_interval(draws);
    }
    const qb_samples control = {t->control.ms, t->control.round, t->control.n};
    QB_TRY(qb_bootstrap_medians(cx, &control, t->n_rounds, draws));
    run->disturbance.control = ratio_of(draws, first);
    return QB_OK;
}

static qb_status name_plan(qb_ctx *cx, const qb_engine *engine, qb_run_row *row) {
    qb_hash hash;
    char text[33];
    QB_TRY(qb_engine_plan_hash(cx, engine, &hash));
    qb_hash_hex(hash, text);
    row->plan = qb_strdup(cx, text);
    return row->plan ? QB_OK : cx->code;
}

static qb_status fill_latency(qb_ctx *cx, const qb_compare_options *o, const timing *t,
                              qb_run *run) {
    run->threads = o->threads > 0 ? o->threads : qb_threads(cx);
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        timed *item = &t->item[i];
        qb_engine_memory memory;
        const qb_latency before = row->latency;
        qb_engine_memory_of(item->engine, &memory);
        QB_TRY(fill_rounds(cx, item, t->n_rounds, row));
        qb_latency_of(item->ms, item->n, &row->latency);
        row->latency.median_ci = before.median_ci;
        row->latency.ratio_ci = before.ratio_ci;
        row->batch = o->batch;
        row->throughput = (double)o->batch * 1e3 / row->latency.mean;
        row->speedup = run->row[0].latency.median / row->latency.median;
        row->weights_bytes = (int64_t)memory.weights;
        row->arena_bytes = (int64_t)memory.arena;
        row->engine_bytes = (int64_t)qb_engine_bytes(item->engine);
        row->layers = qb_engine_layers(item->engine);
        QB_TRY(name_plan(cx, item->engine, row));
    }
    return QB_OK;
}

/* ---- disturbances ---- */

/* How far the minima of the rounds lie above the least of them: work that is always the same takes
 * the same time at best, unless somebody else is always there. */
static qb_status spread_of_minima(qb_ctx *cx, const timed *t, int32_t n_rounds, double *out) {
    QB_FREED double *least = qb_alloc(cx, (size_t)n_rounds, sizeof *least);
    qb_latency minima;
    int64_t n = 0;
    if (!least) return cx->code;
    for (int64_t i = 0; i < t->n; i++) {
        const bool begins = i == 0 || t->round[i] != t->round[i - 1];
        if (begins) least[n++] = t->ms[i];
        if (t->ms[i] < least[n - 1]) least[n - 1] = t->ms[i];
    }
    qb_latency_of(least, n, &minima);
    *out = minima.median / minima.min - 1;
    return QB_OK;
}

/* Intervals that hold what the engine takes when nobody disturbs it, its minimum, and what nine of
 * ten rounds stay below. */
static qb_status widen(qb_ctx *cx, qb_run *run) {
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *row = &run->row[i];
        double *sorted = qb_alloc(cx, (size_t)row->n_rounds, sizeof *sorted);
        qb_interval *ci = &run->row[i].latency.median_ci;
        qb_latency rounds;
        if (!sorted) return cx->code;
        memcpy(sorted, row->round, (size_t)row->n_rounds * sizeof *sorted);
        qb_latency_of(sorted, row->n_rounds, &rounds);
        *ci = (qb_interval){fmin(ci->lo, row->latency.min), fmax(ci->hi, rounds.p90)};
        qb_free(sorted);
    }
    const qb_interval first = run->row[0].latency.median_ci;
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        const qb_interval own = row->latency.median_ci;
        if (i > 0) row->latency.ratio_ci = (qb_interval){own.lo / first.hi, own.hi / first.lo};
        row->speedup_minima = run->row[0].latency.min / row->latency.min;
    }
    return QB_OK;
}

/* Did anything disturb the measurement? Then the record says so, and its intervals hold it. */
static qb_status judge_contention(qb_ctx *cx, const timing *t, qb_run *run) {
    qb_disturbance *d = &run->disturbance;
    bool on_device = true;
    double shift = 0;
    d->minima = 0;
    for (int32_t i = 0; i < t->n; i++) {
        double spread;
        QB_TRY(spread_of_minima(cx, &t->item[i], t->n_rounds, &spread));
        d->minima = fmax(d->minima, spread);
        on_device = on_device && qb_engine_device(t->item[i].engine);
    }
    /* a device's clock does not see who waits for a processor */
    d->waited = on_device ? NAN : t->contention.waited;
    d->stolen = on_device ? NAN : t->contention.stolen;
    for (int32_t i = 0; i < run->n_rows; i++)
        shift = fmax(shift, run->row[i].latency.median / run->row[i].latency.min - 1);
    if (!qb_contention_disturbs(d, shift)) return QB_OK;
    QB_TRY(widen(cx, run));
    return qb_warning_add(
        cx, run, "contention", "",
        "others ran on the machine: threads waited %.0f %% of the time for a processor, %.0f %% "
        "was stolen by a host, minima of rounds lie %.0f %% apart, %s against itself is %.2f to "
        "%.2f: latencies could not be measured, intervals hold the disturbance; measure on a quiet "
        "machine",
        100 * fmax(d->waited, 0), 100 * fmax(d->stolen, 0), 100 * d->minima, run->row[0].precision,
        d->control.lo, d->control.hi);
}

/* ---- steps ---- */

enum { PROFILES_MAX = 101 };

/* The median over runs of one step; seconds[run x n + step]. */
static double median_of(const double *seconds, int64_t runs, int32_t n, int32_t step) {
    double own[PROFILES_MAX];
    for (int64_t r = 0; r < runs; r++) own[r] = seconds[r * n + step];
    qb_sort_doubles(own, (size_t)runs);
    return runs % 2 ? own[runs / 2] : (own[runs / 2 - 1] + own[runs / 2]) / 2;
}

/* Are the weights of a convolution or a product float? Somebody left them so. */
static bool has_float_weights(const qb_graph *graph, const qb_node *node) {
    if (node->op->qrule != QB_QRULE_COMPUTE || node->n_in < 2 || node->in[1] < 0) return false;
    const qb_value *weights = &graph->values[node->in[1]];
    return weights->data && weights->q.n == 0;
}

/* Why a step of an integer engine computes in float, or why no faster kernel takes it, new memory;
 * "" where nothing is known of that. */
static char *reason_of(qb_ctx *cx, const qb_graph *graph, const qb_step_info *step) {
    if (step->fallback_reason || step->f16_reason)
        return qb_strdup(cx, step->fallback_reason ? step->fallback_reason : step->f16_reason);
    if (!qb_dtype_is_float(step->dtype) || step->flops <= 0)
        return qb_strdup(cx, step->note            ? step->note
                             : step->tactic_reason ? step->tactic_reason
                                                   : "");
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (strcmp(node->name, step->name) != 0) continue;
        if (node->op->qrule == QB_QRULE_FLOAT)
            return qb_format(cx, "%s has no integer form", node->op->name);
        if (has_float_weights(graph, node)) return qb_strdup(cx, "kept in float");
        for (int32_t k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0 && graph->values[node->in[k]].q.n > 0)
                return qb_strdup(cx, "no integer kernel takes it");
        return qb_strdup(cx, "left in float: its values have no scale");
    }
    return qb_strdup(cx, "");
}

/* Percent of the time in each type; what is neither (indices, say) is in none. */
static void add_share(qb_dtype dtype, double share, qb_time_shares *out) {
    double *of = dtype == QB_DTYPE_S8 || dtype == QB_DTYPE_U8 ? &out->int8
                 : dtype == QB_DTYPE_F16                      ? &out->fp16
                 : dtype == QB_DTYPE_BF16                     ? &out->bf16
                 : dtype == QB_DTYPE_F32                      ? &out->fp32
                                                              : NULL;
    if (of) *of += 100 * share;
}

/* Milliseconds for a profiled second. Steps that are timed one by one take longer than a run, so a
 * run's median is shared out among them. A device's are scaled already, and its median holds copies
 * from and to the host as well. */
static double scale_of(const qb_engine *engine, double all, double median) {
    const bool known = all > 0 && isfinite(median);
    if (!known || (qb_engine_device(engine) && 1e3 * all <= median)) return 1e3;
    return median / all;
}

static qb_status fill_steps(qb_ctx *cx, timed *t, const qb_graph *graph, const qb_probe *probe,
                            double budget, qb_run_row *row) {
    const int32_t n = qb_engine_n_steps(t->engine);
    const int32_t all_n = n + 1; /* and the nodes behind all steps */
    QB_FREED double *seconds =
        QB_NEW(cx, qb_alloc(cx, (size_t)all_n * PROFILES_MAX, sizeof *seconds));
    QB_TRY_NEW(cx, row->step = qb_alloc(cx, (size_t)n, sizeof *row->step));
    int64_t runs = 0;
    const double start = qb_now();
    while (runs < PROFILES_MAX && (!runs || qb_now() - start < budget)) {
        double *own = seconds + runs++ * all_n;
        QB_TRY(
            qb_context_profile(cx, t->context, (const void *const *)probe->data, t->output, own));
        own[n] = qb_context_late_seconds(t->context);
    }
    double all = 0;
    for (int32_t s = 0; s < n; s++) all += median_of(seconds, runs, all_n, s);
    const double ms =
        scale_of(t->engine, all + median_of(seconds, runs, all_n, n), row->latency.median);
    if (all > 0) row->time = (qb_time_shares){0};
    for (int32_t s = 0; s < n; s++) {
        qb_step_info info;
        qb_engine_step(t->engine, s, &info);
        const double median = median_of(seconds, runs, all_n, s);
        if (all > 0) add_share(info.dtype, median / all, &row->time);
        qb_run_step *step = &row->step[row->n_steps++];
        *step = (qb_run_step){.name = qb_strdup(cx, info.name),
                              .op = qb_strdup(cx, info.op),
                              .tactic = qb_strdup(cx, info.tactic),
                              .dtype = qb_strdup(cx, qb_dtype_text(info.dtype)),
                              .reason = row->layers.int8 > 0 ? reason_of(cx, graph, &info)
                                                             : qb_strdup(cx, ""),
                              .ms = ms * median,
                              .flops = info.flops,
                              .bytes = info.bytes};
        if (!step->name || !step->op || !step->tactic || !step->dtype || !step->reason)
            return cx->code;
    }
    return QB_OK;
}

/* ---- other batch sizes ---- */

static qb_status fill_batch(qb_ctx *cx, const qb_compare_options *o, int32_t k, double duration,
                            qb_run *run) {
    QB_RELEASED(timing_release) timing t = {0};
    char label[64];
    snprintf(label, sizeof label, "latency, batch %lld", (long long)o->batches[k]);
    QB_TRY(timing_build(cx, o, o->batches[k], &t));
    QB_TRY(timing_start(cx, &t));
    QB_TRY(measure_rounds(cx, o, label, duration, &t));
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_latency latency = {.median = NAN, .mean = NAN};
        if (t.item[i].engine) qb_latency_of(t.item[i].ms, t.item[i].n, &latency);
        run->row[i].batches[run->row[i].n_batches++] = (qb_run_batch){
            o->batches[k], latency.median, (double)o->batches[k] * 1e3 / latency.mean};
    }
    return QB_OK;
}

/* The device that was measured belongs to the libraries of the record. */
static qb_status note_device(qb_ctx *cx, const timing *t, qb_run *run) {
    const char *device = qb_engine_device(t->item[0].engine);
    if (!device) return QB_OK;
    char *both = QB_NEW(cx, qb_format(cx, "%s; %s", device, run->libraries));
    qb_free(run->libraries);
    run->libraries = both;
    return QB_OK;
}

qb_status qb_timing_fill(qb_ctx *cx, const qb_compare_options *options, timing *t, qb_run *run) {
    const double duration = options->duration_s > 0 ? options->duration_s : 2;
    QB_TRY(timing_start(cx, t));
    QB_TRY(note_device(cx, t, run));
    QB_TRY(add_control(cx, t));
    QB_TRY(measure_rounds(cx, options, "latency", duration, t));
    QB_TRY(fill_intervals(cx, t, run));
    QB_TRY(fill_latency(cx, options, t, run));
    QB_TRY(judge_contention(cx, t, run));
    for (int32_t i = 0; i < t->n; i++)
        QB_TRY(fill_steps(cx, &t->item[i], options->candidate[i].graph, &t->probe, duration / 8,
                          &run->row[i]));
    for (int32_t i = 0; i < t->n && options->n_batches > 0; i++) {
        run->row[i].batches = qb_alloc(cx, (size_t)options->n_batches, sizeof(qb_run_batch));
        if (!run->row[i].batches) return cx->code;
    }
    for (int32_t k = 0; k < options->n_batches; k++)
        QB_TRY(fill_batch(cx, options, k, duration / 2, run));
    return QB_OK;
}

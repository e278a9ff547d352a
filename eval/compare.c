/* qb_compare: accuracy of all engines in one pass over the data, then latency in alternating
 * rounds. */
#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "eval/accuracy.h"

enum { ROUNDS = 20, RUNS_MAX = 100000 }; /* a measurement's slices of time; latencies kept */

/* ---- accuracy ---- */

typedef struct scored {
    qb_graph **graph;   /* with logits exposed */
    qb_engine **engine; /* batch 1, one thread */
    int32_t *logits;
} scored;

static void scored_release(scored *s, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        if (s->engine) qb_engine_free(s->engine[i]);
        if (s->graph) qb_graph_free(s->graph[i]);
    }
    qb_free(s->graph);
    qb_free(s->engine);
    qb_free(s->logits);
}

static qb_status scored_build(qb_ctx *cx, const qb_compare_options *o, scored *s) {
    const size_t n = (size_t)o->n_contenders;
    s->graph = qb_alloc(cx, n, sizeof *s->graph);
    s->engine = qb_alloc(cx, n, sizeof *s->engine);
    s->logits = qb_alloc(cx, n, sizeof *s->logits);
    if (!s->graph || !s->engine || !s->logits) return cx->code;
    for (int32_t i = 0; i < o->n_contenders; i++) {
        const qb_contender *c = &o->contender[i];
        const qb_engine_options build = {.backends = c->backends, .batch = 1, .threads = 1};
        QB_TRY(qb_expose_logits(cx, c->graph, &s->graph[i], &s->logits[i]));
        QB_TRY_WRAP(cx, qb_engine_build(cx, s->graph[i], &build, &s->engine[i]), "%s",
                    c->precision);
    }
    return QB_OK;
}

/* An engine that computes NaN is broken, whatever its other answers are worth. */
static void warn_of_nan(const qb_ctx *cx, const char *precision, const qb_answer *answer,
                        int64_t n) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad += answer[i].top1 == QB_NO_ANSWER;
    if (bad > 0)
        qb_warn(cx, "%s: the output of %lld of %lld samples holds NaN: counted as wrong", precision,
                (long long)bad, (long long)n);
}

static void fill_accuracy(const qb_ctx *cx, const qb_answers *answers, qb_run *run) {
    run->samples = answers->stream.samples;
    run->skipped = answers->stream.skipped;
    run->data_hash = answers->stream.data_hash;
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_answer *answer = answers->answer + i * answers->n;
        const qb_answer *reference = answers->answer;
        qb_run_row *row = &run->row[i];
        warn_of_nan(cx, row->precision, answer, answers->n);
        row->top1 = qb_metric_find("top1")->value(answer, reference, answers->n);
        row->top5 = qb_metric_find("top5")->value(answer, reference, answers->n);
        row->agreement_top1 = qb_metric_find("agreement")->value(answer, reference, answers->n);
        row->sqnr_db = qb_metric_find("sqnr")->value(answer, reference, answers->n);
        row->drop = run->row[0].top1 - row->top1;
    }
}

static qb_status measure_accuracy(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    scored s = {0};
    qb_answers answers = {0};
    qb_status status = QB_OK;
    QB_GO(scored_build(cx, o, &s));
    const int32_t workers = o->workers > 0 ? o->workers : qb_threads(cx);
    QB_GO(qb_answers_collect(cx, (const qb_engine *const *)s.engine, s.logits, o->n_contenders,
                             &o->loader, workers, &answers));
    fill_accuracy(cx, &answers, run);
out:
    qb_answers_release(&answers);
    scored_release(&s, o->n_contenders);
    return status;
}

/* ---- latency ---- */

typedef struct timed {
    qb_engine *engine;
    qb_context *context;
    void **output;
    double *ms;
    int64_t n;
    double spent; /* seconds measured */
} timed;

static void timed_release(timed *t) {
    const int32_t n = t->engine ? qb_engine_n_outputs(t->engine) : 0;
    for (int32_t i = 0; t->output && i < n; i++) qb_free(t->output[i]);
    qb_free(t->output);
    qb_free(t->ms);
    qb_context_free(t->context);
    qb_engine_free(t->engine);
}

static qb_status timed_build(qb_ctx *cx, const qb_compare_options *o, const qb_contender *c,
                             timed *t) {
    const qb_engine_options build = {.backends = c->backends,
                                     .batch = o->batch,
                                     .threads = o->threads > 0 ? o->threads : qb_threads(cx),
                                     .time_tactics = true};
    QB_TRY_WRAP(cx, qb_engine_build(cx, c->graph, &build, &t->engine), "%s", c->precision);
    QB_TRY(qb_context_create(cx, t->engine, &t->context));
    const int32_t n = qb_engine_n_outputs(t->engine);
    t->output = qb_alloc(cx, (size_t)n, sizeof *t->output);
    t->ms = qb_alloc(cx, RUNS_MAX, sizeof *t->ms);
    if (!t->output || !t->ms) return cx->code;
    for (int32_t i = 0; i < n; i++) {
        t->output[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(qb_engine_output(t->engine, i)));
        if (!t->output[i]) return cx->code;
    }
    return QB_OK;
}

static qb_status run_once(qb_ctx *cx, timed *t, const void *input, double *seconds) {
    const void *inputs[1] = {input};
    const double start = qb_now();
    QB_TRY(qb_context_run(cx, t->context, inputs, t->output));
    *seconds = qb_now() - start;
    return QB_OK;
}

/* Runs an engine for `budget` seconds, at least once. Very fast engines run more often than is
 * kept: each round keeps its share, so that all rounds count. Round -1 warms up and keeps nothing.
 */
static qb_status measure_slice(qb_ctx *cx, timed *t, const void *input, int round, double budget) {
    const int64_t keep = round < ROUNDS ? (int64_t)(round + 1) * (RUNS_MAX / ROUNDS) : RUNS_MAX;
    double spent = 0, seconds;
    do {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(run_once(cx, t, input, &seconds));
        spent += seconds;
        if (t->n < keep) t->ms[t->n++] = seconds * 1e3;
    } while (spent < budget);
    if (round >= 0) t->spent += spent;
    return QB_OK;
}

/* Each round gives every engine a slice of time, so that drifts of the machine hit all alike. */
static qb_status measure_rounds(qb_ctx *cx, const qb_compare_options *o, timed *t,
                                const void *input) {
    const double warmup = o->warmup_s > 0 ? o->warmup_s : 0.2;
    const double duration = o->duration_s > 0 ? o->duration_s : 2;
    const int64_t min_runs = o->min_runs < 1 ? 20 : o->min_runs > RUNS_MAX ? RUNS_MAX : o->min_runs;
    for (int32_t e = 0; e < o->n_contenders; e++)
        QB_TRY(measure_slice(cx, &t[e], input, -1, warmup));
    qb_progress progress;
    qb_progress_begin(cx, &progress, "latency", "rounds", ROUNDS);
    bool more = true;
    for (int round = 0; more; round++) {
        more = false;
        for (int32_t e = 0; e < o->n_contenders; e++) {
            QB_TRY(measure_slice(cx, &t[e], input, round, duration / ROUNDS));
            more = more || t[e].n < min_runs || t[e].spent < duration;
        }
        if (progress.done < progress.total) qb_progress_step(&progress, 1);
    }
    qb_progress_end(&progress);
    return QB_OK;
}

/* Normal noise around mid-grey: kernels run at the same speed on any ordinary input. */
static float *noise_input(qb_ctx *cx, const qb_desc *desc) {
    const size_t n = qb_desc_bytes(desc) / sizeof(float);
    float *input = qb_alloc_aligned(cx, n, sizeof *input);
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (size_t i = 0; input && i < n; i++) input[i] = (float)qb_rng_normal(&rng);
    return input;
}

static void fill_latency(const qb_compare_options *o, timed *t, qb_run *run) {
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        qb_engine_memory memory;
        qb_engine_memory_of(t[i].engine, &memory);
        qb_latency_of(t[i].ms, t[i].n, &row->latency);
        row->batch = o->batch;
        row->throughput = (double)o->batch * 1e3 / row->latency.mean;
        row->speedup = run->row[0].latency.median / row->latency.median;
        row->weights_bytes = (int64_t)memory.weights;
        row->arena_bytes = (int64_t)memory.arena;
        row->engine_bytes = (int64_t)qb_engine_bytes(t[i].engine);
        qb_engine_layers(t[i].engine, &row->layers_int8, &row->layers_fp16, &row->layers_fp32);
        run->threads = qb_engine_threads(t[i].engine);
    }
}

static qb_status measure_latency(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    qb_status status = QB_OK;
    float *input = NULL;
    timed *t = qb_alloc(cx, (size_t)o->n_contenders, sizeof *t);
    if (!t) return cx->code;
    for (int32_t i = 0; i < o->n_contenders; i++)
        QB_GO(timed_build(cx, o, &o->contender[i], &t[i]));
    input = noise_input(cx, qb_engine_input(t[0].engine, 0));
    if (!input) QB_GO(cx->code);
    QB_GO(measure_rounds(cx, o, t, input));
    fill_latency(o, t, run);
out:
    for (int32_t i = 0; i < o->n_contenders; i++) timed_release(&t[i]);
    qb_free(t);
    qb_free(input);
    return status;
}

/* ---- environment ---- */

static char *cpu_name(qb_ctx *cx) {
    char *text, *name = NULL;
    size_t size;
    if (qb_file_read(cx, "/proc/cpuinfo", 1 << 22, &text, &size) == QB_OK) {
        const char *line = strstr(text, "model name");
        const char *colon = line ? strchr(line, ':') : NULL;
        const char *words = colon ? colon + 1 + strspn(colon + 1, " \t") : "";
        const int length = (int)strcspn(words, "\n");
        if (length > 0) name = qb_format(cx, "%.*s", length, words);
        qb_free(text);
    }
    qb_ctx_clear(cx);
    return name ? name : qb_strdup(cx, "unknown processor");
}

static qb_status fill_environment(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    struct utsname os;
    const bool known = uname(&os) == 0;
    run->version = qb_strdup(cx, QB_VERSION);
    run->cpu = cpu_name(cx);
    run->host_os = qb_format(cx, "%s %s", known ? os.sysname : "unknown", known ? os.release : "");
    run->libraries = qb_engine_libraries(cx);
    if (!run->version || !run->cpu || !run->host_os || !run->libraries) return cx->code;
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        row->precision = qb_strdup(cx, o->contender[i].precision);
        row->calibration = qb_strdup(cx, o->contender[i].calibration);
        row->backend = qb_strdup(cx, "cpu");
        if (!row->precision || !row->calibration || !row->backend) return cx->code;
    }
    return QB_OK;
}

qb_status qb_compare(qb_ctx *cx, const qb_compare_options *options, qb_run **out) {
    qb_compare_options o = *options;
    if (o.batch < 1) o.batch = 1;
    qb_run *run;
    QB_TRY(qb_run_create(cx, o.n_contenders, &run));
    qb_status status = fill_environment(cx, &o, run);
    if (status == QB_OK) status = measure_accuracy(cx, &o, run);
    if (status == QB_OK) status = measure_latency(cx, &o, run);
    if (status == QB_OK)
        *out = run;
    else
        qb_run_free(run);
    return status;
}

/* Times whole models of the zoo on the GPU: random weights, inputs on the device, recorded graphs
 * replayed one after the other; the figure is the median of the replays.
 *
 *   bench_cuda [--models A,B,...] [--batches 1,8,32,128] [--precisions fp16,int8] [--replays N]
 *              [--seconds S] [--timingCacheFile FILE] [--tacticSources LIST] [--json FILE]
 *              [--steps] [--pairs] [--control] [--trace]
 *
 * --pairs builds FP16 and INT8 of each model and batch with one timing cache and replays both by
 * turns: each row has the ratio of the two, and the exit code is 1 where an INT8 engine is slower.
 * With --control both are FP16 engines of one network: their ratios show what chance alone does.
 *
 * INT8 is u8 affine, calibrated by min-max on seeded inputs; "pure" as precision is INT8 without
 * steps in FP16. After S seconds no further engine is
 * built, so that a run ends in time. The JSON is written after each row, one for each engine: "raw"
 * has the times between marks, unscaled, beside what the marks alone and the run without them take;
 * with --steps each step's tactic, times and the alternatives' times; with --trace for how long no
 * kernel ran, by CUPTI's records of each kernel's begin and end. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bench_models.h"
#include "bench_pairs.h"
#include "cuda_trace.h"
#include "eval/eval.h"
#include "graph/passes.h"
#include "kernels/sources.h"

#define PROFILE_RUNS 20
#define TRACED_RUNS 20
#define WARM_UP 5
#define MOST_MS 4000.0

typedef struct options {
    const char *models, *batches, *precisions, *cache, *sources, *json;
    int replays;
    double seconds;
    bool steps, pairs, control, trace;
    uint32_t without;
} options;

typedef struct bench {
    qb_ctx *cx;
    const options *options;
    double begin;
    json_t *rows;
    int slower; /* INT8 engines, of pairs */
    bool unwritten;
} bench;

/* The rows so far, so that a run that is cut off leaves them. */
static void add_row(bench *b, const qb_engine *engine, json_t *row) {
    json_array_append_new(b->rows, row);
    if (!b->options->json) return;
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:O}", "schema", "qbench.bench_cuda/1", "device",
                  qb_engine_device(engine), "replays", b->options->replays, "rows", b->rows);
    if (!root || json_dump_file(root, b->options->json, JSON_INDENT(1)) != 0) {
        fprintf(stderr, "bench_cuda: %s cannot be written\n", b->options->json);
        b->unwritten = true;
    }
    json_decref(root);
}

/* The next word of a comma-separated list into word[64]; false at the end. */
static bool next_word(const char **list, char *word) {
    size_t n = strcspn(*list, ",");
    if (n == 0) return false;
    snprintf(word, 64, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return true;
}

static json_t *step_json(const qb_step_info *s, double in_run, double raw) {
    json_t *others = json_array();
    for (int32_t i = 0; i < s->n_alternatives; i++)
        json_array_append_new(others, json_pack("{s:s, s:f}", "tactic", s->alternatives[i].tactic,
                                                "us", s->alternatives[i].seconds * 1e6));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:o}", "name", s->name,
                     "op", s->op, "tactic", s->tactic, "impl", s->impl, "dtype",
                     qb_dtype_text(s->dtype), "flops", s->flops, "bytes", s->bytes, "us",
                     s->seconds * 1e6, "us_in_run", in_run * 1e6, "us_raw", raw * 1e6,
                     "alternatives", others);
}

/* Means by the device's clock. */
typedef struct profiled {
    double *seconds, *raw;     /* of each step */
    double sum, marked, marks; /* of the device's steps: scaled, as measured, and their marks */
    double whole, alone;       /* the run; the steps by themselves, as the build timed them */
} profiled;

static qb_status profile(bench *b, const qb_engine *engine, qb_context *context,
                         const bench_ports *ports, profiled *p) {
    qb_profile_raw raw = {.step = p->raw};
    for (int run = 0; run < PROFILE_RUNS; run++)
        QB_TRY(qb_context_profile_raw(b->cx, context, (const void *const *)ports->in, ports->out,
                                      p->seconds, &raw));
    p->marks = raw.marks / PROFILE_RUNS;
    p->whole = raw.whole / PROFILE_RUNS;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        p->seconds[s] /= PROFILE_RUNS;
        p->raw[s] /= PROFILE_RUNS;
        p->marked += p->raw[s];
        if (!info.on_device) continue;
        p->sum += p->seconds[s];
        p->alone += info.seconds;
    }
    return QB_OK;
}

static json_t *steps_json(const qb_engine *engine, const profiled *p) {
    json_t *steps = json_array();
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        json_array_append_new(steps, step_json(&info, p->seconds[s], p->raw[s]));
    }
    return steps;
}

/* A context of its own: what was recorded before the trace began is not seen in it. */
static qb_status trace_runs(bench *b, const qb_engine *engine, const bench_ports *ports,
                            bench_trace *trace) {
    double ms[TRACED_RUNS];
    qb_context *context = NULL;
    qb_status status = QB_OK;
    QB_GO(bench_trace_begin(b->cx));
    QB_GO(qb_context_create(b->cx, engine, &context));
    QB_GO(qb_context_run(b->cx, context, (const void *const *)ports->in, ports->out));
    bench_trace_forget();
    QB_GO(qb_context_replay(b->cx, context, TRACED_RUNS, ms));
    QB_GO(bench_trace_end(b->cx, TRACED_RUNS + 1, trace));
out:
    qb_context_free(context);
    return status;
}

static int32_t fallbacks(const qb_engine *engine) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (!info.fallback_reason) continue;
        if (n++ < 4)
            printf("  on the host: %s '%s': %s\n", info.op, info.name, info.fallback_reason);
    }
    return n;
}

static qb_status measure(bench *b, const qb_engine *engine, const char *model, int64_t batch,
                         const char *precision, double build_s) {
    qb_status status = QB_OK;
    qb_context *context = NULL;
    bench_ports ports = {0};
    int replays = b->options->replays < WARM_UP ? WARM_UP : b->options->replays;
    const size_t n_steps = (size_t)qb_engine_n_steps(engine);
    double *ms = qb_alloc(b->cx, (size_t)replays, sizeof *ms);
    profiled p = {.seconds = qb_alloc(b->cx, n_steps, sizeof *p.seconds),
                  .raw = qb_alloc(b->cx, n_steps, sizeof *p.raw)};
    bench_trace trace = {0};
    if (!ms || !p.seconds || !p.raw) QB_GO(b->cx->code);
    QB_GO(qb_context_create(b->cx, engine, &context));
    QB_GO(bench_ports_new(b->cx, engine, 3, &ports));
    QB_GO(qb_context_run(b->cx, context, (const void *const *)ports.in, ports.out));
    QB_GO(qb_context_replay(b->cx, context, WARM_UP, ms));
    if (ms[WARM_UP - 1] * replays > MOST_MS) { /* hopeless ones must not eat the others' time */
        int fewer = (int)(MOST_MS / ms[WARM_UP - 1]) + 3;
        if (fewer < replays) replays = fewer; /* there is room for no more */
    }
    QB_GO(qb_context_replay(b->cx, context, replays, ms));
    qb_latency latency;
    qb_latency_of(ms, replays, &latency);
    QB_GO(profile(b, engine, context, &ports, &p));
    if (b->options->trace && trace_runs(b, engine, &ports, &trace) != QB_OK) {
        printf("  no trace: %s\n", b->cx->message);
        qb_ctx_clear(b->cx);
    }
    const int32_t n_host = fallbacks(engine);
    const qb_layer_counts n = qb_engine_layers(engine);
    printf("%-16s %-4s batch %4lld: %9.4f ms (min %.4f, p99 %.4f), %10.0f items/s, steps %.4f ms "
           "(by marks %.4f less %.4f, whole %.4f, alone %.4f, idle %.1f %%), int8 %d fp16 %d fp32 "
           "%d host %d, built in %.1f s\n",
           model, precision, (long long)batch, latency.median, latency.min, latency.p99,
           (double)batch * 1e3 / latency.median, p.sum * 1e3, p.marked * 1e3, p.marks * 1e3,
           p.whole * 1e3, p.alone * 1e3, 100 * trace.idle, (int)n.int8, (int)n.fp16, (int)n.fp32,
           (int)n_host, build_s);
    fflush(stdout);
    json_t *row = json_pack(
        "{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:f}", "model", model,
        "precision", precision, "replays", replays, "batch", (json_int_t)batch, "ms_median",
        latency.median, "ms_min", latency.min, "ms_p99", latency.p99, "items_per_s",
        (double)batch * 1e3 / latency.median, "ms_sum_of_steps", p.sum * 1e3, "int8", (int)n.int8,
        "fp16", (int)n.fp16, "fp32", (int)n.fp32, "on_host", (int)n_host, "build_s", build_s);
    json_object_set_new(row, "raw",
                        json_pack("{s:f, s:f, s:f, s:f}", "ms_between_marks", p.marked * 1e3,
                                  "ms_marks", p.marks * 1e3, "ms_whole", p.whole * 1e3,
                                  "ms_steps_alone", p.alone * 1e3));
    if (b->options->trace) json_object_set_new(row, "trace", bench_trace_json(&trace));
    if (b->options->steps) json_object_set_new(row, "steps", steps_json(engine, &p));
    add_row(b, engine, row);
out:
    bench_ports_free(&ports);
    qb_context_free(context);
    qb_free(ms);
    qb_free(p.seconds);
    qb_free(p.raw);
    return status;
}

static qb_status build(bench *b, const qb_graph *graph, int64_t batch, const char *precision,
                       qb_engine **out) {
    const bool tf32 = strcmp(precision, "tf32") == 0;
    const bool full = tf32 || strcmp(precision, "fp32") == 0;
    const qb_build_spec how = {.backends = "cuda",
                               .float_type = full ? QB_DTYPE_F32 : QB_DTYPE_F16,
                               .tf32 = tf32,
                               .timing_cache = b->options->cache,
                               .excluded_sources = b->options->without,
                               .no_mixed_precision = strcmp(precision, "pure") == 0,
                               .batch = batch};
    return qb_engine_build(b->cx, graph, &how, out);
}

static qb_status bench_engine(bench *b, const qb_graph *graph, const char *model, int64_t batch,
                              const char *precision) {
    qb_engine *engine = NULL;
    double start = qb_now();
    qb_status status = build(b, graph, batch, precision, &engine);
    if (status == QB_OK) status = measure(b, engine, model, batch, precision, qb_now() - start);
    qb_engine_free(engine);
    return status;
}

static json_t *pair_json(const char *model, int64_t batch, const bench_pair *p, bool control,
                         int int8, const double build_s[2]) {
    json_t *row = json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:b, s:i}", "model", model, "batch", (json_int_t)batch,
        "ms_fp16", p->ms[0], control ? "ms_fp16_again" : "ms_int8", p->ms[1], "ratio", p->ratio,
        "ratio_low", p->low, "ratio_high", p->high, "same_engine", p->same, "rounds", p->rounds);
    if (!row || control) return row;
    json_object_set_new(row, "int8_steps", json_integer(int8));
    json_object_set_new(row, "build_fp16_s", json_real(build_s[0]));
    json_object_set_new(row, "build_int8_s", json_real(build_s[1]));
    return row;
}

static qb_status bench_pair_of(bench *b, const qb_graph *const graph[2], const char *model,
                               int64_t batch) {
    const bool control = b->options->control;
    const char *const precision[2] = {"fp16", control ? "fp16" : "int8"};
    qb_engine *engine[2] = {NULL, NULL};
    double build_s[2];
    bench_pair pair;
    qb_status status = QB_OK;
    for (int e = 0; e < 2; e++) {
        const double start = qb_now();
        QB_GO(build(b, graph[control ? 0 : e], batch, precision[e], &engine[e]));
        build_s[e] = qb_now() - start;
    }
    QB_GO(bench_pair_measure(b->cx, engine[0], engine[1], &pair));
    const bool slower = !control && bench_pair_slower(&pair);
    b->slower += slower;
    printf("%-16s batch %4lld: %s %9.4f ms, FP16 %9.4f ms, ratio %.4f (%.4f to %.4f)%s, built in "
           "%.1f and %.1f s\n",
           model, (long long)batch, control ? "FP16" : "INT8", pair.ms[1], pair.ms[0], pair.ratio,
           pair.low, pair.high,
           pair.same ? ", the same engine"
           : slower  ? ", SLOWER"
                     : "",
           build_s[1], build_s[0]);
    fflush(stdout);
    add_row(
        b, engine[1],
        pair_json(model, batch, &pair, control, (int)qb_engine_layers(engine[1]).int8, build_s));
out:
    for (int e = 0; e < 2; e++) qb_engine_free(engine[e]);
    return status;
}

/* Is "int8" or "pure" in the list? */
static bool has_quantized(const char *precisions) {
    return strstr(precisions, "int8") || strstr(precisions, "pure");
}

static qb_status bench_batches(bench *b, const qb_graph *graph, const qb_graph *quantized,
                               const char *model) {
    const char *batches = b->options->batches;
    char batch[64], precision[64];
    const qb_graph *const both[2] = {graph, quantized};
    while (next_word(&batches, batch)) {
        if (b->options->pairs) {
            if (qb_now() - b->begin > b->options->seconds) return QB_OK;
            QB_TRY(bench_pair_of(b, both, model, atoll(batch)));
            continue;
        }
        const char *precisions = b->options->precisions;
        while (next_word(&precisions, precision)) {
            if (qb_now() - b->begin > b->options->seconds) return QB_OK;
            const qb_graph *g = has_quantized(precision) ? quantized : graph;
            QB_TRY(bench_engine(b, g, model, atoll(batch), precision));
        }
    }
    return QB_OK;
}

static qb_status bench_model(bench *b, const char *model) {
    qb_status status = QB_OK;
    qb_graph *graph = NULL, *quantized = NULL;
    if (qb_now() - b->begin > b->options->seconds) {
        printf("%s: no time left\n", model);
        return QB_OK;
    }
    QB_GO(bench_zoo(b->cx, model, &graph));
    QB_GO(qb_optimize(b->cx, graph, NULL, NULL));
    if (has_quantized(b->options->precisions)) QB_GO(bench_quantize(b->cx, graph, &quantized));
    QB_GO(bench_batches(b, graph, quantized, model));
out:
    qb_graph_free(quantized);
    qb_graph_free(graph);
    return status;
}

/* A model that fails is reported and does not keep the others from being measured. */
static int bench_all(bench *b) {
    const char *models = b->options->models;
    char model[64];
    int failed = 0;
    while (next_word(&models, model)) {
        if (bench_model(b, model) == QB_OK) continue;
        printf("%s: %s\n", model, b->cx->message);
        qb_ctx_clear(b->cx);
        failed = 1;
    }
    return failed;
}

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool *flag = strcmp(argv[i], "--steps") == 0     ? &o->steps
                     : strcmp(argv[i], "--pairs") == 0   ? &o->pairs
                     : strcmp(argv[i], "--control") == 0 ? &o->control
                     : strcmp(argv[i], "--trace") == 0   ? &o->trace
                                                         : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        if (!value) return false;
        if (strcmp(argv[i], "--models") == 0)
            o->models = value;
        else if (strcmp(argv[i], "--batches") == 0)
            o->batches = value;
        else if (strcmp(argv[i], "--precisions") == 0)
            o->precisions = value;
        else if (strcmp(argv[i], "--timingCacheFile") == 0)
            o->cache = value;
        else if (strcmp(argv[i], "--tacticSources") == 0)
            o->sources = value;
        else if (strcmp(argv[i], "--json") == 0)
            o->json = value;
        else if (strcmp(argv[i], "--replays") == 0)
            o->replays = atoi(value);
        else if (strcmp(argv[i], "--seconds") == 0)
            o->seconds = atof(value);
        else
            return false;
        i++;
    }
    return o->replays > 0;
}

int main(int argc, char **argv) {
    options o = {.models = "resnet50,mobilenet_v2,squeezenet1_1,resnet18,efficientnet_b0,"
                           "densenet121,vit_b_16,yolov5s,bert_base",
                 .batches = "1,8,32,128",
                 .precisions = "fp16,int8",
                 .replays = 200,
                 .seconds = 3600};
    static qb_ctx cx;
    qb_ctx_init(&cx);
    bench b = {.cx = &cx, .options = &o, .begin = qb_now(), .rows = json_array()};
    if (!b.rows || !parse(argc, argv, &o) || qb_sources_parse(&cx, o.sources, &o.without)) {
        fprintf(stderr, "%s\nusage: see the head of bench_cuda.c\n", cx.message);
        return 2;
    }
    o.pairs = o.pairs || o.control;
    int failed = bench_all(&b);
    if (o.pairs && !o.control)
        printf("%zu pairs, INT8 slower than FP16 in %d\n", json_array_size(b.rows), b.slower);
    json_decref(b.rows);
    return failed || b.slower > 0 || b.unwritten;
}

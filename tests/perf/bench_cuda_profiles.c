/* What ranges of shapes cost on the GPU: an engine with a profile, loaded from its file, at its
 * usual shapes against one that is built for these alone, replays of both in turn; and how long a
 * context takes to turn to other shapes for the first time (to the largest, for which the file has
 * what is compiled; to others) and again.
 *
 *   bench_cuda_profiles [--replays N] [--timingCacheFile FILE] [--json FILE]
 *
 * Figures are medians; random weights, inputs on the device. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sort.h"
#include "bench_ranges.h"
#include "engine/file.h"

#define ROUNDS 7 /* replays of the one, then of the other */
#define WARM_UP 5
#define TURNS 200
#define REPLAYS_MAX 1000

typedef struct row {
    const char *model;
    bool int8;
    bench_range range;
    qb_shape other; /* inside, and of no interest to the build */
} row;

#define IMAGES(N)                                                                                  \
    {                                                                                              \
        .rank = 4, .dim = { N, 3, 224, 224 }                                                       \
    }
#define TOKENS(N, L)                                                                               \
    {                                                                                              \
        .rank = 2, .dim = { N, L }                                                                 \
    }

static const row rows[] = {
    {"resnet18", false, {IMAGES(1), IMAGES(8), IMAGES(32)}, IMAGES(5)},
    {"resnet50", false, {IMAGES(1), IMAGES(32), IMAGES(128)}, IMAGES(5)},
    {"resnet50", true, {IMAGES(1), IMAGES(32), IMAGES(128)}, IMAGES(5)},
    {"mobilenet_v2", false, {IMAGES(1), IMAGES(32), IMAGES(128)}, IMAGES(5)},
    {"squeezenet1_1", false, {IMAGES(1), IMAGES(8), IMAGES(32)}, IMAGES(5)},
    {"squeezenet1_1", true, {IMAGES(1), IMAGES(8), IMAGES(32)}, IMAGES(5)},
    {"bert_base", false, {TOKENS(1, 8), TOKENS(1, 128), TOKENS(8, 256)}, TOKENS(2, 50)},
};

typedef struct options {
    int replays;
    const char *cache, *json;
} options;

static double median(double *values, int n) {
    qb_sort_doubles(values, (size_t)n);
    return values[n / 2];
}

static qb_status start(qb_ctx *cx, qb_context *context, double *ms) {
    bench_ports ports = {0};
    QB_TRY(bench_ports_new(cx, qb_context_engine(context), 3, &ports));
    qb_status status = qb_context_run(cx, context, (const void *const *)ports.in, ports.out);
    bench_ports_free(&ports);
    return status == QB_OK ? qb_context_replay(cx, context, WARM_UP, ms) : status;
}

/* The smallest of the rounds' medians for each: what disturbs one round does not count. */
static qb_status race(qb_ctx *cx, int replays, qb_context *context[2], double ms[2]) {
    double sample[REPLAYS_MAX];
    for (int i = 0; i < 2; i++) {
        QB_TRY(start(cx, context[i], sample));
        ms[i] = 1e30;
    }
    for (int round = 0; round < 2 * ROUNDS; round++) {
        const int i = round % 2;
        QB_TRY(qb_context_replay(cx, context[i], replays, sample));
        const double took = median(sample, replays);
        if (took < ms[i]) ms[i] = took;
    }
    return QB_OK;
}

static qb_status turn(qb_ctx *cx, qb_context *context, const qb_shape *shape, double *ms) {
    const bench_shapes inputs = bench_shapes_of(shape);
    const double begin = qb_now();
    QB_TRY(qb_context_set_shapes(cx, context, inputs.of));
    *ms = (qb_now() - begin) * 1e3;
    return QB_OK;
}

typedef struct turns {
    double largest, first, later; /* ms */
} turns;

static qb_status interleave(qb_ctx *cx, qb_context *context, const row *r, turns *t) {
    double took[TURNS];
    QB_TRY(turn(cx, context, &r->range.max, &t->largest));
    QB_TRY(turn(cx, context, &r->other, &t->first));
    for (int i = 0; i < TURNS; i++)
        QB_TRY(turn(cx, context, i % 2 ? &r->other : &r->range.opt, &took[i]));
    t->later = median(took, TURNS);
    return QB_OK;
}

/* The engine as its file gives it. */
static qb_status reload(qb_ctx *cx, const row *r, qb_engine **engine, double *ms) {
    const qb_engine_origin origin = {.model = r->model, .precision = r->int8 ? "int8" : "fp16"};
    char path[] = "/tmp/bench_cuda_profiles.XXXXXX";
    const int made = mkstemp(path);
    if (made < 0) return qb_fail(cx, QB_STATUS_INTERNAL, "%s: cannot be made", path);
    (void)close(made);
    qb_status status = qb_engine_save(cx, *engine, &origin, path);
    qb_engine_free(*engine);
    *engine = NULL;
    const double start = qb_now();
    if (status == QB_OK) status = qb_engine_load(cx, path, engine);
    *ms = (qb_now() - start) * 1e3;
    (void)unlink(path); /* what is mapped stays */
    return status;
}

static json_t *row_json(const row *r, const double ms[2], double load_ms, const turns *t) {
    char usual[96], other[96];
    qb_shape_text(&r->range.opt, usual, sizeof usual);
    qb_shape_text(&r->other, other, sizeof other);
    const char *const precision = r->int8 ? "int8" : "fp16";
    printf("%-14s %s at %s: alone %.4f ms, in ranges %.4f ms, ratio %.4f; loaded in %.3g ms; to "
           "the largest in %.3g ms, to %s in %.3g ms, again in %.3g ms\n",
           r->model, precision, usual, ms[0], ms[1], ms[1] / ms[0], load_ms, t->largest, other,
           t->first, t->later);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:f}", "model", r->model,
                     "precision", precision, "usual", usual, "alone_ms", ms[0], "ranges_ms", ms[1],
                     "ratio", ms[1] / ms[0], "load_ms", load_ms, "largest_turn_ms", t->largest,
                     "other", other, "first_turn_ms", t->first, "later_turn_ms", t->later);
}

static qb_status measure(qb_ctx *cx, const options *o, const row *r, json_t *out, char *device) {
    const qb_build_spec build = {
        .backends = "cuda", .float_type = QB_DTYPE_F16, .timing_cache = o->cache};
    qb_graph *graph = NULL;
    qb_engine *engine[2] = {NULL};
    qb_context *context[2] = {NULL};
    qb_status status = QB_OK;
    double ms[2], load_ms;
    turns t;
    QB_GO(bench_range_model(cx, r->model, r->int8, false, &graph));
    QB_GO(bench_build_at(cx, graph, &r->range.opt, build, &engine[0]));
    QB_GO(bench_build_ranges(cx, graph, &r->range, 1, build, &engine[1]));
    QB_GO(reload(cx, r, &engine[1], &load_ms));
    for (int i = 0; i < 2; i++) QB_GO(qb_context_create(cx, engine[i], &context[i]));
    QB_GO(race(cx, o->replays, context, ms));
    QB_GO(interleave(cx, context[1], r, &t));
    snprintf(device, 256, "%s", qb_engine_device(engine[1]));
    json_array_append_new(out, row_json(r, ms, load_ms, &t));
out:
    for (int i = 0; i < 2; i++) {
        qb_context_free(context[i]);
        qb_engine_free(engine[i]);
    }
    qb_graph_free(graph);
    return status;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.replays = 200};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--replays") == 0)
            o->replays = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--timingCacheFile") == 0)
            o->cache = argv[i + 1];
        else if (strcmp(argv[i], "--json") == 0)
            o->json = argv[i + 1];
        else
            return false;
    }
    return argc % 2 == 1 && o->replays >= WARM_UP && o->replays <= REPLAYS_MAX;
}

int main(int argc, char **argv) {
    options o;
    qb_ctx cx;
    char device[256] = "";
    qb_ctx_init(&cx);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "bench_cuda_profiles [--replays N] [--timingCacheFile FILE] "
                        "[--json FILE]\n");
        return 2;
    }
    json_t *out = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (measure(&cx, &o, &rows[i], out, device) != QB_OK) {
            fprintf(stderr, "%s: %s\n", rows[i].model, cx.message);
            return 1;
        }
        fflush(stdout);
    }
    json_t *root =
        json_pack("{s:s, s:i, s:o}", "device", device, "replays", o.replays, "engines", out);
    if (o.json && json_dump_file(root, o.json, JSON_INDENT(1)) != 0) return 1;
    json_decref(root);
    return 0;
}

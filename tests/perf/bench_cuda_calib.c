/* What calibration on the GPU costs beside plain FP32 inference.
 *
 *   bench_cuda_calib [--model resnet50] [--batch 64] [--batches 40] [--json FILE]
 *
 * Milliseconds a batch of
 *   inference  an FP32 engine whose kernels were chosen by timing: median of replays
 *   plain      the engine that calibration uses (every value in memory, the first kernel that
 *              fits), without observers
 *   collect    that engine with observers behind each step and the inputs' way to the device, by
 *              the wall clock over all batches */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bench_models.h"
#include "engine/collect.h"
#include "eval/eval.h"
#include "graph/passes.h"

#define REPLAYS 30
#define WARM_UP 3

typedef struct options {
    const char *model, *json;
    int64_t batch, batches;
} options;

static qb_status time_replays(qb_ctx *cx, const qb_engine *engine, double *ms) {
    double sample[REPLAYS];
    qb_context *context = NULL;
    bench_ports ports = {0};
    qb_status status = QB_OK;
    QB_GO(qb_context_create(cx, engine, &context));
    QB_GO(bench_ports_new(cx, engine, 3, &ports));
    QB_GO(qb_context_run(cx, context, (const void *const *)ports.in, ports.out));
    QB_GO(qb_context_replay(cx, context, WARM_UP, sample));
    QB_GO(qb_context_replay(cx, context, REPLAYS, sample));
    qb_latency latency;
    qb_latency_of(sample, REPLAYS, &latency);
    *ms = latency.median;
out:
    bench_ports_free(&ports);
    qb_context_free(context);
    return status;
}

static qb_status time_collector(qb_ctx *cx, const qb_engine *engine, const options *o, double *ms,
                                int32_t *values) {
    qb_collector *collector;
    qb_collector_slot *slot;
    bench_ports ports = {0};
    double begin = 0;
    qb_status status = QB_OK;
    QB_TRY(qb_collector_create(cx, engine, &collector));
    QB_GO(bench_ports_new(cx, engine, 3, &ports));
    for (int64_t b = -WARM_UP; b < o->batches; b++) {
        QB_GO(qb_collector_swap(cx, collector, &slot));
        if (b == 0) {
            QB_GO(qb_collector_wait(cx, collector));
            begin = qb_now();
        }
        memcpy(slot->input[0], ports.in[0], qb_desc_bytes(qb_engine_input(engine, 0)));
        QB_GO(qb_collector_start(cx, collector, o->batch));
    }
    QB_GO(qb_collector_wait(cx, collector));
    *ms = (qb_now() - begin) * 1e3 / (double)o->batches;
    *values = qb_collector_count(collector);
out:
    bench_ports_free(&ports);
    qb_collector_free(collector);
    return status;
}

static qb_status measure(qb_ctx *cx, const options *o) {
    qb_graph *graph = NULL;
    qb_engine *fast = NULL, *observable = NULL;
    double inference, plain, collect;
    int32_t values;
    qb_status status = QB_OK;
    qb_build_spec build = {.backends = "cuda", .batch = o->batch};
    QB_GO(bench_zoo(cx, o->model, &graph));
    QB_GO(qb_optimize(cx, graph, NULL, NULL));
    QB_GO(qb_engine_build(cx, graph, &build, &fast));
    QB_GO(time_replays(cx, fast, &inference));
    QB_GO(qb_keep_inner(cx, graph));
    build.observable = build.first_tactic = true;
    QB_GO(qb_engine_build(cx, graph, &build, &observable));
    QB_GO(time_replays(cx, observable, &plain));
    QB_GO(time_collector(cx, observable, o, &collect, &values));
    printf("%s batch %lld, %d values: inference %.3f ms, plain %.3f ms, collect %.3f ms: "
           "observers %.1f %% of plain, calibration %.1f %% above inference, %.0f images/s\n",
           o->model, (long long)o->batch, (int)values, inference, plain, collect,
           100 * (collect - plain) / plain, 100 * (collect - inference) / inference,
           (double)o->batch * 1e3 / collect);
    if (o->json) {
        json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:f, s:f, s:f}", "schema",
                                 "qbench.bench_cuda_calib/1", "device", qb_engine_device(fast),
                                 "model", o->model, "batch", (json_int_t)o->batch, "batches",
                                 (json_int_t)o->batches, "values", (int)values, "ms_inference",
                                 inference, "ms_plain", plain, "ms_collect", collect);
        if (!root || json_dump_file(root, o->json, JSON_INDENT(1)) != 0)
            status = qb_fail(cx, QB_STATUS_INVALID, "%s cannot be written", o->json);
        json_decref(root);
    }
out:
    qb_engine_free(observable);
    qb_engine_free(fast);
    qb_graph_free(graph);
    return status;
}

int main(int argc, char **argv) {
    options o = {.model = "resnet50", .batch = 64, .batches = 40};
    static qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--model") == 0)
            o.model = argv[i + 1];
        else if (strcmp(argv[i], "--batch") == 0)
            o.batch = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--batches") == 0)
            o.batches = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            o.json = argv[i + 1];
    }
    if (o.batch < 1 || o.batches < 1) {
        fprintf(stderr, "usage: see the head of bench_cuda_calib.c\n");
        return 2;
    }
    if (measure(&cx, &o) == QB_OK) return 0;
    fprintf(stderr, "bench_cuda_calib: %s\n", cx.message);
    return 1;
}

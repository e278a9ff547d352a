/* The engine's side of tests/perf/cpu_peers.py: makes models, and times one engine on request so
 * that the script can take turns between qbench and its peers in one run.
 *
 *   bench_engine zoo NAME OUT.onnx          a model of the zoo, tokens as usual
 *   bench_engine quantize IN.onnx OUT.onnx  Q/DQ model, calibrated by min-max on seeded inputs
 *   bench_engine run IN.onnx BATCH THREADS [BACKENDS]
 *       prints "ready", then for each number N read from stdin runs N times and prints the
 *       milliseconds of each on one line
 *   bench_engine profile IN.onnx BATCH THREADS [BACKENDS]
 *       prints each step with its shortest time of many runs, or of what fits in a few seconds
 *   bench_engine answer IN.onnx THREADS
 *       for each sample (all inputs, raw, one after the other) on stdin the outputs on stdout; at
 *       the end the number of integer layers and of all on stderr */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bench_models.h"
#include "graph/passes.h"

#define PROFILE_RUNS 60
#define PROFILE_SECONDS 5.0

typedef struct bench {
    qb_ctx *cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    bench_ports ports;
} bench;

static qb_status load(qb_ctx *cx, const char *path, qb_graph **out) {
    QB_TRY(qb_onnx_load(cx, path, out));
    return qb_optimize(cx, *out, NULL, NULL);
}

static qb_status open_engine(bench *b, int64_t batch, int threads, const char *backends) {
    qb_build_spec options = {.batch = batch, .threads = threads, .backends = backends};
    QB_TRY(qb_engine_build(b->cx, b->graph, &options, &b->engine));
    QB_TRY(qb_context_create(b->cx, b->engine, &b->context));
    return bench_ports_new(b->cx, b->engine, 7, &b->ports);
}

static void close_bench(bench *b) {
    bench_ports_free(&b->ports);
    qb_context_free(b->context);
    qb_engine_free(b->engine);
    qb_graph_free(b->graph);
}

static qb_status run_once(bench *b) {
    return qb_context_run(b->cx, b->context, (const void *const *)b->ports.in, b->ports.out);
}

static qb_status serve(bench *b) {
    int n;
    QB_TRY(run_once(b));
    printf("ready\n");
    fflush(stdout);
    while (scanf("%d", &n) == 1) {
        for (int i = 0; i < n; i++) {
            double start = qb_now();
            QB_TRY(run_once(b));
            printf("%.6f ", (qb_now() - start) * 1e3);
        }
        printf("\n");
        fflush(stdout);
    }
    return QB_OK;
}

static qb_status profile(bench *b) {
    int32_t n = qb_engine_n_steps(b->engine);
    double *best = qb_alloc(b->cx, (size_t)n, sizeof *best), total = 0.0;
    double *seconds = qb_alloc(b->cx, (size_t)n, sizeof *seconds);
    qb_status status = best && seconds ? QB_OK : b->cx->code;
    const double start = qb_now();
    for (int run = 0; run < PROFILE_RUNS && status == QB_OK; run++) {
        if (run > 0 && qb_now() - start > PROFILE_SECONDS) break;
        memset(seconds, 0, (size_t)n * sizeof *seconds);
        status = qb_context_profile(b->cx, b->context, (const void *const *)b->ports.in,
                                    b->ports.out, seconds);
        for (int32_t s = 0; s < n; s++)
            if (run == 0 || seconds[s] < best[s]) best[s] = seconds[s];
    }
    for (int32_t s = 0; s < n && status == QB_OK; s++) {
        qb_step_info info;
        qb_engine_step(b->engine, s, &info);
        total += best[s];
        printf("%3d %-34.34s %-20.20s %-26s %-4s %9.1f us %8.1f GOPS %6.1f GB/s\n", (int)s,
               info.name, info.op, info.tactic, qb_dtype_text(info.dtype), best[s] * 1e6,
               info.flops / best[s] * 1e-9, info.bytes / best[s] * 1e-9);
    }
    printf("sum of shortest: %.3f ms\n", total * 1e3);
    qb_free(best);
    qb_free(seconds);
    return status;
}

static bool read_sample(bench *b) {
    bool whole = true;
    for (int32_t i = 0; i < qb_engine_n_inputs(b->engine); i++)
        whole =
            fread(b->ports.in[i], qb_desc_bytes(qb_engine_input(b->engine, i)), 1, stdin) == 1 &&
            whole;
    return whole;
}

static qb_status answer(bench *b) {
    while (read_sample(b)) {
        QB_TRY(run_once(b));
        for (int32_t i = 0; i < qb_engine_n_outputs(b->engine); i++)
            fwrite(b->ports.out[i], qb_desc_bytes(qb_engine_output(b->engine, i)), 1, stdout);
    }
    const qb_layer_counts n = qb_engine_layers(b->engine);
    fprintf(stderr, "%d of %d layers in int8\n", n.int8, n.int8 + n.fp16 + n.bf16 + n.fp32);
    return fflush(stdout) == 0 ? QB_OK : qb_fail_errno(b->cx, "standard output");
}

/* ---- quantizing ------------------------------------------------------------------------------ */

static qb_status quantize(bench *b, const char *out) {
    qb_graph *quantized = NULL;
    QB_TRY(bench_quantize(b->cx, b->graph, &quantized));
    qb_status status = qb_onnx_save(b->cx, quantized, out);
    qb_graph_free(quantized);
    return status;
}

static qb_status write_zoo(bench *b, const char *name, const char *out) {
    QB_TRY(bench_zoo(b->cx, name, &b->graph));
    return qb_onnx_save(b->cx, b->graph, out);
}

static qb_status command(bench *b, int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "zoo") == 0) return write_zoo(b, argv[2], argv[3]);
    if (argc >= 4) QB_TRY(load(b->cx, argv[2], &b->graph));
    if (argc == 4 && strcmp(argv[1], "quantize") == 0) return quantize(b, argv[3]);
    if (argc == 4 && strcmp(argv[1], "answer") == 0) {
        QB_TRY(open_engine(b, 1, atoi(argv[3]), NULL));
        return answer(b);
    }
    bool is_run = argc >= 5 && strcmp(argv[1], "run") == 0;
    if (!is_run && !(argc >= 5 && strcmp(argv[1], "profile") == 0))
        return qb_fail(b->cx, QB_STATUS_USAGE, "usage: see the head of bench_engine.c");
    QB_TRY(open_engine(b, atoll(argv[3]), atoi(argv[4]), argc > 5 ? argv[5] : NULL));
    return is_run ? serve(b) : profile(b);
}

int main(int argc, char **argv) {
    static qb_ctx cx;
    qb_ctx_init(&cx);
    bench b = {.cx = &cx};
    qb_status status = command(&b, argc, argv);
    close_bench(&b);
    if (status != QB_OK) fprintf(stderr, "bench_engine: %s\n", cx.message);
    return status == QB_OK ? 0 : status == QB_STATUS_USAGE ? 2 : 1;
}

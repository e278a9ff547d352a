/* Networks in INT8 give the same bytes in every tier of instruction sets that the processor has.
 * Each tier is a process of its own, for libraries look at the processor once. */
#include "qb_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/processor.h"
#include "bench_models.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "graph/zoo.h"

enum { SIDE = 64, CLASSES = 1000, THREADS = 2 };

static qb_status quantize(qb_ctx *cx, const char *name, const char *path) {
    const qb_zoo_options options = {.side = SIDE};
    qb_graph *graph = NULL, *quantized = NULL;
    QB_TRY(qb_zoo_build(cx, name, 1, &options, &graph));
    QB_TRY(qb_optimize(cx, graph, NULL, NULL));
    QB_TRY(bench_quantize(cx, graph, &quantized));
    QB_TRY(qb_onnx_save(cx, quantized, path));
    qb_graph_free(quantized);
    qb_graph_free(graph);
    return QB_OK;
}

static qb_status answer(qb_ctx *cx, const char *path, float *out) {
    const qb_build_spec spec = {.batch = 1, .threads = THREADS};
    qb_graph *graph = NULL;
    qb_engine *engine = NULL;
    qb_context *context = NULL;
    bench_ports ports = {0};
    QB_TRY(qb_onnx_load(cx, path, &graph));
    QB_TRY(qb_optimize(cx, graph, NULL, NULL));
    QB_TRY(qb_engine_build(cx, graph, &spec, &engine));
    QB_TRY(qb_context_create(cx, engine, &context));
    QB_TRY(bench_ports_new(cx, engine, 7, &ports));
    if (qb_desc_bytes(qb_engine_output(engine, 0)) != CLASSES * sizeof *out)
        return qb_fail(cx, QB_STATUS_INVALID, "expected %d classes", CLASSES);
    QB_TRY(qb_context_run(cx, context, (const void *const *)ports.in, ports.out));
    memcpy(out, ports.out[0], CLASSES * sizeof *out);
    bench_ports_free(&ports);
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
    return QB_OK;
}

/* In a process of its own, held to `tier`: quantizes, or (where out is not NULL) runs. */
static void in_process(const char *tier, const char *name, const char *path, float *out) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static qb_ctx cx;
        qb_ctx_init(&cx);
        if (tier) setenv("QB_CPU", tier, 1);
        const qb_status got = out ? answer(&cx, path, out) : quantize(&cx, name, path);
        if (got != QB_OK) fprintf(stderr, "%s, %s: %s\n", name, tier ? tier : "", cx.message);
        _exit(got == QB_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void same_bytes(const char *name) {
    char path[] = "/tmp/qb_tiers_XXXXXX";
    const size_t bytes = 2 * CLASSES * sizeof(float);
    float *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int fd = mkstemp(path);
    assert_true(out != MAP_FAILED && fd >= 0);
    in_process(NULL, name, path, NULL);
    in_process(NULL, name, path, out);
    for (qb_tier tier = QB_TIER_SCALAR; tier < QB_TIER_COUNT; tier++) {
        if (!qb_processor_has(tier)) continue;
        memset(out + CLASSES, 0, CLASSES * sizeof *out);
        in_process(qb_tier_text(tier), name, path, out + CLASSES);
        if (memcmp(out, out + CLASSES, CLASSES * sizeof *out) != 0)
            fail_msg("%s: other bytes in tier %s", name, qb_tier_text(tier));
    }
    close(fd);
    unlink(path);
    munmap(out, bytes);
}

static void residuals_and_depthwise(void **state) {
    (void)state;
    same_bytes("mobilenet_v2");
}
static void concatenations(void **state) {
    (void)state;
    same_bytes("squeezenet1_1");
}
static void exponentials_and_gates(void **state) {
    (void)state;
    same_bytes("efficientnet_b0");
}
static void scaled_channels(void **state) {
    (void)state;
    same_bytes("densenet121");
}

int main(void) {
    if (getenv("QB_CPU")) return 77; /* the caller wants one tier */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residuals_and_depthwise),
        cmocka_unit_test(concatenations),
        cmocka_unit_test(exponentials_and_gates),
        cmocka_unit_test(scaled_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

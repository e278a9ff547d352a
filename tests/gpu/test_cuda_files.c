/* Engine files on the GPU: what is loaded computes the same bytes as what was saved, in FP32, FP16
 * and INT8 with FP16 steps; the same timing cache gives the same file; and loading takes a tenth of
 * the build. Prints sizes and times. Skips without a device. QB_TEST_MODELS (comma separated)
 * replaces the list of models.
 * ctest-timeout: 300 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "bench_models.h"
#include "engine/file.h"
#include "graph/passes.h"
#include "graph/zoo.h"
#include "kernels/cuda/common/device.h"
#include "qb_test.h"

#define MODELS "squeezenet1_1,resnet18,mobilenet_v2"

typedef struct places {
    char folder[QB_TEST_PATH], first[QB_TEST_PATH], second[QB_TEST_PATH], cache[QB_TEST_PATH];
} places;

static double build(qb_ctx *cx, const qb_graph *graph, qb_dtype type, const places *p,
                    qb_engine **out) {
    const qb_build_spec options = {
        .backends = "cuda", .float_type = type, .timing_cache = p->cache};
    const double start = qb_now();
    assert_ok(cx, qb_engine_build(cx, graph, &options, out));
    return qb_now() - start - qb_engine_device_seconds(*out);
}

static double load(qb_ctx *cx, const char *path, qb_engine **out) {
    const double start = qb_now();
    assert_ok(cx, qb_engine_load(cx, path, out));
    return qb_now() - start - qb_engine_device_seconds(*out);
}

static size_t same_bytes(qb_ctx *cx, const places *p) {
    qb_map a, b;
    assert_ok(cx, qb_map_open(cx, p->first, &a));
    assert_ok(cx, qb_map_open(cx, p->second, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    const size_t size = a.size;
    qb_map_close(&a);
    qb_map_close(&b);
    return size;
}

static void run(qb_ctx *cx, const qb_engine *engine, bench_ports *ports) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, bench_ports_new(cx, engine, 5, ports));
    assert_ok(cx, qb_context_run(cx, context, (const void *const *)ports->in, ports->out));
    qb_context_free(context);
}

static void same_results(qb_ctx *cx, const qb_engine *a, const qb_engine *b) {
    bench_ports x = {0}, y = {0};
    run(cx, a, &x);
    run(cx, b, &y);
    for (int32_t i = 0; i < qb_engine_n_outputs(a); i++)
        assert_memory_equal(x.out[i], y.out[i], qb_desc_bytes(qb_engine_output(a, i)));
    bench_ports_free(&x);
    bench_ports_free(&y);
}

static bool try_file(qb_ctx *cx, const qb_graph *graph, const char *model, const char *precision,
                     qb_dtype type, const places *p) {
    const qb_engine_origin origin = {.model = model, .precision = precision};
    qb_engine *built, *again, *loaded;
    const double cold = build(cx, graph, type, p, &built), warm = build(cx, graph, type, p, &again);
    assert_ok(cx, qb_engine_save(cx, built, &origin, p->first));
    assert_ok(cx, qb_engine_save(cx, again, &origin, p->second));
    qb_engine_free(again);
    const size_t size = same_bytes(cx, p);
    double took[3];
    for (int i = 0; i < 3; i++) {
        took[i] = load(cx, p->first, &loaded);
        if (i < 2) qb_engine_free(loaded);
    }
    same_results(cx, built, loaded);
    printf("%s %s: %d steps, %.1f MiB, built in %.3f s (%.3f s with the times known), loaded in "
           "%.1f, %.1f and %.1f ms\n",
           model, precision, (int)qb_engine_n_steps(loaded), (double)size / (1 << 20), cold, warm,
           took[0] * 1e3, took[1] * 1e3, took[2] * 1e3);
    qb_engine_free(loaded);
    qb_engine_free(built);
    return took[0] * 10 < cold;
}

static void loaded_engines_are_the_saved_ones(void **state) {
    (void)state;
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    static qb_ctx cx;
    const char *list = getenv("QB_TEST_MODELS");
    bool good = true;
    places p;
    qb_ctx_init(&cx);
    qb_test_temp_dir(p.folder);
    qb_test_join(p.first, p.folder, "first.qbe");
    qb_test_join(p.second, p.folder, "second.qbe");
    qb_test_join(p.cache, p.folder, "timing.cache");
    for (const char *at = list ? list : MODELS; *at;) {
        char model[64];
        const size_t n = strcspn(at, ",");
        qb_graph *graph, *quantized;
        snprintf(model, sizeof model, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
        assert_ok(&cx, qb_zoo_build(&cx, model, 1, NULL, &graph));
        assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
        assert_ok(&cx, bench_quantize(&cx, graph, &quantized));
        good = try_file(&cx, graph, model, "fp32", QB_DTYPE_F32, &p) && good;
        good = try_file(&cx, graph, model, "fp16", QB_DTYPE_F16, &p) && good;
        good = try_file(&cx, quantized, model, "int8", QB_DTYPE_F16, &p) && good;
        qb_graph_free(quantized);
        qb_graph_free(graph);
    }
    assert_true(good); /* loads that took more than a tenth */
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(loaded_engines_are_the_saved_ones)};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

/* The sampler (examples/plugins) on a CUDA stream against its part for the CPU: FP32 and FP16, run
 * by run, recorded and replayed. Skips without a device. */
#include "engine/providers.h"
#include "kernels/cuda/common/device.h"
#include "plugin_graph.h"
#include "qb_test.h"

#include "base/rng.h"

enum { CHANNELS = 5, SIDE = 33, POINTS = 29, N = CHANNELS * POINTS * POINTS };

typedef struct inputs {
    float image[CHANNELS * SIDE * SIDE], grid[POINTS * POINTS * 2];
} inputs;

static void fill(float *data, size_t n, uint64_t seed, double size) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++) data[i] = (float)((qb_rng_uniform(&rng) * 2 - 1) * size);
}

static void make_inputs(inputs *in, uint64_t seed) {
    fill(in->image, sizeof in->image / sizeof *in->image, seed, 1);
    fill(in->grid, sizeof in->grid / sizeof *in->grid, seed + 1, 1.2); /* some outside */
}

static qb_engine *build(qb_ctx *cx, const qb_graph *graph, const char *backends, qb_dtype type) {
    const qb_build_spec options = {.backends = backends, .float_type = type};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

/* The outputs of two runs of one context. */
static void run(qb_ctx *cx, const qb_engine *engine, const inputs *in, float out[2][N]) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    for (int i = 0; i < 2; i++)
        assert_ok(cx, qb_context_run(cx, context, (const void *[]){in[i].image, in[i].grid},
                                     (void *[]){out[i]}));
    qb_context_free(context);
}

static void the_sampler_runs_on_the_gpu(void **state) {
    (void)state;
    static inputs in[2];
    static float expected[2][N], got[2][N];
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "sampler"));
    assert_ok(&cx, plugin_graph_sampler(&cx, CHANNELS, SIDE, POINTS, &graph));
    make_inputs(&in[0], 1);
    make_inputs(&in[1], 7);
    qb_engine *host = build(&cx, graph, NULL, QB_DTYPE_F32);
    run(&cx, host, in, expected);
    for (int half = 0; half < 2; half++) {
        qb_provider_count n;
        qb_engine *engine = build(&cx, graph, "cuda", half ? QB_DTYPE_F16 : QB_DTYPE_F32);
        qb_providers_count(engine, &n);
        assert_int_equal(n.cpu, 0);
        run(&cx, engine, in, got);
        for (int i = 0; i < 2; i++) assert_floats(got[i], expected[i], N, 0, half ? 2e-3f : 1e-5f);
        qb_engine_free(engine);
    }
    qb_engine_free(host);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_sampler_runs_on_the_gpu)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

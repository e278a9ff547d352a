/* Nodes are divided between a device and the CPU, with copies where they meet: on a device that
 * needs no GPU, whose memory the host cannot read. */
#include "qb_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "bench_pairs.h"
#include "engine/backends.h"
#include "engine/providers.h"
#include "fake_device.h"
#include "graph/passes.h"
#include "open_models.h"
#include "plugin_graph.h"

#define IMAGE (3 * 32 * 32)

static void fill(float *data, size_t n, uint64_t seed) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&rng);
}

static qb_engine *build(qb_ctx *cx, const qb_graph *graph, const char *backends, bool observable) {
    const qb_build_spec options = {.backends = backends, .threads = 2, .observable = observable};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static void run_twice(qb_ctx *cx, const qb_engine *engine, const void *const *first,
                      const void *const *second, void *const *out) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, qb_context_run(cx, context, first, out));
    assert_ok(cx, qb_context_run(cx, context, second, out)); /* a replay of what was recorded */
    qb_context_free(context);
}

static void find_step(const qb_engine *engine, const char *op, qb_step_info *out) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_engine_step(engine, s, out);
        if (strcmp(out->op, op) == 0) return;
    }
    fail_msg("no step %s", op);
}

static void check_where(const qb_engine *engine, const char *op, const char *where,
                        const char *why) {
    qb_step_info step;
    find_step(engine, op, &step);
    assert_string_equal(qb_provider_of(&step), where);
    if (!why)
        assert_null(step.fallback_reason);
    else if (!step.fallback_reason || !strstr(step.fallback_reason, why))
        fail_msg("%s: expected '%s', got '%s'", op, why,
                 step.fallback_reason ? step.fallback_reason : "nothing");
}

/* Convolutions and means on the device, the gate (a plugin for the CPU), MatMul and Softmax not. */
static void nodes_run_where_they_can(void **state) {
    (void)state;
    float image[2][IMAGE], expected[10], got[10];
    qb_ctx cx;
    qb_graph *graph;
    qb_provider_count n;
    qb_ctx_init(&cx);
    fake_device_is_there = true;
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    fill(image[0], IMAGE, 1);
    fill(image[1], IMAGE, 2);
    qb_engine *host = build(&cx, graph, NULL, false), *split = build(&cx, graph, "cuda", false);
    check_where(split, "Conv+Relu", "cuda", NULL);
    check_where(split, "HardSigmoidGate", "cpu", "the plugin runs on the CPU alone");
    check_where(split, "MatMul", "cpu", "no tactic for it");
    check_where(split, "Softmax", "cpu", "no tactic for it");
    qb_providers_count(host, &n);
    assert_int_equal(n.cuda, 0);
    assert_int_equal(n.copies, 0);
    qb_providers_count(split, &n);
    assert_true(n.cuda >= 5); /* three convolutions, two means */
    assert_true(n.cpu >= 3);
    assert_int_equal(n.copies, 5); /* image up; t and s down; gate up; p down: prob is the host's */
    run_twice(&cx, host, (const void *[]){image[0]}, (const void *[]){image[1]},
              (void *[]){expected});
    run_twice(&cx, split, (const void *[]){image[0]}, (const void *[]){image[1]}, (void *[]){got});
    assert_floats(got, expected, 10, 1e-4f, 1e-6f);
    qb_engine_free(host);
    qb_engine_free(split);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
}

static qb_status see(qb_ctx *cx, void *user, int32_t observed, const char *value,
                     const qb_tensor *tensor) {
    (void)cx;
    (void)observed;
    float *seen = user;
    if (strcmp(value, "gate") == 0) seen[0] = ((const float *)tensor->data)[0];
    if (strcmp(value, "t") == 0) seen[1] = ((const float *)tensor->data)[0];
    return QB_OK;
}

/* Values of both sides are seen by observers. */
static void both_sides_are_observed(void **state) {
    (void)state;
    float image[IMAGE], scores[10], seen[2][2] = {{NAN, NAN}, {NAN, NAN}};
    static const char *const backends[] = {NULL, "cuda"};
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    fill(image, IMAGE, 3);
    for (int i = 0; i < 2; i++) {
        qb_engine *engine = build(&cx, graph, backends[i], true);
        qb_context *context;
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        assert_ok(&cx, qb_context_observe(&cx, context, (const void *[]){image}, (void *[]){scores},
                                          see, seen[i]));
        qb_context_free(context);
        qb_engine_free(engine);
    }
    assert_floats(seen[1], seen[0], 2, 1e-4f, 1e-6f);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
}

/* A plugin that runs on the device gets device memory and the stream, and is recorded. */
static void plugins_run_on_the_device(void **state) {
    (void)state;
    const float x[2][6] = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}}, y[6] = {1, 1, 1, 1, 1, 1};
    float sum[6], back[6];
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    setenv("QB_FAULT", "cuda", 1); /* the kit then has run_cuda */
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_ok(&cx, plugin_graph_kit(&cx, true, "plain", &graph));
    qb_engine *engine = build(&cx, graph, "cuda", false);
    check_where(engine, "Kit", "cuda", NULL);
    run_twice(&cx, engine, (const void *[]){x[0], y}, (const void *[]){x[1], y},
              (void *[]){sum, back});
    for (int i = 0; i < 6; i++) {
        assert_true(sum[i] == x[1][i] + 1 + 3);
        assert_true(back[i] == x[1][5 - i]);
    }
    qb_engine_free(engine);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
    unsetenv("QB_FAULT");
}

/* Steps of quantized values race against the same ones in FP16, some of which the processor runs:
 * it reads the inputs at every replay. */
static void engines_race_with_steps_on_the_host(void **state) {
    (void)state;
    const qb_build_spec options = {.backends = "cuda", .float_type = QB_DTYPE_F16, .threads = 1};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_provider_count n;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_onnx_load(&cx, QB_SOURCE_DIR "/tests/fuzz/corpus/onnx/qdq.onnx", &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    qb_providers_count(engine, &n);
    assert_true(n.cpu > 0);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* So does it where benchmarks replay two engines interleaved. */
static void pairs_are_measured_with_steps_on_the_host(void **state) {
    (void)state;
    const qb_shape shape = qb_shape_of(3, 1, 8, 16);
    const qb_build_spec options = {.backends = "cuda", .threads = 1, .input_shapes = &shape};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    bench_pair pair;
    qb_ctx_init(&cx);
    open_sequence_model(&cx, &graph);
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, bench_pair_measure(&cx, engine, engine, &pair));
    assert_true(pair.same && pair.low <= pair.ratio && pair.ratio <= pair.high);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void providers_are_taken_in_order(void **state) {
    (void)state;
    static const struct {
        const char *list;
        bool there;
        const char *backends, *missing;
    } rows[] = {{"cuda,cpu", true, "cuda", NULL},
                {"cuda", true, "cuda", NULL},
                {"cpu,cuda", true, NULL, NULL},
                {"cpu", true, NULL, NULL},
                {"cuda,cpu", false, NULL, "cuda: no device is plugged in"},
                {"cuda", false, NULL, "cuda: no device is plugged in"},
                {"cpu", false, NULL, NULL}};
    static const char *const wrong[] = {"", "gpu", "cuda,cpu,tpu", "cpu,,cuda", "cuda cpu"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *backends = "unset";
        char *missing = NULL;
        fake_device_is_there = rows[i].there;
        assert_ok(&cx, qb_providers_choose(&cx, rows[i].list, &backends, &missing));
        assert_true((backends == NULL) == (rows[i].backends == NULL));
        if (backends) assert_string_equal(backends, rows[i].backends);
        assert_true((missing == NULL) == (rows[i].missing == NULL));
        if (missing) assert_string_equal(missing, rows[i].missing);
        qb_free(missing);
    }
    fake_device_is_there = true;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *backends;
        char *missing;
        assert_fails(&cx, qb_providers_choose(&cx, wrong[i], &backends, &missing), QB_STATUS_USAGE);
        assert_message(&cx, "expected cuda or cpu");
        qb_ctx_clear(&cx);
    }
}

/* "fp32@WHERE": what is not there is an error, not a warning. */
static void where_a_precision_runs_must_be_there(void **state) {
    (void)state;
    static const struct {
        const char *list, *backends;
    } rows[] = {{"cpu", NULL},        {"cuda", "cuda"},
                {"cuda,cpu", "cuda"}, {"cuda,ref", "cuda,ref"},
                {"ref", "ref"},       {"cpu,ref", "cpu,ref"}};
    static const struct {
        const char *list, *message;
    } wrong[] = {{"", "backend ''"},
                 {"gpu", "'gpu'; did you mean 'cpu'?"},
                 {"ref,cuda", "'cuda' must be the first of the list"},
                 {"cdua", "did you mean 'cuda'?"},
                 {"tensorrt", "backend 'tensorrt': this qbench has cpu"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *backends = "unset";
        assert_ok(&cx, qb_backends_require(&cx, rows[i].list, &backends));
        assert_true((backends == NULL) == (rows[i].backends == NULL));
        if (backends) assert_string_equal(backends, rows[i].backends);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *backends = "unset";
        assert_fails(&cx, qb_backends_require(&cx, wrong[i].list, &backends), QB_STATUS_USAGE);
        assert_message(&cx, wrong[i].message);
        assert_string_equal(backends, "unset");
        qb_ctx_clear(&cx);
    }
    const char *backends = "unset";
    fake_device_is_there = false;
    assert_fails(&cx, qb_backends_require(&cx, "cuda", &backends), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "backend 'cuda': no device is plugged in");
    fake_device_is_there = true;
}

static void lists_have_one_name(void **state) {
    (void)state;
    static const struct {
        const char *list, *name;
    } rows[] = {{NULL, "cpu"},           {"cpu,dnnl,ref", "cpu"},
                {"cuda", "cuda"},        {"cuda,ref", "cuda,ref"},
                {"ref", "ref"},          {"dnnl", "dnnl"},
                {"dnnl,ref", "dnnl"},    {"cpu", "cpu,ref"},
                {"dnnl,cpu", "dnnl,cpu"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    if (qb_backends_check(&cx, "dnnl") != QB_OK) qb_test_skip("built without oneDNN");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *name = qb_backends_name(&cx, rows[i].list);
        assert_string_equal(name, rows[i].name);
        qb_free(name);
    }
    assert_null(qb_backends_name(&cx, "nonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_run_where_they_can),
        cmocka_unit_test(both_sides_are_observed),
        cmocka_unit_test(plugins_run_on_the_device),
        cmocka_unit_test(engines_race_with_steps_on_the_host),
        cmocka_unit_test(pairs_are_measured_with_steps_on_the_host),
        cmocka_unit_test(providers_are_taken_in_order),
        cmocka_unit_test(where_a_precision_runs_must_be_there),
        cmocka_unit_test(lists_have_one_name),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

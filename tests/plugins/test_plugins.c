/* Operators of plugins run as if they were built in, and a plugin that is wrong is refused. */
#include "qb_test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "graph/passes.h"
#include "plugin_graph.h"

#define IMAGE (2 * 3 * 32 * 32)
#define SCORES (2 * 10)

static void fill(float *data, size_t n, uint64_t seed) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&rng);
}

static void close_all(qb_ctx *cx) {
    qb_plugins_release(cx->plugins);
    cx->plugins = NULL;
}

static qb_engine *build(qb_ctx *cx, const qb_graph *graph, const char *backends) {
    const int64_t batch = graph->values[graph->inputs[0]].shape.dim[0] < 0 ? 2 : 0;
    const qb_build_spec options = {.backends = backends, .batch = batch, .threads = 2};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static void run(qb_ctx *cx, const qb_engine *engine, const void *const *in, void *const *out) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, qb_context_run(cx, context, in, out));
    qb_context_free(context);
}

static void scores_of(qb_ctx *cx, const qb_graph *graph, const char *backends, const float *image,
                      float *scores) {
    qb_engine *engine = build(cx, graph, backends);
    run(cx, engine, (const void *[]){image}, (void *[]){scores});
    qb_engine_free(engine);
}

/* ---- running ---- */

static void a_gate_gives_what_its_operators_give(void **state) {
    (void)state;
    static const char *const backends[] = {NULL, "cpu,ref", "ref"};
    static float image[IMAGE];
    float expected[SCORES], scores[SCORES];
    qb_ctx cx;
    qb_graph *gated, *plain;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &gated));
    assert_ok(&cx, plugin_graph_gate(&cx, true, &plain));
    fill(image, IMAGE, 1);
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        scores_of(&cx, plain, backends[i], image, expected);
        scores_of(&cx, gated, backends[i], image, scores);
        assert_floats(scores, expected, SCORES, 1e-5f, 1e-6f);
    }
    qb_graph_free(gated);
    qb_graph_free(plain);
    close_all(&cx);
}

/* Quantized by hand: what the plugin reads and writes are quantized values. */
static void a_gate_runs_on_codes(void **state) {
    (void)state;
    static const struct {
        const char *value;
        float scale;
        int32_t zero;
    } rows[] = {{"t", 0.05f, 0}, {"s", 0.04f, 120}, {"gate", 0.03f, 0}};
    static float image[IMAGE];
    float expected[SCORES], scores[SCORES];
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    fill(image, IMAGE, 1);
    scores_of(&cx, graph, NULL, image, expected);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_value *v = &graph->values[qb_graph_find_value(graph, rows[i].value)];
        v->dtype = QB_DTYPE_U8;
        v->q = (qb_qparams){QB_DTYPE_U8, -1, 1, &rows[i].scale, &rows[i].zero};
    }
    qb_engine *engine = build(&cx, graph, "cpu,ref");
    qb_step_info gate = {0};
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_engine_step(engine, s, &gate);
        if (strcmp(gate.tactic, "plugin.gate") == 0) break;
    }
    assert_string_equal(gate.op, "HardSigmoidGate");
    assert_string_equal(gate.impl, "1.0");
    assert_int_equal(gate.dtype, QB_DTYPE_S8);
    run(&cx, engine, (const void *[]){image}, (void *[]){scores});
    assert_floats(scores, expected, SCORES, 0, 0.03f);
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
}

/* The definition, in double. */
static double sampled(const float *plane, int side, double x, double y, bool corners) {
    const double px = corners ? (x + 1) / 2 * (side - 1) : ((x + 1) * side - 1) / 2;
    const double py = corners ? (y + 1) / 2 * (side - 1) : ((y + 1) * side - 1) / 2;
    double sum = 0;
    for (int r = 0; r < side; r++)
        for (int c = 0; c < side; c++)
            sum += fmax(0, 1 - fabs(py - r)) * fmax(0, 1 - fabs(px - c)) * plane[r * side + c];
    return sum;
}

static void a_sampler_gives_its_definition(void **state) {
    (void)state;
    enum { C = 2, SIDE = 7, POINTS = 6, N = C * POINTS * POINTS };
    float image[C * SIDE * SIDE], grid[POINTS * POINTS * 2], expected[N], out[N];
    fill(image, sizeof image / sizeof *image, 2);
    fill(grid, sizeof grid / sizeof *grid, 3); /* some far outside */
    grid[0] = -1, grid[1] = -1, grid[2] = 1, grid[3] = 1, grid[4] = 1e30f, grid[5] = -1e30f;
    for (int64_t corners = 0; corners < 2; corners++) {
        qb_ctx cx;
        qb_graph *graph;
        qb_ctx_init(&cx);
        assert_ok(&cx, plugin_graph_load(&cx, "sampler"));
        assert_ok(&cx, plugin_graph_sampler(&cx, C, SIDE, POINTS, &graph));
        *(int64_t *)((char *)graph->nodes[0].attrs + graph->nodes[0].op->attrs[0].offset) = corners;
        for (int i = 0; i < N; i++) {
            const float *at = grid + i % (POINTS * POINTS) * 2;
            const double value =
                sampled(image + i / (POINTS * POINTS) * SIDE * SIDE, SIDE, at[0], at[1], corners);
            expected[i] = value > 0 ? (float)value : 0;
        }
        qb_engine *engine = build(&cx, graph, NULL);
        run(&cx, engine, (const void *[]){image, grid}, (void *[]){out});
        assert_floats(out, expected, N, 1e-4f, 1e-5f);
        qb_engine_free(engine);
        qb_graph_free(graph);
        close_all(&cx);
    }
}

static void a_kit_uses_all_that_there_is(void **state) {
    (void)state;
    const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60};
    for (int both = 0; both < 2; both++) {
        float sum[6], back[6];
        qb_ctx cx;
        qb_graph *graph;
        qb_ctx_init(&cx);
        assert_ok(&cx, plugin_graph_load(&cx, "kit"));
        assert_ok(&cx, plugin_graph_kit(&cx, both, "plain", &graph));
        qb_engine *engine = build(&cx, graph, NULL);
        run(&cx, engine, (const void *[]){x, y}, (void *[]){sum, back});
        for (int i = 0; i < 6; i++) {
            assert_true(sum[i] == (both ? x[i] + y[i] : x[i] * 1.5f) + 3);
            assert_true(back[i] == x[5 - i]);
        }
        qb_engine_free(engine);
        qb_graph_free(graph);
        close_all(&cx);
    }
}

typedef struct worker {
    qb_ctx cx;
    const qb_engine *engine;
    const float *image;
    float scores[SCORES];
} worker;

static void *work(void *user) {
    worker *w = user;
    for (int i = 0; i < 20 && w->cx.code == QB_OK; i++)
        run(&w->cx, w->engine, (const void *[]){w->image}, (void *[]){w->scores});
    return NULL;
}

static void threads_share_a_plugin(void **state) {
    (void)state;
    enum { THREADS = 4 };
    static float image[IMAGE];
    float expected[SCORES];
    pthread_t thread[THREADS];
    worker w[THREADS];
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    fill(image, IMAGE, 4);
    qb_engine *engine = build(&cx, graph, NULL);
    run(&cx, engine, (const void *[]){image}, (void *[]){expected});
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.engine = engine, .image = image};
        qb_ctx_child(&cx, &w[i].cx);
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_memory_equal(w[i].scores, expected, sizeof expected);
    }
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
}

/* ---- outputs as large as values say ---- */

/* x[i] = i into y by the definition; both of [1, 2, .., ..]. */
static void check_resized(qb_ctx *cx, qb_context *context, int64_t h, int64_t w, int64_t u,
                          int64_t v) {
    float x[2 * 64], like[64] = {0}, y[2 * 64];
    for (int i = 0; i < 2 * h * w; i++) x[i] = (float)i;
    memset(y, 0xff, sizeof y);
    assert_ok(cx, qb_context_run(cx, context, (const void *[]){x, like}, (void *[]){y}));
    for (int64_t i = 0; i < 2 * u * v; i++) {
        const int64_t r = i / v % u * h / u, c = i % v * w / v;
        assert_true(y[i] == x[i / (u * v) * h * w + r * w + c]);
    }
}

static void an_output_is_as_large_as_a_constant_says(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    const qb_shape shape = {4, {1, 2, 3, 5}};
    const qb_build_spec options = {.input_shapes = &shape, .threads = 1};
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "resize_to"));
    assert_ok(&cx, plugin_graph_resize(&cx, SIZE_CONSTANT, &graph));
    assert_int_equal(graph->values[graph->outputs[0]].shape.dim[2], 4);
    assert_int_equal(graph->values[graph->outputs[0]].shape.dim[3], 6);
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    check_resized(&cx, context, 3, 5, 4, 6);
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
}

/* Sizes that the model computes from shapes: symbols while these are open, other ones for each
 * shape of a profile, also from a file. */
static void an_output_is_as_large_as_another_input(void **state) {
    (void)state;
    static const qb_shape range[3][2] = {{{4, {1, 2, 1, 1}}, {4, {1, 1, 1, 1}}},
                                         {{4, {1, 2, 3, 5}}, {4, {1, 1, 4, 6}}},
                                         {{4, {1, 2, 8, 8}}, {4, {1, 1, 8, 8}}}};
    static const qb_shape small[2] = {{4, {1, 2, 7, 2}}, {4, {1, 1, 2, 3}}};
    const qb_profile profile = {range[0], range[1], range[2]};
    const qb_build_spec options = {.profiles = &profile, .n_profiles = 1, .threads = 1};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "resize.qbe");
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "resize_to"));
    assert_ok(&cx, plugin_graph_resize(&cx, SIZE_LIKE, &graph));
    const qb_shape *like = &graph->values[graph->inputs[1]].shape;
    const qb_shape *y = &graph->values[graph->outputs[0]].shape;
    for (int d = 2; d < 4; d++) {
        assert_true(like->dim[d] < -1);
        assert_int_equal(y->dim[d], like->dim[d]);
    }
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    const qb_engine_origin origin = {.model = "resize.onnx", .precision = "fp32"};
    assert_ok(&cx, qb_engine_save(&cx, engine, &origin, path));
    for (int loaded = 0; loaded < 2; loaded++) {
        if (loaded) {
            qb_engine_free(engine);
            assert_ok(&cx, qb_engine_load(&cx, path, &engine));
        }
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        check_resized(&cx, context, 3, 5, 4, 6);
        assert_ok(&cx, qb_context_set_shapes(&cx, context, small));
        check_resized(&cx, context, 7, 2, 2, 3);
        assert_ok(&cx, qb_context_set_shapes(&cx, context, range[2]));
        check_resized(&cx, context, 8, 8, 8, 8);
        qb_context_free(context);
    }
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
}

/* Sizes that only a run knows: the node runs behind the planned part, and its output has at most as
 * many elements as its largest input. */
static void an_output_that_a_run_sizes_runs_behind_the_plan(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    const qb_shape shapes[] = {{4, {1, 2, 3, 5}}, {1, {2}}};
    const qb_build_spec options = {.input_shapes = shapes, .threads = 1};
    static const int64_t fits[2] = {2, 3}, exceeds[2] = {4, 4};
    float x[30], y[64];
    for (int i = 0; i < 30; i++) x[i] = (float)i;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "resize_to"));
    assert_ok(&cx, plugin_graph_resize(&cx, SIZE_INPUT, &graph));
    assert_int_equal(graph->values[graph->outputs[0]].shape.dim[2], -1);
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_true(qb_shape_count(&qb_engine_output(engine, 0)->shape) <= 64);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, qb_context_run(&cx, context, (const void *[]){x, fits}, (void *[]){y}));
    const qb_shape got = qb_context_output_shape(context, 0), wanted = {4, {1, 2, 2, 3}};
    assert_true(qb_shape_equal(&got, &wanted));
    for (int i = 0; i < 12; i++)
        assert_true(y[i] == x[i / 6 * 15 + i % 6 / 3 * 3 / 2 * 5 + i % 3 * 5 / 3]);
    assert_fails(&cx, qb_context_run(&cx, context, (const void *[]){x, exceeds}, (void *[]){y}),
                 QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "output 'y': ");
    assert_message(&cx, "more than the bound of");
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
}

/* ---- files ---- */

static void save_model(const char *path, const char *mode) {
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_ok(&cx, plugin_graph_kit(&cx, true, mode, &graph));
    assert_ok(&cx, qb_onnx_save(&cx, graph, path));
    qb_graph_free(graph);
    close_all(&cx);
}

static void a_model_file_keeps_nodes_and_attributes(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *text;
    qb_ctx cx;
    qb_graph *graph;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "kit.onnx");
    save_model(path, "plain");
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_onnx_load(&cx, path, &graph), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "Kit (test opset 1)");
    assert_message(&cx, "--plugin LIB.so");
    qb_ctx_clear(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_ok(&cx, plugin_graph_load(&cx, "kit")); /* again: nothing happens */
    assert_int_equal(qb_plugins_count(cx.plugins), 1);
    assert_ok(&cx, qb_onnx_load(&cx, path, &graph));
    assert_ok(&cx, qb_graph_text(&cx, graph, &text));
    assert_non_null(strstr(text, "Kit"));
    assert_string_equal(*(const char **)plugin_graph_attr(graph, "mode"), "plain");
    const qb_ints *shifts = plugin_graph_attr(graph, "shifts");
    assert_int_equal(shifts->n, 2);
    assert_int_equal(shifts->v[0], 4);
    assert_int_equal(*(int64_t *)plugin_graph_attr(graph, "speed-limit"), 3);
    qb_free(text);
    qb_graph_free(graph);
    close_all(&cx);
}

static void an_engine_file_asks_for_its_plugin(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    static float image[IMAGE];
    float expected[SCORES], scores[SCORES];
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *loaded = NULL;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "gate.qbe");
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    qb_engine *engine = build(&cx, graph, NULL);
    const qb_engine_origin origin = {.model = "gate.onnx", .precision = "fp32"};
    assert_ok(&cx, qb_engine_save(&cx, engine, &origin, path));
    assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
    fill(image, IMAGE, 5);
    run(&cx, engine, (const void *[]){image}, (void *[]){expected});
    run(&cx, loaded, (const void *[]){image}, (void *[]){scores});
    assert_memory_equal(scores, expected, sizeof expected);
    qb_engine_free(loaded);
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
    assert_fails(&cx, qb_engine_load(&cx, path, &loaded), QB_STATUS_MISMATCH);
    assert_message(&cx, "HardSigmoidGate 'gate' needs plugin gate 1.0");
    assert_message(&cx, "--plugin LIB.so");
}

static void an_engine_file_asks_for_its_version(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *loaded = NULL;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "kit.qbe");
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_ok(&cx, plugin_graph_kit(&cx, true, "plain", &graph));
    qb_engine *engine = build(&cx, graph, NULL);
    const qb_engine_origin origin = {.model = "kit.onnx", .precision = "fp32"};
    assert_ok(&cx, qb_engine_save(&cx, engine, &origin, path));
    qb_engine_free(engine);
    qb_graph_free(graph);
    close_all(&cx);
    setenv("QB_FAULT", "version", 1);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_fails(&cx, qb_engine_load(&cx, path, &loaded), QB_STATUS_MISMATCH);
    assert_message(&cx, "Kit 'kit' was built with plugin kit 1.0 (ABI 1)");
    assert_message(&cx, "has version 2.0");
    assert_message(&cx, "qbench build --model kit.onnx --precision fp32 --plugin");
    assert_message(&cx, "kit.qbe'");
    assert_message(&cx, " --saveEngine=");
    close_all(&cx);
    unsetenv("QB_FAULT");
}

/* ---- plugins that are wrong ---- */

static void wrong_descriptions_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        qb_status status;
        const char *message;
    } rows[] = {
        {"null", QB_STATUS_FORMAT, "returned NULL"},
        {"abi", QB_STATUS_MISMATCH, "plugin of ABI 2, this qbench has ABI 1"},
        {"small", QB_STATUS_MISMATCH, "qbench_plugin has 8 bytes"},
        {"small-op", QB_STATUS_MISMATCH, "qbench_plugin_op has 16 bytes"},
        {"no-version", QB_STATUS_FORMAT, "no version"},
        {"bad-name", QB_STATUS_FORMAT, "a name of letters and digits"},
        {"no-ops", QB_STATUS_FORMAT, "no operators"},
        {"many-ops", QB_STATUS_FORMAT, "no operators"},
        {"no-infer", QB_STATUS_FORMAT, "test.Kit: plugin: no function infer"},
        {"no-run", QB_STATUS_FORMAT, "neither run_cpu nor run_cuda"},
        {"no-domain", QB_STATUS_FORMAT, "without a name or a domain"},
        {"onnx-domain", QB_STATUS_FORMAT, "ONNX's own domain"},
        {"many-inputs", QB_STATUS_FORMAT, "a number of inputs"},
        {"few-inputs", QB_STATUS_FORMAT, "a number of inputs"},
        {"no-outputs-at-all", QB_STATUS_FORMAT, "a number of outputs"},
        {"since", QB_STATUS_FORMAT, "since: expected 1 or more"},
        {"attr-count", QB_STATUS_FORMAT, "a table of attributes"},
        {"attr-table", QB_STATUS_FORMAT, "a table of attributes"},
        {"attr-name", QB_STATUS_FORMAT, "an attribute without a name"},
        {"attr-type", QB_STATUS_FORMAT, "an attribute of an unknown type"},
        {"attr-twice", QB_STATUS_FORMAT, "an attribute is described twice"},
        {"attr-bounds", QB_STATUS_FORMAT, "bounds are empty"},
        {"rule", QB_STATUS_FORMAT, "an unknown rule of quantization"},
        {"format-place", QB_STATUS_FORMAT, "an unknown place"},
        {"format-cuda", QB_STATUS_FORMAT, "a place that it does not run in"},
        {"format-type", QB_STATUS_FORMAT, "an unknown type or layout of an input"},
        {"format-half", QB_STATUS_FORMAT, "an unknown type or layout of an input"},
        {"format-layout", QB_STATUS_FORMAT, "an unknown type or layout of an output"},
        {"twice", QB_STATUS_FORMAT, "an operator is described twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        setenv("QB_FAULT", rows[i].fault, 1);
        assert_fails(&cx, plugin_graph_load(&cx, "kit"), rows[i].status);
        assert_message(&cx, "kit.so");
        assert_message(&cx, rows[i].message);
        assert_int_equal(qb_plugins_count(cx.plugins), 0);
        close_all(&cx);
    }
    unsetenv("QB_FAULT");
}

static void what_is_no_plugin_is_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_fails(&cx, plugin_graph_load(&cx, "no_entry"), QB_STATUS_FORMAT);
    assert_message(&cx, "exports no function qbench_plugin_entry");
    qb_ctx_clear(&cx);
    assert_fails(&cx, plugin_graph_load(&cx, "nothing"), QB_STATUS_NOTFOUND);
    assert_message(&cx, "nothing.so");
    qb_ctx_clear(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], from[QB_TEST_PATH], *data;
    size_t size;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "copy.so");
    plugin_graph_library(from, sizeof from, "kit");
    assert_ok(&cx, qb_file_read(&cx, from, (size_t)1 << 28, &data, &size));
    assert_ok(&cx, qb_file_write(&cx, path, data, size));
    qb_free(data);
    assert_fails(&cx, qb_plugins_load(&cx, cx.plugins, path), QB_STATUS_INVALID);
    assert_message(&cx, "plugin 'kit' is loaded already");
    close_all(&cx);
}

/* Faults that show when a graph is inferred. */
static void wrong_shapes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        const char *message;
    } rows[] = {
        {"silent", "plugin kit 1.0: infer: it returned 7 without a reason"},
        {"unknown-attribute", "reads attribute 'speed', which its table does not have"},
        {"wrong-type", "reads attribute 'mode', which its table has as another type"},
        {"no-outputs", "output 0: 0 is no element type"},
        {"bad-type", "output 0: 99 is no element type"},
        {"bad-rank", "output 0: rank 9"},
        {"bad-size", "output 0: dimension 0 is -77, which no input has"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_ctx cx;
        qb_graph *graph;
        qb_ctx_init(&cx);
        setenv("QB_FAULT", rows[i].fault, 1);
        assert_ok(&cx, plugin_graph_load(&cx, "kit"));
        assert_fails(&cx, plugin_graph_kit(&cx, true, "plain", &graph), QB_STATUS_INVALID);
        assert_message(&cx, "node 0 Kit 'kit'");
        assert_message(&cx, rows[i].message);
        close_all(&cx);
    }
    setenv("QB_FAULT", "huge", 1);
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_fails(&cx, plugin_graph_kit(&cx, true, "plain", &graph), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "too large for memory");
    close_all(&cx);
    qb_ctx_clear(&cx);
    unsetenv("QB_FAULT");
    assert_ok(&cx, plugin_graph_load(&cx, "kit"));
    assert_fails(&cx, plugin_graph_kit(&cx, true, "odd", &graph), QB_STATUS_INVALID);
    assert_message(&cx, "attribute mode: expected plain, got 'odd'");
    close_all(&cx);
}

/* Faults that show when an engine is built, or run. */
static void wrong_answers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        qb_status status;
        const char *message;
        bool builds;
    } rows[] = {
        {"no-workspace", QB_STATUS_INVALID, "workspace: no room today", false},
        {"huge-workspace", QB_STATUS_INVALID, "bytes cannot be", false},
        {"format-codes", QB_STATUS_UNSUPPORTED, "none of its formats for the CPU fits", false},
        {"fails", QB_STATUS_INVALID, "plugin kit 1.0: run_cpu: the kit is broken", true},
        {"fails-silently", QB_STATUS_INVALID, "it returned -3 without a reason", true},
    };
    const float x[6] = {0};
    float out[2][6];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_ctx cx;
        qb_graph *graph;
        qb_engine *engine = NULL;
        qb_context *context = NULL;
        qb_ctx_init(&cx);
        setenv("QB_FAULT", rows[i].fault, 1);
        assert_ok(&cx, plugin_graph_load(&cx, "kit"));
        assert_ok(&cx, plugin_graph_kit(&cx, true, "plain", &graph));
        const qb_status built = qb_engine_build(&cx, graph, NULL, &engine);
        if ((built == QB_OK) != rows[i].builds) fail_msg("%s: %s", rows[i].fault, cx.message);
        if (built == QB_OK) {
            assert_ok(&cx, qb_context_create(&cx, engine, &context));
            assert_fails(
                &cx,
                qb_context_run(&cx, context, (const void *[]){x, x}, (void *[]){out[0], out[1]}),
                rows[i].status);
        }
        assert_int_equal(cx.code, rows[i].status);
        assert_message(&cx, "Kit 'kit'");
        assert_message(&cx, rows[i].message);
        qb_context_free(context);
        qb_engine_free(engine);
        qb_graph_free(graph);
        close_all(&cx);
    }
    unsetenv("QB_FAULT");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_gives_what_its_operators_give),
        cmocka_unit_test(a_gate_runs_on_codes),
        cmocka_unit_test(a_sampler_gives_its_definition),
        cmocka_unit_test(a_kit_uses_all_that_there_is),
        cmocka_unit_test(threads_share_a_plugin),
        cmocka_unit_test(an_output_is_as_large_as_a_constant_says),
        cmocka_unit_test(an_output_is_as_large_as_another_input),
        cmocka_unit_test(an_output_that_a_run_sizes_runs_behind_the_plan),
        cmocka_unit_test(a_model_file_keeps_nodes_and_attributes),
        cmocka_unit_test(an_engine_file_asks_for_its_plugin),
        cmocka_unit_test(an_engine_file_asks_for_its_version),
        cmocka_unit_test(wrong_descriptions_are_refused),
        cmocka_unit_test(what_is_no_plugin_is_refused),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(wrong_answers_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

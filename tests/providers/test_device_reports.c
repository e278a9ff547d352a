/* What a run on a device costs the host, and what is told of an engine there: where each step runs
 * and why, in which type and why, before and after the file. On a device that needs no GPU. */
#include "qb_test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bench_models.h"
#include "cli/out/steps.h"
#include "dynamic_model.h"
#include "engine/file.h"
#include "fake_device.h"
#include "graph/passes.h"
#include "open_models.h"
#include "plugin_graph.h"
#include "small_run.h"

/* ---- what a run costs ------------------------------------------------------------------------ */

static qb_engine *build_convolutions(qb_ctx *cx) {
    const qb_shape shape = qb_shape_of(4, 2, 3, 16, 16);
    const qb_build_spec options = {.backends = "cuda", .threads = 1, .input_shapes = &shape};
    qb_graph *graph;
    qb_engine *engine;
    open_image_model(cx, &graph);
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        assert_null(info.fallback_reason);
    }
    return engine;
}

/* One block of memory for a context, and one recording for all of its steps; then a run allocates
 * nothing, neither here nor there, and the host waits once: for the result. */
static void a_run_allocates_nothing_and_waits_once(void **state) {
    (void)state;
    qb_ctx cx;
    qb_context *context;
    double ms[50];
    qb_ctx_init(&cx);
    qb_engine *engine = build_convolutions(&cx);
    int blocks = fake_device_allocations, recordings = fake_device_recordings;
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_int_equal(fake_device_allocations - blocks, 1);
    float *x = qb_alloc(&cx, 1, qb_desc_bytes(qb_engine_input(engine, 0)));
    float *y = qb_alloc(&cx, 1, qb_desc_bytes(qb_engine_output(engine, 0)));
    assert_non_null(x);
    assert_non_null(y);
    assert_ok(&cx, qb_context_run(&cx, context, (const void *[]){x}, (void *[]){y}));
    assert_int_equal(fake_device_recordings - recordings, 1);
    blocks = fake_device_allocations;
    for (int i = 0; i < 5; i++) {
        const int waits = fake_device_waits;
        cx.fail_alloc_at = 1; /* the next allocation of the host fails */
        assert_ok(&cx, qb_context_run(&cx, context, (const void *[]){x}, (void *[]){y}));
        assert_int_equal(cx.fail_alloc_at, 1);
        assert_int_equal(fake_device_waits - waits, 1);
    }
    cx.fail_alloc_at = 0;
    const int waits = fake_device_waits;
    assert_ok(&cx, qb_context_replay(&cx, context, 50, ms));
    assert_int_equal(fake_device_waits - waits, 1);
    assert_int_equal(fake_device_allocations, blocks);
    assert_int_equal(fake_device_recordings - recordings, 1);
    qb_free(x);
    qb_free(y);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static const json_t *find_step(const json_t *steps, const char *op) {
    const json_t *step;
    size_t i;
    json_array_foreach(steps, i, step) if (strcmp(json_string_value(json_object_get(step, "op")),
                                                  op) == 0) return step;
    fail_msg("no step %s", op);
    return NULL;
}

static const char *text(const json_t *step, const char *key) {
    return json_string_value(json_object_get(step, key));
}

static void check_steps(const json_t *steps) {
    const json_t *conv = find_step(steps, "Conv+Relu"), *product = find_step(steps, "MatMul");
    const json_t *gate = find_step(steps, "HardSigmoidGate"), *up = find_step(steps, "upload");
    assert_string_equal(text(conv, "provider"), "cuda");
    assert_string_equal(text(conv, "note"), "C=3: no tile");
    assert_null(text(conv, "fallback"));
    const double us = json_number_value(json_object_get(conv, "us"));
    const double flops = json_number_value(json_object_get(conv, "flops"));
    const double bytes = json_number_value(json_object_get(conv, "bytes"));
    assert_true(us > 0 && flops > 0 && bytes > 0);
    const double tops = json_number_value(json_object_get(conv, "tops"));
    const double gb = json_number_value(json_object_get(conv, "gb_per_s"));
    assert_true(tops > 0.999 * flops / us * 1e-6 && tops < 1.001 * flops / us * 1e-6);
    assert_true(gb > 0.999 * bytes / us * 1e-3 && gb < 1.001 * bytes / us * 1e-3);
    const json_t *others = json_object_get(conv, "alternatives");
    assert_int_equal(json_array_size(others), 1);
    assert_string_equal(text(json_array_get(others, 0), "tactic"), "cuda.fake_conv");
    assert_string_equal(text(product, "provider"), "cpu");
    assert_string_equal(text(product, "fallback"), "no tactic for it");
    assert_null(json_object_get(product, "us"));
    assert_string_equal(text(gate, "provider"), "cpu");
    assert_non_null(strstr(text(gate, "fallback"), "the plugin runs on the CPU alone"));
    assert_string_equal(text(up, "provider"), "copy");
}

/* What `print` writes to standard output, new memory. */
static char *printed(qb_ctx *cx, const json_t *steps) {
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *out;
    size_t n;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "out");
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    assert_true(kept >= 0);
    assert_non_null(freopen(path, "w", stdout));
    qb_steps_print(steps);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    assert_ok(cx, qb_file_read(cx, path, (size_t)1 << 20, &out, &n));
    return out;
}

static json_t *stored_steps(qb_ctx *cx, const qb_engine *engine) {
    static char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    char *tags;
    if (!folder[0]) qb_test_temp_dir(folder);
    qb_test_join(path, folder, "engine.qbe");
    assert_ok(cx, qb_engine_save(cx, engine, &(qb_engine_origin){0}, path));
    assert_ok(cx, qb_engine_file_tags(cx, path, &tags));
    json_t *root = json_loads(tags, 0, NULL);
    json_t *steps = json_incref(json_object_get(root, "steps"));
    assert_true(json_is_array(steps));
    json_decref(root);
    qb_free(tags);
    return steps;
}

/* The file has nine digits of each number. */
static void assert_same(const json_t *steps, const json_t *stored) {
    char *a = json_dumps(steps, JSON_REAL_PRECISION(6) | JSON_SORT_KEYS);
    char *b = json_dumps(stored, JSON_REAL_PRECISION(6) | JSON_SORT_KEYS);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* A product, a softmax and a plugin for the CPU among convolutions on the device: the engine and
 * its file say the same of every step, and what is printed has it all. */
static void what_falls_to_the_processor_is_told(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_ctx_init(&cx);
    assert_ok(&cx, plugin_graph_load(&cx, "gate"));
    assert_ok(&cx, plugin_graph_gate(&cx, false, &graph));
    const qb_build_spec options = {.backends = "cuda", .threads = 1};
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    json_t *steps = qb_steps_json(engine), *stored = stored_steps(&cx, engine);
    check_steps(steps);
    check_steps(stored);
    assert_same(steps, stored);
    char *out = printed(&cx, stored);
    static const char *const lines[] = {"     not on cuda: no tactic for it\n",
                                        "     not on cuda: the plugin runs on the CPU alone",
                                        "     plain kernel: C=3: no tile\n", " TOPS, ", " GB/s"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(out, lines[i]));
    qb_free(out);
    json_decref(steps);
    json_decref(stored);
    qb_engine_free(engine);
    qb_graph_free(graph);
    qb_plugins_release(cx.plugins);
}

/* ---- types ----------------------------------------------------------------------------------- */

typedef struct types {
    int quantized, half, race, mixed; /* steps that compute; of f16 ones those that say why */
} types;

static types types_of(const json_t *steps) {
    types n = {0};
    const json_t *step;
    size_t i;
    json_array_foreach(steps, i, step) {
        const char *dtype = text(step, "dtype"), *why = text(step, "half");
        if (json_number_value(json_object_get(step, "flops")) <= 0 ||
            strcmp(text(step, "provider"), "cuda") != 0)
            continue;
        n.quantized += strcmp(dtype, "s8") == 0 || strcmp(dtype, "u8") == 0;
        n.half += strcmp(dtype, "f16") == 0;
        n.race += why && strncmp(why, "the whole engine: f16 ", 22) == 0;
        n.mixed += why && (strncmp(why, "reformat ", 9) == 0 || strncmp(why, "f16 ", 4) == 0);
    }
    return n;
}

static types build_quantized(qb_ctx *cx, const qb_graph *graph, bool no_mixing) {
    const qb_build_spec options = {.backends = "cuda",
                                   .float_type = QB_DTYPE_F16,
                                   .threads = 1,
                                   .no_mixed_precision = no_mixing};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    json_t *steps = qb_steps_json(engine);
    const types n = types_of(steps);
    if (n.race + n.mixed > 0) {
        json_t *stored = stored_steps(cx, engine);
        assert_same(steps, stored);
        json_decref(stored);
    }
    json_decref(steps);
    qb_engine_free(engine);
    return n;
}

/* The device's clock is chance: half of the builds are all in f16, one in fifty has steps of both
 * types. Each step in f16 says why, beside the float layers of the model, which are in f16 anyhow;
 * without mixing there are only those. */
static void types_have_reasons(void **state) {
    (void)state;
    enum { BUILDS = 400 };
    qb_ctx cx;
    qb_graph *graph;
    int races = 0, mixed = 0;
    qb_ctx_init(&cx);
    qb_graph *floats = run_graph(&cx, RUN_SIDE);
    assert_ok(&cx, qb_optimize(&cx, floats, NULL, NULL));
    assert_ok(&cx, bench_quantize(&cx, floats, &graph));
    qb_graph_free(floats);
    const types quantized = build_quantized(&cx, graph, true);
    assert_true(quantized.quantized > 0);
    assert_int_equal(quantized.race + quantized.mixed, 0);
    fake_device_clock = 2431597554; /* from where it does not take long to see all */
    for (int i = 0; i < BUILDS && (races == 0 || mixed == 0); i++) {
        const types n = build_quantized(&cx, graph, false);
        if (n.race > 0) {
            assert_int_equal(n.half, n.race);
            assert_int_equal(n.quantized, 0);
        } else {
            assert_int_equal(n.half, quantized.half + n.mixed);
            assert_int_equal(n.quantized, quantized.quantized - n.mixed);
        }
        races += n.race > 0;
        mixed += n.mixed > 0;
    }
    assert_true(races > 0 && mixed > 0);
    qb_graph_free(graph);
}

/* Products with their scales as one step. */
static int n_scaled_products(const qb_engine *engine) {
    int n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        n += strcmp(info.tactic, "cpu.matmul_scaled.packed") == 0;
    }
    return n;
}

/* Products whose quantized values are found on the way run on the device, with their scales and
 * zero points, to the same bits as here, where one of them takes its scales along if nobody asks
 * for its sums. In FP16 sums and scales stay f32, whatever way they take. */
static void dynamic_quantization_stays_on_the_device(void **state) {
    (void)state;
    static dynamic_results here, there, half;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int form = 0; form < DYNAMIC_FORMS; form++) {
        const dynamic_form f = (dynamic_form)form;
        qb_engine *host = dynamic_model_build(&cx, f, NULL, QB_DTYPE_F32, 0);
        qb_engine *device = dynamic_model_build(&cx, f, "cuda", QB_DTYPE_F32, 0);
        qb_engine *halves = dynamic_model_build(&cx, f, "cuda", QB_DTYPE_F16, 0);
        for (int32_t s = 0; s < qb_engine_n_steps(device); s++) {
            qb_step_info info;
            qb_engine_step(device, s, &info);
            assert_null(info.fallback_reason);
        }
        assert_int_equal(n_scaled_products(host), f == DYNAMIC_SUMS_HIDDEN);
        dynamic_model_run(&cx, host, &here);
        dynamic_model_run(&cx, device, &there);
        dynamic_model_run(&cx, halves, &half);
        assert_memory_equal(&here, &there, sizeof here);
        assert_true(dynamic_model_error(&half, &here) < 1e-2);
        qb_engine_free(host);
        qb_engine_free(device);
        qb_engine_free(halves);
    }
}

/* A value with quantized values of its own is none that a fused step could skip: the scales'
 * product, or what the bias is added to. */
static void codes_between_stay(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int fused;
    } cases[] = {{"scales", 0}, {"biased", 1}, {"relu", 1}};
    static const float scale = 1e-7f;
    const qb_build_spec options = {.threads = 1};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_graph *graph;
        qb_engine *engine;
        dynamic_model(&cx, DYNAMIC_SUMS_HIDDEN, &graph);
        qb_value *v = &graph->values[qb_graph_find_value(graph, cases[i].name)];
        v->dtype = QB_DTYPE_U8;
        v->q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale, NULL};
        assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
        assert_int_equal(n_scaled_products(engine), cases[i].fused);
        qb_engine_free(engine);
        qb_graph_free(graph);
    }
}

/* One node "x" -> quantized values, and scale and zero point where they are wanted. */
static void run_quantization(qb_ctx *cx, const char *backends, bool scale, bool zero,
                             uint8_t quantized[15], float *s, uint8_t *z) {
    static const float x[15] = {-1, 0.5f, 2, 3, -0.25f, 1, 1.5f};
    const qb_shape shape = qb_shape_of(2, 3, 5);
    const qb_build_spec options = {.backends = backends, .threads = 1};
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    assert_ok(cx, qb_graph_create(cx, &graph));
    graph->opset = QB_GRAPH_OPSET;
    const int32_t in = qb_graph_add_value(cx, graph, "x", QB_DTYPE_F32, &shape);
    int32_t out[3] = {qb_graph_add_value(cx, graph, "codes", QB_DTYPE_NONE, NULL), -1, -1};
    void *results[3] = {quantized}, **next = results + 1;
    if (scale) out[1] = qb_graph_add_value(cx, graph, "scale", QB_DTYPE_NONE, NULL), *next++ = s;
    if (zero) out[2] = qb_graph_add_value(cx, graph, "zero", QB_DTYPE_NONE, NULL), *next++ = z;
    assert_ok(cx, qb_graph_add_input(cx, graph, in));
    assert_true(qb_graph_add_node(cx, graph, qb_op_find("DynamicQuantizeLinear", ""), "q", &in, 1,
                                  out, 3) >= 0);
    for (int i = 0; i < 3; i++)
        if (out[i] >= 0) assert_ok(cx, qb_graph_add_output(cx, graph, out[i]));
    assert_ok(cx, qb_graph_infer(cx, graph));
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, qb_context_run(cx, context, (const void *[]){x}, results));
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* The results of a step that nobody wants are not made, and the others are. */
static void results_that_nobody_wants_are_left_out(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int wanted = 0; wanted < 4; wanted++)
        for (int there = 0; there < 2; there++) {
            uint8_t quantized[15] = {0}, zero = 0;
            float scale = 0;
            run_quantization(&cx, there ? "cuda" : NULL, wanted & 1, wanted & 2, quantized, &scale,
                             &zero);
            assert_int_equal(quantized[0], 0);
            assert_int_equal(quantized[3], 255);
            assert_int_equal(quantized[14], 64); /* 0 */
            assert_true(wanted & 1 ? scale == 4.0f / 255 : scale == 0);
            assert_int_equal(zero, wanted & 2 ? 64 : 0);
        }
}

/* A cache that two drivers use: each finds its own times, and leaves the other's as they are. */
static void times_of_another_driver_stay(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], *first, *both;
    const qb_shape shape = qb_shape_of(4, 1, 3, 16, 16);
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    size_t n, m;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "timing.cache");
    const qb_build_spec options = {
        .backends = "cuda", .threads = 1, .input_shapes = &shape, .timing_cache = path};
    open_image_model(&cx, &graph);
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    qb_engine_free(engine);
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 20, &first, &n));
    assert_non_null(strstr(first, "\ndevice fake device, driver 1, qbench "));
    fake_device_software = "driver 2";
    const int compiled = fake_device_compilations;
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    qb_engine_free(engine);
    assert_true(fake_device_compilations > compiled); /* nothing of the other's is taken */
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 20, &both, &m));
    assert_true(m > n);
    assert_memory_equal(both, first, n);
    assert_non_null(strstr(both + n, "device fake device, driver 2, qbench "));
    fake_device_software = "driver 1";
    qb_free(first);
    qb_free(both);
    qb_graph_free(graph);
}

/* ---- an engine like another ------------------------------------------------------------------ */

static qb_hash plan_of(qb_ctx *cx, const qb_engine *engine) {
    qb_hash hash;
    assert_ok(cx, qb_engine_plan_hash(cx, engine, &hash));
    return hash;
}

/* The device's clock is chance, so two builds differ; what is built like another engine does not,
 * whether that is quantized, mixed or all in f16. */
static void an_engine_like_another_has_its_plan(void **state) {
    (void)state;
    enum { BUILDS = 60 };
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    qb_graph *floats = run_graph(&cx, RUN_SIDE);
    assert_ok(&cx, qb_optimize(&cx, floats, NULL, NULL));
    assert_ok(&cx, bench_quantize(&cx, floats, &graph));
    qb_graph_free(floats);
    fake_device_clock = 2431597554;
    qb_hash first = {{0}};
    bool differ = false;
    for (int i = 0; i < BUILDS; i++) {
        qb_build_spec spec = {.backends = "cuda", .float_type = QB_DTYPE_F16, .threads = 1};
        qb_engine *engine, *alike;
        assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
        spec.like = engine;
        assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &alike));
        const qb_hash hash = plan_of(&cx, engine);
        assert_true(qb_hash_equal(hash, plan_of(&cx, alike)));
        if (i == 0) first = hash;
        differ = differ || !qb_hash_equal(hash, first);
        qb_engine_free(alike);
        qb_engine_free(engine);
    }
    assert_true(differ);
    qb_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_allocates_nothing_and_waits_once),
        cmocka_unit_test(what_falls_to_the_processor_is_told),
        cmocka_unit_test(types_have_reasons),
        cmocka_unit_test(an_engine_like_another_has_its_plan),
        cmocka_unit_test(dynamic_quantization_stays_on_the_device),
        cmocka_unit_test(codes_between_stay),
        cmocka_unit_test(results_that_nobody_wants_are_left_out),
        cmocka_unit_test(times_of_another_driver_stay),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

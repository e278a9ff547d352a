/* Engines in bf16: near those in f32 by a derived bound, the same from a file, conversions planned;
 * refused where there is no kernel for it. */
#include "open_models.h"
#include "small_engine.h"

#include <math.h>
#include <string.h>

#include "engine/file.h"

/* Every rounding to bf16 moves a value by 2^-8 of it at most. */
#define ROUNDING (1.0 / 256)

static bool is_absent(void) {
    const char *reason = qb_engine_no_bf16(NULL);
    if (reason) print_message("skipped: %s\n", reason);
    return reason != NULL;
}

static void run(small_engine *f, const qb_engine *engine, float y[SMALL_OUTPUTS]) {
    float x[SMALL_INPUTS];
    small_engine_input(3, x);
    const void *inputs[] = {x};
    void *outputs[] = {y};
    qb_context *context;
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_run(&f->cx, context, inputs, outputs));
    qb_context_free(context);
}

static qb_engine *build(small_engine *f, const char *backends, int threads) {
    const qb_build_spec options = {
        .backends = backends, .float_type = QB_DTYPE_BF16, .threads = threads};
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

/* What the outputs may be away from f32's: with the magnitudes of all weights and inputs, each of
 * the roundings on the way (inputs, weights, the convolution's result, the mean, the second
 * weights) moves the sum of magnitudes by 2^-8 of it. */
static void magnitudes(small_engine *f, float y[SMALL_OUTPUTS]) {
    float x[SMALL_INPUTS];
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    assert_ok(&f->cx, qb_graph_clone(&f->cx, f->graph, &graph));
    for (int32_t v = 0; v < graph->n_values; v++) {
        float *data = (float *)(uintptr_t)graph->values[v].data;
        for (size_t i = 0; data && i < graph->values[v].bytes / sizeof *data; i++)
            data[i] = fabsf(data[i]);
    }
    small_engine_input(3, x);
    for (int i = 0; i < SMALL_INPUTS; i++) x[i] = fabsf(x[i]);
    const qb_build_spec options = {.backends = "ref"};
    const void *inputs[] = {x};
    void *outputs[] = {y};
    assert_ok(&f->cx, qb_engine_build(&f->cx, graph, &options, &engine));
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_run(&f->cx, context, inputs, outputs));
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void it_is_near_f32(void **state) {
    (void)state;
    small_engine f;
    float exact[SMALL_OUTPUTS], most[SMALL_OUTPUTS], got[SMALL_OUTPUTS], again[SMALL_OUTPUTS];
    if (is_absent()) skip();
    small_engine_make(&f, "ref");
    run(&f, f.engine, exact);
    magnitudes(&f, most);
    for (int threads = 1; threads <= 3; threads++) {
        qb_engine *engine = build(&f, NULL, threads);
        run(&f, engine, threads == 1 ? got : again);
        if (threads > 1) assert_memory_equal(again, got, sizeof got);
        qb_engine_free(engine);
    }
    const double roundings = pow(1 + ROUNDING, 5) - 1;
    for (int i = 0; i < SMALL_OUTPUTS; i++)
        assert_true(fabs((double)got[i] - (double)exact[i]) <= roundings * (double)most[i]);
    assert_true(memcmp(got, exact, sizeof got) != 0);
    small_engine_release(&f);
}

/* The input is converted, what has a weight computes in bf16, and the result is f32 at once. */
static void steps_say_what_they_compute_in(void **state) {
    (void)state;
    small_engine f;
    if (is_absent()) skip();
    small_engine_make(&f, "ref");
    qb_engine *engine = build(&f, NULL, 1);
    const qb_layer_counts layers = qb_engine_layers(engine);
    assert_int_equal(layers.bf16, 3); /* Conv, GlobalAveragePool, MatMul */
    assert_int_equal(layers.fp32 + layers.fp16 + layers.int8, 0);
    int32_t conversions = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (strcmp(info.op, "reorder") == 0) conversions++;
        if (strcmp(info.op, "reorder") == 0 && s == 0) assert_string_equal(info.name, "x");
        if (strcmp(info.op, "MatMul") == 0) assert_int_equal(info.dtype, QB_DTYPE_BF16);
    }
    assert_true(conversions >= 1);
    assert_int_equal(qb_engine_output(engine, 0)->dtype, QB_DTYPE_F32);
    qb_engine_free(engine);
    small_engine_release(&f);
}

static void files_keep_it(void **state) {
    (void)state;
    small_engine f;
    float built[SMALL_OUTPUTS], got[SMALL_OUTPUTS];
    if (is_absent()) skip();
    small_engine_make(&f, "ref");
    qb_engine *engine = build(&f, NULL, 2), *loaded;
    run(&f, engine, built);
    for (int compatible = 0; compatible < 2; compatible++) {
        const qb_engine_origin origin = {
            .model = "small.onnx", .precision = "bf16", .hardware_compatible = compatible};
        assert_ok(&f.cx, qb_engine_save(&f.cx, engine, &origin, f.path));
        assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
        run(&f, loaded, got);
        assert_memory_equal(got, built, sizeof built);
        assert_int_equal(qb_engine_layers(loaded).bf16, qb_engine_layers(engine).bf16);
        qb_engine_free(loaded);
    }
    qb_engine_free(engine);
    small_engine_release(&f);
}

/* Plans for other shapes are in bf16, too, and from a file the same bits. */
static void ranges_of_shapes_keep_it(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine, *loaded;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    const qb_shape min = qb_shape_of(4, 1, 3, 5, 5), opt = qb_shape_of(4, 2, 3, 16, 16);
    const qb_shape max = qb_shape_of(4, 4, 3, 32, 32), odd = qb_shape_of(4, 3, 3, 7, 11);
    const qb_profile profile = {&min, &opt, &max};
    const qb_build_spec options = {
        .float_type = QB_DTYPE_BF16, .profiles = &profile, .n_profiles = 1, .threads = 2};
    if (is_absent()) skip();
    qb_ctx_init(&cx);
    open_image_model(&cx, &graph);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    const qb_engine_origin origin = {.model = "open.onnx", .precision = "bf16"};
    assert_ok(&cx, qb_engine_save(&cx, engine, &origin, path));
    assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
    const qb_engine *const both[2] = {engine, loaded};
    float *y[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        qb_context *context;
        assert_ok(&cx, qb_context_create(&cx, both[i], &context));
        assert_ok(&cx, qb_context_set_shapes(&cx, context, &odd));
        assert_true(qb_engine_layers(qb_context_engine(context)).bf16 > 0);
        y[i] = open_run(&cx, context, 5, &n[i]);
        qb_context_free(context);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(y[0], y[1], n[0] * sizeof *y[0]);
    for (int i = 0; i < 2; i++) qb_free(y[i]);
    qb_engine_free(loaded);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void without_a_kernel_it_is_refused(void **state) {
    (void)state;
    small_engine f;
    qb_engine *engine = NULL;
    const qb_build_spec options = {.backends = "ref", .float_type = QB_DTYPE_BF16};
    small_engine_make(&f, "ref");
    assert_fails(&f.cx, qb_engine_build(&f.cx, f.graph, &options, &engine), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "backend cpu, which is not among those asked for");
    assert_null(engine);
    small_engine_release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_near_f32),
        cmocka_unit_test(steps_say_what_they_compute_in),
        cmocka_unit_test(files_keep_it),
        cmocka_unit_test(ranges_of_shapes_keep_it),
        cmocka_unit_test(without_a_kernel_it_is_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

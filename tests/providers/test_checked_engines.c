/* Engines are checked before they are used: wrong tactics, wrong epilogues and wrong fusions that
 * are planted are found, named and left out; right ones pass. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench_models.h"
#include "build_graph.h"
#include "fake_device.h"
#include "graph/fusion.h"
#include "graph/passes.h"
#include "graph/zoo.h"

/* Fusion that forgets the activations of convolutions. */
static bool fusion_is_wrong;
qb_status __wrap_qb_fuse(qb_ctx *cx, const qb_graph *graph, qb_groups *out);
qb_status __real_qb_fuse(qb_ctx *cx, const qb_graph *graph, qb_groups *out);

qb_status __wrap_qb_fuse(qb_ctx *cx, const qb_graph *graph, qb_groups *out) {
    QB_TRY(__real_qb_fuse(cx, graph, out));
    for (int32_t g = 0; g < out->n && fusion_is_wrong; g++)
        if (out->group[g].kind == QB_KIND_CONV) out->group[g].act = (qb_act){0};
    return QB_OK;
}

/* conv, LeakyRelu, residual conv, Add, LeakyRelu, MaxPool, product with a bias, Sigmoid. */
static qb_graph *make_network(bool quantized) {
    maker m;
    qb_graph *graph;
    maker_init(&m, 11);
    const int32_t x = make_input(&m, "x", DIMS(1, 3, 10, 10));
    const int32_t c = NODE(&m, "Conv", "c", x, make_random(&m, "cw", DIMS(8, 3, 3, 3)));
    SET_INTS(&m, "pads", 1, 1, 1, 1);
    const int32_t r = NODE(&m, "LeakyRelu", "r", c); /* quantizing alone would do as Relu does */
    set_float(&m, "alpha", 0.5f);
    const int32_t d = NODE(&m, "Conv", "d", r, make_random(&m, "dw", DIMS(8, 8, 3, 3)));
    SET_INTS(&m, "pads", 1, 1, 1, 1);
    const int32_t s = NODE(&m, "LeakyRelu", "s", NODE(&m, "Add", "a", d, r));
    set_float(&m, "alpha", 0.5f);
    const int32_t p = NODE(&m, "MaxPool", "p", s);
    SET_INTS(&m, "kernel_shape", 2, 2);
    SET_INTS(&m, "strides", 2, 2);
    const int32_t w = make_random(&m, "mw", DIMS(5, 6)), b = make_random(&m, "mb", DIMS(6));
    const int32_t sum = NODE(&m, "Add", "sum", NODE(&m, "MatMul", "product", p, w), b);
    make_output(&m, NODE(&m, "Sigmoid", "y", sum));
    if (quantized)
        assert_ok(&m.cx, bench_quantize(&m.cx, m.graph, &graph));
    else
        assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &graph));
    maker_release(&m);
    return graph;
}

static int32_t steps_with(const qb_engine *engine, const char *tactic, const char *reason) {
    int32_t n = 0;
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info step;
        qb_engine_step(engine, i, &step);
        n += (!tactic || strcmp(step.tactic, tactic) == 0) &&
             (!reason || (step.tactic_reason && strstr(step.tactic_reason, reason)));
    }
    return n;
}

static void wrong_tactics_are_left_out(void **state) {
    (void)state;
    static const planted_tactic planted[] = {PLANTED_EPILOGUE, PLANTED_RESULTS};
    for (int quantized = 0; quantized < 2; quantized++)
        for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
            qb_ctx cx;
            qb_engine *engine;
            qb_ctx_init(&cx);
            qb_graph *graph = make_network(quantized);
            qb_build_spec spec = {.threads = 1};
            fake_planted_tactic = planted[i];
            assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
            assert_true(steps_with(engine, "cpu.planted_conv", NULL) > 0); /* nobody looked */
            qb_engine_free(engine);
            spec.check = true;
            assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
            assert_int_equal(steps_with(engine, "cpu.planted_conv", NULL), 0);
            assert_true(steps_with(engine, NULL, "tactic cpu.planted_conv is wrong here: ") > 0);
            qb_engine_free(engine);
            qb_graph_free(graph);
        }
    fake_planted_tactic = PLANTED_NONE;
}

static double dependent_is_fast(const char *tactic, bool alone) {
    (void)alone;
    return strcmp(tactic, "cuda.fake_conv_dependent") == 0 ? 1e-6 : 1e-3;
}

/* In all types that it computes in; the other tactics of the device stay, and the timing cache
 * remembers. */
static void wrong_tactics_of_a_device_are_left_out(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], cache[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(cache, folder, "timing.cache");
    fake_device_has_dependent_launch = fake_device_dependent_is_wrong = true;
    fake_device_seconds = dependent_is_fast;
    for (int form = 0; form < 3; form++) {
        qb_ctx cx;
        qb_engine *engine;
        qb_ctx_init(&cx);
        qb_graph *graph = make_network(form == 2);
        qb_build_spec spec = {.threads = 1,
                              .backends = "cuda,cpu",
                              .timing_cache = cache,
                              .float_type = form == 1 ? QB_DTYPE_F16 : QB_DTYPE_F32};
        assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
        assert_true(steps_with(engine, "cuda.fake_conv_dependent", NULL) > 0); /* nobody looked */
        qb_engine_free(engine);
        spec.check = true;
        assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
        assert_int_equal(steps_with(engine, "cuda.fake_conv_dependent", NULL), 0);
        assert_true(steps_with(engine, "cuda.fake_conv", NULL) > 0);
        assert_true(steps_with(engine, NULL, "tactic cuda.fake_conv_dependent is wrong here: ") >
                    0);
        qb_engine_free(engine);
        spec.check = false;
        assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
        assert_int_equal(steps_with(engine, "cuda.fake_conv_dependent", NULL), 0);
        qb_engine_free(engine);
        qb_graph_free(graph);
    }
    fake_device_has_dependent_launch = fake_device_dependent_is_wrong = false;
    fake_device_seconds = NULL;
}

/* The next build with the cache does not try them. */
static void the_timing_cache_remembers(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], cache[QB_TEST_PATH], *text;
    size_t size;
    qb_ctx cx;
    qb_engine *engine;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(cache, folder, "timing.cache");
    qb_graph *graph = make_network(true);
    const qb_build_spec spec = {.threads = 1, .check = true, .timing_cache = cache};
    fake_planted_tactic = PLANTED_RESULTS;
    assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
    assert_true(steps_with(engine, NULL, "is wrong here") > 0);
    qb_engine_free(engine);
    assert_ok(&cx, qb_file_read(&cx, cache, (size_t)1 << 20, &text, &size));
    assert_non_null(strstr(text, "\ndevice host, "));
    assert_non_null(strstr(text, "\n-\tcpu.planted_conv\tconv;"));
    qb_free(text);
    assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &engine));
    assert_int_equal(steps_with(engine, "cpu.planted_conv", NULL), 0);
    assert_int_equal(steps_with(engine, NULL, "is wrong here"), 0); /* it was not tried */
    qb_engine_free(engine);
    qb_graph_free(graph);
    fake_planted_tactic = PLANTED_NONE;
}

static void wrong_fusions_are_named(void **state) {
    (void)state;
    for (int quantized = 0; quantized < 2; quantized++) {
        qb_ctx cx;
        qb_engine *engine;
        qb_ctx_init(&cx);
        qb_graph *graph = make_network(quantized);
        const qb_build_spec spec = {.threads = 1, .check = true};
        fusion_is_wrong = true;
        const qb_status status = qb_engine_build(&cx, graph, &spec, &engine);
        fusion_is_wrong = false;
        assert_int_equal(status, QB_STATUS_INTERNAL);
        assert_message(&cx, "checking step '");
        assert_message(&cx, "its nodes, fused, give ");
        qb_graph_free(graph);
    }
}

/* What is right passes: real networks in floats and integers, and the same engine comes of it. */
static void right_engines_pass(void **state) {
    (void)state;
    static const char *const names[] = {"squeezenet1_1", "mobilenet_v2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        qb_ctx cx;
        qb_graph *graph, *quantized;
        qb_ctx_init(&cx);
        assert_ok(&cx, qb_zoo_build(&cx, names[i], 1, NULL, &graph));
        assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
        assert_ok(&cx, bench_quantize(&cx, graph, &quantized));
        const qb_graph *const both[] = {graph, quantized};
        for (int q = 0; q < 2; q++) {
            const qb_build_spec spec = {.threads = 2, .check = true};
            qb_engine *engine;
            assert_ok(&cx, qb_engine_build(&cx, both[q], &spec, &engine));
            assert_int_equal(steps_with(engine, NULL, "is wrong here"), 0);
            qb_engine_free(engine);
        }
        qb_graph_free(quantized);
        qb_graph_free(graph);
    }
}

/* The random data of a check are legal: indices stay within tables of few rows. */
/* Sums that overflow are infinite or NaN, by the order of their terms. */
static void overflows_are_no_errors(void **state) {
    (void)state;
    float weight[4 * 3 * 9];
    for (int i = 0; i < 4 * 3 * 9; i++) weight[i] = i % 2 ? -3e38f : 3e38f;
    const qb_build_spec spec = {.threads = 2, .check = true};
    maker m;
    qb_engine *engine;
    maker_init(&m, 3);
    const int32_t w = make_floats(&m, "w", DIMS(4, 3, 3, 3), weight);
    const int32_t c = NODE(&m, "Conv", "c", make_input(&m, "x", DIMS(1, 3, 8, 8)), w);
    make_output(&m, NODE(&m, "LeakyRelu", "y", c));
    assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &spec, &engine));
    assert_int_equal(steps_with(engine, NULL, "is wrong here"), 0);
    qb_engine_free(engine);
    maker_release(&m);
}

/* x + x and x * x with what follows them: both operands are one value. */
static void values_that_are_read_twice_pass(void **state) {
    (void)state;
    maker m;
    qb_engine *engine;
    const qb_build_spec spec = {.threads = 1, .check = true};
    maker_init(&m, 14);
    const int32_t t = NODE(&m, "Tanh", "t", make_input(&m, "x", DIMS(2, 16, 5, 5)));
    make_quantized(&m, t, 0.01f, 128);
    make_output(&m, NODE(&m, "HardSigmoid", "y", NODE(&m, "Add", "twice", t, t)));
    make_output(&m, NODE(&m, "Sigmoid", "z", NODE(&m, "Mul", "square", t, t)));
    assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &spec, &engine));
    assert_int_equal(steps_with(engine, NULL, "is wrong here"), 0);
    qb_engine_free(engine);
    maker_release(&m);
}

static void small_tables_are_checked(void **state) {
    (void)state;
    for (int64_t rows = 1; rows < 4; rows++) {
        maker m;
        qb_engine *engine;
        const qb_build_spec spec = {.threads = 1, .check = true};
        maker_init(&m, 12);
        const int32_t index = NODE(&m, "Cast", "index", make_input(&m, "x", DIMS(2, 30)));
        set_int(&m, "to", 7);
        make_output(&m, NODE(&m, "Gather", "y", make_random(&m, "table", DIMS(rows, 8)), index));
        assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &spec, &engine));
        qb_engine_free(engine);
        maker_release(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_tactics_are_left_out),
        cmocka_unit_test(wrong_tactics_of_a_device_are_left_out),
        cmocka_unit_test(the_timing_cache_remembers),
        cmocka_unit_test(wrong_fusions_are_named),
        cmocka_unit_test(right_engines_pass),
        cmocka_unit_test(values_that_are_read_twice_pass),
        cmocka_unit_test(small_tables_are_checked),
        cmocka_unit_test(overflows_are_no_errors),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

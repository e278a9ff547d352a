/* Recurrent layers in engines: kernels against eval with all attributes and any of the outputs; the
 * same bits for any threads, neighbours and engine files; ranges of shapes; what is refused. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "graph/op.h"
#include "recurrent_layers.h"

static void give_up(layer_graph *f, qb_engine *engine) {
    qb_engine_free(engine);
    qb_graph_free(f->graph);
}

static qb_engine *build(layer_graph *f, const char *backends, int threads) {
    const qb_build_spec options = {.backends = backends, .threads = threads, .observable = true};
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

static void assert_close(const layer_answer *a, const layer_answer *b) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < LAYER_MOST; i++) /* eval sums in double; with Relu states grow */
            if (!(fabsf(a->out[k][i] - b->out[k][i]) <= 1e-5f * (1 + fabsf(a->out[k][i]))))
                fail_msg("output %d, element %d: expected %g, got %g", k, i, (double)a->out[k][i],
                         (double)b->out[k][i]);
}

static void kernels_compute_what_eval_does(void **state) {
    (void)state;
    static const char *const backends[] = {NULL, "cpu,ref"};
    static float x[LAYER_INPUTS * 5 * 9];
    static layer_answer expected, first, got;
    layer_fill(1, x, LAYER_INPUTS * 5 * 9, 1);
    for (int i = 0; i < 72; i++) {
        const layer l = layer_numbered(i);
        const bool idle = !l.outputs[0] && !l.outputs[1] && !l.outputs[2]; /* has no step */
        layer_graph f;
        layer_make(&f, &l);
        qb_engine *engine = build(&f, "ref", 1);
        layer_run(&f, engine, &l, x, true, &expected);
        assert_string_equal(expected.tactic, idle ? "" : "node");
        qb_engine_free(engine);
        for (int threads = 1; threads <= 3; threads++) {
            engine = build(&f, backends[i % 2], threads);
            layer_run(&f, engine, &l, x, true, &got);
            assert_memory_equal(got.tactic, idle ? "" : "cpu.recurrent", idle ? 1 : 13);
            assert_int_equal(got.n_observed, expected.n_observed);
            assert_close(&expected, &got);
            if (threads == 1) first = got;
            assert_memory_equal(&first, &got, sizeof got);
            qb_engine_free(engine);
        }
        qb_graph_free(f.graph);
    }
}

/* Item `b` of a batch of 9, alone: the same bits. */
static void an_item_does_not_see_its_neighbours(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 12 * 9], alone_x[LAYER_INPUTS * 12];
    static layer_answer all, alone;
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    layer_fill(2, x, LAYER_INPUTS * 12 * 9, 1);
    for (int o = 0; o < 3; o++) {
        layer l = {.op = ops[o],
                   .direction = "bidirectional",
                   .steps = 12,
                   .batch = 9,
                   .bias = true,
                   .outputs = {true}};
        layer_graph f;
        layer_make(&f, &l);
        qb_engine *engine = build(&f, NULL, 2);
        layer_run(&f, engine, &l, x, true, &all);
        give_up(&f, engine);
        l.batch = 1;
        layer_make(&f, &l);
        engine = build(&f, NULL, 1);
        for (int b = 0; b < 9; b++) {
            for (int t = 0; t < 12; t++)
                memcpy(alone_x + t * LAYER_INPUTS, x + (t * 9 + b) * LAYER_INPUTS,
                       LAYER_INPUTS * sizeof *x);
            layer_run(&f, engine, &l, alone_x, true, &alone);
            for (int row = 0; row < 12 * 2; row++)
                assert_memory_equal(alone.out[0] + row * LAYER_HIDDEN,
                                    all.out[0] + (row * 9 + b) * LAYER_HIDDEN,
                                    LAYER_HIDDEN * sizeof *x);
        }
        give_up(&f, engine);
    }
}

static void a_loaded_engine_gives_the_same_bits(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 5 * 9];
    static layer_answer built, loaded;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "layer.qbe");
    layer_fill(3, x, LAYER_INPUTS * 5 * 9, 1);
    for (int i = 0; i < 12; i++) {
        const layer l = layer_numbered(i);
        const qb_engine_origin origin = {.model = "layer.onnx", .precision = "fp32"};
        layer_graph f;
        qb_engine *again;
        layer_make(&f, &l);
        qb_engine *engine = build(&f, NULL, 2);
        assert_ok(&f.cx, qb_engine_save(&f.cx, engine, &origin, path));
        assert_ok(&f.cx, qb_engine_load(&f.cx, path, &again));
        layer_run(&f, engine, &l, x, true, &built);
        layer_run(&f, again, &l, x, true, &loaded);
        assert_memory_equal(&built, &loaded, sizeof built);
        qb_engine_free(again);
        give_up(&f, engine);
    }
}

static void shapes_may_stay_open(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 12 * 9], y[LAYER_MOST];
    static layer_answer fixed;
    static const int64_t sizes[][2] = {{12, 9}, {1, 1}, {7, 4}};
    layer l = {.op = "GRU",
               .direction = "bidirectional",
               .steps = -1,
               .batch = -1,
               .bias = true,
               .outputs = {true}};
    const qb_shape low = qb_shape_of(3, 1, 1, LAYER_INPUTS),
                   usual = qb_shape_of(3, 5, 2, LAYER_INPUTS);
    const qb_shape high = qb_shape_of(3, 12, 9, LAYER_INPUTS);
    const qb_profile profile = {&low, &usual, &high};
    const qb_build_spec options = {.profiles = &profile, .n_profiles = 1, .threads = 2};
    layer_graph f, g;
    qb_engine *engine;
    qb_context *context;
    layer_fill(4, x, LAYER_INPUTS * 12 * 9, 1);
    layer_make(&f, &l);
    assert_ok(&f.cx, qb_engine_build(&f.cx, f.graph, &options, &engine));
    assert_ok(&f.cx, qb_context_create(&f.cx, engine, &context));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const qb_shape shape = qb_shape_of(3, (int)sizes[i][0], (int)sizes[i][1], LAYER_INPUTS);
        const void *inputs[] = {x};
        void *outputs[] = {y};
        assert_ok(&f.cx, qb_context_set_shapes(&f.cx, context, &shape));
        assert_ok(&f.cx, qb_context_run(&f.cx, context, inputs, outputs));
        l.steps = sizes[i][0];
        l.batch = sizes[i][1];
        layer_make(&g, &l);
        qb_engine *one = build(&g, NULL, 1);
        layer_run(&g, one, &l, x, true, &fixed);
        assert_memory_equal(fixed.out[0], y,
                            (size_t)(l.steps * l.batch * 2 * LAYER_HIDDEN) * sizeof *y);
        give_up(&g, one);
    }
    qb_context_free(context);
    give_up(&f, engine);
}

/* Between Q/DQ nodes: quantized values come in as dequantized values, and results become quantized
 * values behind the layer. */
static void neighbours_may_be_codes(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 4 * 3];
    static layer_answer expected, got;
    static const float scale[] = {0.03f, 0.01f};
    static const int32_t zero[] = {100, 128};
    const layer l = {.op = "LSTM",
                     .direction = "reverse",
                     .steps = 4,
                     .batch = 3,
                     .bias = true,
                     .outputs = {true, true, true}};
    layer_graph f;
    layer_fill(6, x, LAYER_INPUTS * 4 * 3, 1);
    layer_make(&f, &l);
    for (int i = 0; i < 2; i++) {
        const int32_t value = qb_graph_find_value(f.graph, i == 0 ? "x" : "y");
        f.graph->values[value].q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale[i], &zero[i]};
    }
    qb_engine *engine = build(&f, "ref", 1);
    layer_run(&f, engine, &l, x, true, &expected);
    qb_engine_free(engine);
    engine = build(&f, NULL, 2);
    layer_run(&f, engine, &l, x, true, &got);
    assert_memory_equal(got.tactic, "cpu.recurrent", 13);
    assert_int_equal(got.n_observed, expected.n_observed);
    for (int i = 0; i < 4 * 3 * LAYER_HIDDEN; i++) { /* a code apart where rounding decides */
        const float codes = got.out[0][i] / scale[1], apart = got.out[0][i] - expected.out[0][i];
        assert_true(fabsf(codes - roundf(codes)) < 1e-3f);
        assert_true(fabsf(apart) < 1.01f * scale[1]);
    }
    for (int k = 1; k < 3; k++)
        for (int i = 0; i < 3 * LAYER_HIDDEN; i++)
            assert_true(fabsf(got.out[k][i] - expected.out[k][i]) < 1e-5f);
    give_up(&f, engine);
}

/* Functions without a kernel are eval's. */
static void other_activations_run_all_the_same(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 3 * 2];
    static layer_answer expected, got;
    const layer l = {.op = "LSTM",
                     .direction = "forward",
                     .steps = 3,
                     .batch = 2,
                     .outputs = {true, true, true},
                     .activation = "Softsign"};
    layer_graph f;
    layer_fill(5, x, LAYER_INPUTS * 3 * 2, 1);
    layer_make(&f, &l);
    qb_engine *engine = build(&f, "ref", 1);
    layer_run(&f, engine, &l, x, true, &expected);
    qb_engine_free(engine);
    engine = build(&f, NULL, 2);
    layer_run(&f, engine, &l, x, true, &got);
    assert_string_equal(got.tactic, "node");
    assert_memory_equal(&expected, &got, sizeof got);
    give_up(&f, engine);
}

static void lengths_beyond_the_steps_are_refused(void **state) {
    (void)state;
    static float x[LAYER_INPUTS * 3 * 2], y[3 * 2 * LAYER_HIDDEN];
    const layer l = {.op = "RNN",
                     .direction = "forward",
                     .steps = 3,
                     .batch = 2,
                     .lengths = true,
                     .outputs = {true}};
    const int32_t lengths[] = {3, 4};
    const void *inputs[] = {x, lengths};
    void *outputs[] = {y};
    layer_graph f;
    qb_context *context;
    layer_make(&f, &l);
    qb_engine *engine = build(&f, NULL, 1);
    assert_ok(&f.cx, qb_context_create(&f.cx, engine, &context));
    assert_int_equal(qb_context_run(&f.cx, context, inputs, outputs), QB_STATUS_INVALID);
    assert_non_null(strstr(f.cx.message, "sequence_lens: expected 0 to 3, got 4"));
    qb_context_free(context);
    give_up(&f, engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_compute_what_eval_does),
        cmocka_unit_test(an_item_does_not_see_its_neighbours),
        cmocka_unit_test(a_loaded_engine_gives_the_same_bits),
        cmocka_unit_test(shapes_may_stay_open),
        cmocka_unit_test(neighbours_may_be_codes),
        cmocka_unit_test(other_activations_run_all_the_same),
        cmocka_unit_test(lengths_beyond_the_steps_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

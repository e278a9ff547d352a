/* Functions, branches and loops of files become plain nodes: by what they compute, on the models of
 * the fuzzer's corpus (tests/fuzz/make_onnx_corpus.py). */
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "graph/passes.h"
#include "qb_test.h"

#define CORPUS QB_SOURCE_DIR "/tests/fuzz/corpus/onnx/"

/* The outputs for x = {1, -2}, floats one behind the other. */
static void run(const char *file, qb_shape shape, float *out, int64_t n) {
    static const float x[2] = {1, -2};
    const void *in[1] = {x};
    void *outputs[4];
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_onnx_load(&cx, file, &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    const qb_build_spec options = {.input_shapes = &shape, .threads = 1};
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    int64_t total = 0;
    for (int32_t i = 0; i < qb_engine_n_outputs(engine); i++) {
        outputs[i] = out + total;
        total += qb_shape_count(&qb_engine_output(engine, i)->shape);
    }
    assert_int_equal(total, n);
    assert_ok(&cx, qb_context_run(&cx, context, in, outputs));
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void expect(const float *got, const float *wanted, size_t n) {
    for (size_t i = 0; i < n; i++) assert_float_equal(got[i], wanted[i], 1e-6);
}

static void branches_with_constant_conditions_are_inlined(void **state) {
    (void)state;
    float y[2];
    run(CORPUS "branches.onnx", qb_shape_of(2, 1, 2), y, 2);
    expect(y, (const float[]){0, 0}, 2); /* (x + x) / 2 - x */
}

static void loops_with_a_constant_number_of_iterations_are_unrolled(void **state) {
    (void)state;
    float y[8];
    run(CORPUS "loop.onnx", qb_shape_of(1, 2), y, 8);
    expect(y, (const float[]){8, -16, 2, -4, 5, -7, 10, -14}, 8);
}

static void scans_over_a_known_length_are_unrolled(void **state) {
    (void)state;
    float y[8];
    run(CORPUS "scan.onnx", qb_shape_of(1, 2), y, 8);
    expect(y, (const float[]){8, 54, 16, 14, 10, 108, 92, 60}, 8);
}

/* Without boxes the branch that suppresses keeps none, so that it stands for both. */
static void suppression_needs_no_condition(void **state) {
    (void)state;
    static const float x[3][2] = {{1, -2}, {-1, -2}, {3, 4}};
    static const float wanted[3][2] = {{1, 0}, {0, 0}, {4, 3}};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    const qb_shape shape = qb_shape_of(1, 2);
    const qb_build_spec options = {.input_shapes = &shape, .threads = 1};
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_onnx_load(&cx, CORPUS "suppression.onnx", &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int i = 0; i < 3; i++) {
        float y[2] = {9, 9};
        const void *in[1] = {x[i]};
        void *out[1] = {y};
        assert_int_equal(qb_shape_count(&qb_engine_output(engine, 0)->shape), 2); /* at most */
        assert_ok(&cx, qb_context_run(&cx, context, in, out));
        const qb_shape got = qb_context_output_shape(context, 0);
        assert_int_equal(qb_shape_count(&got), (x[i][0] > 0) + (x[i][1] > 0));
        expect(y, wanted[i], 2);
    }
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void conditions_are_computed_from_constants_and_shapes(void **state) {
    (void)state;
    float y[4];
    run(CORPUS "computed.onnx", qb_shape_of(2, 1, 2), y, 4);
    expect(y, (const float[]){2, -4, 8, -16}, 4);
}

static void functions_take_attributes_and_their_defaults(void **state) {
    (void)state;
    float y[2];
    run(CORPUS "function.onnx", qb_shape_of(2, 1, 2), y, 2);
    expect(y, (const float[]){1.5f, -0.1875f}, 2); /* 3 x, then leaky * 0.5, each time */
}

/* `text` is part of the reason. */
static void refused_as(qb_status status, const char *file, const char *text) {
    qb_ctx cx;
    qb_graph *graph = NULL;
    qb_ctx_init(&cx);
    assert_int_equal(qb_onnx_load(&cx, file, &graph), status);
    if (!strstr(cx.message, text)) fail_msg("'%s' is not in: %s", text, cx.message);
}

static void refused(const char *file, const char *text) {
    refused_as(QB_STATUS_UNSUPPORTED, file, text);
}

static void what_is_not_known_is_refused_all_at_once(void **state) {
    (void)state;
    refused(CORPUS "control.onnx", "Convolution (opset 17): unknown operator");
    refused(
        CORPUS "unknown_in_loop.onnx",
        "QLinearMull (opset 17): unknown operator; the nearest is QLinearMul; node 2 and 999 more");
}

/* Errors in functions name the calls that lead there. */
static void contradictions_are_named(void **state) {
    (void)state;
    static const struct {
        qb_status status;
        const char *file, *text;
    } cases[] = {
        {QB_STATUS_FORMAT, CORPUS "if_without_else.onnx", "node 0 If: it has no else_branch"},
        {QB_STATUS_FORMAT, CORPUS "scan_of_none.onnx", "num_scan_inputs: expected 1 to 2, got 0"},
        {QB_STATUS_FORMAT, CORPUS "scan_of_too_many.onnx", "expected 1 to 2, got 3"},
        {QB_STATUS_FORMAT, CORPUS "scan_sideways.onnx",
         "node 0 Scan: scan_input_directions: expected 0 or 1, got 7"},
        {QB_STATUS_FORMAT, CORPUS "scan_two_ways.onnx",
         "scan_output_directions: expected 1 values, got 2"},
        {QB_STATUS_FORMAT, CORPUS "scan_of_unlike.onnx",
         "node 0 Scan: input 'w' is gone through in 3 items, those before it in 4"},
        {QB_STATUS_INVALID, CORPUS "error_in_functions.onnx",
         "Transpose 'call/to g/h/last': attribute perm: expected a permutation"},
        {QB_STATUS_FORMAT, CORPUS "function_of_nothing.onnx",
         "node 0 f 'call': node 0 g 'to g': function 'g': nothing makes output 'b'"},
        {QB_STATUS_UNSUPPORTED, CORPUS "unknown_in_function.onnx",
         "Nonsense (opset 17): unknown operator; node 0 'call/to g/last'"},
        {QB_STATUS_FORMAT, CORPUS "external_twice.onnx",
         "initializer 0 'w': external data: location is given twice"},
        {QB_STATUS_FORMAT, CORPUS "declared_otherwise.onnx",
         "input 'w': its initializer is f32, it is declared s64"},
        {QB_STATUS_FORMAT, CORPUS "declared_larger.onnx",
         "input 'w': its initializer is 2, it is declared of another shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused_as(cases[i].status, cases[i].file, cases[i].text);
}

/* Neither time nor memory follows what a small file asks for. */
static void copies_are_bounded_by_the_size_of_the_file(void **state) {
    (void)state;
    const char *reason = "expand to more than 4194304 bytes, which is the limit for a model of";
    refused(CORPUS "nested_loops.onnx", reason);
    refused(CORPUS "nested_calls.onnx", reason);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(branches_with_constant_conditions_are_inlined),
    cmocka_unit_test(loops_with_a_constant_number_of_iterations_are_unrolled),
    cmocka_unit_test(scans_over_a_known_length_are_unrolled),
    cmocka_unit_test(conditions_are_computed_from_constants_and_shapes),
    cmocka_unit_test(suppression_needs_no_condition),
    cmocka_unit_test(functions_take_attributes_and_their_defaults),
    cmocka_unit_test(what_is_not_known_is_refused_all_at_once),
    cmocka_unit_test(contradictions_are_named),
    cmocka_unit_test(copies_are_bounded_by_the_size_of_the_file),
};
QB_TEST_MAIN(tests)

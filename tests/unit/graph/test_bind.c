/* Constant folding and binding to concrete shapes. */
#include <stdio.h>
#include <string.h>

#include "build_graph.h"
#include "onnx_bytes.h"

/* x[N,3,H,W] -> Shape -> Gather 0 -> Concat with -1 -> Reshape(x): what exporters write for
 * flatten. */
static int32_t flatten_chain(maker *m, int32_t x) {
    int32_t shape = NODE(m, "Shape", "shape", x);
    int32_t zero = INTS(m, "zero", 0), rest = INTS(m, "rest", -1);
    int32_t n = NODE(m, "Gather", "n", shape, zero);
    int32_t to = NODE(m, "Concat", "to", n, rest);
    set_int(m, "axis", 0);
    return NODE(m, "Reshape", "flat", x, to);
}

static void shapes_computed_from_shapes_become_known(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "x", DIMS(-1, 3, 4, 5));
    make_output(&m, NODE(&m, "Relu", "y", flatten_chain(&m, x)));
    assert_false(qb_shape_known(&value_of(&m, m.graph->outputs[0])->shape));
    qb_shape given = qb_shape_of(4, 7, 3, 4, 5), expected = qb_shape_of(2, 7, 60);
    qb_graph *bound = NULL;
    assert_ok(&m.cx, qb_graph_bind(&m.cx, m.graph, &given, &bound));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, bound));
    assert_true(qb_shape_equal(&bound->values[bound->outputs[0]].shape, &expected));
    assert_int_equal(count_nodes(bound), 2); /* Reshape and Relu */
    assert_int_equal(bound->n_symbols, 0);
    assert_int_equal(m.graph->n_nodes, 5); /* the original is as it was */
    qb_graph_free(bound);
    maker_release(&m);
}

static void a_fixed_input_is_a_constant(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    const int32_t size = make_input(&m, "size", DIMS(-1, 2)), x = make_input(&m, "x", DIMS(-1, 2));
    make_output(&m, NODE(&m, "Mul", "y", x, size));
    assert_ok(&m.cx, qb_graph_fix_input(&m.cx, m.graph, 0, (double[]){3, 5}));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    assert_int_equal(m.graph->n_inputs, 1);
    assert_string_equal(value_of(&m, m.graph->inputs[0])->name, "x");
    const qb_value *fixed = value_of(&m, m.graph->nodes[0].in[1]);
    const qb_shape expected = qb_shape_of(2, 1, 2);
    assert_true(qb_shape_equal(&fixed->shape, &expected));
    assert_memory_equal(fixed->data, ((float[]){3, 5}), fixed->bytes);
    maker_release(&m);
}

static void the_range_of_an_image_is_told_by_the_first_arithmetic(void **state) {
    (void)state;
    static const struct {
        const char *op;
        float constant;
        qb_own_range range;
    } cases[] = {{"Div", 255, QB_OWN_RANGE_PIXELS},    {"Mul", 1.0F / 255, QB_OWN_RANGE_PIXELS},
                 {"Sub", 127.5F, QB_OWN_RANGE_PIXELS}, {"Add", -104, QB_OWN_RANGE_PIXELS},
                 {"Sub", 0.485F, QB_OWN_RANGE_SHARES}, {"Div", 0.229F, QB_OWN_RANGE_SHARES},
                 {"Max", 255, QB_OWN_RANGE_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker m;
        maker_init(&m, 1);
        const int32_t x = make_input(&m, "x", DIMS(1, 4, 4, 3));
        const int32_t c = make_scalar(&m, "c", cases[i].constant);
        const int32_t moved = NODE(&m, "Transpose", "moved", x);
        make_output(&m, NODE(&m, cases[i].op, "y", moved, c));
        qb_own_range range;
        assert_ok(&m.cx, qb_graph_own_range(&m.cx, m.graph, x, &range));
        assert_int_equal(range, cases[i].range);
        maker_release(&m);
    }
}

static void folding_equals_evaluation(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 2);
    int32_t x = make_input(&m, "x", DIMS(4, 6));
    int32_t a = make_random(&m, "a", DIMS(6, 6)), b = make_random(&m, "b", DIMS(6, 6));
    int32_t sum = NODE(&m, "Add", "sum", a, b);
    int32_t t = NODE(&m, "Transpose", "t", sum);
    make_output(&m, NODE(&m, "MatMul", "y", x, t));
    make_output(&m, t);
    qb_graph *folded = NULL;
    int32_t n = 0;
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &folded));
    assert_ok(&m.cx, qb_graph_fold(&m.cx, folded, &n));
    assert_ok(&m.cx, qb_graph_sweep(&m.cx, folded));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, folded));
    assert_int_equal(n, 2);
    assert_int_equal(count_nodes(folded), 1);
    assert_same_results(&m, m.graph, folded, 0);
    qb_graph_free(folded);
    maker_release(&m);
}

static void quantized_constants_are_not_folded_away(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    uint8_t codes[6] = {0, 1, 2, 3, 4, 5};
    qb_shape shape = qb_shape_of(2, 2, 3);
    int32_t w = qb_graph_add_constant(&m.cx, m.graph, "w", QB_DTYPE_U8, &shape, codes);
    make_quantized(&m, w, 0.5f, 3);
    int32_t x = make_input(&m, "x", DIMS(4, 3));
    make_output(&m, NODE(&m, "MatMul", "y", x, NODE(&m, "Transpose", "t", w)));
    int32_t n = -1;
    assert_ok(&m.cx, qb_graph_fold(&m.cx, m.graph, &n));
    assert_int_equal(n, 0);
    assert_int_equal(value_of(&m, w)->dtype, QB_DTYPE_U8);
    assert_memory_equal(value_of(&m, w)->data, codes, 6);
    maker_release(&m);
}

/* What is computed from quantized sizes is rounded to what the result can hold, and stays integers.
 */
static void quantized_sizes_are_computed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    uint8_t codes[2] = {4, 8};
    qb_shape shape = qb_shape_of(1, 2);
    int32_t size = qb_graph_add_constant(&m.cx, m.graph, "size", QB_DTYPE_U8, &shape, codes);
    make_quantized(&m, size, 0.5f, 2); /* 1 and 3 */
    int32_t twice = NODE(&m, "Add", "twice", size, size);
    make_quantized(&m, twice, 4.0f, 1);
    int32_t whole = NODE(&m, "Ceil", "whole", twice);
    make_output(&m, whole);
    int32_t n = -1;
    assert_ok(&m.cx, qb_graph_fold(&m.cx, m.graph, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(value_of(&m, twice)->data, ((uint8_t[]){1, 3}),
                        2); /* 0.5 and 1.5, to even */
    assert_memory_equal(value_of(&m, whole)->data, ((float[]){0.0f, 8.0f}), 8);
    maker_release(&m);
}

/* Exporters share equal gains through an Identity, whose result tools quantize anew. */
static void shared_quantized_gains_are_computed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    uint8_t codes[40] = {0}, want[40];
    for (int i = 0; i < 40; i++) codes[i] = (uint8_t)(2 * i), want[i] = (uint8_t)(i + 1);
    qb_shape shape = qb_shape_of(1, 40);
    int32_t gain = qb_graph_add_constant(&m.cx, m.graph, "gain", QB_DTYPE_U8, &shape, codes);
    make_quantized(&m, gain, 0.5f, 0);
    int32_t again = NODE(&m, "Identity", "again", gain);
    make_quantized(&m, again, 1.0f, 1);
    make_output(&m, NODE(&m, "Mul", "y", make_input(&m, "x", DIMS(2, 40)), again));
    int32_t n = -1;
    assert_ok(&m.cx, qb_graph_fold(&m.cx, m.graph, &n));
    assert_int_equal(n, 1);
    assert_int_equal(value_of(&m, again)->dtype, QB_DTYPE_U8);
    assert_memory_equal(value_of(&m, again)->data, want, sizeof want);
    maker_release(&m);
}

static void folding_stops_at_huge_results(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 4);
    int32_t size = INTS(&m, "size", 1 << 20, 1 << 20); /* 4 TiB of floats */
    int32_t n = -1;
    make_output(&m, NODE(&m, "ConstantOfShape", "y", size));
    assert_ok(&m.cx, qb_graph_fold(&m.cx, m.graph, &n));
    assert_int_equal(n, 0);
    assert_int_equal(count_nodes(m.graph), 1);
    maker_release(&m);
}

static void folding_stops_at_endless_arithmetic(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 5);
    int32_t size = INTS(&m, "size", 4096, 4096), n = -1;
    int32_t a = NODE(&m, "ConstantOfShape", "a", size);
    make_output(&m, NODE(&m, "MatMul", "y", a, a)); /* 2^36 multiplications */
    assert_ok(&m.cx, qb_graph_fold(&m.cx, m.graph, &n));
    assert_int_equal(n, 1);
    assert_int_equal(count_op(m.graph, "MatMul"), 1);
    maker_release(&m);
}

static void expect_refusal(maker *m, const qb_shape *given, const char *message) {
    qb_graph *bound = NULL;
    assert_fails(&m->cx, qb_graph_bind(&m->cx, m->graph, given, &bound), QB_STATUS_INVALID);
    assert_message(&m->cx, message);
    assert_null(bound);
}

static void given_shapes_must_fit_the_inputs(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 6);
    int32_t a = make_input(&m, "a", DIMS(-1, 3)), b = make_input(&m, "b", DIMS(-1, 3));
    make_output(&m, NODE(&m, "Add", "y", a, b));
    qb_shape shapes[2] = {qb_shape_of(2, 2, 3), qb_shape_of(2, 2, 3)};
    shapes[0].rank = 1;
    expect_refusal(&m, shapes, "input 'a': the model has shape ?x3, got 2");
    shapes[0] = qb_shape_of(2, 2, 4);
    expect_refusal(&m, shapes, "input 'a': dimension 1: the model has 3, got 4");
    shapes[0] = qb_shape_of(2, -1, 3);
    expect_refusal(&m, shapes, "expected a size of at least 0, got -1");
    shapes[0].dim[0] = INT64_MAX / 2;
    expect_refusal(&m, shapes, "input 'a': shape 4611686018427387903x3 is too large for memory");
    shapes[0] = qb_shape_of(2, 5, 3);
    expect_refusal(&m, shapes, "input 'b': dimension 0: 'N' is 5 elsewhere, got 2");
    shapes[0].rank = -1;
    expect_refusal(&m, shapes, "input 'a': the model has shape ?x3, got ?");
    maker_release(&m);
}

static void shapes_that_depend_on_values_are_named(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 7);
    int32_t x = make_input(&m, "x", DIMS(6));
    int32_t to = make_input(&m, "to", DIMS(2));
    m.graph->values[to].dtype = QB_DTYPE_S64;
    make_output(&m, NODE(&m, "Reshape", "y", x, to));
    qb_shape shapes[2] = {qb_shape_of(1, 6), qb_shape_of(1, 2)};
    qb_graph *bound = NULL;
    assert_fails(&m.cx, qb_graph_bind(&m.cx, m.graph, shapes, &bound), QB_STATUS_UNSUPPORTED);
    assert_message(&m.cx, "node 0 Reshape 'y': output 'y'");
    assert_message(&m.cx, "depends on the input's values");
    assert_message(&m.cx, "'qbench optimize --outputs x,to' ends the model before this node");
    maker_release(&m);
}

/* A command with half a name would be wrong. */
static void commands_have_whole_names(void **state) {
    (void)state;
    enum { LONG = 200, TOO_LONG = 3000 };
    for (int i = 0; i < 2; i++) {
        maker m;
        maker_init(&m, 7);
        char name[TOO_LONG + 1] = "", wanted[TOO_LONG + 64];
        memset(name, 'x', i ? TOO_LONG : LONG);
        int32_t x = make_input(&m, name, DIMS(6)), to = make_input(&m, "to", DIMS(2));
        m.graph->values[to].dtype = QB_DTYPE_S64;
        make_output(&m, NODE(&m, "Reshape", "y", x, to));
        qb_shape shapes[2] = {qb_shape_of(1, 6), qb_shape_of(1, 2)};
        qb_graph *bound = NULL;
        assert_fails(&m.cx, qb_graph_bind(&m.cx, m.graph, shapes, &bound), QB_STATUS_UNSUPPORTED);
        snprintf(wanted, sizeof wanted, "--outputs %s,to' ends the model before", name);
        assert_message(&m.cx, i ? "--outputs' with its inputs ends the model before" : wanted);
        maker_release(&m);
    }
}

static void cancelling_stops_the_folding(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 8);
    int32_t a = make_random(&m, "a", DIMS(2));
    make_output(&m, NODE(&m, "Add", "y", a, a));
    volatile sig_atomic_t cancel = 1;
    m.cx.cancel = &cancel;
    int32_t n;
    assert_fails(&m.cx, qb_graph_fold(&m.cx, m.graph, &n), QB_STATUS_CANCELLED);
    maker_release(&m);
}

static qb_status bind_body(qb_ctx *cx, void *user) {
    qb_shape given = qb_shape_of(4, 2, 3, 4, 5);
    qb_graph *bound = NULL;
    QB_TRY(qb_graph_bind(cx, user, &given, &bound));
    qb_graph_free(bound);
    return QB_OK;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "x", DIMS(-1, 3, 4, 5));
    make_output(&m, NODE(&m, "Relu", "y", flatten_chain(&m, x)));
    assert_true(qb_test_alloc_sweep(bind_body, m.graph) > 20);
    maker_release(&m);
}

/* Models whose weights are ConstantOfShape nodes (opset 9). */
static void whole_models_fold_and_bind(void **state) {
    (void)state;
    static const char *const names[] = {"light_resnet50", "light_squeezenet", "light_densenet121"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[QB_TEST_PATH], name[64];
        snprintf(name, sizeof name, "onnx-light/%s/model.onnx", names[i]);
        qb_test_need_shared(path, name);
        qb_graph *g = NULL, *bound = NULL;
        assert_ok(&cx, qb_onnx_load(&cx, path, &g));
        qb_shape given = qb_shape_of(4, 1, 3, 224, 224);
        assert_ok(&cx, qb_graph_bind(&cx, g, &given, &bound));
        assert_ok(&cx, qb_graph_verify(&cx, bound));
        assert_int_equal(count_op(bound, "ConstantOfShape"), 0);
        assert_int_equal(bound->values[bound->outputs[0]].shape.dim[1], 1000);
        qb_graph_free(bound);
        qb_graph_free(g);
    }
}

/* Folding may make nothing here: a view of a constant is its memory. */
static void views_of_constants_take_nothing(void **state) {
    (void)state;
    maker m;
    int32_t n;
    maker_init(&m, 21);
    const int32_t x = make_random(&m, "x", DIMS(4, 6));
    const int32_t y = NODE(&m, "Reshape", "y", x, INTS(&m, "s", 24));
    make_output(&m, NODE(&m, "Exp", "z", y));
    assert_ok(&m.cx, qb_graph_fold_within(&m.cx, m.graph, 0, &n));
    assert_int_equal(n, 1);
    assert_ptr_equal(value_of(&m, y)->data, value_of(&m, x)->data);
    assert_int_equal(count_op(m.graph, "Exp"), 1);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_of_constants_take_nothing),
        cmocka_unit_test(shapes_computed_from_shapes_become_known),
        cmocka_unit_test(a_fixed_input_is_a_constant),
        cmocka_unit_test(the_range_of_an_image_is_told_by_the_first_arithmetic),
        cmocka_unit_test(folding_equals_evaluation),
        cmocka_unit_test(quantized_constants_are_not_folded_away),
        cmocka_unit_test(quantized_sizes_are_computed),
        cmocka_unit_test(shared_quantized_gains_are_computed),
        cmocka_unit_test(folding_stops_at_huge_results),
        cmocka_unit_test(folding_stops_at_endless_arithmetic),
        cmocka_unit_test(given_shapes_must_fit_the_inputs),
        cmocka_unit_test(shapes_that_depend_on_values_are_named),
        cmocka_unit_test(commands_have_whole_names),
        cmocka_unit_test(cancelling_stops_the_folding),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(whole_models_fold_and_bind),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

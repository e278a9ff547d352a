#include <string.h>

#include "run_passes.h"

/* --- the driver ------------------------------------------------------------------------------ */

static void a_disabled_pass_does_nothing(void **state) {
    (void)state;
    const char *disabled[MAX_PASSES + 1] = {0};
    for (int32_t i = 0; qb_passes[i]; i++) disabled[i] = qb_passes[i]->name;
    maker m;
    maker_init(&m, 1);
    make_output(&m, NODE(&m, "Identity", "y", NODE(&m, "Relu", "r", make_image(&m))));
    qb_optimize_report report;
    assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, &(qb_optimize_options){disabled}, &report));
    assert_int_equal(report.nodes_before, 2);
    assert_int_equal(report.nodes_after, 2);
    disabled[0] = "no-such-pass";
    assert_fails(&m.cx, qb_optimize(&m.cx, m.graph, &(qb_optimize_options){disabled}, NULL),
                 QB_STATUS_INVALID);
    assert_message(&m.cx, "no-such-pass");
    maker_release(&m);
}

static void pass_names_are_unique_and_described(void **state) {
    (void)state;
    for (int32_t i = 0; qb_passes[i]; i++) {
        assert_true(strlen(qb_passes[i]->summary) > 10);
        for (int32_t k = 0; k < i; k++)
            assert_string_not_equal(qb_passes[i]->name, qb_passes[k]->name);
    }
}

/* --- fold-constants, prune-dead, eliminate-identity ------------------------------------------ */

static void constants_are_computed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 2);
    int32_t x = make_image(&m), a = make_random(&m, "a", DIMS(4, 1, 1));
    int32_t b = NODE(&m, "Relu", "b", NODE(&m, "Add", "sum", a, a));
    make_output(&m, NODE(&m, "Mul", "y", x, b));
    assert_int_equal(optimize(&m, "fold-constants", TOLERANCE), 2);
    assert_int_equal(count_nodes(m.graph), 1);
    expect_input(&m, "y", 1, "b");
    maker_release(&m);
}

static void dead_chains_and_unused_outputs_go(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    int32_t x = make_image(&m);
    NODE(&m, "Relu", "dead2", NODE(&m, "Relu", "dead1", x));
    int32_t pooled = NODE(&m, "MaxPool", "pooled", x);
    SET_INTS(&m, "kernel_shape", 2, 2);
    int32_t outs[2] = {pooled, qb_graph_add_value(&m.cx, m.graph, "indices", QB_DTYPE_NONE, NULL)};
    qb_node *pool = &m.graph->nodes[m.graph->n_nodes - 1];
    pool->out = outs; /* lives as long as the graph is used */
    pool->n_out = 2;
    make_output(&m, NODE(&m, "Relu", "y", pooled));
    assert_int_equal(optimize(&m, "prune-dead", TOLERANCE), 3);
    assert_int_equal(count_nodes(m.graph), 2);
    assert_int_equal(node_writing(&m, "pooled")->n_out, 1);
    assert_int_equal(qb_graph_find_value(m.graph, "indices"), -1);
    maker_release(&m);
}

/* Split cuts into as many parts as it has outputs, read or not, and files have no TopK of one. */
static void parts_that_nobody_reads_stay(void **state) {
    (void)state;
    maker n;
    maker_init(&n, 32);
    int32_t both[2] = {NODE(&n, "TopK", "most", make_input(&n, "x", DIMS(2, 4)), INTS(&n, "k", 2)),
                       qb_graph_add_value(&n.cx, n.graph, "places", QB_DTYPE_NONE, NULL)};
    n.graph->nodes[n.graph->n_nodes - 1].out = both;
    n.graph->nodes[n.graph->n_nodes - 1].n_out = 2;
    make_output(&n, both[0]);
    assert_int_equal(optimize(&n, NULL, TOLERANCE), 0);
    assert_int_equal(node_writing(&n, "most")->n_out, 2);
    maker_release(&n);
    maker m;
    maker_init(&m, 31);
    int32_t x = make_input(&m, "x", DIMS(2, 4)), outs[2];
    outs[0] = NODE(&m, "Split", "left", x);
    outs[1] = qb_graph_add_value(&m.cx, m.graph, "right", QB_DTYPE_NONE, NULL);
    qb_node *split = &m.graph->nodes[m.graph->n_nodes - 1];
    split->out = outs; /* lives as long as the graph is used */
    split->n_out = 2;
    set_int(&m, "axis", 1);
    make_output(&m, NODE(&m, "Exp", "y", outs[0]));
    assert_int_equal(optimize(&m, "prune-dead", TOLERANCE), 0);
    const qb_shape half = DIMS(2, 2);
    assert_true(qb_shape_equal(&value_of(&m, m.graph->outputs[0])->shape, &half));
    maker_release(&m);
}

static void nodes_without_effect_go(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 4);
    int32_t x = make_image(&m), v = x;
    v = NODE(&m, "Identity", "v1", v);
    v = NODE(&m, "Dropout", "v2", v);
    v = NODE(&m, "Cast", "v3", v);
    set_int(&m, "to", 1);
    v = NODE(&m, "Relu", "kept", v);
    v = NODE(&m, "Reshape", "v4", v, INTS(&m, "target", 0, 4, 6, 6));
    v = NODE(&m, "Transpose", "v5", v);
    SET_INTS(&m, "perm", 0, 1, 2, 3);
    v = NODE(&m, "Pad", "v6", v, INTS(&m, "pads", 0, 0, 0, 0, 0, 0, 0, 0));
    v = NODE(&m, "Slice", "v7", v, INTS(&m, "starts", 0), INTS(&m, "ends", 99),
             INTS(&m, "axes", 2));
    v = NODE(&m, "Concat", "v8", v);
    set_int(&m, "axis", 1);
    v = NODE(&m, "Add", "v9", make_scalar(&m, "zero", 0), v);
    v = NODE(&m, "Mul", "v10", v, make_scalar(&m, "one", 1));
    v = NODE(&m, "Div", "v11", v, make_scalar(&m, "one", 1));
    make_output(&m, NODE(&m, "Sub", "y", v, make_scalar(&m, "zero", 0)));
    assert_int_equal(optimize(&m, "eliminate-identity", TOLERANCE), 12);
    assert_int_equal(count_nodes(m.graph), 1);
    assert_string_equal(m.graph->values[node_writing(&m, "y")->in[0]].name, "x");
    assert_true(count_op(m.graph, "Relu") == 1); /* it writes the graph output's name now */
    maker_release(&m);
}

static void nodes_with_effect_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 5);
    int32_t x = make_input(&m, "x", DIMS(2, 4, 4, 4)), v;
    v = NODE(&m, "Slice", "reversed", x, INTS(&m, "starts", -1), INTS(&m, "ends", -99),
             INTS(&m, "axes", 1), INTS(&m, "steps", -1));
    v = NODE(&m, "Transpose", "swapped", v);
    SET_INTS(&m, "perm", 1, 0, 3, 2);
    v = NODE(&m, "Transpose", "turned", v);
    SET_INTS(&m, "perm", 1, 0, 2, 3);
    v = NODE(&m, "Sub", "negated", make_scalar(&m, "zero", 0), v);
    v = NODE(&m, "Add", "widened", v, make_floats(&m, "zeros", DIMS(2, 1, 1, 1, 1), (float[2]){0}));
    make_output(&m, v);
    make_output(&m, NODE(&m, "Identity", "copy", x)); /* input and output keep their names */
    assert_int_equal(optimize(&m, "eliminate-identity", TOLERANCE), 0);
    maker_release(&m);
}

static void identities_that_requantize_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 6);
    int32_t a = NODE(&m, "Relu", "a", make_image(&m)), b = NODE(&m, "Identity", "b", a);
    int32_t c = NODE(&m, "Identity", "c", b);
    make_output(&m, NODE(&m, "Relu", "y", c));
    make_quantized(&m, a, 0.5f, 3);
    make_quantized(&m, b, 0.25f, 3);
    make_quantized(&m, c, 0.25f, 3);
    assert_int_equal(optimize_unchecked(&m, "eliminate-identity"), 1);
    expect_input(&m, "y", 0, "b");
    maker_release(&m);
}

/* --- common-subexpressions ------------------------------------------------------------------- */

static void equal_nodes_and_constants_merge(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 7);
    const float four[4] = {1, 2, 3, 4};
    int32_t x = make_image(&m);
    int32_t a = make_floats(&m, "a", DIMS(4, 1, 1), four);
    int32_t b = make_floats(&m, "b", DIMS(4, 1, 1), four);
    int32_t other = make_floats(&m, "other", DIMS(1, 4, 1, 1), four); /* another shape */
    int32_t p = NODE(&m, "Relu", "p", NODE(&m, "Mul", "pm", x, a));
    int32_t q = NODE(&m, "Relu", "q", NODE(&m, "Mul", "qm", x, b));
    int32_t r = NODE(&m, "Relu", "r", NODE(&m, "Mul", "rm", x, other));
    make_output(&m, NODE(&m, "Add", "y", NODE(&m, "Sub", "d", p, q), r));
    assert_int_equal(optimize(&m, "common-subexpressions", TOLERANCE), 3);
    expect_input(&m, "d", 1, "p");
    assert_int_equal(count_op(m.graph, "Mul"), 2);
    maker_release(&m);
}

static void nodes_that_differ_in_anything_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 8);
    int32_t x = make_image(&m);
    NODE(&m, "LeakyRelu", "a", x);
    set_float(&m, "alpha", 0.1f);
    NODE(&m, "LeakyRelu", "b", x);
    set_float(&m, "alpha", 0.2f);
    NODE(&m, "AveragePool", "c", x);
    SET_INTS(&m, "kernel_shape", 2, 2);
    NODE(&m, "AveragePool", "d", x);
    SET_INTS(&m, "kernel_shape", 2, 1);
    NODE(&m, "Relu", "e", x);
    NODE(&m, "Relu", "f", x); /* equal, but both are outputs */
    for (const char *name = "abcdef"; *name; name++)
        make_output(&m, qb_graph_find_value(m.graph, (char[2]){*name, 0}));
    assert_int_equal(optimize(&m, "common-subexpressions", TOLERANCE), 0);
    maker_release(&m);
}

static void equal_nodes_with_other_scales_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 9);
    int32_t x = make_image(&m), a = NODE(&m, "Relu", "a", x), b = NODE(&m, "Relu", "b", x);
    make_output(&m, NODE(&m, "Add", "y", a, b));
    make_quantized(&m, a, 0.5f, 0);
    make_quantized(&m, b, 0.25f, 0);
    assert_int_equal(optimize_unchecked(&m, "common-subexpressions"), 0);
    maker_release(&m);
}

/* --- reshape-cleanup ------------------------------------------------------------------------- */

static void reshape_chains_become_one(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 10);
    int32_t v = NODE(&m, "Reshape", "a", make_image(&m), INTS(&m, "s", 0, 2, 2, -1));
    v = NODE(&m, "Unsqueeze", "b", v, INTS(&m, "axes", 1));
    v = NODE(&m, "Squeeze", "c", v, INTS(&m, "axes", 1));
    v = NODE(&m, "Flatten", "d", v);
    make_output(&m, NODE(&m, "Relu", "y", v));
    assert_true(optimize(&m, NULL, TOLERANCE) >= 3);
    assert_int_equal(count_nodes(m.graph), 2);
    expect_input(&m, "d", 0, "x");
    assert_true(value_of(&m, qb_graph_find_value(m.graph, "d"))->shape.dim[0] < -1);
    maker_release(&m);
}

static void computed_targets_become_constant(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 11);
    int32_t x = make_image(&m);
    int32_t batch = NODE(&m, "Gather", "batch", NODE(&m, "Shape", "shape", x), INTS(&m, "zero", 0));
    int32_t target = NODE(&m, "Concat", "target", batch, INTS(&m, "rest", 144));
    set_int(&m, "axis", 0);
    make_output(&m, NODE(&m, "Relu", "y", NODE(&m, "Reshape", "flat", x, target)));
    optimize(&m, NULL, TOLERANCE);
    assert_true(value_of(&m, qb_graph_find_value(m.graph, "flat"))->shape.dim[0] < -1);
    assert_int_equal(count_op(m.graph, "Shape"), 0);
    assert_int_equal(count_op(m.graph, "Reshape"), 1);
    maker_release(&m);
}

/* --- transpose-cleanup ----------------------------------------------------------------------- */

static int32_t transpose(maker *m, const char *name, int32_t x, int a, int b, int c, int d) {
    int32_t y = NODE(m, "Transpose", name, x);
    SET_INTS(m, "perm", a, b, c, d);
    return y;
}

static void consecutive_transposes_merge_or_cancel(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 12);
    int32_t x = make_image(&m);
    int32_t a = transpose(&m, "a2", transpose(&m, "a1", x, 0, 2, 3, 1), 0, 3, 1, 2);
    int32_t b = transpose(&m, "b2", transpose(&m, "b1", x, 0, 2, 3, 1), 0, 2, 1, 3);
    make_output(&m, NODE(&m, "Relu", "p", a));
    make_output(&m, NODE(&m, "Relu", "q", b));
    optimize(&m, NULL, TOLERANCE);
    expect_input(&m, "p", 0, "x");
    expect_input(&m, "b2", 0, "x");
    assert_int_equal(count_op(m.graph, "Transpose"), 1);
    maker_release(&m);
}

static void transposes_around_elementwise_nodes_cancel(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 13);
    int32_t v = transpose(&m, "t1", make_image(&m), 0, 2, 3, 1);
    v = NODE(&m, "Relu", "r", v);
    v = NODE(&m, "Add", "s", v, make_random(&m, "channels", DIMS(4)));
    v = NODE(&m, "Mul", "u", make_random(&m, "rows", DIMS(1, 6, 1, 1)), v);
    v = NODE(&m, "Clip", "c", v, make_scalar(&m, "low", -1), make_scalar(&m, "high", 1));
    v = transpose(&m, "t2", v, 0, 3, 1, 2);
    int32_t w = make_random(&m, "w", DIMS(2, 4, 1, 1));
    make_output(&m, NODE(&m, "Conv", "y", v, w));
    optimize(&m, NULL, TOLERANCE);
    assert_int_equal(count_op(m.graph, "Transpose"), 0);
    expect_input(&m, "y", 0, "t2");
    maker_release(&m);
}

/* As biases of relative positions: rows repeated along columns and the other way round. */
static void repeated_elements_are_moved_before(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 15);
    int32_t often = INTS(&m, "often", 1, 1, 5, 1);
    int32_t a = NODE(&m, "Expand", "a2", make_input(&m, "a", DIMS(2, 3, 1, 4)), often);
    int32_t b = NODE(&m, "Expand", "b2", make_input(&m, "b", DIMS(2, 1, 5, 3)),
                     INTS(&m, "rows", 1, 4, 1, 1));
    a = transpose(&m, "a3", a, 0, 2, 3, 1); /* 2, 5, 4, 3 */
    b = transpose(&m, "b3", b, 0, 2, 1, 3);
    make_output(&m, NODE(&m, "Add", "y", a, b));
    int32_t c = NODE(&m, "Expand", "c2", make_input(&m, "c", DIMS(2, 3, 1, 4)), often);
    make_output(&m, transpose(&m, "z", c, 0, 3, 2, 1));
    optimize(&m, NULL, TOLERANCE);
    expect_input(&m, "y", 0, "a3_once");
    expect_input(&m, "y", 1, "b3_once");
    expect_input(&m, "z", 0, "z_once");
    assert_int_equal(count_op(m.graph, "Expand"), 1);
    maker_release(&m);
}

/* An Expand that only adds dimensions of 1 gives the result its rank. */
static void dimensions_that_an_expand_adds_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 19);
    int32_t shape = INTS(&m, "shape", 1, 1, 3, 4);
    int32_t a = NODE(&m, "Expand", "a", make_input(&m, "x", DIMS(3, 4)), shape);
    make_output(&m, NODE(&m, "Mul", "y", a, make_scalar(&m, "half", 0.5)));
    make_output(&m, NODE(&m, "Add", "z", a, make_random(&m, "row", DIMS(1, 4))));
    optimize(&m, NULL, TOLERANCE);
    expect_input(&m, "y", 0, "a");
    expect_input(&m, "z", 0, "a");
    maker_release(&m);
}

/* A Concat or a view that rounds to a scale of its own: each part does. */
static void parts_are_rounded_as_all_of_them_were(void **state) {
    (void)state;
    for (int stacked = 0; stacked < 2; stacked++) {
        maker m;
        maker_init(&m, 36);
        int32_t all = NODE(&m, "Relu", "x1", make_image(&m));
        make_quantized(&m, all, 0.02f, 0);
        const int32_t rows[] = {all, make_random(&m, "row", DIMS(1, 4, 6, 6))};
        if (stacked) {
            all = make_node(&m, "Concat", "all", 2, rows);
            set_int(&m, "axis", 0);
            m.graph->values[m.graph->inputs[0]].shape.dim[0] = 1;
        } else {
            all = NODE(&m, "Reshape", "all", all, INTS(&m, "sizes", 0, 2, 2, 6, 6));
        }
        make_quantized(&m, all, 0.1f, 100);
        make_output(&m, NODE(&m, "ReduceSum", "y", all, INTS(&m, "axis", stacked ? 0 : 1)));
        set_int(&m, "keepdims", 0);
        assert_int_equal(optimize_unchecked(&m, "sum-of-parts"), 1);
        const qb_node *sum = node_writing(&m, "y");
        for (int side = 0; side < 2; side++)
            assert_float_equal(m.graph->values[sum->in[side]].q.scale[0], 0.1f, 0);
        maker_release(&m);
    }
}

static void a_joint_transpose_sinks_below_its_users(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 14);
    int32_t a = make_input(&m, "a", DIMS(2, 3, 4, 5)), b = make_input(&m, "b", DIMS(2, 3, 4, 5));
    int32_t p = transpose(&m, "p", a, 0, 2, 3, 1), q = transpose(&m, "q", b, 0, 2, 3, 1);
    int32_t both[2] = {NODE(&m, "Add", "sum", p, q), NODE(&m, "Relu", "r", p)};
    int32_t y = make_node(&m, "Concat", "cat", 2, both);
    set_int(&m, "axis", 3);
    y = NODE(&m, "Softmax", "soft", y);
    set_int(&m, "axis", 1);
    make_output(&m, y);
    optimize(&m, NULL, TOLERANCE);
    assert_int_equal(count_op(m.graph, "Transpose"), 1);
    assert_string_equal(node_writing(&m, "soft")->op->name, "Softmax");
    maker_release(&m);
}

static void transposes_that_are_needed_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 15);
    int32_t v = NODE(&m, "Relu", "r", transpose(&m, "t", make_image(&m), 0, 2, 3, 1));
    make_output(&m, v);
    make_output(&m, transpose(&m, "back", v, 0, 3, 1, 2));
    optimize(&m, NULL, TOLERANCE);
    assert_int_equal(count_op(m.graph, "Transpose"), 1);
    maker_release(&m);
}

/* --- widen-half ------------------------------------------------------------------------------ */

#define F16 10 /* ONNX's number */
#define F16_TOLERANCE 4e-3

static int32_t half(maker *m, const char *name, int32_t x) {
    const int32_t v = NODE(m, "Cast", name, x);
    set_int(m, "to", F16);
    return v;
}

/* Casts and constants of 16 bits around a graph leave f32 with the first and the last Cast. */
static void half_precision_is_computed_in_float(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 40);
    int32_t x = half(&m, "h", make_input(&m, "x", DIMS(-1, 8)));
    int32_t w = half(&m, "w16", make_random(&m, "w", DIMS(8, 4)));
    int32_t v = NODE(&m, "Relu", "r", NODE(&m, "MatMul", "mm", x, w));
    v = NODE(&m, "Add", "sum", v, v);
    v = NODE(&m, "Mul", "product", v, half(&m, "s16", make_scalar(&m, "s", 0.3f)));
    v = NODE(&m, "Cast", "y", NODE(&m, "Tanh", "t", v));
    set_int(&m, "to", 1);
    make_output(&m, v);
    optimize(&m, NULL, F16_TOLERANCE);
    const qb_graph *graph = m.graph;
    assert_int_equal(graph->values[qb_graph_find_value(graph, "r")].dtype, QB_DTYPE_F32);
    assert_int_equal(graph->values[qb_graph_find_value(graph, "y")].dtype, QB_DTYPE_F32);
    assert_int_equal(count_op(graph, "Cast"), 2); /* of x to 16 bits and back */
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; graph->nodes[i].op && k < graph->nodes[i].n_in; k++)
            if (strcmp(graph->nodes[i].op->name, "Cast") != 0)
                assert_int_equal(graph->values[graph->nodes[i].in[k]].dtype, QB_DTYPE_F32);
    assert_int_equal(optimize(&m, NULL, F16_TOLERANCE), 0);
    maker_release(&m);
}

/* Where an attribute or the bits themselves say the type, it stays. */
static void what_names_a_type_of_16_bits_keeps_it(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 41);
    int32_t h = half(&m, "h", make_input(&m, "x", DIMS(-1, 8)));
    make_output(&m, NODE(&m, "BitCast", "bits", h));
    set_int(&m, "to", 4); /* u16 */
    assert_int_equal(optimize(&m, "widen-half", TOLERANCE), 0);
    make_output(&m, NODE(&m, "Relu", "r", h));
    assert_true(optimize(&m, NULL, F16_TOLERANCE) > 0);
    const qb_node *bits = node_writing(&m, "bits");
    assert_int_equal(m.graph->values[bits->in[0]].dtype, QB_DTYPE_F16);
    assert_int_equal(m.graph->values[qb_graph_find_value(m.graph, "r")].dtype, QB_DTYPE_F16);
    maker_release(&m);
}

/* A value that is there to name a type is not widened, and the cast to that type still rounds. */
static void what_is_cast_like_16_bits_rounds(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 42);
    const int32_t like = half(&m, "like", make_input(&m, "x", DIMS(-1, 8)));
    const int32_t v = NODE(&m, "CastLike", "rounded", make_input(&m, "z", DIMS(-1, 8)), like);
    make_output(&m, NODE(&m, "Cast", "y", v));
    set_int(&m, "to", 1);
    optimize(&m, "widen-half", TOLERANCE);
    assert_int_equal(m.graph->values[qb_graph_find_value(m.graph, "rounded")].dtype, QB_DTYPE_F16);
    maker_release(&m);
}

/* --- random graphs --------------------------------------------------------------------------- */

/* Each pass alone and all together give the same outputs, and a second run finds nothing to do. */
static void random_graphs_keep_their_outputs(void **state) {
    (void)state;
    int32_t done = 0;
    uint64_t n = 0;
    while (qb_passes[n]) n++;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        maker m;
        maker_init(&m, seed);
        make_random_graph(&m, 3 + (int)(seed % 20));
        const char *only = seed % 3 ? NULL : qb_passes[seed / 3 % n]->name;
        done += optimize(&m, only, RANDOM_TOLERANCE);
        assert_int_equal(optimize(&m, only, RANDOM_TOLERANCE), 0);
        maker_release(&m);
    }
    assert_true(done > 1000);
}

static void the_same_graph_gives_the_same_result(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        char *text[2];
        for (int i = 0; i < 2; i++) {
            maker m;
            maker_init(&m, seed);
            make_random_graph(&m, 12);
            optimize_unchecked(&m, NULL);
            assert_ok(&m.cx, qb_graph_text(&m.cx, m.graph, &text[i]));
            maker_release(&m);
        }
        assert_string_equal(text[0], text[1]);
        qb_free(text[0]);
        qb_free(text[1]);
    }
}

/* --- failures -------------------------------------------------------------------------------- */

static qb_status build_and_optimize(qb_ctx *cx, void *user) {
    qb_graph *copy = NULL;
    qb_status status = qb_graph_clone(cx, user, &copy);
    if (status == QB_OK) status = qb_optimize(cx, copy, NULL, NULL);
    qb_graph_free(copy);
    return status;
}

static void every_failing_allocation_is_reported(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 33);
    int32_t x = make_image(&m);
    int32_t v = make_batch_norm(&m, "bn", make_conv(&m, "c", x, DIMS(4, 4, 1, 1), true), 4);
    v = transpose(&m, "t2", NODE(&m, "Relu", "r", transpose(&m, "t1", v, 0, 2, 3, 1)), 0, 3, 1, 2);
    v = NODE(&m, "Flatten", "f", NODE(&m, "Identity", "i", v));
    v = NODE(&m, "Add", "a", NODE(&m, "MatMul", "mm", v, make_random(&m, "w", DIMS(144, 3))),
             make_random(&m, "row", DIMS(3)));
    make_output(&m, v);
    assert_true(qb_test_alloc_sweep(build_and_optimize, m.graph) > 50);
    maker_release(&m);
}

/* --- unary-before-view ------------------------------------------------------------------------ */

/* The feed-forward block of Mix-FFN: GELU becomes the convolution's epilogue. */
static void functions_move_to_the_product_before_views(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 41);
    const int32_t x = make_input(&m, "x", DIMS(2, 6, 3, 4));
    const int32_t conv = make_conv(&m, "conv", x, DIMS(6, 6, 1, 1), true);
    const int32_t flat = NODE(&m, "Reshape", "flat", conv, INTS(&m, "s", 2, 6, 12));
    const int32_t rows = NODE(&m, "Transpose", "rows", flat);
    SET_INTS(&m, "perm", 0, 2, 1);
    make_output(&m, NODE(&m, "Sigmoid", "y", rows));
    assert_int_equal(optimize(&m, "unary-before-view", TOLERANCE), 2);
    const qb_node *sigmoid = &m.graph->nodes[0];
    for (int32_t i = 0; i < m.graph->n_nodes; i++)
        if (strcmp(m.graph->nodes[i].op->name, "Sigmoid") == 0) sigmoid = &m.graph->nodes[i];
    assert_int_equal(sigmoid->in[0], conv);
    assert_string_equal(node_writing(&m, "y")->op->name, "Transpose");
    maker_release(&m);
}

/* No product, views and products that others read, another type, a view of a part. */
static void other_functions_stay_behind_views(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 42);
    const int32_t x = make_input(&m, "x", DIMS(2, 6, 3, 4));
    make_output(&m, NODE(&m, "Relu", "a", NODE(&m, "Flatten", "af", NODE(&m, "Relu", "ar", x))));
    const int32_t shared =
        NODE(&m, "Flatten", "shared", make_conv(&m, "b", x, DIMS(6, 6, 1, 1), true));
    make_output(&m, NODE(&m, "Relu", "b1", shared));
    make_output(&m, NODE(&m, "Tanh", "b2", shared));
    const int32_t read = make_conv(&m, "c", x, DIMS(6, 6, 1, 1), true);
    make_output(&m, NODE(&m, "Relu", "c1", NODE(&m, "Flatten", "cf", read)));
    make_output(&m, NODE(&m, "Tanh", "c2", read));
    const int32_t part = NODE(&m, "Slice", "part", make_conv(&m, "d", x, DIMS(6, 6, 1, 1), true),
                              INTS(&m, "from", 1), INTS(&m, "to", 2), INTS(&m, "axes", 2));
    make_output(&m, NODE(&m, "Relu", "d1", part));
    const int32_t number =
        NODE(&m, "Flatten", "number", make_conv(&m, "e", x, DIMS(6, 6, 1, 1), true));
    make_output(&m, NODE(&m, "Cast", "e1", number));
    set_int(&m, "to", QB_DTYPE_F64);
    assert_int_equal(optimize(&m, "unary-before-view", TOLERANCE), 0);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disabled_pass_does_nothing),
        cmocka_unit_test(pass_names_are_unique_and_described),
        cmocka_unit_test(constants_are_computed),
        cmocka_unit_test(dead_chains_and_unused_outputs_go),
        cmocka_unit_test(parts_that_nobody_reads_stay),
        cmocka_unit_test(nodes_without_effect_go),
        cmocka_unit_test(nodes_with_effect_stay),
        cmocka_unit_test(identities_that_requantize_stay),
        cmocka_unit_test(equal_nodes_and_constants_merge),
        cmocka_unit_test(nodes_that_differ_in_anything_stay),
        cmocka_unit_test(equal_nodes_with_other_scales_stay),
        cmocka_unit_test(reshape_chains_become_one),
        cmocka_unit_test(computed_targets_become_constant),
        cmocka_unit_test(consecutive_transposes_merge_or_cancel),
        cmocka_unit_test(transposes_around_elementwise_nodes_cancel),
        cmocka_unit_test(repeated_elements_are_moved_before),
        cmocka_unit_test(dimensions_that_an_expand_adds_stay),
        cmocka_unit_test(parts_are_rounded_as_all_of_them_were),
        cmocka_unit_test(a_joint_transpose_sinks_below_its_users),
        cmocka_unit_test(transposes_that_are_needed_stay),
        cmocka_unit_test(functions_move_to_the_product_before_views),
        cmocka_unit_test(other_functions_stay_behind_views),
        cmocka_unit_test(half_precision_is_computed_in_float),
        cmocka_unit_test(what_names_a_type_of_16_bits_keeps_it),
        cmocka_unit_test(what_is_cast_like_16_bits_rounds),
        cmocka_unit_test(random_graphs_keep_their_outputs),
        cmocka_unit_test(the_same_graph_gives_the_same_result),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

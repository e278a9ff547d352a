/* What engines make of a graph before they group it (qb_finalize_moves): the results stay. */
#include "graph/fusion.h"
#include "random_graph.h"
#include "run_passes.h"

static int32_t finalize(maker *m) {
    qb_graph *after;
    int32_t n;
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &after));
    assert_ok(&m->cx, qb_finalize_moves(&m->cx, after, &n));
    assert_same_results(m, m->graph, after, 1e-5);
    maker_replace(m, after);
    return n;
}

/* Three groups of [2, 6, 4, 5], as exporters normalize them: Reshape, InstanceNormalization, and
 * the Reshape "back". */
static int32_t make_group_norm(maker *m, int32_t x) {
    const int32_t parts = NODE(m, "Reshape", "parts", x, INTS(m, "to", 0, 3, -1));
    const int32_t norm = NODE(m, "InstanceNormalization", "norm", parts,
                              make_uniform(m, "g", DIMS(3), 0.5, 2), make_random(m, "b", DIMS(3)));
    set_float(m, "epsilon", 0.01f);
    return NODE(m, "Reshape", "back", norm, INTS(m, "from", 2, 6, 4, 5));
}

static void three_nodes_are_a_group_norm(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    const int32_t back = make_group_norm(&m, make_input(&m, "x", DIMS(2, 6, 4, 5)));
    make_output(&m, NODE(&m, "Relu", "y", back));
    assert_true(finalize(&m) > 0);
    assert_int_equal(count_op(m.graph, "GroupNormalization"), 1);
    assert_int_equal(count_op(m.graph, "Reshape"), 0);
    maker_release(&m);
}

/* A Reshape of quantized values may dequantize them; the norm reads them before it. Parameters of
 * another result stay where they are. */
static void group_norms_take_quantized_values(void **state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        maker m;
        int32_t n;
        maker_init(&m, 5);
        const int32_t x = NODE(&m, "Relu", "r", make_input(&m, "x", DIMS(2, 6, 4, 5)));
        make_quantized(&m, x, 0.02f, 3);
        const int32_t back = make_group_norm(&m, x);
        if (odd) make_quantized(&m, node_writing(&m, "parts")->out[0], 0.05f, 0);
        make_quantized(&m, back, 0.03f, 128);
        make_output(&m, NODE(&m, "Relu", "y", back));
        assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
        assert_int_equal(count_op(m.graph, "GroupNormalization"), !odd);
        if (!odd) expect_input(&m, "back", 0, "r");
        maker_release(&m);
    }
}

/* As PyTorch writes them: factors and terms of the channels behind the Reshape. A term for each
 * element stays, and so do what stands behind a value that others read, and a division by 0. */
static void group_norms_take_in_factors_of_channels(void **state) {
    (void)state;
    enum { PLAIN, SHARED, ZERO, FORMS };
    for (int form = 0; form < FORMS; form++) {
        maker m;
        maker_init(&m, 6);
        const int32_t back = make_group_norm(&m, make_input(&m, "x", DIMS(2, 6, 4, 5)));
        const int32_t scaled =
            NODE(&m, "Mul", "scaled", make_random(&m, "gain", DIMS(6, 1, 1)), back);
        const int32_t by = form == ZERO ? make_floats(&m, "by", DIMS(1, 6, 1, 1), (float[6]){1})
                                        : make_uniform(&m, "by", DIMS(1, 6, 1, 1), 0.5, 2);
        const int32_t divided = NODE(&m, "Div", "divided", scaled, by);
        if (form == SHARED) make_output(&m, NODE(&m, "Relu", "s", scaled));
        const int32_t shifted =
            NODE(&m, "Sub", "shifted", divided, make_random(&m, "shift", DIMS(6, 1, 1)));
        make_output(&m, NODE(&m, "Add", "y", shifted, make_random(&m, "all", DIMS(6, 4, 5))));
        int32_t n;
        if (form == ZERO)
            assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
        else
            assert_true(finalize(&m) > 0);
        assert_int_equal(count_op(m.graph, "GroupNormalization"), 1);
        assert_int_equal(count_op(m.graph, "Mul"), 0);
        assert_int_equal(count_op(m.graph, "Div"), form != PLAIN);
        assert_int_equal(count_op(m.graph, "Sub"), form != PLAIN);
        assert_int_equal(count_op(m.graph, "Add"), 1);
        maker_release(&m);
    }
}

/* The optimizer leaves them there: it makes no convolution of them. */
static void factors_behind_group_norms_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 8);
    const int32_t back = make_group_norm(&m, make_input(&m, "x", DIMS(2, 6, 4, 5)));
    const int32_t scaled = NODE(&m, "Mul", "scaled", back, make_random(&m, "gain", DIMS(6, 1, 1)));
    make_output(&m, NODE(&m, "Add", "y", scaled, make_random(&m, "shift", DIMS(6, 1, 1))));
    assert_int_equal(optimize(&m, "scale-to-conv", TOLERANCE), 0);
    assert_int_equal(count_op(m.graph, "Mul"), 1);
    maker_release(&m);
}

/* Sums repeat what an Expand does, as far as the result stays as large. */
static void sums_read_before_an_expand(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 9);
    const int32_t often = INTS(&m, "often", 1, 1, 5), rows = INTS(&m, "rows", 4, 1, 1);
    const int32_t a = NODE(&m, "Expand", "a2", make_input(&m, "a", DIMS(4, 3, 1)), often);
    const int32_t b = NODE(&m, "Expand", "b2", make_input(&m, "b", DIMS(1, 3, 5)), rows);
    const int32_t c = NODE(&m, "Expand", "c2", make_input(&m, "c", DIMS(4, 3, 1)), often);
    make_output(&m, NODE(&m, "Add", "y", a, b));
    make_output(&m, NODE(&m, "Mul", "z", a, c)); /* one of them has to */
    assert_true(finalize(&m) > 0);
    expect_input(&m, "y", 0, "a");
    expect_input(&m, "y", 1, "b");
    assert_int_equal(count_op(m.graph, "Expand"), 1);
    maker_release(&m);
}

/* Into other sizes than before it is no group normalization of the data. */
static void other_sizes_stay(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 4);
    const int32_t x = make_input(&m, "x", DIMS(2, 6, 4, 5));
    const int32_t parts = NODE(&m, "Reshape", "parts", x, INTS(&m, "to", 2, 3, 40));
    const int32_t norm = NODE(&m, "InstanceNormalization", "norm", parts,
                              make_random(&m, "g", DIMS(3)), make_random(&m, "b", DIMS(3)));
    make_output(&m, NODE(&m, "Reshape", "y", norm, INTS(&m, "from", 2, 3, 8, 5)));
    finalize(&m);
    assert_int_equal(count_op(m.graph, "InstanceNormalization"), 1);
    maker_release(&m);
}

/* x[1:3, 1:4] = y; tuples that leave the box stay what they are. LogSoftmax comes apart. */
static void boxes_are_filled_from_padding(void **state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        maker m;
        maker_init(&m, 6);
        int64_t at[2 * 3 * 2], *to = at;
        for (int64_t i = 1; i < 3; i++)
            for (int64_t j = 1; j < 4; j++) *to++ = i, *to++ = j;
        if (odd) at[11] = 0;
        const qb_shape shape = qb_shape_of(3, 2, 3, 2);
        const int32_t index =
            qb_graph_add_constant(&m.cx, m.graph, "index", QB_DTYPE_S64, &shape, at);
        const int32_t x = make_input(&m, "x", DIMS(4, 5, 6)),
                      y = make_input(&m, "y", DIMS(2, 3, 6));
        make_output(&m, NODE(&m, "LogSoftmax", "z", NODE(&m, "ScatterND", "s", x, index, y)));
        assert_true(finalize(&m) > 0);
        assert_int_equal(count_op(m.graph, "ScatterND"), odd);
        assert_int_equal(count_op(m.graph, "LogSoftmax"), 0);
        maker_release(&m);
    }
}

/* The same box, its table made of columns that nobody folded: each one counts in its dimension. */
static void tables_made_of_columns_are_boxes(void **state) {
    (void)state;
    for (int odd = 0; odd < 3; odd++) {
        maker m;
        maker_init(&m, 8);
        const int32_t rows = NODE(&m, "Reshape", "rows", INTS(&m, "i", 1, odd == 1 ? 3 : 2),
                                  INTS(&m, "upright", 2, 1));
        const int32_t columns = INTS(&m, "j", 1, 2, 3), size = INTS(&m, "size", 2, 3),
                      last = INTS(&m, "last", -1);
        const int32_t i = NODE(&m, "Unsqueeze", "i3", NODE(&m, "Expand", "i2", rows, size), last);
        const int32_t j =
            NODE(&m, "Unsqueeze", "j3", NODE(&m, "Expand", "j2", columns, size), last);
        const int32_t table =
            odd == 2 ? NODE(&m, "Concat", "table", j, i) : NODE(&m, "Concat", "table", i, j);
        set_int(&m, "axis", -1);
        const int32_t x = make_input(&m, "x", DIMS(4, 5, 6)),
                      y = make_input(&m, "y", DIMS(2, 3, 6));
        make_output(&m, NODE(&m, "Exp", "z", NODE(&m, "ScatterND", "s", x, table, y)));
        finalize(&m);
        assert_int_equal(count_op(m.graph, "ScatterND"), odd > 0);
        maker_release(&m);
    }
}

/* x[:, :] = y is y, whatever x is. */
static void whole_boxes_are_what_fills_them(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 9);
    int64_t at[4 * 5 * 2], *to = at;
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 5; j++) *to++ = i, *to++ = j;
    const qb_shape shape = qb_shape_of(3, 4, 5, 2);
    const int32_t index = qb_graph_add_constant(&m.cx, m.graph, "index", QB_DTYPE_S64, &shape, at);
    const int32_t x = make_input(&m, "x", DIMS(4, 5, 6)), y = make_input(&m, "y", DIMS(4, 5, 6));
    make_output(&m, NODE(&m, "Exp", "z", NODE(&m, "ScatterND", "s", x, index, y)));
    assert_true(finalize(&m) > 0);
    assert_int_equal(count_op(m.graph, "ScatterND"), 0);
    assert_int_equal(count_nodes(m.graph), 1);
    maker_release(&m);
}

/* Indices beyond the data are ScatterND's to refuse. */
static void boxes_beyond_the_data_stay(void **state) {
    (void)state;
    maker m;
    int32_t n;
    maker_init(&m, 7);
    const int64_t at[] = {3, 4};
    const qb_shape shape = qb_shape_of(2, 2, 1);
    const int32_t index = qb_graph_add_constant(&m.cx, m.graph, "index", QB_DTYPE_S64, &shape, at);
    const int32_t x = make_input(&m, "x", DIMS(4, 6)), y = make_input(&m, "y", DIMS(2, 6));
    make_output(&m, NODE(&m, "ScatterND", "s", x, index, y));
    assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
    assert_int_equal(count_op(m.graph, "ScatterND"), 1);
    maker_release(&m);
}

/* The parts of a LogSoftmax between quantized values do not fit into the scale of its result. */
static void parts_of_quantized_nodes_are_floats(void **state) {
    (void)state;
    maker m;
    int32_t n;
    maker_init(&m, 8);
    const int32_t x = make_input(&m, "x", DIMS(4, 6)), a = NODE(&m, "Relu", "a", x);
    const int32_t y = NODE(&m, "LogSoftmax", "y", a);
    make_quantized(&m, a, 0.05f, 0);
    make_quantized(&m, y, 0.04f, 255);
    make_output(&m, NODE(&m, "Identity", "z", y));
    assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
    assert_int_equal(count_op(m.graph, "LogSoftmax"), 0);
    for (int32_t i = 0; i < m.graph->n_nodes; i++) {
        const int32_t out = m.graph->nodes[i].op ? m.graph->nodes[i].out[0] : -1;
        if (out >= 0) assert_int_equal(m.graph->values[out].q.n, out == a || out == y);
    }
    maker_release(&m);
}

/* Quantized parts of floats: where several are taken each part is converted by itself; a sole one's
 * whole tensor is, which what makes it may do. */
static void parts_are_converted_where_several_are_taken(void **state) {
    (void)state;
    for (int several = 0; several < 2; several++) {
        maker m;
        int32_t n;
        maker_init(&m, 10);
        const int32_t a = NODE(&m, "Tanh", "a", make_input(&m, "x", DIMS(4, 6)));
        for (int k = 0; k <= several; k++) {
            const int32_t begin = INTS(&m, k ? "b1" : "b0", k),
                          end = INTS(&m, k ? "e1" : "e0", k + 2);
            const int32_t part = NODE(&m, "Slice", k ? "p1" : "p0", a, begin, end);
            make_quantized(&m, part, 0.01f, 128);
            make_output(&m, NODE(&m, "Identity", k ? "y1" : "y0", part));
        }
        assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
        for (int32_t i = 0; i < m.graph->n_nodes; i++) {
            const qb_node *node = &m.graph->nodes[i];
            if (!node->op || strcmp(node->op->name, "Slice") != 0) continue;
            assert_int_equal(m.graph->values[node->in[0]].q.n, !several);
            assert_int_equal(m.graph->values[node->out[0]].q.n, !several);
        }
        assert_int_equal(count_op(m.graph, "Slice"), 1 + several);
        maker_release(&m);
    }
}

/* A normalization reads quantized values through a view, where nobody else reads the view and it
 * does not round to a scale of its own: no node converts them. */
static void normalizations_read_moved_values(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        const bool shared = form == 1, rounded = form == 2;
        maker m;
        int32_t n;
        maker_init(&m, 11);
        const int32_t a = NODE(&m, "Tanh", "a", make_input(&m, "x", DIMS(2, 6, 4)));
        make_quantized(&m, a, 0.01f, 128);
        const int32_t moved = NODE(&m, "Transpose", "moved", a);
        SET_INTS(&m, "perm", 0, 2, 1);
        if (rounded) make_quantized(&m, moved, 0.1f, 3);
        make_output(&m,
                    NODE(&m, "LayerNormalization", "y", moved,
                         make_uniform(&m, "g", DIMS(6), 0.5, 2), make_random(&m, "b", DIMS(6))));
        if (shared) make_output(&m, NODE(&m, "Relu", "other", moved));
        assert_ok(&m.cx, qb_finalize_moves(&m.cx, m.graph, &n));
        assert_int_equal(count_op(m.graph, "Identity"), shared || rounded);
        const qb_qparams *q = &m.graph->values[node_writing(&m, "y")->in[0]].q;
        assert_int_equal(q->n, !shared);
        if (q->n) assert_float_equal(q->scale[0], rounded ? 0.1f : 0.01f, 0);
        maker_release(&m);
    }
}

static void dense_concats_share_their_beginning(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 5);
    const int32_t x = make_input(&m, "x", DIMS(1, 2, 4, 4)), a = NODE(&m, "Relu", "a", x);
    const int32_t two = NODE(&m, "Concat", "two", x, a);
    set_int(&m, "axis", 1);
    const int32_t b = NODE(&m, "Tanh", "b", two);
    const int32_t three = NODE(&m, "Concat", "three", x, a, b);
    set_int(&m, "axis", 1);
    const int32_t c = NODE(&m, "Neg", "c", three);
    const int32_t four = NODE(&m, "Concat", "four", x, a, b, c);
    set_int(&m, "axis", 1);
    const int32_t other = NODE(&m, "Concat", "other", x, a, x);
    set_int(&m, "axis", 2);
    make_output(&m, four);
    make_output(&m, other);
    assert_int_equal(finalize(&m), 2);
    assert_int_equal(node_writing(&m, "four")->n_in, 2);
    assert_int_equal(node_writing(&m, "three")->n_in, 2);
    assert_int_equal(node_writing(&m, "other")->n_in, 3);
    maker_release(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(three_nodes_are_a_group_norm),
    cmocka_unit_test(group_norms_take_quantized_values),
    cmocka_unit_test(group_norms_take_in_factors_of_channels),
    cmocka_unit_test(factors_behind_group_norms_stay),
    cmocka_unit_test(sums_read_before_an_expand),
    cmocka_unit_test(other_sizes_stay),
    cmocka_unit_test(boxes_are_filled_from_padding),
    cmocka_unit_test(tables_made_of_columns_are_boxes),
    cmocka_unit_test(whole_boxes_are_what_fills_them),
    cmocka_unit_test(boxes_beyond_the_data_stay),
    cmocka_unit_test(parts_of_quantized_nodes_are_floats),
    cmocka_unit_test(parts_are_converted_where_several_are_taken),
    cmocka_unit_test(normalizations_read_moved_values),
    cmocka_unit_test(dense_concats_share_their_beginning),
};

QB_TEST_MAIN(tests)

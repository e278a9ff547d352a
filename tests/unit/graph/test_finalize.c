/* What engines make of a graph before they group it (qb_finalize_moves): the results stay. */
#include "graph/fusion.h"
#include "random_graph.h"

static int32_t finalize(maker *m) {
    qb_graph *after;
    int32_t n;
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &after));
    assert_ok(&m->cx, qb_finalize_moves(&m->cx, after, NULL, NULL, &n));
    assert_same_results(m, m->graph, after, 1e-5);
    maker_replace(m, after);
    return n;
}

static void three_nodes_are_a_group_norm(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    const int32_t x = make_input(&m, "x", DIMS(2, 6, 4, 5));
    const int32_t parts = NODE(&m, "Reshape", "parts", x, INTS(&m, "to", 0, 3, -1));
    const int32_t norm =
        NODE(&m, "InstanceNormalization", "norm", parts, make_uniform(&m, "g", DIMS(3), 0.5, 2),
             make_random(&m, "b", DIMS(3)));
    set_float(&m, "epsilon", 0.01f);
    const int32_t back = NODE(&m, "Reshape", "back", norm, INTS(&m, "from", 2, 6, 4, 5));
    make_output(&m, NODE(&m, "Relu", "y", back));
    assert_true(finalize(&m) > 0);
    assert_int_equal(count_op(m.graph, "GroupNormalization"), 1);
    assert_int_equal(count_op(m.graph, "Reshape"), 0);
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
    cmocka_unit_test(other_sizes_stay),
    cmocka_unit_test(dense_concats_share_their_beginning),
};

QB_TEST_MAIN(tests)

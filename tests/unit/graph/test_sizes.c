/* Sizes on their way from Shape to where they make shapes, while the batch is open. */
#include "build_graph.h"

/* float [N, 6, 8, 8] */
static int32_t image(maker *m) { return make_input(m, "x", DIMS(-1, 6, 8, 8)); }

/* One dimension of x as a list of one. */
static int32_t dim_of(maker *m, int32_t x, int64_t axis) {
    int32_t one =
        NODE(m, "Gather", "one", NODE(m, "Shape", "shape", x), make_ints(m, "i", 1, &axis));
    return one;
}

static int32_t list(maker *m, int32_t a, int32_t b, int32_t c) {
    int32_t all = NODE(m, "Concat", "list", a, b, c);
    set_int(m, "axis", 0);
    return all;
}

static void expect_shape(const maker *m, int32_t value, int64_t batch, int64_t b, int64_t c) {
    const qb_shape *shape = &value_of(m, value)->shape;
    assert_int_equal(shape->rank, 3);
    assert_int_equal(shape->dim[0], batch);
    assert_int_equal(shape->dim[1], b);
    assert_int_equal(shape->dim[2], c);
}

static void a_symbol_reaches_reshape(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = image(&m);
    const int64_t batch = value_of(&m, x)->shape.dim[0];
    int32_t y = NODE(&m, "Reshape", "y", x,
                     list(&m, dim_of(&m, x, 0), INTS(&m, "six", 6), INTS(&m, "rest", -1)));
    assert_true(batch <= -2);
    expect_shape(&m, y, batch, 6, 64);
    maker_release(&m);
}

static void arithmetic_is_followed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 2);
    int32_t x = image(&m);
    const int64_t batch = value_of(&m, x)->shape.dim[0];
    int32_t half = NODE(&m, "Div", "half", dim_of(&m, x, 1), INTS(&m, "two", 2));
    int32_t more = NODE(&m, "Mul", "more", dim_of(&m, x, 2), INTS(&m, "sixteen", 16));
    int32_t same = NODE(&m, "Mul", "same", dim_of(&m, x, 0), INTS(&m, "unit", 1));
    expect_shape(&m, NODE(&m, "Reshape", "y", x, list(&m, same, half, more)), batch, 3, 128);
    int32_t twice = NODE(&m, "Mul", "twice", dim_of(&m, x, 0), INTS(&m, "2", 2));
    expect_shape(&m, NODE(&m, "Reshape", "z", x, list(&m, twice, half, INTS(&m, "64", 64))), -1, 3,
                 64);
    maker_release(&m);
}

/* What PyTorch writes for x.expand(-1, 6, 8): Where(wanted == -1, 1, wanted). */
static void choices_are_followed(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 3);
    int32_t x = image(&m), row = make_random(&m, "row", DIMS(1, 6, 1));
    const int64_t batch = value_of(&m, x)->shape.dim[0];
    int32_t wanted = list(&m, dim_of(&m, x, 0), INTS(&m, "keep", -1), INTS(&m, "8", 8));
    int32_t open = NODE(&m, "Equal", "open", wanted, INTS(&m, "minus", -1, -1, -1));
    int32_t dims = NODE(&m, "Where", "dims", open, INTS(&m, "ones", 1, 1, 1), wanted);
    expect_shape(&m, NODE(&m, "Expand", "y", row, dims), batch, 6, 8);
    maker_release(&m);
}

static void unknown_dimensions_stay_unknown(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 4);
    int32_t x = image(&m);
    int32_t found = NODE(&m, "NonZero", "found", x); /* [4, unknown] */
    int32_t y = NODE(&m, "Reshape", "y", x,
                     list(&m, dim_of(&m, found, 1), INTS(&m, "1", 1), INTS(&m, "2", 2)));
    expect_shape(&m, y, -1, 1, 2);
    maker_release(&m);
}

/* A copy of the graph knows what the graph knew, and bound shapes turn all of it into numbers. */
static void copies_and_bound_graphs_agree(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 5);
    int32_t x = image(&m);
    int32_t sum = NODE(&m, "Add", "sum", dim_of(&m, x, 0), INTS(&m, "0", 0));
    int32_t y = NODE(&m, "Reshape", "y", x, list(&m, sum, INTS(&m, "rest", -1), INTS(&m, "4", 4)));
    make_output(&m, NODE(&m, "Relu", "z", y));
    qb_graph *copy, *bound;
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
    maker_replace(&m, copy);
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    expect_shape(&m, qb_graph_find_value(m.graph, "z"), -2, 96, 4);
    qb_shape shape = DIMS(3, 6, 8, 8);
    assert_ok(&m.cx, qb_graph_bind(&m.cx, m.graph, &shape, &bound));
    maker_replace(&m, bound);
    expect_shape(&m, qb_graph_find_value(m.graph, "z"), 3, 96, 4);
    assert_int_equal(count_nodes(m.graph), 2);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_symbol_reaches_reshape),
        cmocka_unit_test(arithmetic_is_followed),
        cmocka_unit_test(choices_are_followed),
        cmocka_unit_test(unknown_dimensions_stay_unknown),
        cmocka_unit_test(copies_and_bound_graphs_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

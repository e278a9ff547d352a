/* RMS normalization in all forms in which exporters write it becomes one node that computes the
 * same; what only looks like it stays. */
#include "build_graph.h"
#include "graph/fusion.h"
#include "graph/graph.h"

typedef enum inverse { ONE_OVER, RECIPROCAL, POWER, QUOTIENT, INVERSES } inverse;

typedef struct form {
    inverse by;
    bool product, pool; /* x x for the square; a GlobalAveragePool over the last axis */
    int scale;          /* dimensions of the scale; 0: none */
    bool seen;          /* the spread is an output, too */
    int64_t axis;       /* of the mean */
} form;

static int32_t make_norm(maker *m, const form *f, int32_t x) {
    const int32_t square = f->product ? NODE(m, "Mul", "square", x, x)
                                      : NODE(m, "Pow", "square", x, make_scalar(m, "two", 2));
    const int32_t mean = f->pool ? NODE(m, "GlobalAveragePool", "mean", square)
                                 : NODE(m, "ReduceMean", "mean", square, INTS(m, "axes", f->axis));
    const int32_t spread = NODE(m, "Add", "spread", make_scalar(m, "eps", 1e-3f), mean);
    if (f->seen) make_output(m, spread);
    int32_t y;
    if (f->by == POWER) {
        const int32_t factor = NODE(m, "Pow", "inverse", spread, make_scalar(m, "half", -0.5f));
        y = NODE(m, "Mul", "normal", factor, x);
    } else {
        const int32_t root = NODE(m, "Sqrt", "root", spread);
        const int32_t factor = f->by == RECIPROCAL ? NODE(m, "Reciprocal", "inverse", root)
                               : f->by == ONE_OVER
                                   ? NODE(m, "Div", "inverse", make_scalar(m, "one", 1), root)
                                   : -1;
        y = factor >= 0 ? NODE(m, "Mul", "normal", x, factor) : NODE(m, "Div", "normal", x, root);
    }
    const qb_shape shapes[] = {DIMS(1), DIMS(10), DIMS(5, 10), DIMS(1, 1, 10)};
    if (f->scale > 0) y = NODE(m, "Mul", "y", make_random(m, "scale", shapes[f->scale]), y);
    return y;
}

static void assert_fused(const form *f, int32_t expected, int32_t products) {
    maker m;
    qb_graph *copy;
    int32_t n = -1;
    maker_init(&m, 5);
    const int32_t x = make_input(&m, "x", DIMS(3, 5, 10));
    make_output(&m, NODE(&m, "Relu", "z", make_norm(&m, f, x)));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
    assert_ok(&m.cx, qb_fuse_rms_norms(&m.cx, copy, &n));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, copy));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
    assert_int_equal(n, expected);
    assert_int_equal(count_op(copy, "RMSNormalization"), expected);
    assert_int_equal(count_op(copy, "Mul"), products);
    assert_same_results(&m, m.graph, copy, 1e-6);
    maker_replace(&m, copy);
    maker_release(&m);
}

static void each_form_becomes_one_node(void **state) {
    (void)state;
    for (int by = 0; by < INVERSES; by++)
        for (int i = 0; i < 8; i++) {
            const form f = {.by = (inverse)by,
                            .product = i % 2,
                            .pool = i / 2 % 2,
                            .scale = (const int[]){1, 0, 3, 1}[i / 2],
                            .axis = i % 3 ? -1 : 2};
            assert_fused(&f, 1, 0);
        }
}

static void what_is_no_scale_stays_behind(void **state) {
    (void)state;
    const form f = {.by = ONE_OVER, .scale = 2, .axis = -1};
    assert_fused(&f, 1, 1);
}

static void what_looks_like_it_stays(void **state) {
    (void)state;
    const form seen = {.by = QUOTIENT, .scale = 1, .seen = true, .axis = -1};
    assert_fused(&seen, 0, 1);
    const form other_axis = {.by = QUOTIENT, .scale = 1, .axis = 1};
    assert_fused(&other_axis, 0, 1);
    const form first_axis = {.by = RECIPROCAL, .product = true, .scale = 1, .axis = 0};
    assert_fused(&first_axis, 0, 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_form_becomes_one_node),
    cmocka_unit_test(what_is_no_scale_stays_behind),
    cmocka_unit_test(what_looks_like_it_stays),
};
QB_TEST_MAIN(tests)

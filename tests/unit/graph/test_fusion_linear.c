/* What engines for devices write otherwise: Resize and AffineGrid as products, TopK as places and
 * a gather, a pool apart from the places of its maxima. The same results as before; what a kernel
 * takes as it is, and what is not known, stays.
 */
#include "build_graph.h"
#include "graph/dequantize.h"
#include "graph/fusion.h"
#include "graph/graph.h"

static bool none(const void *user, const qb_problem *problem) {
    (void)user, (void)problem;
    return false;
}

static bool all(const void *user, const qb_problem *problem) {
    (void)user, (void)problem;
    return true;
}

typedef qb_status fuse_fn(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                          int32_t *n_changes);

/* Fuses a copy, which must give the same; returns how often. */
static int32_t fuse_copy(maker *m, fuse_fn *fuse, qb_problem_filter accept, double tolerance) {
    qb_graph *copy;
    int32_t n = -1;
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &copy));
    assert_ok(&m->cx, fuse(&m->cx, copy, accept, NULL, &n));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, copy));
    assert_ok(&m->cx, qb_graph_verify(&m->cx, copy));
    assert_same_results(m, m->graph, copy, tolerance);
    maker_replace(m, copy);
    return n;
}

typedef struct resize_case {
    const char *mode, *transform, *nearest;
    bool antialias, exclude;
    int h, w;        /* of the result of [2, 3, 7, 9] */
    int64_t product; /* dimensions that change */
} resize_case;

static void make_resize(maker *m, const resize_case *c, float outside) {
    static const float roi[] = {0, 0, 0.1f, -0.2f, 1, 1, 0.8f, 0.9f};
    const int32_t x = make_input(m, "x", DIMS(2, 3, 7, 9));
    const int32_t region = make_floats(m, "roi", DIMS(8), roi);
    const int32_t y = NODE(m, "Resize", "y", x, region, -1, INTS(m, "size", 2, 3, c->h, c->w));
    set_string(m, "mode", c->mode);
    if (c->transform) set_string(m, "coordinate_transformation_mode", c->transform);
    if (c->nearest) set_string(m, "nearest_mode", c->nearest);
    set_int(m, "antialias", c->antialias);
    set_int(m, "exclude_outside", c->exclude);
    set_float(m, "extrapolation_value", outside);
    make_output(m, y);
}

static void resizing_becomes_products(void **state) {
    (void)state;
    static const resize_case cases[] = {
        {"cubic", NULL, NULL, false, false, 13, 4, 2},
        {"cubic", "asymmetric", NULL, false, true, 5, 9, 1},
        {"cubic", "half_pixel", NULL, true, false, 3, 4, 2},
        {"linear", "half_pixel", NULL, true, true, 2, 18, 2},
        {"linear", "asymmetric", NULL, false, false, 7, 20, 1},
        {"linear", "half_pixel_symmetric", NULL, false, false, 14, 3, 2},
        {"linear", "pytorch_half_pixel", NULL, false, false, 1, 5, 2},
        {"linear", "tf_crop_and_resize", NULL, false, false, 6, 5, 2},
        {"nearest", "half_pixel", "ceil", false, false, 10, 4, 2},
        {"nearest", "align_corners", "round_prefer_ceil", false, false, 7, 30, 1},
        {"nearest", "tf_crop_and_resize", "floor", false, false, 6, 5, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        maker m;
        maker_init(&m, 90 + i);
        make_resize(&m, &cases[i], 0);
        assert_int_equal(fuse_copy(&m, qb_fuse_linear, none, 1e-5), 1);
        assert_int_equal(count_op(m.graph, "Resize"), 0);
        assert_int_equal(count_op(m.graph, "MatMul"), cases[i].product);
        maker_release(&m);
    }
}

/* Quantized values are resized as floats between two conversions; products on the way are not
 * rounded. */
static void quantized_values_are_resized_as_floats(void **state) {
    (void)state;
    for (int variant = 1; variant < 4; variant++) {
        maker m;
        int32_t n;
        maker_init(&m, 85);
        const int32_t x = NODE(&m, "Relu", "x1", make_input(&m, "x", DIMS(2, 3, 7, 9)));
        const int32_t y = NODE(&m, "Resize", "y", x, -1, -1, INTS(&m, "size", 2, 3, 13, 4));
        set_string(&m, "mode", "cubic");
        make_output(&m, NODE(&m, "Relu", "out", y));
        if (variant & 1) make_quantized(&m, x, 0.1f, 0);
        if (variant & 2) make_quantized(&m, y, 0.2f, 3);
        assert_ok(&m.cx, qb_fuse_linear(&m.cx, m.graph, none, NULL, &n));
        assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
        assert_int_equal(n, 1);
        assert_int_equal(count_op(m.graph, "MatMul"), 2);
        assert_int_equal(count_op(m.graph, "Identity"), variant == 3 ? 2 : 1);
        assert_int_equal(m.graph->values[node_writing(&m, "y")->out[0]].q.n, variant / 2);
        for (int32_t i = 0; i < m.graph->n_nodes; i++) {
            const qb_node *node = &m.graph->nodes[i];
            if (!node->op || strcmp(node->op->name, "MatMul") != 0) continue;
            assert_int_equal(m.graph->values[node->out[0]].q.n, 0);
        }
        maker_release(&m);
    }
}

static void what_is_taken_or_fills_stays(void **state) {
    (void)state;
    const resize_case taken = {"linear", NULL, NULL, false, false, 14, 18, 2};
    const resize_case fills = {"linear", "tf_crop_and_resize", NULL, false, false, 6, 5, 2};
    maker m;
    maker_init(&m, 80);
    make_resize(&m, &taken, 0);
    assert_int_equal(fuse_copy(&m, qb_fuse_linear, all, 0), 0);
    maker_release(&m);
    maker_init(&m, 81);
    make_resize(&m, &fills, 1.5f);
    assert_int_equal(fuse_copy(&m, qb_fuse_linear, none, 0), 0);
    maker_release(&m);
}

static void grids_become_products(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        maker m;
        maker_init(&m, 70);
        const bool solid = i / 2;
        const int32_t theta = make_input(&m, "theta", solid ? DIMS(2, 3, 4) : DIMS(3, 2, 3));
        const int32_t size = solid ? INTS(&m, "size", 2, 1, 3, 4, 5) : INTS(&m, "size", 3, 2, 6, 1);
        const int32_t y = NODE(&m, "AffineGrid", "y", theta, size);
        set_int(&m, "align_corners", i % 2);
        make_output(&m, y);
        assert_int_equal(fuse_copy(&m, qb_fuse_linear, none, 1e-5), 1);
        assert_int_equal(count_op(m.graph, "AffineGrid"), 0);
        maker_release(&m);
    }
}

/* Values, places or both are wanted. */
static void the_first_elements_are_gathered(void **state) {
    (void)state;
    for (int wanted = 1; wanted < 4; wanted++)
        for (int taken = 0; taken < 2; taken++) {
            maker m;
            int32_t out[2] = {-1, -1};
            maker_init(&m, 60);
            const int32_t in[] = {make_input(&m, "x", DIMS(3, 20, 4)), INTS(&m, "k", 5)};
            const qb_shape unknown = {.rank = -1};
            for (int i = 0; i < 2; i++)
                if (wanted >> i & 1)
                    out[i] = qb_graph_add_value(&m.cx, m.graph, i ? "places" : "values",
                                                QB_DTYPE_NONE, &unknown);
            const int32_t node =
                qb_graph_add_node(&m.cx, m.graph, qb_op_find("TopK", ""), "first", in, 2, out, 2);
            assert_true(node >= 0);
            set_int(&m, "axis", 1);
            set_int(&m, "largest", wanted % 2);
            for (int i = 0; i < 2; i++)
                if (out[i] >= 0) make_output(&m, out[i]);
            const bool changes = taken && (wanted & 1);
            assert_int_equal(fuse_copy(&m, qb_fuse_order, taken ? all : none, 0), changes);
            assert_int_equal(count_op(m.graph, "GatherElements"), changes);
            maker_release(&m);
        }
}

/* Of quantized values as well: the values keep their scale, places have none. */
static void quantized_firsts_are_gathered(void **state) {
    (void)state;
    for (int places = 0; places < 2; places++) {
        maker m;
        maker_init(&m, 61);
        const int32_t q = NODE(&m, "Relu", "q", make_input(&m, "x", DIMS(3, 20)));
        const int32_t in[] = {q, INTS(&m, "k", 5)};
        const qb_shape shape = {.rank = 2, .dim = {3, 5}};
        int32_t out[2] = {-1, -1};
        for (int i = 0; i <= places; i++)
            out[i] = qb_graph_add_value(&m.cx, m.graph, i ? "places" : "values",
                                        i ? QB_DTYPE_S64 : QB_DTYPE_F32, &shape);
        assert_true(
            qb_graph_add_node(&m.cx, m.graph, qb_op_find("TopK", ""), "first", in, 2, out, 2) >= 0);
        make_output(&m, NODE(&m, "Identity", "y", out[0]));
        if (places) make_output(&m, out[1]);
        make_quantized(&m, q, 0.01f, 3);
        make_quantized(&m, out[0], 0.01f, 3);
        qb_graph *before, *after;
        int32_t n = 0;
        assert_ok(&m.cx, qb_graph_dequantize(&m.cx, m.graph, &before));
        assert_ok(&m.cx, qb_fuse_order(&m.cx, m.graph, all, NULL, &n));
        assert_int_equal(n, 1);
        assert_int_equal(count_op(m.graph, "GatherElements"), 1);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
        assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
        assert_ok(&m.cx, qb_graph_dequantize(&m.cx, m.graph, &after));
        assert_same_results(&m, before, after, 0);
        qb_graph_free(before);
        qb_graph_free(after);
        maker_release(&m);
    }
}

/* The places of a pool's maxima become a node of their own where a kernel finds them. */
static void places_of_maxima_are_apart(void **state) {
    (void)state;
    for (int taken = 0; taken < 2; taken++) {
        maker m;
        maker_init(&m, 45);
        const qb_shape unknown = {.rank = -1};
        const int32_t in[] = {make_input(&m, "x", DIMS(1, 3, 7, 8))};
        int32_t out[2];
        for (int i = 0; i < 2; i++)
            out[i] = qb_graph_add_value(&m.cx, m.graph, i ? "places" : "values", QB_DTYPE_NONE,
                                        &unknown);
        assert_true(qb_graph_add_node(&m.cx, m.graph, qb_op_find("MaxPool", ""), "pool", in, 1, out,
                                      2) >= 0);
        SET_INTS(&m, "kernel_shape", 3, 2);
        SET_INTS(&m, "strides", 2, 2);
        SET_INTS(&m, "pads", 1, 0, 1, 0);
        for (int i = 0; i < 2; i++) make_output(&m, out[i]);
        assert_int_equal(fuse_copy(&m, qb_fuse_order, taken ? all : none, 0), taken);
        assert_int_equal(count_op(m.graph, "MaxPool"), 1 + taken);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(resizing_becomes_products),
    cmocka_unit_test(quantized_values_are_resized_as_floats),
    cmocka_unit_test(what_is_taken_or_fills_stays),
    cmocka_unit_test(grids_become_products),
    cmocka_unit_test(the_first_elements_are_gathered),
    cmocka_unit_test(quantized_firsts_are_gathered),
    cmocka_unit_test(places_of_maxima_are_apart),
};
QB_TEST_MAIN(tests)

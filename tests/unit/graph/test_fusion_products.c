/* Queries, keys and values become one product where that computes the same. */
#include <string.h>

#include "build_graph.h"
#include "graph/fusion.h"

#define TOKENS 5
#define HEADS 2
#define SIZE 8
#define WIDTH (HEADS * SIZE)
#define INNER 12

static qb_problem asked;

static bool accept(const void *user, const qb_problem *problem) {
    asked = *problem;
    assert_true(problem->has_views);
    for (int i = 0; i < 3; i++) { /* parts of one tensor */
        assert_int_equal(problem->in[i].shape.dim[2], 3 * WIDTH);
        assert_int_equal(problem->views.in[i].offset, i * WIDTH);
        assert_int_equal(problem->views.in[i].stride[3], 3 * WIDTH);
    }
    return user == NULL;
}

static bool accept_any(const void *user, const qb_problem *problem) {
    (void)user;
    (void)problem;
    return true;
}

/* x weight [+ bias], the bias on either side. */
static int32_t product(maker *m, const char *name, int32_t x, bool bias, bool left) {
    char text[3][32];
    snprintf(text[0], sizeof text[0], "%s_weight", name);
    snprintf(text[1], sizeof text[1], "%s_bias", name);
    snprintf(text[2], sizeof text[2], "%s_product", name);
    int32_t w = make_random(m, text[0], DIMS(INNER, WIDTH));
    if (!bias) return NODE(m, "MatMul", name, x, w);
    int32_t y = NODE(m, "MatMul", text[2], x, w), b = make_random(m, text[1], DIMS(WIDTH));
    return left ? NODE(m, "Add", name, b, y) : NODE(m, "Add", name, y, b);
}

static int32_t attend(maker *m, int32_t q, int32_t k, int32_t v) {
    int32_t y = NODE(m, "Attention", "y", q, k, v);
    set_int(m, "q_num_heads", HEADS);
    set_int(m, "kv_num_heads", HEADS);
    return y;
}

/* Fuses a copy; the results must be the same. Returns how often it was done. */
static int32_t fuse_copy(maker *m, bool accepted) {
    qb_graph *copy;
    int32_t n = -1;
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &copy));
    assert_ok(&m->cx, qb_fuse_products(&m->cx, copy, accept, accepted ? NULL : &n, &n));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, copy));
    assert_ok(&m->cx, qb_graph_verify(&m->cx, copy));
    assert_same_results(m, m->graph, copy, 1e-6);
    assert_int_equal(count_op(copy, "Split"), n);
    maker_replace(m, copy);
    return n;
}

static int32_t index_of(const qb_graph *graph, const char *op) {
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op && strcmp(graph->nodes[i].op->name, op) == 0) return i;
    return -1;
}

static void three_products_become_one(void **state) {
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        maker m;
        maker_init(&m, 71 + (uint64_t)bias);
        int32_t x = make_input(&m, "x", DIMS(2, TOKENS, INNER));
        int32_t q = product(&m, "q", x, bias, false), k = product(&m, "k", x, bias, true);
        make_output(&m, attend(&m, q, k, product(&m, "v", x, bias, false)));
        assert_int_equal(fuse_copy(&m, true), 1);
        assert_int_equal(count_op(m.graph, "MatMul"), 1);
        assert_int_equal(count_op(m.graph, "Add"), bias);
        assert_int_equal(count_nodes(m.graph), 3 + bias);
        const int32_t split = index_of(m.graph, "Split");
        assert_string_equal(m.graph->values[m.graph->nodes[split].out[1]].name, "k");
        assert_true(qb_problem_flops(&asked) == 4.0 * 2 * TOKENS * WIDTH * TOKENS);
        maker_release(&m);
    }
}

enum { OTHER_INPUT, ONE_BIAS, READ_ELSEWHERE, INNER_READ_ELSEWHERE, KEPT, REFUSED, VARIANTS };

static void what_differs_or_is_seen_stays(void **state) {
    (void)state;
    for (int variant = 0; variant < VARIANTS; variant++) {
        maker m;
        maker_init(&m, 81 + (uint64_t)variant);
        int32_t x = make_input(&m, "x", DIMS(2, TOKENS, INNER));
        int32_t z = variant == OTHER_INPUT ? make_input(&m, "z", DIMS(2, TOKENS, INNER)) : x;
        int32_t q = product(&m, "q", x, true, false);
        int32_t k = product(&m, "k", z, variant != ONE_BIAS, false);
        int32_t v = product(&m, "v", x, true, false);
        make_output(&m, attend(&m, q, k, v));
        if (variant == READ_ELSEWHERE) make_output(&m, v);
        if (variant == INNER_READ_ELSEWHERE)
            make_output(&m, qb_graph_find_value(m.graph, "v_product"));
        if (variant == KEPT) m.graph->values[k].kept = true;
        assert_int_equal(fuse_copy(&m, variant != REFUSED), 0);
        assert_int_equal(count_op(m.graph, "MatMul"), 3);
        maker_release(&m);
    }
}

/* Products of one column that wide biases spread cannot be split again; and there may be none. */
static void spread_columns_stay(void **state) {
    (void)state;
    static const char *const part[3] = {"q", "k", "v"};
    for (int columns = 0; columns < 2; columns++) {
        maker m;
        maker_init(&m, 91);
        const int32_t x = make_input(&m, "x", DIMS(2, TOKENS, INNER));
        int32_t sum[3], n = -1;
        for (int i = 0; i < 3; i++) {
            char text[3][32];
            snprintf(text[0], sizeof text[0], "%s_weight", part[i]);
            snprintf(text[1], sizeof text[1], "%s_bias", part[i]);
            snprintf(text[2], sizeof text[2], "%s_product", part[i]);
            const int32_t w = make_random(&m, text[0], DIMS(INNER, columns));
            const int32_t b = make_random(&m, text[1], DIMS(columns ? WIDTH : 0));
            sum[i] = NODE(&m, "Add", part[i], NODE(&m, "MatMul", text[2], x, w), b);
        }
        make_output(&m, attend(&m, sum[0], sum[1], sum[2]));
        assert_ok(&m.cx, qb_fuse_products(&m.cx, m.graph, accept_any, NULL, &n));
        assert_int_equal(n, 0);
        maker_release(&m);
    }
}

/* One scale for all columns, or one for each: side by side each column keeps its own. */
static void codes_keep_their_scales(void **state) {
    static const char *const names[3] = {"q_weight", "k_weight", "v_weight"};
    (void)state;
    maker m;
    int32_t n, id[3];
    float scale[WIDTH];
    int8_t codes[3][INNER * WIDTH];
    maker_init(&m, 91);
    int32_t x = make_input(&m, "x", DIMS(2, TOKENS, INNER));
    int32_t q = product(&m, "q", x, false, false), k = product(&m, "k", x, false, false);
    make_output(&m, attend(&m, q, k, product(&m, "v", x, false, false)));
    for (int i = 0; i < WIDTH; i++) scale[i] = 0.01f * (float)(i + 1);
    for (int i = 0; i < 3; i++) {
        qb_value *v = &m.graph->values[id[i] = qb_graph_find_value(m.graph, names[i])];
        for (int e = 0; e < INNER * WIDTH; e++)
            codes[i][e] = (int8_t)((int64_t)qb_rng_below(&m.rng, 255) - 127);
        v->dtype = QB_DTYPE_S8;
        v->data = codes[i];
        v->bytes = sizeof codes[i];
        v->q = (qb_qparams){QB_DTYPE_S8, i == 1 ? -1 : 1, i == 1 ? 1 : WIDTH, scale, NULL};
    }
    assert_ok(&m.cx, qb_fuse_products(&m.cx, m.graph, accept, NULL, &n));
    assert_int_equal(n, 1);
    const qb_node *product = &m.graph->nodes[index_of(m.graph, "MatMul")];
    const qb_value *w = &m.graph->values[product->in[1]];
    assert_int_equal(w->q.n, 3 * WIDTH);
    assert_int_equal(w->q.axis, 1);
    for (int c = 0; c < 3 * WIDTH; c++) {
        const int part = c / WIDTH, column = c % WIDTH;
        assert_true(w->q.scale[c] == scale[part == 1 ? 0 : column]);
        assert_int_equal(w->q.zero[c], 0);
        for (int r = 0; r < INNER; r++)
            assert_int_equal(((const int8_t *)w->data)[r * 3 * WIDTH + c],
                             codes[part][r * WIDTH + column]);
    }
    maker_release(&m);
}

/* Layers with the same weights go on sharing them. */
static void shared_weights_stay_shared(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 93);
    const int32_t x = make_input(&m, "x", DIMS(2, TOKENS, INNER));
    static const char *const part[3] = {"q", "k", "v"};
    int32_t weight[3], bias[3], out[2][3];
    for (int i = 0; i < 3; i++) {
        char text[2][32];
        snprintf(text[0], sizeof text[0], "%s_weight", part[i]);
        snprintf(text[1], sizeof text[1], "%s_bias", part[i]);
        weight[i] = make_random(&m, text[0], DIMS(INNER, WIDTH));
        bias[i] = make_random(&m, text[1], DIMS(WIDTH));
    }
    const int32_t other = NODE(&m, "Relu", "other", x);
    for (int layer = 0; layer < 2; layer++) {
        for (int i = 0; i < 3; i++) {
            char text[2][32];
            snprintf(text[0], sizeof text[0], "%s_product_%d", part[i], layer);
            snprintf(text[1], sizeof text[1], "%s_%d", part[i], layer);
            const int32_t y = NODE(&m, "MatMul", text[0], layer ? other : x, weight[i]);
            out[layer][i] = NODE(&m, "Add", text[1], y, bias[i]);
        }
        const int32_t y = make_node(&m, "Attention", layer ? "y1" : "y0", 3, out[layer]);
        set_int(&m, "q_num_heads", HEADS);
        set_int(&m, "kv_num_heads", HEADS);
        make_output(&m, y);
    }
    assert_int_equal(fuse_copy(&m, true), 2);
    const qb_node *first = node_writing(&m, "q_0_joint"), *second = node_writing(&m, "q_1_joint");
    assert_int_equal(first->in[1], second->in[1]);
    maker_release(&m);
}

/* As in the graph with known shapes, where what reads sizes is gone: here it reads the sum. */
static void open_graphs_follow_a_bound_one(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        maker m;
        maker_init(&m, 101 + (uint64_t)variant);
        const int32_t x = make_input(&m, "x", DIMS(-1, TOKENS, INNER));
        const int32_t q = product(&m, "q", x, true, false), k = product(&m, "k", x, true, true);
        const int32_t y = attend(&m, q, k, product(&m, "v", x, true, false));
        const int32_t inner = qb_graph_find_value(m.graph, variant == 0 ? "q_product" : "q");
        if (variant < 2) make_output(&m, NODE(&m, "Reshape", "z", y, NODE(&m, "Shape", "s", q)));
        if (variant < 2) make_output(&m, NODE(&m, "Shape", "t", inner));
        if (variant == 2) make_output(&m, y); /* one that is read there is not joined here */
        const qb_shape shape = DIMS(2, TOKENS, INNER);
        qb_graph *bound, *copy;
        int32_t n = -1;
        assert_ok(&m.cx, qb_graph_bind(&m.cx, m.graph, &shape, &bound));
        if (variant == 2)
            assert_ok(&m.cx, qb_graph_add_output(&m.cx, bound, qb_graph_find_value(bound, "k")));
        assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
        assert_ok(&m.cx, qb_fuse_products_as(&m.cx, copy, bound, accept, NULL, &n));
        assert_int_equal(n, variant < 2);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, copy));
        assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
        assert_same_results(&m, m.graph, copy, 1e-6);
        assert_int_equal(count_op(copy, "Split"), n);
        assert_int_equal(count_op(bound, "MatMul"), 3); /* is only read */
        assert_int_equal(count_op(copy, "MatMul"), variant < 2 ? 1 : 3);
        qb_graph_free(bound);
        qb_graph_free(copy);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(spread_columns_stay),
    cmocka_unit_test(three_products_become_one),
    cmocka_unit_test(what_differs_or_is_seen_stays),
    cmocka_unit_test(codes_keep_their_scales),
    cmocka_unit_test(open_graphs_follow_a_bound_one),
    cmocka_unit_test(shared_weights_stay_shared),
};
QB_TEST_MAIN(tests)

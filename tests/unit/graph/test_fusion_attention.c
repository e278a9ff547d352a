/* Attention written as single operators becomes one node that computes the same. */
#include "build_graph.h"
#include "graph/fusion.h"
#include "graph/layer.h"

#define TOKENS 5
#define HEADS 2
#define SIZE 8
#define WIDTH (HEADS * SIZE)

typedef struct seen {
    bool accept;
    int32_t n;
    qb_problem problem; /* of the last question, without its inputs */
    int32_t key_rank;
    int64_t keys, size; /* last two dimensions of k */
} seen;

static seen asked;

static bool note(const void *user, const qb_problem *problem) {
    const qb_shape *k = &problem->in[1].shape;
    (void)user;
    asked.n++;
    asked.problem = *problem;
    asked.key_rank = k->rank;
    asked.keys = k->dim[k->rank - 2];
    asked.size = k->dim[k->rank - 1];
    return asked.accept;
}

/* [2, TOKENS, WIDTH] -> heads in front; keys: the last two axes swapped. */
static int32_t split(maker *m, const char *name, int32_t x, bool keys) {
    char text[64];
    snprintf(text, sizeof text, "%s_split", name);
    int32_t y = NODE(m, "Reshape", text, x, INTS(m, "target", 0, 0, HEADS, SIZE));
    y = NODE(m, "Transpose", name, y);
    if (keys)
        SET_INTS(m, "perm", 0, 2, 3, 1);
    else
        SET_INTS(m, "perm", 0, 2, 1, 3);
    return y;
}

static int32_t joined(maker *m, int32_t y) {
    y = NODE(m, "Transpose", "tokens", y);
    SET_INTS(m, "perm", 0, 2, 1, 3);
    return NODE(m, "Reshape", "y", y, INTS(m, "back", 0, 0, WIDTH));
}

static int32_t token_input(maker *m, const char *name) {
    return make_input(m, name, DIMS(2, TOKENS, WIDTH));
}

/* Fuses a copy; the results must be the same. Returns how often it was done. */
static int32_t fuse_copy(maker *m, bool accept) {
    qb_graph *copy;
    int32_t n = -1;
    asked = (seen){.accept = accept};
    assert_ok(&m->cx, qb_graph_clone(&m->cx, m->graph, &copy));
    assert_ok(&m->cx, qb_fuse_attention(&m->cx, copy, note, NULL, &n));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, copy));
    assert_ok(&m->cx, qb_graph_verify(&m->cx, copy));
    assert_same_results(m, m->graph, copy, 1e-5);
    assert_int_equal(count_op(copy, "Attention"), n);
    maker_replace(m, copy);
    return n;
}

static void heads_split_and_joined_vanish(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        maker m;
        maker_init(&m, 31 + (uint64_t)variant);
        int32_t q = split(&m, "q", token_input(&m, "xq"), false);
        int32_t k = split(&m, "k", token_input(&m, "xk"), true);
        int32_t v = split(&m, "v", token_input(&m, "xv"), false);
        if (variant == 2) { /* the scale on both sides */
            q = NODE(&m, "Mul", "q_scaled", q, make_scalar(&m, "a", 0.5f));
            k = NODE(&m, "Div", "k_scaled", k, make_scalar(&m, "b", 2.0f));
        }
        int32_t s = NODE(&m, "MatMul", "scores", q, k);
        if (variant < 2) s = NODE(&m, "Mul", "scaled", make_scalar(&m, "factor", 0.25f), s);
        if (variant == 1)
            s = NODE(&m, "Add", "masked", make_input(&m, "mask", DIMS(2, 1, 1, TOKENS)), s);
        s = NODE(&m, "Softmax", "weights", s);
        if (variant == 2) /* as PyTorch writes it */
            s = NODE(&m, "Where", "guarded", NODE(&m, "IsNaN", "is_nan", s),
                     make_scalar(&m, "zero", 0.0f), s);
        make_output(&m, joined(&m, NODE(&m, "MatMul", "mixed", s, v)));
        assert_int_equal(fuse_copy(&m, true), 1);
        assert_int_equal(count_nodes(m.graph), 1);
        const qb_node *node = node_writing(&m, "y");
        assert_int_equal(node->n_in, variant == 1 ? 4 : 3);
        assert_true(asked.problem.scale == (variant == 3 ? 1.0f : 0.25f));
        assert_int_equal(asked.problem.group, HEADS);
        assert_int_equal(asked.key_rank, 3);
        maker_release(&m);
    }
}

static void heads_in_front_stay(void **state) {
    (void)state;
    for (int rank = 3; rank <= 4; rank++) {
        maker m;
        maker_init(&m, 41 + (uint64_t)rank);
        qb_shape shape = rank == 4 ? DIMS(2, HEADS, TOKENS, SIZE) : DIMS(2, TOKENS, SIZE);
        int32_t q = make_input(&m, "q", shape), v = make_input(&m, "v", shape);
        int32_t k = NODE(&m, "Transpose", "turned", make_input(&m, "k", shape));
        if (rank == 4)
            SET_INTS(&m, "perm", 0, 1, 3, 2);
        else
            SET_INTS(&m, "perm", 0, 2, 1);
        int32_t s = NODE(&m, "Softmax", "weights", NODE(&m, "MatMul", "scores", q, k));
        make_output(&m, NODE(&m, "MatMul", "y", s, v));
        assert_int_equal(fuse_copy(&m, true), 1);
        assert_int_equal(count_op(m.graph, "MatMul") + count_op(m.graph, "Softmax"), 0);
        assert_int_equal(asked.problem.group, rank == 4 ? HEADS : 1);
        assert_int_equal(asked.keys, TOKENS);
        assert_int_equal(asked.size, SIZE);
        maker_release(&m);
    }
}

/* Scores that someone else reads, another axis, a value that is observed, a kernel that does not
 * take it: everything stays. */
static void what_is_seen_elsewhere_stays(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        maker m;
        maker_init(&m, 51 + (uint64_t)variant);
        int32_t q = split(&m, "q", token_input(&m, "xq"), false);
        int32_t k = split(&m, "k", token_input(&m, "xk"), true);
        int32_t v = split(&m, "v", token_input(&m, "xv"), false);
        int32_t scores = NODE(&m, "MatMul", "scores", q, k);
        int32_t s = NODE(&m, "Softmax", "weights", scores);
        if (variant == 1) set_int(&m, "axis", 2);
        make_output(&m, joined(&m, NODE(&m, "MatMul", "mixed", s, v)));
        if (variant == 0) make_output(&m, scores);
        if (variant == 2) m.graph->values[s].kept = true;
        assert_int_equal(fuse_copy(&m, variant != 3), 0);
        assert_int_equal(asked.n, variant == 3);
        assert_int_equal(count_op(m.graph, "MatMul"), 2);
        maker_release(&m);
    }
}

/* A quantized result keeps its parameters; other quantized values inside are no attention. */
static void a_quantized_result_keeps_its_codes(void **state) {
    (void)state;
    for (int inner = 0; inner < 2; inner++) {
        maker m;
        int32_t n;
        maker_init(&m, 61);
        int32_t q = split(&m, "q", token_input(&m, "xq"), false);
        int32_t k = split(&m, "k", token_input(&m, "xk"), true);
        int32_t v = split(&m, "v", token_input(&m, "xv"), false);
        int32_t s = NODE(&m, "Softmax", "weights", NODE(&m, "MatMul", "scores", q, k));
        int32_t mixed = NODE(&m, "MatMul", "mixed", s, v), y = joined(&m, mixed);
        make_output(&m, NODE(&m, "Relu", "z", y));
        make_quantized(&m, mixed, 0.02f, 128);
        make_quantized(&m, qb_graph_find_value(m.graph, "tokens"), 0.02f, 128);
        make_quantized(&m, y, 0.02f, 128);
        if (inner) make_quantized(&m, s, 0.004f, 0);
        asked = (seen){.accept = true};
        assert_ok(&m.cx, qb_fuse_attention(&m.cx, m.graph, note, NULL, &n));
        assert_int_equal(n, !inner);
        assert_true(inner || asked.problem.out.q.n == 1);
        maker_release(&m);
    }
}

/* Windows beside heads: views of four dimensions, where all of the three have the same; heads of
 * values may have another size. */
static void windows_in_front_become_one_dimension(void **state) {
    (void)state;
    enum { PLAIN, QUANTIZED, MASK, MASK_OF_WINDOWS, ONE_FOR_ALL, N };
    for (int variant = 0; variant < N; variant++) {
        maker m;
        maker_init(&m, 83);
        const int32_t q = make_input(&m, "q", DIMS(2, 3, HEADS, TOKENS, SIZE));
        const int32_t k = make_input(&m, "k", DIMS(2, 3, HEADS, TOKENS, SIZE));
        const int32_t v =
            make_input(&m, "v", DIMS(2, variant == ONE_FOR_ALL ? 1 : 3, HEADS, TOKENS, 12));
        const int32_t turned = NODE(&m, "Transpose", "turned", k);
        SET_INTS(&m, "perm", 0, 1, 2, 4, 3);
        int32_t s = NODE(&m, "MatMul", "scores", q, turned);
        if (variant == MASK)
            s = NODE(&m, "Add", "masked", s, make_random(&m, "mask", DIMS(TOKENS, TOKENS)));
        if (variant == MASK_OF_WINDOWS)
            s = NODE(&m, "Add", "masked", s, make_random(&m, "mask", DIMS(3, 1, TOKENS, TOKENS)));
        const int32_t y = NODE(&m, "MatMul", "y", NODE(&m, "Softmax", "weights", s), v);
        const bool fuses = variant <= MASK;
        if (variant == QUANTIZED) {
            int32_t n;
            make_output(&m, NODE(&m, "Relu", "z", y));
            make_quantized(&m, y, 0.02f, 128);
            asked = (seen){.accept = true};
            assert_ok(&m.cx, qb_fuse_attention(&m.cx, m.graph, note, NULL, &n));
            assert_int_equal(n, 1);
            assert_int_equal(asked.problem.out.q.n, 1);
            assert_int_equal(m.graph->values[qb_graph_find_value(m.graph, "y_heads")].q.n, 1);
        } else {
            make_output(&m, y);
            assert_int_equal(fuse_copy(&m, true), fuses);
        }
        if (fuses) {
            assert_int_equal(asked.key_rank, 4);
            assert_int_equal(asked.keys, TOKENS);
            assert_int_equal(asked.problem.group, HEADS);
            assert_int_equal(asked.problem.out.shape.dim[0], 6);
            assert_int_equal(asked.problem.out.shape.dim[3], 12);
            assert_int_equal(count_op(m.graph, "Reshape"), 4);
        }
        maker_release(&m);
    }
}

/* Queries, keys and values side by side, as timm and torchvision write them: parts by Gather, or by
 * Split and Squeeze. */
static void parts_of_one_product_stay_packed(void **state) {
    (void)state;
    for (int variant = 0; variant < 5; variant++) {
        static const char *const names[] = {"q", "k", "v"};
        const bool wrong = variant == 3; /* keys and values the other way round */
        maker m;
        int32_t part[3];
        maker_init(&m, 71);
        int32_t x = make_input(&m, "x", DIMS(2, TOKENS, 3 * WIDTH));
        x = NODE(&m, "Reshape", "apart", x, INTS(&m, "s", 2, TOKENS, 3, HEADS, SIZE));
        x = NODE(&m, "Transpose", "turned", x);
        SET_INTS(&m, "perm", 2, 0, 3, 1, 4);
        if (variant == 1) {
            int32_t out[3];
            for (int i = 0; i < 3; i++) {
                char text[16];
                snprintf(text, sizeof text, "part%d", i);
                const qb_shape unknown = {.rank = -1};
                out[i] = qb_graph_add_value(&m.cx, m.graph, text, QB_DTYPE_NONE, &unknown);
            }
            const int32_t in[2] = {x, INTS(&m, "ones", 1, 1, 1)};
            assert_true(
                qb_graph_add_node(&m.cx, m.graph, qb_op_find("Split", ""), "", in, 2, out, 3) >= 0);
            for (int i = 0; i < 3; i++)
                part[i] = NODE(&m, "Squeeze", names[i], out[i], INTS(&m, names[i], 0));
        } else {
            for (int i = 0; i < 3; i++) {
                char text[16];
                snprintf(text, sizeof text, "at%d", i);
                const int64_t at = wrong && i > 0 ? 3 - i : i - (variant == 2 ? 3 : 0);
                const qb_shape scalar = {0};
                const int32_t index =
                    qb_graph_add_constant(&m.cx, m.graph, text, QB_DTYPE_S64, &scalar, &at);
                part[i] = NODE(&m, "Gather", names[i], x, index);
            }
        }
        int32_t k = NODE(&m, "Transpose", "k_turned", part[1]);
        SET_INTS(&m, "perm", 0, 1, 3, 2);
        const int32_t q = NODE(&m, "Mul", "q_scaled", part[0], make_scalar(&m, "factor", 0.25f));
        const int32_t s = NODE(&m, "Softmax", "weights", NODE(&m, "MatMul", "scores", q, k));
        const int32_t mixed = NODE(&m, "MatMul", "mixed", s, part[2]), y = joined(&m, mixed);
        if (variant == 4) { /* the parts are floats, also where the result is not */
            int32_t n;
            make_output(&m, NODE(&m, "Relu", "z", y));
            make_quantized(&m, mixed, 0.02f, 128);
            make_quantized(&m, qb_graph_find_value(m.graph, "tokens"), 0.02f, 128);
            make_quantized(&m, y, 0.02f, 128);
            asked = (seen){.accept = true};
            assert_ok(&m.cx, qb_fuse_attention(&m.cx, m.graph, note, NULL, &n));
            assert_int_equal(n, 1);
            const qb_node *split = &m.graph->nodes[qb_graph_writer(m.graph, "x_queries")];
            assert_true(split >= m.graph->nodes);
            for (int i = 0; i < 3; i++) {
                const qb_value *v = &m.graph->values[split->out[i]];
                assert_true(v->dtype == QB_DTYPE_F32 && v->q.n == 0);
            }
            maker_release(&m);
            continue;
        }
        make_output(&m, y);
        assert_int_equal(fuse_copy(&m, true), 1);
        assert_int_equal(count_op(m.graph, "Split"), !wrong);
        assert_int_equal(count_op(m.graph, "Transpose"), wrong ? 3 : 0);
        assert_int_equal(asked.key_rank, wrong ? 4 : 3);
        assert_int_equal(asked.problem.group, HEADS);
        assert_true(asked.problem.scale == 0.25f);
        maker_release(&m);
    }
}

/* Scores of four windows, two of each image: a bias for each head, and a mask for each window of an
 * image; returned through *scores, which an attention follows. */
static void add_bias_and_mask(maker *m, int32_t *scores) {
    int32_t s = NODE(m, "Add", "biased", *scores, make_random(m, "bias", DIMS(1, HEADS, 3, 3)));
    s = NODE(m, "Reshape", "windows", s, INTS(m, "s1", 2, 2, HEADS, 3, 3));
    s = NODE(m, "Add", "masked", make_random(m, "mask", DIMS(1, 2, 1, 3, 3)), s);
    *scores = NODE(m, "Reshape", "all", s, INTS(m, "s2", -1, HEADS, 3, 3));
}

static void bias_and_mask_of_windows_become_one(void **state) {
    (void)state;
    for (int seen_inside = 0; seen_inside < 2; seen_inside++) {
        maker m;
        qb_graph *copy;
        int32_t n = -1;
        maker_init(&m, 67);
        const int32_t q = make_input(&m, "q", DIMS(4, HEADS, 3, SIZE));
        const int32_t k = make_input(&m, "k", DIMS(4, HEADS, 3, SIZE));
        const int32_t v = make_input(&m, "v", DIMS(4, HEADS, 3, SIZE));
        const int32_t turned = NODE(&m, "Transpose", "turned", k);
        SET_INTS(&m, "perm", 0, 1, 3, 2);
        int32_t s = NODE(&m, "MatMul", "scores", q, turned);
        add_bias_and_mask(&m, &s);
        s = NODE(&m, "Softmax", "weights", s);
        make_output(&m, NODE(&m, "MatMul", "y", s, v));
        if (seen_inside) make_output(&m, qb_graph_find_value(m.graph, "windows"));
        assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
        assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
        assert_ok(&m.cx, qb_fuse_terms(&m.cx, copy, &n));
        assert_int_equal(n, !seen_inside);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, copy));
        assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
        assert_same_results(&m, m.graph, copy, 1e-5);
        maker_replace(&m, copy);
        assert_int_equal(fuse_copy(&m, true), !seen_inside);
        maker_release(&m);
    }
}

/* x[from:] or x[:to] along an axis. */
static int32_t part(maker *m, const char *name, int32_t x, int64_t from, int64_t to, int64_t axis) {
    char text[3][32];
    const char *const what[] = {"from", "to", "axis"};
    for (int i = 0; i < 3; i++) snprintf(text[i], sizeof text[i], "%s_%s", name, what[i]);
    return NODE(m, "Slice", name, x, INTS(m, text[0], from), INTS(m, text[1], to),
                INTS(m, text[2], axis));
}

static int32_t two_parts(maker *m, const char *name, int32_t first, int32_t second, int64_t axis) {
    const int32_t y = NODE(m, "Concat", name, first, second);
    set_int(m, "axis", axis);
    return y;
}

/* Shifted along two dimensions; and what looks like it: parts that leave some out, parts in order,
 * a part that others read. */
static void shifted_windows_become_one_pad(void **state) {
    (void)state;
    maker m;
    qb_graph *copy;
    int32_t n = -1;
    maker_init(&m, 73);
    const int32_t x = make_input(&m, "x", DIMS(2, 6, 7, 4));
    int32_t y = two_parts(&m, "y1", part(&m, "a", x, 2, 100, 1), part(&m, "b", x, 0, 2, 1), 1);
    y = two_parts(&m, "y2", part(&m, "c", y, -3, 100, 2), part(&m, "d", y, 0, 4, 2), -2);
    make_output(&m, NODE(&m, "Relu", "y", y));
    make_output(&m, two_parts(&m, "gap", part(&m, "e", x, 3, 6, 1), part(&m, "f", x, 0, 2, 1), 1));
    make_output(&m, two_parts(&m, "same", part(&m, "g", x, 0, 2, 1), part(&m, "h", x, 2, 6, 1), 1));
    const int32_t shared = part(&m, "i", x, 0, 2, 1);
    make_output(&m, two_parts(&m, "other", part(&m, "j", x, 2, 6, 1), shared, 1));
    make_output(&m, NODE(&m, "Neg", "also", shared));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
    assert_ok(&m.cx, qb_fuse_rolls(&m.cx, copy, &n));
    assert_int_equal(n, 2);
    assert_ok(&m.cx, qb_graph_infer(&m.cx, copy));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
    assert_int_equal(count_op(copy, "Pad"), 1);
    assert_int_equal(count_op(copy, "Concat"), 3);
    assert_same_results(&m, m.graph, copy, 0);
    maker_replace(&m, copy);
    maker_release(&m);
}

/* Rotary positions: halves, neighbours, parts of a Split; and what only looks like them. */
static void rotated_halves_become_a_pad_and_signs(void **state) {
    (void)state;
    maker m;
    qb_graph *copy;
    int32_t n = -1;
    maker_init(&m, 74);
    const int32_t x = make_input(&m, "x", DIMS(2, 3, 5, 8));
    const int32_t half = NODE(&m, "Neg", "n1", part(&m, "a", x, 4, 100, 3));
    const int32_t halves = two_parts(&m, "halves", half, part(&m, "b", x, 0, 4, -1), -1);
    make_output(&m, NODE(&m, "Mul", "product", make_random(&m, "sine", DIMS(5, 8)), halves));
    const int32_t all = NODE(&m, "Neg", "n2", part(&m, "c", x, 1, 100, 1));
    const int32_t both = NODE(&m, "Neg", "n3", part(&m, "d", x, 0, 1, 1));
    make_output(&m, two_parts(&m, "middle", all, both, 1));
    int32_t pair[2];
    for (int i = 0; i < 2; i++) { /* x[1::2] and x[::2] */
        const char *const names[2][5] = {{"odd", "of", "ot", "oa", "os"},
                                         {"even", "ef", "et", "ea", "es"}};
        const int32_t every =
            NODE(&m, "Slice", names[i][0], x, INTS(&m, names[i][1], 1 - i),
                 INTS(&m, names[i][2], 100), INTS(&m, names[i][3], 3), INTS(&m, names[i][4], 2));
        pair[i] = NODE(&m, "Unsqueeze", i ? "u2" : "u1", i ? every : NODE(&m, "Neg", "n4", every),
                       INTS(&m, i ? "ua" : "ub", -1));
    }
    const int32_t pairs = two_parts(&m, "pairs", pair[0], pair[1], -1);
    make_output(&m, NODE(&m, "Reshape", "neighbours", pairs, INTS(&m, "rs", 2, 3, 5, 8)));
    const int32_t doubled = NODE(&m, "Relu", "r", x);
    const int32_t gap = NODE(&m, "Neg", "n5", part(&m, "e", doubled, 5, 100, 3));
    make_output(&m, two_parts(&m, "left_out", gap, part(&m, "f", doubled, 0, 4, 3), 3));
    make_output(&m, two_parts(&m, "two", NODE(&m, "Neg", "n6", part(&m, "g", x, 4, 100, 3)),
                              part(&m, "h", doubled, 0, 4, 3), 3));
    make_output(&m,
                two_parts(&m, "none", part(&m, "i", x, 8, 100, 3), part(&m, "j", x, 0, 8, 3), 3));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
    assert_ok(&m.cx, qb_fuse_rolls(&m.cx, copy, &n));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, copy));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
    assert_int_equal(n, 3);
    assert_int_equal(count_op(copy, "Pad"), 3);
    assert_int_equal(count_op(copy, "Mul"), 3);
    assert_int_equal(count_op(copy, "Concat"), 3);
    assert_int_equal(count_op(copy, "Neg"), 2);
    assert_same_results(&m, m.graph, copy, 0);
    maker_replace(&m, copy);
    maker_release(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rotated_halves_become_a_pad_and_signs),
    cmocka_unit_test(shifted_windows_become_one_pad),
    cmocka_unit_test(windows_in_front_become_one_dimension),
    cmocka_unit_test(parts_of_one_product_stay_packed),
    cmocka_unit_test(bias_and_mask_of_windows_become_one),
    cmocka_unit_test(heads_split_and_joined_vanish),
    cmocka_unit_test(heads_in_front_stay),
    cmocka_unit_test(what_is_seen_elsewhere_stays),
    cmocka_unit_test(a_quantized_result_keeps_its_codes),
};
QB_TEST_MAIN(tests)

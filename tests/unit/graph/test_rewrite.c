/* The index of makers and readers that passes see while they rewrite. */
#include <stdio.h>

#include "build_graph.h"
#include "graph/rewrite_internal.h"

/* x -> Relu a -> Add b(a, a) -> Neg y, and Exp e(a) that nobody reads. */
static void setup(maker *m, qb_rewrite *rw) {
    maker_init(m, 1);
    const int32_t a = NODE(m, "Relu", "a", make_input(m, "x", DIMS(2, 3)));
    const int32_t b = NODE(m, "Add", "b", a, a);
    make_output(m, NODE(m, "Neg", "y", b));
    NODE(m, "Exp", "e", a);
    *rw = (qb_rewrite){.cx = &m->cx, .graph = m->graph};
    assert_ok(&m->cx, qb_rewrite_refresh(rw));
}

static int32_t value(const maker *m, const char *name) {
    return qb_graph_find_value(m->graph, name);
}

static void edits_are_entered(void **state) {
    (void)state;
    maker m;
    qb_rewrite rw;
    setup(&m, &rw);
    const int32_t a = value(&m, "a"), x = value(&m, "x"), b = value(&m, "b"), e = value(&m, "e");
    assert_int_equal(rw.uses.n_users[a], 3); /* one per use */
    qb_rewrite_replace_uses(&rw, a, x);
    assert_int_equal(rw.uses.n_users[a], 3); /* what a match sees stays until it is done */
    assert_ok(&m.cx, qb_rewrite_check(&rw));
    assert_int_equal(rw.uses.n_users[a], 0);
    assert_int_equal(rw.uses.n_users[x], 4);
    qb_rewrite_kill(&rw, rw.uses.producer[e]);
    assert_ok(&m.cx, qb_rewrite_append(&rw, qb_op_find("Tanh", ""), &b, 1, e));
    qb_rewrite_replace_uses(&rw, b, a); /* also in the node that was appended just now */
    assert_int_equal(m.graph->nodes[m.graph->n_nodes - 1].in[0], a);
    assert_ok(&m.cx, qb_rewrite_check(&rw));
    assert_int_equal(rw.uses.producer[e], m.graph->n_nodes - 1);
    assert_int_equal(rw.uses.n_users[b], 0);
    qb_rewrite_release(&rw);
    maker_release(&m);
}

static void a_change_that_nobody_told_of_shows(void **state) {
    (void)state;
    maker m;
    qb_rewrite rw;
    setup(&m, &rw);
    const int32_t neg = rw.uses.producer[value(&m, "y")];
    m.graph->nodes[neg].in[0] = value(&m, "a");
    assert_fails(&m.cx, qb_rewrite_check(&rw), QB_STATUS_INTERNAL);
    qb_ctx_clear(&m.cx);
    qb_rewrite_touch(&rw, neg);
    assert_ok(&m.cx, qb_rewrite_check(&rw));
    qb_rewrite_release(&rw);
    maker_release(&m);
}

static void names_of_appended_nodes_are_new(void **state) {
    (void)state;
    maker m;
    qb_rewrite rw;
    setup(&m, &rw);
    const int32_t a = value(&m, "a");
    for (int i = 0; i < 2; i++) {
        const int32_t out = qb_graph_add_value(&m.cx, m.graph, "t", QB_DTYPE_F32, NULL);
        assert_ok(&m.cx, qb_graph_rename(&m.cx, m.graph, out, "t"));
        assert_ok(&m.cx, qb_rewrite_append(&rw, qb_op_find("Tanh", ""), &a, 1, out));
    }
    assert_string_equal(m.graph->nodes[m.graph->n_nodes - 2].name, "t_Tanh");
    assert_string_equal(m.graph->nodes[m.graph->n_nodes - 1].name, "t_Tanh_1");
    qb_rewrite_release(&rw);
    maker_release(&m);
}

/* N x Identity(x) -> one Concat, which each rewrite touches. */
static void a_wide_node_is_entered_by_its_changes(void **state) {
    (void)state;
    enum { N = 2000 };
    maker m;
    maker_init(&m, 1);
    const int32_t x = make_input(&m, "x", DIMS(1, 3));
    int32_t copy[N];
    char name[16];
    for (int32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "i%d", (int)i);
        copy[i] = qb_graph_add_value(&m.cx, m.graph, name, QB_DTYPE_F32, NULL);
        qb_graph_add_node(&m.cx, m.graph, qb_op_find("Identity", ""), "", &x, 1, &copy[i], 1);
    }
    const int32_t y = qb_graph_add_value(&m.cx, m.graph, "y", QB_DTYPE_F32, NULL);
    const int32_t wide =
        qb_graph_add_node(&m.cx, m.graph, qb_op_find("Concat", ""), "", copy, N, &y, 1);
    make_output(&m, y);
    qb_rewrite rw = {.cx = &m.cx, .graph = m.graph};
    assert_ok(&m.cx, qb_rewrite_refresh(&rw));
    const size_t entered = qb_arena_bytes(rw.index.arena);
    for (int32_t i = 0; i < N; i++) {
        assert_true(qb_rewrite_forward(&rw, copy[i], x));
        qb_rewrite_kill(&rw, i);
        assert_ok(&m.cx, qb_rewrite_refresh(&rw));
        assert_int_equal(rw.uses.n_users[x], N);
        assert_int_equal(rw.uses.users[x][N - 1], wide);
    }
    assert_true(qb_arena_bytes(rw.index.arena) - entered <= 4 * N * sizeof(int32_t));
    assert_ok(&m.cx, qb_rewrite_check(&rw));
    qb_rewrite_release(&rw);
    maker_release(&m);
}

/* A node with ever more inputs takes no new room for each number of them. */
static void a_growing_node_is_entered(void **state) {
    (void)state;
    enum { N = 500 };
    maker m;
    qb_rewrite rw;
    setup(&m, &rw);
    const int32_t a = value(&m, "a"), x = value(&m, "x"), neg = rw.uses.producer[value(&m, "y")];
    int32_t in[N];
    const size_t entered = qb_arena_bytes(rw.index.arena);
    for (int32_t n = 1; n < N; n++) {
        for (int32_t i = 0; i < n; i++) in[i] = i % 2 ? a : x;
        assert_ok(&m.cx, qb_rewrite_inputs(&rw, neg, in, n));
        assert_ok(&m.cx, qb_rewrite_check(&rw));
    }
    assert_true(qb_arena_bytes(rw.index.arena) - entered <= 8 * N * sizeof(int32_t));
    assert_ok(&m.cx, qb_rewrite_inputs(&rw, neg, in, 1));
    assert_ok(&m.cx, qb_rewrite_check(&rw));
    qb_rewrite_release(&rw);
    maker_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_are_entered),
        cmocka_unit_test(a_change_that_nobody_told_of_shows),
        cmocka_unit_test(a_wide_node_is_entered_by_its_changes),
        cmocka_unit_test(a_growing_node_is_entered),
        cmocka_unit_test(names_of_appended_nodes_are_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

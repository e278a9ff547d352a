/* The index of makers and readers that passes see while they rewrite. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_are_entered),
        cmocka_unit_test(a_change_that_nobody_told_of_shows),
        cmocka_unit_test(names_of_appended_nodes_are_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

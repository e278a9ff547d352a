/* The graph in memory: names, copies, order, checks, text. */
#include <stdlib.h>
#include <string.h>

#include "build_graph.h"
#include "onnx_bytes.h"

static int32_t add(maker *m, const char *name) {
    qb_shape shape = qb_shape_of(1, 2);
    int32_t id = qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_F32, &shape);
    assert_true(id >= 0);
    return id;
}

static const char *name_of(const maker *m, int32_t id) { return m->graph->values[id].name; }

static void names_are_made_unique(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    assert_string_equal(name_of(&m, add(&m, "x")), "x");
    assert_string_equal(name_of(&m, add(&m, "x")), "x_1");
    assert_string_equal(name_of(&m, add(&m, "x")), "x_2");
    assert_string_equal(name_of(&m, add(&m, "")), "value");
    assert_int_equal(qb_graph_find_value(m.graph, "x_2"), 2);
    assert_int_equal(qb_graph_find_value(m.graph, "y"), -1);
    for (int i = 0; i < 20000; i++) add(&m, "x"); /* must not take quadratic time */
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    maker_release(&m);
}

static void renaming_takes_the_name_from_its_holder(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t a = add(&m, "a"), b = add(&m, "b");
    assert_ok(&m.cx, qb_graph_rename(&m.cx, m.graph, a, "b"));
    assert_string_equal(name_of(&m, a), "b");
    assert_string_equal(name_of(&m, b), "b_1");
    assert_int_equal(qb_graph_find_value(m.graph, "a"), -1);
    assert_int_equal(qb_graph_find_value(m.graph, "b"), a);
    assert_int_equal(qb_graph_find_value(m.graph, "b_1"), b);
    assert_ok(&m.cx, qb_graph_rename(&m.cx, m.graph, b, "a"));
    assert_ok(&m.cx, qb_graph_rename(&m.cx, m.graph, a, "b")); /* its own: nothing happens */
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    maker_release(&m);
}

/* x -> Conv -> Relu -> Add(x2) -> y, with a quantized weight and a symbol. */
static void make_net(maker *m) {
    maker_init(m, 1);
    int32_t x = make_input(m, "x", DIMS(-1, 1, 4, 4));
    int32_t w = make_random(m, "w", DIMS(1, 1, 3, 3));
    int32_t c = NODE(m, "Conv", "c", x, w);
    SET_INTS(m, "pads", 1, 1, 1, 1);
    int32_t r = NODE(m, "Relu", "r", c);
    make_output(m, NODE(m, "Add", "y", r, x));
}

static void a_clone_shares_nothing_and_reads_the_same(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    add(&m, "dead");
    make_quantized(&m, qb_graph_find_value(m.graph, "r"), 0.5f, 3);
    qb_graph *copy = NULL;
    assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &copy));
    assert_int_equal(copy->n_values, m.graph->n_values - 1);
    char *before = ob_text_of(&m.cx, m.graph);
    qb_graph_free(m.graph); /* an address checker sees what the copy still points to */
    m.graph = NULL;
    char *after = ob_text_of(&m.cx, copy);
    assert_string_equal(after, before);
    assert_ok(&m.cx, qb_graph_verify(&m.cx, copy));
    qb_free(before);
    qb_free(after);
    m.graph = copy;
    maker_release(&m);
}

static qb_status clone_body(qb_ctx *cx, void *user) {
    qb_graph *copy = NULL;
    char *text = NULL;
    QB_TRY(qb_graph_clone(cx, user, &copy));
    qb_status status = qb_graph_sort(cx, copy);
    if (status == QB_OK) status = qb_graph_infer(cx, copy);
    if (status == QB_OK) status = qb_graph_sweep(cx, copy);
    if (status == QB_OK) status = qb_graph_text(cx, copy, &text);
    qb_free(text);
    qb_graph_free(copy);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    make_quantized(&m, qb_graph_find_value(m.graph, "r"), 0.5f, 3);
    assert_true(qb_test_alloc_sweep(clone_body, m.graph) > 20);
    maker_release(&m);
}

static void sweeping_drops_dead_nodes_and_values(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    int32_t x = qb_graph_find_value(m.graph, "x"), r = qb_graph_find_value(m.graph, "r");
    for (int32_t i = 0; i < m.graph->n_nodes; i++)
        if (strcmp(m.graph->nodes[i].op->name, "Add")) qb_graph_kill_node(m.graph, i);
    qb_graph_replace_uses(m.graph, r, x);
    assert_ok(&m.cx, qb_graph_sweep(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    assert_int_equal(m.graph->n_nodes, 1);
    assert_int_equal(m.graph->n_values, 2);
    assert_int_equal(qb_graph_find_value(m.graph, "w"), -1);
    char *text = ob_text_of(&m.cx, m.graph);
    assert_string_equal(text, "graph main\ninput x: f32[N,1,4,4]\n"
                              "Add 'y' (x, x) -> y: f32[N,1,4,4]\noutput y\n");
    qb_free(text);
    maker_release(&m);
}

static void replacing_uses_reaches_outputs(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    int32_t y = qb_graph_find_value(m.graph, "y"), r = qb_graph_find_value(m.graph, "r");
    qb_graph_replace_uses(m.graph, y, r);
    assert_int_equal(m.graph->outputs[0], r);
    assert_true(qb_graph_is_output(m.graph, r));
    assert_false(qb_graph_is_output(m.graph, y));
    maker_release(&m);
}

/* --- order
 * ----------------------------------------------------------------------------------------- */

static void swap_nodes(maker *m, int32_t a, int32_t b) {
    qb_node node = m->graph->nodes[a];
    m->graph->nodes[a] = m->graph->nodes[b];
    m->graph->nodes[b] = node;
}

static void sorting_restores_the_order(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    char *before = ob_text_of(&m.cx, m.graph);
    assert_ok(&m.cx, qb_graph_sort(&m.cx, m.graph));
    char *same = ob_text_of(&m.cx, m.graph);
    assert_string_equal(same, before); /* stable */
    swap_nodes(&m, 0, 2);
    assert_fails(&m.cx, qb_graph_verify(&m.cx, m.graph), QB_STATUS_INTERNAL);
    assert_message(&m.cx, "used before it is made");
    qb_ctx_clear(&m.cx);
    assert_ok(&m.cx, qb_graph_sort(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    char *after = ob_text_of(&m.cx, m.graph);
    assert_string_equal(after, before);
    qb_free(before);
    qb_free(same);
    qb_free(after);
    maker_release(&m);
}

static void a_cycle_is_named(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    m.graph->nodes[0].in[0] = qb_graph_find_value(m.graph, "r"); /* Conv reads Relu's output */
    assert_fails(&m.cx, qb_graph_sort(&m.cx, m.graph), QB_STATUS_FORMAT);
    assert_message(&m.cx, "cycle");
    assert_message(&m.cx, "Conv");
    assert_message(&m.cx, "Relu");
    assert_null(strstr(m.cx.message, "Add"));
    maker_release(&m);
}

/* A long chain in reverse order: the sort must not recurse. */
static void deep_graphs_are_sorted(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    maker m;
    maker_init(&m, 1);
    const qb_op *relu = qb_op_find("Relu", "");
    qb_shape shape = qb_shape_of(1, 1);
    int32_t last = make_input(&m, "x", DIMS(1)), first = last;
    int32_t *ids = malloc((DEPTH + 1) * sizeof *ids);
    assert_non_null(ids);
    ids[0] = first;
    for (int i = 1; i <= DEPTH; i++)
        ids[i] = qb_graph_add_value(&m.cx, m.graph, "v", QB_DTYPE_F32, &shape);
    for (int i = DEPTH; i > 0; i--)
        assert_true(qb_graph_add_node(&m.cx, m.graph, relu, "", &ids[i - 1], 1, &ids[i], 1) >= 0);
    assert_ok(&m.cx, qb_graph_add_output(&m.cx, m.graph, ids[DEPTH]));
    assert_ok(&m.cx, qb_graph_sort(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    free(ids);
    maker_release(&m);
}

static void uses_list_producer_and_each_reader(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "x", DIMS(2));
    int32_t a = NODE(&m, "Add", "a", x, x), y = NODE(&m, "Relu", "y", a);
    make_output(&m, y);
    qb_uses uses;
    assert_ok(&m.cx, qb_uses_build(&m.cx, m.graph, &uses));
    assert_int_equal(uses.producer[x], -1);
    assert_int_equal(uses.producer[y], 1);
    assert_int_equal(uses.n_users[x], 2);
    assert_int_equal(uses.users[x][0], 0);
    assert_int_equal(uses.users[x][1], 0);
    assert_int_equal(uses.n_users[a], 1);
    assert_int_equal(uses.n_users[y], 0); /* outputs are not counted */
    qb_uses_release(&uses);
    maker_release(&m);
}

/* --- verify
 * ---------------------------------------------------------------------------------------- */

typedef void breaker(qb_graph *graph);

static void break_producer(qb_graph *g) { g->nodes[2].out[0] = g->nodes[1].out[0]; }
static void break_id(qb_graph *g) { g->nodes[2].in[0] = g->n_values; }
static void break_arity(qb_graph *g) { g->nodes[1].n_in = 0; }
static void break_name(qb_graph *g) { g->values[1].name = g->values[0].name; }
static void break_output(qb_graph *g) { g->outputs[0] = -1; }
static void break_flag(qb_graph *g) { g->values[g->outputs[0]].is_output = false; }
static void break_size(qb_graph *g) { g->values[1].bytes--; }
static void break_input(qb_graph *g) { g->nodes[0].in[0] = -1; }
static void break_symbol(qb_graph *g) { g->values[0].shape.dim[0] = -100; }
static void break_constant(qb_graph *g) { g->inputs[0] = qb_graph_find_value(g, "w"); }

static void verify_finds_each_kind_of_damage(void **state) {
    (void)state;
    breaker *const breakers[] = {break_producer, break_id,      break_arity, break_name,
                                 break_output,   break_flag,    break_size,  break_input,
                                 break_symbol,   break_constant};
    for (size_t i = 0; i < sizeof breakers / sizeof *breakers; i++) {
        maker m;
        make_net(&m);
        assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
        breakers[i](m.graph);
        assert_fails(&m.cx, qb_graph_verify(&m.cx, m.graph), QB_STATUS_INTERNAL);
        maker_release(&m);
    }
}

static void verify_checks_quantization(void **state) {
    (void)state;
    float scale[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    int32_t zero[4] = {0};
    qb_qparams good = {QB_DTYPE_U8, 1, 4, scale, zero}, q[6];
    for (int i = 0; i < 6; i++) q[i] = good;
    const float negative[4] = {0.5f, -0.5f, 0.5f, 0.5f};
    const int32_t large[4] = {0, 256, 0, 0};
    q[0].n = 3;
    q[1].axis = 2;
    q[2].axis = -1;
    q[3].scale = negative;
    q[4].zero = large;
    q[5].dtype = QB_DTYPE_S8; /* not the type in memory */
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "x", DIMS(2, 4));
    make_output(&m, NODE(&m, "Relu", "y", x));
    qb_value *value = &m.graph->values[x];
    value->dtype = QB_DTYPE_U8;
    value->q = good;
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    for (int i = 0; i < 6; i++) {
        value->q = q[i];
        assert_fails(&m.cx, qb_graph_verify(&m.cx, m.graph), QB_STATUS_INTERNAL);
    }
    maker_release(&m);
}

/* --- infer and text
 * --------------------------------------------------------------------------------- */

static void quantized_values_infer_as_floats_and_stay_integers(void **state) {
    (void)state;
    maker m;
    make_net(&m);
    make_quantized(&m, qb_graph_find_value(m.graph, "x"), 0.5f, 0);
    make_quantized(&m, qb_graph_find_value(m.graph, "r"), 0.5f, 0);
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_graph_verify(&m.cx, m.graph));
    assert_int_equal(value_of(&m, qb_graph_find_value(m.graph, "x"))->dtype, QB_DTYPE_U8);
    assert_int_equal(value_of(&m, qb_graph_find_value(m.graph, "c"))->dtype, QB_DTYPE_F32);
    assert_int_equal(value_of(&m, qb_graph_find_value(m.graph, "y"))->dtype, QB_DTYPE_F32);
    maker_release(&m);
}

/* A Reshape to sizes of which not even the number is known. */
static void an_output_keeps_the_rank_that_the_file_gave_it(void **state) {
    (void)state;
    const qb_shape open = {.rank = 1, .dim = {-1}}, given = qb_shape_of(2, 3, 4);
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "x", DIMS(-1, 4));
    int32_t sizes = qb_graph_add_value(&m.cx, m.graph, "sizes", QB_DTYPE_S64, &open);
    assert_ok(&m.cx, qb_graph_add_input(&m.cx, m.graph, sizes));
    int32_t y = NODE(&m, "Reshape", "y", x, sizes), z = NODE(&m, "Expand", "z", x, sizes);
    make_output(&m, y);
    make_output(&m, z);
    m.graph->values[y].shape = given;
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_int_equal(value_of(&m, y)->shape.rank, 2);
    assert_int_equal(value_of(&m, y)->shape.dim[0], -1); /* what 3 was made from may have changed */
    assert_int_equal(value_of(&m, z)->shape.rank, -1);
    m.graph->values[sizes].shape.dim[0] = 3;
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_int_equal(value_of(&m, y)->shape.rank, 3);
    assert_int_equal(value_of(&m, z)->shape.rank, 3); /* the number of sizes tells */
    assert_int_equal(value_of(&m, z)->shape.dim[2], 4);
    maker_release(&m);
}

static void text_escapes_odd_names(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    int32_t x = make_input(&m, "a \"b\"\n", DIMS(2));
    make_output(&m, NODE(&m, "Relu", "y,z", x));
    char *text = ob_text_of(&m.cx, m.graph);
    assert_string_equal(text, "graph main\ninput \"a \\x22b\\x22\\x0a\": f32[2]\n"
                              "Relu '\"y,z\"' (\"a \\x22b\\x22\\x0a\") -> \"y,z\": f32[2]\n"
                              "output \"y,z\"\n");
    qb_free(text);
    maker_release(&m);
}

static void text_tells_large_constants_apart(void **state) {
    (void)state;
    char *texts[2];
    for (int i = 0; i < 2; i++) {
        maker m;
        maker_init(&m, (uint64_t)i);
        int32_t x = make_input(&m, "x", DIMS(100));
        make_output(&m, NODE(&m, "Add", "y", x, make_random(&m, "w", DIMS(100))));
        texts[i] = ob_text_of(&m.cx, m.graph);
        assert_non_null(strstr(texts[i], "const w: f32[100] #"));
        maker_release(&m);
    }
    assert_string_not_equal(texts[0], texts[1]);
    qb_free(texts[0]);
    qb_free(texts[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_made_unique),
        cmocka_unit_test(renaming_takes_the_name_from_its_holder),
        cmocka_unit_test(a_clone_shares_nothing_and_reads_the_same),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(sweeping_drops_dead_nodes_and_values),
        cmocka_unit_test(replacing_uses_reaches_outputs),
        cmocka_unit_test(sorting_restores_the_order),
        cmocka_unit_test(a_cycle_is_named),
        cmocka_unit_test(deep_graphs_are_sorted),
        cmocka_unit_test(uses_list_producer_and_each_reader),
        cmocka_unit_test(verify_finds_each_kind_of_damage),
        cmocka_unit_test(verify_checks_quantization),
        cmocka_unit_test(quantized_values_infer_as_floats_and_stay_integers),
        cmocka_unit_test(an_output_keeps_the_rank_that_the_file_gave_it),
        cmocka_unit_test(text_escapes_odd_names),
        cmocka_unit_test(text_tells_large_constants_apart),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

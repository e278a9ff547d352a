/* Nodes whose sizes come with the data: which of them are a group. */
#include "graph/late_groups.h"

#include <math.h>
#include <string.h>

#include "build_graph.h"
#include "graph/dequantize.h"
#include "graph/evaluate.h"

static qb_late_groups *find(maker *m) {
    qb_late_groups *found;
    assert_ok(&m->cx, qb_graph_sweep(&m->cx, m->graph));
    assert_ok(&m->cx, qb_late_groups_find(&m->cx, m->graph, &found));
    return found;
}

/* The step that runs the node which writes the value of this name. */
static int32_t step_of(const maker *m, const qb_late_groups *found, const char *value) {
    const int32_t node = (int32_t)(node_writing(m, value) - m->graph->nodes);
    int32_t step = -1;
    for (int32_t s = 0; s < found->n_steps; s++) {
        const qb_late_step *it = &found->step[s];
        const qb_late_group *group = it->group >= 0 ? &found->group[it->group] : NULL;
        bool here = it->node == node;
        for (int32_t i = 0; group && i < group->n_nodes; i++) here = here || group->node[i] == node;
        if (!here) continue;
        assert_int_equal(step, -1); /* once */
        step = s;
    }
    assert_true(step >= 0);
    return step;
}

static bool is_late(const maker *m, const qb_late_groups *found, const char *value) {
    return found->step[step_of(m, found, value)].node >= 0;
}

/* Each node runs once, and behind what it reads; what it reads of other steps they give. */
static void check_order(const maker *m, const qb_late_groups *found) {
    const qb_graph *graph = m->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        const int32_t step = step_of(m, found, graph->values[node->out[0]].name);
        for (int32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0 || graph->values[node->in[k]].data ||
                qb_graph_is_input(graph, node->in[k]))
                continue;
            const int32_t from = step_of(m, found, graph->values[node->in[k]].name);
            assert_true(from <= step);
            const int32_t giver = found->step[from].group;
            bool given = from == step || giver < 0;
            for (int32_t o = 0; !given && o < found->group[giver].n_out; o++)
                given = found->group[giver].out[o] == node->in[k];
            assert_true(given);
        }
    }
}

static int32_t compress(maker *m, const char *name, int32_t x, int32_t condition) {
    return NODE(m, "Compress", name, x, condition);
}

static void groups_depend_on_the_same_sizes(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 1);
    const int32_t x = make_input(&m, "x", DIMS(12)), zero = make_scalar(&m, "zero", 0);
    const int32_t high = compress(&m, "high", x, NODE(&m, "Greater", "is_high", x, zero));
    const int32_t low = compress(&m, "low", x, NODE(&m, "Less", "is_low", x, zero));
    const int32_t a = NODE(&m, "Neg", "a", NODE(&m, "Relu", "r", high));
    const int32_t b = NODE(&m, "Exp", "b", low);
    const int32_t both = NODE(&m, "Concat", "both", a, b);
    set_int(&m, "axis", 0);
    const int32_t n = NODE(&m, "Neg", "n", both);
    make_output(&m, NODE(&m, "Abs", "y", n));
    const int32_t turned = NODE(&m, "Concat", "turned", b, a);
    set_int(&m, "axis", 0);
    make_output(&m, NODE(&m, "Add", "sum_of_both", n, turned));
    /* sizes of one in the group of both */
    const int32_t sizes = NODE(&m, "Shape", "sizes", a);
    make_output(&m, NODE(&m, "Expand", "wide", NODE(&m, "ReduceSum", "sum", b), sizes));
    qb_late_groups *found = find(&m);
    check_order(&m, found);
    assert_true(is_late(&m, found, "high") && is_late(&m, found, "low"));
    assert_int_equal(step_of(&m, found, "a"), step_of(&m, found, "r"));
    assert_int_equal(step_of(&m, found, "a"), step_of(&m, found, "sizes"));
    assert_int_not_equal(step_of(&m, found, "a"), step_of(&m, found, "b"));
    assert_int_not_equal(step_of(&m, found, "both"), step_of(&m, found, "y")); /* may be empty */
    assert_int_equal(step_of(&m, found, "n"), step_of(&m, found, "y"));
    assert_int_equal(step_of(&m, found, "n"), step_of(&m, found, "sum_of_both"));
    const qb_late_group *wide = &found->group[found->step[step_of(&m, found, "wide")].group];
    assert_int_equal(wide->n_nodes, 1);
    assert_int_equal(wide->n_with, 1);
    assert_ptr_equal(&m.graph->nodes[wide->with[0]], node_writing(&m, "sizes"));
    qb_late_groups_free(found);
    maker_release(&m);
}

/* Four parts of twelve rows, as many as the data say: together they are twelve again. */
static void parts_add_up_to_the_whole(void **state) {
    (void)state;
    enum { PARTS = 4 };
    maker m;
    maker_init(&m, 2);
    const int32_t x = make_input(&m, "x", DIMS(12, 3)), c = make_input(&m, "c", DIMS(PARTS));
    const int32_t counts = NODE(&m, "Cast", "counts", c);
    set_int(&m, "to", 7);
    const qb_shape open = {.rank = -1};
    int32_t part[PARTS], piece[PARTS];
    char name[32];
    for (int i = 0; i < PARTS; i++) {
        snprintf(name, sizeof name, "part%d", i);
        part[i] = qb_graph_add_value(&m.cx, m.graph, name, QB_DTYPE_NONE, &open);
    }
    assert_true(qb_graph_add_node(&m.cx, m.graph, qb_op_find("Split", ""), "split",
                                  (int32_t[]){x, counts}, 2, part, PARTS) >= 0);
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    for (int i = 0; i < PARTS; i++) {
        snprintf(name, sizeof name, "piece%d", i);
        piece[i] = NODE(&m, "Relu", name, part[i]);
    }
    const int32_t all = make_node(&m, "Concat", "all", PARTS, piece);
    set_int(&m, "axis", 0);
    make_output(&m, NODE(&m, "Neg", "y", NODE(&m, "Add", "sum", all, x)));
    qb_late_groups *found = find(&m);
    check_order(&m, found);
    assert_true(is_late(&m, found, "part0"));
    for (int i = 0; i < PARTS; i++) {
        snprintf(name, sizeof name, "piece%d", i);
        assert_int_equal(found->group[found->step[step_of(&m, found, name)].group].n_nodes, 1);
    }
    assert_false(is_late(&m, found, "sum"));
    assert_int_equal(step_of(&m, found, "sum"), step_of(&m, found, "y"));
    qb_late_groups_free(found);
    maker_release(&m);
}

/* Each of a chain depends on all before it. */
static void too_many_sizes_are_not_told_apart(void **state) {
    (void)state;
    enum { FEW = 50, MANY = 3000 };
    for (int length = FEW; length <= MANY; length += MANY - FEW) {
        maker m;
        maker_init(&m, 3);
        int32_t x = make_input(&m, "x", DIMS(4));
        const qb_shape open = {.rank = -1};
        const qb_op *greater = qb_op_find("Greater", ""), *pick = qb_op_find("Compress", "");
        const int32_t zero = make_scalar(&m, "zero", 0);
        for (int i = 0; i < length; i++) {
            const int32_t mask = qb_graph_add_value(&m.cx, m.graph, "m", QB_DTYPE_NONE, &open);
            const int32_t kept = qb_graph_add_value(&m.cx, m.graph, "k", QB_DTYPE_NONE, &open);
            qb_graph_add_node(&m.cx, m.graph, greater, "", (int32_t[]){x, zero}, 2, &mask, 1);
            qb_graph_add_node(&m.cx, m.graph, pick, "", (int32_t[]){x, mask}, 2, &kept, 1);
            x = kept;
        }
        make_output(&m, x);
        assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
        qb_late_groups *found = find(&m);
        assert_int_equal(found->n_steps, 2 * length);
        assert_int_equal(found->n_groups, length == FEW ? FEW : 0);
        qb_late_groups_free(found);
        maker_release(&m);
    }
}

/* What moves numbers leaves them as they are; others' results are rounded and clamped. */
static void results_are_rounded(void **state) {
    (void)state;
    const float given[2][3] = {{0.5F, -3, 1.25F}, {0.13F, 200, NAN}};
    const float rounded[6] = {0.5F, -3, 1.25F, 0.25F, 31.75F, 0};
    for (int same = 0; same < 2; same++) {
        maker m;
        qb_graph *floats;
        float got[6];
        maker_init(&m, 4);
        const int32_t a = make_input(&m, "a", DIMS(3)), b = make_input(&m, "b", DIMS(3));
        const int32_t both = NODE(&m, "Concat", "both", a, b);
        set_int(&m, "axis", 0);
        make_output(&m, both);
        make_quantized(&m, a, 0.25F, 128);
        make_quantized(&m, both, 0.25F, 128);
        if (same) make_quantized(&m, b, 0.25F, 128);
        assert_ok(&m.cx, qb_graph_dequantize(&m.cx, m.graph, &floats));
        for (int i = 0; i < 2; i++) {
            const qb_shape three = DIMS(3);
            const qb_tensor t = qb_tensor_of(QB_DTYPE_F32, three, (void *)(uintptr_t)given[i]);
            assert_ok(&m.cx, qb_graph_fix(&m.cx, floats, floats->inputs[i], &t));
        }
        assert_ok(&m.cx, qb_graph_evaluate_node(&m.cx, floats, 0, SIZE_MAX, NULL));
        qb_node_round(m.graph, 0, floats);
        memcpy(got, floats->values[floats->outputs[0]].data, sizeof got);
        assert_memory_equal(got, same ? given[0] : rounded, sizeof given[0]);
        assert_memory_equal(got + 3, same ? given[1] : rounded + 3, sizeof given[1]);
        qb_graph_free(floats);
        maker_release(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(groups_depend_on_the_same_sizes),
    cmocka_unit_test(parts_add_up_to_the_whole),
    cmocka_unit_test(too_many_sizes_are_not_told_apart),
    cmocka_unit_test(results_are_rounded),
};

QB_TEST_MAIN(tests)

/* Which value of a model is scored. */
#include <string.h>

#include "eval/eval.h"
#include "graph/op.h"
#include "qb_test.h"

static int32_t add(qb_ctx *cx, qb_graph *graph, const char *op, const char *out, int32_t in) {
    int32_t value = qb_graph_add_value(cx, graph, out, QB_DTYPE_NONE, NULL);
    assert_true(value >= 0);
    assert_true(qb_graph_add_node(cx, graph, qb_op_find(op, ""), out, &in, 1, &value, 1) >= 0);
    return value;
}

/* x, Relu, then the operators of `ops` in a chain of which the last writes the output. */
static qb_graph *chain(qb_ctx *cx, const char *const *ops) {
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    const qb_shape shape = {.rank = 2, .dim = {1, 5}};
    int32_t value = qb_graph_add_value(cx, graph, "x", QB_DTYPE_F32, &shape);
    assert_ok(cx, qb_graph_add_input(cx, graph, value));
    value = add(cx, graph, "Relu", "relu", value);
    for (; *ops; ops++) value = add(cx, graph, *ops, *ops, value);
    assert_ok(cx, qb_graph_add_output(cx, graph, value));
    assert_ok(cx, qb_graph_infer(cx, graph));
    return graph;
}

static void expect(const char *const *ops, const char *scored) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = chain(&cx, ops), *out;
    int32_t logits;
    assert_ok(&cx, qb_expose_logits(&cx, graph, &out, &logits));
    assert_string_equal(out->values[out->outputs[logits]].name, scored);
    assert_string_equal(out->values[out->outputs[0]].name,
                        graph->values[graph->outputs[0]].name); /* the model's own stays */
    qb_graph_free(out);
    assert_ok(&cx, qb_expose_output(&cx, graph, &out, &logits));
    assert_int_equal(logits, 0);
    qb_graph_free(out);
    qb_graph_free(graph);
}

static void the_value_before_a_final_softmax_or_argmax_is_scored(void **state) {
    (void)state;
    expect((const char *[]){"Sigmoid", NULL}, "Sigmoid");
    expect((const char *[]){"Softmax", NULL}, "relu");
    expect((const char *[]){"Sigmoid", "ArgMax", NULL}, "Sigmoid");
    expect((const char *[]){"ArgMax", "Flatten", NULL}, "relu");
    expect((const char *[]){"Softmax", "ArgMax", NULL}, "relu");
    expect((const char *[]){"LogSoftmax", "Identity", NULL}, "relu");
    expect((const char *[]){"LogSoftmax", "Sigmoid", NULL}, "Sigmoid"); /* not looked through */
}

/* Of a class and its scores the scores. */
static void a_float_output_goes_before_integers(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = chain(&cx, (const char *[]){"ArgMax", NULL}), *out;
    const int32_t relu = qb_graph_find_value(graph, "relu");
    assert_ok(&cx, qb_graph_add_output(&cx, graph, add(&cx, graph, "Sigmoid", "scores", relu)));
    assert_ok(&cx, qb_graph_infer(&cx, graph));
    int32_t logits;
    assert_ok(&cx, qb_expose_logits(&cx, graph, &out, &logits));
    assert_int_equal(logits, 1);
    assert_int_equal(out->n_outputs, 2);
    qb_graph_free(out);
    qb_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_value_before_a_final_softmax_or_argmax_is_scored),
        cmocka_unit_test(a_float_output_goes_before_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Parts of ONNX files: what is read of them, what is not, and what is said where they cannot be. */
#include <string.h>

#include "onnx_bytes.h"

static const float ones[4] = {1, 1, 1, 1};

/* x -> Foreign -> h -> Relu 'first' -> a -> Add w -> b -> Foreign -> y; the file describes h. */
static void model_bytes(ob *model) {
    ob graph = {0};
    ob_node_in(&graph, "other", "Foreign", "decode", "x", "h", NULL);
    ob_node(&graph, "Relu", "first", "h", "a", NULL);
    ob_node(&graph, "Add", "", "a w", "b", NULL);
    ob_node_in(&graph, "other", "Foreign", "encode", "b v", "y", NULL);
    ob_floats(&graph, "w", "4", 4, ones);
    ob_floats(&graph, "v", "4", 4, ones);
    ob_input(&graph, "x", QB_DTYPE_U8, "N");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob info = {0}, tensor = {0}, type = {0}, shape = {0}, batch = {0}, size = {0};
    ob_text(&info, 1, "h");
    ob_int(&tensor, 1, 1); /* float */
    ob_text(&batch, 2, "batch");
    ob_int(&size, 1, 4);
    ob_message(&shape, 1, &batch);
    ob_message(&shape, 1, &size);
    ob_message(&tensor, 2, &shape);
    ob_message(&type, 1, &tensor);
    ob_message(&info, 2, &type);
    ob_message(&graph, 13, &info); /* value_info */
    ob_model(model, 8, 17, &graph);
    ob_import(model, "other", 1);
}

/* Names separated by blanks. */
static int32_t words(char *text, const char **out) {
    int32_t n = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) out[n++] = word;
    return n;
}

static qb_status parse_part(qb_ctx *cx, const char *inputs, const char *outputs, qb_graph **out) {
    ob model = {0};
    char in[64], last[64];
    const char *in_name[8], *out_name[8];
    snprintf(in, sizeof in, "%s", inputs);
    snprintf(last, sizeof last, "%s", outputs);
    qb_onnx_part part = {.inputs = in_name, .outputs = out_name};
    part.n_inputs = words(in, in_name);
    part.n_outputs = words(last, out_name);
    model_bytes(&model);
    const qb_status status = qb_onnx_parse_part(cx, "m.onnx", model.data, model.size, &part, out);
    ob_free(&model);
    return status;
}

static void assert_part(const char *inputs, const char *outputs, const char *text) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL;
    assert_ok(&cx, parse_part(&cx, inputs, outputs, &graph));
    assert_ok(&cx, qb_graph_verify(&cx, graph));
    char *found = ob_text_of(&cx, graph);
    assert_string_equal(found, text);
    qb_free(found);
    qb_graph_free(graph);
}

static void assert_refused(const char *inputs, const char *outputs, qb_status status,
                           const char *why) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL;
    assert_int_equal(parse_part(&cx, inputs, outputs, &graph), status);
    assert_null(graph);
    if (!strstr(cx.message, why)) fail_msg("'%s' lacks '%s'", cx.message, why);
}

static void outputs_are_no_advice_for_inputs(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = NULL;
    assert_int_equal(parse_part(&cx, "nowhere", "b", &graph), QB_STATUS_NOTFOUND);
    assert_non_null(strstr(cx.message, "inputs: the model has no tensor 'nowhere'"));
    assert_null(strstr(cx.message, "outputs"));
}

static void what_lies_beyond_is_not_read(void **state) {
    (void)state;
    assert_part("h", "b",
                "graph main\ninput h: f32[batch,4]\nRelu 'first' (h) -> a: f32[batch,4]\n"
                "const w: f32[4] (1, 1, 1, 1)\nAdd (a, w) -> b: f32[batch,4]\noutput b\n");
    assert_refused("", "b", QB_STATUS_UNSUPPORTED, "'decode'\n'qbench optimize --outputs");
}

static void outputs_come_as_asked_for(void **state) {
    (void)state;
    assert_part("h", "b h a",
                "graph main\ninput h: f32[batch,4]\nRelu 'first' (h) -> a: f32[batch,4]\n"
                "const w: f32[4] (1, 1, 1, 1)\nAdd (a, w) -> b: f32[batch,4]\noutput b\noutput h\n"
                "output a\n");
    assert_part("", "x", "graph main\ninput x: u8[N]\noutput x\n");
}

/* The file says nothing of `a`: its type comes from what leads to it, which is foreign here. */
static void undescribed_inputs_need_what_is_before_them(void **state) {
    (void)state;
    assert_refused("a", "b", QB_STATUS_UNSUPPORTED, "the type and shape of input 'a': ");
}

static void names_that_are_not_there(void **state) {
    (void)state;
    assert_refused("h", "c", QB_STATUS_NOTFOUND, "outputs: the model has no tensor 'c'");
    assert_refused("h", "first", QB_STATUS_NOTFOUND, "'first': it is a node, which makes 'a'");
    assert_refused("hh", "b", QB_STATUS_NOTFOUND, "inputs: the model has no tensor 'hh'");
    assert_refused("w", "b", QB_STATUS_INVALID, "inputs: 'w' is a constant");
    assert_refused("h", "w", QB_STATUS_INVALID, "outputs: 'w' is a constant");
    assert_refused("", "nowhere", QB_STATUS_NOTFOUND, "'nowhere'; the model's outputs are 'y'");
    assert_refused("h", "b b", QB_STATUS_INVALID, "outputs: 'b' is named twice");
    assert_refused("h h", "b", QB_STATUS_INVALID, "inputs: 'h' is named twice");
}

static void ends_that_do_not_belong_together(void **state) {
    (void)state;
    assert_refused("b", "a", QB_STATUS_INVALID, "inputs: 'b' leads to no output");
    assert_refused("a", "h", QB_STATUS_INVALID, "inputs: 'a' leads to no output");
    assert_refused("b", "a y", QB_STATUS_INVALID, "need the model's input 'x' as well");
}

/* ---- branches by sizes ---- */

static void add_branch(ob *attrs, const char *name, const char *op) {
    ob attr = {0}, graph = {0};
    ob_node(&graph, op, "", "x", "made", NULL);
    ob_output(&graph, "made", QB_DTYPE_F32, NULL);
    ob_text(&attr, 1, name);
    ob_message(&attr, 6, &graph);
    ob_int(&attr, 20, 5); /* a graph */
    ob_message(attrs, 5, &attr);
}

/* x of N x L -> y: Relu where L is 2, else Neg. */
static void branches_bytes(ob *model) {
    static const int64_t one = 1, two = 2;
    ob graph = {0}, attrs = {0};
    ob_node(&graph, "Shape", "", "x", "sizes", NULL);
    ob_node(&graph, "Gather", "", "sizes one", "length", NULL);
    ob_node(&graph, "Equal", "", "length two", "is_two", NULL);
    add_branch(&attrs, "then_branch", "Relu");
    add_branch(&attrs, "else_branch", "Neg");
    ob_node(&graph, "If", "choice", "is_two", "y", &attrs);
    ob_initializer(&graph, "one", QB_DTYPE_S64, "", &one, sizeof one);
    ob_initializer(&graph, "two", QB_DTYPE_S64, "", &two, sizeof two);
    ob_input(&graph, "x", QB_DTYPE_F32, "N,L");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(model, 8, 17, &graph);
}

static qb_status set_length(qb_ctx *cx, qb_graph *graph, const void *user) {
    (void)cx;
    graph->values[graph->inputs[0]].shape.dim[1] = *(const int64_t *)user;
    return QB_OK;
}

static void sizes_that_are_given_choose_branches(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int64_t length = 1; length <= 3; length++) {
        ob model = {0};
        qb_graph *graph = NULL;
        const qb_onnx_part part = {.size_inputs = length > 1 ? set_length : NULL, .user = &length};
        branches_bytes(&model);
        const qb_status status =
            qb_onnx_parse_part(&cx, "m.onnx", model.data, model.size, &part, &graph);
        ob_free(&model);
        assert_ok(&cx, status);
        char *text = ob_text_of(&cx, graph);
        if (length == 1) { /* nothing is given: a run chooses */
            assert_non_null(strstr(text, "If"));
        } else {
            assert_non_null(strstr(text, length == 2 ? "Relu" : "Neg"));
            assert_null(strstr(text, length == 2 ? "Neg" : "Relu"));
        }
        qb_free(text);
        qb_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_beyond_is_not_read),
        cmocka_unit_test(outputs_come_as_asked_for),
        cmocka_unit_test(undescribed_inputs_need_what_is_before_them),
        cmocka_unit_test(names_that_are_not_there),
        cmocka_unit_test(outputs_are_no_advice_for_inputs),
        cmocka_unit_test(ends_that_do_not_belong_together),
        cmocka_unit_test(sizes_that_are_given_choose_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

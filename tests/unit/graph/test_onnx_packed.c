/* Constants of 4 and 2 bits, of which several lie in a byte: each has a byte in memory. */
#include "onnx_bytes.h"

#include <string.h>

enum { UINT4 = 21, INT4 = 22, UINT2 = 25, INT2 = 26, FLOAT8 = 17 };

/* An initializer with its bytes as raw data, or as numbers of int32_data. */
static void initializer(ob *graph, const char *name, int type, int64_t count, bool raw,
                        const uint8_t *data, int n) {
    ob tensor = {0};
    ob_int(&tensor, 1, count);
    ob_int(&tensor, 2, type);
    ob_text(&tensor, 8, name);
    if (raw) ob_bytes(&tensor, 9, data, (size_t)n);
    for (int i = 0; i < n && !raw; i++) ob_int(&tensor, 5, data[i]);
    ob_message(graph, 5, &tensor);
}

static ob graph_of(int type, int64_t count, bool raw, const uint8_t *data, int n) {
    ob graph = {0};
    initializer(&graph, "w", type, count, raw, data, n);
    ob_floats(&graph, "s", "", 1, (const float[]){0.5f});
    ob_node(&graph, "DequantizeLinear", "dq", "w s", "f", NULL);
    ob_node(&graph, "Add", "add", "x f", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "1");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    return graph;
}

static qb_status parse(qb_ctx *cx, ob *graph, qb_graph **out) {
    ob model = {0};
    ob_model(&model, 10, 21, graph);
    return ob_parse(cx, &model, out);
}

static void elements_are_taken_out_of_their_bytes(void **state) {
    (void)state;
    static const uint8_t data[] = {0xe1, 0x7f, 0x08};
    static const struct {
        int type, count, n;
        qb_dtype dtype;
        int8_t expected[10];
    } cases[] = {{UINT4, 5, 3, QB_DTYPE_U8, {1, 14, 15, 7, 8}},
                 {INT4, 5, 3, QB_DTYPE_S8, {1, -2, -1, 7, -8}},
                 {UINT2, 10, 3, QB_DTYPE_U8, {1, 0, 2, 3, 3, 3, 3, 1, 0, 2}},
                 {INT2, 7, 2, QB_DTYPE_S8, {1, 0, -2, -1, -1, -1, -1}}};
    for (int i = 0; i < 8; i++) {
        const size_t k = (size_t)i / 2;
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_graph *g = NULL;
        ob graph = graph_of(cases[k].type, cases[k].count, i % 2, data, cases[k].n);
        assert_ok(&cx, parse(&cx, &graph, &g));
        const qb_value *w = &g->values[qb_graph_find_value(g, "f")]; /* quantized by the DQ */
        assert_int_equal(w->dtype, cases[k].dtype);
        assert_int_equal(w->shape.dim[0], cases[k].count);
        assert_memory_equal(w->data, cases[k].expected, (size_t)cases[k].count);
        qb_graph_free(g);
    }
}

static void the_number_of_bytes_is_checked(void **state) {
    (void)state;
    static const uint8_t data[] = {0, 0, 0};
    for (int raw = 0; raw < 2; raw++)
        for (int n = 2; n <= 3; n++) {
            qb_ctx cx;
            qb_ctx_init(&cx);
            qb_graph *g = NULL;
            ob graph = graph_of(INT4, n == 2 ? 5 : 4, raw, data, n);
            assert_int_equal(parse(&cx, &graph, &g), QB_STATUS_FORMAT);
            assert_message(&cx, n == 2 ? "expected 3 " : "expected 2 ");
        }
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob graph = graph_of(FLOAT8, 3, true, data, 3);
    assert_int_equal(parse(&cx, &graph, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "element type 17 is not supported");
}

/* A zero point says to how many bits a Q rounds. */
static void nothing_rounds_to_fewer_than_8_bits(void **state) {
    (void)state;
    static const uint8_t zero[] = {0};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob graph = {0};
    initializer(&graph, "z", INT4, 1, true, zero, 1);
    ob_floats(&graph, "s", "1", 1, (const float[]){0.5f});
    ob_node(&graph, "QuantizeLinear", "q", "x s z", "c", NULL);
    ob_node(&graph, "DequantizeLinear", "dq", "c s z", "y", NULL);
    ob_input(&graph, "x", QB_DTYPE_F32, "1");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    assert_int_equal(parse(&cx, &graph, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "it rounds to fewer than 8 bits, which constants alone may have");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_taken_out_of_their_bytes),
        cmocka_unit_test(the_number_of_bytes_is_checked),
        cmocka_unit_test(nothing_rounds_to_fewer_than_8_bits),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

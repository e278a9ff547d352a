/* QuantizeLinear and DequantizeLinear: folded on reading, written out on saving. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "graph/op.h"
#include "onnx_bytes.h"

/* Scale and zero-point initializers: "NAME_s" and "NAME_z". */
static void params(ob *graph, const char *name, float scale, qb_dtype dtype, int zero) {
    char text[64];
    uint8_t byte = (uint8_t)zero;
    snprintf(text, sizeof text, "%s_s", name);
    ob_floats(graph, text, "", 1, &scale);
    snprintf(text, sizeof text, "%s_z", name);
    ob_initializer(graph, text, dtype, "", &byte, 1);
}

static void quantize(ob *graph, const char *in, const char *with, const char *out) {
    char inputs[128];
    snprintf(inputs, sizeof inputs, "%s %s_s %s_z", in, with, with);
    ob_node(graph, "QuantizeLinear", "", inputs, out, NULL);
}

static void dequantize(ob *graph, const char *in, const char *with, const char *out) {
    char inputs[128];
    snprintf(inputs, sizeof inputs, "%s %s_s %s_z", in, with, with);
    ob_node(graph, "DequantizeLinear", "", inputs, out, NULL);
}

/* in -> Q -> DQ -> out, through in_q */
static void pair(ob *graph, const char *in, const char *with, const char *out) {
    char code[64];
    snprintf(code, sizeof code, "%s_%s_q", in, out);
    quantize(graph, in, with, code);
    dequantize(graph, code, with, out);
}

/* Reads, compares the text's body with `expected`, and checks the round trip. */
static void check(ob *graph, const char *expected) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob bytes;
    assert_ok(&cx, ob_parse_graph(&cx, graph, &g));
    assert_ok(&cx, qb_graph_verify(&cx, g));
    char *text = ob_text_of(&cx, g);
    assert_string_equal(text, expected);
    ob_round_trip(&cx, g, &bytes);
    ob_free(&bytes);
    qb_free(text);
    qb_graph_free(g);
}

static void pairs_on_activations_become_parameters(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "N,4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 128);
    params(&graph, "b", 0.25f, QB_DTYPE_S8, -3);
    pair(&graph, "x", "a", "xd");
    ob_node(&graph, "Relu", "r", "xd", "m", NULL);
    pair(&graph, "m", "b", "md");
    ob_node(&graph, "Sigmoid", "s", "md", "out", NULL);
    pair(&graph, "out", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,4");
    check(&graph, "graph main\n"
                  "input x: u8[N,4] u8(0.5, 128)\n"
                  "Relu 'r' (x) -> m: s8[N,4] s8(0.25, -3)\n"
                  "Sigmoid 's' (m) -> y: u8[N,4] u8(0.5, 128)\n"
                  "output y\n");
}

static void several_readers_share_one_quantized_value(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    quantize(&graph, "x", "a", "q1");
    quantize(&graph, "x", "a", "q2");
    dequantize(&graph, "q1", "a", "d1");
    dequantize(&graph, "q1", "a", "d2");
    dequantize(&graph, "q2", "a", "d3");
    ob_node(&graph, "Sum", "", "d1 d2 d3", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: u8[4] u8(0.5, 0)\n"
                  "Sum (x, x, x) -> y: f32[4]\n"
                  "output y\n");
}

static void a_value_with_float_readers_keeps_them(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    pair(&graph, "x", "a", "d");
    ob_node(&graph, "Add", "", "d x", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: f32[4]\n"
                  "Identity (x) -> d: u8[4] u8(0.5, 0)\n"
                  "Add (d, x) -> y: f32[4]\n"
                  "output y\n");
}

static void an_output_that_is_also_quantized_stays_float(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    ob_node(&graph, "Relu", "", "x", "m", NULL);
    pair(&graph, "m", "a", "d");
    ob_node(&graph, "Sigmoid", "", "d", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    ob_output(&graph, "m", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: f32[4]\n"
                  "Relu (x) -> m: f32[4]\n"
                  "Identity (m) -> d: u8[4] u8(0.5, 0)\n"
                  "Sigmoid (d) -> y: f32[4]\n"
                  "output y\noutput m\n");
}

static void different_parameters_do_not_mix(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    params(&graph, "b", 0.25f, QB_DTYPE_U8, 0);
    pair(&graph, "x", "a", "d");
    pair(&graph, "x", "b", "e");
    ob_node(&graph, "Add", "", "d e", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: f32[4]\n"
                  "Identity (x) -> d: u8[4] u8(0.5, 0)\n"
                  "Identity (x) -> e: u8[4] u8(0.25, 0)\n"
                  "Add (d, e) -> y: f32[4]\n"
                  "output y\n");
}

static void pairs_in_a_row_requantize(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    params(&graph, "b", 0.25f, QB_DTYPE_U8, 0);
    pair(&graph, "x", "a", "d");
    pair(&graph, "d", "b", "e");
    ob_node(&graph, "Relu", "", "e", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: u8[4] u8(0.5, 0)\n"
                  "Identity (x) -> e: u8[4] u8(0.25, 0)\n"
                  "Relu (e) -> y: f32[4]\n"
                  "output y\n");
}

static void an_input_may_not_become_an_output(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    pair(&graph, "x", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    check(&graph, "graph main\n"
                  "input x: f32[4]\n"
                  "Identity (x) -> y: u8[4] u8(0.5, 0)\n"
                  "output y\n");
}

/* What must stay as nodes: both are there, and nothing carries parameters. */
static void check_stays(ob *graph, int n_nodes) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob bytes;
    assert_ok(&cx, ob_parse_graph(&cx, graph, &g));
    assert_ok(&cx, qb_graph_verify(&cx, g));
    for (int32_t i = 0; i < g->n_values; i++) assert_int_equal(g->values[i].q.n, 0);
    assert_int_equal(g->n_nodes, n_nodes);
    ob_round_trip(&cx, g, &bytes);
    ob_free(&bytes);
    qb_graph_free(g);
}

/* As tools write in operator form: x -> Q -> Flatten -> Transpose -> DQ. */
static void moved_integers_become_moved_floats(void **state) {
    (void)state;
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "2,3");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 7);
    quantize(&graph, "x", "a", "q");
    ob_node(&graph, "Transpose", "t", "q", "m", NULL);
    ob_node(&graph, "Flatten", "f", "m", "n", NULL);
    dequantize(&graph, "m", "a", "md");
    dequantize(&graph, "n", "a", "nd");
    ob_node(&graph, "Sigmoid", "s", "md", "y", NULL);
    ob_node(&graph, "Sigmoid", "u", "nd", "z", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "3,2");
    ob_output(&graph, "z", QB_DTYPE_F32, "3,2");
    check(&graph, "graph main\n"
                  "input x: u8[2,3] u8(0.5, 7)\n"
                  "Transpose 't' (x) -> m_real: u8[3,2] u8(0.5, 7)\n"
                  "Flatten 'f' (m_real) -> n_real: u8[3,2] u8(0.5, 7)\n"
                  "Sigmoid 's' (m_real) -> y: f32[3,2]\n"
                  "Sigmoid 'u' (n_real) -> z: f32[3,2]\n"
                  "output y\n"
                  "output z\n");
}

/* x -> Q -> ArgMax, which wants their order alone, and x -> Q -> Resize between pixels -> DQ. */
static void integers_in_order_and_between_pixels_are_floats(void **state) {
    (void)state;
    const float scales[] = {1, 1, 2, 2};
    ob graph = {0}, attrs = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "1,2,3,4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 7);
    quantize(&graph, "x", "a", "q");
    ob_node(&graph, "ArgMax", "m", "q", "i", NULL);
    ob_floats(&graph, "s", "4", 4, scales);
    ob_attr_text(&attrs, "mode", "linear");
    ob_node(&graph, "Resize", "r", "q - s", "l", &attrs);
    dequantize(&graph, "l", "a", "ld");
    ob_node(&graph, "Sigmoid", "u", "ld", "z", NULL);
    ob_output(&graph, "i", QB_DTYPE_S64, "1,2,3,4");
    ob_output(&graph, "z", QB_DTYPE_F32, "1,2,6,8");
    check(&graph, "graph main\n"
                  "input x: u8[1,2,3,4] u8(0.5, 7)\n"
                  "ArgMax 'm' (x) -> i: s64[1,2,3,4]\n"
                  "const s: f32[4] (1, 1, 2, 2)\n"
                  "Resize 'r' (x, , s) -> l_real: u8[1,2,6,8] u8(0.5, 7) {mode=linear}\n"
                  "Sigmoid 'u' (l_real) -> z: f32[1,2,6,8]\n"
                  "output i\n"
                  "output z\n");
}

/* What reads the integers themselves, and other parameters behind the move, keep it as it is. */
static void integers_that_are_read_as_such_stay(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        ob graph = {0};
        ob_input(&graph, "x", QB_DTYPE_F32, "2,3");
        params(&graph, "a", 0.5f, QB_DTYPE_U8, 7);
        params(&graph, "b", 0.25f, QB_DTYPE_U8, 7);
        quantize(&graph, "x", "a", "q");
        ob_node(&graph, "Transpose", "t", "q", "m", NULL);
        if (other)
            dequantize(&graph, "m", "b", "y");
        else
            ob_node(&graph, "Identity", "i", "m", "y", NULL);
        ob_output(&graph, "y", other ? QB_DTYPE_F32 : QB_DTYPE_U8, "3,2");
        check_stays(&graph, 3);
    }
}

static void what_cannot_be_folded_stays_as_written(void **state) {
    (void)state;
    const float two[] = {0.5f, 0.25f}, bad[] = {0.5f, -1.0f, 0.0f};
    const uint8_t zeros[2] = {0};
    ob graph = {0}, attrs = {0};
    /* several scales on an activation */
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    ob_floats(&graph, "a_s", "2", 2, two);
    ob_initializer(&graph, "a_z", QB_DTYPE_U8, "2", zeros, 2);
    pair(&graph, "x", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    check_stays(&graph, 2);
    /* a scale that is not positive */
    for (int i = 1; i < 3; i++) {
        ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
        params(&graph, "a", bad[i], QB_DTYPE_U8, 0);
        pair(&graph, "x", "a", "y");
        ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
        check_stays(&graph, 2);
    }
    /* a scale that is computed */
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    ob_input(&graph, "a_s", QB_DTYPE_F32, "");
    ob_initializer(&graph, "a_z", QB_DTYPE_U8, "", zeros, 1);
    pair(&graph, "x", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    check_stays(&graph, 2);
    /* the way back has another scale */
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    params(&graph, "b", 0.25f, QB_DTYPE_U8, 0);
    quantize(&graph, "x", "a", "q");
    dequantize(&graph, "q", "b", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    check_stays(&graph, 2);
    /* the integers are an output */
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    quantize(&graph, "x", "a", "q");
    dequantize(&graph, "q", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    ob_output(&graph, "q", QB_DTYPE_U8, "N,2");
    check_stays(&graph, 2);
    /* the integers are an input */
    ob_input(&graph, "q", QB_DTYPE_U8, "N,2");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    dequantize(&graph, "q", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    check_stays(&graph, 1);
    /* another operator reads the integers */
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    quantize(&graph, "x", "a", "q");
    dequantize(&graph, "q", "a", "y");
    ob_attr_int(&attrs, "to", 1);
    ob_node(&graph, "Cast", "", "q", "z", &attrs);
    ob_output(&graph, "y", QB_DTYPE_F32, "N,2");
    ob_output(&graph, "z", QB_DTYPE_F32, "N,2");
    check_stays(&graph, 3);
}

/* The graph as it was read; what was logged in `text`. */
static qb_graph *read_logged(ob *graph, char text[512]) {
    qb_ctx cx;
    qb_log log;
    qb_graph *g = NULL;
    FILE *stream = fmemopen(text, 512, "w");
    assert_non_null(stream);
    qb_ctx_init(&cx);
    qb_log_init(&log, stream, QB_LEVEL_WARN, true);
    cx.log = &log;
    memset(text, 0, 512);
    assert_ok(&cx, ob_parse_graph(&cx, graph, &g));
    fclose(stream);
    return g;
}

/* Reads a graph of one pair with that scale. */
static void log_of_scale(float scale, char text[512]) {
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", scale, QB_DTYPE_U8, 3);
    pair(&graph, "x", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    qb_graph_free(read_logged(&graph, text));
}

static void odd_scales_are_told(void **state) {
    (void)state;
    static const float odd[] = {0, -0.5f, NAN, INFINITY}, good[] = {1e-40f, 0.5f, 3e38f};
    char text[512];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        log_of_scale(odd[i], text);
        assert_non_null(strstr(text, "node 0 QuantizeLinear: scale 0 is "));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        log_of_scale(good[i], text);
        assert_string_equal(text, "");
    }
}

/* A QLinearConv with that scale as its input `in`, and 0.5 otherwise. */
static void product_of_scale(int in, float scale, const char *op, char text[512]) {
    const float half = 0.5f;
    const int8_t w[] = {1, 2, 3, 4};
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_S8, "1,1,2,2");
    ob_initializer(&graph, "w", QB_DTYPE_S8, "1,1,2,2", w, sizeof w);
    ob_initializer(&graph, "z", QB_DTYPE_S8, "", (int8_t[]){0}, 1);
    ob_floats(&graph, "s1", "", 1, in == 1 ? &scale : &half);
    ob_floats(&graph, "s4", "", 1, in == 4 ? &scale : &half);
    ob_floats(&graph, "s6", "", 1, in == 6 ? &scale : &half);
    ob_node(&graph, op, "", "x s1 z w s4 z s6 z", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_S8, NULL);
    qb_graph *g = read_logged(&graph, text);
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->nodes[i].op && strcmp(g->nodes[i].op->name, op) == 0;
    assert_int_equal(n, in > 0);
    qb_graph_free(g);
}

/* 0 times an infinite scale is no 0: such operators keep their sums of integers. */
static void products_with_odd_scales_stay_integers(void **state) {
    (void)state;
    static const char *const ops[] = {"QLinearConv", "QLinearMatMul"};
    static const float odd[] = {INFINITY, 0, NAN};
    static const int inputs[] = {1, 4, 6};
    char text[512];
    for (int k = 0; k < 2; k++) {
        product_of_scale(0, 0, ops[k], text);
        assert_string_equal(text, "");
        for (int i = 0; i < 3; i++) {
            product_of_scale(inputs[i], odd[i], ops[k], text);
            assert_non_null(strstr(text, ops[k]));
            assert_non_null(strstr(text, "scale 0 is "));
        }
    }
}

static void integers_of_32_bits_are_not_made(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *g = NULL;
    ob graph = {0};
    const float scale = 0.5f;
    const int32_t zero = 3;
    qb_ctx_init(&cx);
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    ob_floats(&graph, "a_s", "", 1, &scale);
    ob_initializer(&graph, "a_z", QB_DTYPE_S32, "", &zero, sizeof zero);
    pair(&graph, "x", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, "4");
    assert_fails(&cx, ob_parse_graph(&cx, &graph, &g), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "node 0 QuantizeLinear: zero point: type s32 is not supported");
}

static void weights_and_biases_become_quantized_constants(void **state) {
    (void)state;
    const int8_t w[] = {1, -2, 3, -4};
    const uint8_t zeros[2] = {0};
    const int32_t b[] = {100, -100};
    const float ws[] = {0.5f, 0.25f}, bs[] = {0.125f, 0.0625f};
    ob graph = {0}, attrs = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2,3,3");
    ob_initializer(&graph, "wq", QB_DTYPE_S8, "2,2,1,1", w, 4);
    ob_floats(&graph, "w_s", "2", 2, ws);
    ob_initializer(&graph, "w_z", QB_DTYPE_S8, "2", zeros, 2);
    ob_attr_int(&attrs, "axis", -4); /* from behind */
    ob_node(&graph, "DequantizeLinear", "", "wq w_s w_z", "w", &attrs);
    ob_initializer(&graph, "bq", QB_DTYPE_S32, "2", b, 8);
    ob_floats(&graph, "b_s", "2", 2, bs);
    ob_attr_int(&attrs, "axis", 0);
    ob_node(&graph, "DequantizeLinear", "", "bq b_s", "b", &attrs);
    ob_node(&graph, "Conv", "c", "x w b", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    ob bytes;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_int_equal(g->n_nodes, 1);
    const qb_value *weight = &g->values[g->nodes[0].in[1]], *bias = &g->values[g->nodes[0].in[2]];
    assert_string_equal(weight->name, "w");
    assert_int_equal(weight->dtype, QB_DTYPE_S8);
    assert_memory_equal(weight->data, w, 4);
    assert_int_equal(weight->q.axis, 0);
    assert_int_equal(weight->q.n, 2);
    assert_floats(weight->q.scale, ws, 2, 0, 0);
    assert_int_equal(bias->dtype, QB_DTYPE_S32);
    assert_memory_equal(bias->data, b, 8);
    assert_floats(bias->q.scale, bs, 2, 0, 0);
    ob_round_trip(&cx, g, &bytes);
    ob_free(&bytes);
    qb_graph_free(g);
}

/* TensorRT's form: float weights with Q and DQ behind them; Brevitas has a Clip between. */
static void quantize_weights(bool clipped, const int8_t *expected) {
    const float w[] = {0.5f, -0.75f, 100, -0.12f}, ws[] = {0.25f, 0.125f};
    const uint8_t zeros[2] = {0};
    const int8_t low = -2, high = 7;
    ob graph = {0}, q = {0}, dq = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    ob_floats(&graph, "w", "2,2", 4, w);
    ob_floats(&graph, "w_s", "2", 2, ws);
    ob_initializer(&graph, "w_z", QB_DTYPE_S8, "2", zeros, 2);
    ob_attr_int(&q, "axis", 0);
    ob_attr_int(&dq, "axis", 0);
    ob_node(&graph, "QuantizeLinear", "", "w w_s w_z", "wq", &q);
    ob_initializer(&graph, "low", QB_DTYPE_S8, "", &low, 1);
    ob_initializer(&graph, "high", QB_DTYPE_S8, "", &high, 1);
    if (clipped) ob_node(&graph, "Clip", "", "wq low high", "wc", NULL);
    ob_node(&graph, "DequantizeLinear", "", clipped ? "wc w_s w_z" : "wq w_s w_z", "wd", &dq);
    ob_node(&graph, "MatMul", "", "x wd", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_int_equal(g->n_nodes, 1);
    const qb_value *weight = &g->values[g->nodes[0].in[1]];
    assert_int_equal(weight->q.n, 2);
    assert_memory_equal(weight->data, expected, 4);
    qb_graph_free(g);
}

static void float_weights_with_pairs_are_quantized(void **state) {
    (void)state;
    quantize_weights(false, (const int8_t[]){2, -3, 127, -1});
    quantize_weights(true, (const int8_t[]){2, -2, 7, -1});
}

/* Few bits in integers of 8: x -> Q -> Clip -> DQ. */
static void clipped_integers_are_clipped_floats(void **state) {
    (void)state;
    const uint8_t bounds[] = {3, 15};
    ob graph = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "2,3");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 7);
    quantize(&graph, "x", "a", "q");
    ob_initializer(&graph, "low", QB_DTYPE_U8, "", &bounds[0], 1);
    ob_initializer(&graph, "high", QB_DTYPE_U8, "", &bounds[1], 1);
    ob_node(&graph, "Clip", "c", "q low high", "m", NULL);
    dequantize(&graph, "m", "a", "md");
    ob_node(&graph, "Sigmoid", "s", "md", "y", NULL);
    ob_output(&graph, "y", QB_DTYPE_F32, "2,3");
    check(&graph, "graph main\n"
                  "input x: u8[2,3] u8(0.5, 7)\n"
                  "const low_real: u8[] (3) u8(0.5, 7)\n"
                  "const high_real: u8[] (15) u8(0.5, 7)\n"
                  "Clip 'c' (x, low_real, high_real) -> m_real: u8[2,3] u8(0.5, 7)\n"
                  "Sigmoid 's' (m_real) -> y: f32[2,3]\n"
                  "output y\n");
}

static int count_named(const qb_graph *g, const char *part) {
    int n = 0;
    for (int32_t i = 0; i < g->n_values; i++) n += strstr(g->values[i].name, part) != NULL;
    return n;
}

static void generated_names_avoid_existing_ones(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    ob graph = {0}, bytes;
    ob_input(&graph, "x", QB_DTYPE_F32, "4");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    pair(&graph, "x", "a", "xd");
    ob_node(&graph, "Relu", "", "xd", "x_scale", NULL);
    ob_node(&graph, "Relu", "", "x_scale", "x_DequantizeLinear_Output", NULL);
    ob_node(&graph, "Relu", "", "x_DequantizeLinear_Output", "x_zero_point", NULL);
    ob_output(&graph, "x_zero_point", QB_DTYPE_F32, "4");
    qb_graph *g = NULL;
    assert_ok(&cx, ob_parse_graph(&cx, &graph, &g));
    assert_int_equal(count_named(g, "x"), 4);
    ob_round_trip(&cx, g, &bytes);
    ob_free(&bytes);
    qb_graph_free(g);
}

static qb_status load_and_write(qb_ctx *cx, void *user) {
    const ob *model = user;
    qb_graph *g = NULL;
    QB_TRY(qb_onnx_parse(cx, "m.onnx", NULL, model->data, model->size, &g));
    char *data = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&data, &size);
    qb_status status = qb_onnx_write(cx, g, stream);
    fclose(stream);
    free(data);
    qb_graph_free(g);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    const float w[] = {0.5f, -0.75f, 100, -0.12f};
    ob graph = {0}, model = {0};
    ob_input(&graph, "x", QB_DTYPE_F32, "N,2");
    params(&graph, "a", 0.5f, QB_DTYPE_U8, 0);
    params(&graph, "b", 0.25f, QB_DTYPE_S8, 0);
    pair(&graph, "x", "a", "d");
    ob_floats(&graph, "w", "2,2", 4, w);
    pair(&graph, "w", "b", "wd");
    ob_node(&graph, "MatMul", "", "d wd", "m", NULL);
    pair(&graph, "m", "a", "e"); /* m has a float reader */
    ob_node(&graph, "Add", "", "e m", "s", NULL);
    pair(&graph, "s", "a", "y");
    ob_output(&graph, "y", QB_DTYPE_F32, NULL);
    ob_model(&model, 8, 17, &graph);
    assert_true(qb_test_alloc_sweep(load_and_write, &model) > 100);
    ob_free(&model);
}

static void onnxruntimes_files_import_quantized(void **state) {
    (void)state;
    static const char *const names[] = {"models/squeezenet1.1_ort_qdq_minmax.onnx",
                                        "models/squeezenet1.1_ort_qdq_entropy.onnx",
                                        "models/resnet8_cifar10_ort_qdq_minmax.onnx",
                                        "models/resnet8_cifar10_ort_qdq_entropy.onnx"};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[QB_TEST_PATH];
        qb_test_need_shared(path, names[i]);
        qb_graph *g = NULL;
        assert_ok(&cx, qb_onnx_load(&cx, path, &g));
        for (int32_t k = 0; k < g->n_values; k++) assert_true(g->values[k].q.n > 0);
        for (int32_t k = 0; k < g->n_nodes; k++)
            assert_null(strstr(g->nodes[k].op->name, "uantizeLinear")); /* neither of the two */
        assert_string_equal(g->values[g->outputs[0]].name, "prob");
        qb_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_on_activations_become_parameters),
        cmocka_unit_test(several_readers_share_one_quantized_value),
        cmocka_unit_test(a_value_with_float_readers_keeps_them),
        cmocka_unit_test(an_output_that_is_also_quantized_stays_float),
        cmocka_unit_test(different_parameters_do_not_mix),
        cmocka_unit_test(pairs_in_a_row_requantize),
        cmocka_unit_test(moved_integers_become_moved_floats),
        cmocka_unit_test(integers_in_order_and_between_pixels_are_floats),
        cmocka_unit_test(integers_that_are_read_as_such_stay),
        cmocka_unit_test(an_input_may_not_become_an_output),
        cmocka_unit_test(what_cannot_be_folded_stays_as_written),
        cmocka_unit_test(odd_scales_are_told),
        cmocka_unit_test(products_with_odd_scales_stay_integers),
        cmocka_unit_test(integers_of_32_bits_are_not_made),
        cmocka_unit_test(weights_and_biases_become_quantized_constants),
        cmocka_unit_test(float_weights_with_pairs_are_quantized),
        cmocka_unit_test(clipped_integers_are_clipped_floats),
        cmocka_unit_test(generated_names_avoid_existing_ones),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(onnxruntimes_files_import_quantized),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

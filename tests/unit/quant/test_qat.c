/* Q/DQ models that training made: scales come in bit for bit, calibration leaves them alone, and
 * layers without any are finished. In the forms of PyTorch, ModelOpt, NNCF and TF-MOT. */
#include "small_graph.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "graph/passes.h"

#define CHANNELS 2

/* How an exporter writes a layer. */
typedef struct form {
    const char *name;
    qb_dtype activations; /* type and zero point of activations */
    int32_t zero;
    bool weights_as_floats; /* a float constant, Q and DQ; else an s8 constant and DQ */
    int32_t axis;           /* of weight scales; -1: one for the tensor */
    bool integer_bias;      /* an s32 constant and DQ; else floats */
    bool narrow;            /* weights use -127 .. 127 only */
} form;

static const form forms[] = {
    {"PyTorch, per channel", QB_DTYPE_U8, 113, true, 0, false, false},
    {"PyTorch, per tensor", QB_DTYPE_U8, 128, true, -1, false, false},
    {"ModelOpt", QB_DTYPE_S8, 0, true, 0, false, true},
    {"NNCF", QB_DTYPE_U8, 0, false, 0, false, true},
    {"NNCF, s8 activations", QB_DTYPE_S8, -3, false, 0, false, false},
    {"TF-MOT by tf2onnx", QB_DTYPE_S8, -128, false, 0, true, true},
};

/* Scales that no simple range gives. */
static const float input_scale = 0x1.9be4c6p-7f, hidden_scale = 0x1.7a3f12p-6f,
                   weight_scale[CHANNELS] = {0x1.4d9a2ep-8f, 0x1.0f35b8p-5f};
static const int8_t weight_codes[CHANNELS * CHANNELS] = {-127, 64, 3, 127};

static int32_t add_typed(small *s, const char *name, qb_dtype dtype, int64_t n, const void *data) {
    const qb_shape shape = n > 0 ? qb_shape_of(1, n) : (qb_shape){0};
    const int32_t id = qb_graph_add_constant(&s->cx, s->graph, name, dtype, &shape, data);
    assert_true(id >= 0);
    return id;
}

static const char *named(char text[64], const char *value, const char *what) {
    snprintf(text, 64, "%s.%s", value, what);
    return text;
}

/* x -> Q -> DQ with one scale. */
static int32_t fake_quantize(small *s, const form *f, int32_t x, const char *name, float scale) {
    char text[64];
    const int8_t zero = (int8_t)f->zero; /* the same bits for u8 */
    const int32_t scale_id = add_typed(s, named(text, name, "scale"), QB_DTYPE_F32, 0, &scale);
    const int32_t zero_id = add_typed(s, named(text, name, "zero"), f->activations, 0, &zero);
    const int32_t q = NODE(s, "QuantizeLinear", named(text, name, "q"), x, scale_id, zero_id);
    return NODE(s, "DequantizeLinear", named(text, name, "dq"), q, scale_id, zero_id);
}

/* The axis attribute of the node added last. */
static void set_axis(small *s, int32_t axis) { *(int64_t *)small_attrs(s) = axis; }

static int32_t weight_of(small *s, const form *f) {
    static const int8_t zeros[CHANNELS] = {0};
    const int n = f->axis < 0 ? 1 : CHANNELS;
    const qb_shape shape = qb_shape_of(4, CHANNELS, CHANNELS, 1, 1);
    const int32_t scale = add_typed(s, "w.scale", QB_DTYPE_F32, f->axis < 0 ? 0 : n, weight_scale),
                  zero = add_typed(s, "w.zero", QB_DTYPE_S8, f->axis < 0 ? 0 : n, zeros);
    int32_t q;
    if (f->weights_as_floats) {
        float w[CHANNELS * CHANNELS]; /* a little beside what its codes stand for */
        for (int i = 0; i < CHANNELS * CHANNELS; i++)
            w[i] = weight_scale[f->axis < 0 ? 0 : i / CHANNELS] * ((float)weight_codes[i] + 0.25f);
        q = NODE(s, "QuantizeLinear", "w.q", small_constant(s, "w", "2x2x1x1", w), scale, zero);
        if (f->axis >= 0) set_axis(s, f->axis);
    } else {
        q = qb_graph_add_constant(&s->cx, s->graph, "w", QB_DTYPE_S8, &shape, weight_codes);
        assert_true(q >= 0);
    }
    const int32_t dq = NODE(s, "DequantizeLinear", "w.dq", q, scale, zero);
    if (f->axis >= 0) set_axis(s, f->axis);
    return dq;
}

static int32_t bias_of(small *s, const form *f) {
    static const float floats[CHANNELS] = {0.5f, -1};
    static const int32_t codes[CHANNELS] = {1000, -77}, zeros[CHANNELS] = {0};
    float scale[CHANNELS];
    if (!f->integer_bias) return small_constant(s, "b", "2", floats);
    for (int c = 0; c < CHANNELS; c++) scale[c] = input_scale * weight_scale[f->axis < 0 ? 0 : c];
    const int32_t dq =
        NODE(s, "DequantizeLinear", "b.dq", add_typed(s, "b", QB_DTYPE_S32, CHANNELS, codes),
             add_typed(s, "b.scale", QB_DTYPE_F32, CHANNELS, scale),
             add_typed(s, "b.zero", QB_DTYPE_S32, CHANNELS, zeros));
    set_axis(s, 0);
    return dq;
}

/* x -> Q/DQ -> Conv -> Relu -> Q/DQ -> Conv that training left in float -> Relu -> Conv, likewise.
 */
static void make_model(small *s, const form *f) {
    static const float late[] = {0.5f, -0.25f, 1, 0.75f}, last[] = {0.25f, -0.5f, 0.125f, 1};
    const int32_t x = fake_quantize(s, f, small_input(s, "x", "1x2x4x4"), "x", input_scale);
    const int32_t conv = NODE(s, "Conv", "trained", x, weight_of(s, f), bias_of(s, f));
    const int32_t h = fake_quantize(s, f, NODE(s, "Relu", "hidden", conv), "hidden", hidden_scale);
    const int32_t a =
        NODE(s, "Relu", "a", NODE(s, "Conv", "late", h, small_constant(s, "v", "2x2x1x1", late)));
    small_output(s, NODE(s, "Softmax", "y",
                         NODE(s, "Conv", "last", a, small_constant(s, "u", "2x2x1x1", last))));
    assert_ok(&s->cx, qb_optimize(&s->cx, s->graph, NULL, NULL));
}

static const qb_value *find(const qb_graph *graph, const char *name) {
    const int32_t id = qb_graph_find_value(graph, name);
    if (id < 0) fail_msg("no value '%s'", name);
    return &graph->values[id];
}

static void expect_bits(const qb_graph *graph, const form *f) {
    const qb_value *x = find(graph, "x"), *hidden = find(graph, "hidden"), *w = find(graph, "w.dq");
    assert_int_equal(x->dtype, f->activations);
    assert_memory_equal(x->q.scale, &input_scale, sizeof(float));
    assert_memory_equal(hidden->q.scale, &hidden_scale, sizeof(float));
    const int32_t zero = f->activations == QB_DTYPE_U8 ? (uint8_t)f->zero : f->zero;
    assert_int_equal(x->q.zero ? x->q.zero[0] : 0, zero);
    assert_int_equal(w->q.n, f->axis < 0 ? 1 : CHANNELS);
    assert_int_equal(w->q.axis, f->axis);
    assert_memory_equal(w->q.scale, weight_scale, (size_t)w->q.n * sizeof(float));
    assert_memory_equal(w->data, weight_codes, sizeof weight_codes);
    if (!f->integer_bias) return;
    const qb_value *b = find(graph, "b.dq");
    assert_int_equal(b->dtype, QB_DTYPE_S32);
    assert_int_equal(((const int32_t *)b->data)[1], -77);
}

/* Written and read again. */
static qb_graph *again(qb_ctx *cx, const qb_graph *graph) {
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_graph *out;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "model.onnx");
    assert_ok(cx, qb_onnx_save(cx, graph, path));
    assert_ok(cx, qb_onnx_load(cx, path, &out));
    return out;
}

static void scales_of_training_come_in_bit_for_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        small s;
        small_init(&s);
        make_model(&s, &forms[i]);
        expect_bits(s.graph, &forms[i]);
        qb_graph *copy = again(&s.cx, s.graph);
        expect_bits(copy, &forms[i]);
        qb_graph_free(copy);
        small_release(&s);
    }
}

/* The table says other ranges for what is quantized already. */
static void layers_without_ranges_are_finished(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        small s;
        small_init(&s);
        make_model(&s, &forms[i]);
        small_range(&s, "x", -100, 100);
        small_range(&s, "hidden", 0, 100);
        small_range(&s, "a", 0, 2.55f);
        small_quantize(&s, NULL);
        expect_bits(s.quantized, &forms[i]);
        assert_int_equal(s.report.held, 1);
        assert_int_equal(s.report.quantized, 2);
        assert_int_equal(s.report.kept_float, 0);
        assert_int_equal(s.report.tensors, 1);
        expect_params(&s, "a", QB_DTYPE_U8, 0.01, 0);
        assert_int_equal(small_value(&s, "v_quantized")->dtype, QB_DTYPE_S8);
        assert_int_equal(small_value(&s, "u_quantized")->dtype, QB_DTYPE_S8);
        qb_graph *copy = again(&s.cx, s.quantized);
        expect_bits(copy, &forms[i]);
        qb_graph_free(copy);
        small_release(&s);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scales_of_training_come_in_bit_for_bit),
    cmocka_unit_test(layers_without_ranges_are_finished),
};

QB_TEST_MAIN(tests)

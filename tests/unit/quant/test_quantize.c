/* Which values become integers and with what parameters, on graphs small enough to do by hand. */
#include "small_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* A 1x1 convolution from 2 to 2 channels with weights of one. */
static int32_t conv(small *s, const char *name, int32_t x) {
    char weight[64];
    snprintf(weight, sizeof weight, "%s.w", name);
    return NODE(s, "Conv", name, x, small_constant(s, weight, "2x2x1x1", ones));
}

static void weights_and_bias_of_a_convolution(void **state) {
    (void)state;
    static const float w[] = {0.5f, -1.27f, 2.54f, 0.01f}, b[] = {1, -0.3f};
    static const int8_t q[] = {50, -127, 127, 0}; /* by 0.01 and 0.02; 0.5 rounds to even */
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t weight = small_constant(&s, "w", "2x2x1x1", w), bias = small_constant(&s, "b", "2", b);
    int32_t y = NODE(&s, "Conv", "y", x, weight, bias);
    small_output(&s, NODE(&s, "Softmax", "p", NODE(&s, "Relu", "r", y)));
    small_range(&s, "x", -1, 1.55f);
    small_quantize(&s, NULL);
    expect_params(&s, "x", QB_DTYPE_U8, 0.01, 100);
    expect_float(&s, "y"); /* inside the group */
    expect_float(&s, "r"); /* read by a float operator only */
    const qb_value *wq = small_value(&s, "w_quantized"), *bq = small_value(&s, "b_quantized");
    assert_true(wq->dtype == QB_DTYPE_S8 && wq->q.axis == 0 && wq->q.n == 2);
    const float scales[] = {0.01f, 0.02f}, bias_scales[] = {1e-4f, 2e-4f};
    assert_floats(wq->q.scale, scales, 2, 1e-6f, 0);
    assert_memory_equal(wq->data, q, sizeof q);
    assert_true(bq->dtype == QB_DTYPE_S32 && bq->q.axis == 0 && bq->q.n == 2);
    assert_floats(bq->q.scale, bias_scales, 2, 1e-6f, 0);
    assert_int_equal(((const int32_t *)bq->data)[0], 10000);
    assert_int_equal(((const int32_t *)bq->data)[1], -1500);
    assert_int_equal(qb_graph_find_value(s.quantized, "w"), -1);
    assert_int_equal(s.report.quantized, 1);
    assert_int_equal(s.report.kept_float, 0);
    assert_int_equal(s.report.tensors, 1);
    small_release(&s);
}

static void residual_network_as_text(void **state) {
    (void)state;
    static const float w[] = {1.27f, 0, -0.635f, 0.01f}, b[] = {0.5f, 0};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x2x2");
    int32_t weight = small_constant(&s, "w", "2x2x1x1", w), bias = small_constant(&s, "b", "2", b);
    int32_t a = NODE(&s, "Relu", "a", NODE(&s, "Conv", "c1", x, weight, bias));
    int32_t sum = NODE(&s, "Add", "sum", NODE(&s, "Conv", "c2", a, weight), a);
    int32_t r = NODE(&s, "Relu", "r", sum);
    int32_t pool = NODE(&s, "GlobalAveragePool", "pool", r);
    small_output(&s, NODE(&s, "Flatten", "y", pool));
    small_range(&s, "x", -1, 1.55f);
    small_range(&s, "a", 0, 2.55f);
    small_range(&s, "r", 0, 5.1f);
    small_range(&s, "pool", 0, 5);
    small_quantize(&s, NULL);
    char *text;
    assert_ok(&s.cx, qb_graph_text(&s.cx, s.quantized, &text));
    assert_string_equal(
        text,
        "graph main\n"
        "input x: u8[1,2,2,2] u8(0.00999999978, 100)\n"
        "const w_quantized: s8[2,2,1,1] (127, 0, -127, 2) s8(axis 0, 2, #ee904985369aa42e)\n"
        "const b_quantized: s32[2] (5000, 0) s32(axis 0, 2, #30130e6304fdb058)\n"
        "Conv 'c1' (x, w_quantized, b_quantized) -> c1: f32[1,2,2,2]\n"
        "Relu 'a' (c1) -> a: u8[1,2,2,2] u8(0.00999999978, 0)\n"
        "const w_quantized_1: s8[2,2,1,1] (127, 0, -127, 2) s8(axis 0, 2, #ee904985369aa42e)\n"
        "Conv 'c2' (a, w_quantized_1) -> c2: f32[1,2,2,2]\n"
        "Add 'sum' (c2, a) -> sum: f32[1,2,2,2]\n"
        "Relu 'r' (sum) -> r: u8[1,2,2,2] u8(0.0199999996, 0)\n"
        "GlobalAveragePool 'pool' (r) -> pool: f32[1,2,1,1]\n"
        "Flatten 'y' (pool) -> y: f32[1,2]\n"
        "output y\n");
    qb_free(text);
    small_release(&s);
}

/* Parts of a Concat, and what is pooled from it, share the union of what was computed. */
static void moved_values_share_one_range(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "a", x), b = conv(&s, "b", x);
    int32_t cat = NODE(&s, "Concat", "cat", a, b);
    ((qb_axis_attrs *)small_attrs(&s))->axis = 1;
    int32_t pool = NODE(&s, "GlobalMaxPool", "pool", cat);
    int32_t w = small_constant(&s, "w", "2x4x1x1", ones);
    small_output(&s, NODE(&s, "Conv", "y", pool, w));
    small_range(&s, "x", 0, 255);
    small_range(&s, "a", -1, 1);
    small_range(&s, "b", 0, 1.55f);
    small_range(&s, "cat", -9, 9); /* say nothing new: only moved */
    small_range(&s, "pool", -9, 9);
    small_quantize(&s, NULL);
    static const char *const names[] = {"a", "b", "cat", "pool"};
    for (int i = 0; i < 4; i++) expect_params(&s, names[i], QB_DTYPE_U8, 0.01, 100);
    expect_float(&s, "y");
    small_release(&s);
}

static void moved_from_outside_counts(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "a", x), b = conv(&s, "b", x);
    small_output(&s, a); /* stays float, so its pool brings its own range in */
    int32_t pool = NODE(&s, "GlobalMaxPool", "pool", a);
    int32_t low = NODE(&s, "GlobalMaxPool", "low", b);
    int32_t cat = NODE(&s, "Concat", "cat", pool, low, small_constant(&s, "k", "1x2x1x1", ones));
    ((qb_axis_attrs *)small_attrs(&s))->axis = 1;
    int32_t w = small_constant(&s, "w", "2x6x1x1", ones);
    small_output(&s, NODE(&s, "Conv", "y", cat, w));
    small_range(&s, "x", 0, 255);
    small_range(&s, "a", 0, 1000);
    small_range(&s, "b", 0, 2);
    small_range(&s, "pool", 0, 5.1f);
    small_range(&s, "low", 0, 2);
    small_range(&s, "cat", 0, 25.5f); /* has a constant in it */
    small_quantize(&s, NULL);
    expect_float(&s, "a");
    expect_params(&s, "b", QB_DTYPE_U8, 0.1, 0);
    expect_params(&s, "pool", QB_DTYPE_U8, 0.1, 0);
    expect_params(&s, "cat", QB_DTYPE_U8, 0.1, 0);
    small_release(&s);
}

static void all_outputs_of_a_split_share(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "a", x);
    const qb_shape unknown = {.rank = -1};
    int32_t out[2];
    for (int i = 0; i < 2; i++)
        out[i] = qb_graph_add_value(&s.cx, s.graph, i ? "s1" : "s0", QB_DTYPE_NONE, &unknown);
    int32_t sizes = qb_graph_add_constant(&s.cx, s.graph, "sizes", QB_DTYPE_S64,
                                          &(qb_shape){1, {2}}, (int64_t[]){1, 1});
    assert_true(qb_graph_add_node(&s.cx, s.graph, qb_op_find("Split", ""), "s",
                                  (int32_t[]){a, sizes}, 2, out, 2) >= 0);
    struct {
        int64_t axis;
    } *split = small_attrs(&s);
    split->axis = 1;
    int32_t w = small_constant(&s, "w", "2x1x1x1", ones);
    small_output(&s, NODE(&s, "Conv", "y", out[1], w)); /* only the second is computed on */
    small_output(&s, NODE(&s, "Softmax", "z", out[0]));
    small_range(&s, "x", 0, 255);
    small_range(&s, "a", 0, 2.55f);
    small_range(&s, "s0", 0, 1);
    small_range(&s, "s1", 0, 1);
    small_quantize(&s, NULL);
    expect_params(&s, "a", QB_DTYPE_U8, 0.01, 0);
    expect_params(&s, "s1", QB_DTYPE_U8, 0.01, 0);
    expect_float(&s, "s0");
    small_release(&s);
}

static void graph_outputs_and_what_float_operators_read_stay_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "a", x);
    small_output(&s, a);
    small_output(&s, conv(&s, "b", a)); /* its input is an output, so b cannot be integer */
    int32_t c = conv(&s, "c", x);
    int32_t t = NODE(&s, "Transpose", "t", c); /* only moves it, to a float operator */
    small_output(&s, NODE(&s, "Softmax", "p", t));
    small_range(&s, "x", 0, 2.55f);
    small_quantize(&s, NULL);
    expect_params(&s, "x", QB_DTYPE_U8, 0.01, 0);
    expect_float(&s, "a");
    expect_float(&s, "b");
    expect_float(&s, "c");
    expect_float(&s, "t");
    assert_int_equal(s.report.quantized, 2);
    assert_int_equal(s.report.kept_float, 1);
    small_release(&s);
}

/* RMS normalization between two layers: engines compute it in one step, whose inner values no
 * rounding takes apart, though the product with the gains could be one of integers. The batch is
 * open. */
static void what_one_step_computes_inside_stays_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    const float two = 2, epsilon = 1e-5f, gain[4] = {1, 2, 3, 4}, weight[16] = {1, -1, 0.5f, 2};
    const int32_t w = small_constant(&s, "w", "4x4", weight);
    const int32_t x = small_input(&s, "x", "-1x3x4");
    const int32_t a = NODE(&s, "MatMul", "a", x, w);
    const int32_t square = NODE(&s, "Pow", "square", a, small_constant(&s, "two", "", &two));
    const int32_t axes = qb_graph_add_constant(&s.cx, s.graph, "axes", QB_DTYPE_S64,
                                               &(qb_shape){1, {1}}, (int64_t[]){-1});
    const int32_t mean = NODE(&s, "ReduceMean", "mean", square, axes);
    const int32_t spread =
        NODE(&s, "Add", "spread", mean, small_constant(&s, "epsilon", "", &epsilon));
    const int32_t normal = NODE(&s, "Div", "normal", a, NODE(&s, "Sqrt", "root", spread));
    const int32_t y = NODE(&s, "Mul", "y", normal, small_constant(&s, "gain", "4", gain));
    small_output(&s, NODE(&s, "MatMul", "z", y, w));
    small_range(&s, "x", -1, 1);
    small_range(&s, "a", -1, 1);
    small_range(&s, "y", -1, 1);
    small_range(&s, "normal", -1, 1);
    small_quantize(&s, NULL);
    expect_params(&s, "y", QB_DTYPE_U8, 2.0 / 255, 128);
    expect_float(&s, "normal");
    expect_float(&s, "square");
    assert_int_equal(s.report.quantized, 2);
    small_release(&s);
}

/* A sum that a product takes in once shapes are known: the product's own result is never there. */
static void sums_of_open_shapes_are_not_rounded_twice(void **state) {
    (void)state;
    small s;
    small_init(&s);
    const float weight[16] = {1, -1, 0.5f, 2};
    const int32_t w = small_constant(&s, "w", "4x4", weight);
    const int32_t x = small_input(&s, "x", "-1x3x4");
    const int32_t shape = qb_graph_add_constant(&s.cx, s.graph, "shape", QB_DTYPE_S64,
                                                &(qb_shape){1, {3}}, (int64_t[]){-1, 3, 4});
    const int32_t a = NODE(&s, "MatMul", "a", x, w);
    const int32_t v = NODE(&s, "Reshape", "v", NODE(&s, "Softmax", "p", a), shape);
    const int32_t m = NODE(&s, "MatMul", "m", v, w);
    const int32_t y = NODE(&s, "Add", "y", m, a);
    small_output(&s, NODE(&s, "MatMul", "z", y, w));
    static const char *const names[] = {"x", "a", "p", "v", "m", "y"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) small_range(&s, names[i], -1, 1);
    small_quantize(&s, NULL);
    expect_float(&s, "m");
    expect_params(&s, "y", QB_DTYPE_U8, 2.0 / 255, 128);
    small_release(&s);
}

/* conv -> sigmoid -> mul -> conv stays in integers; Exp is computed in float, so what it reads need
 * not be rounded. */
static void elementwise_operators_between_integers_are_integers(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "a", x), b = conv(&s, "b", x);
    int32_t gate = NODE(&s, "Sigmoid", "gate", NODE(&s, "GlobalAveragePool", "mean", a));
    int32_t mul = NODE(&s, "Mul", "mul", a, gate);
    int32_t e = NODE(&s, "Exp", "e", b);
    small_output(&s, NODE(&s, "Softmax", "p", conv(&s, "c", mul)));
    small_output(&s, NODE(&s, "Softmax", "q", conv(&s, "d", e)));
    static const char *const names[] = {"x", "a", "b", "mean", "gate", "mul", "e"};
    for (int i = 0; i < 7; i++) small_range(&s, names[i], 0, 2.55f * (float)(i + 1));
    small_quantize(&s, NULL);
    for (int i = 0; i < 7; i++)
        if (i == 2)
            expect_float(&s, names[i]);
        else
            expect_params(&s, names[i], QB_DTYPE_U8, 0.01 * (i + 1), 0);
    small_release(&s);
}

static void schemes_and_per_tensor_weights(void **state) {
    (void)state;
    static const float w[] = {0.5f, -1.27f, 2.54f, 0.01f};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    small_output(&s, NODE(&s, "Conv", "y", x, small_constant(&s, "w", "2x2x1x1", w)));
    small_range(&s, "x", -1, 1.55f);
    small_quantize(&s, &(qb_quant_options){.activations = QB_SCHEME_S8_AFFINE});
    expect_params(&s, "x", QB_DTYPE_S8, 0.01, -28);
    small_quantize(
        &s, &(qb_quant_options){.activations = QB_SCHEME_S8_SYMMETRIC, .per_tensor_weights = true});
    expect_params(&s, "x", QB_DTYPE_S8, 1.55 / 127, 0);
    expect_params(&s, "w_quantized", QB_DTYPE_S8, 0.02, 0);
    static const int8_t q[] = {25, -64, 127, 0};
    assert_memory_equal(small_value(&s, "w_quantized")->data, q, sizeof q);
    small_release(&s);
}

/* One weight a channel is a factor of its own, whatever the other weights share. */
static void scales_of_channels_share_nothing(void **state) {
    (void)state;
    static const float w[] = {0.0127f, -1.27f};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t y = NODE(&s, "Conv", "y", x, small_constant(&s, "w", "2x1x1x1", w));
    ((qb_conv_attrs *)small_attrs(&s))->group = 2;
    small_output(&s, y);
    small_range(&s, "x", 0, 2.55f);
    small_quantize(&s, &(qb_quant_options){.per_tensor_weights = true});
    const qb_value *v = small_value(&s, "w_quantized");
    assert_int_equal(v->q.n, 2);
    assert_int_equal(v->q.axis, 0);
    static const int8_t q[] = {127, -127};
    assert_memory_equal(v->data, q, sizeof q);
    small_release(&s);
}

static void output_channels_lie_where_the_operator_has_them(void **state) {
    (void)state;
    float w[12];
    for (int i = 0; i < 12; i++) w[i] = (float)(i + 1);
    for (int form = 0; form < 4; form++) {
        small s;
        small_init(&s);
        bool spatial = form == 3;
        int32_t x = small_input(&s, "x", spatial ? "1x3x2x2" : "2x3");
        const char *const shapes[] = {"3x4", "4x3", "3x4", "3x4x1x1"};
        const char *const ops[] = {"Gemm", "Gemm", "MatMul", "ConvTranspose"};
        static const int32_t axes[] = {1, 0, 1, 1};
        int32_t y = NODE(&s, ops[form], "y", x, small_constant(&s, "w", shapes[form], w));
        if (form == 1) ((qb_gemm_attrs *)small_attrs(&s))->trans_b = 1;
        small_output(&s, y);
        small_range(&s, "x", 0, 255);
        small_quantize(&s, NULL);
        const qb_value *v = small_value(&s, "w_quantized");
        assert_int_equal(v->q.axis, axes[form]);
        assert_int_equal(v->q.n, 4);
        for (int k = 0; k < 4; k++) {
            const float most = axes[form] == 1 ? (float)(9 + k) : (float)(3 * k + 3);
            assert_float_equal(v->q.scale[k], most / 127, 1e-6);
        }
        small_release(&s);
    }
}

static void depthwise_weights_have_a_scale_a_channel(void **state) {
    (void)state;
    static const float w[] = {0.127f, 1.27f, 12.7f};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x3x4");
    small_output(&s, NODE(&s, "Conv", "y", x, small_constant(&s, "w", "3x1x1", w)));
    ((qb_conv_attrs *)small_attrs(&s))->group = 3;
    small_range(&s, "x", 0, 255);
    small_quantize(&s, NULL);
    const qb_value *v = small_value(&s, "w_quantized");
    const float scales[] = {0.001f, 0.01f, 0.1f};
    assert_int_equal(v->q.n, 3);
    assert_floats(v->q.scale, scales, 3, 1e-6f, 0);
    small_release(&s);
}

/* What the optimizer makes of an image's mean and deviation. */
static void what_normalizes_an_image_stays_float(void **state) {
    (void)state;
    static const float w[] = {0.5f, 0.25f, 0.125f};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x3x4x4");
    int32_t y = NODE(&s, "Conv", "y", x, small_constant(&s, "w", "3x1x1x1", w));
    ((qb_conv_attrs *)small_attrs(&s))->group = 3;
    small_output(&s, NODE(&s, "Conv", "z", y, small_constant(&s, "v", "2x3x1x1", ones)));
    small_range(&s, "x", 0, 255);
    small_range(&s, "y", 0, 127.5f);
    small_quantize(&s, NULL);
    expect_float(&s, "x");
    expect_float(&s, "w");
    expect_params(&s, "y", QB_DTYPE_U8, 0.5, 0);
    assert_int_equal(s.report.quantized, 1);
    assert_int_equal(s.report.kept_float, 1);
    small_release(&s);
}

/* A bias of MatMul + Add is a constant of the Add, which computes in float. */
static void bias_outside_the_anchor_stays_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "2x3x4");
    int32_t y = NODE(&s, "MatMul", "y", x, small_constant(&s, "w", "4x2", ones));
    small_output(&s, NODE(&s, "Add", "z", y, small_constant(&s, "b", "2", ones)));
    int32_t g = small_input(&s, "g", "2x4");
    int32_t h = NODE(&s, "Gemm", "h", g, small_constant(&s, "v", "4x2", ones),
                     small_constant(&s, "c", "2", ones));
    ((qb_gemm_attrs *)small_attrs(&s))->alpha = 0.5f;
    small_output(&s, h);
    small_range(&s, "x", 0, 255);
    small_range(&s, "g", 0, 255);
    small_quantize(&s, NULL);
    expect_float(&s, "b");
    expect_float(&s, "c");
    assert_int_equal(small_value(&s, "w_quantized")->q.n, 2);
    assert_int_equal(s.report.quantized, 2);
    small_release(&s);
}

/* Weights that are tiny beside their bias: the bias would not fit 32 bits at S_x * max / 127. */
static void a_large_bias_enlarges_the_weight_scale(void **state) {
    (void)state;
    static const float w[] = {1e-9f, 1e-9f, 0, 0, 1, 1, 0, 0}, b[] = {3, -5, 1, 0};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x1x1");
    int32_t weight = small_constant(&s, "w", "4x2x1x1", w), bias = small_constant(&s, "b", "4", b);
    small_output(&s, NODE(&s, "Conv", "y", x, weight, bias));
    small_range(&s, "x", 0, 2.55f);
    small_quantize(&s, NULL);
    const qb_value *wq = small_value(&s, "w_quantized"), *bq = small_value(&s, "b_quantized");
    for (int k = 0; k < 4; k++) {
        const int32_t q = ((const int32_t *)bq->data)[k];
        assert_true(abs(q) <= 1 << 30);
        assert_true(wq->q.scale[k] > 0 && bq->q.scale[k] > 0);
        assert_float_equal((float)q * bq->q.scale[k], b[k], 1e-6);
    }
    assert_float_equal(wq->q.scale[2], 1.0f / 127, 1e-6); /* nothing to enlarge there */
    small_release(&s);
}

static qb_status refuse(small *s, const qb_quant_options *options) {
    qb_graph *none = NULL;
    assert_ok(&s->cx, qb_graph_infer(&s->cx, s->graph));
    return qb_quantize(&s->cx, s->graph, s->table, options, &none, NULL);
}

/* Nothing is ever seen of a value without elements, and it needs no range. */
static void an_empty_part_needs_no_statistics(void **state) {
    (void)state;
    small s;
    small_init(&s);
    const int32_t x = small_input(&s, "x", "1x2x4x4"), none = small_input(&s, "none", "1x0x4x4");
    const int32_t cat = NODE(&s, "Concat", "cat", x, none);
    ((qb_axis_attrs *)small_attrs(&s))->axis = 1;
    small_output(&s, conv(&s, "y", cat));
    small_range(&s, "x", 0, 2.55f);
    small_range(&s, "cat", 0, 2.55f);
    small_quantize(&s, NULL);
    assert_float_equal(small_value(&s, "cat")->q.scale[0], 0.01f, 1e-6);
    small_release(&s);
}

static void missing_statistics_are_named(void **state) {
    (void)state;
    small s;
    small_init(&s);
    small_output(&s, conv(&s, "y", small_input(&s, "pixels", "1x2x4x4")));
    small_range(&s, "other", 0, 1);
    assert_fails(&s.cx, refuse(&s, &(qb_quant_options){0}), QB_STATUS_MISMATCH);
    assert_message(&s.cx, "tensor 'pixels' has no range in the imported calibration");
    s.table->entry[0].stats->count = 1; /* of a run, not of another tool */
    assert_fails(&s.cx, refuse(&s, &(qb_quant_options){0}), QB_STATUS_MISMATCH);
    assert_message(&s.cx, "tensor 'pixels' has no statistics");
    assert_fails(&s.cx, refuse(&s, &(qb_quant_options){.method = "entropy"}), QB_STATUS_NOTFOUND);
    assert_message(&s.cx, "method 'entropy'");
    small_release(&s);
}

/* Rows of a table, as many as the data say; a run has seen the data alone. */
static int32_t late_rows(small *s) {
    static const float table[32] = {1};
    small_init(s);
    small_range(s, "v", 0, 1);
    s->table->entry[0].stats->count = 1;
    const int32_t places = NODE(s, "NonZero", "i", small_input(s, "v", "8"));
    return NODE(s, "Gather", "g", small_constant(s, "table", "8x4", table), places);
}

/* Calibration does not see what lies behind a size that comes with the data. */
static void values_of_late_sizes_stay_float(void **state) {
    (void)state;
    static const float w[12] = {0.5f};
    small s;
    const int32_t rows = late_rows(&s);
    small_output(&s, NODE(&s, "MatMul", "y", rows, small_constant(&s, "w", "4x3", w)));
    small_quantize(&s, NULL);
    expect_float(&s, "g");
    assert_int_equal(s.report.quantized, 0);
    small_release(&s);
}

/* Nor what is computed from it, where sizes are known again. */
static void values_behind_late_sizes_stay_float(void **state) {
    (void)state;
    static const float w[12] = {0.5f};
    small s;
    const int32_t rows = late_rows(&s);
    const int32_t fixed = NODE(&s, "ReduceMax", "r", rows);
    small_output(&s, NODE(&s, "MatMul", "y", fixed, small_constant(&s, "w", "1x12", w)));
    small_quantize(&s, NULL);
    expect_float(&s, "r");
    assert_int_equal(s.report.quantized, 0);
    small_release(&s);
}

static void named_nodes_stay_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4");
    int32_t a = conv(&s, "stem/conv", x);
    int32_t b = conv(&s, "block/conv1", a);
    small_output(&s, conv(&s, "block/conv2", b));
    small_range(&s, "x", 0, 2.55f);
    small_range(&s, "stem/conv", 0, 2.55f);
    small_range(&s, "block/conv1", 0, 2.55f);
    const char *const keep[] = {"stem/*", "no such node", NULL};
    char log_path[QB_TEST_PATH], folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(log_path, folder, "log");
    qb_log log;
    qb_log_init(&log, fopen(log_path, "w+"), QB_LEVEL_WARN, true);
    s.cx.log = &log;
    small_quantize(&s, &(qb_quant_options){.keep_float = keep});
    s.cx.log = NULL;
    expect_float(&s, "x");
    expect_params(&s, "stem/conv", QB_DTYPE_U8, 0.01, 0); /* the next one reads integers */
    expect_float(&s, "stem/conv.w");
    assert_int_equal(s.report.quantized, 2);
    assert_int_equal(s.report.kept_float, 1);
    char text[256] = "";
    rewind(log.stream);
    assert_non_null(fgets(text, sizeof text, log.stream));
    assert_non_null(strstr(text, "no node is called 'no such node'"));
    assert_null(fgets(text, sizeof text, log.stream));
    fclose(log.stream);
    small_release(&s);
}

static void shared_weights_serve_inputs_of_two_scales(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), z = small_input(&s, "z", "1x2x4x4");
    int32_t w = small_constant(&s, "w", "2x2x1x1", ones), b = small_constant(&s, "b", "2", ones);
    small_output(&s, NODE(&s, "Conv", "u", x, w, b));
    small_output(&s, NODE(&s, "Conv", "v", z, w, b));
    small_range(&s, "x", 0, 2.55f);
    small_range(&s, "z", 0, 25.5f);
    small_quantize(&s, NULL);
    assert_float_equal(small_value(&s, "b_quantized")->q.scale[0], 0.01 / 127, 1e-9);
    assert_float_equal(small_value(&s, "b_quantized_1")->q.scale[0], 0.1 / 127, 1e-8);
    small_release(&s);
}

/* The layers around a value of 16 bits have integer weights by its scale; what nobody reads as
 * integers gets none, and the graph's output stays the float that it was. */
static void named_values_get_16_bits(void **state) {
    (void)state;
    static const float b[] = {1, 0};
    small s;
    small_init(&s);
    int32_t a = NODE(&s, "Relu", "a", conv(&s, "c", small_input(&s, "x", "1x2x4x4")));
    int32_t w = small_constant(&s, "w", "2x2x1x1", ones), bias = small_constant(&s, "b", "2", b);
    small_output(&s, NODE(&s, "Conv", "y", a, w, bias));
    small_range(&s, "x", 0, 2.55f);
    small_range(&s, "a", 0, 2.55f);
    s.table->entry[0].stats->max = 6.5535f; /* of "a": cut off by 8 bits, not by 16 */
    small_quantize(&s, &(qb_quant_options){.activations_16 = (const char *const[]){"[ac]", NULL}});
    expect_params(&s, "x", QB_DTYPE_U8, 0.01, 0);
    expect_float(&s, "a");
    expect_float(&s, "a_DequantizeLinear_Output");
    assert_int_equal(small_value(&s, "a_QuantizeLinear_Output")->dtype, QB_DTYPE_U16);
    assert_int_equal(qb_graph_find_value(s.quantized, "c_QuantizeLinear_Output"), -1);
    const float scale = *(const float *)small_value(&s, "a_scale")->data,
                bias_scale = small_value(&s, "b_quantized")->q.scale[0];
    assert_floats(&scale, &(float){1e-4f}, 1, 1e-6f, 0);
    assert_floats(&bias_scale, &(float){1e-4f / 127}, 1, 1e-6f, 0);
    assert_int_equal(small_value(&s, "w_quantized")->dtype, QB_DTYPE_S8);
    assert_int_equal(s.report.tensors, 1);
    assert_int_equal(s.report.tensors_16, 1);
    assert_int_equal(s.report.quantized, 2);
    small_quantize(&s, &(qb_quant_options){.activations = QB_SCHEME_S8_SYMMETRIC,
                                           .activations_16 = (const char *const[]){"a", NULL}});
    assert_int_equal(small_value(&s, "a_QuantizeLinear_Output")->dtype, QB_DTYPE_S16);

    const qb_target *trt;
    qb_graph *none;
    qb_quant_options options = {.activations_16 = (const char *const[]){"y", NULL}};
    assert_int_equal(qb_quantize(&s.cx, s.graph, s.table, &options, &none, NULL),
                     QB_STATUS_NOTFOUND);
    assert_ok(&s.cx, qb_target_find(&s.cx, "trt", &trt));
    options.target = trt;
    assert_int_equal(qb_quantize(&s.cx, s.graph, s.table, &options, &none, NULL), QB_STATUS_USAGE);
    small_release(&s);
}

static qb_status quantize_once(qb_ctx *cx, void *user) {
    const small *s = user;
    const qb_quant_options defaults = {0};
    qb_graph *out = NULL;
    qb_status status = qb_quantize(cx, s->graph, s->table, &defaults, &out, NULL);
    qb_graph_free(out);
    return status;
}

static void the_input_is_left_alone_and_failing_allocations_are_survived(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t a = conv(&s, "a", small_input(&s, "x", "1x2x4x4"));
    small_output(&s, conv(&s, "b", NODE(&s, "Relu", "r", a)));
    small_range(&s, "x", 0, 2.55f);
    small_range(&s, "r", 0, 2.55f);
    assert_ok(&s.cx, qb_graph_infer(&s.cx, s.graph));
    char *before, *after;
    assert_ok(&s.cx, qb_graph_text(&s.cx, s.graph, &before));
    assert_true(qb_test_alloc_sweep(quantize_once, &s) > 10);
    assert_ok(&s.cx, qb_graph_text(&s.cx, s.graph, &after));
    assert_string_equal(before, after);
    qb_free(before);
    qb_free(after);
    small_release(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(weights_and_bias_of_a_convolution),
    cmocka_unit_test(residual_network_as_text),
    cmocka_unit_test(moved_values_share_one_range),
    cmocka_unit_test(moved_from_outside_counts),
    cmocka_unit_test(all_outputs_of_a_split_share),
    cmocka_unit_test(graph_outputs_and_what_float_operators_read_stay_float),
    cmocka_unit_test(sums_of_open_shapes_are_not_rounded_twice),
    cmocka_unit_test(what_one_step_computes_inside_stays_float),
    cmocka_unit_test(elementwise_operators_between_integers_are_integers),
    cmocka_unit_test(schemes_and_per_tensor_weights),
    cmocka_unit_test(scales_of_channels_share_nothing),
    cmocka_unit_test(output_channels_lie_where_the_operator_has_them),
    cmocka_unit_test(depthwise_weights_have_a_scale_a_channel),
    cmocka_unit_test(what_normalizes_an_image_stays_float),
    cmocka_unit_test(bias_outside_the_anchor_stays_float),
    cmocka_unit_test(a_large_bias_enlarges_the_weight_scale),
    cmocka_unit_test(an_empty_part_needs_no_statistics),
    cmocka_unit_test(missing_statistics_are_named),
    cmocka_unit_test(values_of_late_sizes_stay_float),
    cmocka_unit_test(values_behind_late_sizes_stay_float),
    cmocka_unit_test(named_nodes_stay_float),
    cmocka_unit_test(shared_weights_serve_inputs_of_two_scales),
    cmocka_unit_test(named_values_get_16_bits),
    cmocka_unit_test(the_input_is_left_alone_and_failing_allocations_are_survived),
};

QB_TEST_MAIN(tests)

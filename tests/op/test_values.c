/* Operators on small numbers worked out by hand, where ONNX's own cases leave gaps: integers that
 * no double holds, halves, training, operators of onnxruntime's quantized models. */
#include "op_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/ref.h"

/* Value of a constant: type, up to 3 dimensions (0: none), elements. */
static int32_t constant(qb_graph *graph, qb_dtype dtype, int64_t d0, int64_t d1, const void *data) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_shape shape = {.rank = d0 == 0 ? 0 : d1 == 0 ? 1 : 2, .dim = {d0, d1}};
    int32_t id = qb_graph_add_constant(&cx, graph, "c", dtype, &shape, data);
    assert_true(id >= 0);
    return id;
}

static qb_graph *new_graph(void) {
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_graph_create(&cx, &graph));
    return graph;
}

/* Runs `op`, rewritten as after reading or as it is, on constants; the last value is the result. */
static const qb_value *result_as(qb_graph *graph, const char *op, const char *domain,
                                 const int32_t *in, int32_t n, bool read) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    int32_t out = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_NONE, NULL);
    const qb_op *found = qb_op_find(op, domain);
    assert_non_null(found);
    int32_t node = qb_graph_add_node(&cx, graph, found, "", in, n, &out, 1);
    assert_true(node >= 0);
    if (read && found->upgrade) assert_ok(&cx, found->upgrade(&cx, graph, node, QB_GRAPH_OPSET));
    assert_ok(&cx, qb_graph_sort(&cx, graph));
    assert_ok(&cx, evaluate_graph(&cx, graph));
    return &graph->values[out];
}

static const qb_value *result_of(qb_graph *graph, const char *op, const char *domain,
                                 const int32_t *in, int32_t n) {
    return result_as(graph, op, domain, in, n, true);
}

static void integers_stay_exact_beyond_2_to_53(void **state) {
    (void)state;
    const int64_t big = ((int64_t)1 << 53) + 1, x[] = {big, 2}, seven = 7;
    qb_graph *graph = new_graph();
    int32_t list = constant(graph, QB_DTYPE_S64, 2, 0, x);
    const qb_value *y = result_of(graph, "ReduceSum", "", &list, 1);
    assert_int_equal(*(const int64_t *)y->data, big + 2);
    y = result_of(graph, "ReduceMax", "", &list, 1);
    assert_int_equal(*(const int64_t *)y->data, big);
    y = result_of(graph, "ArgMax", "", &list, 1);
    assert_int_equal(*(const int64_t *)y->data, 0);
    int32_t mod[2] = {list, constant(graph, QB_DTYPE_S64, 0, 0, &seven)};
    y = result_of(graph, "Mod", "", mod, 2);
    assert_int_equal(*(const int64_t *)y->data, big % 7);
    int32_t product[2] = {list, list};
    y = result_of(graph, "MatMul", "", product, 2);
    assert_int_equal(*(const int64_t *)y->data, (int64_t)((uint64_t)big * (uint64_t)big + 4u));
    qb_graph_free(graph);
}

static void halves_are_rounded_once(void **state) {
    (void)state;
    /* 1 + 2^-11 is halfway between two halves: the sum of three terms rounds only at its end. */
    const uint16_t one = qb_f32_to_f16(1.0f), tiny = qb_f32_to_f16(0x1p-11f);
    qb_graph *graph = new_graph();
    int32_t in[3] = {constant(graph, QB_DTYPE_F16, 0, 0, &one),
                     constant(graph, QB_DTYPE_F16, 0, 0, &tiny),
                     constant(graph, QB_DTYPE_F16, 0, 0, &tiny)};
    const qb_value *y = result_of(graph, "Sum", "", in, 3);
    assert_true(qb_f16_to_f32(*(const uint16_t *)y->data) == 1.0f + 0x1p-10f);
    qb_graph_free(graph);
}

static void quantized_add_is_the_real_sum_rounded(void **state) {
    (void)state;
    const uint8_t a[] = {10, 20, 255}, b[] = {5, 0, 255}, za = 10, zb = 0, zy = 3;
    const float sa = 0.5f, sb = 2.0f, sy = 1.0f;
    qb_graph *graph = new_graph();
    int32_t in[8] = {
        constant(graph, QB_DTYPE_U8, 3, 0, a),    constant(graph, QB_DTYPE_F32, 0, 0, &sa),
        constant(graph, QB_DTYPE_U8, 0, 0, &za),  constant(graph, QB_DTYPE_U8, 3, 0, b),
        constant(graph, QB_DTYPE_F32, 0, 0, &sb), constant(graph, QB_DTYPE_U8, 0, 0, &zb),
        constant(graph, QB_DTYPE_F32, 0, 0, &sy), constant(graph, QB_DTYPE_U8, 0, 0, &zy)};
    const qb_value *y = result_of(graph, "QLinearAdd", "com.microsoft", in, 8);
    const uint8_t expected[] = {0 + 10 + 3, 5 + 0 + 3, 255}; /* the last saturates */
    assert_int_equal(y->dtype, QB_DTYPE_U8);
    assert_memory_equal(y->data, expected, sizeof expected);
    qb_graph_free(graph);
}

static void quantized_product_agrees_in_both_forms(void **state) {
    (void)state;
    /* [1 2] x [[1] [3]] around zero points 128 and 0, scales 0.5 and 0.25, output scale 0.125 */
    const uint8_t a[] = {129, 130}, za = 128, zy = 100;
    const int8_t b[] = {1, 3}, zb = 0;
    const float sa = 0.5f, sb = 0.25f, sy = 0.125f;
    for (int constants = 0; constants < 2; constants++) {
        qb_graph *graph = new_graph();
        int32_t in[8] = {
            constant(graph, QB_DTYPE_U8, 1, 2, a),    constant(graph, QB_DTYPE_F32, 0, 0, &sa),
            constant(graph, QB_DTYPE_U8, 0, 0, &za),  constant(graph, QB_DTYPE_S8, 2, 1, b),
            constant(graph, QB_DTYPE_F32, 0, 0, &sb), constant(graph, QB_DTYPE_S8, 0, 0, &zb),
            constant(graph, QB_DTYPE_F32, 0, 0, &sy), constant(graph, QB_DTYPE_U8, 0, 0, &zy)};
        const void *scale = graph->values[in[1]].data;
        if (!constants) graph->values[in[1]].data = NULL; /* keeps the operator's own form */
        qb_ctx cx;
        qb_ctx_init(&cx);
        int32_t out = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_NONE, NULL);
        const qb_op *op = qb_op_find("QLinearMatMul", "");
        int32_t node = qb_graph_add_node(&cx, graph, op, "", in, 8, &out, 1);
        assert_ok(&cx, op->upgrade(&cx, graph, node, QB_GRAPH_OPSET));
        graph->values[in[1]].data = scale;
        assert_int_equal(strcmp(graph->nodes[node].op->name, "MatMul") == 0, constants);
        assert_ok(&cx, qb_graph_sort(&cx, graph));
        assert_ok(&cx, evaluate_graph(&cx, graph));
        assert_int_equal(*(const uint8_t *)graph->values[out].data, 7 + 100);
        qb_graph_free(graph);
    }
}

/* Q -> QLinearConv -> DQ, written and read again, is one Conv on quantized values. */
static void quantized_conv_becomes_a_conv_on_quantized_values(void **state) {
    (void)state;
    const float sx = 0.5f, sw[] = {0.25f, 0.5f}, sy = 1.0f;
    const uint8_t zx = 128, zy = 10;
    const int8_t w[] = {1, -2}, zw[] = {0, 0};
    const int32_t bias[] = {8, 4};
    qb_graph *graph = new_graph(), *back;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_shape image = {.rank = 4, .dim = {1, 1, 2, 2}}, kernel = {.rank = 4, .dim = {2, 1, 1, 1}};
    int32_t x = qb_graph_add_value(&cx, graph, "x", QB_DTYPE_F32, &image), v[3];
    for (int32_t i = 0; i < 3; i++) v[i] = qb_graph_add_value(&cx, graph, "v", QB_DTYPE_NONE, NULL);
    int32_t x_scale = constant(graph, QB_DTYPE_F32, 0, 0, &sx);
    int32_t x_zero = constant(graph, QB_DTYPE_U8, 0, 0, &zx);
    int32_t y_scale = constant(graph, QB_DTYPE_F32, 0, 0, &sy);
    int32_t y_zero = constant(graph, QB_DTYPE_U8, 0, 0, &zy);
    int32_t weight = qb_graph_add_constant(&cx, graph, "w", QB_DTYPE_S8, &kernel, w);
    int32_t conv[9] = {v[0],
                       x_scale,
                       x_zero,
                       weight,
                       constant(graph, QB_DTYPE_F32, 2, 0, sw),
                       constant(graph, QB_DTYPE_S8, 2, 0, zw),
                       y_scale,
                       y_zero,
                       constant(graph, QB_DTYPE_S32, 2, 0, bias)};
    const int32_t quantize[3] = {x, x_scale, x_zero}, dequantize[3] = {v[1], y_scale, y_zero};
    qb_graph_add_node(&cx, graph, qb_op_find("QuantizeLinear", ""), "q", quantize, 3, &v[0], 1);
    qb_graph_add_node(&cx, graph, qb_op_find("QLinearConv", ""), "c", conv, 9, &v[1], 1);
    qb_graph_add_node(&cx, graph, qb_op_find("DequantizeLinear", ""), "d", dequantize, 3, &v[2], 1);
    assert_ok(&cx, qb_graph_add_input(&cx, graph, x));
    assert_ok(&cx, qb_graph_add_output(&cx, graph, v[2]));
    assert_ok(&cx, qb_graph_infer(&cx, graph));
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "m.onnx");
    assert_ok(&cx, qb_onnx_save(&cx, graph, path));
    assert_ok(&cx, qb_onnx_load(&cx, path, &back));
    assert_int_equal(back->n_nodes, 1);
    assert_string_equal(back->nodes[0].op->name, "Conv");
    assert_int_equal(back->values[back->nodes[0].in[0]].q.n, 1);
    assert_int_equal(back->values[back->nodes[0].in[1]].q.n, 2);
    assert_int_equal(back->values[back->nodes[0].in[2]].q.n, 2);
    assert_int_equal(back->values[back->nodes[0].out[0]].q.n, 1);
    assert_true(back->values[back->nodes[0].in[2]].q.scale[1] == sx * sw[1]);
    qb_graph_free(back);
    qb_graph_free(graph);
}

static void training_normalizes_by_the_batch(void **state) {
    (void)state;
    const float x[] = {1.0f, 3.0f}, one = 1.0f, zero = 0.0f;
    qb_graph *graph = new_graph();
    int32_t in[5] = {
        constant(graph, QB_DTYPE_F32, 2, 1, x), constant(graph, QB_DTYPE_F32, 1, 0, &one),
        constant(graph, QB_DTYPE_F32, 1, 0, &zero), constant(graph, QB_DTYPE_F32, 1, 0, &zero),
        constant(graph, QB_DTYPE_F32, 1, 0, &one)};
    qb_ctx cx;
    qb_ctx_init(&cx);
    int32_t out[3];
    for (int32_t i = 0; i < 3; i++)
        out[i] = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_NONE, NULL);
    int32_t node =
        qb_graph_add_node(&cx, graph, qb_op_find("BatchNormalization", ""), "", in, 5, out, 3);
    qb_norm_attrs *attrs = graph->nodes[node].attrs;
    attrs->training_mode = 1, attrs->epsilon = 0.0f, attrs->momentum = 0.75f;
    assert_ok(&cx, evaluate_graph(&cx, graph));
    const float expected[] = {-1.0f, 1.0f}, mean = 0.25f * 2.0f, variance = 0.75f + 0.25f;
    assert_floats(graph->values[out[0]].data, expected, 2, 1e-6f, 0);
    assert_floats(graph->values[out[1]].data, &mean, 1, 1e-6f, 0);
    assert_floats(graph->values[out[2]].data, &variance, 1, 1e-6f, 0);
    qb_graph_free(graph);
}

static void places_outside_the_data_are_errors(void **state) {
    (void)state;
    const float x[] = {1, 2, 3};
    const int64_t bad[] = {3}, worse[] = {-4};
    static const char *const ops[] = {"Gather", "GatherElements", "GatherND"};
    for (size_t i = 0; i < 3; i++)
        for (int low = 0; low < 2; low++) {
            qb_graph *graph = new_graph();
            qb_ctx cx;
            qb_ctx_init(&cx);
            int32_t in[2] = {constant(graph, QB_DTYPE_F32, 3, 0, x),
                             constant(graph, QB_DTYPE_S64, 1, 0, low ? worse : bad)};
            int32_t out = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_NONE, NULL);
            qb_graph_add_node(&cx, graph, qb_op_find(ops[i], ""), "", in, 2, &out, 1);
            assert_fails(&cx, evaluate_graph(&cx, graph), QB_STATUS_INVALID);
            assert_message(&cx, "expected -3 to 2");
            qb_graph_free(graph);
        }
}

/* The image 0 1 / 2 3 between its pixels, half a pixel and more outside, and where no place is, by
 * each way of going on beyond the border. The first coordinate runs along the rows. */
static void grids_read_between_pixels_and_beyond_them(void **state) {
    (void)state;
    static const float grid[] = {0, 0, -0.5f, -0.5f, 1, -0.5f, 1.75f, -0.5f, INFINITY, NAN};
    static const struct {
        const char *attrs;
        float y[5];
    } expected[] = {{"padding_mode=zeros", {1.5f, 0, 0.5f, 0, 0}},
                    {"padding_mode=border", {1.5f, 0, 1, 1, 1}},
                    {"padding_mode=reflection", {1.5f, 0, 1, 0.75f, 1}}};
    for (size_t i = 0; i < 3; i++) {
        qb_graph *graph =
            graph_of("GridSample", "f32:1,1,2,2 f32:1,1,5,2", expected[i].attrs, 1, QB_GRAPH_OPSET);
        const qb_node *node = &graph->nodes[0];
        qb_ctx cx;
        qb_ctx_init(&cx);
        count_up(graph, node->in[0], (qb_shape){.rank = 4, .dim = {1, 1, 2, 2}});
        graph->values[node->in[1]].data = grid;
        graph->values[node->in[1]].bytes = sizeof grid;
        assert_ok(&cx, evaluate_graph(&cx, graph));
        const float *y = graph->values[node->out[0]].data;
        for (int k = 0; k < 5; k++) assert_true(y[k] == expected[i].y[k]);
        qb_graph_free(graph);
    }
}

/* Shifts by the width and more included: they leave 0, or the sign. */
static void bits_and_choices(void **state) {
    (void)state;
    static const struct {
        const char *op, *inputs, *attrs;
        double y[3];
    } cases[] = {
        {"BitShift", "=u8:3,255,1 =u8:7,8,0", "direction=LEFT", {128, 0, 1}},
        {"BitShift", "=s32:-5,7,-1 =s32:1,40,40", "direction=RIGHT", {-3, 0, -1}},
        {"BitwiseAnd", "=s32:6,-1,9 =s32:3", "", {2, 3, 1}},
        {"BitwiseOr", "=u8:6,0,9 =u8:3", "", {7, 3, 11}},
        {"BitwiseXor", "=s32:6,-1,9 =s32:3", "", {5, -4, 10}},
        {"BitwiseNot", "=u8:0,200,255", "", {255, 55, 0}},
        {"Hardmax", "=f32:2,5,5", "", {0, 1, 0}},
        {"Shrink", "=f32:-2,0.25,1", "lambd=0.5 bias=0.25", {-1.75, 0, 0.75}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_graph *graph = graph_of(cases[i].op, cases[i].inputs, cases[i].attrs, 1, QB_GRAPH_OPSET);
        qb_ctx cx;
        qb_ctx_init(&cx);
        assert_ok(&cx, evaluate_graph(&cx, graph));
        const qb_value *y = &graph->values[graph->nodes[0].out[0]];
        for (int k = 0; k < 3; k++)
            assert_true(qb_number_get(y->dtype, y->data, k) == cases[i].y[k]);
        qb_graph_free(graph);
    }
}

/* Data of a value, which outlive its graph. */
static void give(qb_graph *graph, int32_t value, const void *data, size_t bytes) {
    graph->values[value].data = data;
    graph->values[value].bytes = bytes;
}

/* The spectrum of numbers of one or two parts by its definition, `inner` apart. */
static void expect_spectrum(const float *x, int parts, const float *y, int64_t n, int64_t inner,
                            bool inverse) {
    for (int64_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; j++) {
            const double angle = 2 * M_PI * (double)(j * k % n) / (double)n * (inverse ? 1 : -1);
            const double a = (double)x[parts * j * inner];
            const double b = parts == 2 ? (double)x[parts * j * inner + 1] : 0;
            re += a * cos(angle) - b * sin(angle);
            im += a * sin(angle) + b * cos(angle);
        }
        const double scale = inverse ? 1.0 / (double)n : 1.0;
        assert_true(fabs((double)y[2 * k * inner] - re * scale) < 1e-5);
        assert_true(fabs((double)y[2 * k * inner + 1] - im * scale) < 1e-5);
    }
}

/* Reals and complex numbers: one, primes, powers of two and others; more lines than go together,
 * apart from each other and side by side. */
static void spectra_of_any_length_are_sums(void **state) {
    (void)state;
    enum { MOST = 101, LINES = 11 };
    static float x[MOST * LINES * 2];
    static const int64_t lengths[] = {1, 2, 3, 4, 6, 8, 25, 30, 49, 64, 97, 100, 101};
    qb_rng rng;
    qb_rng_seed(&rng, 7);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(qb_rng_uniform(&rng) - 0.5);
    for (size_t i = 0; i < 8 * (sizeof lengths / sizeof *lengths); i++) {
        const int64_t n = lengths[i / 8];
        const bool inverse = i % 2, inside = i / 2 % 2;
        const int parts = 1 + (int)(i / 4 % 2);
        char inputs[64];
        snprintf(inputs, sizeof inputs, inside ? "f32:1,%d,11,%d - =1" : "f32:11,%d,1,%d - =1",
                 (int)n, parts);
        qb_graph *graph = graph_of("DFT", inputs, inverse ? "inverse=1" : "", 1, QB_GRAPH_OPSET);
        qb_ctx cx;
        qb_ctx_init(&cx);
        give(graph, graph->nodes[0].in[0], x, (size_t)(n * LINES * parts) * sizeof *x);
        assert_ok(&cx, evaluate_graph(&cx, graph));
        const float *y = graph->values[graph->nodes[0].out[0]].data;
        for (int64_t l = 0; l < LINES; l++) {
            const int64_t at = inside ? l : l * n;
            expect_spectrum(x + parts * at, parts, y + 2 * at, n, inside ? LINES : 1, inverse);
        }
        qb_graph_free(graph);
    }
}

/* Runs of one scale longer than a piece, scales that are none, and what is no number. */
static void long_runs_are_quantized_one_by_one(void **state) {
    (void)state;
    enum { N = 600 };
    static float x[2 * N];
    static const float scales[] = {0.01f, INFINITY};
    qb_rng rng;
    qb_rng_seed(&rng, 8);
    for (int i = 0; i < 2 * N; i++) x[i] = ((float)(qb_rng_uniform(&rng) - 0.5)) * 1000;
    x[3] = NAN, x[5] = -INFINITY, x[7] = INFINITY, x[N + 1] = -INFINITY;
    static const struct {
        const char *inputs;
        qb_dtype dtype;
        int32_t zero;
    } cases[] = {{"f32:2,600 f32:2 =u8:3,3", QB_DTYPE_U8, 3},
                 {"f32:2,600 f32:2 =s8:-5,-5", QB_DTYPE_S8, -5},
                 {"f32:2,600 f32:2 =u16:30000,30000", QB_DTYPE_U16, 30000},
                 {"f32:2,600 f32:2 =s16:-9,-9", QB_DTYPE_S16, -9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_graph *graph = graph_of("QuantizeLinear", cases[i].inputs, "axis=0", 1, QB_GRAPH_OPSET);
        qb_ctx cx;
        qb_ctx_init(&cx);
        give(graph, graph->nodes[0].in[0], x, sizeof x);
        give(graph, graph->nodes[0].in[1], scales, sizeof scales);
        assert_ok(&cx, evaluate_graph(&cx, graph));
        const void *q = graph->values[graph->nodes[0].out[0]].data;
        for (int k = 0; k < 2 * N; k++)
            assert_int_equal((int)qb_number_get(cases[i].dtype, q, k),
                             qb_quantize_value(x[k], scales[k / N], cases[i].zero, cases[i].dtype));
        qb_graph_free(graph);
    }
}

/* One of MatMulInteger's matrices with its zero points. */
typedef struct quantized_matrix {
    qb_dtype dtype;
    int64_t batch, rows, columns, n_zero; /* batch 0: two dimensions; n_zero 0: none */
    uint8_t *data, *zero;
} quantized_matrix;

static quantized_matrix random_quantized(qb_rng *rng, int64_t batch, int64_t rows, int64_t columns,
                                         int64_t n_zero) {
    quantized_matrix x = {
        qb_rng_below(rng, 2) ? QB_DTYPE_U8 : QB_DTYPE_S8, batch, rows, columns, n_zero, NULL, NULL};
    const size_t n = (size_t)((batch ? batch : 1) * rows * columns);
    x.data = malloc(n + 1);
    x.zero = malloc((size_t)n_zero + 1);
    assert_true(x.data && x.zero);
    for (size_t i = 0; i < n; i++) x.data[i] = (uint8_t)qb_rng_below(rng, 256);
    for (int64_t i = 0; i < n_zero; i++) x.zero[i] = (uint8_t)qb_rng_below(rng, 256);
    return x;
}

static int32_t signed_code(const quantized_matrix *x, uint8_t code) {
    return x->dtype == QB_DTYPE_U8 ? code : (int8_t)code;
}

static int32_t code_less_zero(const quantized_matrix *x, int64_t b, int64_t r, int64_t c) {
    const int64_t at = ((x->batch > 1 ? b : 0) * x->rows + r) * x->columns + c;
    const int32_t zero = x->n_zero == 0 ? 0 : signed_code(x, x->zero[x->n_zero > 1 ? c : 0]);
    return signed_code(x, x->data[at]) - zero;
}

static int32_t matrix_constant(qb_graph *graph, const quantized_matrix *x) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_shape flat = {.rank = 2, .dim = {x->rows, x->columns}},
                   deep = {.rank = 3, .dim = {x->batch, x->rows, x->columns}};
    return qb_graph_add_constant(&cx, graph, "c", x->dtype, x->batch ? &deep : &flat, x->data);
}

static void product_is_exact(qb_rng *rng, quantized_matrix a, quantized_matrix b) {
    const int64_t batch = a.batch > b.batch ? a.batch : b.batch, m = a.rows, n = b.columns;
    qb_graph *graph = new_graph();
    int32_t in[4] = {matrix_constant(graph, &a), matrix_constant(graph, &b), -1, -1};
    if (a.n_zero) in[2] = constant(graph, a.dtype, qb_rng_below(rng, 2) ? 1 : 0, 0, a.zero);
    if (b.n_zero) in[3] = constant(graph, b.dtype, b.n_zero > 1 ? b.n_zero : 0, 0, b.zero);
    const qb_value *y = result_of(graph, "MatMulInteger", "", in, 4);
    const int32_t *got = y->data;
    for (int64_t i = 0; i < (batch ? batch : 1); i++)
        for (int64_t r = 0; r < m; r++)
            for (int64_t c = 0; c < n; c++) {
                uint32_t sum = 0;
                for (int64_t k = 0; k < a.columns; k++)
                    sum += (uint32_t)(code_less_zero(&a, i, r, k) * code_less_zero(&b, i, k, c));
                assert_int_equal((uint32_t)*got++, sum);
            }
    qb_graph_free(graph);
    free(a.data), free(a.zero), free(b.data), free(b.zero);
}

/* com.microsoft's product with scales: the sums less zero points, times both, and a bias. */
static void integers_become_floats(void **state) {
    (void)state;
    const uint8_t a[] = {10, 20, 30, 200}, a_zero = 5;
    const int8_t b[] = {1, -2, 3, 4, -5, 6}, b_zero[] = {0, 1, -1};
    const float a_scale = 0.1f, b_scale[] = {0.5f, 0.25f, 3.0f}, bias[] = {1, 2, 1e-3f};
    qb_graph *graph = new_graph();
    const int32_t all[7] = {
        constant(graph, QB_DTYPE_U8, 2, 2, a),         constant(graph, QB_DTYPE_S8, 2, 3, b),
        constant(graph, QB_DTYPE_F32, 0, 0, &a_scale), constant(graph, QB_DTYPE_F32, 3, 0, b_scale),
        constant(graph, QB_DTYPE_U8, 0, 0, &a_zero),   constant(graph, QB_DTYPE_S8, 3, 0, b_zero),
        constant(graph, QB_DTYPE_F32, 3, 0, bias)};
    for (int n = 4; n <= 7; n++) {
        const char *op = "MatMulIntegerToFloat";
        const float *y = result_as(graph, op, "com.microsoft", all, n, false)->data;
        const float *read = result_of(graph, op, "com.microsoft", all, n)->data;
        for (int i = 0; i < 6; i++) {
            int32_t sum = 0;
            for (int k = 0; k < 2; k++)
                sum += (a[i / 3 * 2 + k] - (n > 4 ? a_zero : 0)) *
                       (b[k * 3 + i % 3] - (n > 5 ? b_zero[i % 3] : 0));
            const float scale = a_scale * b_scale[i % 3], f32 = (float)sum * scale;
            assert_true(y[i] == (n > 6 ? f32 + bias[i % 3] : f32));
            assert_true(fabsf(read[i] - y[i]) <= 1e-4f); /* sums of floats up to 600 */
        }
    }
    qb_graph_free(graph);
}

/* Of 8-bit integers: sums of 32 bits, modulo 2^32, whatever the sizes and zero points. */
static void products_of_codes_are_exact(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 41);
    for (int i = 0; i < 120; i++) {
        const int64_t m = 1 + (int64_t)qb_rng_below(&rng, 11),
                      n = 1 + (int64_t)qb_rng_below(&rng, 37), k = (int64_t)qb_rng_below(&rng, 70),
                      lead = (int64_t)qb_rng_below(&rng, 4);
        const int64_t left = lead == 0 ? 0 : lead == 1 ? 3 : 1 + 2 * (lead == 2);
        const int64_t right = lead < 2 ? 0 : lead == 2 ? 3 : 4;
        quantized_matrix a = random_quantized(&rng, left, m, k, (int64_t)qb_rng_below(&rng, 2));
        const bool by_column = right == 0 && n > 1 && qb_rng_below(&rng, 2);
        const int64_t n_zero = by_column ? n : (int64_t)qb_rng_below(&rng, 2);
        product_is_exact(&rng, a, random_quantized(&rng, right, k, n, n_zero));
    }
    enum { LONG = 70000 }; /* so many that sums wrap */
    quantized_matrix a = random_quantized(&rng, 0, 1, LONG, 0),
                     b = random_quantized(&rng, 0, LONG, 1, 0);
    a.dtype = QB_DTYPE_U8, b.dtype = QB_DTYPE_S8;
    memset(a.data, 255, LONG);
    memset(b.data, 128, LONG);
    product_is_exact(&rng, a, b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(integers_stay_exact_beyond_2_to_53),
    cmocka_unit_test(halves_are_rounded_once),
    cmocka_unit_test(quantized_add_is_the_real_sum_rounded),
    cmocka_unit_test(quantized_product_agrees_in_both_forms),
    cmocka_unit_test(quantized_conv_becomes_a_conv_on_quantized_values),
    cmocka_unit_test(training_normalizes_by_the_batch),
    cmocka_unit_test(places_outside_the_data_are_errors),
    cmocka_unit_test(grids_read_between_pixels_and_beyond_them),
    cmocka_unit_test(bits_and_choices),
    cmocka_unit_test(spectra_of_any_length_are_sums),
    cmocka_unit_test(long_runs_are_quantized_one_by_one),
    cmocka_unit_test(integers_become_floats),
    cmocka_unit_test(products_of_codes_are_exact),
};
QB_TEST_MAIN(tests)

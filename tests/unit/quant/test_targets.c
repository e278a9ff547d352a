/* The forms that runtimes want, on graphs small enough to read. */
#include "graph/fusion.h"
#include "small_graph.h"

#include <math.h>
#include <string.h>

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static const qb_target *target(const char *name) {
    qb_ctx cx;
    const qb_target *found = NULL;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_target_find(&cx, name, &found));
    return found;
}

static void quantize_for(small *s, const char *name) {
    small_quantize(s, &(qb_quant_options){.target = target(name)});
}

static const qb_node *node(const small *s, const char *name) {
    for (int32_t i = 0; i < s->quantized->n_nodes; i++)
        if (strcmp(s->quantized->nodes[i].name, name) == 0) return &s->quantized->nodes[i];
    return NULL;
}

/* x -> c1 -> a (Relu) -> c2 -> sum with a -> r (Relu) -> pool -> flat -> y (Gemm) */
static void residual_network(small *s) {
    static const float bias[] = {0.5f, 0};
    small_init(s);
    int32_t x = small_input(s, "x", "1x2x4x4");
    int32_t w = small_constant(s, "w", "2x2x1x1", ones), b = small_constant(s, "b", "2", bias);
    int32_t a = NODE(s, "Relu", "a", NODE(s, "Conv", "c1", x, w, b));
    int32_t r = NODE(s, "Relu", "r", NODE(s, "Add", "sum", NODE(s, "Conv", "c2", a, w, b), a));
    int32_t flat = NODE(s, "Flatten", "flat", NODE(s, "GlobalAveragePool", "pool", r));
    small_output(s, NODE(s, "Gemm", "y", flat, small_constant(s, "g", "2x2", ones)));
    small_range(s, "x", -1, 1.54f);
    small_range(s, "a", 0, 2.54f);
    small_range(s, "c2", -1, 1.55f);
    small_range(s, "r", 0, 5.08f);
    small_range(s, "pool", 0, 5.08f);
    small_range(s, "flat", 0, 5.08f);
}

static void tensorrt_reads_symmetric_inputs_and_float_biases(void **state) {
    (void)state;
    static const char *const names[] = {"trt", "ort-cuda"};
    for (int i = 0; i < 2; i++) {
        small s;
        residual_network(&s);
        quantize_for(&s, names[i]);
        expect_params(&s, "x", QB_DTYPE_S8, 1.54 / 127, 0);
        expect_params(&s, "a", QB_DTYPE_S8, 0.02, 0);
        expect_float(&s, "c2"); /* the residual's other branch: fuses with the sum */
        expect_float(&s, "sum");
        expect_params(&s, "r", QB_DTYPE_S8, 0.04, 0);
        expect_float(&s, "y");
        expect_float(&s, "b");
        assert_true(node(&s, "a") && node(&s, "r")); /* both Relu stay */
        assert_int_equal(small_value(&s, "w_quantized")->q.n, 2);
        small_release(&s);
    }
}

static void openvino_reads_unsigned_inputs_and_float_biases(void **state) {
    (void)state;
    small s;
    residual_network(&s);
    quantize_for(&s, "openvino");
    expect_params(&s, "x", QB_DTYPE_U8, 2.54 / 255, 100);
    expect_params(&s, "a", QB_DTYPE_U8, 2.54 / 255, 0);
    expect_float(&s, "c2"); /* the residual's other branch: fuses with the sum */
    expect_float(&s, "sum");
    expect_params(&s, "r", QB_DTYPE_U8, 5.08 / 255, 0);
    expect_float(&s, "y");
    expect_float(&s, "b");
    assert_true(node(&s, "a") && node(&s, "r"));
    assert_int_equal(small_value(&s, "w_quantized")->q.n, 2);
    small_release(&s);
}

static void onnxruntime_reads_and_makes_integers_everywhere(void **state) {
    (void)state;
    small s;
    residual_network(&s);
    quantize_for(&s, "ort-cpu");
    expect_params(&s, "x", QB_DTYPE_U8, 0.00996078, 100);
    expect_params(&s, "a", QB_DTYPE_U8, 2.54 / 255, 0);
    expect_params(&s, "c2", QB_DTYPE_U8, 0.01, 100);
    assert_int_equal(small_value(&s, "b_quantized")->dtype, QB_DTYPE_S32);
    assert_null(node(&s, "a")); /* quantized values from 0 clamp by themselves */
    assert_null(node(&s, "r"));
    assert_string_equal(s.quantized->values[node(&s, "c1")->out[0]].name, "a");
    assert_string_equal(s.quantized->values[node(&s, "sum")->out[0]].name, "r");
    small_release(&s);
}

/* The ranges above end on bins of a histogram: half of all sums of a and c2 would lie exactly
 * between two quantized values of r. */
static void sums_of_codes_do_not_lie_between_codes(void **state) {
    (void)state;
    small s;
    residual_network(&s);
    quantize_for(&s, "ort-cpu");
    const double a = small_value(&s, "a")->q.scale[0], c2 = small_value(&s, "c2")->q.scale[0];
    const double r = small_value(&s, "r")->q.scale[0], plain = 5.08 / 255;
    assert_true(r > plain && r < plain * (1 + 1.0 / 2048 + 1e-6));
    int32_t between = 0;
    for (int32_t i = 0; i < 256; i++)
        for (int32_t j = -100; j < 156; j++) {
            const double code = (i * a + j * c2) / r;
            between += fabs(fabs(code - trunc(code)) - 0.5) < 1e-4;
        }
    assert_in_range(between, 0, 65); /* of 65,536; by chance 13 */
    small_release(&s);
}

/* A Relu whose output shares its quantized values with a signed tensor has work to do. */
static void a_clamp_that_codes_do_not_imply_stays(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    int32_t a = NODE(&s, "Relu", "a", NODE(&s, "Conv", "c1", x, w));
    int32_t cat = NODE(&s, "Concat", "cat", a, NODE(&s, "Conv", "c2", x, w));
    ((qb_axis_attrs *)small_attrs(&s))->axis = 1;
    small_output(&s, NODE(&s, "Conv", "y", cat, small_constant(&s, "v", "2x4x1x1", ones)));
    small_range(&s, "x", 0, 1);
    small_range(&s, "a", 0, 1.55f);
    small_range(&s, "c2", -1, 1);
    small_range(&s, "cat", -1, 1.55f);
    small_range(&s, "y", -1, 1.55f);
    quantize_for(&s, "ort-cpu");
    assert_non_null(node(&s, "a"));
    expect_params(&s, "c1", QB_DTYPE_U8, 0.01, 100);
    expect_params(&s, "a", QB_DTYPE_U8, 0.01, 100);
    expect_params(&s, "y", QB_DTYPE_U8, 0.01, 100); /* though it is the graph's output */
    small_release(&s);
}

static void clips_are_implied_up_to_their_bounds(void **state) {
    (void)state;
    static const float low[] = {0}, six[] = {6};
    static const struct {
        float hi;
        bool stays;
    } rows[] = {{6, false}, {4, false}, {6.1f, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small s;
        small_init(&s);
        int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
        int32_t c = NODE(&s, "Conv", "c", x, w);
        int32_t lo = qb_graph_add_constant(&s.cx, s.graph, "lo", QB_DTYPE_F32, &(qb_shape){0}, low);
        int32_t hi = qb_graph_add_constant(&s.cx, s.graph, "hi", QB_DTYPE_F32, &(qb_shape){0}, six);
        int32_t clip = NODE(&s, "Clip", "clip", c, lo, hi);
        small_output(&s, NODE(&s, "Conv", "y", clip, w));
        small_range(&s, "x", 0, 1);
        small_range(&s, "clip", 0, rows[i].hi);
        small_range(&s, "y", 0, 1);
        quantize_for(&s, "ort-cpu");
        assert_true((node(&s, "clip") != NULL) == rows[i].stays);
        expect_params(&s, "clip", QB_DTYPE_U8, (double)rows[i].hi / 255, 0);
        small_release(&s);
    }
}

/* A gate that qbench computes through a table of quantized values. */
static void functions_stay_float_for_tensorrt(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    int32_t a = NODE(&s, "Conv", "a", x, w);
    int32_t gate = NODE(&s, "Sigmoid", "gate", NODE(&s, "GlobalAveragePool", "mean", a));
    small_output(&s, NODE(&s, "Conv", "y", NODE(&s, "Mul", "mul", a, gate), w));
    static const char *const names[] = {"x", "a", "mul", "mean", "gate"};
    for (int i = 0; i < 5; i++) small_range(&s, names[i], -1, 1);
    quantize_for(&s, "trt");
    for (int i = 0; i < 3; i++) expect_params(&s, names[i], QB_DTYPE_S8, 1.0 / 127, 0);
    expect_float(&s, "mean");
    expect_float(&s, "gate");
    small_quantize(&s, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(small_value(&s, names[i])->q.n, 1);
    small_release(&s);
}

static void layers_without_a_range_stay_float_on_request(void **state) {
    (void)state;
    small s;
    residual_network(&s);
    s.table->n_entries--; /* "x", the last by name */
    qb_graph *out = NULL;
    assert_ok(&s.cx, qb_graph_infer(&s.cx, s.graph));
    qb_quant_options options = {.target = target("trt")};
    assert_int_equal(qb_quantize(&s.cx, s.graph, s.table, &options, &out, NULL),
                     QB_STATUS_MISMATCH);
    assert_non_null(strstr(s.cx.message, "'x'"));
    options.missing_stays_float = true;
    small_quantize(&s, &options);
    expect_float(&s, "x");
    expect_params(&s, "a", QB_DTYPE_S8, 0.02, 0);
    assert_int_equal(s.report.quantized, 2);
    assert_int_equal(s.report.kept_float, 1);
    s.table->n_entries++;
    small_release(&s);
}

/* Two convolutions that are added: whichever does not take the sum in, both are kept. */
static void every_operand_of_a_sum_is_kept(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    int32_t a = NODE(&s, "Conv", "a", x, w), b = NODE(&s, "Conv", "b", x, w);
    int32_t sum = NODE(&s, "Add", "sum", a, b);
    small_output(&s, NODE(&s, "Relu", "r", sum));
    assert_ok(&s.cx, qb_graph_infer(&s.cx, s.graph));
    assert_ok(&s.cx, qb_keep_inner(&s.cx, s.graph));
    assert_true(s.graph->values[a].kept && s.graph->values[b].kept);
    assert_false(s.graph->values[sum].kept);
    small_release(&s);
}

/* While sizes are open nobody knows that the operands of a sum have one shape; once they are known
 * a convolution could take it in, and a value that has a scale by then would be gone. */
static void what_open_sizes_keep_apart_stays_apart(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    s.graph->values[x].shape.dim[2] = -1;
    int32_t a = NODE(&s, "Conv", "a", x, w), b = NODE(&s, "Conv", "b", x, w);
    small_output(&s, NODE(&s, "Add", "sum", a, b));
    assert_ok(&s.cx, qb_graph_infer(&s.cx, s.graph));
    assert_ok(&s.cx, qb_keep_inner(&s.cx, s.graph));
    const qb_shape shape = {.rank = 4, .dim = {1, 2, 4, 4}};
    qb_graph *bound;
    qb_groups groups;
    assert_ok(&s.cx, qb_graph_bind(&s.cx, s.graph, &shape, &bound));
    assert_ok(&s.cx, qb_fuse(&s.cx, bound, &groups));
    assert_int_equal(groups.n, 3);
    qb_groups_release(&groups);
    qb_graph_free(bound);
    small_release(&s);
}

/* Scales of both would have a product that no float holds. */
static void a_layer_without_a_signal_has_a_bias_scale(void **state) {
    (void)state;
    static const float none[2] = {0}, faint[4] = {1e-18f, 1e-18f, 1e-18f, 1e-18f};
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", faint);
    small_output(&s, NODE(&s, "Conv", "y", x, w, small_constant(&s, "b", "2", none)));
    small_range(&s, "x", 0, 1e-30f);
    small_range(&s, "y", 0, 1e-30f);
    quantize_for(&s, "ort-cpu");
    assert_true(small_value(&s, "b_quantized")->q.scale[0] > 0);
    small_release(&s);
}

/* Two convolutions whose sum no group takes in while sizes are open: the runtime fuses the later.
 */
static void one_operand_of_an_open_sum_stays_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    s.graph->values[x].shape.dim[2] = -1;
    int32_t b = NODE(&s, "Conv", "b", x, w), a = NODE(&s, "Conv", "a", x, w);
    small_output(&s, NODE(&s, "Conv", "y", NODE(&s, "Add", "sum", a, b), w));
    static const char *const names[] = {"x", "a", "b", "sum", "y"};
    for (int i = 0; i < 5; i++) small_range(&s, names[i], -1, 1);
    quantize_for(&s, "trt");
    expect_params(&s, "b", QB_DTYPE_S8, 1.0 / 127, 0);
    expect_float(&s, "a");
    quantize_for(&s, "ort-cpu");
    assert_int_equal(small_value(&s, "a")->q.n, 1);
    assert_int_equal(small_value(&s, "b")->q.n, 1);
    small_release(&s);
}

/* A position embedding that is made from the input's shape: calibration saw a constant. */
static void what_shapes_alone_make_stays_float(void **state) {
    (void)state;
    small s;
    small_init(&s);
    int32_t x = small_input(&s, "x", "1x2x4x4"), w = small_constant(&s, "w", "2x2x1x1", ones);
    s.graph->values[x].shape.dim[0] = -1;
    int32_t zeros = NODE(&s, "ConstantOfShape", "zeros", NODE(&s, "Shape", "shape", x));
    int32_t wave = NODE(&s, "Cos", "wave", zeros), p = NODE(&s, "Conv", "p", wave, w);
    int32_t sum = NODE(&s, "Add", "sum", NODE(&s, "Conv", "c", x, w), p);
    small_output(&s, NODE(&s, "Conv", "y", sum, w));
    static const char *const names[] = {"x", "c", "sum", "y"};
    for (int i = 0; i < 4; i++) small_range(&s, names[i], -1, 1);
    quantize_for(&s, "ort-cpu");
    expect_float(&s, "wave");
    expect_float(&s, "p");
    assert_int_equal(small_value(&s, "sum")->q.n, 1);
    assert_int_equal(s.report.quantized, 2);
    assert_int_equal(s.report.kept_float, 1);
    small_release(&s);
}

static void unknown_targets_list_the_known_ones(void **state) {
    (void)state;
    qb_ctx cx;
    const qb_target *found;
    qb_ctx_init(&cx);
    assert_int_equal(qb_target_find(&cx, "tpu", &found), QB_STATUS_USAGE);
    assert_string_equal(cx.message,
                        "unknown target 'tpu': expected one of trt, ort-cpu, ort-cuda, openvino");
    assert_ok(&cx, qb_target_find(&cx, "tensorrt", &found));
    assert_string_equal(found->name, "trt");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tensorrt_reads_symmetric_inputs_and_float_biases),
    cmocka_unit_test(openvino_reads_unsigned_inputs_and_float_biases),
    cmocka_unit_test(sums_of_codes_do_not_lie_between_codes),
    cmocka_unit_test(onnxruntime_reads_and_makes_integers_everywhere),
    cmocka_unit_test(a_clamp_that_codes_do_not_imply_stays),
    cmocka_unit_test(clips_are_implied_up_to_their_bounds),
    cmocka_unit_test(functions_stay_float_for_tensorrt),
    cmocka_unit_test(layers_without_a_range_stay_float_on_request),
    cmocka_unit_test(every_operand_of_a_sum_is_kept),
    cmocka_unit_test(what_open_sizes_keep_apart_stays_apart),
    cmocka_unit_test(what_shapes_alone_make_stays_float),
    cmocka_unit_test(one_operand_of_an_open_sum_stays_float),
    cmocka_unit_test(a_layer_without_a_signal_has_a_bias_scale),
    cmocka_unit_test(unknown_targets_list_the_known_ones),
};

QB_TEST_MAIN(tests)

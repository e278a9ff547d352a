/* The rules of `qbench check`: models that keep them all, and for each rule one that breaks it. */
#include "quant/check.h"
#include "small_graph.h"

#include <math.h>
#include <string.h>

/* One convolution x -> Q -> DQ -> Conv -> Relu, with a weight and a bias. */
typedef struct plan {
    int32_t opset;
    qb_dtype codes;
    int zero;
    float scale;
    int scales; /* on the activation */
    bool computed_scale, no_zero_point;
    bool float_weight, float_data, no_pairs, scalar_weight, pair_before_relu, integer_operator;
    int axis; /* of the weight's scales */
    qb_dtype bias;
    float bias_scale;
    bool output; /* Q/DQ behind the Relu */
    qb_dtype output_quantized;
    int output_zero;
} plan;

static const plan trt = {
    .opset = 17, .codes = QB_DTYPE_S8, .scale = 0.1f, .bias = QB_DTYPE_F32, .bias_scale = 0.01f};
static const plan ort = {.opset = 17,
                         .codes = QB_DTYPE_U8,
                         .scale = 0.1f,
                         .bias = QB_DTYPE_S32,
                         .bias_scale = 0.01f,
                         .output = true,
                         .output_quantized = QB_DTYPE_U8};

static int32_t constant(small *s, const char *name, qb_dtype dtype, qb_shape shape,
                        const void *data) {
    return qb_graph_add_constant(&s->cx, s->graph, name, dtype, &shape, data);
}

static int32_t scales(small *s, float value, int n) {
    const float data[2] = {value, value};
    return constant(s, "scale", QB_DTYPE_F32, n == 1 ? (qb_shape){0} : qb_shape_of(1, n), data);
}

static int32_t zeros(small *s, qb_dtype dtype, int value, int n) {
    const int8_t bytes[2] = {(int8_t)value, (int8_t)value};
    return constant(s, "zero", dtype, n == 1 ? (qb_shape){0} : qb_shape_of(1, n), bytes);
}

static void set_axis(small *s, int axis) {
    *(int64_t *)small_attrs(s) = axis; /* the first attribute of Q and DQ */
}

static int32_t pair(small *s, const char *name, int32_t x, const plan *p, qb_dtype dtype,
                    int zero) {
    char q[32], dq[32];
    snprintf(q, sizeof q, "%s_q", name);
    snprintf(dq, sizeof dq, "%s_dq", name);
    int32_t scale = scales(s, p->scale, p->scales ? p->scales : 1);
    if (p->computed_scale) scale = NODE(s, "Abs", "computed", scale);
    if (p->no_zero_point)
        return NODE(s, "DequantizeLinear", dq, NODE(s, "QuantizeLinear", q, x, scale), scale);
    const int32_t z = zeros(s, dtype, zero, p->scales ? p->scales : 1);
    return NODE(s, "DequantizeLinear", dq, NODE(s, "QuantizeLinear", q, x, scale, z), scale, z);
}

static int32_t weight(small *s, const plan *p) {
    static const int8_t codes[12] = {1, 2, 3};
    static const float real[12] = {1, 2, 3};
    const qb_shape shape = qb_shape_of(4, 2, 2, 1, 3);
    if (p->float_weight) return constant(s, "w", QB_DTYPE_F32, shape, real);
    if (p->scalar_weight)
        return NODE(s, "DequantizeLinear", "w_dq",
                    constant(s, "w", QB_DTYPE_S8, (qb_shape){0}, codes), scales(s, 0.1f, 1),
                    zeros(s, QB_DTYPE_S8, 0, 1));
    const int32_t w =
        NODE(s, "DequantizeLinear", "w_dq", constant(s, "w", QB_DTYPE_S8, shape, codes),
             scales(s, 0.1f, 2), zeros(s, QB_DTYPE_S8, 0, 2));
    set_axis(s, p->axis);
    return w;
}

static int32_t bias(small *s, const plan *p) {
    static const int32_t codes[2] = {100, -100};
    static const float real[2] = {1, -1};
    if (p->bias == QB_DTYPE_F32) return constant(s, "b", QB_DTYPE_F32, qb_shape_of(1, 2), real);
    const int32_t b =
        NODE(s, "DequantizeLinear", "b_dq",
             constant(s, "b", QB_DTYPE_S32, qb_shape_of(1, 2), codes), scales(s, p->bias_scale, 2));
    set_axis(s, 0);
    return b;
}

static void build(small *s, const plan *p) {
    small_init(s);
    s->graph->opset = p->opset;
    int32_t x = small_input(s, "x", "1x2x4x4");
    if (p->no_pairs) {
        small_output(s, NODE(s, "Relu", "r", x));
        return;
    }
    if (!p->float_data) x = pair(s, "x", x, p, p->codes, p->zero);
    int32_t y = NODE(s, "Conv", "conv", x, weight(s, p), bias(s, p));
    if (p->pair_before_relu) y = pair(s, "c", y, p, p->codes, 0);
    y = NODE(s, "Relu", "r", y);
    if (p->output) y = pair(s, "r", y, p, p->output_quantized, p->output_zero);
    if (p->integer_operator)
        y = NODE(s, "ConvInteger", "ci", y, constant(s, "k", QB_DTYPE_S8, (qb_shape){0}, "k"));
    small_output(s, y);
}

static qb_findings check(small *s, const char *name) {
    const qb_target *target;
    qb_findings found;
    assert_ok(&s->cx, qb_target_find(&s->cx, name, &target));
    assert_ok(&s->cx, qb_check(&s->cx, s->graph, target, &found));
    return found;
}

static void models_that_keep_the_rules(void **state) {
    (void)state;
    static const struct {
        const char *target;
        const plan *plan;
    } rows[] = {{"trt", &trt}, {"ort-cuda", &trt}, {"ort-cpu", &ort}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small s;
        build(&s, rows[i].plan);
        qb_findings found = check(&s, rows[i].target);
        if (found.n) fail_msg("%s: %s %s", rows[i].target, found.item[0].rule, found.item[0].what);
        qb_findings_release(&found);
        small_release(&s);
    }
}

/* Exactly the expected rule is broken, at the expected node. */
static void expect_finding(small *s, const char *target, const char *rule, const char *node) {
    qb_findings found = check(s, target);
    if (found.n != 1 || strcmp(found.item[0].rule, rule) || strcmp(found.item[0].node, node))
        fail_msg("%s, %s: %d findings, the first %s at %s; expected %s", target, rule, found.n,
                 found.n ? found.item[0].rule : "-", found.n ? found.item[0].node : "-", node);
    assert_true(*found.item[0].what && *found.item[0].mend);
    qb_findings_release(&found);
}

static void each_rule_finds_what_breaks_it(void **state) {
    (void)state;
    plan p;
    small s;
#define CASE(base, target, rule, node, field, value)                                               \
    do {                                                                                           \
        p = base;                                                                                  \
        p.field = value;                                                                           \
        build(&s, &p);                                                                             \
        expect_finding(&s, target, rule, node);                                                    \
        small_release(&s);                                                                         \
    } while (0)
    CASE(trt, "trt", "nothing-quantized", "the model", no_pairs, true);
    CASE(trt, "trt", "opset", "DequantizeLinear 'w_dq'", opset, 12);
    CASE(trt, "trt", "weight-axis", "DequantizeLinear 'w_dq'", axis, 1);
    CASE(trt, "ort-cuda", "half-quantized", "Conv 'conv'", float_weight, true);
    CASE(trt, "trt", "half-quantized", "Conv 'conv'", float_data, true);
    CASE(trt, "trt", "scalar-data", "DequantizeLinear 'w_dq'", scalar_weight, true);
    CASE(trt, "trt", "split-activation", "Conv 'conv'", pair_before_relu, true);
    CASE(trt, "trt", "integer-operator", "ConvInteger 'ci'", integer_operator, true);
    CASE(trt, "trt", "float-bias", "DequantizeLinear 'b_dq'", bias, QB_DTYPE_S32);
    CASE(ort, "ort-cpu", "integer-bias", "Conv 'conv'", bias, QB_DTYPE_F32);
    CASE(ort, "ort-cpu", "bias-scale", "DequantizeLinear 'b_dq'", bias_scale, 0.011f);
    CASE(ort, "ort-cpu", "layer-output", "Conv 'conv'", output, false);
    CASE(ort, "ort-cpu", "layer-output", "Conv 'conv'", output_zero, 3); /* Relu has work to do */
#undef CASE
}

/* Those that Q and DQ break together. */
static void each_rule_on_pairs_finds_both_nodes(void **state) {
    (void)state;
    struct {
        const char *target, *rule;
        plan plan;
    } rows[] = {{"trt", "zero-point", trt},          {"trt", "signed-codes", trt},
                {"trt", "signed-codes", trt},        {"trt", "positive-scale", trt},
                {"ort-cuda", "constant-scale", trt}, {"trt", "per-tensor-activation", trt}};
    rows[0].plan.zero = 3;
    rows[1].plan.codes = QB_DTYPE_U8;
    rows[2].plan.no_zero_point = true;
    rows[3].plan.scale = -1;
    rows[4].plan.computed_scale = true;
    rows[5].plan.scales = 2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small s;
        build(&s, &rows[i].plan);
        qb_findings found = check(&s, rows[i].target);
        if (found.n != 2 || strcmp(found.item[0].rule, rows[i].rule) ||
            strcmp(found.item[1].rule, rows[i].rule))
            fail_msg("%s: %d findings, the first %s", rows[i].rule, found.n,
                     found.n ? found.item[0].rule : "-");
        assert_string_equal(found.item[0].node, "QuantizeLinear 'x_q'");
        assert_string_equal(found.item[1].node, "DequantizeLinear 'x_dq'");
        qb_findings_release(&found);
        small_release(&s);
    }
}

static void signed_data_do_not_fuse_on_x86(void **state) {
    (void)state;
    plan p = ort;
    small s;
    p.codes = p.output_quantized = QB_DTYPE_S8;
    p.output_zero = -128;
    build(&s, &p);
    expect_finding(&s, "ort-cpu", "unsigned-codes", "Conv 'conv'");
    small_release(&s);
}

/* Two convolutions that are added, with Q/DQ behind both. */
static void a_sum_with_two_quantized_operands(void **state) {
    (void)state;
    small s;
    small_init(&s);
    s.graph->opset = 17;
    int32_t x = pair(&s, "x", small_input(&s, "x", "1x2x4x4"), &trt, QB_DTYPE_S8, 0);
    int32_t a = NODE(&s, "Conv", "a", x, weight(&s, &trt));
    int32_t b = NODE(&s, "Conv", "b", x, weight(&s, &trt));
    int32_t qa = pair(&s, "a", a, &trt, QB_DTYPE_S8, 0),
            qb = pair(&s, "b", b, &trt, QB_DTYPE_S8, 0);
    small_output(&s, NODE(&s, "Add", "sum", qa, qb));
    expect_finding(&s, "trt", "split-sum", "Add 'sum'");
    small_release(&s);
}

static void a_concat_of_two_scales(void **state) {
    (void)state;
    small s;
    plan other = trt;
    other.scale = 0.2f;
    small_init(&s);
    s.graph->opset = 17;
    int32_t x = pair(&s, "x", small_input(&s, "x", "1x2x4x4"), &trt, QB_DTYPE_S8, 0);
    int32_t y = pair(&s, "y", small_input(&s, "y", "1x2x4x4"), &other, QB_DTYPE_S8, 0);
    small_output(&s, NODE(&s, "Concat", "cat", x, y));
    expect_finding(&s, "trt", "concat-scales", "Concat 'cat'");
    small_release(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(models_that_keep_the_rules),
    cmocka_unit_test(each_rule_finds_what_breaks_it),
    cmocka_unit_test(each_rule_on_pairs_finds_both_nodes),
    cmocka_unit_test(signed_data_do_not_fuse_on_x86),
    cmocka_unit_test(a_sum_with_two_quantized_operands),
    cmocka_unit_test(a_concat_of_two_scales),
};

QB_TEST_MAIN(tests)

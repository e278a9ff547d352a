#include <string.h>

#include "cli/settings/precision.h"
#include "engine/backends.h"
#include "qb_test.h"

static qb_precision parse(const char *text, qb_precision before) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_precision_parse(&cx, text, &before));
    return before;
}

static void plain_names_keep_what_the_project_says(void **state) {
    (void)state;
    const qb_precision project = {.activations = QB_SCHEME_S8_AFFINE, .per_tensor_weights = true};
    assert_int_equal(parse("fp32", project).kind, QB_PRECISION_FP32);
    assert_int_equal(parse("fp16", project).kind, QB_PRECISION_FP16);
    assert_int_equal(parse("bf16", project).kind, QB_PRECISION_BF16);
    const qb_precision p = parse("int8", project);
    assert_int_equal(p.kind, QB_PRECISION_INT8);
    assert_string_equal(p.method, "");
    assert_int_equal(p.activations, QB_SCHEME_S8_AFFINE);
    assert_true(p.per_tensor_weights);
}

static void the_best_of_all_takes_what_int8_takes(void **state) {
    (void)state;
    const qb_precision p = parse("best:mse+per-tensor", (qb_precision){0});
    assert_int_equal(p.kind, QB_PRECISION_BEST);
    assert_string_equal(p.method, "mse");
    assert_true(p.per_tensor_weights);
    assert_true(qb_precision_is_quantized(&p));
    qb_build_spec spec;
    const qb_precision on_gpu = {.kind = QB_PRECISION_BEST, .spec = {.backends = "cuda"}},
                       pure = {.kind = QB_PRECISION_INT8, .spec = {.backends = "cuda"}};
    const bool gpus = qb_backends_name_device("cuda"); /* this build knows of them */
    assert_null(qb_precision_spec(&on_gpu, &spec));
    assert_int_equal(spec.float_type, gpus ? QB_DTYPE_F16 : QB_DTYPE_F32);
    assert_false(spec.no_mixed_precision);
    assert_null(qb_precision_spec(&pure, &spec));
    assert_true(spec.no_mixed_precision);
}

static void the_careless_one_has_all_three_parts(void **state) {
    (void)state;
    const qb_precision p = parse("int8:minmax+s8-symmetric+per-tensor", (qb_precision){0});
    assert_int_equal(p.kind, QB_PRECISION_INT8);
    assert_string_equal(p.method, "minmax");
    assert_int_equal(p.activations, QB_SCHEME_S8_SYMMETRIC);
    assert_true(p.per_tensor_weights);
}

static void variants_come_in_any_order_and_without_a_method(void **state) {
    (void)state;
    const qb_precision p =
        parse("int8+per-tensor+u8-affine", (qb_precision){.activations = QB_SCHEME_S8_SYMMETRIC});
    assert_string_equal(p.method, "");
    assert_int_equal(p.activations, QB_SCHEME_U8_AFFINE);
    assert_true(p.per_tensor_weights);
    assert_int_equal(parse("int8+s8-affine", (qb_precision){0}).activations, QB_SCHEME_S8_AFFINE);
}

static void weights_have_a_range(void **state) {
    (void)state;
    const qb_precision p = parse("int8:mse+weights-mse+per-tensor", (qb_precision){0});
    assert_string_equal(p.weights->name, "mse");
    assert_true(p.per_tensor_weights);
    assert_string_equal(parse("int8+weights-minmax", p).weights->name, "minmax");
    assert_string_equal(parse("int8", p).weights->name, "mse"); /* what the project says */
}

static void a_method_may_have_its_own_argument(void **state) {
    (void)state;
    const qb_precision p = parse("int8:percentile:99.9+s8-affine", (qb_precision){0});
    assert_string_equal(p.method, "percentile:99.9");
    assert_int_equal(p.activations, QB_SCHEME_S8_AFFINE);
}

static void a_precision_may_say_where_it_runs(void **state) {
    (void)state;
    const qb_precision project = {.spec.backends = "dnnl"};
    assert_string_equal(parse("fp32", project).spec.backends, "dnnl"); /* what the project says */
    assert_false(parse("fp32", project).placed);
    const qb_precision p = parse("int8:percentile:99.9+per-tensor@cpu,ref", project);
    assert_string_equal(p.method, "percentile:99.9");
    assert_true(p.per_tensor_weights && p.placed);
    assert_string_equal(p.spec.backends, "cpu,ref");
    assert_string_equal(parse("fp32@ref", project).spec.backends, "ref");
    assert_null(parse("int8@cpu", project).spec.backends); /* all that the processor has */
    assert_true(parse("int8@cpu", project).placed);
}

static void files_have_their_own_sign(void **state) {
    (void)state;
    assert_string_equal(qb_precision_where("net@2x.onnx"), "");
    assert_string_equal(qb_precision_where("net@2x.onnx@ref"), "@ref");
    assert_string_equal(qb_precision_where("old/net.qbe@ref"), "@ref");
    assert_string_equal(qb_precision_where("a@b/net.qbe"), "");
    assert_string_equal(qb_precision_where("fp32"), "");
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_precision p = {0};
    assert_ok(&cx, qb_precision_place(&cx, "net@2x.onnx@ref", &p));
    assert_string_equal(p.spec.backends, "ref");
    p = (qb_precision){0};
    assert_ok(&cx, qb_precision_place(&cx, "net@2x.onnx", &p));
    assert_false(p.placed);
}

static void refuse(const char *text, const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_precision p;
    memset(&p, 0x5a, sizeof p);
    const qb_precision before = p;
    assert_fails(&cx, qb_precision_parse(&cx, text, &p), QB_STATUS_USAGE);
    assert_message(&cx, message);
    assert_memory_equal(&p, &before, sizeof p);
}

static void anything_else_is_a_usage_error_that_names_the_word(void **state) {
    (void)state;
    refuse("", "expected fp32");
    refuse("int4", "unknown precision 'int4'");
    refuse("int88", "unknown precision 'int88'");
    refuse("fp32+per-tensor", "unknown precision");
    refuse("fp32:minmax", "unknown precision");
    refuse("int8:", "no method");
    refuse("int8:+per-tensor", "no method");
    refuse("int8+", "unknown variant ''");
    refuse("int8:minmax++per-tensor", "unknown variant ''");
    refuse("int8+symmetric", "unknown variant 'symmetric'");
    refuse("int8+a-word-that-is-longer-than-any-variant-is", "unknown variant 'a-word");
    refuse("int8+per-tensor+per-tensor", "one too many: 'per-tensor'");
    refuse("int8+weights-entropy", "unknown range of weights 'entropy': expected minmax, mse");
    refuse("int8+weights-mse+weights-minmax", "one too many: 'weights-minmax'");
    refuse("fp32@", "fp32@: backend ''");
    refuse("fp32@rfe", "fp32@rfe: backend 'rfe'; did you mean 'ref'?");
    refuse("int8@ref,tpu", "int8@ref,tpu: backend 'tpu'");
    refuse("int4@ref", "unknown precision 'int4'");
    refuse("int8+u8-affine+s8-affine", "one too many: 's8-affine'");
    refuse("int8:a-method-with-a-name-that-is-far-too-long-to-be-one-of-ours", "unknown method");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(plain_names_keep_what_the_project_says),
    cmocka_unit_test(the_best_of_all_takes_what_int8_takes),
    cmocka_unit_test(the_careless_one_has_all_three_parts),
    cmocka_unit_test(variants_come_in_any_order_and_without_a_method),
    cmocka_unit_test(weights_have_a_range),
    cmocka_unit_test(a_method_may_have_its_own_argument),
    cmocka_unit_test(a_precision_may_say_where_it_runs),
    cmocka_unit_test(files_have_their_own_sign),
    cmocka_unit_test(anything_else_is_a_usage_error_that_names_the_word),
};
QB_TEST_MAIN(tests)

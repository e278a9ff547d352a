#include <math.h>

#include "eval/accuracy.h"
#include "qb_test.h"

static double metric(const char *name, const qb_answer *a, const qb_answer *r, int64_t n) {
    const qb_metric *m = qb_metric_find(name);
    assert_non_null(m);
    return m->value(a, r, n).value;
}

static void ties_go_to_the_lower_class(void **state) {
    (void)state;
    const float output[4] = {1, 3, 3, 2};
    qb_answer a;
    qb_answer_of(output, output, 4, 2, &a);
    assert_int_equal(a.top1, 1);
    assert_int_equal(a.label_rank, 1); /* class 1 stands ahead of class 2 */
    qb_answer_of(output, output, 4, 1, &a);
    assert_int_equal(a.label_rank, 0);
    qb_answer_of(output, output, 4, 0, &a);
    assert_int_equal(a.label_rank, 3);
}

static void labels_outside_the_output_are_unknown(void **state) {
    (void)state;
    const float output[2] = {1, 2};
    qb_answer a;
    qb_answer_of(output, output, 2, 2, &a);
    assert_int_equal(a.label_rank, -1);
    qb_answer_of(output, output, 2, -1, &a);
    assert_int_equal(a.label_rank, -1);
}

static void an_output_with_nan_is_right_about_nothing(void **state) {
    (void)state;
    const float broken[3] = {NAN, NAN, NAN}, reference[3] = {3, 2, 1};
    qb_answer a[2], r[2];
    for (int i = 0; i < 2; i++) {
        qb_answer_of(broken, reference, 3, 0, &a[i]);
        qb_answer_of(i ? broken : reference, reference, 3, 0, &r[i]);
    }
    assert_int_equal(a[0].top1, QB_NO_ANSWER);
    assert_float_equal(metric("top1", a, r, 2), 0, 0);
    assert_float_equal(metric("top5", a, r, 2), 0, 0);
    assert_float_equal(metric("agreement", a, r, 2), 0, 0); /* nor with another such output */
    assert_true(isnan(metric("sqnr", a, r, 2)));
}

static void sums_and_largest_error_are_those_of_the_outputs(void **state) {
    (void)state;
    const float reference[3] = {1, -2, 3}, output[3] = {1.5f, -2, 2};
    qb_answer a;
    qb_answer_of(output, reference, 3, -1, &a);
    assert_float_equal(a.ref_square, 14, 0);
    assert_float_equal(a.err_square, 1.25, 0);
    assert_float_equal(a.max_error, 1, 0);
}

static void top_k_counts_labelled_samples_only(void **state) {
    (void)state;
    const qb_answer a[5] = {{.label_rank = 0},
                            {.label_rank = 4},
                            {.label_rank = 5},
                            {.label_rank = -1},
                            {.label_rank = 0}};
    assert_float_equal(metric("top1", a, a, 5), 50, 1e-12);
    assert_float_equal(metric("top5", a, a, 5), 75, 1e-12);
    assert_true(isnan(metric("top1", a + 3, a, 1)));
}

static void agreement_is_the_share_of_equal_classes(void **state) {
    (void)state;
    const qb_answer a[4] = {{.top1 = 1}, {.top1 = 2}, {.top1 = 3}, {.top1 = 4}};
    const qb_answer r[4] = {{.top1 = 1}, {.top1 = 2}, {.top1 = 0}, {.top1 = 4}};
    assert_float_equal(metric("agreement", a, r, 4), 75, 1e-12);
    assert_true(isnan(metric("agreement", a, r, 0)));
}

static void sqnr_sums_over_all_samples_before_the_logarithm(void **state) {
    (void)state;
    const qb_answer a[2] = {{.ref_square = 90, .err_square = 0.5},
                            {.ref_square = 10, .err_square = 0.5}};
    assert_float_equal(metric("sqnr", a, a, 2), 20, 1e-12);
    const qb_answer equal = {.ref_square = 1};
    assert_true(isinf(metric("sqnr", &equal, &equal, 1)));
    const qb_answer broken = {.ref_square = 1, .err_square = NAN};
    assert_true(isnan(metric("sqnr", &broken, &broken, 1)));
}

static void cosine_and_largest_error_are_over_all_samples(void **state) {
    (void)state;
    const float r0[2] = {3, 4}, o0[2] = {4, 3}, r1[2] = {0, 5}, o1[2] = {0, 5};
    qb_answer a[2];
    qb_answer_of(o0, r0, 2, -1, &a[0]);
    qb_answer_of(o1, r1, 2, -1, &a[1]);
    assert_float_equal(metric("cosine", a, a, 2), 49.0 / 50, 1e-12);
    assert_float_equal(metric("max_error", a, a, 2), 1, 0);
    const qb_answer broken = {.err_square = NAN};
    assert_true(isnan(metric("max_error", &broken, &broken, 1)));
    assert_true(isnan(metric("cosine", &broken, &broken, 1)));
}

/* Two images of two pixels with errors 0.1 and 0.01 everywhere: 20 and 40 dB. */
static void psnr_is_averaged_over_images(void **state) {
    (void)state;
    qb_answer a[2] = {{.size = 2, .err_square = 2 * 0.01, .ref_max = 1},
                      {.size = 2, .err_square = 2 * 0.0001, .ref_max = 0.5}};
    assert_float_equal(metric("psnr", a, a, 2), 30, 1e-9);
    const qb_estimate e = qb_metric_find("psnr")->value(a, a, 2);
    assert_float_equal(e.ci.hi - e.value, 1.959963984540054 * 10, 1e-9); /* s = 14.14 */
    a[0].ref_max = 200;                                                  /* pixels in 0..255 */
    assert_float_equal(metric("psnr", a, a, 2), 30 + 20 * log10(255), 1e-9);
}

static void recall_counts_every_class_alike(void **state) {
    (void)state;
    const qb_answer a[5] = {{.label = 3, .label_rank = 0},
                            {.label = 1, .label_rank = 0},
                            {.label = 1, .label_rank = 2},
                            {.label = 1, .label_rank = 0},
                            {.label = 9, .label_rank = -1}};
    assert_float_equal(metric("recall", a, a, 5), 100 * (1 + 2.0 / 3) / 2, 1e-9);
    assert_true(isnan(metric("recall", a + 4, a, 1)));
}

static void types_and_shapes_tell_classes_from_images(void **state) {
    (void)state;
    const struct {
        qb_dtype dtype;
        qb_shape shape;
        qb_output_kind kind;
    } cases[] = {{QB_DTYPE_F32, qb_shape_of(2, 1, 1000), QB_OUTPUT_CLASSES},
                 {QB_DTYPE_F32, qb_shape_of(1, 1000), QB_OUTPUT_CLASSES},
                 {QB_DTYPE_F32, qb_shape_of(4, 1, 1000, 1, 1), QB_OUTPUT_CLASSES},
                 {QB_DTYPE_F32, qb_shape_of(4, 1, 3, 64, 64), QB_OUTPUT_IMAGE},
                 {QB_DTYPE_F32, qb_shape_of(4, 1, 21, 64, 64), QB_OUTPUT_TENSOR},
                 {QB_DTYPE_F32, qb_shape_of(3, 1, 4420, 2), QB_OUTPUT_TENSOR},
                 {QB_DTYPE_F32, qb_shape_of(2, 8, 1), QB_OUTPUT_TENSOR},
                 {QB_DTYPE_S64, qb_shape_of(1, -1), QB_OUTPUT_CLASS},
                 {QB_DTYPE_S64, qb_shape_of(3, -1, 1, 1), QB_OUTPUT_CLASS},
                 {QB_DTYPE_S64, qb_shape_of(3, 1, 64, 64), QB_OUTPUT_TENSOR}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(qb_output_kind_of(cases[i].dtype, &cases[i].shape), cases[i].kind);
}

static void a_class_is_its_own_answer(void **state) {
    (void)state;
    qb_answer a[4], reference[4];
    const float answer[4] = {3, 3, 0, 7};
    const int32_t label[4] = {3, 0, 0, -1};
    for (int i = 0; i < 4; i++) {
        qb_answer_of_class(3, 3, label[i], &reference[i]);
        qb_answer_of_class(answer[i], 3, label[i], &a[i]);
    }
    assert_int_equal(a[0].top1, 3);
    assert_int_equal(a[1].label_rank, INT32_MAX);
    assert_int_equal(a[2].label_rank, 0);
    assert_int_equal(a[3].label_rank, -1);
    assert_float_equal(metric("top1", a, reference, 4), 200.0 / 3, 1e-9);
    assert_float_equal(metric("agreement", a, reference, 4), 50, 1e-9);
}

/* Definitions of eval/run.h: index max(n - 1 - (int)((1 - p / 100) n), 0), no interpolation. */
static void latency_percentiles_follow_the_definition(void **state) {
    (void)state;
    double ms[100];
    for (int i = 0; i < 100; i++) ms[i] = (double)((i * 37) % 100 + 1); /* 1..100 shuffled */
    qb_latency l;
    qb_latency_of(ms, 100, &l);
    assert_float_equal(l.mean, 50.5, 1e-12);
    assert_float_equal(l.median, 50.5, 1e-12);
    assert_float_equal(l.p90, 90, 0);
    assert_float_equal(l.p95, 95, 0);
    assert_float_equal(l.p99, 99, 0);
    assert_float_equal(l.min, 1, 0);
    assert_float_equal(l.max, 100, 0);
    assert_float_equal(l.cv, sqrt(833.25) / 50.5, 1e-12);
    double one[1] = {7};
    qb_latency_of(one, 1, &l);
    assert_float_equal(l.p99, 7, 0);
    assert_float_equal(l.median, 7, 0);
    qb_latency_of(one, 0, &l);
    assert_true(isnan(l.median));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ties_go_to_the_lower_class),
    cmocka_unit_test(labels_outside_the_output_are_unknown),
    cmocka_unit_test(an_output_with_nan_is_right_about_nothing),
    cmocka_unit_test(sums_and_largest_error_are_those_of_the_outputs),
    cmocka_unit_test(top_k_counts_labelled_samples_only),
    cmocka_unit_test(agreement_is_the_share_of_equal_classes),
    cmocka_unit_test(sqnr_sums_over_all_samples_before_the_logarithm),
    cmocka_unit_test(cosine_and_largest_error_are_over_all_samples),
    cmocka_unit_test(psnr_is_averaged_over_images),
    cmocka_unit_test(recall_counts_every_class_alike),
    cmocka_unit_test(a_class_is_its_own_answer),
    cmocka_unit_test(types_and_shapes_tell_classes_from_images),
    cmocka_unit_test(latency_percentiles_follow_the_definition),
};
QB_TEST_MAIN(tests)

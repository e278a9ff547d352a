/* Activations, texts and work counts. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "kernels/problem.h"

static void near(float got, double expected, const char *what, float x) {
    if (fabs((double)got - expected) <= 2e-6 + 2e-6 * fabs(expected)) return;
    fail_msg("%s(%g): expected %.9g, got %.9g", what, (double)x, expected, (double)got);
}

static double reference(qb_act act, double x) {
    double a = (double)act.alpha, b = (double)act.beta;
    switch (act.kind) {
    case QB_ACT_RELU: return fmax(x, 0);
    case QB_ACT_CLIP: return fmin(fmax(x, a), b);
    case QB_ACT_LEAKY_RELU: return x < 0 ? a * x : x;
    case QB_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case QB_ACT_TANH: return tanh(x);
    case QB_ACT_HARD_SIGMOID: return fmin(fmax(a * x + b, 0), 1);
    case QB_ACT_HARD_SWISH: return x * fmin(fmax(x + 3, 0), 6) / 6;
    case QB_ACT_SILU: return x / (1 + exp(-x));
    case QB_ACT_GELU: return 0.5 * x * erfc(-x * M_SQRT1_2);
    case QB_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case QB_ACT_ELU: return x < 0 ? a * (exp(x) - 1) : x;
    case QB_ACT_NONE:
    case QB_ACT_COUNT: break;
    }
    return x;
}

static void activations_follow_their_formulas(void **state) {
    (void)state;
    for (int k = 0; k < QB_ACT_COUNT; k++) {
        qb_act act = {(qb_act_kind)k, 0.3f, 0.6f};
        if (k == QB_ACT_CLIP) act.alpha = -1.0f;
        for (float x = -12.0f; x <= 12.0f; x += 0.0625f)
            near(qb_act_apply(act, x), reference(act, (double)x), qb_act_text(act.kind), x);
    }
}

static void activations_keep_nan_and_saturate_at_infinity(void **state) {
    (void)state;
    for (int k = 0; k < QB_ACT_COUNT; k++)
        assert_true(isnan(qb_act_apply((qb_act){(qb_act_kind)k, 0.1f, 1.0f}, NAN)));
    assert_true(qb_act_apply((qb_act){.kind = QB_ACT_SIGMOID}, -INFINITY) == 0.0f);
    assert_true(qb_act_apply((qb_act){.kind = QB_ACT_SIGMOID}, INFINITY) == 1.0f);
    assert_true(qb_act_apply((qb_act){.kind = QB_ACT_RELU}, -INFINITY) == 0.0f);
    assert_true(qb_act_apply((qb_act){QB_ACT_CLIP, -2.0f, 3.0f}, INFINITY) == 3.0f);
}

static void every_kind_has_its_own_text(void **state) {
    (void)state;
    for (int i = 0; i < QB_ACT_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(qb_act_text((qb_act_kind)i), qb_act_text((qb_act_kind)j));
    for (int i = 0; i < QB_KIND_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(qb_kind_text((qb_kind)i), qb_kind_text((qb_kind)j));
    assert_string_equal(qb_act_text((qb_act_kind)99), "invalid");
    assert_string_equal(qb_kind_text((qb_kind)-1), "invalid");
}

static void work_is_two_per_multiply_add(void **state) {
    (void)state;
    qb_desc in[2] = {{.dtype = QB_DTYPE_F32, .shape = qb_shape_of(4, 2, 6, 10, 10)},
                     {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(4, 8, 3, 3, 3)}};
    qb_problem p = {.kind = QB_KIND_CONV, .n_in = 2, .in = in, .group = 2};
    p.out.shape = qb_shape_of(4, 2, 8, 10, 10);
    assert_true(qb_problem_flops(&p) == 2.0 * 2 * 8 * 100 * 27);
    p.kind = QB_KIND_CONV_TRANSPOSE;
    in[1].shape = qb_shape_of(4, 6, 4, 3, 3);
    assert_true(qb_problem_flops(&p) == 2.0 * 2 * 6 * 100 * 4 * 9);
    p.kind = QB_KIND_MATMUL;
    p.transpose_a = true;
    in[0].shape = qb_shape_of(2, 7, 5);
    in[1].shape = qb_shape_of(2, 7, 4);
    p.out.shape = qb_shape_of(2, 5, 4);
    assert_true(qb_problem_flops(&p) == 2.0 * 5 * 4 * 7);
    p.kind = QB_KIND_COPY;
    assert_true(qb_problem_flops(&p) == 0.0);
}

static void absent_inputs_are_seen(void **state) {
    (void)state;
    qb_desc in[3] = {{.dtype = QB_DTYPE_F32}, {.dtype = QB_DTYPE_F32}, {.dtype = QB_DTYPE_NONE}};
    qb_problem p = {.n_in = 3, .in = in};
    assert_true(qb_problem_has(&p, QB_IN_WEIGHT));
    assert_false(qb_problem_has(&p, QB_IN_BIAS));
    assert_false(qb_problem_has(&p, QB_IN_RESIDUAL));
    assert_false(qb_problem_has(&p, -1));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(activations_follow_their_formulas),
    cmocka_unit_test(activations_keep_nan_and_saturate_at_infinity),
    cmocka_unit_test(every_kind_has_its_own_text),
    cmocka_unit_test(work_is_two_per_multiply_add),
    cmocka_unit_test(absent_inputs_are_seen),
};
QB_TEST_MAIN(tests)

/* Float semantics of kernels/ref: windows, products, pooling, broadcasting, order of the epilogue,
 * independence from threads. */
#include "run_problem.h"

#include <math.h>
#include <string.h>

/* A 3x3 convolution of stride 2 with uneven padding, by the formula, in long double. */
static void convolution_sums_the_window(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    qb_desc in[3] = {float_desc(qb_shape_of(4, 2, 6, 9, 700)),
                     float_desc(qb_shape_of(4, 4, 3, 3, 3)), float_desc(qb_shape_of(1, 4))};
    qb_problem p = {.kind = QB_KIND_CONV,
                    .n_in = 3,
                    .in = in,
                    .out = float_desc(qb_shape_of(4, 2, 4, 5, 698)),
                    .window = {2, {3, 3}, {2, 1}, {1, 2}, {1, 0}, {1, 2}},
                    .group = 2};
    float *x = random_data(&rng, QB_DTYPE_F32, 2 * 6 * 9 * 700);
    float *w = random_data(&rng, QB_DTYPE_F32, 4 * 3 * 9), *b = random_data(&rng, QB_DTYPE_F32, 4);
    const void *data[3] = {x, w, b};
    float *y = run_problem("ref.conv", &p, data, 1), *again = run_problem("ref.conv", &p, data, 2);
    for (int at = 0; at < 2 * 4 * 5 * 698; at++) {
        int ox = at % 698, oy = at / 698 % 5, m = at / 698 / 5 % 4, n = at / 698 / 5 / 4;
        long double sum = b[m];
        for (int k = 0; k < 27; k++) {
            int c = k / 9, iy = oy * 2 - 1 + k / 3 % 3, ix = ox + k % 3 * 2;
            if (iy < 0 || iy >= 9 || ix >= 700) continue;
            sum += (long double)w[m * 27 + k] * x[((n * 6 + m / 2 * 3 + c) * 9 + iy) * 700 + ix];
        }
        assert_true(fabsl(sum - y[at]) <= 1e-7L + 1e-7L * fabsl(sum));
    }
    assert_memory_equal(y, again, sizeof(float) * 2 * 4 * 5 * 698);
    qb_free(x), qb_free(w), qb_free(b), qb_free(y), qb_free(again);
}

static void pooling_counts_what_each_kind_counts(void **state) {
    (void)state;
    const float x[4] = {1, -2, 3, 8};
    qb_desc in = float_desc(qb_shape_of(3, 1, 1, 4));
    qb_problem p = {.kind = QB_KIND_POOL,
                    .n_in = 1,
                    .in = &in,
                    .out = float_desc(qb_shape_of(3, 1, 1, 3)), /* the last window is cut */
                    .window = {1, {3}, {2}, {1}, {1}, {0}}};
    static const float expected[3][3] = {
        {1, 8, 8}, {-0.5f, 3, 8}, {-1.0f / 3, 3, 8}}; /* windows: pad 1 -2 | -2 3 8 | 8 */
    const void *data[1] = {x};
    for (int kind = 0; kind < 3; kind++) {
        p.pool = (qb_pool_kind)kind;
        float *y = run_problem("ref.pool", &p, data, 1);
        assert_floats(y, expected[kind], 3, 1e-7f, 0);
        qb_free(y);
    }
}

static void binary_operands_broadcast(void **state) {
    (void)state;
    float a[6], b[3] = {10, 20, 30}, c[2] = {1, 2};
    for (int i = 0; i < 6; i++) a[i] = (float)i;
    qb_desc in[2] = {float_desc(qb_shape_of(2, 2, 3)), float_desc(qb_shape_of(1, 3))};
    qb_problem p = {.kind = QB_KIND_BINARY,
                    .n_in = 2,
                    .in = in,
                    .out = float_desc(qb_shape_of(2, 2, 3)),
                    .binary = QB_BINARY_ADD};
    float *y = run_problem("ref.binary", &p, (const void *const[]){a, b}, 1);
    assert_floats(y, ((float[]){10, 21, 32, 13, 24, 35}), 6, 0, 0);
    qb_free(y);
    in[1].shape = qb_shape_of(2, 2, 1);
    p.binary = QB_BINARY_SUB;
    p.act = (qb_act){QB_ACT_RELU, 0, 0};
    y = run_problem("ref.binary", &p, (const void *const[]){a, c}, 1);
    assert_floats(y, ((float[]){0, 0, 1, 1, 2, 3}), 6, 0, 0);
    qb_free(y);
    p.out.shape = qb_shape_of(2, 2, 4);
    assert_false(qb_tactic_takes(qb_tactic_find("ref.binary"), &p, (bool[]){false, false}));
}

static void codes_add_as_real_values(void **state) {
    (void)state;
    float scale[3] = {0.5f, 0.25f, 1.0f};
    int32_t zero[3] = {10, 0, 100};
    uint8_t a[3] = {10, 14, 0};
    int8_t b[3] = {4, -8, 127};
    qb_desc in[2] = {quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 3), &scale[0], &zero[0]),
                     quantized_desc(QB_DTYPE_S8, qb_shape_of(1, 3), &scale[1], &zero[1])};
    qb_problem p = {.kind = QB_KIND_BINARY,
                    .n_in = 2,
                    .in = in,
                    .out = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 3), &scale[2], &zero[2]),
                    .binary = QB_BINARY_ADD};
    uint8_t *y = run_problem("ref.binary", &p, (const void *const[]){a, b}, 1);
    assert_int_equal(y[0], 101); /* 0 + 1 */
    assert_int_equal(y[1], 100); /* 2 - 2 */
    assert_int_equal(y[2], 127); /* -5 + 31.75 = 26.75 */
    qb_free(y);
}

static void activation_comes_before_or_after_the_residual(void **state) {
    (void)state;
    float a[2] = {-3, 2}, b[1] = {1}, residual[2] = {1, -5};
    qb_desc in[4] = {float_desc(qb_shape_of(2, 2, 1)),
                     float_desc(qb_shape_of(2, 1, 1)),
                     {0},
                     float_desc(qb_shape_of(2, 2, 1))};
    qb_problem p = {.kind = QB_KIND_MATMUL,
                    .n_in = 4,
                    .in = in,
                    .out = float_desc(qb_shape_of(2, 2, 1)),
                    .scale = 2.0f,
                    .act = {QB_ACT_RELU, 0, 0}};
    const void *data[4] = {a, b, NULL, residual};
    float *after = run_problem("ref.matmul", &p, data, 1);
    assert_floats(after, ((float[]){0, 0}), 2, 0, 0); /* relu(-6 + 1), relu(4 - 5) */
    p.act_first = true;
    float *first = run_problem("ref.matmul", &p, data, 1);
    assert_floats(first, ((float[]){1, -1}), 2, 0, 0); /* relu(-6) + 1, relu(4) - 5 */
    qb_free(after), qb_free(first);
}

static void softmax_adds_up_to_one_along_its_axis(void **state) {
    (void)state;
    float x[6] = {1000, 0, -1000, 1001, 0, 0};
    qb_desc in = float_desc(qb_shape_of(2, 2, 3));
    qb_problem p = {.kind = QB_KIND_SOFTMAX,
                    .n_in = 1,
                    .in = &in,
                    .out = float_desc(qb_shape_of(2, 2, 3)),
                    .axis = 0};
    const void *data[1] = {x};
    float *y = run_problem("ref.softmax", &p, data, 1);
    assert_floats(y, ((float[]){0.268941421f, 0.5f, 0, 0.731058579f, 0.5f, 1}), 6, 1e-6f, 0);
    qb_free(y);
}

static void concatenation_converts_each_input(void **state) {
    (void)state;
    float scale[2] = {0.5f, 1.0f};
    uint8_t a[4] = {1, 2, 3, 4}, b[2] = {10, 20};
    qb_desc in[2] = {quantized_desc(QB_DTYPE_U8, qb_shape_of(2, 2, 2), &scale[1], NULL),
                     quantized_desc(QB_DTYPE_U8, qb_shape_of(2, 2, 1), &scale[0], NULL)};
    qb_problem p = {.kind = QB_KIND_CONCAT,
                    .n_in = 2,
                    .in = in,
                    .out = quantized_desc(QB_DTYPE_U8, qb_shape_of(2, 2, 3), &scale[1], NULL),
                    .axis = 1};
    uint8_t *y = run_problem("ref.concat", &p, (const void *const[]){a, b}, 1);
    assert_memory_equal(y, ((uint8_t[]){1, 2, 5, 3, 4, 10}), 6);
    qb_free(y);
}

/* conv into channels 1..2 of 4, then the other channels still hold what they held. */
static void kernels_write_channel_slices(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[2] = {1, 10}, whole[16], expected[16];
    qb_desc in[2] = {float_desc(qb_shape_of(3, 2, 1, 4)), float_desc(qb_shape_of(3, 2, 1, 1))};
    qb_problem p = {.kind = QB_KIND_CONV,
                    .n_in = 2,
                    .in = in,
                    .out = float_desc(qb_shape_of(3, 2, 2, 2)),
                    .window = {1, {1}, {2}, {1}, {0}, {0}},
                    .group = 1};
    p.out.channel_offset = 1, p.out.channel_total = 4;
    for (int i = 0; i < 16; i++) whole[i] = expected[i] = -1;
    for (int i = 0; i < 8; i++) /* image, channel, position */
        expected[i / 4 * 8 + 2 + i % 4] = x[i / 4 * 4 + i % 2 * 2] * w[i / 2 % 2];
    const qb_tactic *tactic = qb_tactic_find("ref.conv");
    const void *data[2] = {x, w};
    qb_kernel *kernel;
    assert_ok(&cx, tactic->create(&cx, tactic, &p, (bool[]){false, true}, 1, &kernel));
    assert_ok(&cx, kernel->launch(&cx, kernel, &(qb_launch){.in = data, .out = whole}));
    assert_floats(whole, expected, 16, 0, 0);
    qb_kernel_free(kernel);
}

static void half_float_results_are_rounded_once(void **state) {
    (void)state;
    float x[3] = {1.0f + 0x1p-11f, -70000.0f, 3.0f};
    qb_desc in = float_desc(qb_shape_of(1, 3));
    qb_problem p = {.kind = QB_KIND_UNARY, .n_in = 1, .in = &in, .out = in};
    p.out.dtype = QB_DTYPE_F16;
    uint16_t *y = run_problem("ref.unary", &p, (const void *const[]){x}, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(y[i], qb_f32_to_f16(x[i]));
    qb_free(y);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(convolution_sums_the_window),
    cmocka_unit_test(pooling_counts_what_each_kind_counts),
    cmocka_unit_test(binary_operands_broadcast),
    cmocka_unit_test(codes_add_as_real_values),
    cmocka_unit_test(activation_comes_before_or_after_the_residual),
    cmocka_unit_test(softmax_adds_up_to_one_along_its_axis),
    cmocka_unit_test(concatenation_converts_each_input),
    cmocka_unit_test(kernels_write_channel_slices),
    cmocka_unit_test(half_float_results_are_rounded_once),
};
QB_TEST_MAIN(tests)

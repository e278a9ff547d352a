/* ref.copy: layouts, channel slices, conversions. */
#include "run_problem.h"

#include <math.h>
#include <string.h>

static qb_problem copy_of(const qb_desc *from, const qb_desc *to) {
    return (qb_problem){.kind = QB_KIND_COPY, .n_in = 1, .in = from, .out = *to};
}

static void *copied(const qb_desc *from, const qb_desc *to, const void *data) {
    qb_problem p = copy_of(from, to);
    return run_problem("ref.copy", &p, &data, 1);
}

/* Where element (n, c, y, x) lies in a buffer of `channels` channels, by the definition. */
static int64_t place(qb_layout layout, const int64_t *dim, int64_t channels, const int64_t *at) {
    int64_t block = layout == QB_LAYOUT_C8 ? 8 : layout == QB_LAYOUT_C16 ? 16 : 1;
    int64_t n = at[0], c = at[1], y = at[2], x = at[3], h = dim[2], w = dim[3];
    if (layout == QB_LAYOUT_NHWC) return ((n * h + y) * w + x) * channels + c;
    int64_t blocks = (channels + block - 1) / block;
    return (((n * blocks + c / block) * h + y) * w + x) * block + c % block;
}

#define EACH(dim, at)                                                                              \
    for (int64_t at[4] = {0}; at[0] < (dim)[0]; at[0]++)                                           \
        for (at[1] = 0; at[1] < (dim)[1]; at[1]++)                                                 \
            for (at[2] = 0; at[2] < (dim)[2]; at[2]++)                                             \
                for (at[3] = 0; at[3] < (dim)[3]; at[3]++)

static const qb_layout layouts[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC, QB_LAYOUT_C8, QB_LAYOUT_C16};

static void every_layout_round_trips_and_places_elements_by_definition(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    static const int channels[] = {1, 3, 8, 13, 17, 32};
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (int l = 0; l < 4; l++)
            for (int bytes = 1; bytes <= 4; bytes += 3) {
                qb_dtype dtype = bytes == 1 ? QB_DTYPE_U8 : QB_DTYPE_F32;
                qb_desc row = {.dtype = dtype, .shape = qb_shape_of(4, 2, channels[c], 3, 5)};
                qb_desc other = row;
                other.layout = layouts[l];
                int64_t n = qb_shape_count(&row.shape);
                char *data = random_data(&rng, dtype, n);
                char *moved = copied(&row, &other, data), *back = copied(&other, &row, moved);
                assert_memory_equal(data, back, (size_t)(n * bytes));
                int64_t at_row = 0;
                EACH(row.shape.dim, at) {
                    int64_t there = place(layouts[l], row.shape.dim, channels[c], at);
                    assert_memory_equal(data + at_row++ * bytes, moved + there * bytes,
                                        (size_t)bytes);
                }
                qb_free(data), qb_free(moved), qb_free(back);
            }
}

static void padding_lanes_are_zero(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 2);
    qb_desc row = float_desc(qb_shape_of(4, 2, 21, 2, 3)), blocked = row;
    blocked.layout = QB_LAYOUT_C16;
    float *data = random_data(&rng, QB_DTYPE_F32, qb_shape_count(&row.shape));
    float *moved = copied(&row, &blocked, data);
    int64_t dim[4] = {2, 32, 2, 3};
    EACH(dim, at) {
        float v = moved[place(QB_LAYOUT_C16, dim, 32, at)];
        if (at[1] >= 21) assert_true(v == 0.0f && !signbit(v));
    }
    qb_free(data), qb_free(moved);
}

/* Two tensors written as slices of one, read back as slices. */
static void channel_slices_make_up_the_whole(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 3);
    for (int l = 0; l < 4; l++) {
        qb_desc part[2], slice[2], whole;
        float *data[2];
        qb_ctx cx;
        qb_ctx_init(&cx);
        whole = float_desc(qb_shape_of(4, 2, 16 + 5, 3, 2));
        whole.layout = layouts[l];
        float *buffer = qb_alloc(&cx, qb_desc_bytes(&whole) + GUARD, 1);
        memset(buffer, GUARD_BYTE, qb_desc_bytes(&whole) + GUARD);
        for (int i = 0; i < 2; i++) {
            part[i] = float_desc(qb_shape_of(4, 2, i ? 5 : 16, 3, 2));
            slice[i] = part[i];
            slice[i].layout = layouts[l];
            slice[i].channel_total = 21;
            slice[i].channel_offset = i ? 16 : 0;
            data[i] = random_data(&rng, QB_DTYPE_F32, qb_shape_count(&part[i].shape));
            assert_int_equal(qb_desc_bytes(&slice[i]), qb_desc_bytes(&whole));
            qb_problem p = copy_of(&part[i], &slice[i]);
            const qb_tactic *tactic = qb_tactic_find("ref.copy");
            qb_kernel *kernel;
            assert_ok(&cx, tactic->create(&cx, tactic, &p, (bool[]){false}, 1, &kernel));
            const void *in[1] = {data[i]};
            assert_ok(&cx, kernel->launch(&cx, kernel, &(qb_launch){.in = in, .out = buffer}));
            qb_kernel_free(kernel);
        }
        EACH(whole.shape.dim, at) {
            int i = at[1] >= 16;
            int64_t c = at[1] - (i ? 16 : 0), n_c = i ? 5 : 16;
            float expected = data[i][((at[0] * n_c + c) * 3 + at[2]) * 2 + at[3]];
            assert_true(buffer[place(layouts[l], whole.shape.dim, 21, at)] == expected);
        }
        for (size_t i = qb_desc_bytes(&whole); i < qb_desc_bytes(&whole) + GUARD; i++)
            assert_int_equal(((unsigned char *)buffer)[i], GUARD_BYTE);
        for (int i = 0; i < 2; i++) {
            float *back = copied(&slice[i], &part[i], buffer);
            assert_memory_equal(back, data[i],
                                (size_t)qb_shape_count(&part[i].shape) * sizeof(float));
            qb_free(back), qb_free(data[i]);
        }
        qb_free(buffer);
    }
}

static void floats_become_codes_as_quantize_value_says(void **state) {
    (void)state;
    float scale = 0.1f;
    int32_t zero = 7;
    float data[8] = {0.0f, 0.05f, 0.15f, -0.7f, -0.76f, 1000.0f, NAN, 24.85f};
    qb_desc from = float_desc(qb_shape_of(1, 8));
    qb_desc to = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 8), &scale, &zero);
    uint8_t *got = copied(&from, &to, data);
    for (int i = 0; i < 8; i++)
        assert_int_equal(got[i], qb_quantize_value(data[i], scale, zero, QB_DTYPE_U8));
    assert_int_equal(got[6], 7);
    float *back = copied(&to, &from, got);
    for (int i = 0; i < 8; i++) assert_true(back[i] == scale * (float)(got[i] - zero));
    qb_free(got), qb_free(back);
}

static void equal_parameters_move_codes_unchanged(void **state) {
    (void)state;
    float scale_a = 0.3f, scale_b = 0.3f, scale_c = 0.6f;
    int32_t zero_a = 5, zero_b = 5;
    uint8_t data[256];
    for (int i = 0; i < 256; i++) data[i] = (uint8_t)i;
    qb_desc a = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 256), &scale_a, &zero_a);
    qb_desc b = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 256), &scale_b, &zero_b);
    qb_desc c = quantized_desc(QB_DTYPE_U8, qb_shape_of(1, 256), &scale_c, &zero_b);
    uint8_t *same = copied(&a, &b, data), *other = copied(&a, &c, data);
    assert_memory_equal(same, data, 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(other[i],
                         qb_quantize_value(scale_a * (float)(i - 5), scale_c, 5, QB_DTYPE_U8));
    qb_free(same), qb_free(other);
}

static void each_channel_has_its_own_scale(void **state) {
    (void)state;
    float scale[3] = {0.5f, 1.0f, 2.0f};
    int32_t zero[3] = {0, 1, -1};
    float data[6] = {1, 2, 3, 4, 6, 8};
    qb_desc from = float_desc(qb_shape_of(4, 1, 3, 1, 2)), to = from;
    to.dtype = QB_DTYPE_S8;
    to.q = (qb_qparams){.dtype = QB_DTYPE_S8, .axis = 1, .n = 3, .scale = scale, .zero = zero};
    to.layout = QB_LAYOUT_NHWC;
    int8_t *got = copied(&from, &to, data);
    static const int8_t expected[6] = {2, 4, 2, 4, 5, 3};
    assert_memory_equal(got, expected, 6);
    float *back = copied(&to, &from, got);
    assert_memory_equal(back, data, sizeof data);
    qb_free(got), qb_free(back);
}

static void half_floats_convert(void **state) {
    (void)state;
    float data[5] = {1.0f, -2.5f, 65504.0f, 1e6f, 6e-8f};
    qb_desc from = float_desc(qb_shape_of(1, 5)), to = from;
    to.dtype = QB_DTYPE_F16;
    uint16_t *half = copied(&from, &to, data);
    for (int i = 0; i < 5; i++) assert_int_equal(half[i], qb_f32_to_f16(data[i]));
    float *back = copied(&to, &from, half);
    for (int i = 0; i < 5; i++) assert_true(back[i] == qb_f16_to_f32(half[i]));
    qb_free(half), qb_free(back);
}

static void unfit_copies_are_refused(void **state) {
    (void)state;
    const qb_tactic *tactic = qb_tactic_find("ref.copy");
    float scale[2] = {1, 1};
    qb_desc a = float_desc(qb_shape_of(2, 3, 4)), b = float_desc(qb_shape_of(2, 4, 3));
    qb_problem p = copy_of(&a, &b);
    assert_false(qb_tactic_takes(tactic, &p, (bool[]){false}));
    b = a, b.layout = QB_LAYOUT_NHWC; /* rank 2 */
    p = copy_of(&a, &b);
    assert_false(qb_tactic_takes(tactic, &p, (bool[]){false}));
    a = b = float_desc(qb_shape_of(4, 1, 4, 2, 2));
    b.channel_total = 5, b.channel_offset = 2; /* 2 + 4 > 5 */
    p = copy_of(&a, &b);
    assert_false(qb_tactic_takes(tactic, &p, (bool[]){false}));
    b = quantized_desc(QB_DTYPE_S8, a.shape, scale, NULL);
    b.q.n = 2, b.q.axis = 1; /* 4 channels */
    p = copy_of(&a, &b);
    assert_false(qb_tactic_takes(tactic, &p, (bool[]){false}));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_layout_round_trips_and_places_elements_by_definition),
    cmocka_unit_test(padding_lanes_are_zero),
    cmocka_unit_test(channel_slices_make_up_the_whole),
    cmocka_unit_test(floats_become_codes_as_quantize_value_says),
    cmocka_unit_test(equal_parameters_move_codes_unchanged),
    cmocka_unit_test(each_channel_has_its_own_scale),
    cmocka_unit_test(half_floats_convert),
    cmocka_unit_test(unfit_copies_are_refused),
};
QB_TEST_MAIN(tests)

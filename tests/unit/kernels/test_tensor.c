#include <math.h>
#include <string.h>

#include "kernels/tensor.h"
#include "qb_test.h"

/* ---- types and shapes ---- */

static void types_map_to_onnx_and_back(void **state) {
    (void)state;
    for (int i = 0; i < QB_DTYPE_COUNT; i++) {
        qb_dtype dtype = (qb_dtype)i;
        assert_int_equal(qb_dtype_from_onnx(qb_dtype_to_onnx(dtype)), dtype);
        assert_non_null(qb_dtype_text(dtype));
    }
    assert_int_equal(qb_dtype_to_onnx(QB_DTYPE_F32), 1);
    assert_int_equal(qb_dtype_to_onnx(QB_DTYPE_S64), 7);
    assert_int_equal(qb_dtype_from_onnx(8), QB_DTYPE_NONE); /* string */
    assert_int_equal(qb_dtype_from_onnx(-1), QB_DTYPE_NONE);
    assert_int_equal(qb_dtype_size(QB_DTYPE_F64), 8);
    assert_int_equal(qb_dtype_size(QB_DTYPE_U8), 1);
    assert_int_equal(qb_dtype_size((qb_dtype)1000), 0);
    assert_string_equal(qb_dtype_text((qb_dtype)-1), "invalid");
    assert_true(qb_dtype_is_float(QB_DTYPE_BF16) && qb_dtype_is_float(QB_DTYPE_F16));
    assert_false(qb_dtype_is_float(QB_DTYPE_S8) || qb_dtype_is_float(QB_DTYPE_NONE));
}

static void shapes_are_compared_counted_and_printed(void **state) {
    (void)state;
    char text[64];
    qb_shape image = qb_shape_of(4, 1, 3, 224, 224), scalar = qb_shape_of(0);
    qb_shape unknown = qb_shape_of(2, -1, 10), none = {.rank = -1};
    assert_int_equal(qb_shape_count(&image), 150528);
    assert_int_equal(qb_shape_count(&scalar), 1);
    assert_true(qb_shape_known(&image) && qb_shape_known(&scalar));
    assert_false(qb_shape_known(&unknown) || qb_shape_known(&none));
    assert_string_equal(qb_shape_text(&image, text, sizeof text), "1x3x224x224");
    assert_string_equal(qb_shape_text(&scalar, text, sizeof text), "scalar");
    assert_string_equal(qb_shape_text(&unknown, text, sizeof text), "?x10");
    assert_string_equal(qb_shape_text(&none, text, sizeof text), "?");
    assert_string_equal(qb_shape_text(&image, text, 6), "1x3x2"); /* cut, not overrun */
    qb_shape other = image;
    other.dim[5] = 9; /* behind the rank: does not count */
    assert_true(qb_shape_equal(&image, &other));
    other.dim[2] = 9;
    assert_false(qb_shape_equal(&image, &other));
    other = image;
    other.rank = 3;
    assert_false(qb_shape_equal(&image, &other));
}

static void counts_and_sizes_do_not_overflow(void **state) {
    (void)state;
    qb_shape huge = {.rank = 3, .dim = {INT64_MAX, 2, 2}};
    assert_int_equal(qb_shape_count(&huge), -1);
    qb_tensor t = qb_tensor_of(QB_DTYPE_F32, huge, NULL);
    assert_true(qb_desc_bytes(&t.desc) == SIZE_MAX);
    huge.dim[2] = 0; /* no elements, but strides that overflow */
    assert_int_equal(qb_shape_count(&huge), -1);
    huge.dim[1] = 1;
    assert_int_equal(qb_shape_count(&huge), 0);
    t = qb_tensor_of(QB_DTYPE_F64, (qb_shape){.rank = 1, .dim = {INT64_MAX}}, NULL);
    assert_true(qb_desc_bytes(&t.desc) == SIZE_MAX);
    t = qb_tensor_of(QB_DTYPE_U8, (qb_shape){.rank = 4, .dim = {1, INT64_MAX, 1, 1}}, NULL);
    t.desc.layout = QB_LAYOUT_C16;
    assert_true(qb_desc_bytes(&t.desc) == SIZE_MAX);
    t = qb_tensor_of(QB_DTYPE_U8, qb_shape_of(2, 3, -1), NULL);
    assert_true(qb_desc_bytes(&t.desc) == SIZE_MAX);
}

static void buffers_include_padding_lanes_and_neighbours(void **state) {
    (void)state;
    qb_tensor t = qb_tensor_of(QB_DTYPE_F32, qb_shape_of(4, 2, 3, 5, 5), NULL);
    assert_int_equal(t.desc.q.n, 0);
    assert_int_equal(t.desc.q.axis, -1);
    assert_int_equal(qb_desc_bytes(&t.desc), 600);
    t.desc.layout = QB_LAYOUT_NHWC;
    assert_int_equal(qb_desc_bytes(&t.desc), 600);
    t.desc.layout = QB_LAYOUT_C8;
    assert_int_equal(qb_desc_bytes(&t.desc), 2 * 8 * 25 * 4);
    t.desc.layout = QB_LAYOUT_C16;
    assert_int_equal(qb_desc_bytes(&t.desc), 2 * 16 * 25 * 4);
    t.desc.shape.dim[1] = 16;
    t.desc.channel_offset = 16;
    t.desc.channel_total = 40; /* a slice: the bytes are those of the larger tensor */
    assert_int_equal(qb_desc_bytes(&t.desc), 2 * 48 * 25 * 4);
    t.desc.layout = QB_LAYOUT_ROW;
    assert_int_equal(qb_desc_bytes(&t.desc), 2 * 40 * 25 * 4);
    t = qb_tensor_of(QB_DTYPE_F32, qb_shape_of(0), NULL);
    assert_int_equal(qb_desc_bytes(&t.desc), 4);
}

/* ---- quantization ---- */

static void quantize_rounds_half_to_even(void **state) {
    (void)state;
    static const struct {
        float v;
        int q;
    } cases[] = {{0.0f, 0},       {0.5f, 0},       {1.5f, 2},   {2.5f, 2},        {3.5f, 4},
                 {-0.5f, 0},      {-1.5f, -2},     {-2.5f, -2}, {0.49999997f, 0}, {0.50000006f, 1},
                 {2.4999998f, 2}, {2.5000002f, 3}, {-0.0f, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(qb_quantize_value(cases[i].v, 1.0f, 0, QB_DTYPE_S8), cases[i].q);
        /* The zero point is added after rounding: an odd one must not change what is even. */
        assert_int_equal(qb_quantize_value(cases[i].v, 1.0f, 3, QB_DTYPE_S8), cases[i].q + 3);
        assert_int_equal(qb_quantize_value(cases[i].v * 0.25f, 0.25f, 0, QB_DTYPE_S8), cases[i].q);
    }
}

static void quantize_divides_by_the_scale(void **state) {
    (void)state;

    int different = 0;
    for (int i = 1; i < 2000; i++) {
        float scale = (float)i * 1e-3f, v = 12.5f * scale;
        int expected = (int)nearbyint((double)(v / scale));
        assert_int_equal(qb_quantize_value(v, scale, 0, QB_DTYPE_S8), expected);
        different += (int)nearbyint((double)(v * (1.0f / scale))) != expected;
    }
    assert_true(different > 0); /* the loop does tell division from multiplication */
}

static void quantize_clamps_to_the_type(void **state) {
    (void)state;
    static const struct {
        qb_dtype dtype;
        int64_t low, high;
    } cases[] = {{QB_DTYPE_S8, -128, 127},
                 {QB_DTYPE_U8, 0, 255},
                 {QB_DTYPE_S16, -32768, 32767},
                 {QB_DTYPE_U16, 0, 65535},
                 {QB_DTYPE_S32, INT32_MIN, INT32_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_dtype d = cases[i].dtype;
        assert_true(qb_quantize_value(1e30f, 1.0f, 0, d) == cases[i].high);
        assert_true(qb_quantize_value(-1e30f, 1.0f, 0, d) == cases[i].low);
        assert_true(qb_quantize_value(INFINITY, 1.0f, 5, d) == cases[i].high);
        assert_true(qb_quantize_value(-INFINITY, 1.0f, 5, d) == cases[i].low);
        assert_true(qb_quantize_value(3e38f, 1e-38f, 0, d) == cases[i].high); /* v / scale: inf */
        assert_int_equal(qb_quantize_value(NAN, 1.0f, 5, d), 5);
        assert_int_equal(qb_quantize_value(0.0f, 0.0f, 5, d), 5); /* 0 / 0 */
    }
    assert_int_equal(qb_quantize_value(127.5f, 1.0f, 0, QB_DTYPE_S8), 127);
    assert_int_equal(qb_quantize_value(-128.5f, 1.0f, 0, QB_DTYPE_S8), -128);
    assert_int_equal(qb_quantize_value(200.0f, 1.0f, 128, QB_DTYPE_U8), 255);
    assert_int_equal(qb_quantize_value(-128.0f, 1.0f, 128, QB_DTYPE_U8), 0);
}

static void dequantized_codes_quantize_to_themselves(void **state) {
    (void)state;
    static const float scales[] = {1.0f, 0.1f, 0.0078431377f, 3.3e-5f, 17.3f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (int zero = 0; zero < 256; zero += 51)
            for (int q = 0; q < 256; q++) {
                float v = scales[i] * (float)(q - zero);
                assert_int_equal(qb_quantize_value(v, scales[i], zero, QB_DTYPE_U8), q);
            }
}

/* ---- binary16 ---- */

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The definition of binary16, written with ldexp. */
static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31) magnitude = mantissa ? (double)NAN : (double)INFINITY;
    return half & 0x8000 ? -magnitude : magnitude;
}

static void all_halves_decode_exactly_and_round_trip(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t half = (uint16_t)h;
        float value = qb_f16_to_f32(half);
        double expected = half_value(half);
        if (isnan(expected)) {
            assert_true(isnan(value));
            uint16_t back = qb_f32_to_f16(value);
            assert_int_equal(back, half | 0x200); /* a NaN still, and quiet */
            continue;
        }
        assert_true((double)value == expected);
        assert_int_equal(signbit(value) != 0, half >> 15); /* also of zero */
        assert_int_equal(qb_f32_to_f16(value), half);
    }
}

static void between_two_halves_the_nearer_wins_and_ties_go_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double low = half_value((uint16_t)h);
        /* Behind the largest finite half stands what the format would have next: 65536. */
        double high = h == 0x7bff ? 65536.0 : half_value((uint16_t)(h + 1));
        float middle = (float)((low + high) / 2); /* exact: one bit more */
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t s = sign << 31;
            uint16_t s16 = (uint16_t)(sign << 15);
            assert_int_equal(qb_f32_to_f16(float_of(bits_of(middle) | s)), even | s16);
            assert_int_equal(qb_f32_to_f16(float_of((bits_of(middle) - 1) | s)), h | s16);
            assert_int_equal(qb_f32_to_f16(float_of((bits_of(middle) + 1) | s)), (h + 1) | s16);
        }
    }
}

static void extremes_of_binary32(void **state) {
    (void)state;
    assert_int_equal(qb_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(qb_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(qb_f32_to_f16(1e-45f), 0);
    assert_int_equal(qb_f32_to_f16(-1e-45f), 0x8000);
    assert_int_equal(qb_f32_to_f16(65519.996f), 0x7bff);
    assert_true((qb_f32_to_f16(float_of(0x7f800001u)) & 0x7fff) > 0x7c00); /* stays a NaN */
    assert_int_equal(qb_f32_to_f16(float_of(0xffffffffu)), 0xffff);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(types_map_to_onnx_and_back),
    cmocka_unit_test(shapes_are_compared_counted_and_printed),
    cmocka_unit_test(counts_and_sizes_do_not_overflow),
    cmocka_unit_test(buffers_include_padding_lanes_and_neighbours),
    cmocka_unit_test(quantize_rounds_half_to_even),
    cmocka_unit_test(quantize_divides_by_the_scale),
    cmocka_unit_test(quantize_clamps_to_the_type),
    cmocka_unit_test(dequantized_codes_quantize_to_themselves),
    cmocka_unit_test(all_halves_decode_exactly_and_round_trip),
    cmocka_unit_test(between_two_halves_the_nearer_wins_and_ties_go_to_even),
    cmocka_unit_test(extremes_of_binary32),
};
QB_TEST_MAIN(tests)

#include "eval/layers.h"
#include "kernels/ref.h"
#include "qb_test.h"

enum { ITEMS = 2, CHANNELS = 10, SPATIAL = 3, COUNT = ITEMS * CHANNELS * SPATIAL };

/* Where element (n, c, s) lies, from the definitions in kernels/tensor.h. */
static int64_t place(qb_layout layout, int64_t total, int64_t n, int64_t c, int64_t s) {
    const int64_t block = layout == QB_LAYOUT_C8 ? 8 : 16;
    switch (layout) {
    case QB_LAYOUT_ROW: return (n * total + c) * SPATIAL + s;
    case QB_LAYOUT_NHWC: return (n * SPATIAL + s) * total + c;
    default:
        return ((n * ((total + block - 1) / block) + c / block) * SPATIAL + s) * block + c % block;
    }
}

static void floats_come_out_in_order_from_any_layout(void **state) {
    (void)state;
    static const qb_layout layouts[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC, QB_LAYOUT_C8, QB_LAYOUT_C16};
    for (int k = 0; k < 8; k++) {
        const bool slice = k >= 4; /* channels 16 to 25 of 32 */
        const int64_t total = slice ? 32 : CHANNELS, offset = slice ? 16 : 0;
        float memory[ITEMS * 32 * SPATIAL * 2] = {0}, out[COUNT];
        qb_tensor t = qb_tensor_of(QB_DTYPE_F32, qb_shape_of(3, ITEMS, CHANNELS, SPATIAL), memory);
        t.desc.layout = layouts[k % 4];
        t.desc.channel_offset = offset;
        t.desc.channel_total = slice ? total : 0;
        for (int n = 0; n < ITEMS; n++)
            for (int c = 0; c < CHANNELS; c++)
                for (int s = 0; s < SPATIAL; s++)
                    memory[place(t.desc.layout, total, n, offset + c, s)] =
                        (float)((n * CHANNELS + c) * SPATIAL + s);
        qb_tensor_floats(&t, out);
        for (int i = 0; i < COUNT; i++) assert_float_equal(out[i], i, 0);
    }
}

static void integers_come_out_dequantized(void **state) {
    (void)state;
    uint8_t u8[3] = {0, 10, 255};
    int8_t s8[3] = {-128, 0, 127};
    const float scale = 0.5f;
    const int32_t zero = 10;
    float out[3];
    qb_tensor t = qb_tensor_of(QB_DTYPE_U8, qb_shape_of(2, 1, 3), u8);
    t.desc.q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale, &zero};
    qb_tensor_floats(&t, out);
    assert_float_equal(out[0], -5, 0);
    assert_float_equal(out[1], 0, 0);
    assert_float_equal(out[2], 122.5, 0);
    t = qb_tensor_of(QB_DTYPE_S8, qb_shape_of(2, 1, 3), s8);
    t.desc.q = (qb_qparams){QB_DTYPE_S8, -1, 1, &scale, NULL};
    qb_tensor_floats(&t, out);
    assert_float_equal(out[0], -64, 0);
    assert_float_equal(out[2], 63.5, 0);
}

static void floats_of_two_bytes_come_out_as_they_are(void **state) {
    (void)state;
    uint16_t f16[2] = {0x3c00, 0xc500}, bf16[2] = {0x3f80, 0xc0a0};
    for (int k = 0; k < 2; k++) {
        float out[2];
        const qb_tensor t =
            qb_tensor_of(k ? QB_DTYPE_BF16 : QB_DTYPE_F16, qb_shape_of(2, 1, 2), k ? bf16 : f16);
        qb_tensor_floats(&t, out);
        assert_float_equal(out[0], 1, 0);
        assert_float_equal(out[1], -5, 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(floats_come_out_in_order_from_any_layout),
    cmocka_unit_test(integers_come_out_dequantized),
    cmocka_unit_test(floats_of_two_bytes_come_out_as_they_are),
};
QB_TEST_MAIN(tests)

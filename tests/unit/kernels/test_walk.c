/* qb_walk and the conversions of single elements. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/ref.h"

/* Offset in an operand that is broadcast to `out`, by numpy's rule. */
static int64_t broadcast_offset(const qb_shape *out, const qb_shape *operand, int64_t at) {
    int64_t offset = 0, stride = 1;
    for (int32_t d = out->rank - 1, o = operand->rank - 1; d >= 0; d--, o--) {
        int64_t index = at % out->dim[d];
        at /= out->dim[d];
        if (o < 0) continue;
        if (operand->dim[o] != 1) offset += index * stride;
        stride *= operand->dim[o];
    }
    return offset;
}

static void walks_reach_every_element_in_order(void **state) {
    (void)state;
    qb_rng rng;
    qb_rng_seed(&rng, 9);
    for (int round = 0; round < 500; round++) {
        qb_shape out = {.rank = (int32_t)qb_rng_below(&rng, 6)}, operand[2];
        for (int32_t d = 0; d < out.rank; d++) out.dim[d] = (int64_t)qb_rng_below(&rng, 4) + 1;
        for (int k = 0; k < 2; k++) {
            operand[k] = (qb_shape){.rank = (int32_t)qb_rng_below(&rng, (uint64_t)out.rank + 1)};
            for (int32_t d = 0; d < operand[k].rank; d++) {
                int64_t size = out.dim[d + out.rank - operand[k].rank];
                operand[k].dim[d] = qb_rng_below(&rng, 3) ? size : 1;
            }
        }
        const qb_shape *shapes[2] = {&operand[0], &operand[1]};
        int64_t seen = 0;
        qb_walk w;
        for (qb_walk_broadcast(&w, &out, shapes, 2); w.left > 0; qb_walk_next(&w))
            for (int64_t i = 0; i < w.run; i++, seen++) {
                assert_int_equal(w.out + i, seen);
                for (int k = 0; k < 2; k++)
                    assert_int_equal(w.at[k] + i * w.step[k],
                                     broadcast_offset(&out, &operand[k], seen));
            }
        assert_int_equal(seen, qb_shape_count(&out));
    }
}

static void dimensions_that_lie_together_become_one_run(void **state) {
    (void)state;
    qb_shape out = qb_shape_of(4, 2, 3, 4, 5), channel = qb_shape_of(3, 3, 1, 1);
    const qb_shape *same[2] = {&out, &out}, *bias[2] = {&out, &channel};
    qb_walk w;
    qb_walk_broadcast(&w, &out, same, 2);
    assert_int_equal(w.run, 120);
    assert_int_equal(w.left, 1);
    qb_walk_broadcast(&w, &out, bias, 2);
    assert_int_equal(w.run, 20);
    assert_int_equal(w.left, 6);
    assert_int_equal(w.step[1], 0);
}

static void empty_outputs_have_no_runs(void **state) {
    (void)state;
    qb_shape out = qb_shape_of(3, 2, 0, 4), scalar = qb_shape_of(0);
    const qb_shape *shapes[1] = {&scalar};
    qb_walk w;
    qb_walk_broadcast(&w, &out, shapes, 1);
    assert_int_equal(w.left, 0);
}

static void negative_strides_walk_backwards(void **state) {
    (void)state;
    qb_shape out = qb_shape_of(2, 2, 3);
    int64_t stride[2] = {-3, -1}, expected = 5;
    qb_walk w;
    for (qb_walk_strided(&w, &out, stride); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++)
            assert_int_equal(5 + w.at[0] + i * w.step[0], expected--);
    assert_int_equal(expected, -1);
}

static void numbers_round_half_even_and_saturate(void **state) {
    (void)state;
    int8_t s8;
    uint8_t u8;
    int64_t s64;
    uint64_t u64;
    static const struct {
        double v;
        int s8, u8;
    } rows[] = {{0.5, 0, 0},     {1.5, 2, 2}, {-2.5, -2, 0},       {300, 127, 255},
                {-300, -128, 0}, {NAN, 0, 0}, {INFINITY, 127, 255}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qb_number_put(QB_DTYPE_S8, &s8, 0, rows[i].v);
        qb_number_put(QB_DTYPE_U8, &u8, 0, rows[i].v);
        assert_int_equal(s8, rows[i].s8);
        assert_int_equal(u8, rows[i].u8);
    }
    qb_number_put(QB_DTYPE_S64, &s64, 0, 1e30);
    qb_number_put(QB_DTYPE_U64, &u64, 0, 1e30);
    assert_true(s64 > INT64_MAX - 2048 && u64 > UINT64_MAX - 4096);
    qb_number_put(QB_DTYPE_U64, &u64, 0, -1);
    assert_true(u64 == 0);
}

static void bfloats_round_half_even(void **state) {
    (void)state;
    static const struct {
        float v;
        uint16_t bits;
    } rows[] = {{1.0f, 0x3f80}, {1.00390625f, 0x3f80}, {1.01171875f, 0x3f82}, {-INFINITY, 0xff80}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t bits;
        qb_number_put(QB_DTYPE_BF16, &bits, 0, (double)rows[i].v);
        assert_int_equal(bits, rows[i].bits);
    }
    uint16_t nan;
    qb_number_put(QB_DTYPE_BF16, &nan, 0, NAN);
    assert_true(isnan(qb_number_get(QB_DTYPE_BF16, &nan, 0)));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(walks_reach_every_element_in_order),
    cmocka_unit_test(dimensions_that_lie_together_become_one_run),
    cmocka_unit_test(empty_outputs_have_no_runs),
    cmocka_unit_test(negative_strides_walk_backwards),
    cmocka_unit_test(numbers_round_half_even_and_saturate),
    cmocka_unit_test(bfloats_round_half_even),
};
QB_TEST_MAIN(tests)

/* Extremes of channels against a walk over the logical tensor, in every layout. */
#include "qb_test.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "calib/channels.h"

static void *need(size_t n, size_t size) {
    void *memory = calloc(n, size);
    assert_non_null(memory);
    return memory;
}

typedef struct layout_case {
    qb_shape shape;
    qb_layout layout;
    int64_t offset, total; /* of a slice of channels; total 0: all */
} layout_case;

static int64_t block_of(qb_layout layout) {
    return layout == QB_LAYOUT_C16 ? 16 : layout == QB_LAYOUT_C8 ? 8 : 1;
}

/* Where value (n, c, s) lies. */
static int64_t address(const layout_case *k, int64_t n, int64_t c, int64_t s, int64_t spatial) {
    const int64_t own = k->shape.rank > 1 ? k->shape.dim[1] : 1, block = block_of(k->layout);
    const int64_t total = k->total > 0 ? k->total : own, at = c + k->offset;
    const int64_t stored = (total + block - 1) / block * block * spatial;
    if (k->layout == QB_LAYOUT_NHWC) return n * stored + s * total + at;
    return n * stored + (at / block * spatial + s) * block + at % block;
}

static void check(const layout_case *k, uint64_t seed) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    const int32_t rank = k->shape.rank;
    const int64_t channels = rank > 1 ? k->shape.dim[1] : 1;
    int64_t spatial = 1;
    for (int32_t d = 2; d < rank; d++) spatial *= k->shape.dim[d];
    const int64_t total = (k->total > 0 ? k->total : channels) + 16;
    float *data = need((size_t)(k->shape.dim[0] * total * spatial), sizeof *data);
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    /* Padding and other channels hold what would show. */
    for (int64_t i = 0; i < k->shape.dim[0] * total * spatial; i++) data[i] = 1e30f;
    const int64_t n = qb_channels_of(&k->shape), last = k->shape.dim[rank - 1];
    float *min = need((size_t)n, sizeof *min), *max = need((size_t)n, sizeof *max);
    for (int64_t i = 0; i < n; i++) {
        min[i] = INFINITY;
        max[i] = -INFINITY;
    }
    for (int64_t b = 0; b < k->shape.dim[0]; b++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t s = 0; s < spatial; s++) {
                const int64_t own = rank > 3 ? c : rank == 3 ? s % last : rank == 2 ? c : b;
                float v = (float)qb_rng_normal(&rng);
                if (qb_rng_u64(&rng) % 9 == 0) v = NAN;
                if (qb_rng_u64(&rng) % 9 == 0) v = v > 0 ? INFINITY : -INFINITY;
                if (own == 2) v = NAN; /* a channel of nothing finite */
                data[address(k, b, c, s, spatial)] = v;
                if (!isfinite(v)) continue;
                min[own] = fminf(min[own], v);
                max[own] = fmaxf(max[own], v);
            }
    const qb_tensor tensor = {.desc = {.dtype = QB_DTYPE_F32,
                                       .layout = k->layout,
                                       .shape = k->shape,
                                       .channel_offset = k->offset,
                                       .channel_total = k->total},
                              .data = data};
    qb_channels got = {0}, twice = {0};
    assert_ok(&cx, qb_channels_add(&cx, &got, &tensor));
    assert_int_equal(got.n, n);
    for (int64_t i = 0; i < n; i++) {
        assert_true(got.min[i] == min[i]);
        assert_true(got.max[i] == max[i]);
    }
    assert_ok(&cx, qb_channels_merge(&cx, &twice, &got));
    assert_ok(&cx, qb_channels_merge(&cx, &twice, &got));
    for (int64_t i = 0; i < n; i++) assert_true(twice.min[i] == min[i] && twice.max[i] == max[i]);
    qb_channels_release(&got);
    qb_channels_release(&twice);
    free(data);
    free(min);
    free(max);
}

static void equals_a_walk_in_every_layout(void **state) {
    (void)state;
    const layout_case cases[] = {{{4, {2, 5, 3, 4}}, QB_LAYOUT_ROW, 0, 0},
                                 {{4, {2, 5, 3, 4}}, QB_LAYOUT_NHWC, 0, 0},
                                 {{4, {2, 21, 3, 2}}, QB_LAYOUT_C16, 0, 0},
                                 {{4, {1, 9, 2, 2}}, QB_LAYOUT_C8, 0, 0},
                                 {{4, {2, 5, 2, 2}}, QB_LAYOUT_ROW, 3, 12},
                                 {{4, {2, 20, 2, 2}}, QB_LAYOUT_C16, 7, 40},
                                 {{4, {2, 5, 2, 2}}, QB_LAYOUT_NHWC, 3, 12},
                                 {{5, {1, 4, 2, 3, 2}}, QB_LAYOUT_ROW, 0, 0},
                                 {{3, {2, 4, 6}}, QB_LAYOUT_ROW, 0, 0},
                                 {{3, {1, 19, 5}}, QB_LAYOUT_C16, 0, 0},
                                 {{3, {2, 4, 6}}, QB_LAYOUT_NHWC, 0, 0},
                                 {{2, {3, 7}}, QB_LAYOUT_ROW, 0, 0},
                                 {{1, {5}}, QB_LAYOUT_ROW, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], i + 1);
}

static void numbers_that_differ_are_mixed_in_any_order(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_channels three = {0}, five = {0}, one = {0}, other = {0};
    assert_ok(&cx, qb_channels_alloc(&cx, 3, &three));
    assert_ok(&cx, qb_channels_alloc(&cx, 5, &five));
    assert_ok(&cx, qb_channels_merge(&cx, &one, &three));
    assert_ok(&cx, qb_channels_merge(&cx, &one, &five));
    assert_ok(&cx, qb_channels_merge(&cx, &one, &three));
    assert_ok(&cx, qb_channels_merge(&cx, &other, &five));
    assert_ok(&cx, qb_channels_merge(&cx, &other, &one));
    assert_int_equal(one.n, QB_CHANNELS_MIXED);
    assert_int_equal(other.n, QB_CHANNELS_MIXED);
    assert_null(one.min);
    qb_channels_release(&three);
    qb_channels_release(&five);
}

static void spread_counts_channels_below_four_bits(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_channels_spread s;
    float min[] = {-1, -16.5f, 0, INFINITY, -0.5f}, max[] = {0.5f, 3, 2, -INFINITY, 0.25f};
    assert_true(qb_channels_spread_of(&cx, &(qb_channels){5, min, max}, &s));
    assert_true(s.widest == 16.5f && s.widest_at == 1);
    assert_true(s.narrowest == 0.5f && s.median == 2);
    assert_int_equal(s.few_levels, 2); /* 1 and 0.5 */
    assert_false(qb_channels_spread_of(&cx, &(qb_channels){0}, &s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_walk_in_every_layout),
        cmocka_unit_test(numbers_that_differ_are_mixed_in_any_order),
        cmocka_unit_test(spread_counts_channels_below_four_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Strided copies: two as one give what they give one after the other; what is memory as it lies. */
#include "kernels/strided.h"

#include "kernels/ref.h"
#include "qb_test.h"
#include "strided_elements.h"

#define CASES 4000

/* Of n elements: other dimensions, in another order, parts of them, from the end, or repeated. */
static void make(qb_rng *rng, int64_t n, qb_strided *s) {
    int64_t step = n;
    *s = (qb_strided){.rank = 0};
    while (step > 1 && s->rank < 5) {
        int64_t dim = between(rng, 2, 6);
        while (dim <= step && step % dim != 0) dim++;
        if (dim > step) dim = step;
        step /= dim;
        s->dim[s->rank] = dim;
        s->stride[s->rank++] = step;
    }
    if (step > 1) s->dim[s->rank] = step, s->stride[s->rank++] = 1;
    for (int32_t d = 0; d < s->rank; d++) {
        const int32_t other = (int32_t)between(rng, 0, d);
        const int64_t dim = s->dim[d], stride = s->stride[d];
        if (between(rng, 0, 2) == 0) continue;
        s->dim[d] = s->dim[other], s->stride[d] = s->stride[other];
        s->dim[other] = dim, s->stride[other] = stride;
    }
    for (int32_t d = 0; d < s->rank; d++) {
        const int64_t what = between(rng, 0, 9);
        if (what == 0) s->offset += (s->dim[d] - 1) * s->stride[d], s->stride[d] *= -1;
        if (what == 1) s->offset += s->stride[d] * between(rng, 0, 1), s->dim[d] -= 1;
        if (what == 2 && s->dim[d] < 4) s->stride[d] = 0;
    }
}

static void two_copies_are_one(void **state) {
    (void)state;
    qb_rng rng;
    int done = 0;
    qb_rng_seed(&rng, 20261123);
    for (int i = 0; i < CASES; i++) {
        qb_strided first, second, both;
        make(&rng, between(&rng, 1, 40) * between(&rng, 1, 40), &first);
        make(&rng, count_of(&first), &second);
        if (!qb_strided_compose(&first, &second, &both)) continue;
        done++;
        assert_true(count_of(&both) == count_of(&second));
        for (int64_t k = 0; k < count_of(&second); k++)
            assert_true(element(&both, k) == element(&first, element(&second, k)));
    }
    print_message("%d of %d are one\n", done, CASES);
    assert_true(done > CASES / 4);
}

/* Reshape, Transpose, Reshape; and the same once more, which brings the channels back. */
static void a_shuffle_is_one_copy(void **state) {
    (void)state;
    const qb_strided all = qb_strided_all(2 * 6 * 5);
    const qb_strided turn = {.rank = 4, .dim = {2, 2, 3, 5}, .stride = {30, 5, 10, 1}};
    const qb_strided back = {.rank = 4, .dim = {2, 3, 2, 5}, .stride = {30, 5, 15, 1}};
    const qb_desc image = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(4, 2, 6, 5, 1)};
    qb_desc last = image;
    qb_strided one;
    assert_true(qb_strided_compose(&all, &turn, &one));
    assert_true(qb_strided_compose(&one, &all, &one));
    assert_true(one.rank == 4 && one.stride[1] == 5 && one.stride[2] == 10);
    assert_false(qb_strided_is_memory(&one, &image, &image));
    last.layout = QB_LAYOUT_NHWC;
    assert_true(qb_strided_keeps_pixels(&one, &last, &last));
    assert_true(qb_strided_compose(&one, &back, &one));
    assert_true(qb_strided_is_memory(&one, &image, &image));
}

/* [N, C, H, W] channels last is [N, H W, C] in rows. */
static void channels_last_are_rows(void **state) {
    (void)state;
    qb_desc image = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(4, 2, 6, 5, 4)};
    const qb_desc rows = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(3, 2, 20, 6)};
    const qb_strided turn = {.rank = 3, .dim = {2, 20, 6}, .stride = {120, 1, 20}};
    assert_false(qb_strided_is_memory(&turn, &image, &rows));
    image.layout = QB_LAYOUT_NHWC;
    assert_true(qb_strided_is_memory(&turn, &image, &rows));
    assert_false(qb_strided_keeps_pixels(&turn, &image, &image));
    image.channel_total = 12;
    assert_false(qb_strided_is_memory(&turn, &image, &rows));
}

/* Channels last stay so where a Reshape makes [N, C, H W] of [N, C, H, W], or back. */
static void pixels_in_other_dimensions_are_channels_last(void **state) {
    (void)state;
    const qb_desc image = {
        .dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_NHWC, .shape = qb_shape_of(4, 2, 6, 5, 4)};
    qb_desc line = image, other = image;
    line.shape = qb_shape_of(3, 2, 6, 20);
    other.shape = qb_shape_of(3, 2, 12, 10);
    const qb_strided all = qb_strided_all(2 * 6 * 20);
    assert_true(qb_strided_is_memory(&all, &image, &line));
    assert_true(qb_strided_is_memory(&all, &line, &image));
    assert_false(qb_strided_is_memory(&all, &image, &other));
    other.layout = line.layout = QB_LAYOUT_ROW;
    assert_false(qb_strided_is_memory(&all, &image, &line));
    assert_true(qb_strided_is_memory(&all, &line, &other));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_copies_are_one),
    cmocka_unit_test(a_shuffle_is_one_copy),
    cmocka_unit_test(channels_last_are_rows),
    cmocka_unit_test(pixels_in_other_dimensions_are_channels_last),
};

QB_TEST_MAIN(tests)

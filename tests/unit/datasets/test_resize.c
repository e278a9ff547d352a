#include <stdlib.h>
#include <string.h>

#include "datasets/loader.h"
#include "fixture.h"
#include "opencv_resize.h"
#include "pillow_resize.h"

static void equals_pillow(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof resize_cases / sizeof *resize_cases; i++) {
        const resize_case *r = &resize_cases[i];
        qb_image in = fixture_pattern(r->width, r->height, r->channels), out;
        assert_ok(&cx, qb_image_resize(&cx, &in, r->new_width, r->new_height, r->filter, &out));
        assert_int_equal(out.width, r->new_width);
        assert_int_equal(out.height, r->new_height);
        assert_int_equal(out.channels, r->channels);
        size_t n = (size_t)(r->new_width * r->new_height * r->channels);
        if (r->pixel) assert_memory_equal(out.pixel, r->pixel, n);
        if (fixture_digest(&out) != r->digest)
            fail_msg("%dx%dx%d to %dx%d, %s: other pixels than Pillow's", r->width, r->height,
                     r->channels, r->new_width, r->new_height, qb_filter_text(r->filter));
        qb_image_release(&out);
        qb_image_release(&in);
    }
}

static void is_within_one_of_opencv(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof opencv_cases / sizeof *opencv_cases; i++) {
        const opencv_case *r = &opencv_cases[i];
        qb_image in = fixture_pattern(r->width, r->height, r->channels), out;
        assert_ok(&cx, qb_image_resize(&cx, &in, r->new_width, r->new_height, r->filter, &out));
        for (int k = 0; k < r->new_width * r->new_height * r->channels; k++)
            if (abs(out.pixel[k] - r->pixel[k]) > 1)
                fail_msg("%dx%dx%d to %dx%d, %s, value %d: expected %d, got %d", r->width,
                         r->height, r->channels, r->new_width, r->new_height,
                         qb_filter_text(r->filter), k, r->pixel[k], out.pixel[k]);
        qb_image_release(&out);
        qb_image_release(&in);
    }
}

static void constant_image_stays_constant(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    static const int sizes[][4] = {{30, 20, 7, 50}, {30, 20, 61, 5}, {1, 1, 33, 33}};
    for (int filter = 0; filter <= QB_FILTER_AREA; filter++) {
        for (int value = 0; value < 256; value += 51) {
            for (size_t k = 0; k < 3; k++) {
                qb_image in = fixture_pattern(sizes[k][0], sizes[k][1], 3), out;
                memset(in.pixel, value, (size_t)(in.width * in.height * 3));
                assert_ok(&cx, qb_image_resize(&cx, &in, sizes[k][2], sizes[k][3],
                                               (qb_filter)filter, &out));
                for (int i = 0; i < out.width * out.height * 3; i++)
                    assert_int_equal(out.pixel[i], value);
                qb_image_release(&out);
                qb_image_release(&in);
            }
        }
    }
}

static void refuses_bad_sizes_and_channels(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image in = fixture_pattern(8, 8, 3), out = {0};
    assert_fails(&cx, qb_image_resize(&cx, &in, 20000, 20000, QB_FILTER_BICUBIC, &out),
                 QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "20000x20000");
    assert_fails(&cx, qb_image_resize(&cx, &in, 0, 5, QB_FILTER_BICUBIC, &out), QB_STATUS_FORMAT);
    in.channels = 2;
    assert_fails(&cx, qb_image_resize(&cx, &in, 4, 4, QB_FILTER_BICUBIC, &out), QB_STATUS_INVALID);
    assert_message(&cx, "got 2");
    in.channels = 3;
    assert_null(out.pixel);
    qb_image_release(&in);
}

/* The pass that comes first is the one that keeps the image between them small. */
static void extreme_shapes_work(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    static const int sizes[][4] = {
        {1, 40000, 40000, 1}, {40000, 1, 1, 40000}, {40000, 1, 40000, 2}};
    for (size_t k = 0; k < 3; k++) {
        qb_image in = fixture_pattern(sizes[k][0], sizes[k][1], 1), out = {0};
        memset(in.pixel, 77, (size_t)in.width * (size_t)in.height);
        assert_ok(&cx,
                  qb_image_resize(&cx, &in, sizes[k][2], sizes[k][3], QB_FILTER_LANCZOS, &out));
        for (int i = 0; i < out.width * out.height; i++) assert_int_equal(out.pixel[i], 77);
        qb_image_release(&out);
        qb_image_release(&in);
    }
}

static qb_status resize_once(qb_ctx *cx, void *user) {
    (void)user;
    qb_image in = fixture_pattern(9, 8, 3), out = {0};
    qb_status status = qb_image_resize(cx, &in, 5, 11, QB_FILTER_LANCZOS, &out);
    qb_image_release(&out);
    qb_image_release(&in);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(resize_once, NULL) >= 8);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(equals_pillow),
    cmocka_unit_test(is_within_one_of_opencv),
    cmocka_unit_test(constant_image_stays_constant),
    cmocka_unit_test(refuses_bad_sizes_and_channels),
    cmocka_unit_test(extreme_shapes_work),
    cmocka_unit_test(every_failed_allocation_is_reported),
};
QB_TEST_MAIN(tests)

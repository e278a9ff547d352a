#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/loader.h"
#include "fixture.h"
#include "pillow_color.h"

enum { SIDE = 64 };

static void run(const qb_preprocess *p, const qb_image *image, int height, int width, float *out) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_preprocess_image(&cx, p, image, height, width, out));
}

static void mean_and_std_apply_to_planes(void **state) {
    (void)state;
    qb_image image = fixture_pattern(19, 5, 3);
    qb_preprocess p;
    qb_preprocess_default(&p);
    float mean[] = {104.25f, 117, 123.5f}, std[] = {57.375f, 1, 0.3f}, out[3 * 5 * 19];
    memcpy(p.mean, mean, sizeof mean);
    memcpy(p.std, std, sizeof std);
    run(&p, &image, 5, 19, out);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 5 * 19; i++) {
            float expected = ((float)image.pixel[3 * i + c] - mean[c]) / std[c];
            assert_memory_equal(&out[c * 5 * 19 + i], &expected, sizeof expected);
        }
    qb_image_release(&image);
}

static void bgr_swaps_the_planes_and_keeps_mean_by_output_channel(void **state) {
    (void)state;
    qb_image image = fixture_pattern(70, 3, 3);
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.color = QB_COLOR_BGR;
    p.mean[0] = 1000;
    float out[3 * 3 * 70];
    run(&p, &image, 3, 70, out);
    for (int i = 0; i < 3 * 70; i++) {
        assert_float_equal(out[i], image.pixel[3 * i + 2] - 1000.0f, 0);
        assert_float_equal(out[210 + i], image.pixel[3 * i + 1], 0);
        assert_float_equal(out[420 + i], image.pixel[3 * i], 0);
    }
    qb_image_release(&image);
}

static void luma_equals_pillow(void **state) {
    (void)state;
    qb_image image = fixture_pattern(16, 4, 3);
    for (int k = 0; k < 2; k++) {
        qb_preprocess p;
        qb_preprocess_default(&p);
        p.color = k ? QB_COLOR_LUMA : QB_COLOR_GRAY;
        assert_int_equal(qb_preprocess_channels(&p), 1);
        float out[64];
        run(&p, &image, 4, 16, out);
        for (int i = 0; i < 64; i++) assert_float_equal(out[i], luma_16x4[i], 0);
    }
    qb_image_release(&image);
}

static void grey_images_are_repeated_and_grey_models_take_them_as_they_are(void **state) {
    (void)state;
    qb_image image = fixture_pattern(21, 2, 1);
    qb_preprocess p;
    qb_preprocess_default(&p);
    float out[3 * 42];
    p.color = QB_COLOR_BGR;
    run(&p, &image, 2, 21, out);
    for (int i = 0; i < 3 * 42; i++) assert_float_equal(out[i], image.pixel[i % 42], 0);
    p.color = QB_COLOR_GRAY;
    run(&p, &image, 2, 21, out);
    for (int i = 0; i < 42; i++) assert_float_equal(out[i], image.pixel[i], 0);
    qb_image_release(&image);
}

static void crop_begins_at_the_floor_of_half_the_rest(void **state) {
    (void)state;
    qb_image image = fixture_pattern(10, 9, 1);
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.color = QB_COLOR_GRAY;
    p.crop_width = 7;
    p.crop_height = 4;
    float out[28];
    run(&p, &image, 4, 7, out);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 7; x++)
            assert_float_equal(out[7 * y + x], image.pixel[(y + 2) * 10 + x + 1], 0);
    qb_image_release(&image);
}

/* The chain computes only the window of the resized image that the crop keeps. */
static void resize_then_crop_equals_crop_of_the_whole_resized_image(void **state) {
    (void)state;
    static const int sizes[][2] = {{90, 61}, {61, 90}, {30, 31}, {40, 200}};
    for (size_t k = 0; k < 4; k++) {
        for (int filter = 0; filter < 3; filter++) {
            qb_image image = fixture_pattern(sizes[k][0], sizes[k][1], 3), whole;
            qb_preprocess p;
            qb_preprocess_default(&p);
            p.resize = QB_RESIZE_SHORT_SIDE;
            p.resize_width = 48;
            p.filter = (qb_filter)filter;
            p.crop_width = p.crop_height = 33;
            float out[3 * 33 * 33];
            run(&p, &image, 33, 33, out);
            bool tall = image.height > image.width;
            int longer =
                48 * (tall ? image.height : image.width) / (tall ? image.width : image.height);
            int width = tall ? 48 : longer, height = tall ? longer : 48;
            qb_ctx cx;
            qb_ctx_init(&cx);
            assert_ok(&cx, qb_image_resize(&cx, &image, width, height, p.filter, &whole));
            int left = (width - 33) / 2, top = (height - 33) / 2;
            for (int i = 0; i < 3 * 33 * 33; i++) {
                int c = i / (33 * 33), y = i / 33 % 33, x = i % 33;
                assert_float_equal(out[i], whole.pixel[((y + top) * width + x + left) * 3 + c], 0);
            }
            qb_image_release(&whole);
            qb_image_release(&image);
        }
    }
}

static void short_side_cuts_the_long_side(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image = fixture_pattern(50, 37, 3); /* 64 * 50 / 37 = 86.49 */
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.resize = QB_RESIZE_SHORT_SIDE;
    p.resize_width = SIDE;
    static float out[3 * SIDE * 86];
    run(&p, &image, SIDE, 86, out);
    assert_fails(&cx, qb_preprocess_image(&cx, &p, &image, SIDE, 87, out), QB_STATUS_INVALID);
    assert_message(&cx, "50x37");
    assert_message(&cx, "86x64");
    assert_message(&cx, "87x64");
    qb_image_release(&image);
}

static void crop_larger_than_the_image_is_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image = fixture_pattern(20, 30, 3);
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.crop_width = p.crop_height = 24;
    static float out[3 * 24 * 24];
    assert_fails(&cx, qb_preprocess_image(&cx, &p, &image, 24, 24, out), QB_STATUS_INVALID);
    assert_message(&cx, "crop to 24x24: the image has only 20x30");
    qb_image_release(&image);
}

static void expect_invalid(const qb_preprocess *p, const char *text) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_preprocess_validate(&cx, p), QB_STATUS_INVALID);
    assert_message(&cx, text);
}

static void bad_settings_are_named(void **state) {
    (void)state;
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.std[1] = 0;
    expect_invalid(&p, "std[1]");
    p.color = QB_COLOR_GRAY; /* then channel 1 is of no consequence */
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_preprocess_validate(&cx, &p));
    qb_preprocess_default(&p);
    p.mean[2] = NAN;
    expect_invalid(&p, "mean[2]");
    qb_preprocess_default(&p);
    p.resize = QB_RESIZE_STRETCH;
    p.resize_width = 5;
    expect_invalid(&p, "stretch to 5x0");
    qb_preprocess_default(&p);
    p.crop_width = 5;
    expect_invalid(&p, "crop to 5x0");
    qb_preprocess_default(&p);
    p.filter = (qb_filter)9;
    expect_invalid(&p, "filter 9");
}

static void a_shape_alone_gives_a_usable_guess(void **state) {
    (void)state;
    qb_preprocess p;
    qb_preprocess_for_shape(&p, 3, 240, 320);
    assert_int_equal(p.resize, QB_RESIZE_STRETCH);
    assert_int_equal(p.resize_width, 320);
    assert_int_equal(p.resize_height, 240);
    assert_int_equal(p.color, QB_COLOR_RGB);
    qb_preprocess_for_shape(&p, 1, -1, -2);
    assert_int_equal(p.resize, QB_RESIZE_NONE);
    assert_int_equal(p.color, QB_COLOR_GRAY);
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_preprocess_validate(&cx, &p));
}

static void names_are_parsed_back(void **state) {
    (void)state;
    char text[256];
    for (int i = 0; i <= QB_RESIZE_LONGER_SIDE; i++)
        assert_int_equal(qb_word_find(qb_resize_mode_words, qb_resize_mode_text((qb_resize_mode)i)),
                         i);
    for (int i = 0; i <= QB_FILTER_AREA; i++)
        assert_int_equal(qb_word_find(qb_filter_words, qb_filter_text((qb_filter)i)), i);
    for (int i = 0; i <= QB_COLOR_LUMA; i++)
        assert_int_equal(qb_word_find(qb_color_words, qb_color_text((qb_color)i)), i);
    assert_int_equal(qb_word_find(qb_color_words, "rgb"), -1);
    assert_string_equal(qb_filter_text((qb_filter)8), "?");
    assert_string_equal(qb_word_error(qb_resize_mode_words, "leterbox", text, sizeof text),
                        "expected none, stretch, short_side, letterbox or longer_side, got "
                        "'leterbox' (did you mean 'letterbox'?)");
    assert_string_equal(qb_word_error(qb_anchor_words, NULL, text, sizeof text),
                        "expected center or topleft, got nothing");
}

/* Input of one value a pixel: where the image lies, and what is around it. */
static void letterbox_is_where_the_map_says(void **state) {
    (void)state;
    static const struct {
        int32_t width, height, size[2], stride;
        qb_anchor anchor;
        bool no_enlarge;
        int32_t canvas[2], image[4]; /* expected */
    } cases[] = {
        {640, 427, {320, 320}, 0, QB_ANCHOR_TOPLEFT, false, {320, 320}, {0, 0, 320, 214}},
        {640, 427, {320, 320}, 0, QB_ANCHOR_CENTER, false, {320, 320}, {0, 53, 320, 214}},
        {427, 640, {320, 240}, 0, QB_ANCHOR_CENTER, false, {320, 240}, {80, 0, 160, 240}},
        {50, 40, {64, 64}, 0, QB_ANCHOR_CENTER, true, {64, 64}, {7, 12, 50, 40}},
        {50, 40, {100, 100}, 32, QB_ANCHOR_CENTER, false, {128, 96}, {14, 8, 100, 80}},
        {2000, 1, {100, 100}, 0, QB_ANCHOR_TOPLEFT, false, {100, 100}, {0, 0, 100, 1}},
    };
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_image image = fixture_pattern(cases[i].width, cases[i].height, 1);
        memset(image.pixel, 200, (size_t)image.width * (size_t)image.height);
        qb_preprocess p;
        qb_preprocess_default(&p);
        p.color = QB_COLOR_GRAY;
        p.resize = QB_RESIZE_LETTERBOX;
        p.resize_width = cases[i].size[0];
        p.resize_height = cases[i].size[1];
        p.stride = cases[i].stride;
        p.anchor = cases[i].anchor;
        p.no_enlarge = cases[i].no_enlarge;
        p.pad = 7;
        const int32_t *canvas = cases[i].canvas, *at = cases[i].image;
        float *out = calloc((size_t)(canvas[0] * canvas[1]), sizeof *out);
        run(&p, &image, canvas[1], canvas[0], out);
        for (int y = 0; y < canvas[1]; y++)
            for (int x = 0; x < canvas[0]; x++) {
                const bool inside =
                    x >= at[0] && x < at[0] + at[2] && y >= at[1] && y < at[1] + at[3];
                assert_float_equal(out[y * canvas[0] + x], inside ? 200 : 7, 0);
            }
        qb_pixel_map map;
        assert_ok(&cx, qb_preprocess_map(&cx, &p, image.width, image.height, &map));
        assert_float_equal(map.offset[0], at[0], 0);
        assert_float_equal(map.offset[1], at[1], 0);
        assert_float_equal(image.width * map.scale[0], at[2], 1e-9);
        assert_float_equal(image.height * map.scale[1], at[3], 1e-9);
        free(out);
        qb_image_release(&image);
    }
}

static void longer_side_rounds_the_shorter_one(void **state) {
    (void)state;
    qb_image image = fixture_pattern(30, 17, 3);
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.resize = QB_RESIZE_LONGER_SIDE;
    p.resize_width = 20;
    float out[20 * 11 * 3];
    run(&p, &image, 11, 20, out); /* 11.33 */
    p.no_enlarge = true;
    p.resize_width = 60;
    float same[30 * 17 * 3];
    run(&p, &image, 17, 30, same);
    qb_image_release(&image);
}

static void a_crop_moves_the_map(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.resize = QB_RESIZE_SHORT_SIDE;
    p.resize_width = 256;
    p.crop_width = p.crop_height = 224;
    qb_pixel_map map;
    assert_ok(&cx, qb_preprocess_map(&cx, &p, 1024, 512, &map));
    assert_float_equal(map.scale[0], 0.5, 0);
    assert_float_equal(map.offset[0], -144, 0);
    assert_float_equal(map.offset[1], -16, 0);
}

static void channels_last_interleaves(void **state) {
    (void)state;
    qb_image image = fixture_pattern(7, 5, 3);
    qb_preprocess p;
    qb_preprocess_default(&p);
    const float mean[] = {1, 2, 3};
    memcpy(p.mean, mean, sizeof mean);
    p.channels_last = true;
    float out[7 * 5 * 3];
    run(&p, &image, 5, 7, out);
    for (int i = 0; i < 7 * 5 * 3; i++) assert_float_equal(out[i], image.pixel[i] - mean[i % 3], 0);
    const qb_shape shape = qb_preprocess_shape(&p, 5, 7);
    assert_true(shape.dim[1] == 5 && shape.dim[2] == 7 && shape.dim[3] == 3);
    qb_image_release(&image);
}

static void inputs_of_one_image_have_no_items(void **state) {
    (void)state;
    const qb_shape batch = qb_shape_of(4, 2, 3, 5, 7), single = qb_shape_of(3, 3, 5, 7),
                   last = qb_shape_of(3, 5, 7, 3), words = qb_shape_of(3, 1, 16, 32);
    qb_image_input in;
    assert_true(qb_image_input_of(&batch, false, &in));
    assert_true(in.items == 2 && in.channels == 3 && in.height == 5 && in.width == 7);
    assert_true(qb_image_input_of(&single, false, &in));
    assert_true(in.items == 1 && in.channels == 3 && in.height == 5 && in.width == 7);
    assert_true(qb_image_input_of(&last, true, &in));
    assert_true(in.channels == 3 && in.height == 5 && in.width == 7);
    assert_false(qb_image_input_of(&last, false, &in));
    assert_false(qb_image_input_of(&words, false, &in));
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.single = true;
    const qb_shape planes = qb_preprocess_shape(&p, 5, 7);
    assert_true(qb_shape_equal(&planes, &single));
    p.channels_last = true;
    const qb_shape pixels = qb_preprocess_shape(&p, 5, 7);
    assert_true(qb_shape_equal(&pixels, &last));
}

static void two_preparations_differ_where_their_texts_say_so(void **state) {
    (void)state;
#define TAIL ", mean 0 0 0, std 1 1 1, input 224x224"
    static const struct {
        const char *before, *now, *difference;
    } cases[] = {
        {"RGB" TAIL, "RGB" TAIL, ""},
        {"RGB" TAIL, "BGR" TAIL, "color RGB, now BGR"},
        {"RGB, mean 0 0 0, std 1 1 1, input 8x8", "RGB, mean 1 2 3, std 4 5 6, input 8x8",
         "mean 0 0 0, now 1 2 3; std 1 1 1, now 4 5 6"},
        {"RGB, resize short_side 256 bilinear, crop 224x224" TAIL,
         "RGB, resize stretch 224x224 bilinear" TAIL,
         "resize short_side 256 bilinear, now stretch 224x224 bilinear; crop 224x224, now none"},
        /* resized before, as it may be: nothing tells otherwise */
        {"RGB, resize short_side 256 bilinear, crop 224x224" TAIL, "RGB" TAIL, ""},
        {"RGB, resize longer_side 64 bilinear, mean 0 0 0, std 1 1 1, input 0x0",
         "RGB, mean 0 0 0, std 1 1 1, input 0x0", "resize longer_side 64 bilinear, now none"},
        {"RGB" TAIL, "RGB, mean 0 0 0, std 1 1 1", ""},
        {"RGB" TAIL, "RGB" TAIL ", decoder nvjpeg", ""},
        {"RGB" TAIL, "RGB, mean 0 0 0, std 1 1 1, input 224x192", "input 224x224, now 224x192"},
        {"tensors", "RGB" TAIL, ""},
        {"RGB" TAIL, "tensors", ""},
        {"", "RGB" TAIL, "color , now RGB"},
    };
#undef TAIL
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        const bool differs =
            qb_preprocess_differs(cases[i].before, cases[i].now, text, sizeof text);
        assert_string_equal(text, cases[i].difference);
        assert_int_equal(differs, cases[i].difference[0] != '\0');
        char cut[9];
        qb_preprocess_differs(cases[i].before, cases[i].now, cut, sizeof cut);
        assert_memory_equal(cut, text, strlen(cut));
    }
}

static qb_status preprocess_once(qb_ctx *cx, void *user) {
    qb_preprocess p;
    qb_preprocess_for_shape(&p, 3, 7, 5);
    p.color = QB_COLOR_BGR;
    float out[3 * 35];
    return qb_preprocess_image(cx, &p, user, 7, 5, out);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    qb_image image = fixture_pattern(9, 9, 3);
    assert_true(qb_test_alloc_sweep(preprocess_once, &image) >= 9);
    qb_image_release(&image);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(mean_and_std_apply_to_planes),
    cmocka_unit_test(bgr_swaps_the_planes_and_keeps_mean_by_output_channel),
    cmocka_unit_test(luma_equals_pillow),
    cmocka_unit_test(grey_images_are_repeated_and_grey_models_take_them_as_they_are),
    cmocka_unit_test(crop_begins_at_the_floor_of_half_the_rest),
    cmocka_unit_test(resize_then_crop_equals_crop_of_the_whole_resized_image),
    cmocka_unit_test(short_side_cuts_the_long_side),
    cmocka_unit_test(crop_larger_than_the_image_is_an_error),
    cmocka_unit_test(bad_settings_are_named),
    cmocka_unit_test(a_shape_alone_gives_a_usable_guess),
    cmocka_unit_test(names_are_parsed_back),
    cmocka_unit_test(letterbox_is_where_the_map_says),
    cmocka_unit_test(longer_side_rounds_the_shorter_one),
    cmocka_unit_test(a_crop_moves_the_map),
    cmocka_unit_test(channels_last_interleaves),
    cmocka_unit_test(inputs_of_one_image_have_no_items),
    cmocka_unit_test(two_preparations_differ_where_their_texts_say_so),
    cmocka_unit_test(every_failed_allocation_is_reported),
};
QB_TEST_MAIN(tests)

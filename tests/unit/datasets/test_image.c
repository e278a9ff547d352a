#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "datasets/dataset.h"
#include "datasets/datasets_internal.h"
#include "datasets/decoder.h"
#include "fixture.h"
#include "pillow_decode.h"

static void check_pixels(const uint8_t *data, size_t size, int width, int height, int channels,
                         const uint8_t *pixels) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image = {0};
    assert_ok(&cx, qb_image_decode(&cx, "x", data, size, &image));
    assert_int_equal(image.width, width);
    assert_int_equal(image.height, height);
    assert_int_equal(image.channels, channels);
    assert_memory_equal(image.pixel, pixels, (size_t)(width * height * channels));
    qb_image_release(&image);
}

static void jpeg_equals_pillow(void **state) {
    (void)state;
    check_pixels(jpeg_420, sizeof jpeg_420, 18, 10, 3, jpeg_420_pixels);
    check_pixels(jpeg_progressive, sizeof jpeg_progressive, 18, 10, 3, jpeg_progressive_pixels);
    check_pixels(jpeg_cmyk, sizeof jpeg_cmyk, 12, 8, 3, jpeg_cmyk_pixels);
}

/* Fill bytes and markers without a length may stand before each segment of the header. */
static void a_headers_size_is_that_of_the_pixels(void **state) {
    (void)state;
    static const uint8_t between[][2] = {
        {0xff, 0xff}, {0xff, 0x01}, {0xff, 0xd0}, {0xff, 0xd1}, {0xff, 0xd7}};
    uint8_t copy[sizeof jpeg_420 + 2];
    size_t places = 0;
    for (size_t at = 2; jpeg_420[at + 1] != 0xda;
         at += 2 + jpeg_420[at + 2] * 256u + jpeg_420[at + 3])
        for (size_t k = 0; k < sizeof between / sizeof *between; k++, places++) {
            int32_t width, height;
            qb_jpeg_job job;
            memcpy(copy, jpeg_420, at);
            memcpy(copy + at, between[k], 2);
            memcpy(copy + at + 2, jpeg_420 + at, sizeof jpeg_420 - at);
            check_pixels(copy, sizeof copy, 18, 10, 3, jpeg_420_pixels);
            assert_true(qb_image_size(copy, sizeof copy, &width, &height));
            assert_int_equal(width, 18);
            assert_int_equal(height, 10);
            assert_false(qb_jpeg_plain(copy, sizeof copy, &job));
        }
    assert_in_range(places, 20, 100);
}

static void grey_jpeg_keeps_one_channel(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    uint8_t pixel[16 * 8];
    for (int i = 0; i < 16 * 8; i++) pixel[i] = (uint8_t)(i % 16 * 8 + i / 16);
    fixture_bytes jpeg = fixture_jpeg(pixel, 16, 8, 1, 100, FIXTURE_PLAIN);
    qb_image image;
    assert_ok(&cx, qb_image_decode(&cx, "x", jpeg.data, jpeg.size, &image));
    assert_int_equal(image.channels, 1);
    for (int i = 0; i < 16 * 8; i++) assert_in_range(image.pixel[i] + 2 - pixel[i], 0, 4);
    qb_image_release(&image);
    free(jpeg.data);
}

/* A surface of one ink mixture: cyan 100, magenta 50, yellow 0, black 30 of 255. */
static void inks_become_light_with_and_without_adobes_marker(void **state) {
    (void)state;
    static const uint8_t ink[4] = {100, 50, 0, 30};
    static const int expected[3] = {225 - 88, 225 - 44, 225}; /* light - ink * light / 255 */
    static const fixture_ink kinds[] = {FIXTURE_CMYK, FIXTURE_CMYK_ADOBE, FIXTURE_YCCK_ADOBE};
    for (size_t k = 0; k < 3; k++) {
        uint8_t pixel[8 * 8 * 4];
        for (size_t i = 0; i < sizeof pixel; i++)
            pixel[i] = kinds[k] == FIXTURE_CMYK ? ink[i % 4] : (uint8_t)(255 - ink[i % 4]);
        fixture_bytes jpeg = fixture_jpeg(pixel, 8, 8, 4, 100, kinds[k]);
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_image image;
        assert_ok(&cx, qb_image_decode(&cx, "x", jpeg.data, jpeg.size, &image));
        assert_int_equal(image.channels, 3);
        for (int i = 0; i < 8 * 8 * 3; i++)
            assert_in_range(image.pixel[i] + 3 - expected[i % 3], 0, 6);
        qb_image_release(&image);
        free(jpeg.data);
    }
}

/* What is decoded equals `expected`; the row data are deleted with the file's. */
static void check_png(const char *what, const uint8_t *rows, size_t stride, int width, int height,
                      fixture_png_options options, int channels, const uint8_t *expected) {
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        options.interlaced = interlaced;
        fixture_bytes png = fixture_png(rows, stride, width, height, &options);
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_image image = {0};
        assert_ok(&cx, qb_image_decode(&cx, what, png.data, png.size, &image));
        if (image.channels != channels) fail_msg("%s: %d channels", what, image.channels);
        if (memcmp(image.pixel, expected, (size_t)(width * height * channels)) != 0)
            fail_msg("%s (interlaced %d): other pixels", what, interlaced);
        qb_image_release(&image);
        free(png.data);
    }
}

static void png_grey_of_every_depth_is_8_bit_grey(void **state) {
    (void)state;
    static const uint8_t bits1[] = {0xa0, 0x40}; /* 101 / 010 */
    static const uint8_t expected1[] = {255, 0, 255, 0, 255, 0};
    check_png("1 bit", bits1, 1, 3, 2, (fixture_png_options){.depth = 1, .transparent_grey = -1}, 1,
              expected1);
    static const uint8_t bits2[] = {0x1b}; /* 0 1 2 3 */
    static const uint8_t expected2[] = {0, 85, 170, 255};
    check_png("2 bits", bits2, 1, 4, 1, (fixture_png_options){.depth = 2, .transparent_grey = -1},
              1, expected2);
    static const uint8_t bits4[] = {0x0f, 0x7a};
    static const uint8_t expected4[] = {0, 255, 119, 170};
    check_png("4 bits", bits4, 2, 4, 1, (fixture_png_options){.depth = 4, .transparent_grey = -1},
              1, expected4);
    /* in steps of 255: 0.498, 0.502, 254.494, 254.004; cutting would give 0 0 255 254 */
    static const uint8_t bits16[] = {0x00, 0x80, 0x00, 0x81, 0xff, 0x7e, 0xfe, 0xff};
    static const uint8_t expected16[] = {0, 1, 254, 254};
    check_png("16 bits", bits16, 8, 4, 1,
              (fixture_png_options){.depth = 16, .transparent_grey = -1}, 1, expected16);
    /* the transparent level becomes black */
    static const uint8_t bits8[] = {10, 200, 30, 200};
    static const uint8_t expected8[] = {10, 0, 30, 0};
    check_png("tRNS", bits8, 4, 4, 1, (fixture_png_options){.depth = 8, .transparent_grey = 200}, 1,
              expected8);
}

static void png_color_and_alpha(void **state) {
    (void)state;
    static const uint8_t rgb[] = {1, 2, 3, 250, 251, 252};
    check_png("RGB", rgb, 6, 2, 1, (fixture_png_options){.depth = 8, .color_type = 2}, 3, rgb);
    static const uint8_t rgb16[] = {0x12, 0x34, 0xff, 0xff, 0x80, 0x80};
    static const uint8_t expected16[] = {0x12, 0xff, 0x80};
    check_png("RGB 16", rgb16, 6, 1, 1, (fixture_png_options){.depth = 16, .color_type = 2}, 3,
              expected16);
    static const uint8_t rgba[] = {200, 100, 50, 128, 9, 8, 7, 255, 9, 8, 7, 0};
    static const uint8_t expected[] = {100, 50, 25, 9, 8, 7, 0, 0, 0};
    check_png("RGBA", rgba, 12, 3, 1, (fixture_png_options){.depth = 8, .color_type = 6}, 3,
              expected);
    static const uint8_t grey_alpha[] = {200, 51, 100, 255};
    static const uint8_t expected_grey[] = {40, 100};
    check_png("grey alpha", grey_alpha, 4, 2, 1, (fixture_png_options){.depth = 8, .color_type = 4},
              1, expected_grey);
}

static void png_palette_with_alpha(void **state) {
    (void)state;
    static const uint8_t palette[] = {10, 20, 30, 40, 50, 60, 70, 80, 90};
    static const uint8_t alpha[] = {255, 51};
    static const uint8_t rows[] = {0x06}; /* 2 bits a pixel: 0 0 1 2 */
    static const uint8_t plain[] = {10, 20, 30, 10, 20, 30, 40, 50, 60, 70, 80, 90};
    static const uint8_t composed[] = {10, 20, 30, 10, 20, 30, 8, 10, 12, 70, 80, 90};
    fixture_png_options options = {.depth = 2, .color_type = 3, .palette = palette, .n_palette = 3};
    check_png("palette", rows, 1, 4, 1, options, 3, plain);
    options.alpha = alpha;
    options.n_alpha = 2;
    check_png("palette with alpha", rows, 1, 4, 1, options, 3, composed);
}

/* Copies into memory of exactly that size, so that a read past the end is noticed. */
static qb_status decode_copy(qb_ctx *cx, const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size) memcpy(copy, data, size);
    qb_image image = {0};
    qb_status status = qb_image_decode(cx, "x", copy, size, &image);
    if (status != QB_OK) assert_null(image.pixel);
    qb_image_release(&image);
    free(copy);
    return status;
}

static void every_cut_is_an_error(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, decode_copy(&cx, data, size));
    for (size_t n = 0; n < size; n++)
        if (decode_copy(&cx, data, n) != QB_STATUS_FORMAT)
            fail_msg("cut to %zu of %zu bytes: %s", n, size, cx.message);
}

static fixture_bytes small_png(bool interlaced) {
    qb_image image = fixture_pattern(11, 7, 3);
    fixture_png_options options = {.depth = 8, .color_type = 2, .interlaced = interlaced};
    fixture_bytes png = fixture_png(image.pixel, 33, 11, 7, &options);
    qb_image_release(&image);
    return png;
}

static void truncated_jpeg_is_an_error_at_every_length(void **state) {
    (void)state;
    every_cut_is_an_error(jpeg_420, sizeof jpeg_420);
    every_cut_is_an_error(jpeg_progressive, sizeof jpeg_progressive);
    every_cut_is_an_error(jpeg_cmyk, sizeof jpeg_cmyk);
}

static void truncated_png_is_an_error_at_every_length(void **state) {
    (void)state;
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        fixture_bytes png = small_png(interlaced);
        every_cut_is_an_error(png.data, png.size);
        free(png.data);
    }
}

static void every_changed_byte_of_a_png_is_an_error(void **state) {
    (void)state;
    fixture_bytes png = small_png(false);
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < png.size; i++) {
        png.data[i] ^= 0x20;
        if (decode_copy(&cx, png.data, png.size) == QB_OK) fail_msg("byte %zu may be changed", i);
        png.data[i] ^= 0x20;
    }
    free(png.data);
}

static void damaged_jpeg_data_is_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    uint8_t copy[sizeof jpeg_420];
    memcpy(copy, jpeg_420, sizeof copy);
    copy[sizeof copy - 12] = 0xff; /* a marker in the middle of the picture */
    copy[sizeof copy - 11] = 0xd9;
    assert_fails(&cx, decode_copy(&cx, copy, sizeof copy), QB_STATUS_FORMAT);
    assert_message(&cx, "x: JPEG: ");
}

static void what_is_no_image_is_named(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_fails(&cx, decode_copy(&cx, (const uint8_t *)"GIF89a", 6), QB_STATUS_FORMAT);
    assert_message(&cx, "x: neither JPEG nor PNG, begins with 47 49 46 38 39 61");
    assert_fails(&cx, decode_copy(&cx, NULL, 0), QB_STATUS_FORMAT);
    assert_message(&cx, "empty");
}

static void put_32(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t crc_32(const uint8_t *data, size_t n) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void huge_sizes_are_refused_before_memory_is_taken(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    fixture_bytes png = small_png(false);
    static const uint32_t sizes[][2] = {{10001, 10000}, {1 << 30, 1 << 30}, {INT_MAX, 1}};
    for (size_t k = 0; k < 3; k++) {
        put_32(png.data + 16, sizes[k][0]);
        put_32(png.data + 20, sizes[k][1]);
        put_32(png.data + 29, crc_32(png.data + 12, 17));
        assert_fails(&cx, decode_copy(&cx, png.data, png.size), QB_STATUS_UNSUPPORTED);
        assert_message(&cx, "the limit is 100000000");
    }
    /* allowed in size, but no file of this length can hold it */
    put_32(png.data + 16, 10000);
    put_32(png.data + 20, 10000);
    put_32(png.data + 29, crc_32(png.data + 12, 17));
    assert_fails(&cx, decode_copy(&cx, png.data, png.size), QB_STATUS_FORMAT);
    assert_message(&cx, "cannot hold 10000x10000");
    free(png.data);

    uint8_t copy[sizeof jpeg_420];
    memcpy(copy, jpeg_420, sizeof copy);
    size_t at = 0;
    while (!(copy[at] == 0xff && copy[at + 1] == 0xc0)) at++;
    memcpy(copy + at + 5, "\xff\x00\xff\x00", 4); /* 65280 x 65280 */
    assert_fails(&cx, decode_copy(&cx, copy, sizeof copy), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "65280x65280");
}

static void png_written_is_read_back(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "a b's ü.png");
    for (int channels = 1; channels <= 3; channels += 2) {
        qb_image image = fixture_pattern(23, 9, channels);
        assert_ok(&cx, qb_image_write_png(&cx, path, &image));
        qb_map map;
        assert_ok(&cx, qb_map_open(&cx, path, &map));
        check_pixels(map.data, map.size, 23, 9, channels, image.pixel);
        qb_map_close(&map);
        qb_image_release(&image);
    }
    assert_int_equal(qb_test_count_files(folder), 1);
}

static void png_that_cannot_be_written_leaves_the_old_file(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    fixture_text(folder, "old.png", "old");
    qb_test_join(path, folder, "old.png");
    qb_image image = fixture_pattern(4, 4, 3);
    image.channels = 2;
    assert_fails(&cx, qb_image_write_png(&cx, path, &image), QB_STATUS_INVALID);
    assert_message(&cx, "4x4x2");
    image.channels = 3;
    image.width = 2000000000; /* libpng refuses it once the file is open */
    assert_fails(&cx, qb_image_write_png(&cx, path, &image), QB_STATUS_IO);
    assert_message(&cx, "old.png");
    image.width = 4;
    assert_int_equal(qb_test_count_files(folder), 1);
    char *text;
    size_t size;
    assert_ok(&cx, qb_file_read(&cx, path, 100, &text, &size));
    assert_string_equal(text, "old");
    qb_free(text);
    qb_test_join(path, folder, "missing/new.png");
    assert_fails(&cx, qb_image_write_png(&cx, path, &image), QB_STATUS_NOTFOUND);
    assert_fails(&cx, qb_image_write_png(&cx, "/dev/full", &image), QB_STATUS_IO);
    assert_message(&cx, "/dev/full");
    qb_image_release(&image);
}

static qb_status decode_sweep(qb_ctx *cx, void *user) {
    const fixture_bytes *bytes = user;
    qb_image image = {0};
    qb_status status = qb_image_decode(cx, "x", bytes->data, bytes->size, &image);
    qb_image_release(&image);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    fixture_bytes jpeg = {(uint8_t *)(uintptr_t)jpeg_cmyk, sizeof jpeg_cmyk};
    fixture_bytes png = small_png(true);
    assert_int_equal(qb_test_alloc_sweep(decode_sweep, &jpeg), 2);
    assert_int_equal(qb_test_alloc_sweep(decode_sweep, &png), 2);
    free(png.data);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(jpeg_equals_pillow),
    cmocka_unit_test(a_headers_size_is_that_of_the_pixels),
    cmocka_unit_test(grey_jpeg_keeps_one_channel),
    cmocka_unit_test(inks_become_light_with_and_without_adobes_marker),
    cmocka_unit_test(png_grey_of_every_depth_is_8_bit_grey),
    cmocka_unit_test(png_color_and_alpha),
    cmocka_unit_test(png_palette_with_alpha),
    cmocka_unit_test(truncated_jpeg_is_an_error_at_every_length),
    cmocka_unit_test(truncated_png_is_an_error_at_every_length),
    cmocka_unit_test(every_changed_byte_of_a_png_is_an_error),
    cmocka_unit_test(damaged_jpeg_data_is_an_error),
    cmocka_unit_test(what_is_no_image_is_named),
    cmocka_unit_test(huge_sizes_are_refused_before_memory_is_taken),
    cmocka_unit_test(png_written_is_read_back),
    cmocka_unit_test(png_that_cannot_be_written_leaves_the_old_file),
    cmocka_unit_test(every_failed_allocation_is_reported),
};
QB_TEST_MAIN(tests)

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "base/file.h"

qb_image fixture_pattern(int32_t width, int32_t height, int32_t channels) {
    qb_image image = {width, height, channels, NULL};
    qb_ctx cx;
    qb_ctx_init(&cx);
    image.pixel = qb_alloc(&cx, (size_t)width * (size_t)height, (size_t)channels);
    assert_non_null(image.pixel);
    uint8_t *to = image.pixel;
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++)
            for (int32_t c = 0; c < channels; c++)
                *to++ = (uint8_t)(x * 37 + y * 91 + c * 53 + ((x * y) ^ (x + 3 * y)) * 13);
    return image;
}

uint64_t fixture_digest(const qb_image *image) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    size_t n = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    for (size_t i = 0; i < n; i++) h = (h ^ image->pixel[i]) * UINT64_C(0x100000001b3);
    return h;
}

fixture_bytes fixture_jpeg(const uint8_t *pixel, int width, int height, int channels, int quality,
                           fixture_ink ink) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    fixture_bytes out = {NULL, 0};
    unsigned long size = 0;
    jpeg_mem_dest(&jpeg, &out.data, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    if (ink == FIXTURE_YCCK_ADOBE) jpeg_set_colorspace(&jpeg, JCS_YCCK);
    if (channels == 4) jpeg.write_Adobe_marker = ink != FIXTURE_CMYK;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)pixel + jpeg.next_scanline * (size_t)(width * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    out.size = size;
    return out;
}

static void append(png_structp png, png_bytep data, size_t n) {
    fixture_bytes *out = png_get_io_ptr(png);
    out->data = realloc(out->data, out->size + n);
    assert_non_null(out->data);
    memcpy(out->data + out->size, data, n);
    out->size += n;
}

static void flush(png_structp png) { (void)png; }

fixture_bytes fixture_png(const uint8_t *rows, size_t stride, int width, int height,
                          const fixture_png_options *options) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    fixture_bytes out = {NULL, 0};
    png_set_write_fn(png, &out, append, flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, options->depth,
                 options->color_type, options->interlaced ? PNG_INTERLACE_ADAM7 : 0, 0, 0);
    if (options->palette) {
        png_color color[256];
        for (int i = 0; i < options->n_palette; i++)
            color[i] = (png_color){options->palette[3 * i], options->palette[3 * i + 1],
                                   options->palette[3 * i + 2]};
        png_set_PLTE(png, info, color, options->n_palette);
    }
    if (options->alpha) png_set_tRNS(png, info, options->alpha, options->n_alpha, NULL);
    if (options->transparent_grey >= 0 && options->color_type == PNG_COLOR_TYPE_GRAY) {
        png_color_16 color = {.gray = (png_uint_16)options->transparent_grey};
        png_set_tRNS(png, info, NULL, 0, &color);
    }
    png_write_info(png, info);
    png_bytep *row = malloc((size_t)height * sizeof *row);
    assert_non_null(row);
    for (int y = 0; y < height; y++) row[y] = (png_bytep)rows + (size_t)y * stride;
    png_write_image(png, row);
    png_write_end(png, info);
    free(row);
    png_destroy_write_struct(&png, &info);
    return out;
}

void fixture_write(const char *folder, const char *name, const void *data, size_t size) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void fixture_text(const char *folder, const char *name, const char *text) {
    fixture_write(folder, name, text, strlen(text));
}

void fixture_folder(const char *folder, const char *name) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_make_dirs(&cx, path));
}

void fixture_photo(const char *folder, const char *name, int width, int height, int seed) {
    qb_image image = fixture_pattern(width, height, 3);
    size_t n = (size_t)width * (size_t)height * 3;
    for (size_t i = 0; i < n; i++)
        image.pixel[i] = (uint8_t)(image.pixel[i] / 4 + 17 * seed + (int)(i / 3) % 64);
    fixture_bytes jpeg = fixture_jpeg(image.pixel, width, height, 3, 90, FIXTURE_PLAIN);
    fixture_write(folder, name, jpeg.data, jpeg.size);
    free(jpeg.data);
    qb_image_release(&image);
}

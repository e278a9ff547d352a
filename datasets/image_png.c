/* PNG with libpng: all colour types and depths become 8-bit grey or RGB. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/file.h"
#include "datasets_internal.h"

typedef struct reader {
    png_structp png;
    png_infop info;
    qb_ctx *cx;
    const char *name;
    const uint8_t *data;
    size_t size, at;
    qb_image image; /* may have an alpha channel until it is composed */
    png_bytep *row;
    bool indices; /* values as they are stored */
} reader;

static void on_read_error(png_structp png, png_const_charp text) {
    const reader *r = png_get_error_ptr(png);
    qb_fail(r->cx, QB_STATUS_FORMAT, "%s: PNG: %s", r->name, text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void read_bytes(png_structp png, png_bytep to, size_t n) {
    reader *r = png_get_io_ptr(png);
    if (n > r->size - r->at) png_error(png, "the file is cut short");
    memcpy(to, r->data + r->at, n);
    r->at += n;
}

/* Deflate shrinks at most 1032 times, so a small file that promises a huge image is a lie that can
 * be told before any memory is taken. */
static qb_status check_promise(const reader *r, int64_t width, int64_t height, int bits) {
    double promised = (double)height * (((double)width * bits + 7) / 8);
    if (promised / 1032 <= (double)r->size + 64) return QB_OK;
    return qb_fail(r->cx, QB_STATUS_FORMAT,
                   "%s: PNG: %zu bytes cannot hold %lldx%lld pixels of %d bits", r->name, r->size,
                   (long long)width, (long long)height, bits);
}

static void read_header(reader *r) {
    png_set_read_fn(r->png, r, read_bytes);
    png_set_user_limits(r->png, INT32_MAX, INT32_MAX);
    png_read_info(r->png, r->info);
    int64_t width = png_get_image_width(r->png, r->info);
    int64_t height = png_get_image_height(r->png, r->info);
    int bits = png_get_bit_depth(r->png, r->info) * png_get_channels(r->png, r->info);
    if (qb_image_check_size(r->cx, r->name, width, height) != QB_OK ||
        check_promise(r, width, height, bits) != QB_OK)
        png_longjmp(r->png, 1);
    if (r->indices) {
        png_set_packing(r->png); /* 1 to 4 bits: a byte each */
    } else {
        png_set_scale_16(r->png); /* rounds, where png_set_strip_16 cuts */
        png_set_expand(r->png);   /* palettes, 1 to 4 bits, transparent colours to alpha */
    }
    png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
}

/* Colours and 16 bits are no class numbers. */
static void check_indices(const reader *r) {
    const int type = png_get_color_type(r->png, r->info);
    const bool plain = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE;
    if (plain && png_get_bit_depth(r->png, r->info) <= 8) return;
    qb_fail(r->cx, QB_STATUS_UNSUPPORTED,
            "%s: PNG: a mask needs one channel of at most 8 bits (grey or palette)", r->name);
    png_longjmp(r->png, 1);
}

static void read_pixels(reader *r) {
    int64_t width = png_get_image_width(r->png, r->info);
    int64_t height = png_get_image_height(r->png, r->info);
    int channels = png_get_channels(r->png, r->info);
    size_t stride = png_get_rowbytes(r->png, r->info);
    if (stride != (size_t)width * (size_t)channels) png_error(r->png, "unexpected row size");
    if (qb_image_create(r->cx, r->name, width, height, channels, &r->image) != QB_OK)
        png_longjmp(r->png, 1);
    r->row = qb_alloc(r->cx, (size_t)height, sizeof *r->row);
    if (!r->row) png_longjmp(r->png, 1);
    for (int64_t y = 0; y < height; y++) r->row[y] = r->image.pixel + (size_t)y * stride;
    png_read_image(r->png, r->row);
    png_read_end(r->png, NULL); /* the rest of the chunks: a cut file has none */
}

/* Over black, in place: colour times alpha. */
static void compose(qb_image *image) {
    int colors = image->channels - 1;
    size_t n = (size_t)image->width * (size_t)image->height;
    const uint8_t *from = image->pixel;
    uint8_t *to = image->pixel;
    for (size_t i = 0; i < n; i++, from += colors + 1) {
        unsigned alpha = from[colors];
        for (int c = 0; c < colors; c++) *to++ = (uint8_t)((from[c] * alpha + 127) / 255);
    }
    image->channels = colors;
}

static qb_status read_protected(reader *r) {
    if (setjmp(png_jmpbuf(r->png))) return r->cx->code;
    r->info = png_create_info_struct(r->png);
    if (!r->info) return qb_fail(r->cx, QB_STATUS_NOMEM, "%s: PNG: out of memory", r->name);
    read_header(r);
    if (r->indices) check_indices(r);
    read_pixels(r);
    return QB_OK;
}

qb_status qb_png_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                        bool indices, qb_image *out) {
    reader r = {.cx = cx, .name = name, .data = data, .size = size, .indices = indices};
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_read_error, on_warning);
    if (!r.png) return qb_fail(cx, QB_STATUS_NOMEM, "%s: PNG: out of memory", name);
    qb_status status = read_protected(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    qb_free(r.row);
    if (status != QB_OK) {
        qb_image_release(&r.image);
        return status;
    }
    if (r.image.channels % 2 == 0) compose(&r.image);
    *out = r.image;
    return QB_OK;
}

typedef struct encoder {
    png_structp png;
    png_infop info;
    qb_ctx *cx;
    const char *name;
    FILE *stream;
    const qb_image *image;
} encoder;

static void on_write_error(png_structp png, png_const_charp text) {
    const encoder *e = png_get_error_ptr(png);
    if (ferror(e->stream))
        qb_fail_errno(e->cx, "write %s", e->name);
    else
        qb_fail(e->cx, QB_STATUS_IO, "write %s: PNG: %s", e->name, text);
    png_longjmp(png, 1);
}

static qb_status write_protected(encoder *e) {
    if (setjmp(png_jmpbuf(e->png))) return e->cx->code;
    e->info = png_create_info_struct(e->png);
    if (!e->info) return qb_fail(e->cx, QB_STATUS_NOMEM, "write %s: out of memory", e->name);
    const qb_image *image = e->image;
    png_init_io(e->png, e->stream);
    png_set_IHDR(e->png, e->info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 image->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(e->png, e->info);
    size_t stride = (size_t)image->width * (size_t)image->channels;
    for (int32_t y = 0; y < image->height; y++)
        png_write_row(e->png, image->pixel + (size_t)y * stride);
    png_write_end(e->png, e->info);
    return QB_OK;
}

qb_status qb_image_encode_png(qb_ctx *cx, const char *name, const qb_image *image, FILE *stream) {
    if (image->width < 1 || image->height < 1 || (image->channels != 1 && image->channels != 3))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "write %s: expected an image with 1 or 3 channels, got %dx%dx%d", name,
                       image->width, image->height, image->channels);
    encoder e = {.cx = cx, .name = name, .stream = stream, .image = image};
    e.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, on_write_error, on_warning);
    qb_status status =
        e.png ? write_protected(&e) : qb_fail(cx, QB_STATUS_NOMEM, "write %s: out of memory", name);
    png_destroy_write_struct(&e.png, &e.info);
    return status;
}

qb_status qb_image_write_png(qb_ctx *cx, const char *path, const qb_image *image) {
    QB_RELEASED(qb_writer_abort) qb_writer writer = {0};
    QB_TRY(qb_writer_open(cx, path, &writer));
    writer.scratch = true; /* pictures come by the thousand and can be drawn again */
    QB_TRY(qb_image_encode_png(cx, path, image, writer.stream));
    return qb_writer_commit(cx, &writer);
}

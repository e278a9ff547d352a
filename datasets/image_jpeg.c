/* JPEG with libjpeg-turbo: accurate integer DCT and smooth chroma upsampling, its defaults and
 * Pillow's, so that pixel values agree with what models were trained on. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "datasets_internal.h"

/* Encoders write about ten scans; a file with thousands of them, each over the whole image, is made
 * to waste time. */
#define SCANS_MAX 100

typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    qb_ctx *cx;
    const char *name;
    const uint8_t *data;
    size_t size;
    qb_image image;
    uint8_t *row; /* one row of CMYK */
} decoder;

static void leave(decoder *d, qb_status code, const char *text) {
    qb_fail(d->cx, code, "%s: JPEG: %s", d->name, text);
    longjmp(d->jump, 1);
}

static void on_error(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    d->error.format_message(jpeg, text);
    int code = d->error.msg_code;
    leave(d, code == JERR_OUT_OF_MEMORY ? QB_STATUS_NOMEM : QB_STATUS_FORMAT, text);
}

/* libjpeg calls damage in the data a warning and paints what is missing grey. Only warnings about
 * headers that do not change a pixel are let through. */
static void on_message(j_common_ptr jpeg, int level) {
    int code = jpeg->err->msg_code;
    if (level >= 0 || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
    on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    if (d->jpeg.input_scan_number <= SCANS_MAX) return;
    leave(d, QB_STATUS_UNSUPPORTED, "more than 100 scans");
}

/* a * b / 255 rounded, without a division. */
static unsigned mul_255(unsigned a, unsigned b) {
    unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Inks to light. Adobe's programs, and with them nearly all CMYK files there are, store 255 - ink;
 * their marker tells. */
static void cmyk_row(const uint8_t *in, uint8_t *out, int32_t n, bool inverted) {
    unsigned flip = inverted ? 255 : 0;
    for (int32_t i = 0; i < n; i++, in += 4) {
        unsigned light = 255 - (in[3] ^ flip);
        for (int c = 0; c < 3; c++) *out++ = (uint8_t)(light - mul_255(in[c] ^ flip, light));
    }
}

static void read_rows(decoder *d) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    bool inks = jpeg->out_color_space == JCS_CMYK;
    size_t stride = (size_t)d->image.width * (size_t)d->image.channels;
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = d->image.pixel + jpeg->output_scanline * stride;
        JSAMPROW row[16];
        if (inks) {
            row[0] = d->row;
            jpeg_read_scanlines(jpeg, row, 1);
            cmyk_row(d->row, to, d->image.width, jpeg->saw_Adobe_marker);
            continue;
        }
        JDIMENSION n = jpeg->output_height - jpeg->output_scanline;
        if (n > 16) n = 16;
        for (JDIMENSION i = 0; i < n; i++) row[i] = to + i * stride;
        jpeg_read_scanlines(jpeg, row, n);
    }
}

/* Everything that may jump. No local lives over a jump: all state is in *d. */
static void decode(decoder *d) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg->progress = &d->progress;
    d->progress.progress_monitor = on_progress;
    jpeg_mem_src(jpeg, d->data, (unsigned long)d->size);
    jpeg_read_header(jpeg, TRUE);
    switch (jpeg->jpeg_color_space) {
    case JCS_GRAYSCALE: jpeg->out_color_space = JCS_GRAYSCALE; break;
    case JCS_CMYK:
    case JCS_YCCK: jpeg->out_color_space = JCS_CMYK; break;
    default: jpeg->out_color_space = JCS_RGB; break;
    }
    int channels = jpeg->out_color_space == JCS_GRAYSCALE ? 1 : 3;
    if (qb_image_create(d->cx, d->name, jpeg->image_width, jpeg->image_height, channels,
                        &d->image) != QB_OK)
        longjmp(d->jump, 1);
    if (jpeg->out_color_space == JCS_CMYK) {
        d->row = qb_alloc(d->cx, jpeg->image_width, 4);
        if (!d->row) longjmp(d->jump, 1);
    }
    jpeg_start_decompress(jpeg);
    read_rows(d);
    jpeg_finish_decompress(jpeg); /* reads up to the end marker and so notices a missing end */
}

qb_status qb_jpeg_decode(qb_ctx *cx, const char *name, const uint8_t *data, size_t size,
                         qb_image *out) {
    decoder d;
    memset(&d, 0, sizeof d);
    d.cx = cx;
    d.name = name;
    d.data = data;
    d.size = size;
    d.jpeg.err = jpeg_std_error(&d.error);
    d.error.error_exit = on_error;
    d.error.emit_message = on_message;
    d.jpeg.client_data = &d;
    qb_status status = QB_OK;
    if (setjmp(d.jump) == 0)
        decode(&d);
    else
        status = cx->code;
    jpeg_destroy_decompress(&d.jpeg);
    qb_free(d.row);
    if (status != QB_OK) {
        qb_image_release(&d.image);
        return status;
    }
    *out = d.image;
    return QB_OK;
}

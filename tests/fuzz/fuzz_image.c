/* The image decoders, what tells a device's JPEG files from others, and the transforms on what
 * comes out of them. The first two bytes choose the preprocessing, the rest is the file. */
#include <stdint.h>
#include <stdlib.h>

#include "datasets/datasets_internal.h"
#include "datasets/decoder.h"
#include "datasets/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE = 17, PIXELS_MAX = 1 << 22 };

/* Large images cost time and teach nothing new; their sizes are checked before this. */
static void preprocess(qb_ctx *cx, const qb_image *image, unsigned choice) {
    if ((int64_t)image->width * image->height > PIXELS_MAX) return;
    qb_preprocess p;
    qb_preprocess_default(&p);
    p.resize = choice & 64  ? QB_RESIZE_LETTERBOX
               : choice & 1 ? QB_RESIZE_SHORT_SIDE
                            : QB_RESIZE_STRETCH;
    p.channels_last = choice & 128;
    p.resize_width = p.resize_height = choice & 2 ? SIDE : SIDE + 9;
    p.filter = (qb_filter)(choice / 256 % 8);
    p.color = (qb_color)(choice / 16 % 4);
    p.crop_width = p.crop_height = SIDE;
    float out[3 * SIDE * SIDE];
    qb_pixel_map map;
    if (qb_preprocess_map(cx, &p, image->width, image->height, &map) == QB_OK &&
        !(map.scale[0] > 0 && map.scale[1] > 0))
        abort();
    if (qb_preprocess_image(cx, &p, image, SIDE, SIDE, out) != QB_OK && cx->message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image = {0};
    qb_jpeg_job job;
    const bool plain = qb_jpeg_plain(data + 2, size - 2, &job);
    if (qb_image_decode(&cx, "fuzz", data + 2, size - 2, &image) == QB_OK) {
        int32_t width, height;
        if (!qb_image_size(data + 2, size - 2, &width, &height) || width != image.width ||
            height != image.height)
            abort();
        if (plain &&
            (image.width != job.width || image.height != job.height || image.channels != 3))
            abort();
        preprocess(&cx, &image, data[0] | (unsigned)data[1] << 8);
        qb_image_release(&image);
    } else if (image.pixel || cx.message[0] == '\0') {
        abort();
    }
    if (data[2] == 0x89) { /* PNG, as a mask */
        qb_image mask = {0};
        if (qb_png_decode(&cx, "fuzz", data + 2, size - 2, true, &mask) == QB_OK)
            qb_image_release(&mask);
        else if (mask.pixel)
            abort();
    }
    return 0;
}

/* resize: to a given size, to a length of one side, or into a canvas with the proportions kept. */
#include <math.h>
#include <string.h>

#include "datasets/datasets_internal.h"

/* Of the image itself, in double so that every machine gets the same. */
static int64_t scaled(int32_t side, double ratio) { return (int64_t)floor(side * ratio + 0.5); }

static double fit_ratio(const qb_preprocess *p, int32_t width, int32_t height) {
    const bool one = p->resize == QB_RESIZE_LONGER_SIDE;
    const double across = (double)p->resize_width / width;
    const double down = (double)(one ? p->resize_width : p->resize_height) / height;
    const double ratio = across < down ? across : down;
    return p->no_enlarge && ratio > 1 ? 1 : ratio;
}

/* The long side is cut, not rounded, as torchvision does. */
static void target_size(const qb_preprocess *p, int32_t *width, int32_t *height) {
    int64_t w = *width, h = *height, side = p->resize_width;
    switch (p->resize) {
    case QB_RESIZE_NONE: return;
    case QB_RESIZE_STRETCH:
        w = p->resize_width;
        h = p->resize_height;
        break;
    case QB_RESIZE_SHORT_SIDE:
        if (w <= h) {
            h = side * h / w;
            w = side;
        } else {
            w = side * w / h;
            h = side;
        }
        break;
    case QB_RESIZE_LETTERBOX:
    case QB_RESIZE_LONGER_SIDE:
        w = scaled(*width, fit_ratio(p, *width, *height));
        h = scaled(*height, fit_ratio(p, *width, *height));
        if (w < 1) w = 1; /* a very long image keeps a line of pixels */
        if (h < 1) h = 1;
        break;
    }
    *width = w > INT32_MAX ? INT32_MAX : (int32_t)w;
    *height = h > INT32_MAX ? INT32_MAX : (int32_t)h;
}

/* The canvas around an image of this resized size, and where on it the image is. */
static qb_region canvas_of(const qb_preprocess *p, int32_t width, int32_t height) {
    if (p->resize != QB_RESIZE_LETTERBOX) return (qb_region){0, 0, width, height};
    const int64_t s = p->stride;
    qb_region canvas = {0, 0, p->resize_width, p->resize_height};
    if (s > 0) {
        canvas.width = (int32_t)(((int64_t)width + s - 1) / s * s);
        canvas.height = (int32_t)(((int64_t)height + s - 1) / s * s);
    }
    if (p->anchor == QB_ANCHOR_CENTER) {
        canvas.x = (canvas.width - width) / 2;
        canvas.y = (canvas.height - height) / 2;
    }
    return canvas;
}

static qb_status resize_size(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height) {
    target_size(p, width, height);
    QB_TRY(qb_image_check_size(cx, "resize", *width, *height));
    const qb_region canvas = canvas_of(p, *width, *height);
    *width = canvas.width;
    *height = canvas.height;
    return qb_image_check_size(cx, "resize", *width, *height);
}

static void resize_map(const qb_preprocess *p, int32_t width, int32_t height, qb_pixel_map *map) {
    int32_t w = width, h = height;
    target_size(p, &w, &h);
    const qb_region canvas = canvas_of(p, w, h);
    map->scale[0] = (double)w / width;
    map->scale[1] = (double)h / height;
    map->offset[0] = canvas.x;
    map->offset[1] = canvas.y;
}

/* Puts the frame on its canvas. */
static qb_status place(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    const qb_region canvas = canvas_of(p, frame->width, frame->height);
    if (canvas.width == frame->width && canvas.height == frame->height) return QB_OK;
    qb_image image;
    QB_TRY(qb_image_create(cx, "letterbox", canvas.width, canvas.height, frame->channels, &image));
    const size_t pixel = (size_t)frame->channels, stride = (size_t)canvas.width * pixel;
    memset(image.pixel, p->pad, stride * (size_t)canvas.height);
    for (int32_t y = 0; y < frame->height; y++)
        memcpy(image.pixel + (size_t)(canvas.y + y) * stride + (size_t)canvas.x * pixel,
               frame->pixel + (size_t)y * frame->stride, (size_t)frame->width * pixel);
    qb_frame_replace(frame, &image);
    return QB_OK;
}

static qb_status resize_apply(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    int32_t width = frame->width, height = frame->height;
    target_size(p, &width, &height);
    if (width == frame->width && height == frame->height) return place(cx, p, frame);
    /* What the crop is going to drop is not computed; the crop then finds its work done. */
    const bool letterbox = p->resize == QB_RESIZE_LETTERBOX;
    const qb_region all = {0, 0, width, height};
    const qb_region window = letterbox ? all : qb_crop_region(p, width, height);
    qb_image image;
    QB_TRY(qb_resize_region(cx, frame, width, height, &window, p->filter, &image));
    qb_frame_replace(frame, &image);
    return place(cx, p, frame);
}

const qb_transform qb_transform_resize = {
    .name = "resize",
    .text = "stretch, short or long side to a length, or into a canvas (letterbox); filters as "
            "Pillow or OpenCV",
    .size = resize_size,
    .map = resize_map,
    .apply = resize_apply,
};

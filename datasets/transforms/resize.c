/* resize: to a given size, or so that the short side gets a given length. */
#include "datasets/datasets_internal.h"

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
    }
    *width = w > INT32_MAX ? INT32_MAX : (int32_t)w;
    *height = h > INT32_MAX ? INT32_MAX : (int32_t)h;
}

static qb_status resize_size(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height) {
    target_size(p, width, height);
    return qb_image_check_size(cx, "resize", *width, *height);
}

static qb_status resize_apply(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    int32_t width = frame->width, height = frame->height;
    target_size(p, &width, &height);
    if (width == frame->width && height == frame->height) return QB_OK;
    /* What the crop is going to drop is not computed; the crop then finds its work done. */
    qb_region window = qb_crop_region(p, width, height);
    qb_image image;
    QB_TRY(qb_resize_region(cx, frame, width, height, &window, p->filter, &image));
    qb_frame_replace(frame, &image);
    return QB_OK;
}

const qb_transform qb_transform_resize = {
    .name = "resize",
    .text = "stretch, or short side to a length; bilinear, bicubic, lanczos with antialiasing",
    .size = resize_size,
    .apply = resize_apply,
};

/* crop: the centre; an odd rest leaves one pixel more at the right and bottom. */
#include "datasets/datasets_internal.h"

qb_region qb_crop_region(const qb_preprocess *p, int32_t width, int32_t height) {
    if (!p->crop_width) return (qb_region){0, 0, width, height};
    return (qb_region){(width - p->crop_width) / 2, (height - p->crop_height) / 2, p->crop_width,
                       p->crop_height};
}

static qb_status crop_size(qb_ctx *cx, const qb_preprocess *p, int32_t *width, int32_t *height) {
    if (!p->crop_width) return QB_OK;
    if (p->crop_width > *width || p->crop_height > *height)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "crop to %dx%d: the image has only %dx%d pixels (after resize %s)",
                       p->crop_width, p->crop_height, *width, *height,
                       qb_resize_mode_text(p->resize));
    *width = p->crop_width;
    *height = p->crop_height;
    return QB_OK;
}

static void crop_map(const qb_preprocess *p, int32_t width, int32_t height, qb_pixel_map *map) {
    const qb_region window = qb_crop_region(p, width, height);
    map->offset[0] -= window.x;
    map->offset[1] -= window.y;
}

static qb_status crop_apply(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    (void)cx;
    qb_region window = qb_crop_region(p, frame->width, frame->height);
    frame->pixel += (size_t)window.y * frame->stride + (size_t)window.x * (size_t)frame->channels;
    frame->width = window.width;
    frame->height = window.height;
    return QB_OK;
}

const qb_transform qb_transform_crop = {
    .name = "crop",
    .text = "centre crop, offset floor((side - crop) / 2)",
    .size = crop_size,
    .map = crop_map,
    .apply = crop_apply,
};

/* color: to the channels that the model wants. */
#include "datasets/datasets_internal.h"

/* ITU-R BT.601 luma in 16-bit fixed point, as Pillow's convert("L"). */
QB_LOOP(luma_row, (const uint8_t *restrict in, int32_t n, uint8_t *restrict out), (in, n, out)) {
    for (int32_t i = 0; i < n; i++)
        out[i] = (uint8_t)((19595u * in[3 * i] + 38470u * in[3 * i + 1] + 7471u * in[3 * i + 2] +
                            0x8000u) >>
                           16);
}

QB_LOOP(swap_row, (const uint8_t *restrict in, int32_t n, uint8_t *restrict out), (in, n, out)) {
    for (int32_t i = 0; i < n; i++) {
        out[3 * i] = in[3 * i + 2];
        out[3 * i + 1] = in[3 * i + 1];
        out[3 * i + 2] = in[3 * i];
    }
}

QB_LOOP(spread_row, (const uint8_t *restrict in, int32_t n, uint8_t *restrict out), (in, n, out)) {
    for (int32_t i = 0; i < n; i++) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
}

static qb_status color_apply(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    int32_t channels = qb_preprocess_channels(p);
    void (*convert)(const uint8_t *restrict, int32_t, uint8_t *restrict);
    if (channels == 1 && frame->channels == 3)
        convert = luma_row;
    else if (channels == 3 && frame->channels == 1)
        convert = spread_row;
    else if (p->color == QB_COLOR_BGR)
        convert = swap_row;
    else
        return QB_OK;
    qb_image image;
    QB_TRY(qb_image_create(cx, "color", frame->width, frame->height, channels, &image));
    for (int32_t y = 0; y < frame->height; y++)
        convert(frame->pixel + (size_t)y * frame->stride, frame->width,
                image.pixel + (size_t)y * (size_t)frame->width * (size_t)channels);
    qb_frame_replace(frame, &image);
    return QB_OK;
}

const qb_transform qb_transform_color = {
    .name = "color",
    .text = "RGB, BGR, GRAY or Y (ITU-R 601 luma); grey images are repeated",
    .apply = color_apply,
};

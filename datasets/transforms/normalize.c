/* normalize: (pixel - mean) / std as floats, channel after channel or pixel after pixel. A
 * division, not a product with 1 / std: the values are those that numpy computes in float32. */
#include "datasets/datasets_internal.h"

QB_LOOP(planes_3,
        (const uint8_t *restrict in, int32_t n, const float *mean, const float *std,
         float *restrict a, float *restrict b, float *restrict c),
        (in, n, mean, std, a, b, c)) {
    float m0 = mean[0], m1 = mean[1], m2 = mean[2], s0 = std[0], s1 = std[1], s2 = std[2];
    for (int32_t i = 0; i < n; i++) {
        a[i] = ((float)in[3 * i] - m0) / s0;
        b[i] = ((float)in[3 * i + 1] - m1) / s1;
        c[i] = ((float)in[3 * i + 2] - m2) / s2;
    }
}

QB_LOOP(plane_1,
        (const uint8_t *restrict in, int32_t n, float mean, float std, float *restrict out),
        (in, n, mean, std, out)) {
    for (int32_t i = 0; i < n; i++) out[i] = ((float)in[i] - mean) / std;
}

QB_LOOP(pixels_3,
        (const uint8_t *restrict in, int32_t n, const float *mean, const float *std,
         float *restrict out),
        (in, n, mean, std, out)) {
    for (int32_t i = 0; i < 3 * n; i += 3)
        for (int c = 0; c < 3; c++) out[i + c] = ((float)in[i + c] - mean[c]) / std[c];
}

static qb_status normalize_apply(qb_ctx *cx, const qb_preprocess *p, qb_frame *frame) {
    (void)cx;
    size_t plane = (size_t)frame->width * (size_t)frame->height;
    for (int32_t y = 0; y < frame->height; y++) {
        const uint8_t *in = frame->pixel + (size_t)y * frame->stride;
        float *out = frame->out + (size_t)y * (size_t)frame->width;
        if (frame->channels == 3 && p->channels_last)
            pixels_3(in, frame->width, p->mean, p->std, out + 2 * (size_t)y * (size_t)frame->width);
        else if (frame->channels == 3)
            planes_3(in, frame->width, p->mean, p->std, out, out + plane, out + 2 * plane);
        else
            plane_1(in, frame->width, p->mean[0], p->std[0], out);
    }
    return QB_OK;
}

const qb_transform qb_transform_normalize = {
    .name = "normalize",
    .text = "(pixel - mean) / std by channel, to floats",
    .apply = normalize_apply,
};

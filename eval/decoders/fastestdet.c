/* fastestdet: one map of cells, https://github.com/dog-qiuqiu/FastestDet (handle_preds). */
#include <math.h>

#include "eval/detection.h"

/* 1 x (1 + 4 + C) x H x W: objectness, tx ty tw th, probabilities of the classes. */
static int32_t classes(const qb_decode *in) {
    const qb_shape *s = &in->output[0].desc.shape;
    const bool map = in->n == 1 && qb_is_batch_of(&in->output[0], 4) && s->dim[1] > 5;
    /* Maps as fine as this are masks. */
    const bool fits = map && (qb_decoder_is_told(in, classes) || s->dim[2] * 8 < in->height);
    return fits ? (int32_t)(s->dim[1] - 5) : 0;
}

/* A backbone's features look like this, too. */
static bool is_vague(const qb_decode *in) {
    const int64_t channels = in->output[0].desc.shape.dim[1];
    return channels != 85 && channels != in->n_labels + 5;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const qb_shape *s = &in->output[0].desc.shape;
    const int64_t h = s->dim[2], w = s->dim[3], plane = h * w;
    const float *p = in->output[0].data;
    for (int64_t i = 0; i < plane; i++) {
        int32_t best = 0;
        for (int32_t k = 1; k < classes(in); k++)
            if (p[(5 + k) * plane + i] > p[(5 + best) * plane + i]) best = k;
        const float score = powf(p[i], 0.6f) * powf(p[(5 + best) * plane + i], 0.4f);
        const double box[] = {(tanh(p[plane + i]) + (double)(i % w)) / (double)w * in->width,
                              (tanh(p[2 * plane + i]) + (double)(i / w)) / (double)h * in->height,
                              sigmoid(p[3 * plane + i]) * in->width,
                              sigmoid(p[4 * plane + i]) * in->height};
        QB_TRY(qb_decode_box(cx, in, box, score, best));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_fastestdet = {
    .name = "fastestdet",
    .text = "one output 1 x (5 + classes) x H x W",
    .classes = classes,
    .is_vague = is_vague,
    .decode = decode,
};

/* detr: a set of boxes, cx cy w h as shares of the input, with logits of the classes. With one more
 * logit than classes the last one is "no object" and all go through a softmax (DETR); otherwise
 * each has a sigmoid of its own (Deformable DETR, RT-DETR, D-FINE). Classes may be the data's ids,
 * 0 included. */
#include <math.h>

#include "eval/detection.h"

/* Outputs 1 x N x C and 1 x N x 4, in either order. */
static bool find(const qb_decode *in, const qb_tensor **logits, const qb_tensor **boxes) {
    if (in->n < 2 || !qb_is_batch_of(&in->output[0], 3) || !qb_is_batch_of(&in->output[1], 3))
        return false;
    const int second = in->output[1].desc.shape.dim[2] == 4;
    *boxes = &in->output[second];
    *logits = &in->output[1 - second];
    const qb_shape *l = &(*logits)->desc.shape, *b = &(*boxes)->desc.shape;
    return b->dim[2] == 4 && l->dim[2] > 0 && l->dim[1] == b->dim[1];
}

static bool has_no_object(const qb_decode *in, int64_t logits) {
    if (in->settings->n_category_ids > 0) return in->settings->n_category_ids == logits - 1;
    return (in->n_labels > 0 && logits == in->n_labels + 1) ||
           (in->top_id > 0 && logits == in->top_id + 2);
}

/* Guessed by a number of boxes that no grid has: the usual 100, 300 and 900 queries. */
static int32_t classes(const qb_decode *in) {
    const qb_tensor *logits, *boxes;
    if (!find(in, &logits, &boxes)) return 0;
    const int64_t n = boxes->desc.shape.dim[1], each = logits->desc.shape.dim[2];
    const bool told = in->settings->decoder && in->settings->decoder->classes == classes;
    if (!told && n != 100 && n != 300 && n != 900) return 0;
    return (int32_t)(each - has_no_object(in, each));
}

static double sum_of_exp(const float *p, int64_t n, double most) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += exp(p[k] - most);
    return sum;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const qb_tensor *logits, *boxes;
    find(in, &logits, &boxes);
    const int64_t n = boxes->desc.shape.dim[1], each = logits->desc.shape.dim[2];
    const bool softmax = has_no_object(in, each);
    const float *p = logits->data, *b = boxes->data;
    for (int64_t i = 0; i < n; i++, p += each, b += 4) {
        const double box[] = {(double)b[0] * in->width, (double)b[1] * in->height,
                              (double)b[2] * in->width, (double)b[3] * in->height};
        double most = p[0];
        for (int64_t k = 1; k < each; k++) most = fmax(most, p[k]);
        const double sum = softmax ? sum_of_exp(p, each, most) : 0;
        int32_t best = 0;
        for (int32_t k = 1; k < each - softmax; k++)
            if (p[k] > p[best]) best = k;
        const double score = softmax ? exp(p[best] - most) / sum : 1 / (1 + exp(-(double)p[best]));
        QB_TRY(qb_decode_box(cx, in, box, score, best));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_detr = {
    .name = "detr",
    .text = "outputs 1 x N x classes and 1 x N x 4",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};

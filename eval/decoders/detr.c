/* detr: a set of boxes, cx cy w h as shares of the input, with logits of the classes. With one more
 * logit than classes the last one is "no object" and all go through a softmax (DETR); otherwise
 * each has a sigmoid of its own (Deformable DETR, RT-DETR, D-FINE), or had it in the graph
 * (Ultralytics' RT-DETR, whose boxes and scores are one output). Classes may be the data's ids, 0
 * included. */
#include <math.h>

#include "eval/detection.h"

typedef struct parts {
    const float *score, *box;
    int64_t n, each, next_score, next_box; /* boxes, scores of each; from box to box */
    bool whole;                            /* boxes and scores in one output */
} parts;

/* Outputs 1 x N x C and 1 x N x 4, in either order; or one, 1 x N x (4 + C). */
static bool find(const qb_decode *in, parts *out) {
    if (in->n < 1 || !qb_is_batch_of(&in->output[0], 3)) return false;
    const qb_shape *first = &in->output[0].desc.shape;
    if (in->n == 1) {
        const float *p = in->output[0].data;
        const int64_t each = first->dim[2];
        *out = (parts){p ? p + 4 : NULL, p, first->dim[1], each - 4, each, each, true};
        return each > 4;
    }
    if (!qb_is_batch_of(&in->output[1], 3)) return false;
    const int second = qb_boxes_at(in);
    const qb_tensor *box = &in->output[second], *score = &in->output[1 - second];
    const qb_shape *b = &box->desc.shape, *s = &score->desc.shape;
    *out = (parts){score->data, box->data, b->dim[1], s->dim[2], s->dim[2], 4, false};
    return b->dim[2] == 4 && s->dim[2] > 0 && s->dim[1] == b->dim[1];
}

static double sum_of_exp(const float *p, int64_t n, double most) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += exp(p[k] - most);
    return sum;
}

/* "No object" is what most boxes are; a last logit that no object ever had is none (RF-DETR). */
static bool is_mostly_last(const parts *p) {
    double share = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const float *s = p->score + i * p->next_score;
        share += 1 / sum_of_exp(s, p->each, s[p->each - 1]);
    }
    return 2 * share > (double)p->n;
}

static bool has_no_object(const qb_decode *in, const parts *p) {
    if (p->whole || (p->score && !is_mostly_last(p))) return false;
    if (in->settings->n_category_ids > 0) return in->settings->n_category_ids == p->each - 1;
    return (in->n_labels > 0 && p->each == in->n_labels + 1) ||
           (in->top_id > 0 && p->each == in->top_id + 2);
}

/* Guessed by a number of boxes that no grid has: the usual 100, 300 and 900 queries. One output
 * looks like other decoders' too: only with RT-DETR's 300, and as many classes as are known. */
static int32_t classes(const qb_decode *in) {
    parts p;
    if (!find(in, &p)) return 0;
    const bool usual = p.whole
                           ? p.n == 300 && (in->n_labels > 0 ? p.each == in->n_labels : p.each > 2)
                           : p.n == 100 || p.n == 300 || p.n == 900;
    return usual || qb_decoder_is_told(in, classes) ? (int32_t)(p.each - has_no_object(in, &p)) : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    parts d;
    find(in, &d);
    const bool softmax = has_no_object(in, &d);
    const bool logits = !d.whole || qb_needs_sigmoid(in, d.score, d.n, d.next_score, d.each, 1);
    const float *p = d.score, *b = d.box;
    for (int64_t i = 0; i < d.n; i++, p += d.next_score, b += d.next_box) {
        const double box[] = {(double)b[0] * in->width, (double)b[1] * in->height,
                              (double)b[2] * in->width, (double)b[3] * in->height};
        double most = p[0];
        for (int64_t k = 1; k < d.each; k++) most = fmax(most, p[k]);
        const double sum = softmax ? sum_of_exp(p, d.each, most) : 0;
        int32_t best = 0;
        for (int32_t k = 1; k < d.each - softmax; k++)
            if (p[k] > p[best]) best = k;
        const double score = softmax  ? exp(p[best] - most) / sum
                             : logits ? qb_sigmoid(p[best])
                                      : p[best];
        QB_TRY(qb_decode_box(cx, in, box, score, best));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_detr = {
    .name = "detr",
    .text = "outputs 1 x N x classes and 1 x N x 4, or one, 1 x N x (4 + classes)",
    .words = "rtdetr rfdetr rf_detr dfine d_fine deim",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};

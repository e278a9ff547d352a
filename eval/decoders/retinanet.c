/* retinanet: deltas of anchors and a score a class, https://arxiv.org/abs/1708.02002: nine anchors
 * at each place of the strides 8 to 128, of 4 strides' side times 1, 2^(1/3), 2^(2/3), in the
 * ratios height to width 0.5, 1, 2. In two outputs, 1 x N x classes and 1 x N x 4, or two a stride,
 * 1 x A classes x H x W and 1 x 4 A x H x W. */
#include <math.h>

#include "eval/detection.h"

enum { ANCHORS = 9, LEVELS = 5 };

typedef struct level {
    const float *score, *delta;
    int64_t cells;
    bool planes; /* channels before places */
} level;

typedef struct head {
    int32_t n;
    int64_t classes, boxes;
    level level[QB_STRIDES_MAX];
} head;

static bool find_whole(const qb_decode *in, head *out) {
    if (in->n != 2 || !qb_is_batch_of(&in->output[0], 3) || !qb_is_batch_of(&in->output[1], 3))
        return false;
    const int second = in->output[1].desc.shape.dim[2] == 4;
    const qb_tensor *box = &in->output[second], *score = &in->output[1 - second];
    qb_grid grid;
    const int64_t n = box->desc.shape.dim[1];
    if (box->desc.shape.dim[2] != 4 || score->desc.shape.dim[1] != n || n % ANCHORS != 0 ||
        !qb_grid_find(in, n / ANCHORS, 0, &grid))
        return false;
    *out = (head){.n = 1, .classes = score->desc.shape.dim[2], .boxes = n};
    out->level[0] = (level){score->data, box->data, n / ANCHORS, false};
    return true;
}

/* Boxes have 36 channels, classes a multiple of 9; pairs by their cells, the most first. */
static bool find_levels(const qb_decode *in, head *out) {
    *out = (head){.n = 0};
    if (in->n < 4 || in->n % 2 != 0 || in->n / 2 > QB_STRIDES_MAX) return false;
    for (int32_t i = 0; i < in->n; i++) {
        const qb_shape *s = &in->output[i].desc.shape;
        if (!qb_is_batch_of(&in->output[i], 4) || s->dim[1] % ANCHORS != 0) return false;
        if (s->dim[1] != 4 * ANCHORS) continue;
        for (int32_t k = 0; k < in->n; k++) {
            const qb_shape *c = &in->output[k].desc.shape;
            if (c->rank != 4 || k == i || c->dim[2] != s->dim[2] || c->dim[3] != s->dim[3] ||
                out->n == QB_STRIDES_MAX)
                continue;
            out->classes = c->dim[1] / ANCHORS;
            out->level[out->n++] =
                (level){in->output[k].data, in->output[i].data, s->dim[2] * s->dim[3], true};
            out->boxes += ANCHORS * s->dim[2] * s->dim[3];
        }
    }
    for (int32_t i = 1; i < out->n; i++)
        for (int32_t k = i; k > 0 && out->level[k].cells > out->level[k - 1].cells; k--) {
            const level l = out->level[k];
            out->level[k] = out->level[k - 1];
            out->level[k - 1] = l;
        }
    return out->n == in->n / 2;
}

static int32_t classes(const qb_decode *in) {
    head h;
    return find_whole(in, &h) || find_levels(in, &h) ? (int32_t)h.classes : 0;
}

static void anchor_of(const qb_cell *c, int64_t k, double out[4]) {
    static const double ratio[] = {0.5, 1, 2};
    const double side = 4 * c->stride * exp2((double)(k % 3) / 3), root = sqrt(ratio[k / 3]);
    out[0] = c->x * c->stride;
    out[1] = c->y * c->stride;
    out[2] = side / root;
    out[3] = side * root;
}

static qb_status decode_box(qb_ctx *cx, const qb_decode *in, const head *h, const level *l,
                            bool logits, int64_t i, const qb_cell *c) {
    static const double variance[] = {1, 1};
    const int64_t place = i / ANCHORS, k = i % ANCHORS;
    const int64_t step = l->planes ? l->cells : 1;
    const float *score =
        l->score + (l->planes ? k * h->classes * l->cells + place : i * h->classes);
    const float *delta = l->delta + (l->planes ? 4 * k * l->cells + place : 4 * i);
    const float own_delta[] = {delta[0], delta[step], delta[2 * step], delta[3 * step]};
    double anchor[4], box[4];
    anchor_of(c, k, anchor);
    qb_apply_deltas(anchor, own_delta, variance, box);
    return qb_decode_best(cx, in, box,
                          &(qb_box_scores){score, step, (int32_t)h->classes, logits, 1});
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    head h;
    qb_grid grid;
    int64_t at = 0;
    if (!find_whole(in, &h)) find_levels(in, &h);
    if (!qb_grid_find(in, h.boxes / ANCHORS, 0, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder retinanet: %lld boxes are not nine at each place of the strides of "
                       "an input of %d x %d: name detection.strides",
                       (long long)h.boxes, in->width, in->height);
    for (int32_t k = 0; k < h.n; k++) {
        const level *l = &h.level[k];
        const int64_t boxes = l->cells * ANCHORS;
        const bool logits = qb_needs_sigmoid(in, l->score, boxes, h.classes, h.classes, 1);
        for (int64_t i = 0; i < boxes; i++) {
            const qb_cell c = qb_grid_cell(&grid, at + i / ANCHORS);
            QB_TRY(decode_box(cx, in, &h, l, logits, i, &c));
        }
        at += l->cells;
    }
    return QB_OK;
}

/* ImageNet's mean and deviation. */
static void prepare(qb_preprocess *p) {
    static const float mean[] = {123.675F, 116.28F, 103.53F}, std[] = {58.395F, 57.12F, 57.375F};
    p->resize = QB_RESIZE_STRETCH;
    for (int c = 0; c < 3; c++) {
        p->mean[c] = mean[c];
        p->std[c] = std[c];
    }
}

const qb_box_decoder qb_box_decoder_retinanet = {
    .name = "retinanet",
    .text = "outputs 1 x N x classes and 1 x N x 4 of nine anchors a place, or two a stride",
    .prepare = prepare,
    .classes = classes,
    .decode = decode,
};

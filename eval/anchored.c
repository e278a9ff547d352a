#include "eval/anchored.h"

enum { ANCHORS = 9 };

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
    const int second = qb_boxes_at(in);
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
            if (out->n > 0 && c->dim[1] != out->classes * ANCHORS) return false;
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

static bool find(const qb_decode *in, head *out) {
    return find_whole(in, out) || find_levels(in, out);
}

int32_t qb_anchored_classes(const qb_decode *in) {
    head h;
    return find(in, &h) ? (int32_t)h.classes : 0;
}

static qb_status decode_box(qb_ctx *cx, const qb_decode *in, const head *h, const level *l,
                            bool logits, int64_t i, const qb_cell *c, const qb_anchors *anchors) {
    static const double variance[] = {1, 1};
    const int64_t place = i / ANCHORS, k = i % ANCHORS;
    const int64_t step = l->planes ? l->cells : 1;
    const float *score =
        l->score + (l->planes ? k * h->classes * l->cells + place : i * h->classes);
    const float *delta = l->delta + (l->planes ? 4 * k * l->cells + place : 4 * i);
    const int x = anchors->y_first, y = !x;
    const float own[] = {delta[x * step], delta[y * step], delta[(2 + x) * step],
                         delta[(2 + y) * step]};
    double anchor[4], box[4];
    anchors->anchor(c, k, anchor);
    qb_apply_deltas(anchor, own, variance, box);
    return qb_decode_best(cx, in, box,
                          &(qb_box_scores){score, step, (int32_t)h->classes, logits, 1});
}

qb_status qb_anchored_decode(qb_ctx *cx, const qb_decode *in, const qb_anchors *anchors) {
    head h;
    qb_grid grid;
    int64_t at = 0;
    find(in, &h);
    if (!qb_grid_find(in, h.boxes / ANCHORS, anchors->offset, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder %s: %lld boxes are not nine at each place of the strides of "
                       "an input of %d x %d: name detection.strides",
                       in->settings->decoder->name, (long long)h.boxes, in->width, in->height);
    for (int32_t k = 0; k < h.n; k++) {
        const level *l = &h.level[k];
        const int64_t boxes = l->cells * ANCHORS;
        const bool logits = qb_needs_sigmoid(in, l->score, boxes, h.classes, h.classes, 1);
        for (int64_t i = 0; i < boxes; i++) {
            const qb_cell c = qb_grid_cell(&grid, at + i / ANCHORS);
            QB_TRY(decode_box(cx, in, &h, l, logits, i, &c, anchors));
        }
        at += l->cells;
    }
    return QB_OK;
}

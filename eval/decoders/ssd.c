/* ssd: boxes and a score a class in two outputs: corners as shares of the input where the graph has
 * added boxes to its priors, or deltas of priors that the settings describe; and other heads that
 * keep boxes and scores apart (PP-YOLOE, DAMO-YOLO). */
#include <math.h>

#include "eval/detection.h"

typedef struct parts {
    const qb_tensor *scores, *boxes;
    int64_t n, each; /* boxes, and scores of each */
    bool transposed; /* 1 x scores x N */
} parts;

/* 1 x N x 4, or 1 x N x 1 x 4: one box for all classes (YOLOv4's PyTorch port). */
static bool is_boxes(const qb_tensor *t) {
    const qb_shape *s = &t->desc.shape;
    return qb_is_batch_of(t, 3) ? s->dim[2] == 4
                                : qb_is_batch_of(t, 4) && s->dim[2] == 1 && s->dim[3] == 4;
}

/* Outputs of boxes and 1 x N x S, or 1 x S x N, in either order. */
static bool find(const qb_decode *in, parts *out) {
    if (in->n != 2) return false;
    const int second = qb_boxes_at(in);
    if (!is_boxes(&in->output[second]) || !qb_is_batch_of(&in->output[1 - second], 3)) return false;
    *out = (parts){.boxes = &in->output[second], .scores = &in->output[1 - second]};
    const qb_shape *b = &out->boxes->desc.shape, *s = &out->scores->desc.shape;
    out->n = b->dim[1];
    out->transposed = s->dim[1] != out->n && s->dim[2] == out->n;
    out->each = s->dim[out->transposed ? 1 : 2];
    return (out->transposed || s->dim[1] == out->n) && out->each > 0;
}

/* Is the first score that of no class? Where all cells have a box each, heads know no background.
 */
static bool has_background(const qb_decode *in, const parts *p) {
    qb_grid grid;
    if (in->settings->background >= 0) return in->settings->background;
    if (p->each == in->n_labels) return false;
    return p->each > 1 &&
           (p->each == in->n_labels + 1 || p->each == 2 || !qb_grid_find(in, p->n, 0, &grid));
}

static int32_t classes(const qb_decode *in) {
    parts p;
    return find(in, &p) ? (int32_t)(p.each - has_background(in, &p)) : 0;
}

/* The priors of one place: a square a least size, one between it and the largest, and one for each
 * ratio and its inverse. Returns how many. */
static int64_t priors_of(const qb_decode *in, const qb_cell *cell, double out[][4]) {
    const qb_detect_settings *s = in->settings;
    const int32_t each = s->n_min_sizes / s->n_strides;
    int64_t n = 0;
    for (int32_t k = 0; k < each; k++) {
        const double least = s->min_size[cell->level * each + k];
        double side[2 + 2 * QB_RATIOS_MAX][2] = {{least, least}};
        int32_t sides = 1;
        if (cell->level < s->n_max_sizes) {
            const double middle = sqrt(least * s->max_size[cell->level]);
            side[sides][0] = side[sides][1] = middle;
            sides++;
        }
        for (int32_t r = 0; r < 2 * s->n_ratios; r++) {
            const double root = sqrt(r % 2 ? 1 / s->ratio[r / 2] : s->ratio[r / 2]);
            side[sides][0] = least * root;
            side[sides++][1] = least / root;
        }
        for (int32_t i = 0; i < sides; i++, n++) {
            out[n][0] = cell->x * cell->stride;
            out[n][1] = cell->y * cell->stride;
            out[n][2] = side[i][0];
            out[n][3] = side[i][1];
        }
    }
    return n;
}

enum { PRIORS_MAX = QB_ANCHORS_MAX * (2 + 2 * QB_RATIOS_MAX) };

/* The box of a number, in pixels. */
typedef struct boxes {
    const float *data;
    qb_box_form form;
    bool priors;
    qb_grid grid;
    int64_t each; /* priors of a place */
} boxes;

static qb_status find_boxes(qb_ctx *cx, const qb_decode *in, const parts *p, boxes *out) {
    const qb_detect_settings *s = in->settings;
    double prior[PRIORS_MAX][4];
    *out = (boxes){.data = p->boxes->data, .priors = s->n_min_sizes > 0};
    out->form = qb_box_form_of(in, 0, out->data, p->n, 4, 1);
    if (!out->priors) return QB_OK;
    if (s->n_strides < 1 || s->n_min_sizes % s->n_strides != 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "decoder ssd: detection.min_sizes has %d numbers for %d strides: expected "
                       "the same number for each",
                       s->n_min_sizes, s->n_strides);
    out->each = priors_of(in, &(qb_cell){.stride = 1}, prior);
    if (p->n % out->each == 0 && qb_grid_find(in, p->n / out->each, 0.5, &out->grid)) return QB_OK;
    return qb_fail(
        cx, QB_STATUS_MISMATCH,
        "decoder ssd: %lld boxes are not %lld at each place of %d strides in an input of "
        "%d x %d: detection.strides, min_sizes, max_sizes and aspect_ratios describe "
        "other priors",
        (long long)p->n, (long long)out->each, s->n_strides, in->width, in->height);
}

static void box_of(const qb_decode *in, const boxes *b, int64_t i, double out[4]) {
    double prior[PRIORS_MAX][4];
    if (!b->priors) {
        qb_box_convert(&b->form, b->data + 4 * i, 1, out);
        return;
    }
    const qb_cell cell = qb_grid_cell(&b->grid, i / b->each);
    priors_of(in, &cell, prior);
    qb_apply_deltas(prior[i % b->each], b->data + 4 * i, in->settings->variance, out);
}

/* Logits become probabilities: a softmax with a background, else a sigmoid each. */
static void activate(float *score, int64_t n, int64_t step, bool softmax) {
    double most = score[0], sum = 0;
    for (int64_t k = 1; k < n; k++) most = fmax(most, score[k * step]);
    for (int64_t k = 0; k < n; k++) sum += exp(score[k * step] - most);
    for (int64_t k = 0; k < n; k++)
        score[k * step] =
            (float)(softmax ? exp(score[k * step] - most) / sum : qb_sigmoid(score[k * step]));
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    parts p;
    boxes b;
    find(in, &p);
    QB_TRY(find_boxes(cx, in, &p, &b));
    const bool behind = has_background(in, &p);
    const int64_t step = p.transposed ? p.n : 1, next = p.transposed ? 1 : p.each;
    const bool logits = qb_needs_sigmoid(in, p.scores->data, p.n, p.each, p.each, 1);
    QB_FREED float *own = QB_NEW(cx, qb_alloc(cx, (size_t)p.each, sizeof *own));
    for (int64_t i = 0; i < p.n; i++) {
        double box[4];
        for (int64_t k = 0; k < p.each; k++)
            own[k] = ((const float *)p.scores->data)[i * next + k * step];
        if (logits) activate(own, p.each, 1, behind);
        box_of(in, &b, i, box);
        QB_TRY(qb_decode_best(
            cx, in, box, &(qb_box_scores){own + behind, 1, (int32_t)(p.each - behind), false, 1}));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_ssd = {
    .name = "ssd",
    .text = "outputs 1 x N x 4 and 1 x N x (1 + classes), or 1 x N x classes",
    .words = "ssdlite ssd300 ssd_mobilenet ppyoloe ppyoloe+ damoyolo damo_yolo ultraface "
             "boxes_scores",
    .images = &(const qb_preprocess){.resize = QB_RESIZE_STRETCH, .std = {255, 255, 255}},
    .classes = classes,
    .decode = decode,
};

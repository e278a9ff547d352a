/* gfl: distances to a box's four sides from each cell, as bins whose expectation counts (NanoDet,
 * GFL, raw heads of YOLOv8) or as numbers (FCOS, raw heads of YOLOv10 and YOLO26), in strides; and
 * a score a class. https://github.com/RangiLyu/nanodet. Outputs are
 * - one, 1 x N x (classes + 4 bins), all strides together, or
 * - one or two a stride, 1 x channels x H x W, 1 x H x W x channels or 1 x cells x channels, box
 * and classes together (the box first) or apart, with FCOS's centerness if there are three. */
#include <math.h>
#include <stdlib.h>

#include "eval/detection.h"

/* A part of a stride: where the values of a cell are. */
typedef struct part {
    const float *data;
    int64_t cells, channels;
    int64_t next, step; /* from cell to cell, from channel to channel */
} part;

typedef struct head {
    bool whole;     /* all strides in one output */
    int32_t levels; /* else: so many, coarsest last, */
    int32_t parts;  /* each of so many outputs */
    int64_t classes, bins;
    int32_t at[QB_STRIDES_MAX][3]; /* outputs of a level: box, classes, centerness */
} head;

static bool is_bins(int64_t bins) { return bins == 8 || bins == 16 || bins == 17 || bins == 33; }

/* Bins of n channels with a score a class among them; 0: none that fits. */
static int64_t bins_of(const qb_decode *in, int64_t channels) {
    static const int64_t usual[] = {8, 16, 17, 33};
    if (in->n_labels > 0) {
        const int64_t rest = channels - in->n_labels;
        return rest > 0 && rest % 4 == 0 && is_bins(rest / 4) ? rest / 4 : 0;
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (channels - 4 * usual[i] == 80) return usual[i];
    return 0;
}

static bool find_whole(const qb_decode *in, head *out) {
    qb_grid grid;
    if (in->n != 1 || !qb_is_batch_of(&in->output[0], 3)) return false;
    const qb_shape *s = &in->output[0].desc.shape;
    const int64_t bins = bins_of(in, s->dim[2]);
    const bool told = in->settings->decoder != NULL;
    const int64_t usual = told && bins == 0 && s->dim[2] > 32 ? 8 : bins;
    if (usual == 0 || (s->dim[1] >= 0 && !qb_grid_find(in, s->dim[1], 0, &grid))) return false;
    *out = (head){.whole = true, .classes = s->dim[2] - 4 * usual, .bins = usual};
    return true;
}

/* An output as cells x channels; its channels are what the input's aspect does not explain. */
static bool part_of(const qb_decode *in, int32_t i, part *out) {
    const qb_shape *s = &in->output[i].desc.shape;
    const float *data = in->output[i].data;
    if (qb_is_batch_of(&in->output[i], 3)) {
        *out = (part){data, s->dim[1], s->dim[2], s->dim[2], 1};
        return true;
    }
    if (!qb_is_batch_of(&in->output[i], 4)) return false;
    const bool last = s->dim[1] * in->width == s->dim[2] * in->height &&
                      s->dim[2] * in->width != s->dim[3] * in->height;
    const int64_t cells = last ? s->dim[1] * s->dim[2] : s->dim[2] * s->dim[3];
    *out = last ? (part){data, cells, s->dim[3], s->dim[3], 1}
                : (part){data, cells, s->dim[1], 1, cells};
    return true;
}

/* What a part holds, by its channels: 0 the box, 1 classes, 2 centerness; -1: not to be told. */
static int role_of(const qb_decode *in, const part *p) {
    if (in->n_labels > 0 && p->channels == in->n_labels && in->n_labels != 4)
        return p->channels == 1 ? 2 : 1;
    if (p->channels == 4 || (p->channels % 4 == 0 && is_bins(p->channels / 4))) return 0;
    return p->channels == 1 ? 2 : 1;
}

static int by_cells(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (x[0] < y[0]) - (x[0] > y[0]);
}

/* Outputs that have as many cells are a level. */
static bool find_levels(const qb_decode *in, head *out) {
    int64_t cells[QB_STRIDES_MAX];
    part p;
    *out = (head){.parts = 0};
    for (int32_t i = 0; i < in->n; i++) {
        int32_t k = 0;
        if (!part_of(in, i, &p) || p.cells < 1) return false;
        while (k < out->levels && cells[k] != p.cells) k++;
        if (k == QB_STRIDES_MAX) return false;
        if (k == out->levels) cells[out->levels++] = p.cells;
    }
    if (out->levels < 1 || in->n % out->levels != 0) return false;
    out->parts = in->n / out->levels;
    if (out->parts > 3 || (out->levels == 1 && out->parts == 1)) return false;
    qsort(cells, (size_t)out->levels, sizeof *cells, by_cells);
    for (int32_t k = 0; k < out->levels; k++)
        for (int r = 0; r < 3; r++) out->at[k][r] = -1;
    for (int32_t i = 0; i < in->n; i++) {
        int32_t k = 0;
        part_of(in, i, &p);
        while (cells[k] != p.cells) k++;
        int role = out->parts == 1 ? 0 : role_of(in, &p);
        if (role == 2 && (out->parts == 2 || out->at[k][2] >= 0)) role = 1; /* one class */
        if (out->at[k][role] >= 0) return false;
        out->at[k][role] = i;
        if (role == 1) out->classes = p.channels;
        if (role == 0) out->bins = out->parts == 1 ? bins_of(in, p.channels) : p.channels / 4;
        if (out->parts == 1) out->classes = p.channels - 4 * out->bins;
    }
    if (out->parts == 3 && out->at[0][1] < 0) return false;
    return out->bins > 0 && out->classes > 0;
}

static bool find(const qb_decode *in, head *out) {
    return find_whole(in, out) || (in->n > 1 && find_levels(in, out));
}

static int32_t classes(const qb_decode *in) {
    head h;
    if (!find(in, &h)) return 0;
    const bool fits = h.whole || h.parts != 1 || h.bins > 1;
    return fits ? (int32_t)h.classes : 0;
}

/* The parts of one level: box, classes, centerness (no data: none). */
typedef struct level {
    part box, score, center;
    bool logits, center_logits;
} level;

static qb_status decode_cell(qb_ctx *cx, const qb_decode *in, const head *h, const level *l,
                             int64_t i, const qb_cell *c, float *own) {
    double side[4], factor = 1;
    qb_expect_sides(l->box.data + i * l->box.next, h->bins, l->box.step, side);
    for (int64_t k = 0; k < h->classes; k++) {
        const double v = l->score.data[i * l->score.next + k * l->score.step];
        own[k] = (float)(l->logits ? qb_sigmoid(v) : v);
    }
    if (l->center.data) {
        const double v = l->center.data[i * l->center.next];
        factor = l->center_logits ? qb_sigmoid(v) : v;
        for (int64_t k = 0; k < h->classes; k++) own[k] = (float)sqrt(own[k] * factor);
    }
    const double box[] = {(c->x + (side[2] - side[0]) / 2) * c->stride,
                          (c->y + (side[3] - side[1]) / 2) * c->stride,
                          (side[0] + side[2]) * c->stride, (side[1] + side[3]) * c->stride};
    return qb_decode_best(cx, in, box, &(qb_box_scores){own, 1, (int32_t)h->classes, false, 1});
}

static bool logits_of(const qb_decode *in, const part *p, int64_t channels) {
    return qb_needs_sigmoid(in, p->data, p->cells, p->next, channels, p->step);
}

/* Level k as parts; all of a head in one output is one level of all cells. */
static level level_of(const qb_decode *in, const head *h, int32_t k) {
    level l = {0};
    if (h->whole) {
        part_of(in, 0, &l.score);
        l.box = l.score;
        l.box.data += h->classes;
    } else {
        part_of(in, h->at[k][0], &l.box);
        if (h->parts == 1) {
            l.score = l.box;
            l.score.data += 4 * h->bins * l.box.step;
        } else {
            part_of(in, h->at[k][1], &l.score);
        }
        if (h->at[k][2] >= 0) part_of(in, h->at[k][2], &l.center);
    }
    l.logits = logits_of(in, &l.score, h->classes);
    l.center_logits = l.center.data && logits_of(in, &l.center, 1);
    return l;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    head h;
    qb_grid grid;
    int64_t cells = 0, at = 0;
    find(in, &h);
    const int32_t levels = h.whole ? 1 : h.levels;
    for (int32_t k = 0; k < levels; k++) cells += level_of(in, &h, k).box.cells;
    /* NanoDet-Plus counts from the cells' corners. */
    if (!qb_grid_find(in, cells, h.whole ? 0 : 0.5, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder gfl: %lld boxes are not the cells of an input of %d x %d: name "
                       "detection.strides",
                       (long long)cells, in->width, in->height);
    if (h.whole && grid.n == 3 && isnan(in->settings->cell_offset)) grid.offset = 0.5;
    float *own = qb_alloc(cx, (size_t)h.classes, sizeof *own);
    if (!own) return cx->code;
    qb_status status = QB_OK;
    for (int32_t k = 0; k < levels; k++) {
        const level l = level_of(in, &h, k);
        for (int64_t i = 0; i < l.box.cells && status == QB_OK; i++) {
            const qb_cell c = qb_grid_cell(&grid, at++);
            status = decode_cell(cx, in, &h, &l, i, &c, own);
        }
    }
    qb_free(own);
    return status;
}

/* NanoDet's. */
static void prepare(qb_preprocess *p) {
    static const float mean[] = {103.53F, 116.28F, 123.675F}, std[] = {57.375F, 57.12F, 58.395F};
    p->resize = QB_RESIZE_STRETCH;
    p->color = QB_COLOR_BGR;
    for (int c = 0; c < 3; c++) {
        p->mean[c] = mean[c];
        p->std[c] = std[c];
    }
}

const qb_box_decoder qb_box_decoder_gfl = {
    .name = "gfl",
    .text = "an output 1 x N x (classes + 4 bins), or outputs of boxes and classes a stride",
    .words = "nanodet nanodet_plus nanodetplus picodet fcos dfl yolov8_raw yolo11_raw yolov6_raw",
    .prepare = prepare,
    .classes = classes,
    .decode = decode,
};

#include "eval/distances.h"

#include <math.h>
#include <stdlib.h>

/* A part of a stride: where the values of a cell are. */
typedef struct part {
    const float *data;
    int64_t cells, channels;
    int64_t next, step; /* from cell to cell, from channel to channel */
} part;

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

static bool find_whole(const qb_decode *in, qb_distances *out) {
    qb_grid grid;
    if (in->n != 1 || !qb_is_batch_of(&in->output[0], 3)) return false;
    const qb_shape *s = &in->output[0].desc.shape;
    const int64_t bins = bins_of(in, s->dim[2]);
    const bool told = in->settings->decoder != NULL;
    const int64_t usual = told && bins == 0 && s->dim[2] > 32 ? 8 : bins;
    if (usual == 0 || (s->dim[1] >= 0 && !qb_grid_find(in, s->dim[1], 0, &grid))) return false;
    *out = (qb_distances){.whole = true, .classes = s->dim[2] - 4 * usual, .bins = usual};
    return true;
}

/* An output as cells x channels. */
static bool part_of(const qb_decode *in, int32_t i, part *out) {
    const qb_shape *s = &in->output[i].desc.shape;
    qb_cell_map map;
    if (qb_is_batch_of(&in->output[i], 3)) {
        *out = (part){in->output[i].data, s->dim[1], s->dim[2], s->dim[2], 1};
        return true;
    }
    if (!qb_cell_map_of(in, &in->output[i], &map)) return false;
    *out = (part){map.data, map.height * map.width, map.channels, map.next, map.step};
    return true;
}

/* What a part holds, by its channels. */
static int role_of(const qb_decode *in, const part *p) {
    if (in->n_labels > 0 && p->channels == in->n_labels && in->n_labels != 4)
        return p->channels == 1 ? QB_PART_CENTER : QB_PART_CLASSES;
    if (p->channels == 4 || (p->channels % 4 == 0 && is_bins(p->channels / 4))) return QB_PART_BOX;
    return p->channels == 1 ? QB_PART_CENTER : QB_PART_CLASSES;
}

/* Puts output i of a level where it belongs; false: there is one already. */
static bool assign(const qb_decode *in, const qb_distances *head, const part *p, int32_t i,
                   int32_t at[QB_PARTS]) {
    int role = head->parts == 1 ? QB_PART_BOX : role_of(in, p);
    if (role == QB_PART_CENTER && (head->parts == 2 || at[role] >= 0)) role = QB_PART_CLASSES;
    if (role == QB_PART_BOX && at[role] >= 0 && at[QB_PART_CLASSES] < 0) {
        /* Four classes look like a box: it comes first where levels stand together, second where
         * the classes of all levels do. */
        if (i - at[role] >= head->levels)
            at[QB_PART_CLASSES] = at[role];
        else
            role = QB_PART_CLASSES;
    } else if (at[role] >= 0) {
        return false;
    }
    at[role] = i;
    return true;
}

/* Bins and classes by the channels of a level's parts. */
static bool measure(const qb_decode *in, const int32_t at[QB_PARTS], qb_distances *head) {
    part box, classes;
    if (at[QB_PART_BOX] < 0 || !part_of(in, at[QB_PART_BOX], &box)) return false;
    head->bins = head->parts == 1 ? bins_of(in, box.channels) : box.channels / 4;
    head->classes = box.channels - 4 * head->bins;
    if (head->parts == 1) return head->bins > 0 && head->classes > 0;
    if (at[QB_PART_CLASSES] < 0 || !part_of(in, at[QB_PART_CLASSES], &classes)) return false;
    head->classes = classes.channels;
    return box.channels == 4 * head->bins && head->bins > 0 && head->classes > 0;
}

static int by_cells(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (x[0] < y[0]) - (x[0] > y[0]);
}

/* Outputs that have as many cells are a level. */
static bool find_levels(const qb_decode *in, qb_distances *out) {
    int64_t cells[QB_STRIDES_MAX];
    part p;
    *out = (qb_distances){.parts = 0};
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
        for (int r = 0; r < QB_PARTS; r++) out->at[k][r] = -1;
    for (int32_t i = 0; i < in->n; i++) {
        int32_t k = 0;
        part_of(in, i, &p);
        while (cells[k] != p.cells) k++;
        if (!assign(in, out, &p, i, out->at[k])) return false;
    }
    if (!measure(in, out->at[0], out)) return false;
    for (int32_t k = 1; k < out->levels; k++) {
        qb_distances other = *out;
        if (!measure(in, out->at[k], &other) || other.bins != out->bins ||
            other.classes != out->classes)
            return false;
    }
    return true;
}

bool qb_distances_find(const qb_decode *in, qb_distances *out) {
    return find_whole(in, out) || (in->n > 1 && find_levels(in, out));
}

/* The parts of one level; a center without data: none. */
typedef struct level {
    part box, score, center;
    bool logits, center_logits;
} level;

static qb_status decode_cell(qb_ctx *cx, const qb_decode *in, const qb_distances *h, const level *l,
                             int64_t i, const qb_cell *c, double unit, float *own) {
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
    const double box[] = {
        c->x * c->stride + (side[2] - side[0]) / 2 * unit,
        c->y * c->stride + (side[3] - side[1]) / 2 * unit,
        (side[0] + side[2]) * unit,
        (side[1] + side[3]) * unit,
    };
    return qb_decode_best(cx, in, box, &(qb_box_scores){own, 1, (int32_t)h->classes, false, 1});
}

static bool logits_of(const qb_decode *in, const part *p, int64_t channels) {
    return qb_needs_sigmoid(in, p->data, p->cells, p->next, channels, p->step);
}

/* Level k as parts; all of a head in one output is one level of all cells. */
static level level_of(const qb_decode *in, const qb_distances *h, int32_t k) {
    level l = {0};
    if (h->whole) {
        part_of(in, 0, &l.score);
        l.box = l.score;
        l.box.data += h->classes;
    } else {
        part_of(in, h->at[k][QB_PART_BOX], &l.box);
        if (h->parts == 1) {
            l.score = l.box;
            l.score.data += 4 * h->bins * l.box.step;
        } else {
            part_of(in, h->at[k][QB_PART_CLASSES], &l.score);
        }
        if (h->at[k][QB_PART_CENTER] >= 0) part_of(in, h->at[k][QB_PART_CENTER], &l.center);
    }
    l.logits = logits_of(in, &l.score, h->classes);
    l.center_logits = l.center.data && logits_of(in, &l.center, 1);
    return l;
}

/* Numbers, not bins, by which boxes of the coarsest stride were on average larger than the input if
 * they counted strides, are pixels. */
static bool in_pixels(const qb_decode *in, const qb_distances *h, const level *l,
                      const qb_grid *grid) {
    const int32_t last = grid->n - 1;
    const int64_t cells = grid->width[last] * grid->height[last];
    const part *box = &l->box;
    double sum = 0;
    if (h->bins > 1 || box->cells < cells) return false;
    for (int64_t i = box->cells - cells; i < box->cells; i++)
        for (int k = 0; k < 4; k++) sum += box->data[i * box->next + k * box->step];
    return sum / (double)cells * grid->stride[last] > in->width + in->height;
}

qb_status qb_distances_decode(qb_ctx *cx, const qb_decode *in, const qb_distances *h,
                              double offset) {
    qb_grid grid;
    int64_t cells = 0, at = 0;
    const int32_t levels = h->whole ? 1 : h->levels;
    for (int32_t k = 0; k < levels; k++) cells += level_of(in, h, k).box.cells;
    if (!qb_grid_find(in, cells, offset, &grid))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "decoder %s: %lld boxes are not the cells of an input of %d x %d: name "
                       "detection.strides",
                       in->settings->decoder->name, (long long)cells, in->width, in->height);
    QB_FREED float *own = QB_NEW(cx, qb_alloc(cx, (size_t)h->classes, sizeof *own));
    const level coarsest = level_of(in, h, levels - 1);
    const bool pixels = in_pixels(in, h, &coarsest, &grid);
    for (int32_t k = 0; k < levels; k++) {
        const level l = level_of(in, h, k);
        for (int64_t i = 0; i < l.box.cells; i++) {
            const qb_cell c = qb_grid_cell(&grid, at++);
            QB_TRY(decode_cell(cx, in, h, &l, i, &c, pixels ? 1 : c.stride, own));
        }
    }
    return QB_OK;
}

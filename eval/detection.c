#include "eval/detection.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/loader.h"
#include "eval/coco.h"

#define X(name) extern const qb_box_decoder qb_box_decoder_##name;
#include "eval/decoders.def"

const qb_box_decoder *const qb_box_decoders[] = {
#define X(name) &qb_box_decoder_##name,
#include "eval/decoders.def"
    NULL};
enum { DECODERS = sizeof qb_box_decoders / sizeof *qb_box_decoders - 1 };

const char *const qb_box_words[] = {"xyxy", "xywh", "cxcywh", "yxyx", NULL};

/* The longest of the words between spaces that the text holds; 0: none. */
static size_t holds(const char *text, const char *words) {
    size_t longest = 0;
    for (const char *at = words; at && *at != '\0';) {
        char word[64];
        const size_t n = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (n > longest && strstr(text, word)) longest = n;
        at += n + (at[n] == ' ');
    }
    return longest;
}

qb_status qb_box_decoder_find(qb_ctx *cx, const char *name, const qb_box_decoder **out) {
    const char *words[DECODERS + 1] = {NULL};
    char text[512], small[128];
    size_t longest = 0, n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof small; n++)
        small[n] = (char)tolower((unsigned char)name[n]);
    small[n] = '\0';
    for (int i = 0; i < DECODERS; i++) {
        words[i] = qb_box_decoders[i]->name;
        if (strcmp(small, words[i]) == 0) {
            *out = qb_box_decoders[i];
            return QB_OK;
        }
        const size_t own = holds(small, words[i]), other = holds(small, qb_box_decoders[i]->words);
        const size_t most = own > other ? own : other;
        if (most <= longest) continue;
        longest = most;
        *out = qb_box_decoders[i];
    }
    if (longest > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s", qb_word_error(words, name, text, sizeof text));
}

const qb_box_decoder *qb_box_decoder_guess(const qb_decode *in) {
    for (int i = 0; i < DECODERS; i++)
        if (qb_box_decoders[i]->classes(in) > 0) return qb_box_decoders[i];
    return NULL;
}

void qb_detect_settings_default(qb_detect_settings *s) {
    *s = (qb_detect_settings){.score_threshold = 0.001,
                              .nms_iou = 0.45,
                              .report_threshold = 0.25,
                              .normalized = -1,
                              .box = -1,
                              .sigmoid = -1,
                              .exponential = -1,
                              .background = -1,
                              .cell_offset = NAN,
                              .variance = {0.1, 0.2}};
}

void qb_detect_settings_release(qb_detect_settings *s) { qb_free(QB_MOVE(s->category_id)); }

/* ---- lists ---- */

qb_status qb_detections_add(qb_ctx *cx, qb_detections *list, const qb_detection *detection) {
    QB_TRY(qb_grow(cx, &list->item, &list->capacity, list->n + 1, sizeof *list->item));
    list->item[list->n++] = *detection;
    return QB_OK;
}

void qb_detections_release(qb_detections *list) {
    qb_free(list->item);
    *list = (qb_detections){0};
}

/* A detection, where it stood, which settles ties, and with which others it competes. */
typedef struct ranked {
    double score;
    size_t place;
    int32_t label;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int by_label(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->label != y->label) return x->label > y->label ? 1 : -1;
    return by_score(a, b);
}

/* Is the box too near to one of those that stayed? */
static bool is_suppressed(const qb_detections *list, const ranked *kept, size_t n, size_t place,
                          double iou) {
    for (size_t i = 0; i < n; i++)
        if (qb_box_iou(list->item[place].box, list->item[kept[i].place].box, false) > iou)
            return true;
    return false;
}

/* Those that stay, first in `order` and in the order of their labels; how many. Of a label no more
 * than `most` can be among the best. */
static size_t suppress(const qb_detections *list, double iou, size_t most, ranked *order) {
    size_t kept = 0, first = 0;
    for (size_t i = 0; i < list->n; i++) {
        const ranked next = order[i];
        if (kept > first && order[first].label != next.label) first = kept;
        if (most > 0 && kept - first == most) continue;
        if (!is_suppressed(list, order + first, kept - first, next.place, iou))
            order[kept++] = next;
    }
    return kept;
}

qb_status qb_nms(qb_ctx *cx, double iou, bool across, size_t most, qb_detections *list) {
    QB_RELEASED(qb_detections_release) qb_detections best = {0};
    QB_FREED ranked *order = QB_NEW(cx, qb_alloc(cx, list->n, sizeof *order));
    for (size_t i = 0; i < list->n; i++)
        order[i] = (ranked){list->item[i].score, i, across ? 0 : list->item[i].label};
    qsort(order, list->n, sizeof *order, by_label);
    size_t kept = suppress(list, iou, most, order);
    qsort(order, kept, sizeof *order, by_score);
    if (most > 0 && kept > most) kept = most;
    for (size_t i = 0; i < kept; i++)
        QB_TRY(qb_detections_add(cx, &best, &list->item[order[i].place]));
    qb_detections_release(list);
    *list = QB_MOVE(best);
    return QB_OK;
}

/* ---- decoding ---- */

qb_status qb_decode_boxes(qb_ctx *cx, const qb_decode *in) {
    const qb_box_decoder *decoder = in->settings->decoder;
    char text[128] = "nothing";
    if (decoder->classes(in) < 1) {
        if (in->n > 0) qb_shape_text(&in->output[0].desc.shape, text, sizeof text);
        return qb_fail(cx, QB_STATUS_MISMATCH, "decoder %s takes %s; the first of %d outputs is %s",
                       decoder->name, decoder->text, in->n, text);
    }
    QB_TRY(decoder->decode(cx, in));
    const double iou = decoder->keeps_all ? INFINITY : in->settings->nms_iou;
    return qb_nms(cx, iou, in->settings->across_classes, (size_t)in->settings->top_k, in->out);
}

qb_status qb_decode_box(qb_ctx *cx, const qb_decode *in, const double b[4], double score,
                        int32_t label) {
    if (!(score > in->settings->score_threshold)) return QB_OK;
    for (int i = 0; i < 4; i++)
        if (!isfinite(b[i])) return QB_OK;
    const qb_detection d = {{b[0] - b[2] / 2, b[1] - b[3] / 2, b[2], b[3]}, score, label};
    return qb_detections_add(cx, in->out, &d);
}

static double score_of(const qb_box_scores *s, int32_t k) {
    const double v = s->at[k * s->step];
    return (s->logits ? qb_sigmoid(v) : v) * s->factor;
}

qb_status qb_decode_best(qb_ctx *cx, const qb_decode *in, const double center_size[4],
                         const qb_box_scores *s) {
    int32_t best = 0;
    for (int32_t k = 1; k < s->n; k++)
        if (s->at[k * s->step] > s->at[best * s->step]) best = k;
    if (!in->settings->multi_label)
        return qb_decode_box(cx, in, center_size, score_of(s, best), best);
    for (int32_t k = 0; k < s->n; k++)
        QB_TRY(qb_decode_box(cx, in, center_size, score_of(s, k), k));
    return QB_OK;
}

bool qb_is_batch_of(const qb_tensor *tensor, int32_t rank) {
    const qb_shape *s = &tensor->desc.shape;
    return s->rank == rank && rank > 0 && (s->dim[0] == 1 || s->dim[0] < 0);
}

/* Sides of a map are the input's over a stride, rounded. */
static bool has_aspect(const qb_decode *in, int64_t height, int64_t width) {
    const int64_t most = in->width > in->height ? in->width : in->height;
    return llabs(height * in->width - width * in->height) < most;
}

bool qb_cell_map_of(const qb_decode *in, const qb_tensor *tensor, qb_cell_map *out) {
    const int64_t *dim = tensor->desc.shape.dim;
    if (!qb_is_batch_of(tensor, 4)) return false;
    const bool last = has_aspect(in, dim[1], dim[2]) && !has_aspect(in, dim[2], dim[3]);
    *out = last ? (qb_cell_map){tensor->data, dim[1], dim[2], dim[3], dim[3], 1}
                : (qb_cell_map){tensor->data, dim[2], dim[3], dim[1], 1, dim[2] * dim[3]};
    return true;
}

static bool is_called_boxes(const char *name) {
    static const char *const words[] = {"box", "reg", "loc", "dets"};
    for (size_t i = 0; name && i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i])) return true;
    return false;
}

int qb_boxes_at(const qb_decode *in) {
    const qb_shape *first = &in->output[0].desc.shape, *second = &in->output[1].desc.shape;
    if (second->dim[second->rank - 1] != 4) return 0;
    return first->dim[first->rank - 1] != 4 || !is_called_boxes(in->name[0]) ||
           is_called_boxes(in->name[1]);
}

const qb_tensor *qb_decode_named(const qb_decode *in, const char *name) {
    for (int32_t i = 0; i < in->n; i++)
        if (in->name[i] && strcmp(in->name[i], name) == 0) return &in->output[i];
    return NULL;
}

/* ---- forms of boxes, grids ---- */

bool qb_decoder_is_told(const qb_decode *in, int32_t (*classes)(const qb_decode *in)) {
    return in->settings->decoder && in->settings->decoder->classes == classes;
}

/* Corners or centre and size? A second corner is never before the first, while most boxes are
 * narrower or lower than their centre is away from the edge. Few boxes tell nothing. */
static int32_t form_of(int32_t usual, const float *box, int64_t n, int64_t each, int64_t step) {
    enum { ENOUGH = 20 };
    int64_t boxes = 0, shrink = 0; /* the third value below the first, or the fourth the second */
    for (int64_t i = 0; i < n; i++, box += each) {
        if (!(box[2 * step] > 0) || !(box[3 * step] > 0)) continue; /* room for no box */
        boxes++;
        shrink += box[2 * step] < box[0] || box[3 * step] < box[step];
    }
    if (boxes < ENOUGH) return usual;
    if (usual == 2 && shrink * 100 <= boxes) return 0;
    return usual == 0 && shrink * 2 > boxes ? 2 : usual;
}

qb_box_form qb_box_form_of(const qb_decode *in, int32_t usual, const float *box, int64_t n,
                           int64_t each, int64_t step) {
    const qb_detect_settings *s = in->settings;
    bool shares = s->normalized == 1;
    if (s->normalized < 0) {
        shares = n > 0;
        for (int64_t i = 0; i < n && shares; i++)
            for (int64_t k = 0; k < 4; k++) shares = shares && !(box[i * each + k * step] > 2);
    }
    return (qb_box_form){s->box >= 0 ? s->box : form_of(usual, box, n, each, step),
                         {shares ? in->width : 1, shares ? in->height : 1}};
}

void qb_box_convert(const qb_box_form *form, const float *b, int64_t step, double out[4]) {
    const bool swapped = form->form == 3, corners = form->form == 0 || swapped;
    const double x = b[swapped * step], y = b[!swapped * step], u = b[(2 + swapped) * step],
                 v = b[(2 + !swapped) * step];
    out[2] = corners ? u - x : u;
    out[3] = corners ? v - y : v;
    out[0] = form->form == 2 ? x : x + out[2] / 2;
    out[1] = form->form == 2 ? y : y + out[3] / 2;
    for (int k = 0; k < 4; k++) out[k] *= form->scale[k % 2];
}

qb_status qb_decode_objectness_rows(qb_ctx *cx, const qb_decode *in) {
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    const float *p = in->output[0].data;
    const qb_box_form form = qb_box_form_of(in, 2, p, n, each, 1);
    const bool logits = qb_needs_sigmoid(in, p + 4, n, each, each - 4, 1);
    for (int64_t i = 0; i < n; i++, p += each) {
        const double object = logits ? qb_sigmoid(p[4]) : p[4];
        double box[4];
        qb_box_convert(&form, p, 1, box);
        QB_TRY(qb_decode_best(cx, in, box,
                              &(qb_box_scores){p + 5, 1, (int32_t)(each - 5), logits, object}));
    }
    return QB_OK;
}

/* How many cells an input has at these strides; a side that is no multiple has a cell more. */
static int64_t lay_grid(const qb_decode *in, const double *stride, int32_t n, qb_grid *out) {
    int64_t cells = 0;
    out->n = n;
    for (int32_t k = 0; k < n; k++) {
        if (!(stride[k] >= 1)) return 0;
        out->stride[k] = stride[k];
        out->width[k] = (int64_t)ceil(in->width / stride[k]);
        out->height[k] = (int64_t)ceil(in->height / stride[k]);
        cells += out->width[k] * out->height[k];
    }
    return cells;
}

bool qb_grid_find(const qb_decode *in, int64_t cells, double offset, qb_grid *out) {
    static const struct {
        int32_t n;
        double stride[5];
    } usual[] = {{3, {8, 16, 32}},
                 {4, {8, 16, 32, 64}},
                 {5, {8, 16, 32, 64, 128}},
                 {4, {4, 8, 16, 32}},
                 {2, {16, 32}},
                 {5, {4, 8, 16, 32, 64}},
                 {1, {8}},
                 {1, {16}},
                 {1, {32}}};
    const qb_detect_settings *s = in->settings;
    out->offset = isnan(s->cell_offset) ? offset : s->cell_offset;
    if (cells < 1) return false;
    if (s->n_strides > 0) return lay_grid(in, s->stride, s->n_strides, out) == cells;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (lay_grid(in, usual[i].stride, usual[i].n, out) == cells) return true;
    return false;
}

qb_cell qb_grid_cell(const qb_grid *grid, int64_t i) {
    int32_t level = 0;
    while (level + 1 < grid->n && i >= grid->width[level] * grid->height[level]) {
        i -= grid->width[level] * grid->height[level];
        level++;
    }
    return (qb_cell){(double)(i % grid->width[level]) + grid->offset,
                     (double)(i / grid->width[level]) + grid->offset, grid->stride[level], level};
}

bool qb_needs_sigmoid(const qb_decode *in, const float *score, int64_t rows, int64_t next,
                      int64_t n, int64_t step) {
    if (in->settings->sigmoid >= 0) return in->settings->sigmoid;
    for (int64_t i = 0; i < rows; i++, score += next)
        for (int64_t k = 0; k < n; k++)
            if (score[k * step] < -0.01F || score[k * step] > 1.01F) return true;
    return false;
}

double qb_sigmoid(double x) { return 1 / (1 + exp(-x)); }

void qb_expect_sides(const float *bins, int64_t n, int64_t step, double side[4]) {
    for (int k = 0; k < 4; k++, bins += n * step) {
        double most = bins[0], sum = 0, weighted = 0;
        side[k] = bins[0];
        if (n == 1) continue;
        for (int64_t i = 1; i < n; i++) most = fmax(most, bins[i * step]);
        for (int64_t i = 0; i < n; i++) {
            const double e = exp(bins[i * step] - most);
            sum += e;
            weighted += e * (double)i;
        }
        side[k] = weighted / sum;
    }
}

void qb_apply_deltas(const double anchor[4], const float *d, const double variance[2],
                     double out[4]) {
    for (int k = 0; k < 2; k++) {
        out[k] = anchor[k] + d[k] * variance[0] * anchor[2 + k];
        out[2 + k] = anchor[2 + k] * exp(fmin(d[2 + k] * variance[1], 20));
    }
}

#include "eval/detection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "datasets/loader.h"
#include "eval/coco.h"

#define X(name) extern const qb_box_decoder qb_box_decoder_##name;
#include "eval/decoders.def"
#undef X

static const qb_box_decoder *const decoders[] = {
#define X(name) &qb_box_decoder_##name,
#include "eval/decoders.def"
#undef X
};
enum { DECODERS = sizeof decoders / sizeof *decoders };

const char *const qb_box_words[] = {"xyxy", "xywh", "cxcywh", "yxyx", NULL};

const qb_box_decoder *const *qb_box_decoders(int32_t *n) {
    *n = DECODERS;
    return decoders;
}

qb_status qb_box_decoder_find(qb_ctx *cx, const char *name, const qb_box_decoder **out) {
    const char *words[DECODERS + 1] = {NULL};
    char text[512];
    for (int i = 0; i < DECODERS; i++) {
        words[i] = decoders[i]->name;
        if (strcmp(name, words[i]) != 0) continue;
        *out = decoders[i];
        return QB_OK;
    }
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s", qb_word_error(words, name, text, sizeof text));
}

const qb_box_decoder *qb_box_decoder_guess(const qb_decode *in) {
    for (int i = 0; i < DECODERS; i++)
        if (decoders[i]->classes(in) > 0) return decoders[i];
    return NULL;
}

void qb_detect_settings_default(qb_detect_settings *s) {
    *s = (qb_detect_settings){.score_threshold = 0.001, .nms_iou = 0.45, .report_threshold = 0.25};
}

void qb_detect_settings_release(qb_detect_settings *s) {
    qb_free(s->category_id);
    s->category_id = NULL;
}

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

/* A detection and where it stood, which settles ties. */
typedef struct ranked {
    double score;
    size_t place;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Is it too near to one of those that stayed? */
static bool is_suppressed(const qb_detections *kept, const qb_detection *d, double iou,
                          bool across) {
    for (size_t i = 0; i < kept->n; i++)
        if ((across || kept->item[i].label == d->label) &&
            qb_box_iou(d->box, kept->item[i].box, false) > iou)
            return true;
    return false;
}

qb_status qb_nms(qb_ctx *cx, double iou, bool across, size_t most, qb_detections *list) {
    qb_detections kept = {0};
    ranked *order = qb_alloc(cx, list->n, sizeof *order);
    qb_status status = order ? QB_OK : cx->code;
    for (size_t i = 0; i < list->n && status == QB_OK; i++)
        order[i] = (ranked){list->item[i].score, i};
    if (status == QB_OK) qsort(order, list->n, sizeof *order, by_score);
    for (size_t i = 0; i < list->n && status == QB_OK && (most == 0 || kept.n < most); i++) {
        const qb_detection *d = &list->item[order[i].place];
        if (!is_suppressed(&kept, d, iou, across)) status = qb_detections_add(cx, &kept, d);
    }
    qb_free(order);
    if (status != QB_OK) {
        qb_detections_release(&kept);
        return status;
    }
    qb_detections_release(list);
    *list = kept;
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

qb_status qb_decode_best(qb_ctx *cx, const qb_decode *in, const double center_size[4],
                         const float *score, int64_t step, int32_t n, double factor) {
    int32_t best = 0;
    for (int32_t k = 1; k < n; k++)
        if (score[k * step] > score[best * step]) best = k;
    if (!in->settings->multi_label)
        return qb_decode_box(cx, in, center_size, score[best * step] * factor, best);
    for (int32_t k = 0; k < n; k++)
        QB_TRY(qb_decode_box(cx, in, center_size, score[k * step] * factor, k));
    return QB_OK;
}

bool qb_is_batch_of(const qb_tensor *tensor, int32_t rank) {
    const qb_shape *s = &tensor->desc.shape;
    return s->rank == rank && rank > 0 && (s->dim[0] == 1 || s->dim[0] < 0);
}

const qb_tensor *qb_decode_named(const qb_decode *in, const char *name) {
    for (int32_t i = 0; i < in->n; i++)
        if (in->name[i] && strcmp(in->name[i], name) == 0) return &in->output[i];
    return NULL;
}

#include "eval/voc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/coco.h"

typedef struct scorer {
    const qb_coco *truth;
    const qb_coco_by_image *by;
    bool *taken;               /* [objects] */
    const qb_coco_object **at; /* detections of a category, best first */
    double *recall, *precision;
} scorer;

static int by_score(const void *a, const void *b) {
    const qb_coco_object *x = *(const qb_coco_object *const *)a,
                         *y = *(const qb_coco_object *const *)b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x > y) - (x < y);
}

/* The object of its category and image that a detection covers most; NULL where that is not half.
 */
static const qb_coco_object *covered(const scorer *s, const qb_coco_object *d) {
    const qb_coco_object *best = NULL;
    double most = 0.5;
    for (size_t i = s->by->first[d->image]; i < s->by->first[d->image + 1]; i++) {
        const qb_coco_object *o = &s->truth->objects.item[s->by->object[i]];
        const double iou = o->category == d->category ? qb_box_iou(d->box, o->box, false) : 0;
        if (iou < most || (best && iou == most)) continue;
        most = iou;
        best = o;
    }
    return best;
}

/* Recall and precision behind each detection that counts; returns how many. */
static size_t walk(scorer *s, size_t n, double objects) {
    double right = 0, wrong = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const qb_coco_object *o = covered(s, s->at[i]);
        if (o && o->crowd) continue;
        bool *taken = o ? &s->taken[o - s->truth->objects.item] : NULL;
        const bool is_right = taken && !*taken;
        if (taken) *taken = true;
        right += is_right;
        wrong += !is_right;
        s->recall[kept] = right / objects;
        s->precision[kept++] = right / (right + wrong);
    }
    for (size_t i = kept; i-- > 1;)
        s->precision[i - 1] = fmax(s->precision[i - 1], s->precision[i]);
    return kept;
}

static void add_category(scorer *s, size_t n, double objects, qb_voc_scores *sum) {
    const size_t kept = walk(s, n, objects);
    double before = 0;
    for (size_t i = 0; i < kept; i++) {
        sum->all += (s->recall[i] - before) * s->precision[i];
        before = s->recall[i];
    }
    for (int k = 0; k <= 10; k++) {
        size_t i = 0;
        while (i < kept && s->recall[i] < k / 10.0) i++;
        sum->eleven += i < kept ? s->precision[i] / 11 : 0;
    }
}

static qb_status score(qb_ctx *cx, scorer *s, const qb_coco_objects *results, const int32_t *counts,
                       qb_voc_scores *out) {
    const qb_coco *t = s->truth;
    qb_voc_scores sum = {0, 0};
    int32_t categories = 0;
    QB_TRY_NEW(cx, s->taken = qb_alloc(cx, t->objects.n, sizeof *s->taken));
    QB_TRY_NEW(cx, s->at = qb_alloc(cx, results->n, sizeof *s->at));
    QB_TRY_NEW(cx, s->recall = qb_alloc(cx, results->n, sizeof *s->recall));
    QB_TRY_NEW(cx, s->precision = qb_alloc(cx, results->n, sizeof *s->precision));
    for (int32_t c = 0; c < t->n_categories; c++) {
        double objects = 0;
        size_t n = 0;
        for (size_t i = 0; i < t->objects.n; i++) {
            const qb_coco_object *o = &t->objects.item[i];
            objects += o->category == c && o->image >= 0 && !o->crowd && counts[o->image] > 0;
        }
        for (size_t i = 0; i < results->n && objects > 0; i++) {
            const qb_coco_object *d = &results->item[i];
            if (d->category == c && d->image >= 0 && counts[d->image] > 0) s->at[n++] = d;
        }
        if (objects == 0) continue;
        QB_TRY(qb_check_cancel(cx));
        qsort(s->at, n, sizeof *s->at, by_score);
        add_category(s, n, objects, &sum);
        categories++;
    }
    *out = categories > 0 ? (qb_voc_scores){sum.eleven / categories, sum.all / categories}
                          : (qb_voc_scores){-1, -1};
    return QB_OK;
}

qb_status qb_voc_score(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *results,
                       const int32_t *counts, qb_voc_scores *out) {
    qb_coco_by_image by;
    QB_TRY(qb_coco_by_image_create(cx, truth, &by));
    scorer s = {.truth = truth, .by = &by};
    const qb_status status = score(cx, &s, results, counts, out);
    QB_FREE_ALL(s.taken, s.at, s.recall, s.precision);
    qb_coco_by_image_release(&by);
    return status;
}

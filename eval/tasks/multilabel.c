/* multilabel: any number of classes a sample, each with a score; what an image shows is the
 * categories of its objects. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"
#include "eval/task.h"

typedef struct state {
    qb_task_data data;
    const qb_coco *truth;
    int32_t classes, output;
    int32_t *class_of; /* of each category; -1: none */
    int64_t samples;
    float *score;   /* [engines x classes x samples] */
    int32_t *order; /* the same: samples by falling score, once all are there */
    bool *shows;    /* [classes x samples] */
    bool *seen;     /* [samples] */
    bool *logits;   /* [engines]: a score left 0 to 1 */
} state;

static void multilabel_close(void *opened) {
    state *s = opened;
    if (!s) return;
    QB_FREE_ALL(s->class_of, s->score, s->order, s->shows, s->seen, s->logits, s);
}
QB_RELEASE_AT(state, multilabel_close)

/* Scores of classes: one line of more than one number. */
static int32_t classes_of(const qb_value *value) {
    const qb_shape *s = &value->shape;
    const bool line = qb_dtype_is_float(value->dtype) && s->rank >= 1 &&
                      qb_output_kind_of(value->dtype, s) == QB_OUTPUT_CLASSES;
    int64_t n = 1;
    for (int32_t d = 0; line && d < s->rank; d++)
        if (s->dim[d] > 1) n = s->dim[d];
    return line && n > 1 && n <= 1 << 20 ? (int32_t)n : 0;
}

static void find_output(const qb_task_data *data, int32_t *output, int32_t *classes) {
    const char *name = data->settings->output;
    *output = -1;
    for (int32_t i = 0; i < data->graph->n_outputs; i++) {
        const qb_value *value = &data->graph->values[data->graph->outputs[i]];
        const int32_t n = classes_of(value);
        if (n == 0 || (*output >= 0 && (!name || strcmp(name, value->name) != 0))) continue;
        *output = i;
        *classes = n;
    }
}

/* Of each category the class with its name, else with its rank. */
static qb_status map_categories(qb_ctx *cx, state *s) {
    const qb_labels *labels = s->data.labels;
    const bool named = labels && labels->n > 0;
    int32_t known = 0;
    QB_TRY_NEW(cx, s->class_of = qb_alloc(cx, (size_t)s->truth->n_categories, sizeof *s->class_of));
    for (int32_t c = 0; c < s->truth->n_categories; c++) {
        s->class_of[c] = named || c >= s->classes ? -1 : c;
        for (int32_t k = 0; named && k < labels->n && k < s->classes; k++)
            if (strcmp(labels->name[k], s->truth->category[c].name) == 0) s->class_of[c] = k;
        known += s->class_of[c] >= 0;
    }
    return known > 0 ? QB_OK
                     : qb_fail(cx, QB_STATUS_MISMATCH,
                               "task multilabel: no category of the data is called as one of the "
                               "model's labels ('%s', ...)",
                               labels->name[0]);
}

static qb_status read_truth(qb_ctx *cx, state *s) {
    QB_FREED int64_t *sample = QB_NEW(cx, qb_alloc(cx, (size_t)s->truth->n_images, sizeof *sample));
    for (int32_t i = 0; i < s->truth->n_images; i++) sample[i] = -1;
    for (int64_t i = 0; i < s->samples; i++)
        sample[qb_dataset_truth_image(s->data.loader->dataset, i)] = i;
    for (size_t i = 0; i < s->truth->objects.n; i++) {
        const qb_coco_object *o = &s->truth->objects.item[i];
        if (o->image < 0 || o->category < 0 || sample[o->image] < 0) continue;
        const int32_t k = s->class_of[o->category];
        if (k >= 0) s->shows[k * s->samples + sample[o->image]] = true;
    }
    return QB_OK;
}

static qb_status allocate(qb_ctx *cx, state *s) {
    const size_t each = (size_t)s->classes * (size_t)s->samples, n = (size_t)s->data.n_engines;
    s->score = qb_alloc(cx, each * n, sizeof *s->score);
    s->order = qb_alloc(cx, each * n, sizeof *s->order);
    s->shows = qb_alloc(cx, each, sizeof *s->shows);
    s->seen = qb_alloc(cx, (size_t)s->samples, sizeof *s->seen);
    s->logits = qb_alloc(cx, n, sizeof *s->logits);
    return s->score && s->order && s->shows && s->seen && s->logits ? QB_OK : cx->code;
}

static qb_status multilabel_open(qb_ctx *cx, const qb_task_data *data, void **out) {
    QB_RELEASED(multilabel_close_at) state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    *s = (state){.data = *data,
                 .truth = qb_dataset_truth(data->loader->dataset),
                 .samples = qb_dataset_count(data->loader->dataset)};
    find_output(data, &s->output, &s->classes);
    if (s->output < 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task multilabel: expected an output N x classes of floats");
    if (!s->truth)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task multilabel: expected data with categories in each image: COCO's "
                       "ground truth (--data instances.json) or a YOLO data set");
    QB_TRY(allocate(cx, s));
    QB_TRY(map_categories(cx, s));
    QB_TRY(read_truth(cx, s));
    *out = QB_MOVE(s);
    return QB_OK;
}

static float *scores_of(const state *s, int32_t engine, int32_t class) {
    return s->score + ((int64_t)engine * s->classes + class) * s->samples;
}

static qb_status multilabel_outputs(qb_ctx *cx, void *opened, int32_t engine, int64_t index,
                                    const qb_tensor *output, int32_t n) {
    state *s = opened;
    if (s->output >= n || qb_shape_count(&output[s->output].desc.shape) != s->classes)
        return qb_fail(cx, QB_STATUS_MISMATCH, "task multilabel: expected %d scores",
                       (int)s->classes);
    const float *v = output[s->output].data;
    for (int32_t k = 0; k < s->classes; k++)
        scores_of(s, engine, k)[index] = isnan(v[k]) ? -INFINITY : v[k];
    s->seen[index] = true; /* by every engine with the same value */
    return QB_OK;
}

static qb_status multilabel_pack(qb_pack *part, int32_t n, const qb_task_data *data,
                                 void **opened) {
    state *s = QB_NEW(part->cx, part->reads ? qb_alloc(part->cx, 1, sizeof *s) : *opened);
    *opened = s;
    if (part->reads)
        *s = (state){.data = *data,
                     .truth = qb_dataset_truth(data->loader->dataset),
                     .samples = qb_dataset_count(data->loader->dataset)};
    for (int32_t k = 0; k < n; k++) {
        QB_PACK(&part[k], s->classes);
        if (!s->truth || s->classes < 2 || s->classes > 1 << 20)
            qb_pack_refuse(&part[k], "classes");
        QB_TRY(part[k].status);
    }
    if (part->reads) {
        QB_TRY(allocate(part->cx, s));
        QB_TRY(map_categories(part->cx, s));
        QB_TRY(read_truth(part->cx, s));
    }
    for (int64_t i = 0; i < s->samples; i++) {
        qb_pack *p = &part[i % n];
        qb_pack_bool(p, &s->seen[i]);
        for (int32_t e = 0; s->seen[i] && e < data->n_engines; e++)
            for (int32_t k = 0; k < s->classes; k++) QB_PACK(p, scores_of(s, e, k)[i]);
        QB_TRY(p->status);
    }
    return QB_OK;
}

/* ---- scores ---------------------------------------------------------------------------------- */

typedef struct ranked {
    float score;
    int32_t sample;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

static qb_status sort_scores(qb_ctx *cx, state *s) {
    QB_FREED ranked *list = QB_NEW(cx, qb_alloc(cx, (size_t)s->samples, sizeof *list));
    for (int32_t e = 0; e < s->data.n_engines; e++)
        for (int32_t k = 0; k < s->classes; k++) {
            const float *score = scores_of(s, e, k);
            for (int32_t i = 0; i < s->samples; i++) {
                list[i] = (ranked){s->seen[i] ? score[i] : -INFINITY, i};
                if (s->seen[i] && isfinite(score[i]) && (score[i] < 0 || score[i] > 1))
                    s->logits[e] = true;
            }
            qsort(list, (size_t)s->samples, sizeof *list, by_score);
            int32_t *order = s->order + ((int64_t)e * s->classes + k) * s->samples;
            for (int32_t i = 0; i < s->samples; i++) order[i] = list[i].sample;
        }
    return QB_OK;
}

/* Area under precision over recall, samples of equal score together; NaN without the class. */
static double average_precision(const state *s, int32_t engine, int32_t class,
                                const int32_t *weight) {
    const int32_t *order = s->order + ((int64_t)engine * s->classes + class) * s->samples;
    const float *score = scores_of(s, engine, class);
    const bool *shows = s->shows + class * s->samples;
    double right = 0, all = 0, sum = 0, before = 0;
    for (int64_t i = 0; i < s->samples; i++) {
        const int32_t at = order[i];
        right += shows[at] ? weight[at] : 0;
        all += weight[at];
        const bool last = i + 1 == s->samples || score[order[i + 1]] != score[at];
        if (!last || right == before) continue;
        sum += (right - before) * right / all;
        before = right;
    }
    return right > 0 ? sum / right : NAN;
}

static const qb_task_metric multilabel_metric[] = {
    {{"map", "mAP", "%",
      "mean over classes of the area under precision over recall; interval: bootstrap over images"},
     true},
    {{"f1", "F1", "%", "F score of all classes together, of scores above 0.5 (logits above 0)"},
     true},
};
enum { METRICS = sizeof multilabel_metric / sizeof *multilabel_metric };

static double f_score(const state *s, int32_t engine, const int32_t *weight) {
    const float limit = s->logits[engine] ? 0 : 0.5F;
    double both = 0, found = 0, true_ones = 0;
    for (int32_t k = 0; k < s->classes; k++) {
        const float *score = scores_of(s, engine, k);
        for (int64_t i = 0; i < s->samples; i++) {
            const bool is = s->shows[k * s->samples + i], told = score[i] > limit;
            both += is && told ? weight[i] : 0;
            found += told ? weight[i] : 0;
            true_ones += is ? weight[i] : 0;
        }
    }
    return found + true_ones > 0 ? 200 * both / (found + true_ones) : NAN;
}

static qb_status multilabel_values(qb_ctx *cx, const void *opened, int32_t engine,
                                   const int32_t *weight, bool draw,
                                   double value[QB_TASK_METRICS]) {
    (void)cx, (void)draw;
    const state *s = opened;
    double sum = 0;
    int32_t n = 0;
    for (int32_t k = 0; k < s->classes; k++) {
        const double ap = average_precision(s, engine, k, weight);
        if (!isnan(ap)) sum += ap, n++;
    }
    value[0] = n > 0 ? 100 * sum / n : NAN;
    value[1] = f_score(s, engine, weight);
    return QB_OK;
}

static qb_status add_classes(qb_ctx *cx, const state *s, qb_run *run) {
    const qb_labels *labels = s->data.labels;
    char text[16];
    QB_FREED int32_t *weight = QB_NEW(cx, qb_alloc(cx, (size_t)s->samples, sizeof *weight));
    for (int64_t i = 0; i < s->samples; i++) weight[i] = s->seen[i];
    for (int32_t e = 0; e < s->data.n_engines; e++)
        for (int32_t k = 0; k < s->classes; k++) {
            const double ap = average_precision(s, e, k, weight);
            const char *name = labels && k < labels->n ? labels->name[k] : NULL;
            int64_t n = 0;
            for (int64_t i = 0; i < s->samples; i++)
                n += s->shows[k * s->samples + i] && s->seen[i];
            for (int32_t c = 0; !name && c < s->truth->n_categories; c++)
                if (s->class_of[c] == k) name = s->truth->category[c].name;
            snprintf(text, sizeof text, "%d", (int)k);
            if (!isnan(ap))
                QB_TRY(qb_run_class_score_add(cx, &run->row[e], name ? name : text, 100 * ap, n));
        }
    return QB_OK;
}

static qb_status multilabel_finish(qb_ctx *cx, void *opened, qb_run *run) {
    state *s = opened;
    const qb_task_scores scores = {.metric = multilabel_metric,
                                   .n = METRICS,
                                   .n_engines = s->data.n_engines,
                                   .samples = s->samples,
                                   .seen = s->seen,
                                   .value = multilabel_values,
                                   .state = s};
    QB_TRY(sort_scores(cx, s));
    QB_TRY(qb_task_score(cx, &scores, run));
    return add_classes(cx, s, run);
}

/* Several categories in an image, and a score for each. */
static bool multilabel_fits(qb_ctx *cx, const qb_task_data *data) {
    (void)cx;
    const qb_coco *truth = qb_dataset_truth(data->loader->dataset);
    int32_t output, classes = 0;
    find_output(data, &output, &classes);
    return truth && output >= 0 && data->graph->n_outputs == 1 &&
           (classes == truth->n_categories || (data->labels && classes == data->labels->n));
}

const qb_task qb_task_multilabel = {
    .name = "multilabel",
    .text = "any number of classes a sample",
    .words = "multi-label tagging",
    .metric = "map",
    .fits = multilabel_fits,
    .open = multilabel_open,
    .outputs = multilabel_outputs,
    .finish = multilabel_finish,
    .pack = multilabel_pack,
    .close = multilabel_close,
};

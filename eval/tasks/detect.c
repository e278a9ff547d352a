/* detect: boxes of classes, scored as COCO does, and against the first engine's own boxes. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "eval/coco.h"
#include "eval/detector.h"
#include "eval/task.h"
#include "eval/voc.h"

typedef struct state {
    qb_task_data data;
    qb_detect_settings settings; /* with a decoder */
    const qb_coco *truth;        /* may be NULL: then only engines are compared */
    qb_coco judged;              /* of it what the model has classes for; owns objects.item */
    int64_t *read_ids;           /* memory of settings.category_id in a state that was read */
    const char **name;           /* of the graph's outputs */
    bool *whole;                 /* do they hold integers? */
    int64_t samples;
    qb_detections *found; /* [engines x samples], in pixels of the images */
    bool *seen;           /* [samples] */
    bool guessed;         /* the decoder, by shapes: values may tell more */
    int32_t n_labels;     /* classes that names or ids tell of; 0: not known */
    int32_t *category;    /* of each class that a box has, once it is scored; NULL: no truth */
    int32_t n_category;
    int32_t n_classes; /* as the outputs have them; 0: they do not tell */
} state;

static void detect_close(void *opened) {
    state *s = opened;
    if (!s) return;
    for (int64_t i = 0; s->found && i < s->data.n_engines * s->samples; i++)
        qb_detections_release(&s->found[i]);
    QB_FREE_ALL(s->found, s->seen, s->name, s->whole, s->read_ids, s->category,
                s->judged.objects.item, s);
}
QB_RELEASE_AT(state, detect_close)

static qb_status create_state(qb_ctx *cx, const qb_task_data *data, state **out) {
    QB_RELEASED(detect_close_at) state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    *s = (state){.data = *data,
                 .truth = qb_dataset_truth(data->loader->dataset),
                 .samples = qb_dataset_count(data->loader->dataset)};
    QB_TRY_NEW(cx, s->found = qb_alloc(cx, (size_t)s->samples * (size_t)data->n_engines,
                                       sizeof *s->found));
    QB_TRY_NEW(cx, s->seen = qb_alloc(cx, (size_t)s->samples, sizeof *s->seen));
    *out = QB_MOVE(s);
    return QB_OK;
}

static qb_status refuse_outputs(qb_ctx *cx, const qb_graph *graph) {
    qb_strbuf text = {0};
    char shape[128], *message;
    for (int32_t i = 0; i < graph->n_outputs && i < 12; i++) {
        const qb_value *value = &graph->values[graph->outputs[i]];
        qb_strbuf_addf(&text, "%s'%s' %s", i ? ", " : "", value->name,
                       qb_shape_text(&value->shape, shape, sizeof shape));
    }
    qb_strbuf_add(&text, "); detection.decode in the sidecar or qbench.yaml names one:");
    for (const qb_box_decoder *const *d = qb_box_decoders; *d; d++)
        qb_strbuf_addf(&text, "%s %s (%s)", d == qb_box_decoders ? "" : ",", (*d)->name,
                       (*d)->text);
    QB_TRY(qb_strbuf_take(cx, &text, &message));
    qb_fail(cx, QB_STATUS_UNSUPPORTED, "task detect: no decoder fits the model's outputs (%s",
            message);
    qb_free(message);
    return cx->code;
}

/* Classes that something tells of: category ids, names, the data's categories. */
static int32_t count_labels(const qb_task_data *data) {
    const qb_coco *truth = qb_dataset_truth(data->loader->dataset);
    if (data->settings->detect.n_category_ids > 0) return data->settings->detect.n_category_ids;
    if (data->labels && data->labels->n > 0) return data->labels->n;
    return truth ? truth->n_categories : 0;
}

/* The decoder that fits the outputs' declared shapes. */
static qb_status choose_decoder(qb_ctx *cx, state *s) {
    const qb_detector_hints hints = {.settings = &s->settings,
                                     .width = s->data.loader->width,
                                     .height = s->data.loader->height,
                                     .n_labels = s->n_labels,
                                     .top_id = qb_coco_top_id(s->truth)};
    QB_TRY(qb_detector_guess(cx, s->data.graph, &hints, &s->settings.decoder, NULL));
    s->guessed = true;
    if (!s->settings.decoder) return refuse_outputs(cx, s->data.graph);
    qb_info(cx,
            "outputs look like %s (%s): detection.decode in the sidecar or qbench.yaml says "
            "otherwise",
            s->settings.decoder->name, s->settings.decoder->text);
    return QB_OK;
}

static qb_status detect_open(qb_ctx *cx, const qb_task_data *data, void **out) {
    const qb_dataset *dataset = data->loader->dataset;
    if (qb_dataset_has_tensors(dataset))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task detect: expected images with COCO's ground truth, got tensors");
    QB_RELEASED(detect_close_at) state *s = NULL;
    QB_TRY(create_state(cx, data, &s));
    s->settings = data->settings->detect;
    QB_TRY_NEW(cx, s->name = qb_alloc(cx, (size_t)data->graph->n_outputs, sizeof *s->name));
    QB_TRY_NEW(cx, s->whole = qb_alloc(cx, (size_t)data->graph->n_outputs, sizeof *s->whole));
    for (int32_t i = 0; i < data->graph->n_outputs; i++) {
        const qb_value *value = &data->graph->values[data->graph->outputs[i]];
        s->name[i] = value->name;
        s->whole[i] = !qb_dtype_is_float(value->dtype);
    }
    s->n_labels = count_labels(data);
    if (!s->settings.decoder) QB_TRY(choose_decoder(cx, s));
    if (!s->truth)
        qb_warn(cx, "the data have no boxes: engines are compared with the first one only (COCO's "
                    "ground truth: --data instances.json)");
    *out = QB_MOVE(s);
    return QB_OK;
}

/* Back to the pixels of the image itself. */
static void to_image(const qb_pixel_map *map, qb_detection *d) {
    for (int k = 0; k < 2; k++) {
        d->box[k] = (d->box[k] - map->offset[k]) / map->scale[k];
        d->box[2 + k] /= map->scale[k];
    }
}

static qb_status detect_outputs(qb_ctx *cx, void *opened, int32_t engine, int64_t index,
                                const qb_tensor *output, int32_t n) {
    state *s = opened;
    const qb_loader_options *loader = s->data.loader;
    qb_detections *found = &s->found[engine * s->samples + index];
    int32_t width = loader->width, height = loader->height;
    qb_pixel_map map = {{1, 1}, {0, 0}};
    if (s->truth) {
        const qb_coco_image *image =
            &s->truth->image[qb_dataset_truth_image(loader->dataset, index)];
        QB_TRY(qb_preprocess_map(cx, &loader->preprocess, image->width, image->height, &map));
        if (loader->any_size) { /* each image has an input of its own size */
            width = image->width;
            height = image->height;
            QB_TRY(qb_preprocess_size(cx, &loader->preprocess, &width, &height));
        }
    } else if (loader->any_size) {
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task detect: inputs of several sizes need ground truth that tells the "
                       "images' sizes");
    }
    qb_detect_settings settings = s->settings;
    const qb_decode in = {.settings = &settings,
                          .output = output,
                          .name = s->name,
                          .whole = s->whole,
                          .n = n,
                          .width = width,
                          .height = height,
                          .n_labels = s->n_labels,
                          .top_id = qb_coco_top_id(s->truth),
                          .out = found};
    if (s->guessed) {
        settings.decoder = NULL;
        settings.decoder = qb_box_decoder_guess(&in);
        if (!settings.decoder) settings.decoder = s->settings.decoder;
    }
    QB_TRY(qb_decode_boxes(cx, &in));
    const int32_t classes = settings.decoder->classes(&in);
    if (index == 0 && engine == 0 && classes < QB_CLASSES_NOT_TOLD) s->n_classes = classes;
    for (size_t i = 0; i < found->n; i++) to_image(&map, &found->item[i]);
    s->seen[index] = true; /* by every engine with the same value */
    return QB_OK;
}

/* What classes and boxes are taken for when they are scored. */
static void pack_settings(qb_pack *p, state *s) {
    qb_detect_settings *d = &s->settings;
    void *ids = d->category_id;
    int64_t n = d->n_category_ids;
    QB_PACK(p, d->report_threshold);
    QB_PACK(p, s->n_classes);
    qb_pack_list(p, &ids, &n, sizeof *d->category_id);
    if (!p->reads) return;
    qb_free(s->read_ids); /* of the part before */
    d->category_id = s->read_ids = ids;
    d->n_category_ids = (int32_t)n;
}

static void pack_boxes(qb_pack *p, qb_detections *list) {
    int64_t n = (int64_t)list->n;
    qb_pack_count(p, &n, sizeof list->item->box);
    for (int64_t i = 0; i < n && p->status == QB_OK; i++) {
        qb_detection d = p->reads ? (qb_detection){0} : list->item[i];
        QB_PACK(p, d.box);
        QB_PACK(p, d.score);
        QB_PACK(p, d.label);
        if (d.label < 0 || d.label >= QB_CLASSES_NOT_TOLD)
            qb_pack_refuse(p, "a box of no class");
        else if (p->reads && qb_detections_add(p->cx, list, &d) != QB_OK)
            p->status = p->cx->code;
    }
}

static qb_status detect_pack(qb_pack *part, int32_t n, const qb_task_data *data, void **opened) {
    if (part->reads) QB_TRY(create_state(part->cx, data, (state **)opened));
    state *s = *opened;
    for (int32_t k = 0; k < n; k++) pack_settings(&part[k], s);
    for (int64_t i = 0; i < s->samples; i++) {
        qb_pack *p = &part[i % n];
        qb_pack_bool(p, &s->seen[i]);
        for (int32_t e = 0; s->seen[i] && e < data->n_engines; e++)
            pack_boxes(p, &s->found[e * s->samples + i]);
        QB_TRY(p->status);
    }
    return QB_OK;
}

/* ---- against the ground truth ---- */

/* The same name but for case, spaces and signs? */
static bool is_same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a != '\0' && !isalnum((unsigned char)*a)) a++;
        while (*b != '\0' && !isalnum((unsigned char)*b)) b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (*a == '\0') return true;
    }
}

static int32_t highest_label(const state *s) {
    int32_t highest = 0;
    for (int64_t i = 0; i < s->samples; i++)
        for (size_t k = 0; k < s->found[i].n; k++)
            if (s->found[i].item[k].label > highest) highest = s->found[i].item[k].label;
    return highest;
}

/* The category of each of n classes: by the ids that are told, else by name. Without either,
 * classes are ids where there are as many as the highest id (COCO's 90 for 80 categories, as
 * torchvision and TensorFlow count), else ranks. */
static qb_status map_classes(qb_ctx *cx, const state *s, int32_t n, int32_t *out) {
    const qb_detect_settings *d = &s->settings;
    const qb_labels *labels = s->data.labels;
    const qb_coco *t = s->truth;
    int32_t named = 0;
    for (int32_t k = 0; k < n; k++) {
        out[k] = -1;
        if (d->n_category_ids > 0)
            out[k] = k < d->n_category_ids ? qb_coco_category_of(t, d->category_id[k]) : -1;
        for (int32_t c = 0;
             d->n_category_ids == 0 && labels && k < labels->n && out[k] < 0 && c < t->n_categories;
             c++)
            if (is_same_name(labels->name[k], t->category[c].name)) out[k] = c;
        named += out[k] >= 0;
    }
    if (d->n_category_ids > 0 || named > 0) return QB_OK;
    if (labels && labels->n > 0)
        qb_warn(cx,
                "no category of the data is called as a class of the model's labels ('%s', ...)",
                labels->name[0]);
    const qb_class_rule rule = qb_detector_class_rule(t, s->n_classes, n);
    for (int32_t k = 0; k < n; k++)
        out[k] = rule.ids ? qb_coco_category_of(t, k + rule.first) : k < t->n_categories ? k : -1;
    if (s->n_classes > t->n_categories && !rule.ids) {
        char text[256];
        qb_detector_class_text(t, s->n_classes, text, sizeof text);
        qb_warn(cx, "%s", text);
    }
    qb_info(cx,
            "class %d is taken for category '%s': detection.category_ids or labels say otherwise",
            rule.ids ? (int)(t->category[0].id - rule.first) : 0,
            t->n_categories > 0 ? t->category[0].name : "");
    return QB_OK;
}

/* How many classes the model has, as far as something tells; 0: not known. */
static int32_t known_classes(const state *s) {
    if (s->settings.n_category_ids > 0) return s->settings.n_category_ids;
    return s->data.labels && s->data.labels->n > 0 ? s->data.labels->n : s->n_classes;
}

/* The ground truth without the categories that a model of fewer classes cannot find: a detector of
 * persons is not judged by the other 79. Classes that no category is called as are a mistake of
 * names instead, and leave nothing out. */
static qb_status choose_truth(qb_ctx *cx, state *s) {
    const qb_coco *t = s->truth;
    const int32_t n = known_classes(s);
    const int32_t *class_of = s->category;
    QB_FREED bool *has = QB_NEW(cx, qb_alloc(cx, (size_t)t->n_categories, sizeof *has));
    qb_coco_object *kept = QB_NEW(cx, qb_alloc(cx, t->objects.n, sizeof *kept));
    int32_t found = 0;
    for (int32_t k = 0; k < n; k++) {
        found += class_of[k] >= 0 && !has[class_of[k]];
        if (class_of[k] >= 0) has[class_of[k]] = true;
    }
    const bool fewer = n > 0 && found == n && n < t->n_categories;
    s->judged = *t;
    s->judged.objects.item = kept;
    s->judged.objects.n = 0;
    for (size_t i = 0; i < t->objects.n; i++) {
        const qb_coco_object *o = &t->objects.item[i];
        if (!fewer || (o->category >= 0 && has[o->category])) kept[s->judged.objects.n++] = *o;
    }
    if (fewer)
        qb_warn(cx,
                "the model has a class for %d of the data's %d categories ('%s', ...): the others "
                "do not count",
                n, t->n_categories, t->category[class_of[0]].name);
    return QB_OK;
}

/* How an engine's boxes meet the ground truth. */
typedef struct meeting {
    qb_coco_matches *matches;
    qb_voc_scores voc;
} meeting;

static qb_status match_engine(qb_ctx *cx, const state *s, int32_t engine, const int32_t *counts,
                              meeting *out) {
    const qb_detections *found = s->found + engine * s->samples;
    QB_RELEASED(qb_coco_objects_release) qb_coco_objects results = {0};
    size_t n = 0, strays = 0;
    for (int64_t i = 0; i < s->samples; i++) n += found[i].n;
    QB_TRY_NEW(cx, results.item = qb_alloc(cx, n, sizeof *results.item));
    for (int64_t i = 0; i < s->samples; i++)
        for (size_t k = 0; k < found[i].n; k++) {
            const qb_detection *d = &found[i].item[k];
            qb_coco_object *o = &results.item[results.n++];
            *o = (qb_coco_object){.image = qb_dataset_truth_image(s->data.loader->dataset, i),
                                  .category = d->label < s->n_category ? s->category[d->label] : -1,
                                  .score = d->score,
                                  .area = d->box[2] * d->box[3]};
            memcpy(o->box, d->box, sizeof o->box);
            strays += o->category < 0;
        }
    if (strays > 0 && engine == 0)
        qb_warn(
            cx,
            "%zu of %zu boxes are of classes that no category of the data stands for: name them "
            "with detection.category_ids or labels",
            strays, n);
    QB_TRY(qb_coco_match(cx, &s->judged, &results, QB_COCO_BOXES, &out->matches));
    return qb_voc_score(cx, &s->judged, &results, counts, &out->voc);
}

/* The metrics from COCO's scores. */
static const qb_task_metric coco_metric[] = {
    {{"ap", "AP", "%",
      "COCO's mean average precision over IoU 0.5 to 0.95; interval: bootstrap over images"},
     true},
    {{"ap50", "AP50", "%", "the same at IoU 0.5"}, true},
    {{"ap75", "AP75", "%", "the same at IoU 0.75"}, true},
    {{"ap_small", "AP small", "%", "AP of objects up to 32 x 32 pixels"}, false},
    {{"ap_medium", "AP medium", "%", "AP of objects from 32 x 32 to 96 x 96 pixels"}, false},
    {{"ap_large", "AP large", "%", "AP of objects from 96 x 96 pixels on"}, false},
    {{"ar1", "AR1", "%", "average recall with one box a class and image"}, false},
    {{"ar10", "AR10", "%", "average recall with 10 boxes a class and image"}, false},
    {{"ar100", "AR100", "%", "average recall with 100 boxes a class and image"}, true},
    {{"voc", "VOC AP", "%", "PASCAL VOC's AP at IoU 0.5: the area under precision over recall"},
     false},
    {{"voc11", "VOC AP, 11 points", "%", "PASCAL VOC 2007's, over eleven recalls"}, false},
    {{"user_recall", "recall", "%",
      "objects found at IoU 0.5 by boxes above the score that a user sees "
      "(detection.report_threshold)"},
     true},
};
static const qb_coco_score coco_score[] = {QB_COCO_AP,  QB_COCO_AP50, QB_COCO_AP75,
                                           QB_COCO_APS, QB_COCO_APM,  QB_COCO_APL,
                                           QB_COCO_AR1, QB_COCO_AR10, QB_COCO_AR100};
enum {
    METRICS = sizeof coco_metric / sizeof *coco_metric,
    COCO_METRICS = sizeof coco_score / sizeof *coco_score
};
_Static_assert(METRICS == COCO_METRICS + 3, "two of VOC and the user's recall come last");

/* What the scores are drawn from. */
typedef struct scored {
    const state *s;
    meeting *of;     /* [engines] */
    int32_t *weight; /* by image of the ground truth */
} scored;

static void scored_release(scored *d) {
    for (int32_t e = 0; d->of && e < d->s->data.n_engines; e++)
        qb_coco_matches_free(d->of[e].matches);
    QB_FREE_ALL(d->of, d->weight);
}

/* By image of the ground truth: 1 where it was read. */
static void count_seen(const state *s, int32_t *weight) {
    memset(weight, 0, (size_t)s->truth->n_images * sizeof *weight);
    for (int64_t i = 0; i < s->samples; i++)
        weight[qb_dataset_truth_image(s->data.loader->dataset, i)] = s->seen[i];
}

static double percent(double share) { return share < 0 ? NAN : 100 * share; }

static qb_status coco_values(qb_ctx *cx, const void *from, int32_t engine, const int32_t *weight,
                             bool draw, double value[QB_TASK_METRICS]) {
    const scored *d = from;
    uint32_t wanted = 0;
    const meeting *of = &d->of[engine];
    for (int m = 0; m < COCO_METRICS; m++)
        if (!draw || coco_metric[m].interval) wanted |= 1u << coco_score[m];
    memset(d->weight, 0, (size_t)d->s->truth->n_images * sizeof *d->weight);
    for (int64_t i = 0; i < d->s->samples; i++)
        d->weight[qb_dataset_truth_image(d->s->data.loader->dataset, i)] += weight[i];
    qb_coco_scores scores;
    QB_TRY(qb_coco_summarize(cx, of->matches, d->weight, wanted, &scores, NULL));
    for (int m = 0; m < COCO_METRICS; m++) value[m] = percent(scores.value[coco_score[m]]);
    value[COCO_METRICS] = percent(of->voc.all);
    value[COCO_METRICS + 1] = percent(of->voc.eleven);
    value[COCO_METRICS + 2] =
        percent(qb_coco_recall_above(of->matches, d->weight, d->s->settings.report_threshold));
    return QB_OK;
}

/* AP of each category that occurs, and precision over recall. */
static qb_status add_classes(qb_ctx *cx, const scored *d, int32_t engine, qb_run_row *row) {
    const qb_coco *truth = &d->s->judged;
    qb_coco_scores all;
    const size_t n = (size_t)truth->n_categories;
    QB_FREED qb_coco_scores *each = QB_NEW(cx, qb_alloc(cx, n, sizeof *each));
    QB_FREED int64_t *objects = QB_NEW(cx, qb_alloc(cx, n, sizeof *objects));
    count_seen(d->s, d->weight);
    QB_TRY_NEW(cx, row->curve = qb_alloc(cx, QB_COCO_RECALLS, sizeof *row->curve));
    QB_TRY(qb_coco_curve(cx, d->of[engine].matches, d->weight, row->curve));
    row->n_curve = QB_COCO_RECALLS;
    QB_TRY(qb_coco_summarize(cx, d->of[engine].matches, d->weight, 1u << QB_COCO_AP, &all, each));
    for (size_t i = 0; i < truth->objects.n; i++) {
        const qb_coco_object *o = &truth->objects.item[i];
        if (o->category >= 0 && o->image >= 0 && !o->crowd)
            objects[o->category] += d->weight[o->image];
    }
    for (int32_t c = 0; c < truth->n_categories; c++)
        if (each[c].value[QB_COCO_AP] >= 0)
            QB_TRY(qb_run_class_score_add(cx, row, truth->category[c].name,
                                          percent(each[c].value[QB_COCO_AP]), objects[c]));
    return QB_OK;
}

static qb_status score_truth(qb_ctx *cx, state *s, qb_run *run) {
    const int32_t n = s->data.n_engines;
    QB_RELEASED(scored_release)
    scored d = {.s = s,
                .of = qb_alloc(cx, (size_t)n, sizeof *d.of),
                .weight = qb_alloc(cx, (size_t)s->truth->n_images, sizeof *d.weight)};
    const qb_task_scores scores = {.metric = coco_metric,
                                   .n = METRICS,
                                   .n_engines = n,
                                   .samples = s->samples,
                                   .seen = s->seen,
                                   .value = coco_values,
                                   .state = &d};
    s->n_category = highest_label(s) + 1;
    if (known_classes(s) > s->n_category) s->n_category = known_classes(s);
    s->category = qb_alloc(cx, (size_t)s->n_category, sizeof *s->category);
    if (!d.of || !d.weight || !s->category) return cx->code;
    QB_TRY(map_classes(cx, s, s->n_category, s->category));
    QB_TRY(choose_truth(cx, s));
    count_seen(s, d.weight);
    for (int32_t e = 0; e < n; e++) QB_TRY(match_engine(cx, s, e, d.weight, &d.of[e]));
    QB_TRY(qb_task_score(cx, &scores, run));
    for (int32_t e = 0; e < n; e++) QB_TRY(add_classes(cx, &d, e, &run->row[e]));
    return QB_OK;
}

/* ---- against the first engine's boxes ---- */

/* Sums over the boxes that a user would see. */
typedef struct shift {
    int64_t boxes, first_boxes, matched; /* of this engine, of the first one, in both */
    double score, iou, sides; /* sums over matched ones: this score less the first's; IoU; mean
                                 distance of the four sides, pixels */
} shift;

/* The box above a score that covers one of its class best, by more than half; NULL. */
static const qb_detection *counterpart(const qb_detections *among, const qb_detection *of,
                                       double visible, double *iou) {
    const qb_detection *best = NULL;
    *iou = 0.5;
    for (size_t k = 0; k < among->n; k++) {
        const qb_detection *b = &among->item[k];
        if (b->label != of->label || !(b->score > visible)) continue;
        const double own = qb_box_iou(b->box, of->box, false);
        if (own <= *iou) continue;
        *iou = own;
        best = b;
    }
    return best;
}

static double side_distance(const double a[4], const double b[4]) {
    double sum = 0;
    for (int k = 0; k < 2; k++) sum += fabs(a[k] - b[k]) + fabs(a[k] + a[2 + k] - b[k] - b[2 + k]);
    return sum / 4;
}

/* Each visible box of the first engine and the one of its class that covers it best. */
static void add_shift(const qb_detections *first, const qb_detections *own, double visible,
                      shift *out) {
    for (size_t k = 0; k < own->n; k++) out->boxes += own->item[k].score > visible;
    for (size_t i = 0; i < first->n; i++) {
        const qb_detection *a = &first->item[i];
        double iou;
        if (!(a->score > visible)) continue;
        out->first_boxes++;
        const qb_detection *best = counterpart(own, a, -INFINITY, &iou);
        if (!best) continue;
        out->matched++;
        out->score += best->score - a->score;
        out->iou += iou;
        out->sides += side_distance(a->box, best->box);
    }
}

static const qb_metric_label shift_metric[] = {
    {"boxes", "boxes an image", "",
     "boxes an image above the score that a user sees (detection.report_threshold)"},
    {"refound", "refound", "%",
     "the first row's boxes above that score that this row has as well (same class, IoU above 0.5, "
     "any score)"},
    {"score_shift", "score shift", "", "mean change of their scores"},
    {"box_iou", "box IoU", "", "mean IoU of them with the first row's"},
    {"box_shift", "box shift", "px",
     "mean distance of their sides from the first row's, pixels of the image"},
};

static qb_status score_shift(qb_ctx *cx, const state *s, qb_run *run) {
    int64_t images = 0;
    for (int64_t i = 0; i < s->samples; i++) images += s->seen[i];
    for (int32_t e = 0; e < s->data.n_engines; e++) {
        shift sum = {0};
        for (int64_t i = 0; i < s->samples; i++)
            add_shift(&s->found[i], &s->found[e * s->samples + i], s->settings.report_threshold,
                      &sum);
        const double matched = sum.matched > 0 ? (double)sum.matched : NAN;
        const double first = sum.first_boxes > 0 ? (double)sum.first_boxes : NAN;
        const double value[] = {images > 0 ? (double)sum.boxes / (double)images : NAN,
                                100 * (double)sum.matched / first, sum.score / matched,
                                sum.iou / matched, sum.sides / matched};
        for (size_t m = 0; m < sizeof value / sizeof *value; m++)
            QB_TRY(qb_run_number_add(cx, &run->row[e], &shift_metric[m], value[m]));
    }
    return QB_OK;
}

/* ---- pictures ---- */

/* Boxes that a user sees and the other row does not have, and by how much the others moved. */
static double detect_badness(const void *opened, int32_t engine, int64_t index) {
    const state *s = opened;
    const qb_detections *both[] = {&s->found[index], &s->found[engine * s->samples + index]};
    const double visible = s->settings.report_threshold;
    double bad = 0, iou;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < both[k]->n; i++) {
            const qb_detection *a = &both[k]->item[i];
            if (!(a->score > visible)) continue;
            const qb_detection *b = counterpart(both[!k], a, visible, &iou);
            bad += b ? 0.05 * (1 - iou + fabs(a->score - b->score)) : 1;
        }
    return bad;
}

static char *class_name(qb_ctx *cx, const state *s, int32_t label) {
    const qb_labels *labels = s->data.labels;
    const int32_t category = s->category && label < s->n_category ? s->category[label] : -1;
    if (category >= 0) return qb_strdup(cx, s->truth->category[category].name);
    if (labels && label < labels->n) return qb_strdup(cx, labels->name[label]);
    return qb_format(cx, "%d", (int)label);
}

enum { BOXES_SHOWN = 100 };

static qb_status show_boxes(qb_ctx *cx, const state *s, const qb_detections *own,
                            const qb_detections *other, qb_run_box **out, int32_t *n) {
    const double visible = s->settings.report_threshold;
    double iou;
    QB_TRY_NEW(cx, *out = qb_alloc(cx, BOXES_SHOWN, sizeof **out));
    for (size_t i = 0; i < own->n && *n < BOXES_SHOWN; i++) {
        const qb_detection *d = &own->item[i];
        if (!(d->score > visible)) continue;
        qb_run_box *box = &(*out)[*n];
        *box = (qb_run_box){.x = d->box[0],
                            .y = d->box[1],
                            .width = d->box[2],
                            .height = d->box[3],
                            .score = d->score,
                            .matched = counterpart(other, d, visible, &iou) != NULL,
                            .name = class_name(cx, s, d->label)};
        if (!box->name) return cx->code;
        ++*n;
    }
    return QB_OK;
}

static qb_status detect_illustrate(qb_ctx *cx, const void *opened, int32_t engine, int64_t index,
                                   qb_run_shown *shown, qb_run_worst *out) {
    const state *s = opened;
    const qb_detections *first = &s->found[index], *own = &s->found[engine * s->samples + index];
    if (!s->truth) return QB_OK; /* nothing tells the image's size */
    const qb_coco_image *image =
        &s->truth->image[qb_dataset_truth_image(s->data.loader->dataset, index)];
    shown->width = image->width;
    shown->height = image->height;
    QB_TRY(show_boxes(cx, s, first, own, &out->reference_box, &out->n_reference_boxes));
    return show_boxes(cx, s, own, first, &out->box, &out->n_boxes);
}

static qb_status detect_finish(qb_ctx *cx, void *opened, qb_run *run) {
    state *s = opened;
    if (s->truth) QB_TRY(score_truth(cx, s, run));
    return score_shift(cx, s, run);
}

/* Boxes in the ground truth, and outputs that a decoder knows. */
static bool detect_fits(qb_ctx *cx, const qb_task_data *data) {
    const qb_box_decoder *decoder = data->settings->detect.decoder;
    const qb_detector_hints hints = {.settings = &data->settings->detect,
                                     .width = data->loader->width,
                                     .height = data->loader->height,
                                     .n_labels = count_labels(data),
                                     .top_id =
                                         qb_coco_top_id(qb_dataset_truth(data->loader->dataset))};
    if (!qb_dataset_truth(data->loader->dataset)) return false;
    return decoder ||
           (qb_detector_guess(cx, data->graph, &hints, &decoder, NULL) == QB_OK && decoder);
}

const qb_task qb_task_detect = {
    .name = "detect",
    .text = "boxes of classes",
    .words = "detection detector",
    .metric = "ap",
    .method = "auto", /* entropy cuts off the rare large values that boxes and masks are made of */
    .fits = detect_fits,
    .open = detect_open,
    .outputs = detect_outputs,
    .finish = detect_finish,
    .pack = detect_pack,
    .badness = detect_badness,
    .illustrate = detect_illustrate,
    .close = detect_close,
};

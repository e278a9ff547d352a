/* keypoints: people (or other objects) by named points, scored as COCO does by object keypoint
 * similarity. Outputs are those of YOLO's pose models: 1 x (5 + 3 K) x N or transposed, to be
 * suppressed, or 1 x N x (6 + 3 K), boxes by their corners; or those of top-down models, which see
 * one object that fills the image (eval/crop_points.h). */
#include <math.h>
#include <string.h>

#include "eval/coco.h"
#include "eval/crop_points.h"
#include "eval/task.h"

/* What one engine sees in one image: the label of item i is its place in `point`. */
typedef struct poses {
    qb_detections list;
    double *point; /* x, y, score of each point */
    int64_t n;     /* values of it */
} poses;

typedef struct state {
    qb_task_data data;
    const qb_coco *truth;
    int64_t samples;
    int32_t points; /* of an object */
    double visible; /* the score above which a user sees one */
    poses *found;   /* [engines x samples], in pixels of the images */
    bool *seen;     /* [samples] */
} state;

static void keypoints_close(void *opened) {
    state *s = opened;
    if (!s) return;
    for (int64_t i = 0; s->found && i < s->data.n_engines * s->samples; i++) {
        qb_detections_release(&s->found[i].list);
        qb_free(s->found[i].point);
    }
    QB_FREE_ALL(s->found, s->seen, s);
}
QB_RELEASE_AT(state, keypoints_close)

/* The first object that has key points: all have as many; NULL. */
static const qb_coco_object *example(const qb_coco *truth) {
    for (size_t i = 0; truth && i < truth->objects.n; i++)
        if (truth->objects.item[i].points > 0) return &truth->objects.item[i];
    return NULL;
}

static int32_t count_points(const qb_coco *truth) {
    const qb_coco_object *o = example(truth);
    return o ? o->n_points : 0;
}

static qb_status create_state(qb_ctx *cx, const qb_task_data *data, state **out) {
    QB_RELEASED(keypoints_close_at) state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    *s = (state){.data = *data,
                 .truth = qb_dataset_truth(data->loader->dataset),
                 .samples = qb_dataset_count(data->loader->dataset)};
    s->points = count_points(s->truth);
    QB_TRY_NEW(cx, s->found = qb_alloc(cx, (size_t)s->samples * (size_t)data->n_engines,
                                       sizeof *s->found));
    QB_TRY_NEW(cx, s->seen = qb_alloc(cx, (size_t)s->samples, sizeof *s->seen));
    *out = QB_MOVE(s);
    return QB_OK;
}

/* ---- outputs ---- */

/* How rows of candidates lie in an output; step 0: it is of another form. */
typedef struct rows {
    int64_t n, each, step; /* candidates; from one to the next; from a value to the next */
    bool is_final;         /* suppressed, by corners, with a class */
} rows;

static rows rows_of(const qb_shape *shape, int32_t points) {
    const int64_t raw = 5 + 3 * (int64_t)points, final = raw + 1;
    if (points < 1 || shape->rank != 3 || shape->dim[0] > 1) return (rows){0};
    const int64_t a = shape->dim[1], b = shape->dim[2];
    if (b == final) return (rows){a, b, 1, true};
    if (a == raw) return (rows){b, 1, b > 0 ? b : 1, false};
    if (b == raw) return (rows){a, b, 1, false};
    return (rows){0};
}

static int32_t find_output(const qb_task_data *data, int32_t points) {
    for (int32_t i = 0; i < data->graph->n_outputs; i++) {
        const qb_value *value = &data->graph->values[data->graph->outputs[i]];
        if (qb_dtype_is_float(value->dtype) && rows_of(&value->shape, points).step > 0) return i;
    }
    return -1;
}

static qb_status keypoints_open(qb_ctx *cx, const qb_task_data *data, void **out) {
    const int32_t points = count_points(qb_dataset_truth(data->loader->dataset));
    qb_crop_points crop;
    state *s;
    if (points == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task keypoints: expected COCO's ground truth with keypoints (--data "
                       "person_keypoints.json)");
    if (find_output(data, points) < 0 && !qb_crop_points_find(data->graph, points, &crop))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task keypoints: expected an output 1 x %d x N of a YOLO pose model, or 1 x "
                       "N x %d, or of a top-down model heat maps 1 x %d x H x W, or 1 x %d x bins "
                       "of x and of y",
                       5 + 3 * (int)points, 6 + 3 * (int)points, (int)points, (int)points);
    QB_TRY(create_state(cx, data, &s));
    s->visible = data->settings->detect.report_threshold;
    *out = s;
    return QB_OK;
}

/* One candidate, in pixels of the input; its points are those of row `row`. */
static qb_status add_candidate(qb_ctx *cx, const float *at, const rows *r, int64_t row,
                               double least, qb_detections *list) {
    const double score = at[4 * r->step];
    double v[4];
    for (int k = 0; k < 4; k++) v[k] = at[k * r->step];
    if (!(score > least) || !isfinite(v[0] + v[1] + v[2] + v[3])) return QB_OK;
    qb_detection d = {.score = score, .label = (int32_t)row};
    for (int k = 0; k < 2; k++) {
        d.box[k] = r->is_final ? v[k] : v[k] - v[2 + k] / 2;
        d.box[2 + k] = r->is_final ? v[2 + k] - v[k] : v[2 + k];
    }
    return qb_detections_add(cx, list, &d);
}

/* x, y or score number k of points in pixels of the input, in the image's own. */
static double own_pixel(double value, int32_t k, const qb_pixel_map *map) {
    const double own = k % 3 == 2 ? value : (value - map->offset[k % 3]) / map->scale[k % 3];
    return isfinite(own) ? own : 0;
}

/* The one object of a top-down model: all of the input, its score the mean of its points'. */
static qb_status add_crop(qb_ctx *cx, const state *s, const qb_crop_points *form,
                          const qb_tensor *output, const qb_pixel_map *map, poses *out) {
    const qb_loader_options *loader = s->data.loader;
    qb_detection d = {.box = {0, 0, loader->width, loader->height}};
    out->n = 3 * (int64_t)s->points;
    QB_TRY_NEW(cx, out->point = qb_alloc(cx, (size_t)out->n, sizeof *out->point));
    qb_crop_points_decode(form, output, s->points, loader->width, loader->height, out->point);
    for (int32_t k = 0; k < 3 * s->points; k++) {
        out->point[k] = own_pixel(out->point[k], k, map);
        if (k % 3 == 2) d.score += out->point[k] / s->points;
    }
    for (int k = 0; k < 2; k++) {
        d.box[2 + k] /= map->scale[k];
        d.box[k] = own_pixel(0, k, map);
    }
    return qb_detections_add(cx, &out->list, &d);
}

/* Back to the image's own pixels, with the points beside. */
static qb_status place(qb_ctx *cx, const state *s, const float *v, const rows *r,
                       const qb_pixel_map *map, poses *out) {
    const int64_t first = r->is_final ? 6 : 5;
    out->n = 3 * (int64_t)s->points * (int64_t)out->list.n;
    QB_TRY_NEW(cx, out->point = qb_alloc(cx, (size_t)out->n, sizeof *out->point));
    for (size_t i = 0; i < out->list.n; i++) {
        qb_detection *d = &out->list.item[i];
        const float *at = v + d->label * r->each + first * r->step;
        double *to = out->point + 3 * (size_t)s->points * i;
        for (int32_t k = 0; k < 3 * s->points; k++) to[k] = own_pixel(at[k * r->step], k, map);
        d->label = (int32_t)i;
        for (int k = 0; k < 2; k++) {
            d->box[k] = (d->box[k] - map->offset[k]) / map->scale[k];
            d->box[2 + k] /= map->scale[k];
        }
    }
    return QB_OK;
}

static qb_status keypoints_outputs(qb_ctx *cx, void *opened, int32_t engine, int64_t index,
                                   const qb_tensor *output, int32_t n) {
    state *s = opened;
    const qb_detect_settings *d = &s->data.settings->detect;
    const qb_loader_options *loader = s->data.loader;
    qb_crop_points crop;
    const int32_t at = find_output(&s->data, s->points);
    const rows r = at >= 0 && at < n ? rows_of(&output[at].desc.shape, s->points) : (rows){0};
    const bool is_crop = at < 0 && qb_crop_points_find(s->data.graph, s->points, &crop);
    if (r.step == 0 && !is_crop)
        return qb_fail(cx, QB_STATUS_MISMATCH, "task keypoints: the output has another shape");
    const qb_coco_image *image = &s->truth->image[qb_dataset_truth_image(loader->dataset, index)];
    poses *out = &s->found[engine * s->samples + index];
    qb_pixel_map map;
    QB_TRY(qb_preprocess_map(cx, &loader->preprocess, image->width, image->height, &map));
    s->seen[index] = true; /* by every engine with the same value */
    if (is_crop) return add_crop(cx, s, &crop, output, &map, out);
    const float *v = output[at].data;
    for (int64_t i = 0; i < r.n; i++)
        QB_TRY(add_candidate(cx, v + i * r.each, &r, i, d->score_threshold, &out->list));
    if (!r.is_final)
        QB_TRY(qb_nms(cx, d->nms_iou, true, d->top_k > 0 ? (size_t)d->top_k : 300, &out->list));
    return place(cx, s, v, &r, &map, out);
}

static void pack_poses(qb_pack *p, int32_t points, poses *list) {
    int64_t n = (int64_t)list->list.n;
    void *point = list->point;
    qb_pack_count(p, &n, sizeof(double));
    for (int64_t i = 0; i < n && p->status == QB_OK; i++) {
        qb_detection d = p->reads ? (qb_detection){.label = (int32_t)i} : list->list.item[i];
        QB_PACK(p, d.box);
        QB_PACK(p, d.score);
        if (p->reads && qb_detections_add(p->cx, &list->list, &d) != QB_OK) p->status = p->cx->code;
    }
    qb_pack_list(p, &point, &list->n, sizeof *list->point);
    list->point = point;
    if (list->n != 3 * points * n) qb_pack_refuse(p, "another number of points");
}

/* The points of the ground truth, which the data set's own part leaves out. */
static void pack_truth(qb_pack *p, qb_coco *t, int32_t image, qb_coco_by_image *by) {
    for (size_t i = by->first[image]; i < by->first[image + 1] && p->status == QB_OK; i++) {
        qb_coco_object *o = &t->objects.item[by->object[i]];
        qb_coco_objects *to = &t->objects;
        int64_t n = 3 * (int64_t)o->n_points;
        void *point = o->points > 0 ? to->point + (o->points - 1) : NULL;
        QB_PACK(p, o->n_visible);
        qb_pack_list(p, &point, &n, sizeof(double));
        if (!p->reads) continue;
        if (n % 3 != 0 || n > 3 * QB_COCO_POINTS_MAX) qb_pack_refuse(p, "points");
        if (p->status == QB_OK && n > 0 &&
            qb_grow(p->cx, &to->point, &to->values_capacity, to->n_values + (size_t)n,
                    sizeof(double)) != QB_OK)
            p->status = p->cx->code;
        if (p->status == QB_OK && n > 0) {
            memcpy(to->point + to->n_values, point, (size_t)n * sizeof(double));
            o->points = to->n_values + 1;
            o->n_points = (int32_t)(n / 3);
            to->n_values += (size_t)n;
        }
        qb_free(point);
    }
}

static qb_status keypoints_pack(qb_pack *part, int32_t n, const qb_task_data *data, void **opened) {
    if (part->reads) QB_TRY(create_state(part->cx, data, (state **)opened));
    state *s = *opened;
    qb_coco_by_image by;
    for (int32_t k = 0; k < n; k++) {
        QB_PACK(&part[k], s->points);
        QB_PACK(&part[k], s->visible);
        if (!s->truth || s->points < 1 || s->points > QB_COCO_POINTS_MAX)
            qb_pack_refuse(&part[k], "points");
        QB_TRY(part[k].status);
    }
    QB_TRY(qb_coco_by_image_create(part->cx, s->truth, &by));
    qb_coco *truth = (qb_coco *)(uintptr_t)s->truth; /* a list's own where it is read */
    for (int64_t i = 0; i < s->samples && part[i % n].status == QB_OK; i++) {
        qb_pack *p = &part[i % n];
        pack_truth(p, truth, qb_dataset_truth_image(data->loader->dataset, i), &by);
        qb_pack_bool(p, &s->seen[i]);
        for (int32_t e = 0; s->seen[i] && e < data->n_engines; e++)
            pack_poses(p, s->points, &s->found[e * s->samples + i]);
    }
    qb_coco_by_image_release(&by);
    for (int32_t k = 0; k < n; k++) QB_TRY(part[k].status);
    return QB_OK;
}

/* ---- scores ---- */

static const qb_task_metric metrics[] = {
    {{"ap", "AP", "%",
      "COCO's mean average precision over object keypoint similarities 0.5 to 0.95; interval: "
      "bootstrap over images"},
     true},
    {{"ap50", "AP50", "%", "the same at a similarity of 0.5"}, true},
    {{"ap75", "AP75", "%", "the same at a similarity of 0.75"}, true},
    {{"ap_medium", "AP medium", "%", "AP of objects from 32 x 32 to 96 x 96 pixels"}, false},
    {{"ap_large", "AP large", "%", "AP of objects from 96 x 96 pixels on"}, false},
    {{"ar20", "AR20", "%", "average recall with 20 objects an image"}, true},
};
static const qb_coco_score metric_score[] = {QB_COCO_AP,  QB_COCO_AP50, QB_COCO_AP75,
                                             QB_COCO_APM, QB_COCO_APL,  QB_COCO_AR100};
enum { METRICS = sizeof metrics / sizeof *metrics };

typedef struct scored {
    const state *s;
    qb_coco_matches **matches; /* [engines] */
    int32_t *weight;           /* by image of the ground truth */
} scored;

static void scored_release(scored *d) {
    for (int32_t e = 0; d->matches && e < d->s->data.n_engines; e++)
        qb_coco_matches_free(d->matches[e]);
    QB_FREE_ALL(d->matches, d->weight);
}

static qb_status match_engine(qb_ctx *cx, const state *s, int32_t engine, qb_coco_matches **out) {
    const poses *found = s->found + engine * s->samples;
    const qb_coco_object *shown = example(s->truth);
    QB_RELEASED(qb_coco_objects_release) qb_coco_objects results = {0};
    size_t n = 0;
    for (int64_t i = 0; i < s->samples; i++) n += found[i].list.n;
    QB_TRY_NEW(cx, results.item = qb_alloc(cx, n, sizeof *results.item));
    QB_TRY_NEW(cx, results.point = qb_alloc(cx, 3 * n * (size_t)s->points, sizeof *results.point));
    for (int64_t i = 0; i < s->samples; i++)
        for (size_t k = 0; k < found[i].list.n; k++) {
            qb_coco_object *o = &results.item[results.n++];
            *o = (qb_coco_object){.image = qb_dataset_truth_image(s->data.loader->dataset, i),
                                  .category = shown ? shown->category : -1,
                                  .score = found[i].list.item[k].score,
                                  .points = results.n_values + 1,
                                  .n_points = s->points};
            memcpy(results.point + results.n_values, found[i].point + 3 * (size_t)s->points * k,
                   3 * (size_t)s->points * sizeof *results.point);
            results.n_values += 3 * (size_t)s->points;
            qb_coco_box_of_points(&results, o);
        }
    return qb_coco_match(cx, s->truth, &results, QB_COCO_KEYPOINTS, out);
}

static qb_status values_of(qb_ctx *cx, const void *from, int32_t engine, const int32_t *weight,
                           bool draw, double value[QB_TASK_METRICS]) {
    const scored *d = from;
    qb_coco_scores scores;
    uint32_t wanted = 0;
    for (int m = 0; m < METRICS; m++)
        if (!draw || metrics[m].interval) wanted |= 1u << metric_score[m];
    memset(d->weight, 0, (size_t)d->s->truth->n_images * sizeof *d->weight);
    for (int64_t i = 0; i < d->s->samples; i++)
        d->weight[qb_dataset_truth_image(d->s->data.loader->dataset, i)] += weight[i];
    QB_TRY(qb_coco_summarize(cx, d->matches[engine], d->weight, wanted, &scores, NULL));
    for (int m = 0; m < METRICS; m++) {
        const double share = scores.value[metric_score[m]];
        value[m] = share < 0 ? NAN : 100 * share;
    }
    return QB_OK;
}

/* Mean distance of the points from those of the first row's objects that a user sees. */
static double point_shift(const state *s, int32_t engine) {
    double sum = 0, n = 0;
    for (int64_t i = 0; i < s->samples; i++) {
        const poses *first = &s->found[i], *own = &s->found[engine * s->samples + i];
        for (size_t k = 0; k < first->list.n; k++) {
            const double *box = first->list.item[k].box;
            double most = 0.5;
            const double *best = NULL, *a = first->point + 3 * (size_t)s->points * k;
            for (size_t j = 0; first->list.item[k].score > s->visible && j < own->list.n; j++) {
                const double iou = qb_box_iou(box, own->list.item[j].box, false);
                if (iou <= most) continue;
                most = iou;
                best = own->point + 3 * (size_t)s->points * j;
            }
            for (int32_t p = 0; best && p < s->points; p++, n++)
                sum += hypot(a[3 * p] - best[3 * p], a[3 * p + 1] - best[3 * p + 1]);
        }
    }
    return n > 0 ? sum / n : NAN;
}

static const qb_metric_label shift_label = {
    "point_shift", "point shift", "px",
    "mean distance of key points from the first row's, pixels of the image"};

static qb_status keypoints_finish(qb_ctx *cx, void *opened, qb_run *run) {
    const state *s = opened;
    const int32_t n = s->data.n_engines;
    QB_RELEASED(scored_release)
    scored d = {.s = s,
                .matches = qb_alloc(cx, (size_t)n, sizeof *d.matches),
                .weight = qb_alloc(cx, (size_t)s->truth->n_images, sizeof *d.weight)};
    const qb_task_scores scores = {.metric = metrics,
                                   .n = METRICS,
                                   .n_engines = n,
                                   .samples = s->samples,
                                   .seen = s->seen,
                                   .value = values_of,
                                   .state = &d};
    if (!d.matches || !d.weight) return cx->code;
    for (int32_t e = 0; e < n; e++) QB_TRY(match_engine(cx, s, e, &d.matches[e]));
    QB_TRY(qb_task_score(cx, &scores, run));
    for (int32_t e = 0; e < n; e++)
        QB_TRY(qb_run_number_add(cx, &run->row[e], &shift_label, point_shift(s, e)));
    return QB_OK;
}

/* Key points in the ground truth, and an output of a pose model for as many. */
static bool keypoints_fits(qb_ctx *cx, const qb_task_data *data) {
    (void)cx;
    const int32_t points = count_points(qb_dataset_truth(data->loader->dataset));
    qb_crop_points crop;
    return find_output(data, points) >= 0 || qb_crop_points_find(data->graph, points, &crop);
}

const qb_task qb_task_keypoints = {
    .name = "keypoints",
    .text = "named points of objects",
    .words = "pose keypoint",
    .metric = "ap",
    .fits = keypoints_fits,
    .open = keypoints_open,
    .outputs = keypoints_outputs,
    .finish = keypoints_finish,
    .pack = keypoints_pack,
    .close = keypoints_close,
};

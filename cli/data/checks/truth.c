/* Boxes, categories and masks: is the ground truth sound, and does it know all classes? */
#include <string.h>

#include "cli/data/check.h"

enum { MASKS_READ = 64, CLASSES = 256, IGNORED = 255 };

/* ---- boxes and categories ---- */

typedef struct boxes {
    int64_t *count;                                  /* [categories] objects, crowds left out */
    int64_t objects, crowds, outside, flat, without; /* beyond their image; without an area; images
                                                        without an object */
    qb_some_names empty;                             /* those images */
} boxes;

static void boxes_release(boxes *b) { qb_free(b->count); }

static void look_at_box(const qb_coco_image *image, const qb_coco_object *o, boxes *b) {
    const double slack = 1;
    b->objects++;
    b->crowds += o->crowd;
    if (!o->crowd && o->category >= 0) b->count[o->category]++;
    b->flat += o->box[2] < 1 || o->box[3] < 1;
    b->outside += o->box[0] < -slack || o->box[1] < -slack ||
                  o->box[0] + o->box[2] > image->width + slack ||
                  o->box[1] + o->box[3] > image->height + slack;
}

static qb_status count_boxes(qb_ctx *cx, const qb_survey *set, boxes *b) {
    const qb_coco *t = qb_dataset_truth(set->dataset);
    QB_RELEASED(qb_coco_by_image_release) qb_coco_by_image by = {0};
    QB_TRY_NEW(cx, b->count = qb_alloc(cx, (size_t)t->n_categories, sizeof *b->count));
    QB_TRY(qb_coco_by_image_create(cx, t, &by));
    for (int64_t i = 0; i < set->n; i++) {
        const int32_t at = qb_dataset_truth_image(set->dataset, i);
        for (size_t k = by.first[at]; k < by.first[at + 1]; k++)
            look_at_box(&t->image[at], &t->objects.item[by.object[k]], b);
        if (by.first[at] < by.first[at + 1]) continue;
        b->without++;
        qb_some_names_add(&b->empty, qb_dataset_sample_name(set->dataset, i));
    }
    return QB_OK;
}

static qb_status say_categories(qb_ctx *cx, const qb_survey *set, const boxes *b,
                                qb_diagnosis *out) {
    const qb_coco *t = qb_dataset_truth(set->dataset);
    qb_some_names missing = {{0}, 0};
    for (int32_t c = 0; c < t->n_categories; c++)
        if (b->count[c] == 0) qb_some_names_add(&missing, t->category[c].name);
    if (missing.n > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_NOTE,
                                "add images that show them, or know that nothing is said of them",
                                "%s: %lld of %d categories have no object: %s", set->path,
                                (long long)missing.n, t->n_categories, missing.text));
    return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                            "%s: %lld objects of %lld categories in %lld images, %lld of them "
                            "crowds or difficult",
                            set->path, (long long)b->objects,
                            (long long)(t->n_categories - missing.n), (long long)set->n,
                            (long long)b->crowds);
}

static qb_status look_at_boxes(qb_ctx *cx, const qb_survey *set, qb_diagnosis *out) {
    QB_RELEASED(boxes_release) boxes b = {0};
    QB_TRY(count_boxes(cx, set, &b));
    QB_TRY(say_categories(cx, set, &b, out));
    if (b.outside > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                                "are they in pixels of these images, x y width height?",
                                "%s: %lld of %lld boxes leave their image", set->path,
                                (long long)b.outside, (long long)b.objects));
    if (b.flat > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_NOTE, "leave them out: nothing can find them",
                                "%s: %lld boxes are less than a pixel wide or high", set->path,
                                (long long)b.flat));
    if (b.objects == 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD, "are the annotations of these images?",
                                "%s: no image has an object", set->path));
    else if (b.without > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_NOTE,
                                "right where they show none: boxes found there are wrong ones",
                                "%s: %lld images have no object: %s", set->path,
                                (long long)b.without, b.empty.text));
    return QB_OK;
}

/* ---- masks ---- */

typedef struct masks {
    int64_t pixels[CLASSES], all, read;
    qb_some_names sized, unreadable; /* of another size than their image; */
} masks;

static void look_at_mask(qb_ctx *cx, const qb_survey *set, int64_t index, masks *m) {
    const char *name = qb_dataset_sample_name(set->dataset, index);
    qb_image image = {0}, mask = {0};
    if (qb_dataset_read(cx, set->dataset, index, &image, NULL) == QB_OK &&
        qb_dataset_read_mask(cx, set->dataset, index, &mask) == QB_OK) {
        const int64_t n = (int64_t)mask.width * mask.height;
        m->read++;
        m->all += n;
        for (int64_t i = 0; i < n; i++) m->pixels[mask.pixel[i]]++;
        if (mask.width != image.width || mask.height != image.height)
            qb_some_names_add(&m->sized, name);
    } else {
        qb_some_names_add(&m->unreadable, name);
        qb_ctx_clear(cx);
    }
    qb_image_release(&image);
    qb_image_release(&mask);
}

/* How many classes the model has, as far as names tell; 0: not known. */
static int32_t known_classes(const qb_project *project) {
    return project->task.segment.classes.n > 0 ? project->task.segment.classes.n
                                               : project->labels.n;
}

static qb_status look_at_masks(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                               qb_diagnosis *out) {
    masks m = {0};
    const int64_t n = set->n < MASKS_READ ? set->n : MASKS_READ;
    const int32_t known = known_classes(data->project);
    int64_t beyond = 0;
    int32_t classes = 0;
    for (int64_t k = 0; k < n; k++) {
        QB_TRY(qb_check_cancel(cx));
        look_at_mask(cx, set, k * set->n / n, &m);
    }
    for (int c = 0; c < IGNORED; c++) {
        classes += m.pixels[c] > 0;
        beyond += known > 0 && c >= known ? m.pixels[c] : 0;
    }
    if (m.unreadable.n > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD, "mend them, or take the images out",
                                "%s: %lld masks cannot be read: %s", set->path,
                                (long long)m.unreadable.n, m.unreadable.text));
    if (m.sized.n > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD, "masks have the pixels of their images",
                                "%s: %lld masks have another size than their image: %s", set->path,
                                (long long)m.sized.n, m.sized.text));
    if (beyond > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                                "does segmentation.classes name all classes, in the masks' order?",
                                "%s: %.1f %% of the pixels are of classes that the model's %d do "
                                "not have",
                                set->path, 100 * (double)beyond / (double)m.all, (int)known));
    if (m.read == 0) return QB_OK;
    return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                            "%s: %d classes in %lld masks, %.1f %% of the pixels do not count",
                            set->path, (int)classes, (long long)m.read,
                            100 * (double)m.pixels[IGNORED] / (double)m.all);
}

static qb_status look_at_set(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out) {
    if (qb_dataset_truth(set->dataset)) QB_TRY(look_at_boxes(cx, set, out));
    return qb_dataset_has_masks(set->dataset) ? look_at_masks(cx, data, set, out) : QB_OK;
}

const qb_data_check qb_data_check_truth = {"truth", .look_at_set = look_at_set};

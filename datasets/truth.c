#include "datasets/truth_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

qb_status qb_truth_begin(qb_ctx *cx, qb_dataset *dataset) {
    QB_TRY_NEW(cx, dataset->truth = qb_alloc(cx, 1, sizeof *dataset->truth));
    qb_coco *t = dataset->truth;
    QB_TRY(qb_arena_create(cx, &t->arena));
    t->objects.path = qb_strdup(cx, dataset->path);
    return t->objects.path ? QB_OK : cx->code;
}

/* Room for one more of n: capacities are powers of two. */
static qb_status grow(qb_ctx *cx, void *list, size_t n, size_t size) {
    void **slot = list;
    size_t capacity = n;
    if (n >= QB_COCO_OBJECTS_MAX) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too many objects");
    if (n > 0 && (n & (n - 1)) != 0) return QB_OK;
    return qb_grow(cx, slot, &capacity, n > 0 ? 2 * n : 1, size);
}

qb_status qb_truth_add_category(qb_ctx *cx, qb_coco *t, const char *name) {
    QB_TRY(grow(cx, &t->category, (size_t)t->n_categories, sizeof *t->category));
    const char *copy = QB_NEW(cx, qb_arena_strdup(cx, t->arena, name));
    t->category[t->n_categories] = (qb_coco_category){t->n_categories, copy};
    t->n_categories++;
    return QB_OK;
}

/* Categories up to `label`, called by their numbers. */
static qb_status need_category(qb_ctx *cx, qb_coco *t, int32_t label) {
    char text[16];
    if (label < 0 || label >= 1 << 16)
        return qb_fail(cx, QB_STATUS_FORMAT, "class %d: expected 0 to 65535", (int)label);
    while (t->n_categories <= label) {
        snprintf(text, sizeof text, "%d", (int)t->n_categories);
        QB_TRY(qb_truth_add_category(cx, t, text));
    }
    return QB_OK;
}

qb_status qb_truth_put_image(qb_ctx *cx, qb_coco *t, const qb_coco_image *image) {
    QB_TRY(grow(cx, &t->image, (size_t)t->n_images, sizeof *t->image));
    t->image[t->n_images++] = *image;
    return QB_OK;
}

qb_status qb_truth_add_image(qb_ctx *cx, qb_dataset *dataset, const char *name) {
    qb_coco *t = dataset->truth;
    QB_RELEASED(qb_map_close) qb_map map = {0};
    qb_coco_image image = {.id = t->n_images, .width = 1, .height = 1, .file_name = name};
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, dataset->root, name));
    if (qb_map_open(cx, path, &map) != QB_OK ||
        !qb_image_size(map.data, map.size, &image.width, &image.height))
        image.width = image.height = 1;
    qb_ctx_clear(cx);
    QB_TRY(qb_truth_put_image(cx, t, &image));
    return qb_dataset_add(cx, dataset, name, image.id, -1);
}

qb_status qb_truth_add_object(qb_ctx *cx, qb_coco *t, int32_t category, const double box[4],
                              bool ignored) {
    QB_TRY(grow(cx, &t->objects.item, t->objects.n, sizeof *t->objects.item));
    qb_coco_object *o = &t->objects.item[t->objects.n++];
    *o = (qb_coco_object){
        .image = t->n_images - 1, .category = category, .area = box[2] * box[3], .crowd = ignored};
    memcpy(o->box, box, sizeof o->box);
    return QB_OK;
}

/* ---- YOLO's labels --------------------------------------------------------------------------- */

enum { NUMBERS_MAX = 4096 };

/* The numbers of a line; -1: something else stands there, or too many. */
static int read_numbers(char *line, double *out) {
    int n = 0;
    for (char *at = line;; n++) {
        char *end;
        at += strspn(at, " \t\r");
        if (*at == '\0') return n;
        if (n == NUMBERS_MAX) return -1;
        out[n] = strtod(at, &end);
        if (end == at || !isfinite(out[n])) return -1;
        at = end;
    }
}

/* Corners of what the numbers behind the class describe, in shares. */
static void extent(const double *v, int n, double corner[4]) {
    if (n < 6 || n % 2 != 0) { /* a box; what may follow are key points */
        for (int k = 0; k < 2; k++) {
            corner[k] = v[k] - v[2 + k] / 2;
            corner[2 + k] = v[k] + v[2 + k] / 2;
        }
        return;
    }
    corner[0] = corner[2] = v[0];
    corner[1] = corner[3] = v[1];
    for (int i = 2; i < n; i++) {
        corner[i % 2] = fmin(corner[i % 2], v[i]);
        corner[2 + i % 2] = fmax(corner[2 + i % 2], v[i]);
    }
}

static qb_status add_line(qb_ctx *cx, const double *v, int n, int32_t n_classes, qb_coco *truth) {
    const qb_coco_image *image = &truth->image[truth->n_images - 1];
    double corner[4];
    if (n < 5) return qb_fail(cx, QB_STATUS_FORMAT, "expected a class and four numbers");
    if (v[0] != floor(v[0]) || v[0] < 0 || v[0] > 1e6 || (n_classes > 0 && v[0] >= n_classes))
        return qb_fail(cx, QB_STATUS_FORMAT, "class %g: expected 0 to %d", v[0],
                       n_classes > 0 ? n_classes - 1 : 65535);
    const int32_t label = (int32_t)v[0];
    QB_TRY(need_category(cx, truth, label));
    extent(v + 1, n - 1, corner);
    for (int k = 0; k < 4; k++)
        if (!(corner[k] > -1e3 && corner[k] < 1e3))
            return qb_fail(cx, QB_STATUS_FORMAT, "a box beyond the image: expected shares of it");
    const double box[] = {corner[0] * image->width, corner[1] * image->height,
                          (corner[2] - corner[0]) * image->width,
                          (corner[3] - corner[1]) * image->height};
    return qb_truth_add_object(cx, truth, label, box, false);
}

qb_status qb_yolo_labels_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               int32_t n_classes, qb_coco *truth) {
    QB_FREED double *number = QB_NEW(cx, qb_alloc(cx, NUMBERS_MAX, sizeof *number));
    qb_status status = QB_OK;
    int line = 0;
    for (size_t at = 0; at < n && status == QB_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        char *copy = qb_format(cx, "%.*s", (int)(length < 1 << 20 ? length : 1 << 20), text + at);
        if (!copy) status = cx->code;
        line++;
        at += length + 1;
        const int found = copy ? read_numbers(copy, number) : 0;
        if (memchr(text + at - length - 1, '\0', length))
            status = qb_fail(cx, QB_STATUS_FORMAT, "expected text, got a zero byte");
        else if (found < 0)
            status = qb_fail(cx, QB_STATUS_FORMAT, "expected numbers");
        else if (found > 0)
            status = add_line(cx, number, found, n_classes, truth);
        qb_free(copy);
    }
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s:%d", name, line);
}

/* ---- VOC's annotations ----------------------------------------------------------------------- */

typedef struct stretch {
    const char *begin, *end;
} stretch;

/* What stands between <tag> and </tag>, the first one; false: there is none. */
static bool between(const stretch *in, const char *tag, stretch *out) {
    char open[32], close[32];
    const int n = snprintf(open, sizeof open, "<%s>", tag);
    const int m = snprintf(close, sizeof close, "</%s>", tag);
    const char *from = memmem(in->begin, (size_t)(in->end - in->begin), open, (size_t)n);
    if (!from) return false;
    out->begin = from + n;
    out->end = memmem(out->begin, (size_t)(in->end - out->begin), close, (size_t)m);
    return out->end != NULL;
}

static bool number_between(const stretch *in, const char *tag, double *out) {
    stretch text;
    char copy[64], *end;
    if (!between(in, tag, &text)) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)fmin((double)(text.end - text.begin), 63), text.begin);
    *out = strtod(copy, &end);
    return end != copy && isfinite(*out) && fabs(*out) < 1e9;
}

/* The category of a name, new ones at the end. Ids are ranks, so they stay in order. */
static qb_status category_named(qb_ctx *cx, qb_coco *t, const stretch *name, int32_t *out) {
    char text[128];
    const char *begin = name->begin, *end = name->end;
    while (begin < end && (unsigned char)*begin <= ' ') begin++;
    while (end > begin && (unsigned char)end[-1] <= ' ') end--;
    snprintf(text, sizeof text, "%.*s", (int)fmin((double)(end - begin), 127), begin);
    for (*out = 0; *out < t->n_categories; ++*out)
        if (strcmp(t->category[*out].name, text) == 0) return QB_OK;
    return qb_truth_add_category(cx, t, text);
}

static qb_status add_voc_object(qb_ctx *cx, const stretch *object, qb_coco *truth) {
    static const char *const corner[] = {"xmin", "ymin", "xmax", "ymax"};
    stretch name, box;
    double v[4], difficult = 0;
    int32_t category;
    if (!between(object, "name", &name) || !between(object, "bndbox", &box))
        return qb_fail(cx, QB_STATUS_FORMAT, "an object without name or bndbox");
    for (int k = 0; k < 4; k++)
        if (!number_between(&box, corner[k], &v[k]))
            return qb_fail(cx, QB_STATUS_FORMAT, "bndbox: expected a number for %s", corner[k]);
    number_between(object, "difficult", &difficult);
    QB_TRY(category_named(cx, truth, &name, &category));
    const double own[] = {v[0] - 1, v[1] - 1, v[2] - v[0] + 1, v[3] - v[1] + 1};
    return qb_truth_add_object(cx, truth, category, own, difficult != 0);
}

qb_status qb_voc_objects_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               qb_coco *truth) {
    stretch rest = {text, text + n}, object;
    if (!memmem(text, n, "<annotation", 11))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected an <annotation>", name);
    while (between(&rest, "object", &object)) {
        QB_TRY_WRAP(cx, add_voc_object(cx, &object, truth), "%s", name);
        rest.begin = object.end;
    }
    return QB_OK;
}

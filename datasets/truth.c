#include "datasets/truth_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

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
    QB_FREED char *clean = QB_NEW(cx, qb_text_clean(cx, name));
    const char *copy = QB_NEW(cx, qb_arena_strdup(cx, t->arena, clean));
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

enum { NUMBERS_MAX = 4096, LINE_BYTES = 1 << 20 };

static qb_status read_numbers(qb_ctx *cx, char *line, double *out, int *n) {
    *n = 0;
    for (char *at = line;; ++*n) {
        char *end;
        at += strspn(at, " \t\r");
        if (*at == '\0') return QB_OK;
        if (*n == NUMBERS_MAX)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d numbers", NUMBERS_MAX);
        out[*n] = strtod(at, &end);
        if (end == at || !isfinite(out[*n]))
            return qb_fail(cx, QB_STATUS_FORMAT, "expected numbers");
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
    if (corner[2] < corner[0] || corner[3] < corner[1])
        return qb_fail(cx, QB_STATUS_FORMAT, "a box of negative size");
    const double box[] = {corner[0] * image->width, corner[1] * image->height,
                          (corner[2] - corner[0]) * image->width,
                          (corner[3] - corner[1]) * image->height};
    return qb_truth_add_object(cx, truth, label, box, false);
}

static qb_status parse_line(qb_ctx *cx, const char *line, size_t length, double *number,
                            int32_t n_classes, qb_coco *truth) {
    int n;
    if (length > LINE_BYTES)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a line of more than %d bytes", LINE_BYTES);
    if (memchr(line, '\0', length))
        return qb_fail(cx, QB_STATUS_FORMAT, "expected text, got a zero byte");
    QB_FREED char *copy = QB_NEW(cx, qb_format(cx, "%.*s", (int)length, line));
    QB_TRY(read_numbers(cx, copy, number, &n));
    return n > 0 ? add_line(cx, number, n, n_classes, truth) : QB_OK;
}

qb_status qb_yolo_labels_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                               int32_t n_classes, qb_coco *truth) {
    QB_FREED double *number = QB_NEW(cx, qb_alloc(cx, NUMBERS_MAX, sizeof *number));
    int line = 1;
    for (size_t at = 0; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        QB_TRY_WRAP(cx, parse_line(cx, text + at, length, number, n_classes, truth), "%s:%d", name,
                    line);
        at += length + 1;
    }
    return QB_OK;
}

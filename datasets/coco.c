#include "datasets/coco.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "datasets/datasets_internal.h"

#define POLYGON_VALUES_MAX ((size_t)1 << 24)

/* An object before its ids are looked up. */
typedef struct raw_object {
    qb_coco_object object;
    int64_t image_id, category_id;
    bool has_image, has_category, has_box, has_area, has_score, has_visible, has_zero_id;
    qb_coco_objects *to; /* where its key points go */
} raw_object;

typedef struct loader {
    qb_json_reader json;
    qb_coco *coco;
    size_t image_capacity, category_capacity;
    size_t object_capacity, id_capacity;
    int64_t (*id)[2]; /* image and category of each object */
    size_t n_ids;
} loader;

static void loader_release(loader *l) {
    qb_json_reader_release(&l->json);
    qb_free(l->id);
}

/* ---- parts of an object ---- */

static qb_status read_box(qb_json_reader *r, double box[4]) {
    bool more;
    int n = 0;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;; n++) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        if (n == 4) return qb_json_fail(r, "bbox: expected four numbers");
        QB_TRY(qb_json_read_number(r, &box[n]));
    }
    return n == 4 ? QB_OK : qb_json_fail(r, "bbox: expected four numbers, got %d", n);
}

/* Remembers where the segmentation begins. An empty one is none. */
static qb_status read_mask_place(qb_json_reader *r, size_t *out) {
    const qb_json_kind kind = qb_json_peek(r);
    const size_t place = (size_t)(r->at - r->begin);
    QB_TRY(qb_json_skip(r));
    const bool empty = r->at - r->begin == (ptrdiff_t)place + 2 || kind == QB_JSON_NULL;
    if (!empty && kind != QB_JSON_LIST && kind != QB_JSON_OBJECT)
        return qb_json_fail(r, "segmentation: expected polygons or run lengths");
    *out = empty ? 0 : place;
    return QB_OK;
}

/* x, y, visibility of each point. An empty list is none. */
static qb_status read_points(qb_json_reader *r, raw_object *o) {
    qb_coco_objects *to = o->to;
    const size_t from = to->n_values;
    int32_t visible = 0;
    bool more;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        if (to->n_values - from == 3 * QB_COCO_POINTS_MAX)
            return qb_json_fail(r, "keypoints: more than %d", QB_COCO_POINTS_MAX);
        QB_TRY(qb_grow(r->cx, &to->point, &to->values_capacity, to->n_values + 1, sizeof(double)));
        QB_TRY(qb_json_read_number(r, &to->point[to->n_values++]));
        visible += (to->n_values - from) % 3 == 0 && to->point[to->n_values - 1] > 0;
    }
    const size_t n = to->n_values - from;
    if (n % 3 != 0) return qb_json_fail(r, "keypoints: expected x, y and visibility of each");
    o->object.points = n > 0 ? from + 1 : 0;
    o->object.n_points = (int32_t)(n / 3);
    if (!o->has_visible) o->object.n_visible = visible;
    return QB_OK;
}

static qb_status read_visible(qb_json_reader *r, raw_object *o) {
    int64_t n;
    QB_TRY(qb_json_read_integer(r, &n));
    if (n < 0 || n > QB_COCO_POINTS_MAX)
        return qb_json_fail(r, "num_keypoints: %lld", (long long)n);
    o->object.n_visible = (int32_t)n;
    o->has_visible = true;
    return QB_OK;
}

/* bbox of [] or null is none. */
static qb_status read_optional_box(qb_json_reader *r, raw_object *o) {
    if (qb_json_peek(r) == QB_JSON_NULL) return qb_json_skip(r);
    const char *start = r->at;
    bool more;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    QB_TRY(qb_json_next(r, &more));
    if (!more) return QB_OK;
    r->at = start; /* the list was not empty: once more, from its bracket */
    r->depth--;
    r->lists >>= 1;
    o->has_box = true;
    return read_box(r, o->object.box);
}

/* Keys that mean something: readers differ in which of two they take. */
static const char *const keys_once[] = {
    "id",        "image_id",  "category_id",  "score",         "area",  "iscrowd", "bbox",
    "file_name", "keypoints", "segmentation", "num_keypoints", "width", "height",  "name"};

/* *seen: those of the object so far, as bits. */
static qb_status check_once(qb_json_reader *r, unsigned *seen) {
    size_t k = 0;
    while (k < sizeof keys_once / sizeof *keys_once && strcmp(r->key, keys_once[k]) != 0) k++;
    if (k == sizeof keys_once / sizeof *keys_once) return QB_OK;
    if (*seen & 1u << k) return qb_json_fail(r, "'%s' is there twice", r->key);
    *seen |= 1u << k;
    return QB_OK;
}

static qb_status read_member(qb_json_reader *r, raw_object *o) {
    if (strcmp(r->key, "image_id") == 0) {
        o->has_image = true;
        return qb_json_read_integer(r, &o->image_id);
    }
    if (strcmp(r->key, "category_id") == 0) {
        o->has_category = true;
        return qb_json_read_integer(r, &o->category_id);
    }
    if (strcmp(r->key, "score") == 0) {
        o->has_score = true;
        return qb_json_read_number(r, &o->object.score);
    }
    if (strcmp(r->key, "area") == 0) {
        o->has_area = true;
        return qb_json_read_number(r, &o->object.area);
    }
    if (strcmp(r->key, "id") == 0)
        o->has_zero_id = qb_json_peek(r) == QB_JSON_NUMBER && *r->at == '0';
    if (strcmp(r->key, "iscrowd") == 0) return qb_json_read_bool(r, &o->object.crowd);
    if (strcmp(r->key, "bbox") == 0) return read_optional_box(r, o);
    if (strcmp(r->key, "keypoints") == 0) return read_points(r, o);
    if (strcmp(r->key, "num_keypoints") == 0) return read_visible(r, o);
    if (strcmp(r->key, "segmentation") == 0) return read_mask_place(r, &o->object.mask);
    return qb_json_skip(r);
}

/* `missing` names the first thing that is not there. */
static qb_status read_object(qb_json_reader *r, qb_coco_objects *to, raw_object *o) {
    bool more;
    unsigned seen = 0;
    *o = (raw_object){.to = to};
    QB_TRY(qb_json_enter(r, QB_JSON_OBJECT));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        QB_TRY(check_once(r, &seen));
        QB_TRY(read_member(r, o));
    }
    const char *missing = !o->has_image ? "image_id" : !o->has_category ? "category_id" : NULL;
    return missing ? qb_json_fail(r, "an object without %s", missing) : QB_OK;
}

/* ---- ids ---- */

static int by_image_id(const void *a, const void *b) {
    const int64_t x = ((const qb_coco_image *)a)->id, y = ((const qb_coco_image *)b)->id;
    return (x > y) - (x < y);
}

static int by_category_id(const void *a, const void *b) {
    const int64_t x = ((const qb_coco_category *)a)->id, y = ((const qb_coco_category *)b)->id;
    return (x > y) - (x < y);
}

int32_t qb_coco_image_of(const qb_coco *coco, int64_t id) {
    const qb_coco_image key = {.id = id};
    const qb_coco_image *found =
        coco->n_images > 0
            ? bsearch(&key, coco->image, (size_t)coco->n_images, sizeof key, by_image_id)
            : NULL;
    return found ? (int32_t)(found - coco->image) : -1;
}

int32_t qb_coco_category_of(const qb_coco *coco, int64_t id) {
    const qb_coco_category key = {.id = id};
    const qb_coco_category *found =
        coco->n_categories > 0
            ? bsearch(&key, coco->category, (size_t)coco->n_categories, sizeof key, by_category_id)
            : NULL;
    return found ? (int32_t)(found - coco->category) : -1;
}

int64_t qb_coco_top_id(const qb_coco *coco) {
    return coco && coco->n_categories > 0 ? coco->category[coco->n_categories - 1].id : 0;
}

static qb_status sort_ids(qb_ctx *cx, const char *name, qb_coco *coco) {
    if (coco->n_images > 1)
        qsort(coco->image, (size_t)coco->n_images, sizeof *coco->image, by_image_id);
    if (coco->n_categories > 1)
        qsort(coco->category, (size_t)coco->n_categories, sizeof *coco->category, by_category_id);
    for (int32_t i = 1; i < coco->n_images; i++)
        if (coco->image[i].id == coco->image[i - 1].id)
            return qb_fail(cx, QB_STATUS_FORMAT, "%s: images: id %lld is there twice", name,
                           (long long)coco->image[i].id);
    for (int32_t i = 1; i < coco->n_categories; i++)
        if (coco->category[i].id == coco->category[i - 1].id)
            return qb_fail(cx, QB_STATUS_FORMAT, "%s: categories: id %lld is there twice", name,
                           (long long)coco->category[i].id);
    return QB_OK;
}

/* ---- ground truth ---- */

static qb_status read_size(qb_json_reader *r, int32_t *out) {
    int64_t value;
    QB_TRY(qb_json_read_integer(r, &value));
    if (value < 0 || value > INT32_MAX)
        return qb_json_fail(r, "%s: %lld pixels", r->key, (long long)value);
    *out = (int32_t)value;
    return QB_OK;
}

/* Of a category: clean. */
static qb_status read_shown(qb_json_reader *r, qb_arena *arena, const char **out) {
    QB_TRY(qb_json_read_text(r));
    *out = qb_arena_strdup(r->cx, arena, QB_SHOWN(r->text.data ? r->text.data : ""));
    return *out ? QB_OK : r->cx->code;
}

static qb_status read_name(qb_json_reader *r, qb_arena *arena, const char **out) {
    QB_TRY(qb_json_read_text(r));
    *out = qb_arena_strdup(r->cx, arena, r->text.data ? r->text.data : "");
    return *out ? QB_OK : r->cx->code;
}

/* The members of an image or a category: `member` takes those that it knows. */
static qb_status read_members(loader *l, const char *what, void *to, int64_t *id,
                              qb_status (*member)(loader *l, void *to)) {
    qb_json_reader *r = &l->json;
    bool more, has_id = false;
    unsigned seen = 0;
    QB_TRY(qb_json_enter(r, QB_JSON_OBJECT));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) return has_id ? QB_OK : qb_json_fail(r, "%s without id", what);
        QB_TRY(check_once(r, &seen));
        const bool is_id = strcmp(r->key, "id") == 0;
        has_id = has_id || is_id;
        QB_TRY(is_id ? qb_json_read_integer(r, id) : member(l, to));
    }
}

static qb_status image_member(loader *l, void *to) {
    qb_json_reader *r = &l->json;
    qb_coco_image *image = to;
    if (strcmp(r->key, "width") == 0) return read_size(r, &image->width);
    if (strcmp(r->key, "height") == 0) return read_size(r, &image->height);
    if (strcmp(r->key, "file_name") == 0) return read_name(r, l->coco->arena, &image->file_name);
    return qb_json_skip(r);
}

static qb_status read_image(loader *l) {
    qb_json_reader *r = &l->json;
    qb_coco_image image = {.file_name = ""};
    QB_TRY(read_members(l, "an image", &image, &image.id, image_member));
    const size_t n = (size_t)l->coco->n_images;
    if (n >= QB_SAMPLES_MAX) return qb_json_fail(r, "more than %zu images", QB_SAMPLES_MAX);
    QB_TRY(qb_grow(r->cx, &l->coco->image, &l->image_capacity, n + 1, sizeof image));
    l->coco->image[l->coco->n_images++] = image;
    return QB_OK;
}

static qb_status category_member(loader *l, void *to) {
    qb_coco_category *category = to;
    return strcmp(l->json.key, "name") == 0 ? read_shown(&l->json, l->coco->arena, &category->name)
                                            : qb_json_skip(&l->json);
}

static qb_status read_category(loader *l) {
    qb_json_reader *r = &l->json;
    qb_coco_category category = {.name = ""};
    QB_TRY(read_members(l, "a category", &category, &category.id, category_member));
    const size_t n = (size_t)l->coco->n_categories;
    if (n >= QB_CLASSES_MAX) return qb_json_fail(r, "more than %d categories", QB_CLASSES_MAX);
    QB_TRY(qb_grow(r->cx, &l->coco->category, &l->category_capacity, n + 1, sizeof category));
    l->coco->category[l->coco->n_categories++] = category;
    return QB_OK;
}

static qb_status add_object(loader *l, qb_coco_objects *to, const raw_object *o) {
    qb_ctx *cx = l->json.cx;
    if (to->n >= QB_COCO_OBJECTS_MAX)
        return qb_json_fail(&l->json, "more than %zu objects", QB_COCO_OBJECTS_MAX);
    QB_TRY(qb_grow(cx, &to->item, &l->object_capacity, to->n + 1, sizeof *to->item));
    to->item[to->n++] = o->object;
    return QB_OK;
}

static qb_status read_annotation(loader *l) {
    raw_object o;
    QB_TRY(read_object(&l->json, &l->coco->objects, &o));
    if (!o.has_box) return qb_json_fail(&l->json, "an annotation without bbox");
    l->coco->zero_id = l->coco->zero_id || o.has_zero_id;
    if (!o.has_area) o.object.area = o.object.box[2] * o.object.box[3];
    QB_TRY(qb_grow(l->json.cx, &l->id, &l->id_capacity, l->n_ids + 1, sizeof *l->id));
    l->id[l->n_ids][0] = o.image_id;
    l->id[l->n_ids++][1] = o.category_id;
    return add_object(l, &l->coco->objects, &o);
}

static qb_status read_list(loader *l, qb_status (*read)(loader *l)) {
    bool more;
    QB_TRY(qb_json_enter(&l->json, QB_JSON_LIST));
    for (int64_t i = 0;; i++) {
        QB_TRY(qb_json_next(&l->json, &more));
        if (!more) return QB_OK;
        if (i % 65536 == 0) QB_TRY(qb_check_cancel(l->json.cx));
        QB_TRY(read(l));
    }
}

static qb_status read_truth(loader *l) {
    static const struct {
        const char *key;
        qb_status (*read)(loader *l);
    } part[] = {
        {"images", read_image}, {"categories", read_category}, {"annotations", read_annotation}};
    qb_json_reader *r = &l->json;
    bool more, seen[3] = {false};
    QB_TRY(qb_json_enter(r, QB_JSON_OBJECT));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        int k = 0;
        while (k < 3 && strcmp(r->key, part[k].key) != 0) k++;
        if (k < 3 && seen[k]) return qb_json_fail(r, "'%s' is there twice", part[k].key);
        if (k < 3) seen[k] = true;
        QB_TRY(k < 3 ? read_list(l, part[k].read) : qb_json_skip(r));
    }
    for (int k = 0; k < 2; k++)
        if (!seen[k])
            return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: no '%s': is it COCO's ground truth?",
                           r->name, part[k].key);
    return qb_json_read_end(r);
}

/* Finds the image and the category of each object. Matching takes time in proportion to the objects
 * of an image times its detections. */
static qb_status find_places(loader *l, qb_coco *coco) {
    qb_json_reader *r = &l->json;
    QB_FREED int32_t *held = QB_NEW(r->cx, qb_alloc(r->cx, (size_t)coco->n_images, sizeof *held));
    for (size_t i = 0; i < l->n_ids; i++) {
        qb_coco_object *o = &coco->objects.item[i];
        o->image = qb_coco_image_of(coco, l->id[i][0]);
        o->category = qb_coco_category_of(coco, l->id[i][1]);
        coco->strays += o->image < 0 || o->category < 0;
        if (o->image >= 0 && ++held[o->image] > QB_COCO_IMAGE_OBJECTS_MAX)
            return qb_fail(r->cx, QB_STATUS_UNSUPPORTED,
                           "%s: image %lld has more than %d annotations", r->name,
                           (long long)l->id[i][0], QB_COCO_IMAGE_OBJECTS_MAX);
    }
    return QB_OK;
}

qb_status qb_coco_parse(qb_ctx *cx, const char *name, const char *text, size_t n, qb_coco *out) {
    QB_RELEASED(qb_coco_release) qb_coco coco = {.objects = {.text = text, .size = n}};
    QB_RELEASED(loader_release) loader l = {.coco = &coco};
    qb_json_reader_init(cx, name, text, n, &l.json);
    QB_TRY(qb_arena_create(cx, &coco.arena));
    QB_TRY(read_truth(&l));
    QB_TRY(sort_ids(cx, name, &coco));
    QB_TRY(find_places(&l, &coco));
    QB_TRY_NEW(cx, coco.objects.path = qb_strdup(cx, name));
    *out = QB_MOVE(coco);
    return QB_OK;
}

qb_status qb_coco_load(qb_ctx *cx, const char *path, qb_coco *out) {
    QB_RELEASED(qb_map_close) qb_map map = {0};
    qb_coco coco;
    QB_TRY(qb_map_open(cx, path, &map));
    QB_TRY(qb_coco_parse(cx, path, (const char *)map.data, map.size, &coco));
    coco.objects.map = QB_MOVE(map);
    *out = coco;
    return QB_OK;
}

void qb_coco_objects_release(qb_coco_objects *objects) {
    QB_FREE_ALL(objects->path, objects->item, objects->point);
    qb_map_close(&objects->map);
    *objects = (qb_coco_objects){0};
}

void qb_coco_release(qb_coco *coco) {
    qb_coco_objects_release(&coco->objects);
    QB_FREE_ALL(coco->image, coco->category);
    qb_index_release(&coco->by_name);
    qb_arena_free(coco->arena);
    *coco = (qb_coco){0};
}

/* ---- objects by image: counted, then placed ---- */

qb_status qb_coco_by_image_create(qb_ctx *cx, const qb_coco *c, qb_coco_by_image *out) {
    QB_RELEASED(qb_coco_by_image_release) qb_coco_by_image by = {0};
    QB_TRY_NEW(cx, by.first = qb_alloc(cx, (size_t)c->n_images + 2, sizeof *by.first));
    QB_TRY_NEW(cx, by.object = qb_alloc(cx, c->objects.n, sizeof *by.object));
    for (size_t i = 0; i < c->objects.n; i++)
        if (c->objects.item[i].image >= 0) by.first[c->objects.item[i].image + 2]++;
    for (int32_t k = 0; k < c->n_images; k++) by.first[k + 2] += by.first[k + 1];
    for (size_t i = 0; i < c->objects.n; i++)
        if (c->objects.item[i].image >= 0) by.object[by.first[c->objects.item[i].image + 1]++] = i;
    *out = QB_MOVE(by);
    return QB_OK;
}

void qb_coco_by_image_release(qb_coco_by_image *by) {
    QB_FREE_ALL(by->first, by->object);
    *by = (qb_coco_by_image){0};
}

/* ---- masks ---- */

/* Values of one polygon. */
typedef struct values {
    double *value;
    size_t n, capacity;
} values;

static void values_release(values *v) { qb_free(v->value); }

static qb_status read_polygon(qb_json_reader *r, values *v) {
    bool more;
    v->n = 0;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        if (v->n >= POLYGON_VALUES_MAX) return qb_json_fail(r, "a polygon of too many points");
        QB_TRY(qb_grow(r->cx, &v->value, &v->capacity, v->n + 1, sizeof *v->value));
        QB_TRY(qb_json_read_number(r, &v->value[v->n++]));
    }
    if (v->n >= 6 && v->n % 2 == 0) return QB_OK;
    return qb_json_fail(r, "a polygon of %zu numbers: expected x and y of three points or more",
                        v->n);
}

/* The error of a mask with its file before it. */
static qb_status in_file(qb_json_reader *r, qb_status status) {
    return status == QB_OK ? QB_OK : qb_wrap(r->cx, "%s", r->name);
}

static qb_status read_polygons(qb_json_reader *r, const qb_coco_image *image, qb_rle *out) {
    QB_RELEASED(values_release) values v = {0};
    QB_RELEASED(qb_rle_release) qb_rle sum = {0};
    bool more;
    QB_TRY(qb_rle_union(r->cx, NULL, 0, image->height, image->width, &sum));
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        QB_RELEASED(qb_rle_release) qb_rle part = {0};
        qb_rle next;
        QB_TRY(read_polygon(r, &v));
        QB_TRY(in_file(
            r, qb_rle_of_polygon(r->cx, v.value, v.n / 2, image->height, image->width, &part)));
        const qb_rle both[] = {sum, part};
        QB_TRY(qb_rle_union(r->cx, both, 2, image->height, image->width, &next));
        qb_rle_release(&sum);
        sum = next;
    }
    *out = QB_MOVE(sum);
    return QB_OK;
}

/* size: [height, width]. */
static qb_status read_mask_size(qb_json_reader *r, const qb_coco_image *image) {
    int64_t size[2] = {0};
    bool more;
    int n = 0;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;; n++) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        if (n == 2) return qb_json_fail(r, "size: expected height and width");
        QB_TRY(qb_json_read_integer(r, &size[n]));
    }
    if (n == 2 && size[0] == image->height && size[1] == image->width) return QB_OK;
    return qb_json_fail(r, "a mask of %lld x %lld pixels, its image has %d x %d",
                        (long long)size[1], (long long)size[0], (int)image->width,
                        (int)image->height);
}

static qb_status read_runs(qb_json_reader *r, const qb_coco_image *image, qb_rle *out) {
    QB_FREED uint32_t *run = NULL;
    size_t n = 0, capacity = 0;
    bool more;
    QB_TRY(qb_json_enter(r, QB_JSON_LIST));
    for (;;) {
        int64_t value;
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        QB_TRY(qb_json_read_integer(r, &value));
        if (value < 0 || value > UINT32_MAX || n >= POLYGON_VALUES_MAX)
            return qb_json_fail(r, "counts: a run of %lld pixels", (long long)value);
        QB_TRY(qb_grow(r->cx, &run, &capacity, n + 1, sizeof *run));
        run[n++] = (uint32_t)value;
    }
    return in_file(r, qb_rle_of_runs(r->cx, run, n, image->height, image->width, out));
}

static qb_status read_counts(qb_json_reader *r, const qb_coco_image *image, qb_rle *out) {
    qb_rle_release(out);
    if (qb_json_peek(r) == QB_JSON_LIST) return read_runs(r, image, out);
    QB_TRY(qb_json_read_text(r));
    return in_file(r, qb_rle_of_text(r->cx, r->text.data ? r->text.data : "", r->text.size,
                                     image->height, image->width, out));
}

static qb_status read_rle(qb_json_reader *r, const qb_coco_image *image, qb_rle *out) {
    bool more, sized = false;
    QB_RELEASED(qb_rle_release) qb_rle rle = {0};
    QB_TRY(qb_json_enter(r, QB_JSON_OBJECT));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) break;
        const bool size = strcmp(r->key, "size") == 0, counts = strcmp(r->key, "counts") == 0;
        sized = sized || size;
        QB_TRY(size     ? read_mask_size(r, image)
               : counts ? read_counts(r, image, &rle)
                        : qb_json_skip(r));
    }
    if (!sized || !rle.run) return qb_json_fail(r, "segmentation: expected size and counts");
    *out = QB_MOVE(rle);
    return QB_OK;
}

qb_status qb_coco_mask(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *objects,
                       const qb_coco_object *object, qb_rle *out) {
    const qb_coco_image *image = &truth->image[object->image];
    if (object->mask == 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: image %lld has an object without segmentation",
                       objects->path, (long long)image->id);
    qb_json_reader r;
    qb_json_reader_init(cx, objects->path, objects->text, objects->size, &r);
    r.at = objects->text + object->mask;
    const qb_status status =
        (qb_json_peek(&r) == QB_JSON_LIST ? read_polygons : read_rle)(&r, image, out);
    qb_json_reader_release(&r);
    return status == QB_OK ? QB_OK
                           : qb_wrap(cx, "segmentation in image %lld", (long long)image->id);
}

/* ---- results ---- */

/* A mask without a box: the box of its pixels, and their number. */
static qb_status box_of_mask(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *objects,
                             qb_coco_object *o) {
    QB_RELEASED(qb_rle_release) qb_rle mask = {0};
    QB_TRY(qb_coco_mask(cx, truth, objects, o, &mask));
    qb_rle_box(&mask, o->box);
    o->area = (double)qb_rle_area(&mask);
    return QB_OK;
}

void qb_coco_box_of_points(const qb_coco_objects *objects, qb_coco_object *o) {
    const double *p = objects->point + (o->points - 1);
    double low[2] = {p[0], p[1]}, high[2] = {p[0], p[1]};
    for (int32_t i = 1; i < o->n_points; i++)
        for (int k = 0; k < 2; k++) {
            low[k] = fmin(low[k], p[3 * i + k]);
            high[k] = fmax(high[k], p[3 * i + k]);
        }
    for (int k = 0; k < 2; k++) {
        o->box[k] = low[k];
        o->box[2 + k] = high[k] - low[k];
    }
    o->area = o->box[2] * o->box[3];
}

static qb_status read_detection(loader *l, qb_coco_objects *to, int64_t *strays) {
    qb_json_reader *r = &l->json;
    raw_object o;
    QB_TRY(read_object(r, to, &o));
    qb_coco_object *d = &o.object;
    if (!o.has_score) return qb_json_fail(r, "a detection without score");
    if (!o.has_box && d->mask == 0 && d->points == 0)
        return qb_json_fail(r, "a detection without bbox, segmentation and keypoints");
    d->image = qb_coco_image_of(l->coco, o.image_id);
    d->category = qb_coco_category_of(l->coco, o.category_id);
    if (d->image < 0)
        return qb_json_fail(r, "image_id %lld is not among the ground truth's images",
                            (long long)o.image_id);
    *strays += d->category < 0;
    d->crowd = false;
    d->area = d->box[2] * d->box[3];
    if (d->points > 0) qb_coco_box_of_points(to, d);
    if (!o.has_box && d->points == 0) QB_TRY(box_of_mask(r->cx, l->coco, to, d));
    return add_object(l, to, &o);
}

qb_status qb_coco_results_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                                const qb_coco *truth, qb_coco_objects *out, int64_t *strays) {
    QB_RELEASED(qb_coco_objects_release) qb_coco_objects objects = {.text = text, .size = n};
    QB_RELEASED(loader_release)
    loader l = {.coco = (qb_coco *)(uintptr_t)truth}; /* only looked at */
    int64_t unknown = 0;
    bool more;
    qb_json_reader_init(cx, name, text, n, &l.json);
    QB_TRY_NEW(cx, objects.path = qb_strdup(cx, name));
    QB_TRY(qb_json_enter(&l.json, QB_JSON_LIST));
    for (int64_t i = 0;; i++) {
        QB_TRY(qb_json_next(&l.json, &more));
        if (!more) break;
        if (i % 65536 == 0) QB_TRY(qb_check_cancel(cx));
        QB_TRY(read_detection(&l, &objects, &unknown));
    }
    QB_TRY(qb_json_read_end(&l.json));
    *out = QB_MOVE(objects);
    *strays = unknown;
    return QB_OK;
}

qb_status qb_coco_results_load(qb_ctx *cx, const char *path, const qb_coco *truth,
                               qb_coco_objects *out, int64_t *strays) {
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    QB_TRY(qb_coco_results_parse(cx, path, (const char *)map.data, map.size, truth, out, strays));
    out->map = QB_MOVE(map);
    return QB_OK;
}

/* COCO's JSON: ground truth (`instances_*.json`) and results, read in one pass over the mapped file
 * with memory for boxes only; masks stay in the file until they are asked for. */
#ifndef QB_DATASETS_COCO_H
#define QB_DATASETS_COCO_H

#include "base/arena.h"
#include "base/file.h"
#include "base/index.h"
#include "datasets/rle.h"

#define QB_COCO_OBJECTS_MAX ((size_t)1 << 26)
enum { QB_COCO_IMAGE_OBJECTS_MAX = 16384 }; /* annotations of one image */

typedef struct qb_coco_image {
    int64_t id;
    int32_t width, height;
    const char *file_name; /* "" where the file has none */
} qb_coco_image;

typedef struct qb_coco_category {
    int64_t id;
    const char *name;
} qb_coco_category;

/* An annotation or a detection. */
typedef struct qb_coco_object {
    int32_t image, category; /* index of the image and category; -1: not among them */
    double box[4];           /* x, y, width, height in pixels */
    double area;             /* annotations: as given, else of the box; detections: of the box, of
                                masks without one the number of pixels */
    double score;            /* of a detection */
    bool crowd;
    size_t mask;   /* where in the file the segmentation is; 0: none */
    size_t points; /* 1 + where in the list's `point` its key points begin; 0: it has none */
    int32_t n_points, n_visible; /* key points; those that are annotated (num_keypoints) */
} qb_coco_object;

/* Objects in the file's order, and the file. */
typedef struct qb_coco_objects {
    char *path;
    const char *text; /* of the file; not owned */
    size_t size;
    qb_map map; /* of the file; zeroed where the text is the caller's */
    qb_coco_object *item;
    size_t n;
    double *point; /* of all objects: x, y and visibility or score of each key point */
    size_t n_values, values_capacity;
} qb_coco_objects;

/* Key points of one object, at most. */
enum { QB_COCO_POINTS_MAX = 512 };

typedef struct qb_coco {
    qb_arena *arena;            /* names */
    qb_coco_image *image;       /* ascending id */
    qb_coco_category *category; /* ascending id */
    int32_t n_images, n_categories;
    qb_coco_objects objects; /* of `annotations` */
    int64_t strays;          /* annotations of no image or no category */
    bool zero_id;            /* an annotation's id is 0 */
    qb_index by_name;        /* of categories, where they are found by their names */
} qb_coco;

/* Reads ground truth. `images` and `categories` must be there and `annotations` may be left out. An
 * annotation needs image_id, category_id and bbox. Ids are unique numbers. */
qb_status qb_coco_load(qb_ctx *cx, const char *path, qb_coco *out);
/* The same from n bytes, which outlive the result. */
qb_status qb_coco_parse(qb_ctx *cx, const char *name, const char *text, size_t n, qb_coco *out);
void qb_coco_release(qb_coco *coco); /* accepts zeroed */

/* Reads detections in the results format: a list of objects with image_id (one of the ground
 * truth's), category_id, score, and bbox, segmentation (as run lengths) or keypoints. *strays: how
 * many are of a category that the ground truth does not have; they count for nothing. */
qb_status qb_coco_results_load(qb_ctx *cx, const char *path, const qb_coco *truth,
                               qb_coco_objects *out, int64_t *strays);
qb_status qb_coco_results_parse(qb_ctx *cx, const char *name, const char *text, size_t n,
                                const qb_coco *truth, qb_coco_objects *out, int64_t *strays);
void qb_coco_objects_release(qb_coco_objects *objects); /* accepts zeroed */

/* A detection of key points has the box around them all, and its area. */
void qb_coco_box_of_points(const qb_coco_objects *objects, qb_coco_object *object);

/* The object's mask in its image's size, rasterized or unpacked; release it. An error where the
 * object has none. */
qb_status qb_coco_mask(qb_ctx *cx, const qb_coco *truth, const qb_coco_objects *objects,
                       const qb_coco_object *object, qb_rle *out);

/* Index of an id; -1 when it is not there. */
int32_t qb_coco_image_of(const qb_coco *coco, int64_t id);
int32_t qb_coco_category_of(const qb_coco *coco, int64_t id);
/* The highest id of its categories; 0: it has none, or is NULL. */
int64_t qb_coco_top_id(const qb_coco *coco);

/* Which objects are of which image: those of image i are object[first[i]] to
 * object[first[i + 1] - 1], in the file's order. */
typedef struct qb_coco_by_image {
    size_t *first;  /* [n_images + 1], and one more */
    size_t *object; /* indices of objects */
} qb_coco_by_image;
qb_status qb_coco_by_image_create(qb_ctx *cx, const qb_coco *coco, qb_coco_by_image *out);
void qb_coco_by_image_release(qb_coco_by_image *by); /* accepts zeroed */
#endif

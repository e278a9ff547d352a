/* mask_folder: images and, in a folder beside theirs, a PNG of the same name whose values (or
 * palette indices) are classes, 255: ignored. Folders as common data sets call them. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

static const char *const layouts[][2] = {
    {"images", "masks"},    {"images", "labels"}, {"images", "annotations"},
    {"imgs", "masks"},      {"image", "mask"},    {"JPEGImages", "SegmentationClass"},
    {"img_dir", "ann_dir"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, PATH_BYTES = 4096 };

/* The layout of a folder: both halves are there and hold images. -1: none. */
static int find_layout(const char *path) {
    char folder[2][PATH_BYTES];
    for (int i = 0; i < LAYOUTS; i++) {
        bool there = true;
        for (int k = 0; k < 2; k++)
            there = there &&
                    snprintf(folder[k], PATH_BYTES, "%s/%s", path, layouts[i][k]) < PATH_BYTES &&
                    qb_scan_any(folder[k], QB_SCAN_IMAGES);
        if (there) return i;
    }
    return -1;
}

static bool mask_folder_probe(const char *path) {
    return qb_path_is_dir(path) && find_layout(path) >= 0;
}

/* The mask of an image: the same name but for the extension. */
static char *mask_path(qb_ctx *cx, const qb_dataset *dataset, const char *image) {
    const char *base = qb_path_base(image), *dot = strrchr(base, '.');
    return qb_format(cx, "%s/%s/%.*s.png", dataset->path, layouts[find_layout(dataset->path)][1],
                     (int)(dot ? dot - base : (long)strlen(base)), base);
}

static qb_status mask_folder_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels; /* of pixels, not of images */
    const int layout = find_layout(dataset->path);
    dataset->root = qb_arena_format(cx, dataset->arena, "%s/%s", dataset->path, layouts[layout][0]);
    if (!dataset->root) return cx->code;
    QB_TRY(qb_dataset_add_folder(cx, dataset, QB_SCAN_IMAGES));
    for (size_t i = 0; i < dataset->n; i++) {
        char *path = QB_NEW(cx, mask_path(cx, dataset, dataset->sample[i].name));
        if (!qb_path_exists(path))
            qb_fail(cx, QB_STATUS_NOTFOUND, "image %s has no mask %s", dataset->sample[i].name,
                    path);
        const bool there = qb_path_exists(path);
        qb_free(path);
        if (!there) return cx->code;
    }
    return QB_OK;
}

static qb_status mask_folder_read_mask(qb_ctx *cx, const qb_dataset *dataset,
                                       const qb_sample *sample, qb_image *out) {
    QB_FREED char *path = QB_NEW(cx, mask_path(cx, dataset, sample->name));
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    return qb_png_decode(cx, path, map.data, map.size, true, out);
}

const qb_dataset_format qb_format_mask_folder = {
    .name = "mask_folder",
    .text = "a folder with images/ and masks/ (PNG of class numbers), or JPEGImages/ and "
            "SegmentationClass/",
    .probe = mask_folder_probe,
    .open = mask_folder_open,
    .read = qb_dataset_read_file,
    .read_mask = mask_folder_read_mask,
};

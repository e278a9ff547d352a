/* coco: COCO's ground truth (instances_*.json), the images beside it. */
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

static bool coco_probe(const char *path) {
    return !qb_path_is_dir(path) && qb_has_suffix(path, ".json");
}

/* Named by the file, so it may only name what is below the folder of images. */
static bool leaves_folder(const char *name) {
    if (*name == '/') return true;
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0')) return true;
    }
    return false;
}

/* --images, else images/ beside the file, else the file's own folder. */
static qb_status find_images(qb_ctx *cx, qb_dataset *dataset) {
    char *folder = dataset->folder ? qb_strdup(cx, dataset->folder) : NULL;
    char *beside = qb_path_dir(cx, dataset->path);
    if (!folder && beside) {
        folder = qb_path_join(cx, beside, "images");
        if (folder && !qb_path_is_dir(folder)) {
            qb_free(folder);
            folder = qb_strdup(cx, beside);
        }
    }
    if (folder) dataset->root = qb_arena_strdup(cx, dataset->arena, folder);
    const bool found = folder && beside && dataset->root;
    QB_FREE_ALL(beside, folder);
    if (!found) return cx->code;
    if (qb_path_is_dir(dataset->root)) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "--images %s: there is no such folder", dataset->root);
}

static qb_status add_image(qb_ctx *cx, qb_dataset *dataset, const qb_coco_image *image,
                           int64_t index) {
    if (image->file_name[0] == '\0')
        return qb_fail(cx, QB_STATUS_FORMAT, "images: id %lld has no file_name",
                       (long long)image->id);
    if (leaves_folder(image->file_name))
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "images: id %lld: file_name '%s' leads out of the folder of images",
                       (long long)image->id, image->file_name);
    if (image->width < 1 || image->height < 1)
        return qb_fail(cx, QB_STATUS_FORMAT, "images: id %lld: width and height are missing",
                       (long long)image->id);
    return qb_dataset_add(cx, dataset, image->file_name, index, -1);
}

static qb_status coco_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels; /* categories have names of their own */
    QB_TRY(find_images(cx, dataset));
    qb_coco *truth = QB_NEW(cx, qb_alloc(cx, 1, sizeof *truth));
    dataset->truth = truth;
    QB_TRY(qb_coco_load(cx, dataset->path, truth));
    for (int32_t i = 0; i < truth->n_images; i++)
        QB_TRY(add_image(cx, dataset, &truth->image[i], i));
    return QB_OK;
}

/* Boxes are told in the pixels of the entry's size. */
static qb_status coco_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                           qb_image *out, qb_hash *hash) {
    const qb_coco_image *image = &dataset->truth->image[sample->position];
    qb_image decoded;
    QB_TRY(qb_dataset_read_file(cx, dataset, sample, &decoded, hash));
    if (decoded.width != image->width || decoded.height != image->height) {
        qb_fail(cx, QB_STATUS_FORMAT, "%s has %d x %d pixels, %s says %d x %d", sample->name,
                decoded.width, decoded.height, qb_path_base(dataset->path), image->width,
                image->height);
        qb_image_release(&decoded);
        return cx->code;
    }
    *out = decoded;
    return QB_OK;
}

const qb_dataset_format qb_format_coco = {
    .name = "coco",
    .text = "a .json file of COCO's ground truth, its images in images/ beside it (or --images)",
    .probe = coco_probe,
    .open = coco_open,
    .read = coco_read,
};

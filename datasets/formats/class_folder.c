/* class_folder: PATH/CLASS/NAME.jpg (or tensor files, one a sample). Without labels the folders
 * count 0, 1, ... in byte order, also those that are empty; with labels a folder is the class with
 * its synset or else its name. Where no folder at all is, the samples are other people's and have
 * no labels: good enough to calibrate with. One folder among others that is no class is an error.
 */
#include "base/file.h"
#include "base/log.h"
#include "datasets/datasets_internal.h"

static bool class_folder_probe(const char *path) {
    return qb_path_is_dir(path) &&
           (qb_scan_any_nested(path, QB_SCAN_IMAGES) || qb_scan_any_nested(path, QB_SCAN_TENSORS));
}

/* A folder without samples may have any name. */
static qb_status class_of(qb_ctx *cx, const qb_dataset *dataset, const char *folder, size_t number,
                          const qb_labels *labels, size_t n_files, int32_t *out) {
    *out = labels ? qb_labels_find(labels, folder) : (int32_t)number;
    if (*out >= 0 || n_files == 0 || !dataset->has_labels) return QB_OK;
    return qb_fail(
        cx, QB_STATUS_NOTFOUND,
        "folder '%s' with %zu images is none of the %d classes of the labels, neither by "
        "synset nor by name",
        folder, n_files, labels->n);
}

static qb_status add_folder(qb_ctx *cx, qb_dataset *dataset, const char *folder, size_t number,
                            const qb_labels *labels, qb_names *files) {
    char *path = QB_NEW(cx, qb_path_join(cx, dataset->root, folder));
    const qb_scan_kind kind = dataset->has_tensors ? QB_SCAN_TENSORS : QB_SCAN_IMAGES;
    qb_status status = qb_scan_folder(cx, path, kind, dataset->arena, files);
    qb_free(path);
    int32_t label = -1;
    if (status == QB_OK) status = class_of(cx, dataset, folder, number, labels, files->n, &label);
    for (size_t i = 0; i < files->n && status == QB_OK; i++) {
        const char *name = qb_arena_format(cx, dataset->arena, "%s/%s", folder, files->name[i]);
        status = name ? qb_dataset_add(cx, dataset, name, 0, label) : cx->code;
    }
    return status;
}

static bool any_is_class(const qb_names *folders, const qb_labels *labels) {
    for (size_t i = 0; i < folders->n; i++)
        if (qb_labels_find(labels, folders->name[i]) >= 0) return true;
    return false;
}

static qb_status class_folder_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    QB_RELEASED(qb_names_release) qb_names folders = {0}, files = {0};
    dataset->has_tensors = !qb_scan_any_nested(dataset->root, QB_SCAN_IMAGES);
    /* Taking either for the data set could silently be the wrong half. */
    if (qb_scan_any(dataset->root, QB_SCAN_IMAGES))
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "it holds both images and folders of images, expected one of them");
    QB_TRY(qb_scan_folder(cx, dataset->root, QB_SCAN_FOLDERS, dataset->arena, &folders));
    dataset->has_labels = !labels || any_is_class(&folders, labels);
    if (!dataset->has_labels)
        qb_warn(cx,
                "data %s: none of its %zu folders is one of the %d classes of the labels: the "
                "samples have no labels",
                dataset->root, folders.n, labels->n);
    for (size_t i = 0; i < folders.n; i++) {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(add_folder(cx, dataset, folders.name[i], i, labels, &files));
    }
    qb_scan_tell_others(cx, dataset, &files);
    if (files.n_inner > 0)
        qb_warn(cx, "data %s: %zu folder%s inside class folders %s left out (%s)", dataset->path,
                files.n_inner, files.n_inner == 1 ? "" : "s", files.n_inner == 1 ? "is" : "are",
                files.inner);
    qb_dataset_sort(dataset);
    if (dataset->has_labels) dataset->n_classes = labels ? labels->n : (int32_t)folders.n;
    return QB_OK;
}

const qb_dataset_format qb_format_class_folder = {
    .name = "class_folder",
    .text = "a folder of class folders of JPEG or PNG images, or of .npy and other tensor files",
    .probe = class_folder_probe,
    .open = class_folder_open,
    .read = qb_dataset_read_file,
    .read_tensors = qb_dataset_read_tensor_file,
};

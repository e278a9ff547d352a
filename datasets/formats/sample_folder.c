/* sample_folder: PATH/SAMPLE/INPUT.npy, a folder for each sample and in it a file for each input,
 * named after it (slashes in names cannot be written this way: use .npz). */
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

/* Folders that hold files of the same names are samples; otherwise they are classes. */
static bool same_names(qb_ctx *cx, const char *path, qb_arena *arena, qb_names *folders,
                       qb_names *a, qb_names *b) {
    if (qb_scan_folder(cx, path, QB_SCAN_FOLDERS, arena, folders) != QB_OK || folders->n == 0)
        return false;
    qb_names *const names[] = {a, b};
    for (size_t i = 0; i < 2 && i < folders->n; i++) {
        char *folder = qb_path_join(cx, path, folders->name[i]);
        bool there =
            folder && qb_scan_folder(cx, folder, QB_SCAN_TENSORS, arena, names[i]) == QB_OK;
        qb_free(folder);
        if (!there || names[i]->n == 0) return false;
    }
    if (folders->n == 1) return true;
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++) same = strcmp(a->name[i], b->name[i]) == 0;
    return same;
}

static bool sample_folder_probe(const char *path) {
    if (!qb_path_is_dir(path)) return false;
    qb_ctx cx;
    qb_ctx_init(&cx);
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_RELEASED(qb_names_release) qb_names folders = {0}, a = {0}, b = {0};
    if (qb_arena_create(&cx, &arena) != QB_OK) return false;
    return same_names(&cx, path, arena, &folders, &a, &b);
}

static qb_status sample_folder_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels;
    return qb_dataset_add_folder(cx, dataset, QB_SCAN_FOLDERS);
}

/* Moves what one file holds into the sample; a file with one tensor names it. */
static qb_status add_file(qb_ctx *cx, const char *folder, const char *name, qb_tensors *out) {
    QB_RELEASED(qb_tensors_release) qb_tensors file = {0};
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, folder, name));
    QB_TRY(qb_tensor_file_read(cx, path, &file));
    if (file.n == 1 && !file.item[0].name)
        QB_TRY_NEW(cx, file.item[0].name = qb_path_stem(cx, name));
    if (out->n + file.n > QB_INPUTS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d tensors in a sample",
                       QB_INPUTS_MAX);
    memcpy(out->item + out->n, file.item, (size_t)file.n * sizeof *file.item);
    out->n += file.n;
    file.n = 0;
    return QB_OK;
}

static qb_status sample_folder_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                                    qb_tensors *out) {
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_RELEASED(qb_names_release) qb_names files = {0};
    QB_FREED char *folder = QB_NEW(cx, qb_path_join(cx, dataset->root, sample->name));
    QB_TRY(qb_arena_create(cx, &arena));
    QB_TRY(qb_scan_folder(cx, folder, QB_SCAN_TENSORS, arena, &files));
    for (size_t i = 0; i < files.n; i++) QB_TRY(add_file(cx, folder, files.name[i], out));
    if (files.n == 0)
        return qb_fail(cx, QB_STATUS_NOTFOUND, "%s: it holds no tensor files", folder);
    return QB_OK;
}

const qb_dataset_format qb_format_sample_folder = {
    .name = "sample_folder",
    .text = "a folder of folders, a sample each, with INPUT.npy (or .bin) for every input",
    .probe = sample_folder_probe,
    .open = sample_folder_open,
    .read_tensors = sample_folder_read,
};

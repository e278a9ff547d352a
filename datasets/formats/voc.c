/* voc: PASCAL VOC's folders: JPEGImages/NAME.jpg and Annotations/NAME.xml, of the names that
 * ImageSets/Main/val.txt lists where it is there. Objects that are marked difficult are found or
 * not, as one likes. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "datasets/truth_internal.h"

enum { PATH_BYTES = 4096 };

static bool voc_probe(const char *path) {
    char images[PATH_BYTES], boxes[PATH_BYTES];
    return qb_path_is_dir(path) &&
           snprintf(images, PATH_BYTES, "%s/JPEGImages", path) < PATH_BYTES &&
           snprintf(boxes, PATH_BYTES, "%s/Annotations", path) < PATH_BYTES &&
           qb_scan_any(images, QB_SCAN_IMAGES) && qb_path_is_dir(boxes);
}

static qb_status add_sample(qb_ctx *cx, qb_dataset *dataset, const char *name) {
    const char *dot = strrchr(name, '.');
    QB_FREED char *text = NULL,
                  *path = qb_format(cx, "%s/Annotations/%.*s.xml", dataset->path,
                                    (int)(dot ? dot - name : (long)strlen(name)), name);
    size_t n = 0;
    if (!path) return cx->code;
    QB_TRY(qb_truth_add_image(cx, dataset, name));
    QB_TRY(qb_file_read(cx, path, QB_TEXT_FILE_MAX, &text, &n));
    return qb_voc_objects_parse(cx, path, text, n, dataset->truth);
}

/* Names without extension, one a line (and perhaps a number behind it). */
static qb_status add_list(qb_ctx *cx, qb_dataset *dataset, char *text) {
    char *rest = NULL;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        const int n = (int)strcspn(line, " \t");
        if (n == 0) continue;
        QB_TRY(add_sample(cx, dataset,
                          QB_NEW(cx, qb_arena_format(cx, dataset->arena, "%.*s.jpg", n, line))));
    }
    return QB_OK;
}

static qb_status voc_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels; /* objects have names of their own */
    char list[PATH_BYTES];
    QB_TRY(qb_truth_begin(cx, dataset));
    dataset->root = qb_arena_format(cx, dataset->arena, "%s/JPEGImages", dataset->path);
    if (!dataset->root) return cx->code;
    if (snprintf(list, PATH_BYTES, "%s/ImageSets/Main/val.txt", dataset->path) < PATH_BYTES &&
        qb_path_exists(list)) {
        QB_FREED char *text = NULL;
        QB_TRY(qb_file_read_text(cx, list, QB_TEXT_FILE_MAX, &text));
        return add_list(cx, dataset, text);
    }
    QB_RELEASED(qb_names_release) qb_names names = {0};
    qb_status status = qb_scan_folder(cx, dataset->root, QB_SCAN_IMAGES, dataset->arena, &names);
    for (size_t i = 0; i < names.n && status == QB_OK; i++)
        status = add_sample(cx, dataset, names.name[i]);
    if (status == QB_OK) qb_scan_tell_others(cx, dataset, &names);
    return status;
}

const qb_dataset_format qb_format_voc = {
    .name = "voc",
    .text = "PASCAL VOC's folder with JPEGImages/ and Annotations/ (its ImageSets/Main/val.txt)",
    .probe = voc_probe,
    .open = voc_open,
    .read = qb_dataset_read_file,
};

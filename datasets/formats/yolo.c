/* yolo: images and label files as YOLO's trainers have them, told by data.yaml (its `val`), or by a
 * folder of images with labels/ beside its images/ (or a label file beside each image). */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "datasets/truth_internal.h"

enum { PATH_BYTES = 4096 };

/* ".../images/val/x.jpg" has ".../labels/val/x.txt"; without such a folder the label file lies
 * beside the image. `path` is a folder or a file. */
static bool labels_of(const char *path, char out[PATH_BYTES]) {
    static const char from[] = "images";
    const char *last = NULL;
    for (const char *at = path; (at = strstr(at, from)) != NULL; at++)
        if ((at == path || at[-1] == '/') &&
            (at[sizeof from - 1] == '/' || at[sizeof from - 1] == '\0'))
            last = at;
    return last && snprintf(out, PATH_BYTES, "%.*slabels%s", (int)(last - path), path,
                            last + sizeof from - 1) < PATH_BYTES;
}

static bool is_settings(const char *path) {
    return !qb_path_is_dir(path) && (qb_has_suffix(path, ".yaml") || qb_has_suffix(path, ".yml"));
}

/* A folder that holds images, whose folder of labels is there; or one of images/ and labels/. */
static bool is_folder(const char *path, char images[PATH_BYTES]) {
    char labels[PATH_BYTES];
    static const char *const below[] = {
        "", "/images", "/images/val", "/images/val2017", "/val/images", "/valid/images"};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (snprintf(images, PATH_BYTES, "%s%s", path, below[i]) < PATH_BYTES &&
            qb_scan_any(images, QB_SCAN_IMAGES) && labels_of(images, labels) &&
            qb_scan_any(labels, QB_SCAN_TEXTS))
            return true;
    return false;
}

static bool yolo_probe(const char *path) {
    char images[PATH_BYTES];
    return is_settings(path) || (qb_path_is_dir(path) && is_folder(path, images));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* `names` as a list, or as a mapping from numbers. */
static qb_status add_names(qb_ctx *cx, const qb_config *config, qb_coco *truth) {
    const qb_config_node *names = qb_config_find(config, "names");
    char key[16];
    for (int i = 0; names && i < qb_config_size(names); i++) {
        snprintf(key, sizeof key, "%d", i);
        if (qb_config_key(names, i) && strcmp(qb_config_key(names, i), key) != 0)
            return qb_config_fail(cx, config, "names", "expected the classes 0, 1, ... in order");
        const char *name = qb_config_text(qb_config_at(names, i));
        if (!name) return qb_config_fail(cx, config, "names", "expected names");
        QB_TRY(qb_truth_add_category(cx, truth, name));
    }
    int64_t n = truth->n_categories;
    QB_TRY(qb_config_int(cx, config, "nc", &n));
    if (truth->n_categories > 0 && n != truth->n_categories)
        return qb_config_fail(cx, config, "nc", "%lld classes, but names has %d", (long long)n,
                              (int)truth->n_categories);
    return QB_OK;
}

/* Of a data.yaml up to three folders above the images; none: classes are numbers. */
static qb_status find_names(qb_ctx *cx, const qb_dataset *dataset) {
    static const char *const up[] = {"", "/..", "/../..", "/../../.."};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof up / sizeof *up; i++) {
        QB_RELEASED(qb_config_free_at) qb_config *config = NULL;
        if (snprintf(path, sizeof path, "%s%s/data.yaml", dataset->root, up[i]) >= PATH_BYTES ||
            !qb_path_exists(path))
            continue;
        QB_TRY(qb_config_load(cx, path, &config));
        return add_names(cx, config, dataset->truth);
    }
    return QB_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

static qb_status add_sample(qb_ctx *cx, qb_dataset *dataset, const char *name, int32_t classes) {
    char *image = qb_path_join(cx, dataset->root, name);
    char labels[PATH_BYTES];
    QB_FREED char *text = NULL;
    size_t n = 0;
    if (!image) return cx->code;
    if (!labels_of(image, labels)) snprintf(labels, sizeof labels, "%s", image);
    qb_free(image);
    char *dot = strrchr(labels, '.');
    if (!dot || dot + 5 > labels + sizeof labels) return QB_OK;
    memcpy(dot, ".txt", 5);
    QB_TRY(qb_truth_add_image(cx, dataset, name));
    if (!qb_path_exists(labels)) return QB_OK; /* nothing is to be seen there */
    QB_TRY(qb_file_read(cx, labels, QB_TEXT_FILE_MAX, &text, &n));
    return qb_yolo_labels_parse(cx, labels, text, n, classes, dataset->truth);
}

static qb_status add_folder(qb_ctx *cx, qb_dataset *dataset) {
    QB_RELEASED(qb_names_release) qb_names names = {0};
    const int32_t classes = dataset->truth->n_categories;
    QB_TRY(qb_scan_folder(cx, dataset->root, QB_SCAN_IMAGES, dataset->arena, &names));
    for (size_t i = 0; i < names.n; i++) QB_TRY(add_sample(cx, dataset, names.name[i], classes));
    qb_scan_tell_others(cx, dataset, &names);
    return QB_OK;
}

/* A file with a path a line, relative to its folder (also with "./" before it). */
static qb_status add_list(qb_ctx *cx, qb_dataset *dataset, const char *path) {
    const int32_t classes = dataset->truth->n_categories;
    char *rest = NULL;
    QB_FREED char *text = NULL;
    QB_TRY(qb_file_read_text(cx, path, QB_TEXT_FILE_MAX, &text));
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (strncmp(line, "./", 2) == 0) line += 2;
        const char *name = QB_NEW(cx, qb_arena_strdup(cx, dataset->arena, line));
        QB_TRY(add_sample(cx, dataset, name, classes));
    }
    return QB_OK;
}

/* The folder that `path` and `val` of the settings name: relative to the file, else to what `path`
 * says, else to the folder of the file alone (the data were moved with it). */
static qb_status open_settings(qb_ctx *cx, qb_dataset *dataset, const qb_config *config) {
    const char *root = "", *val = NULL;
    QB_FREED char *folder = QB_NEW(cx, qb_path_dir(cx, dataset->path));
    QB_TRY(qb_config_string(cx, config, "path", &root));
    QB_TRY(qb_config_string(cx, config, "val", &val));
    if (!val)
        return qb_config_fail(cx, config, "val", "expected a folder of images or a list file");
    char place[PATH_BYTES] = "";
    for (int i = 0; i < 4 && !(place[0] && qb_path_exists(place)); i++) {
        const char *base = i == 2 || root[0] == '/' ? "" : folder,
                   *own = i == 1 || i == 3 ? "" : root;
        const char *rest = i == 3 && strncmp(val, "../", 3) == 0 ? val + 3 : val;
        snprintf(place, sizeof place, "%s%s%s%s%s", base, *base ? "/" : "", own, *own ? "/" : "",
                 rest);
        if (i == 1 || i == 3) snprintf(place, sizeof place, "%s/%s", *folder ? folder : ".", rest);
    }
    if (!qb_path_exists(place)) return qb_config_fail(cx, config, "val", "there is no %s", place);
    QB_TRY(add_names(cx, config, dataset->truth));
    const bool is_dir = qb_path_is_dir(place);
    QB_FREED char *above = QB_NEW(cx, is_dir ? qb_strdup(cx, place) : qb_path_dir(cx, place));
    QB_TRY_NEW(cx, dataset->root = qb_arena_strdup(cx, dataset->arena, above));
    return is_dir ? add_folder(cx, dataset) : add_list(cx, dataset, place);
}

static qb_status yolo_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels; /* categories have names of their own */
    char images[PATH_BYTES];
    QB_TRY(qb_truth_begin(cx, dataset));
    if (is_settings(dataset->path)) {
        QB_RELEASED(qb_config_free_at) qb_config *config = NULL;
        QB_TRY(qb_config_load(cx, dataset->path, &config));
        return open_settings(cx, dataset, config);
    }
    if (!is_folder(dataset->path, images))
        return qb_fail(cx, QB_STATUS_NOTFOUND, "no images with labels");
    QB_TRY_NEW(cx, dataset->root = qb_arena_strdup(cx, dataset->arena, images));
    QB_TRY(find_names(cx, dataset));
    return add_folder(cx, dataset);
}

const qb_dataset_format qb_format_yolo = {
    .name = "yolo",
    .text = "data.yaml of a YOLO data set (its val), or a folder of images with labels/ beside "
            "images/",
    .probe = yolo_probe,
    .open = yolo_open,
    .read = qb_dataset_read_file,
};

/* list_file: a text file with a line for each sample, `path`, `path TAB label` or `path label`. The
 * paths name images, or all of them tensor files (.npy, .npz, .bin, .pb).
 * Paths are relative to the file's folder and may contain spaces; labels are class numbers, or
 * class names or synsets of the labels. Empty lines and lines that begin with # are skipped. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

static bool list_file_probe(const char *path) {
    return !qb_path_is_dir(path) && (qb_has_suffix(path, ".txt") || qb_has_suffix(path, ".lst"));
}

typedef struct lines {
    qb_ctx *cx;
    qb_dataset *dataset;
    const qb_labels *labels;
    int number;
    int32_t highest; /* label so far */
    bool any, labelled;
} lines;

/* Cuts the label off `line`; NULL when there is none. */
static char *split_label(char *line) {
    char *cut = strrchr(line, '\t');
    if (!cut) {
        if (qb_name_is_image(line) || qb_name_is_tensor(line))
            return NULL; /* spaces then belong to the name */
        cut = strrchr(line, ' ');
        if (!cut) return NULL;
    }
    char *label = cut + 1;
    while (cut > line && (cut[-1] == ' ' || cut[-1] == '\t')) cut--;
    *cut = '\0';
    return label;
}

static qb_status add_line(lines *l, char *line) {
    char where[64], *label_text = split_label(line);
    if (*line == '\0' || (label_text && *label_text == '\0'))
        return qb_fail(l->cx, QB_STATUS_FORMAT, "line %d: expected 'path' or 'path TAB label'",
                       l->number);
    if (l->any && l->labelled != (label_text != NULL))
        return qb_fail(l->cx, QB_STATUS_FORMAT, "line %d ('%s') has %s label, unlike those before",
                       l->number, line, label_text ? "a" : "no");
    const bool tensor = qb_name_is_tensor(line);
    if (l->any && l->dataset->has_tensors != tensor)
        return qb_fail(l->cx, QB_STATUS_FORMAT, "line %d ('%s') is %s, unlike those before",
                       l->number, line, tensor ? "a tensor file" : "an image");
    l->dataset->has_tensors = tensor;
    int32_t label = -1;
    snprintf(where, sizeof where, "line %d", l->number);
    if (label_text) QB_TRY(qb_label_parse(l->cx, where, label_text, l->labels, &label));
    if (label > l->highest) l->highest = label;
    l->any = true;
    l->labelled = label_text != NULL;
    const char *name = QB_NEW(l->cx, qb_arena_strdup(l->cx, l->dataset->arena, line));
    return qb_dataset_add(l->cx, l->dataset, name, 0, label);
}

static qb_status add_lines(lines *l, char *text) {
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        l->number++;
        size_t n = strlen(line);
        while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ')) line[--n] = '\0';
        if (n > 0 && *line != '#') QB_TRY(add_line(l, line));
    }
    return QB_OK;
}

static qb_status list_file_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    QB_TRY(qb_dataset_root_beside(cx, dataset));
    QB_FREED char *text = NULL;
    QB_TRY(qb_file_read_text(cx, dataset->path, QB_TEXT_FILE_MAX, &text));
    lines l = {.cx = cx, .dataset = dataset, .labels = labels, .highest = -1};
    QB_TRY(add_lines(&l, strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text));
    dataset->has_labels = l.labelled;
    dataset->n_classes = labels ? labels->n : l.highest + 1;
    return QB_OK;
}

const qb_dataset_format qb_format_list_file = {
    .name = "list_file",
    .text = "a .txt file of paths of images or tensor files, each with or without a label",
    .probe = list_file_probe,
    .open = list_file_open,
    .read = qb_dataset_read_file,
    .read_tensors = qb_dataset_read_tensor_file,
};

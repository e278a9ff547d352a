/* test_data: ONNX's test vectors, PATH/test_data_set_K/input_I.pb, a sample each set; or one such
 * set itself. The expected outputs beside them are not used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

static bool has_input(const char *folder) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/input_0.pb", folder);
    return n > 0 && (size_t)n < sizeof path && qb_path_exists(path);
}

static bool has_sets(const char *folder) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/test_data_set_0", folder);
    return n > 0 && (size_t)n < sizeof path && qb_path_is_dir(path);
}

static bool test_data_probe(const char *path) {
    return qb_path_is_dir(path) && (has_input(path) || has_sets(path));
}

static int by_number(const void *a, const void *b) {
    const qb_sample *left = a, *right = b;
    return left->position < right->position ? -1 : left->position > right->position;
}

static qb_status test_data_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    (void)labels;
    static const char prefix[] = "test_data_set_";
    if (has_input(dataset->root)) return qb_dataset_add(cx, dataset, ".", 0, -1);
    QB_RELEASED(qb_names_release) qb_names folders = {0};
    qb_status status = qb_scan_folder(cx, dataset->root, QB_SCAN_FOLDERS, dataset->arena, &folders);
    for (size_t i = 0; i < folders.n && status == QB_OK; i++)
        if (strncmp(folders.name[i], prefix, sizeof prefix - 1) == 0)
            status = qb_dataset_add(cx, dataset, folders.name[i],
                                    strtoll(folders.name[i] + sizeof prefix - 1, NULL, 10), -1);
    if (status == QB_OK && dataset->n > 1)
        qsort(dataset->sample, dataset->n, sizeof *dataset->sample, by_number);
    return status;
}

static qb_status test_data_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                                qb_tensors *out) {
    for (int32_t i = 0;; i++) {
        char *path = QB_NEW(cx, qb_format(cx, "%s/%s/input_%d.pb", dataset->root, sample->name, i));
        const bool there = qb_path_exists(path);
        qb_tensors one = {0};
        qb_status status = there || i == 0 ? qb_tensor_file_read(cx, path, &one) : QB_OK;
        qb_free(path);
        if (status != QB_OK) return status;
        if (!there) return QB_OK;
        if (out->n == QB_INPUTS_MAX) {
            qb_tensors_release(&one);
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d inputs", QB_INPUTS_MAX);
        }
        out->item[out->n++] = one.item[0];
    }
}

const qb_dataset_format qb_format_test_data = {
    .name = "test_data",
    .text = "ONNX test data: test_data_set_K/input_I.pb, inputs in the model's order",
    .probe = test_data_probe,
    .open = test_data_open,
    .read_tensors = test_data_read,
};

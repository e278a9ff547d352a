/* numpy: one .npy or .npz file with the samples along the first axis of every array; in an .npz
 * `labels` (integers [N]) are the classes. Stored arrays stay in the file until they are read;
 * deflated ones are unpacked once all of them are known to fit together. */
#include <string.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"
#include "kernels/ref.h"

typedef struct state {
    qb_map map;
    qb_npz npz;
} state;

static bool numpy_probe(const char *path) {
    return !qb_path_is_dir(path) && (qb_has_suffix(path, ".npy") || qb_has_suffix(path, ".npz"));
}

/* A lone .npy is an archive of one array without a name. */
static qb_status open_arrays(qb_ctx *cx, const char *path, state *s) {
    QB_TRY(qb_map_open(cx, path, &s->map));
    if (qb_has_suffix(path, ".npz"))
        return qb_npz_open(cx, qb_path_base(path), s->map.data, s->map.size, &s->npz);
    QB_TRY(qb_npy_view(cx, qb_path_base(path), s->map.data, s->map.size, &s->npz.array[0].view));
    s->npz.n = 1;
    return QB_OK;
}

static bool is_label(const qb_npz_array *array) {
    return array->name && qb_name_is_label(array->name);
}

static qb_status count_samples(qb_ctx *cx, const state *s, int64_t *out) {
    *out = -1;
    for (int32_t i = 0; i < s->npz.n; i++) {
        const qb_npz_array *array = &s->npz.array[i];
        const qb_shape *shape = &array->view.desc.shape;
        if (shape->rank < 1)
            return qb_fail(cx, QB_STATUS_FORMAT,
                           "array '%s' is a scalar: expected samples along the first axis",
                           array->name ? array->name : "");
        if (*out >= 0 && shape->dim[0] != *out)
            return qb_fail(
                cx, QB_STATUS_FORMAT, "array '%s' holds %lld samples, the arrays before it %lld",
                array->name ? array->name : "", (long long)shape->dim[0], (long long)*out);
        *out = shape->dim[0];
    }
    if (*out > (int64_t)QB_SAMPLES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%lld samples, the limit is %zu", (long long)*out,
                       QB_SAMPLES_MAX);
    return QB_OK;
}

/* *out: the array of labels or NULL. */
static qb_status find_labels(qb_ctx *cx, const state *s, const qb_tensor **out) {
    *out = NULL;
    for (int32_t i = 0; i < s->npz.n; i++) {
        const qb_tensor *view = &s->npz.array[i].view;
        if (!is_label(&s->npz.array[i])) continue;
        if (view->desc.shape.rank != 1 || qb_dtype_is_float(view->desc.dtype))
            return qb_fail(cx, QB_STATUS_FORMAT, "array '%s': expected one integer a sample",
                           s->npz.array[i].name);
        *out = view;
    }
    if (*out && s->npz.n == 1) return qb_fail(cx, QB_STATUS_FORMAT, "it holds labels only");
    return QB_OK;
}

/* As 64-bit numbers in new memory; the elements in the file are not aligned. */
static qb_status copy_labels(qb_ctx *cx, const qb_tensor *labels, int64_t n, int64_t **out) {
    const size_t size = qb_dtype_size(labels->desc.dtype);
    QB_TRY_NEW(cx, *out = qb_alloc(cx, (size_t)n, sizeof **out));
    for (int64_t i = 0; i < n; i++) {
        uint64_t aligned = 0;
        memcpy(&aligned, (const uint8_t *)labels->data + (size_t)i * size, size);
        (*out)[i] = (int64_t)qb_number_get(labels->desc.dtype, &aligned, 0);
    }
    return QB_OK;
}

static qb_status numpy_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    dataset->state = s;
    int64_t n;
    QB_FREED int64_t *label = NULL;
    const qb_tensor *classes;
    QB_TRY(open_arrays(cx, dataset->path, s));
    QB_TRY(count_samples(cx, s, &n));
    QB_TRY(find_labels(cx, s, &classes));
    for (int32_t i = 0; i < s->npz.n; i++)
        QB_TRY(qb_npz_load(cx, qb_path_base(dataset->path), &s->npz.array[i]));
    if (classes) QB_TRY(copy_labels(cx, classes, n, &label));
    return qb_dataset_add_rows(cx, dataset, n, label, labels);
}

/* Sample k of an array [N, ...] is a tensor [1, ...]. */
static qb_status numpy_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                            qb_tensors *out) {
    const state *s = dataset->state;
    for (int32_t i = 0; i < s->npz.n; i++) {
        if (is_label(&s->npz.array[i])) continue;
        qb_tensor row = s->npz.array[i].view;
        row.desc.shape.dim[0] = 1;
        row.data = (uint8_t *)row.data + (size_t)sample->position * qb_desc_bytes(&row.desc);
        QB_TRY(qb_tensors_add(cx, out, s->npz.array[i].name, &row));
    }
    return QB_OK;
}

static void numpy_close(qb_dataset *dataset) {
    state *s = dataset->state;
    if (!s) return;
    qb_npz_close(&s->npz);
    qb_map_close(&s->map);
    qb_free(s);
}

const qb_dataset_format qb_format_numpy = {
    .name = "numpy",
    .text = "an .npy or .npz file with samples along the first axis (and labels in the .npz)",
    .probe = numpy_probe,
    .open = numpy_open,
    .read_tensors = numpy_read,
    .close = numpy_close,
};

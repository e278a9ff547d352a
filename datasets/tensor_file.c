/* One sample from one file: .npy, .npz, .bin, .raw, .pb. */
#include <string.h>

#include "base/file.h"
#include "datasets_internal.h"
#include "graph/graph.h"

bool qb_name_is_label(const char *name) {
    return strcmp(name, "label") == 0 || strcmp(name, "labels") == 0;
}

static qb_status read_npy(qb_ctx *cx, const char *path, const qb_map *map, qb_tensors *out) {
    qb_tensor view;
    QB_TRY(qb_npy_view(cx, path, map->data, map->size, &view));
    return qb_tensors_add(cx, out, NULL, &view);
}

/* What was unpacked is handed over. */
static qb_status add_array(qb_ctx *cx, const char *path, qb_npz_array *array, qb_tensors *out) {
    QB_TRY(qb_tensors_check(cx, out, &array->view.desc)); /* before memory is taken */
    QB_TRY(qb_npz_load(cx, path, array));
    if (!array->own) return qb_tensors_add(cx, out, array->name, &array->view);
    QB_TRY(qb_tensors_take(cx, out, array->name, &array->view));
    array->own = NULL;
    return QB_OK;
}

static qb_status read_npz(qb_ctx *cx, const char *path, const qb_map *map, qb_tensors *out) {
    QB_RELEASED(qb_npz_close) qb_npz npz = {0};
    QB_TRY(qb_npz_open(cx, path, map->data, map->size, &npz));
    for (int32_t i = 0; i < npz.n; i++)
        if (!qb_name_is_label(npz.array[i].name)) QB_TRY(add_array(cx, path, &npz.array[i], out));
    return QB_OK;
}

static qb_status read_raw(qb_ctx *cx, const char *path, const qb_map *map, qb_tensors *out) {
    (void)path;
    return qb_tensors_add_raw(cx, out, NULL, map->data, map->size);
}

/* The model's test data; the reader of models knows the format. */
static qb_status read_pb(qb_ctx *cx, const char *path, const qb_map *map, qb_tensors *out) {
    (void)map;
    qb_tensor tensor;
    QB_TRY(qb_onnx_load_tensor(cx, path, &tensor, NULL));
    qb_status status = qb_tensors_add(cx, out, NULL, &tensor);
    qb_free(tensor.data);
    return status;
}

typedef qb_status (*read_fn)(qb_ctx *cx, const char *path, const qb_map *map, qb_tensors *out);

static read_fn reader_of(const char *name) {
    static const struct {
        const char *suffix;
        read_fn read;
    } readers[] = {{".npy", read_npy},
                   {".npz", read_npz},
                   {".bin", read_raw},
                   {".raw", read_raw},
                   {".pb", read_pb}};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (qb_has_suffix(name, readers[i].suffix)) return readers[i].read;
    return NULL;
}

bool qb_name_is_tensor(const char *name) { return reader_of(name) != NULL; }

qb_status qb_tensor_file_read(qb_ctx *cx, const char *path, qb_tensors *out) {
    const read_fn read = reader_of(path);
    if (!read)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected .npy, .npz, .bin, .raw or .pb",
                       path);
    QB_RELEASED(qb_map_close) qb_map map = {0};
    QB_RELEASED(qb_tensors_release) qb_tensors tensors = {0};
    QB_TRY(qb_map_open(cx, path, &map));
    QB_TRY(read(cx, path, &map, &tensors));
    *out = tensors;
    tensors.n = 0;
    return QB_OK;
}

qb_status qb_dataset_read_tensor_file(qb_ctx *cx, const qb_dataset *dataset,
                                      const qb_sample *sample, qb_tensors *out) {
    QB_FREED char *path = QB_NEW(cx, qb_path_join(cx, dataset->root, sample->name));
    return qb_tensor_file_read(cx, path, out);
}

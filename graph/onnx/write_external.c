/* Tensors beside the model: what does not fit into one ONNX file. */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "onnx_internal.h"

#define LEAST_BYTES 1024 /* smaller tensors stay in the model, where shapes are read from */
#define ALIGNMENT 4096   /* a page: readers may map each tensor */

static qb_status write_bytes(qb_ctx *cx, FILE *stream, const void *data, size_t n) {
    errno = 0;
    if (n && fwrite(data, 1, n, stream) != n) return qb_fail_errno(cx, "write");
    return QB_OK;
}

static qb_status pad_to_page(qb_ctx *cx, FILE *stream, size_t *offset) {
    static const char zeros[ALIGNMENT];
    const size_t n = (ALIGNMENT - *offset % ALIGNMENT) % ALIGNMENT;
    *offset += n;
    return write_bytes(cx, stream, zeros, n);
}

/* The tensor's data now lie in `location` from `offset` on. */
static qb_status move_out(qb_ctx *cx, qb_arena *arena, const char *location, size_t offset,
                          Onnx__TensorProto *tensor) {
    enum { ENTRIES = 3 };
    struct entries {
        Onnx__StringStringEntryProto entry[ENTRIES], *list[ENTRIES];
    } *it = qb_arena_alloc(cx, arena, 1, sizeof *it);
    if (!it) return cx->code;
    const char *const keys[ENTRIES] = {"location", "offset", "length"};
    const char *const values[ENTRIES] = {location, qb_arena_format(cx, arena, "%zu", offset),
                                         qb_arena_format(cx, arena, "%zu", tensor->raw_data.len)};
    for (int i = 0; i < ENTRIES; i++) {
        if (!values[i]) return cx->code;
        it->list[i] = &it->entry[i];
        onnx__string_string_entry_proto__init(&it->entry[i]);
        it->entry[i].key = (char *)(uintptr_t)keys[i]; /* protobuf-c only reads them */
        it->entry[i].value = (char *)(uintptr_t)values[i];
    }
    tensor->n_external_data = ENTRIES;
    tensor->external_data = it->list;
    tensor->has_data_location = true;
    tensor->data_location = 1; /* external */
    tensor->has_raw_data = false;
    tensor->raw_data.len = 0;
    tensor->raw_data.data = NULL;
    return QB_OK;
}

static qb_status write_all(qb_ctx *cx, qb_arena *arena, const char *location, FILE *stream,
                           Onnx__GraphProto *graph) {
    size_t offset = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = graph->initializer[i];
        const size_t n = tensor->raw_data.len;
        if (n < LEAST_BYTES) continue;
        QB_TRY(pad_to_page(cx, stream, &offset));
        QB_TRY(write_bytes(cx, stream, tensor->raw_data.data, n));
        QB_TRY(move_out(cx, arena, location, offset, tensor));
        offset += n;
    }
    return QB_OK;
}

qb_status qb_external_write(qb_ctx *cx, qb_arena *arena, const char *path,
                            Onnx__GraphProto *graph) {
    const char *data = qb_arena_format(cx, arena, "%s.data", path);
    qb_writer file = {0};
    if (!data) return cx->code;
    qb_status status = qb_writer_open(cx, data, &file);
    if (status == QB_OK) status = write_all(cx, arena, qb_path_base(data), file.stream, graph);
    if (status == QB_OK) status = qb_writer_commit(cx, &file);
    qb_writer_abort(&file);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", data);
}

/* Tensor data in files beside the model. */
#include <string.h>

#include "base/open.h"
#include "onnx_internal.h"

#define MAX_FILES 4096

void qb_externals_close(qb_externals *externals) {
    for (size_t i = 0; i < externals->n; i++) {
        qb_map_close(&externals->file[i].map);
        qb_free(externals->file[i].name);
    }
    qb_free(QB_MOVE(externals->file));
    externals->n = externals->capacity = 0;
}

static qb_status open_file(qb_ctx *cx, qb_externals *externals, const char *location,
                           const qb_map **out) {
    for (size_t i = 0; i < externals->n; i++)
        if (strcmp(externals->file[i].name, location) == 0) {
            *out = &externals->file[i].map;
            return QB_OK;
        }
    if (externals->n >= MAX_FILES)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "external data in more than %d files", MAX_FILES);
    QB_TRY(qb_grow(cx, &externals->file, &externals->capacity, externals->n + 1,
                   sizeof *externals->file));
    QB_FREED char *copy = QB_NEW(cx, qb_strdup(cx, location));
    qb_external_file file = {.name = copy};
    const qb_named named = {.name = location, .by = externals->by, .whose = "the model's"};
    QB_TRY(qb_map_open_named(cx, &named, &file.map));
    copy = NULL;
    externals->file[externals->n] = file;
    *out = &externals->file[externals->n++].map;
    return QB_OK;
}

static qb_status parse_number(qb_ctx *cx, const char *key, const char *text, uint64_t *out) {
    uint64_t value = 0;
    bool digits = *text != '\0';
    for (; *text && digits; text++) {
        digits = *text >= '0' && *text <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
                 !__builtin_add_overflow(value, (uint64_t)(*text - '0'), &value);
    }
    if (!digits)
        return qb_fail(cx, QB_STATUS_FORMAT, "external data: %s: expected a byte count", key);
    *out = value;
    return QB_OK;
}

/* The bytes that the entries of a tensor name; *stored: those of the file that the disk holds. */
static qb_status find(qb_ctx *cx, qb_externals *externals, const Onnx__TensorProto *proto,
                      qb_span *out, size_t *stored) {
    enum { LOCATION, OFFSET, LENGTH, KEYS };
    static const char *const keys[KEYS] = {"location", "offset", "length"};
    const char *given[KEYS] = {NULL};
    uint64_t offset = 0, length = 0;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        for (int k = 0; k < KEYS && key && value; k++) {
            if (strcmp(key, keys[k]) != 0) continue;
            if (given[k]) /* readers differ in which they take */
                return qb_fail(cx, QB_STATUS_FORMAT, "external data: %s is given twice", key);
            given[k] = value;
        }
    }
    const char *location = given[LOCATION];
    const bool has_length = given[LENGTH] != NULL;
    if (given[OFFSET]) QB_TRY(parse_number(cx, keys[OFFSET], given[OFFSET], &offset));
    if (has_length) QB_TRY(parse_number(cx, keys[LENGTH], given[LENGTH], &length));
    if (!location) return qb_fail(cx, QB_STATUS_FORMAT, "external data without a location");
    if (!externals->by)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "external data '%s': the model does not come from a file", location);
    const qb_map *map = NULL;
    QB_TRY_WRAP(cx, open_file(cx, externals, location, &map), "external data");
    if (offset > map->size || (has_length && length > map->size - offset))
        return qb_fail(
            cx, QB_STATUS_FORMAT, "external data '%s': bytes %llu to %llu wanted, the file has %zu",
            location, (unsigned long long)offset, (unsigned long long)(offset + length), map->size);
    *out = (qb_span){map->data + offset, has_length ? (size_t)length : map->size - (size_t)offset};
    *stored = map->stored;
    return QB_OK;
}

/* Weights take room on the disk, also where its file system compresses them: what is nearly all
 * hole is a small file that pretends. */
static bool is_hole(size_t bytes, size_t stored) {
    enum { LEAST = 256 << 20, COMPRESSION = 64 };
    return bytes >= LEAST && bytes / COMPRESSION > stored;
}

qb_status qb_external_take(qb_ctx *cx, qb_externals *externals, const Onnx__TensorProto *proto,
                           size_t expected, qb_span *out) {
    size_t stored;
    QB_TRY(find(cx, externals, proto, out, &stored));
    if (out->size != expected) return QB_OK;
    if (is_hole(out->size, stored))
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "external data of %zu bytes, of which the disk holds at most %zu: the file "
                       "is nearly all hole",
                       out->size, stored);
    externals->bytes += out->size;
    return externals->hasher ? qb_hasher_update_all(cx, externals->hasher, out->data, out->size)
                             : QB_OK;
}

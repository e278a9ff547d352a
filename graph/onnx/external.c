/* Tensor data in files beside the model. */
#include <string.h>

#include "onnx_internal.h"

#define MAX_FILES 4096

void qb_externals_close(qb_externals *externals) {
    for (size_t i = 0; i < externals->n; i++) {
        qb_map_close(&externals->file[i].map);
        qb_free(externals->file[i].name);
    }
    qb_free(externals->file);
    externals->file = NULL;
    externals->n = externals->capacity = 0;
}

/* A model must not name files outside its folder. */
static bool stays_inside(const char *location) {
    if (!*location || *location == '/') return false;
    for (const char *part = location; part;) {
        const char *slash = strchr(part, '/');
        size_t n = slash ? (size_t)(slash - part) : strlen(part);
        if (n == 2 && part[0] == '.' && part[1] == '.') return false;
        part = slash ? slash + 1 : NULL;
    }
    return true;
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
    qb_external_file file = {.name = qb_strdup(cx, location)};
    char *path = file.name ? qb_path_join(cx, externals->folder, location) : NULL;
    qb_status status = path ? qb_map_open(cx, path, &file.map) : cx->code;
    qb_free(path);
    if (status != QB_OK) {
        qb_free(file.name);
        return status;
    }
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

qb_status qb_external_find(qb_ctx *cx, qb_externals *externals, const Onnx__TensorProto *proto,
                           qb_span *out) {
    const char *location = NULL;
    uint64_t offset = 0, length = 0;
    bool has_length = false;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        if (!key || !value) continue;
        if (strcmp(key, "location") == 0) location = value;
        if (strcmp(key, "offset") == 0) QB_TRY(parse_number(cx, key, value, &offset));
        if (strcmp(key, "length") == 0) {
            QB_TRY(parse_number(cx, key, value, &length));
            has_length = true;
        }
    }
    if (!location) return qb_fail(cx, QB_STATUS_FORMAT, "external data without a location");
    if (!stays_inside(location))
        return qb_fail(cx, QB_STATUS_FORMAT,
                       "external data '%s': expected a relative path inside the model's folder",
                       location);
    if (!externals->folder)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "external data '%s': the model does not come from a file", location);
    const qb_map *map = NULL;
    QB_TRY_WRAP(cx, open_file(cx, externals, location, &map), "external data");
    if (offset > map->size || (has_length && length > map->size - offset))
        return qb_fail(
            cx, QB_STATUS_FORMAT, "external data '%s': bytes %llu to %llu wanted, the file has %zu",
            location, (unsigned long long)offset, (unsigned long long)(offset + length), map->size);
    *out = (qb_span){map->data + offset, has_length ? (size_t)length : map->size - (size_t)offset};
    externals->bytes += out->size;
    if (externals->hasher) qb_hasher_update(externals->hasher, out->data, out->size);
    return QB_OK;
}

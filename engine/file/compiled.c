/* The COMPILED section of engine files: what was compiled for the kernels of a device. */
#include <string.h>

#include "engine/file/file_internal.h"

#define KERNELS_MAX 1000000

void qb_file_compiled_put(const qb_compiled *compiled, qb_strbuf *out) {
    for (int32_t i = 0; compiled && i < qb_compiled_count(compiled); i++) {
        qb_hash key;
        size_t bytes;
        const void *data = qb_compiled_entry(compiled, i, &key, &bytes);
        const uint32_t size = (uint32_t)bytes; /* see QB_FILE_COMPILED_MAX */
        qb_strbuf_addn(out, (const char *)&key, sizeof key);
        qb_strbuf_addn(out, (const char *)&size, sizeof size);
        qb_strbuf_addn(out, data, bytes);
    }
}

static qb_status add(qb_ctx *cx, const char *path, qb_compiled *to, const char **at, size_t left) {
    qb_hash key;
    uint32_t size;
    const size_t head = sizeof key + sizeof size;
    if (left >= head) {
        memcpy(&key, *at, sizeof key);
        memcpy(&size, *at + sizeof key, sizeof size);
    }
    if (left < head || size > QB_FILE_COMPILED_MAX || size > left - head || qb_hash_is_zero(key) ||
        qb_compiled_count(to) == KERNELS_MAX)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged engine file: a compiled kernel", path);
    QB_TRY(qb_compiled_borrow(cx, to, key, *at + head, size));
    *at += head + size;
    return QB_OK;
}

qb_status qb_file_compiled_get(qb_ctx *cx, const char *path, const void *bytes, size_t size,
                               qb_compiled **out) {
    const char *at = bytes, *const end = at + size;
    qb_compiled *compiled;
    QB_TRY(qb_compiled_create(cx, &compiled));
    while (at < end) {
        if (add(cx, path, compiled, &at, (size_t)(end - at)) == QB_OK) continue;
        qb_compiled_free(compiled);
        return cx->code;
    }
    *out = compiled;
    return QB_OK;
}

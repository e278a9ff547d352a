#include "file_kind.h"

#include <string.h>

static const qb_file_kind kinds[] = {
#define QB_FILE_KIND(AT, BYTES, WITHIN, WHAT, ADVICE)                                              \
    {AT, BYTES, sizeof(BYTES) - 1, WITHIN, WHAT, ADVICE},
#include "file_kinds.inc"
#undef QB_FILE_KIND
};

static bool holds(const char *data, size_t size, const char *text) {
    const size_t n = strlen(text);
    for (size_t at = 0; at + n <= size; at++)
        if (memcmp(data + at, text, n) == 0) return true;
    return false;
}

static bool is(const qb_file_kind *kind, const char *data, size_t size) {
    return size >= kind->at + kind->n && memcmp(data + kind->at, kind->bytes, kind->n) == 0 &&
           holds(data, size < QB_FILE_KIND_BYTES ? size : QB_FILE_KIND_BYTES, kind->within);
}

const qb_file_kind *qb_file_kind_of(const void *data, size_t size) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is(&kinds[i], data, size)) return &kinds[i];
    return NULL;
}

qb_status qb_fail_kind(qb_ctx *cx, const char *why, const void *data, size_t size) {
    const qb_file_kind *kind = qb_file_kind_of(data, size);
    if (!kind) return qb_fail(cx, QB_STATUS_FORMAT, "%s", why);
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: it is %s: %s", why, kind->what, kind->advice);
}

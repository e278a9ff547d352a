/* .npy: magic, version, a Python dictionary as text, the elements. Written from numpy's description
 * of the format (numpy.lib.format). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "datasets_internal.h"

#define HEADER_MAX 65536 /* far above what any array needs */

typedef struct header {
    qb_ctx *cx;
    const char *name; /* of the file, for messages */
    char text[HEADER_MAX + 1];
} header;

static qb_status malformed(const header *h, const char *what) {
    return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: .npy header: %s", h->name, what);
}

/* What follows 'key': in the dictionary, NULL when absent or there twice. */
static const char *value_of(const header *h, const char *key) {
    const char *value = NULL;
    for (const char *at = h->text; (at = strstr(at, key)); at++) {
        const char quote = at > h->text ? at[-1] : ' ';
        const char *end = at + strlen(key);
        if ((quote != '\'' && quote != '"') || *end != quote) continue;
        end += 1 + strspn(end + 1, " ");
        if (*end != ':') continue;
        if (value) return NULL;
        value = end + 1 + strspn(end + 1, " ");
    }
    return value;
}

static qb_status read_descr(const header *h, qb_dtype *out) {
    static const struct {
        const char *text;
        qb_dtype dtype;
    } known[] = {{"f4", QB_DTYPE_F32}, {"f8", QB_DTYPE_F64}, {"f2", QB_DTYPE_F16},
                 {"u1", QB_DTYPE_U8},  {"u2", QB_DTYPE_U16}, {"u4", QB_DTYPE_U32},
                 {"u8", QB_DTYPE_U64}, {"i1", QB_DTYPE_S8},  {"i2", QB_DTYPE_S16},
                 {"i4", QB_DTYPE_S32}, {"i8", QB_DTYPE_S64}, {"b1", QB_DTYPE_BOOL}};
    const char *value = value_of(h, "descr");
    if (!value || (*value != '\'' && *value != '"')) return malformed(h, "expected one 'descr'");
    char order = value[1];
    for (size_t i = 0; i < sizeof known / sizeof *known && order != '\0'; i++) {
        if (strncmp(value + 2, known[i].text, 2) != 0 || value[4] != value[0]) continue;
        if (order == '<' || order == '|' || (order != '>' && qb_dtype_size(known[i].dtype) == 1)) {
            *out = known[i].dtype;
            return QB_OK;
        }
    }
    const char quote[] = {value[0], '\0'};
    const size_t n = 2 + strcspn(value + 1, quote); /* or to the end, which is zero */
    return qb_fail(h->cx, QB_STATUS_UNSUPPORTED,
                   "%s: elements of type %.*s: expected little-endian numbers (<f4, <i8, |u1, ...)",
                   h->name, n < 24 ? (int)n : 24, value);
}

static qb_status read_shape(const header *h, qb_shape *out) {
    const char *at = value_of(h, "shape");
    if (!at || *at != '(') return malformed(h, "expected one 'shape'");
    *out = (qb_shape){0};
    for (at++; *(at += strspn(at, " ,")) != ')';) {
        char *end;
        if (!isdigit((unsigned char)*at)) return malformed(h, "'shape' is no tuple of numbers");
        if (out->rank == QB_MAX_RANK) return malformed(h, "more than 8 dimensions");
        const long long size = strtoll(at, &end, 10);
        if (size > (1LL << 48)) return malformed(h, "a dimension is too large");
        out->dim[out->rank++] = size;
        at = end + (*end == 'L');
    }
    return QB_OK;
}

static qb_status read_order(const header *h, const qb_shape *shape) {
    const char *value = value_of(h, "fortran_order");
    if (!value) return malformed(h, "expected one 'fortran_order'");
    const size_t word = strspn(value, "TrueFals");
    const bool columns = word == 4 && strncmp(value, "True", word) == 0;
    if (!columns && (word != 5 || strncmp(value, "False", word) != 0))
        return malformed(h, "'fortran_order' is neither True nor False");
    if (!columns || shape->rank < 2) return QB_OK;
    return qb_fail(h->cx, QB_STATUS_UNSUPPORTED,
                   "%s: the array is column-major: save numpy.ascontiguousarray(x)", h->name);
}

/* Copies the dictionary out; *data is where the elements begin. */
static qb_status read_header(header *h, const uint8_t *bytes, size_t size, size_t *data) {
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return malformed(h, "no magic: is this an .npy file?");
    const bool wide = bytes[6] >= 2;
    if (bytes[6] < 1 || bytes[6] > 3 || (wide && size < 12)) return malformed(h, "unknown version");
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (wide) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    const size_t begin = wide ? 12 : 10;
    if (length > HEADER_MAX || length > size - begin) return malformed(h, "truncated");
    memcpy(h->text, bytes + begin, length);
    h->text[length] = '\0';
    *data = begin + length;
    return QB_OK;
}

static qb_status look(header *h, const uint8_t *bytes, size_t n, size_t size, qb_desc *desc,
                      size_t *data) {
    qb_dtype dtype;
    qb_shape shape;
    QB_TRY(read_header(h, bytes, n, data));
    QB_TRY(read_descr(h, &dtype));
    QB_TRY(read_shape(h, &shape));
    QB_TRY(read_order(h, &shape));
    *desc = qb_tensor_of(dtype, shape, NULL).desc;
    const size_t expected = qb_desc_bytes(desc);
    if (expected == size - *data) return QB_OK;
    char text[128];
    return qb_fail(h->cx, QB_STATUS_FORMAT, "%s: %s of shape %s: expected %zu bytes, got %zu",
                   h->name, qb_dtype_text(dtype), qb_shape_text(&shape, text, sizeof text),
                   expected, size - *data);
}

qb_status qb_npy_look(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t n, size_t size,
                      qb_desc *desc, size_t *data) {
    QB_FREED header *h = QB_NEW(cx, qb_alloc(cx, 1, sizeof *h));
    h->cx = cx;
    h->name = name;
    return look(h, bytes, n, size, desc, data);
}

qb_status qb_npy_view(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                      qb_tensor *out) {
    qb_desc desc;
    size_t data;
    QB_TRY(qb_npy_look(cx, name, bytes, size, size, &desc, &data));
    *out = (qb_tensor){desc, (void *)(uintptr_t)(bytes + data)};
    return QB_OK;
}

/* .npz: a ZIP archive with one .npy an array, stored or deflated (APPNOTE.TXT of the format). The
 * central directory at the end is what counts; sizes in it are checked against the file before
 * memory depends on them, and contents against their CRC-32. The header of each array is read first
 * of all: what it says must be what the directory says, and only arrays that are asked for are
 * unpacked. */
#include <string.h>

#include <zlib.h>

#include "datasets_internal.h"

#define END_SIZE 22 /* end of central directory, without comment */
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define COMMENT_MAX 65535
#define DEFLATE_MOST 1032              /* deflate cannot shrink by more than this factor */
#define UNPACKED_MAX ((size_t)4 << 30) /* of all arrays of a file together */
#define HEADER_MOST (12 + 65536)       /* of a .npy */

typedef struct archive {
    qb_ctx *cx;
    const char *name;
    const uint8_t *bytes;
    size_t size;
} archive;

typedef struct entry {
    char name[256];
    int method;
    uint32_t crc;
    uint64_t packed, unpacked, offset; /* offset: of the local header */
} entry;

static uint64_t little(const uint8_t *p, int n) {
    uint64_t value = 0;
    for (int i = n - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

static qb_status malformed(const archive *a, const char *what) {
    return qb_fail(a->cx, QB_STATUS_FORMAT, "%s: ZIP archive: %s", a->name, what);
}

static const uint8_t *find_end(const archive *a) {
    if (a->size < END_SIZE) return NULL;
    const size_t most = a->size - END_SIZE, least = most > COMMENT_MAX ? most - COMMENT_MAX : 0;
    for (size_t at = most;; at--) {
        if (memcmp(a->bytes + at, "PK\5\6", 4) == 0) return a->bytes + at;
        if (at == least) return NULL;
    }
}

/* Sizes and offset that did not fit into 32 bits follow in the extra field of kind 1. */
static void read_wide(entry *e, const uint8_t *extra, size_t n) {
    uint64_t *const field[] = {&e->unpacked, &e->packed, &e->offset};
    while (n >= 4) {
        size_t length = (size_t)little(extra + 2, 2);
        if (length > n - 4) return;
        if (little(extra, 2) == 1) {
            const uint8_t *at = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX) continue;
                if (length < 8) return;
                *field[i] = little(at, 8);
                at += 8;
                length -= 8;
            }
            return;
        }
        extra += 4 + length;
        n -= 4 + length;
    }
}

/* Reads the directory entry at *at and moves on. */
static qb_status read_entry(const archive *a, size_t *at, entry *out) {
    if (a->size - *at < ENTRY_SIZE || memcmp(a->bytes + *at, "PK\1\2", 4) != 0)
        return malformed(a, "truncated directory");
    const uint8_t *p = a->bytes + *at;
    const size_t n_name = (size_t)little(p + 28, 2), n_extra = (size_t)little(p + 30, 2);
    const size_t whole = ENTRY_SIZE + n_name + n_extra + (size_t)little(p + 32, 2);
    if (a->size - *at < whole) return malformed(a, "truncated directory");
    if (n_name >= sizeof out->name || memchr(p + ENTRY_SIZE, '\0', n_name))
        return malformed(a, "an array's name is too long");
    if (p[8] & 1) return malformed(a, "encrypted");
    *out = (entry){.method = (int)little(p + 10, 2),
                   .crc = (uint32_t)little(p + 16, 4),
                   .packed = little(p + 20, 4),
                   .unpacked = little(p + 24, 4),
                   .offset = little(p + 42, 4)};
    memcpy(out->name, p + ENTRY_SIZE, n_name);
    read_wide(out, p + ENTRY_SIZE + n_name, n_extra);
    *at += whole;
    return QB_OK;
}

/* Where the packed bytes of an entry lie. */
static qb_status locate(const archive *a, const entry *e, const uint8_t **out) {
    if (e->offset > a->size || a->size - e->offset < LOCAL_SIZE ||
        memcmp(a->bytes + e->offset, "PK\3\4", 4) != 0)
        return malformed(a, "no local header where the directory says");
    const uint8_t *p = a->bytes + e->offset;
    const uint64_t begin = LOCAL_SIZE + little(p + 26, 2) + little(p + 28, 2);
    const uint64_t left = a->size - e->offset;
    if (begin > left || e->packed > left - begin) return malformed(a, "truncated");
    *out = p + begin;
    return QB_OK;
}

/* The next n bytes of a stream of which `in_left` packed ones are left; false where there are
 * fewer.
 */
static bool inflate_some(z_stream *z, uint64_t *in_left, uint8_t *out, uint64_t n) {
    int state = Z_OK;
    z->next_out = out;
    while (n > 0 && state == Z_OK) {
        const uInt in = *in_left > 1 << 30 ? 1 << 30 : (uInt)*in_left;
        const uInt capacity = n > 1 << 30 ? 1 << 30 : (uInt)n;
        z->avail_in = in;
        z->avail_out = capacity;
        state = inflate(z, Z_NO_FLUSH);
        *in_left -= in - z->avail_in;
        n -= capacity - z->avail_out;
        if (in == z->avail_in && capacity == z->avail_out) break;
    }
    return n == 0 && (state == Z_OK || state == Z_STREAM_END);
}

/* Nothing follows? */
static bool inflate_ends(z_stream *z, uint64_t in_left) {
    uint8_t more;
    z->next_out = &more;
    z->avail_out = 1;
    z->avail_in = in_left > 1 << 30 ? 1 << 30 : (uInt)in_left;
    return inflate(z, Z_NO_FLUSH) == Z_STREAM_END && z->avail_out == 1;
}

static uint32_t crc_of(uint32_t before, const uint8_t *bytes, uint64_t n) {
    uLong crc = before;
    for (uint64_t at = 0; at < n;) {
        const uInt part = n - at > 1 << 30 ? 1 << 30 : (uInt)(n - at);
        crc = crc32(crc, bytes + at, part);
        at += part;
    }
    return (uint32_t)crc;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* What the header of a deflated array says. */
static qb_status look_inside(const archive *a, const entry *e, const uint8_t *packed,
                             qb_npz_array *out) {
    z_stream z = {0};
    uint64_t left = e->packed;
    const size_t n = e->unpacked < HEADER_MOST ? (size_t)e->unpacked : HEADER_MOST;
    if (e->unpacked / DEFLATE_MOST > e->packed + 1) return malformed(a, "sizes do not fit");
    QB_FREED uint8_t *head = QB_NEW(a->cx, qb_alloc(a->cx, n, 1));
    z.next_in = (Bytef *)(uintptr_t)packed;
    bool whole = inflateInit2(&z, -MAX_WBITS) == Z_OK;
    whole = whole && inflate_some(&z, &left, head, n);
    inflateEnd(&z);
    QB_TRY(whole ? QB_OK : malformed(a, "damaged deflate data"));
    if (n == e->unpacked && crc_of(0, head, n) != e->crc)
        return malformed(a, "an array does not have its checksum");
    return qb_npy_look(a->cx, e->name, head, n, (size_t)e->unpacked, &out->view.desc, &out->data);
}

static qb_status look(const archive *a, const entry *e, qb_npz_array *out) {
    const uint8_t *bytes;
    QB_TRY(locate(a, e, &bytes));
    if (e->method == Z_DEFLATED) {
        QB_TRY(look_inside(a, e, bytes, out));
    } else if (e->method != 0) {
        return qb_fail(a->cx, QB_STATUS_UNSUPPORTED,
                       "%s: ZIP method %d: expected stored or deflated", a->name, e->method);
    } else if (e->packed != e->unpacked) {
        return malformed(a, "sizes do not fit");
    } else {
        QB_TRY(qb_npy_look(a->cx, e->name, bytes, (size_t)e->packed, (size_t)e->unpacked,
                           &out->view.desc, &out->data));
    }
    QB_TRY_NEW(a->cx, out->name = qb_strdup(a->cx, e->name));
    out->name[strlen(e->name) - 4] = '\0'; /* .npy */
    out->bytes = bytes;
    out->packed = e->packed;
    out->unpacked = e->unpacked;
    out->crc = e->crc;
    out->deflated = e->method == Z_DEFLATED;
    return QB_OK;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static bool inflate_all(const qb_npz_array *array, uint8_t *head, uint8_t *out) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)array->bytes};
    uint64_t left = array->packed;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    const bool whole = inflate_some(&z, &left, head, array->data) &&
                       inflate_some(&z, &left, out, array->unpacked - array->data) &&
                       inflate_ends(&z, left);
    inflateEnd(&z);
    return whole;
}

static qb_status unpack(qb_ctx *cx, qb_npz_array *array) {
    QB_FREED uint8_t *head = QB_NEW(cx, qb_alloc(cx, array->data, 1));
    const size_t n = (size_t)(array->unpacked - array->data);
    QB_FREED uint8_t *data = QB_NEW(cx, qb_alloc_aligned(cx, 1, n + 1));
    if (!inflate_all(array, head, data))
        return qb_fail(cx, QB_STATUS_FORMAT, "ZIP archive: damaged deflate data");
    if (crc_of(crc_of(0, head, array->data), data, n) != array->crc)
        return qb_fail(cx, QB_STATUS_FORMAT, "ZIP archive: an array does not have its checksum");
    array->own = array->view.data = QB_MOVE(data);
    return QB_OK;
}

static qb_status use_stored(qb_ctx *cx, qb_npz_array *array) {
    if (crc_of(0, array->bytes, array->unpacked) != array->crc)
        return qb_fail(cx, QB_STATUS_FORMAT, "ZIP archive: an array does not have its checksum");
    array->view.data = (void *)(uintptr_t)(array->bytes + array->data);
    return QB_OK;
}

qb_status qb_npz_load(qb_ctx *cx, const char *name, qb_npz_array *array) {
    if (array->view.data) return QB_OK;
    const qb_status status = array->deflated ? unpack(cx, array) : use_stored(cx, array);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s: array '%s'", name, array->name);
}

/* ---- the archive ----------------------------------------------------------------------------- */

static qb_status read_all(archive *a, qb_npz *npz) {
    const uint8_t *end = find_end(a);
    if (!end) return malformed(a, "no directory at the end (truncated?)");
    const uint64_t n = little(end + 10, 2), begin = little(end + 16, 4);
    if (begin > (uint64_t)(end - a->bytes))
        return malformed(a, "no directory where the end says (archives over 4 GB are not read)");
    if (little(end + 8, 2) != n) return malformed(a, "a part of its directory is in another file");
    size_t at = (size_t)begin;
    uint64_t unpacked = 0;
    for (uint64_t i = 0; i < n; i++) {
        entry e;
        QB_TRY(read_entry(a, &at, &e));
        if (strlen(e.name) < 5 || strcmp(e.name + strlen(e.name) - 4, ".npy") != 0) continue;
        if (npz->n == QB_INPUTS_MAX) return malformed(a, "too many arrays");
        QB_TRY_WRAP(a->cx, look(a, &e, &npz->array[npz->n]), "array '%s'", e.name);
        const qb_npz_array *array = &npz->array[npz->n++];
        for (int32_t k = 0; k < npz->n - 1; k++)
            if (strcmp(npz->array[k].name, array->name) == 0)
                return malformed(a, "two arrays of one name");
        if (!array->deflated) continue;
        if (array->unpacked > UNPACKED_MAX - unpacked)
            return qb_fail(a->cx, QB_STATUS_UNSUPPORTED,
                           "%s: deflated arrays over %zu bytes: save with numpy.savez, or as HDF5",
                           a->name, UNPACKED_MAX);
        unpacked += array->unpacked;
    }
    if (at - begin != little(end + 12, 4)) /* other readers find the directory by its size */
        return malformed(a, "the directory has another size than the end says");
    return npz->n > 0 ? QB_OK : malformed(a, "it holds no array (.npy)");
}

qb_status qb_npz_open(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                      qb_npz *out) {
    archive a = {cx, name, bytes, size};
    QB_RELEASED(qb_npz_close) qb_npz npz = {0};
    QB_TRY(read_all(&a, &npz));
    *out = QB_MOVE(npz);
    return QB_OK;
}

void qb_npz_close(qb_npz *npz) {
    for (int32_t i = 0; i < npz->n; i++) QB_FREE_ALL(npz->array[i].name, npz->array[i].own);
    memset(npz, 0, sizeof *npz);
}

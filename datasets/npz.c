/* .npz: a ZIP archive with one .npy an array, stored or deflated (APPNOTE.TXT of the format). The
 * central directory at the end is what counts; sizes in it are checked against the file before
 * memory depends on them, and contents against their CRC-32. */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "datasets_internal.h"

#define END_SIZE 22 /* end of central directory, without comment */
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define COMMENT_MAX 65535
#define DEFLATE_MOST 1032              /* deflate cannot shrink by more than this factor */
#define UNPACKED_MAX ((size_t)4 << 30) /* of all arrays of a file together */

typedef struct archive {
    qb_ctx *cx;
    const char *name;
    const uint8_t *bytes;
    size_t size;
    size_t unpacked; /* memory taken so far */
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

static bool inflate_all(const uint8_t *packed, const entry *e, uint8_t *out) {
    z_stream z = {0};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    uint64_t in_left = e->packed, out_left = e->unpacked;
    z.next_in = (Bytef *)(uintptr_t)packed;
    z.next_out = out;
    int state = Z_OK;
    while (state == Z_OK) {
        const uInt in = in_left > 1 << 30 ? 1 << 30 : (uInt)in_left;
        const uInt room = out_left > 1 << 30 ? 1 << 30 : (uInt)out_left;
        z.avail_in = in;
        z.avail_out = room;
        state = inflate(&z, Z_NO_FLUSH);
        in_left -= in - z.avail_in;
        out_left -= room - z.avail_out;
        if (state == Z_OK && in == z.avail_in && room == z.avail_out) break;
    }
    inflateEnd(&z);
    return state == Z_STREAM_END && out_left == 0;
}

static qb_status unpack(archive *a, const entry *e, const uint8_t *packed, uint8_t **own) {
    if (e->unpacked / DEFLATE_MOST > e->packed + 1) return malformed(a, "sizes do not fit");
    if (e->unpacked > UNPACKED_MAX - a->unpacked)
        return qb_fail(a->cx, QB_STATUS_UNSUPPORTED,
                       "%s: deflated arrays over %zu bytes: save with numpy.savez, or as HDF5",
                       a->name, UNPACKED_MAX);
    *own = qb_alloc_aligned(a->cx, 1, (size_t)e->unpacked + 1);
    if (!*own) return a->cx->code;
    a->unpacked += (size_t)e->unpacked;
    if (inflate_all(packed, e, *own)) return QB_OK;
    qb_free(*own);
    *own = NULL;
    return malformed(a, "damaged deflate data");
}

static bool crc_fits(const entry *e, const uint8_t *bytes) {
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t at = 0; at < e->unpacked;) {
        const uInt n = e->unpacked - at > 1 << 30 ? 1 << 30 : (uInt)(e->unpacked - at);
        crc = crc32(crc, bytes + at, n);
        at += n;
    }
    return crc == e->crc;
}

static qb_status read_array(archive *a, const entry *e, qb_npz_array *out) {
    const uint8_t *bytes;
    uint8_t *own = NULL;
    QB_TRY(locate(a, e, &bytes));
    if (e->method == Z_DEFLATED) {
        QB_TRY(unpack(a, e, bytes, &own));
        bytes = own;
    } else if (e->method != 0) {
        return qb_fail(a->cx, QB_STATUS_UNSUPPORTED,
                       "%s: ZIP method %d: expected stored or deflated", a->name, e->method);
    } else if (e->packed != e->unpacked) {
        return malformed(a, "sizes do not fit");
    }
    qb_status status = QB_OK;
    qb_tensor view;
    if (!crc_fits(e, bytes)) QB_GO(malformed(a, "an array does not have its checksum"));
    QB_GO(qb_npy_view(a->cx, e->name, bytes, (size_t)e->unpacked, &view));
    out->name = qb_strdup(a->cx, e->name);
    if (!out->name) QB_GO(a->cx->code);
    out->name[strlen(e->name) - 4] = '\0'; /* .npy */
    out->view = view;
    out->own = own;
    own = NULL;
out:
    qb_free(own);
    return status;
}

static qb_status read_all(archive *a, qb_npz *npz) {
    const uint8_t *end = find_end(a);
    if (!end) return malformed(a, "no directory at the end (truncated?)");
    const uint64_t n = little(end + 10, 2), begin = little(end + 16, 4);
    if (begin > (uint64_t)(end - a->bytes))
        return malformed(a, "no directory where the end says (archives over 4 GB are not read)");
    size_t at = (size_t)begin;
    for (uint64_t i = 0; i < n; i++) {
        entry e;
        QB_TRY(read_entry(a, &at, &e));
        if (strlen(e.name) < 5 || strcmp(e.name + strlen(e.name) - 4, ".npy") != 0) continue;
        if (npz->n == QB_INPUTS_MAX) return malformed(a, "too many arrays");
        QB_TRY_WRAP(a->cx, read_array(a, &e, &npz->array[npz->n]), "array '%s'", e.name);
        npz->n++;
    }
    return npz->n > 0 ? QB_OK : malformed(a, "it holds no array (.npy)");
}

qb_status qb_npz_open(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                      qb_npz *out) {
    archive a = {cx, name, bytes, size, 0};
    qb_npz npz = {0};
    qb_status status = read_all(&a, &npz);
    if (status == QB_OK)
        *out = npz;
    else
        qb_npz_close(&npz);
    return status;
}

void qb_npz_close(qb_npz *npz) {
    for (int32_t i = 0; i < npz->n; i++) {
        qb_free(npz->array[i].name);
        qb_free(npz->array[i].own);
    }
    memset(npz, 0, sizeof *npz);
}

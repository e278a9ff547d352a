#include "datasets/unpacked_internal.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/open.h"

enum {
    BLOCK = 1 << 14, /* read at once: what lies between headers is stepped over */
    STREAMS = 3      /* of two readers, one of them at the seam of two files */
};
#define KEPT ((size_t)16 << 20) /* of a stream, behind the sample read last */

/* Bytes [from, from + n) of what a file unpacks to. */
typedef struct stream {
    const char *path; /* NULL: not open */
    qb_opened file;
    struct archive *archive;
    uint8_t *data;
    uint64_t from, used; /* used: the number of its last use */
    size_t n, capacity;
} stream;

struct qb_unpacked {
    pthread_mutex_t lock;
    stream stream[STREAMS];
    uint64_t uses;
};

const char *qb_archive_reason(struct archive *a) {
    const char *why = archive_error_string(a);
    return why ? why : "libarchive cannot read it";
}

static qb_status fail(qb_ctx *cx, struct archive *a) {
    return qb_fail(cx, QB_STATUS_FORMAT, "%s", qb_archive_reason(a));
}

qb_status qb_archive_open(qb_ctx *cx, int fd, int (*format)(struct archive *),
                          struct archive **out) {
    struct archive *a = archive_read_new();
    if (!a) return qb_fail(cx, QB_STATUS_NOMEM, "libarchive: out of memory");
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    format(a);
    qb_status status = QB_OK;
    if (archive_read_open_fd(a, fd, BLOCK) != ARCHIVE_OK) status = fail(cx, a);
    if (status == QB_OK)
        *out = a;
    else
        archive_read_free(a);
    return status;
}

/* One member after the other; what follows the last one and is none is no matter, as to gzip. */
qb_status qb_gzip_check(qb_ctx *cx, int fd, uint64_t most, const char **why) {
    enum { GZIP = 15 + 16 }; /* zlib: with its header and checksum */
    uint8_t in[BLOCK], out[4 * BLOCK];
    z_stream z = {0};
    uint64_t total = 0;
    bool member = false; /* has one begun? */
    int state = Z_OK;
    qb_status status = QB_OK;
    ssize_t n = pread(fd, in, sizeof in, 0);
    if (n < 2 || in[0] != 0x1f || in[1] != 0x8b) return QB_OK;
    if (inflateInit2(&z, GZIP) != Z_OK) return qb_fail(cx, QB_STATUS_NOMEM, "zlib: out of memory");
    for (off_t at = 0; n > 0 && !*why; n = pread(fd, in, sizeof in, at)) {
        QB_GO(qb_check_cancel(cx));
        at += n;
        z.next_in = in;
        z.avail_in = (uInt)n;
        while (z.avail_in > 0 && !*why) {
            if (state == Z_STREAM_END) {
                if (*z.next_in != 0x1f) goto out;
                inflateReset(&z);
            }
            z.next_out = out;
            z.avail_out = sizeof out;
            state = inflate(&z, Z_NO_FLUSH);
            member = state == Z_OK || state == Z_BUF_ERROR;
            total += sizeof out - z.avail_out;
            if (total > most) *why = "it unpacks to over 200 times its size";
            if (state != Z_STREAM_END && !member)
                *why = "its contents are not those that its checksum is of";
        }
    }
    if (member && !*why) *why = "truncated gzip input";
out:
    inflateEnd(&z);
    return status;
}

qb_status qb_unpacked_create(qb_ctx *cx, qb_unpacked **out) {
    qb_unpacked *u = QB_NEW(cx, qb_alloc(cx, 1, sizeof *u));
    pthread_mutex_init(&u->lock, NULL);
    *out = u;
    return QB_OK;
}

static void close_stream(stream *s) {
    if (!s->path) return;
    archive_read_free(s->archive);
    qb_opened_close(&s->file);
    qb_free(s->data);
    *s = (stream){0};
}

void qb_unpacked_free(qb_unpacked *u) {
    if (!u) return;
    for (int i = 0; i < STREAMS; i++) close_stream(&u->stream[i]);
    pthread_mutex_destroy(&u->lock);
    qb_free(u);
}

static qb_status open_stream(qb_ctx *cx, const char *path, stream *s) {
    struct archive_entry *all;
    qb_opened file;
    struct archive *a;
    close_stream(s);
    QB_TRY(qb_open_regular(cx, path, &file));
    qb_status status = qb_archive_open(cx, file.fd, archive_read_support_format_raw, &a);
    if (status == QB_OK) *s = (stream){.path = path, .file = file, .archive = a};
    if (status != QB_OK) qb_opened_close(&file);
    if (status == QB_OK && archive_read_next_header(a, &all) != ARCHIVE_OK) {
        status = fail(cx, a);
        close_stream(s);
    }
    return status;
}

/* The next bytes of the stream; of those before `at` the last ones stay. */
static qb_status unpack_more(qb_ctx *cx, stream *s, uint64_t at) {
    const void *block;
    size_t n;
    la_int64_t place;
    QB_TRY(qb_check_cancel(cx));
    const int state = archive_read_data_block(s->archive, &block, &n, &place);
    if (state == ARCHIVE_EOF)
        return qb_fail(cx, QB_STATUS_FORMAT, "it unpacks to %llu bytes",
                       (unsigned long long)(s->from + s->n));
    if (state < ARCHIVE_WARN) return fail(cx, s->archive);
    const uint64_t old = at - s->from;
    if (old > 2 * KEPT) { /* else each block would move what is kept */
        const size_t gone = old - KEPT < s->n ? (size_t)old - KEPT : s->n;
        s->n -= gone;
        s->from += gone;
        memmove(s->data, s->data + gone, s->n);
    }
    QB_TRY(qb_grow(cx, &s->data, &s->capacity, s->n + n, 1));
    memcpy(s->data + s->n, block, n);
    s->n += n;
    return QB_OK;
}

static qb_status read_stream(qb_ctx *cx, stream *s, uint64_t at, size_t size, uint8_t *out) {
    while (s->from + s->n < at + size) QB_TRY(unpack_more(cx, s, at));
    memcpy(out, s->data + (at - s->from), size);
    return QB_OK;
}

qb_status qb_unpacked_read(qb_ctx *cx, qb_unpacked *u, const char *path, uint64_t at, size_t size,
                           uint8_t *out) {
    pthread_mutex_lock(&u->lock);
    stream *s = &u->stream[0];
    for (int i = 0; i < STREAMS; i++)
        if (u->stream[i].used < s->used) s = &u->stream[i];
    for (int i = 0; i < STREAMS; i++)
        if (u->stream[i].path == path && u->stream[i].from <= at) s = &u->stream[i];
    qb_status status = QB_OK;
    if (s->path != path || s->from > at) status = open_stream(cx, path, s);
    if (status == QB_OK) status = read_stream(cx, s, at, size, out);
    if (status != QB_OK) close_stream(s);
    s->used = ++u->uses;
    pthread_mutex_unlock(&u->lock);
    return status;
}

/* What libarchive reads. A packed file (gzip, zstd) is a stream: a place in it is found by
 * unpacking all before it. */
#ifndef QB_DATASETS_UNPACKED_INTERNAL_H
#define QB_DATASETS_UNPACKED_INTERNAL_H

#include <archive.h>

#include "base/ctx.h"

/* Opens what fd holds, from where it stands; gzip and zstd are unpacked. `format` is one of
 * archive_read_support_format_*. Free with archive_read_free. */
qb_status qb_archive_open(qb_ctx *cx, int fd, int (*format)(struct archive *),
                          struct archive **out);
/* The library's words for its last failure; they live as long as the archive. */
const char *qb_archive_reason(struct archive *archive);

/* What libarchive leaves to others: whether a gzip file (any other is fine) holds what
 * its checksums say, and unpacks to at most `most` bytes. *why: it does not; a text for ever. */
qb_status qb_gzip_check(qb_ctx *cx, int fd, uint64_t most, const char **why);

/* Reading of bytes of packed files, by threads that go through them about in order. A few streams
 * stay open, each with the last bytes that it passed; before those it begins anew. */
typedef struct qb_unpacked qb_unpacked;
qb_status qb_unpacked_create(qb_ctx *cx, qb_unpacked **out);
void qb_unpacked_free(qb_unpacked *unpacked); /* accepts NULL */
/* `size` bytes from `at` of what the file unpacks to. `path` outlives the streams. */
qb_status qb_unpacked_read(qb_ctx *cx, qb_unpacked *unpacked, const char *path, uint64_t at,
                           size_t size, uint8_t *out);

#endif

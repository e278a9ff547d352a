/* Samples that lie one after another in a few large files (tar, TFRecord, LMDB). What stands around
 * them is read once, to list them; then each is read from where it lies. So memory holds a list,
 * and any thread, process or resumed run reads any sample. */
#ifndef QB_DATASETS_SHARDS_H
#define QB_DATASETS_SHARDS_H

#include "datasets/datasets_internal.h"

/* Bytes of a file, or in memory, that are looked at in places. */
typedef struct qb_bytes {
    const uint8_t *data; /* in memory; NULL: through a window on the file */
    int fd;
    uint64_t size;
    uint64_t window_at; /* what `window` holds */
    size_t window_n;
    uint8_t *window; /* [QB_BYTES_WINDOW] */
} qb_bytes;
#define QB_BYTES_WINDOW ((size_t)8 << 10)
/* n bytes at a place, until the next call; NULL where there are not so many, n is more than a
 * window, or the file cannot be read. */
const uint8_t *qb_bytes_at(qb_bytes *bytes, uint64_t at, size_t n);

uint16_t qb_get_u16(const uint8_t *at);
uint32_t qb_get_u32(const uint8_t *at);
uint64_t qb_get_u64(const uint8_t *at);

/* One shard while its samples are listed. */
typedef struct qb_shard {
    qb_ctx *cx;
    qb_dataset *dataset;
    const qb_labels *labels; /* may be NULL */
    const char *name;        /* of its file, without folders */
    int32_t number;
    int64_t n; /* samples so far */
    qb_bytes bytes;
} qb_shard;

/* A sample called NAME/`name` (NULL: NAME[n]), its bytes and its label: -1 unknown. */
qb_status qb_shard_add(qb_shard *shard, const char *name, uint64_t at, uint64_t size,
                       int64_t label);
/* A sample that reading will find damaged, so that it is named and counted as others are. */
qb_status qb_shard_add_damaged(qb_shard *shard, uint64_t at, const char *why);

typedef struct qb_shard_kind {
    const char *const *suffix; /* of its files, NULL at the end */
    /* Lists the samples of a shard. What is wrong with its form is a damaged sample. */
    qb_status (*scan)(qb_shard *shard);
    /* Finds the image in a sample's bytes: *from and *n become its place. NULL: it is all of them.
     * Or makes *out of them itself. */
    qb_status (*extract)(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out);
} qb_shard_kind;

/* Is it a file or a folder of files with one of the suffixes, or a pattern of such names? */
bool qb_shards_probe(const char *path, const char *const *suffix);
/* `open`, `read` and `close` of a format of shards. */
qb_status qb_shards_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels,
                         const qb_shard_kind *kind);
qb_status qb_shards_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_image *out, qb_hash *hash);
void qb_shards_close(qb_dataset *dataset);

/* ---- protocol buffers, as far as data sets have them ---- */

/* A field of a message: a number, or bytes [at, at + size). */
typedef struct qb_proto_field {
    uint32_t number, type; /* type 0: varint; 1: 64 bits; 2: bytes; 5: 32 bits */
    uint64_t value, at, size;
} qb_proto_field;
/* The next field in [*at, end); false at the end, or where nothing sound follows (*at is not end).
 */
bool qb_proto_next(qb_bytes *bytes, uint64_t *at, uint64_t end, qb_proto_field *out);

#endif

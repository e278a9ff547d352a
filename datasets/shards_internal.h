/* Samples that lie one after another in a few large files (tar, TFRecord, LMDB). What stands around
 * them is read once, to list them; then each is read from where it lies. So memory holds a list,
 * and any thread, process or resumed run reads any sample. */
#ifndef QB_DATASETS_SHARDS_H
#define QB_DATASETS_SHARDS_H

#include "datasets/datasets_internal.h"
#include "graph/wire.h"

/* Where a sample lies. */
typedef struct qb_stretch {
    const char *path; /* of its shard */
    uint64_t at, size;
    int32_t shard;
    bool is_packed;
    const char *damage; /* why it cannot be read; NULL: it can */
} qb_stretch;

/* One shard while its samples are listed. */
typedef struct qb_shard {
    qb_ctx *cx;
    qb_dataset *dataset;
    const qb_labels *labels; /* may be NULL */
    const char *path, *name; /* of its file; without folders */
    int32_t number;
    int64_t n; /* samples so far */
    int fd;
    uint64_t size;
    bool is_packed; /* the kind reads what is added from now on: it does not lie there plainly */
    void **own;     /* the kind's, for all shards */
} qb_shard;

/* A sample called NAME/`name` (NULL: NAME[n]), its bytes and its label: -1 unknown. */
qb_status qb_shard_add(qb_shard *shard, const char *name, uint64_t at, uint64_t size,
                       int64_t label);
/* A sample that reading will find damaged, so that it is named and counted as others are. */
qb_status qb_shard_add_damaged(qb_shard *shard, uint64_t at, const char *why);
/* The same for the error at hand, where it is one of the file's form; others stay errors. */
qb_status qb_shard_end_damaged(qb_shard *shard, uint64_t at);

typedef struct qb_shard_kind {
    const char *const *suffix; /* of its files, NULL at the end */
    /* Lists the samples of a shard. What is wrong with its form is a damaged sample. */
    qb_status (*scan)(qb_shard *shard);
    /* The bytes of a sample that is packed; thread safe. NULL: none is. */
    qb_status (*read)(qb_ctx *cx, void *own, const qb_stretch *where, uint8_t *out);
    /* Finds the image in a sample's bytes, which it may move: *from and *n become its place. NULL:
     * it is all of them. Or makes *out of them itself. */
    qb_status (*extract)(qb_ctx *cx, const char *name, uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out);
    void (*close)(void *own); /* may be NULL */
} qb_shard_kind;

/* Do they begin as a JPEG or PNG file? */
bool qb_bytes_are_image(const uint8_t *bytes, size_t size);
#define QB_LABELS_ROOM ((size_t)64 << 10)
/* A message without its large fields, in `buffer`[QB_LABELS_ROOM]: what tells the label is small,
 * and images need not be read for it. Empty where the message is malformed. */
qb_span qb_message_without_large(qb_span message, uint8_t *buffer);

/* Is it a file or a folder of files with one of the suffixes, or a pattern of such names? */
bool qb_shards_probe(const char *path, const char *const *suffix);
/* `open`, `read` and `close` of a format of shards. */
qb_status qb_shards_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels,
                         const qb_shard_kind *kind);
qb_status qb_shards_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_image *out, qb_hash *hash);
/* The hash that it tells. */
qb_status qb_shards_hash(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_hash *hash);
void qb_shards_close(qb_dataset *dataset);

#endif

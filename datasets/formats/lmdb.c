/* lmdb: a database of LMDB (data.mdb, or the folder of it) whose values are image files, or Caffe's
 * Datum with an image file or raw pixels and a label. liblmdb follows what a damaged file says
 * wherever that leads, so it reads in a process of its own (base/apart.h). A database that somebody
 * writes to meanwhile, or one of several inner databases, is not for this. */
#include <lmdb.h>
#include <string.h>

#include "base/apart.h"
#include "base/file.h"
#include "datasets/shards_internal.h"
#include "records.pb-c.h"

enum { KEY_MAX = 512, ROWS = 256, NODE = 10 }; /* NODE: bytes of an entry, at least */
#define ROOM_BESIDE                                                                                \
    ((size_t)512 << 20) /* memory beside the file: of 2^24 samples, and the library */
#define SECONDS 10      /* of processor time, for ROWS samples or to copy one */

/* ASK_ALLOW comes first: limits hold from the next one on. */
typedef enum question { ASK_ALLOW, ASK_OPEN, ASK_ROWS, ASK_VALUE } question;

typedef struct row {
    char key[KEY_MAX]; /* empty: none that is text */
    uint64_t size;
    int64_t label;
} row;

typedef struct rows {
    int32_t n; /* below ROWS: the last ones */
    row row[ROWS];
} rows;

typedef struct database {
    const char *path;
    uint64_t size;
    qb_apart *apart;
    /* That process's own: */
    MDB_env *env;
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val *value; /* of the samples listed so far; they stay where they are */
    size_t n, capacity;
    uint8_t buffer[QB_LABELS_ROOM];
} database;

/* ---- in the process that reads ---- */

static qb_status check(qb_ctx *cx, int code) {
    return code == 0 ? QB_OK : qb_fail(cx, QB_STATUS_FORMAT, "%s", mdb_strerror(code));
}

static qb_status open_file(qb_ctx *cx, database *d) {
    MDB_dbi dbi;
    if (d->size == 0) return qb_fail(cx, QB_STATUS_FORMAT, "the file is empty");
    QB_TRY(check(cx, mdb_env_create(&d->env)));
    QB_TRY(check(cx, mdb_env_set_mapsize(d->env, (size_t)d->size))); /* not what the file says */
    QB_TRY(check(cx, mdb_env_open(d->env, d->path, MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR, 0)));
    QB_TRY(check(cx, mdb_txn_begin(d->env, NULL, MDB_RDONLY, &d->txn)));
    QB_TRY(check(cx, mdb_dbi_open(d->txn, NULL, 0, &dbi)));
    return check(cx, mdb_cursor_open(d->txn, dbi, &d->cursor));
}

/* As its bytes were read: fields that Datum does not have are none of it. */
static qb_status unpack_datum(qb_ctx *cx, qb_span bytes, Records__Datum **out) {
    ProtobufCMessage *message;
    QB_TRY(qb_wire_check(cx, &records__datum__descriptor, bytes));
    QB_TRY(qb_wire_unpack(cx, &records__datum__descriptor, bytes, &message));
    *out = (Records__Datum *)message;
    if (message->n_unknown_fields == 0) return QB_OK;
    qb_wire_free(message);
    return qb_fail(cx, QB_STATUS_FORMAT, "not a Datum");
}

static int64_t label_of(const MDB_val *value, uint8_t *buffer) {
    qb_ctx quiet;
    Records__Datum *datum;
    const qb_span bytes = {value->mv_data, value->mv_size};
    qb_ctx_init(&quiet);
    if (qb_bytes_are_image(bytes.data, bytes.size) ||
        unpack_datum(&quiet, qb_message_without_large(bytes, buffer), &datum) != QB_OK)
        return -1;
    const int64_t label = datum->has_label && datum->label >= 0 ? datum->label : -1;
    qb_wire_free(&datum->base);
    return label;
}

static qb_status list_rows(qb_ctx *cx, database *d, rows *out) {
    MDB_val key, value;
    out->n = 0;
    while (out->n < ROWS) {
        const int code = mdb_cursor_get(d->cursor, &key, &value, MDB_NEXT);
        if (code == MDB_NOTFOUND) return QB_OK;
        QB_TRY(check(cx, code));
        if (value.mv_size > d->size || d->n >= d->size / NODE)
            return qb_fail(cx, QB_STATUS_FORMAT, "it holds more than the file can");
        QB_TRY(qb_grow(cx, &d->value, &d->capacity, d->n + 1, sizeof *d->value));
        row *r = &out->row[out->n++];
        *r = (row){.size = value.mv_size, .label = label_of(&value, d->buffer)};
        if (key.mv_size < KEY_MAX && !memchr(key.mv_data, 0, key.mv_size))
            memcpy(r->key, key.mv_data, key.mv_size);
        d->value[d->n++] = value;
    }
    return QB_OK;
}

static qb_status answer(qb_ctx *cx, void *work, const int64_t ask[QB_APART_ASK], void *out,
                        size_t bytes) {
    database *d = work;
    switch ((question)ask[0]) {
    case ASK_ALLOW: qb_apart_allow((size_t)d->size + ROOM_BESIDE, SECONDS); return QB_OK;
    case ASK_OPEN: return open_file(cx, d);
    case ASK_ROWS: return list_rows(cx, d, out);
    case ASK_VALUE: break;
    }
    memcpy(out, d->value[ask[1]].mv_data, bytes);
    return QB_OK;
}

/* ---- in this process ---- */

/* Of each shard. */
typedef struct databases {
    size_t n, capacity;
    database **of;
} databases;

static void close_all(void *own) {
    databases *all = own;
    for (size_t i = 0; i < all->n; i++) {
        if (all->of[i]) qb_apart_end(all->of[i]->apart);
        qb_free(all->of[i]);
    }
    QB_FREE_ALL(all->of, all);
}

static qb_status start(qb_shard *s, database **out) {
    databases *all = *s->own;
    if (!all) *s->own = all = qb_alloc(s->cx, 1, sizeof *all);
    if (!all) return s->cx->code;
    QB_TRY(qb_grow(s->cx, &all->of, &all->capacity, (size_t)s->number + 1, sizeof *all->of));
    database *d = QB_NEW(s->cx, qb_alloc(s->cx, 1, sizeof *d));
    all->of[all->n++] = d;
    d->path = s->path;
    d->size = s->size;
    *out = d;
    return qb_apart_start(s->cx, s->path, answer, d, &d->apart);
}

static qb_status list(qb_shard *s, rows *found) {
    static const int64_t ask[][QB_APART_ASK] = {{ASK_ALLOW}, {ASK_OPEN}, {ASK_ROWS}};
    database *d;
    QB_TRY(start(s, &d));
    for (int i = 0; i < 2; i++)
        if (qb_apart_ask(s->cx, d->apart, ask[i], NULL, 0) != QB_OK)
            return qb_shard_end_damaged(s, 0);
    s->is_packed = true;
    do {
        if (qb_apart_ask(s->cx, d->apart, ask[2], found, sizeof *found) != QB_OK)
            return qb_shard_end_damaged(s, 0);
        for (int32_t i = 0; i < found->n; i++) {
            const row *r = &found->row[i];
            QB_TRY(qb_shard_add(s, r->key[0] ? r->key : NULL, (uint64_t)s->n, r->size, r->label));
        }
    } while (found->n == ROWS);
    return QB_OK;
}

static qb_status scan(qb_shard *s) {
    QB_FREED rows *found = qb_alloc(s->cx, 1, sizeof *found);
    return found ? list(s, found) : s->cx->code;
}

static qb_status read_value(qb_ctx *cx, void *own, const qb_stretch *where, uint8_t *out) {
    const int64_t ask[QB_APART_ASK] = {ASK_VALUE, (int64_t)where->at};
    return qb_apart_ask(cx, ((const databases *)own)->of[where->shard]->apart, ask, out,
                        (size_t)where->size);
}

/* Planes of blue, green and red become pixels of red, green and blue. */
static qb_status from_planes(qb_ctx *cx, const char *name, const Records__Datum *d, qb_image *out) {
    const int64_t channels = d->channels, n = (int64_t)d->height * d->width;
    if (d->height < 0 || d->width < 0 || d->height > 65535 || d->width > 65535 ||
        (channels != 1 && channels != 3) || (int64_t)d->data.len != n * channels)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected an image file, or one or three planes of 8 bits", name);
    QB_TRY(qb_image_create(cx, name, d->width, d->height, (int)channels, out));
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < channels; c++)
            out->pixel[i * channels + c] = d->data.data[(channels - 1 - c) * n + i];
    return QB_OK;
}

/* A Datum's image file, moved to the front, or its pixels. */
static qb_status extract(qb_ctx *cx, const char *name, uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out) {
    Records__Datum *d;
    if (qb_bytes_are_image(bytes, size)) return QB_OK;
    if (unpack_datum(cx, (qb_span){bytes, size}, &d) != QB_OK)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected a JPEG or PNG file, or Caffe's Datum", name);
    qb_status status = QB_OK;
    const bool is_file = qb_bytes_are_image(d->data.data, d->data.len);
    if (!is_file) status = from_planes(cx, name, d, out);
    if (d->data.len > 0) memcpy(bytes, d->data.data, d->data.len);
    *from = bytes;
    *n = d->data.len;
    qb_wire_free(&d->base);
    return status;
}

static const char *const suffixes[] = {".mdb", ".lmdb", NULL};
static const qb_shard_kind lmdb = {
    .suffix = suffixes, .scan = scan, .read = read_value, .extract = extract, .close = close_all};

/* A folder NAME.lmdb/ holds data.mdb and lock.mdb, of which the latter is no database. */
static bool lmdb_probe(const char *path) {
    char file[4096];
    if (!qb_path_is_dir(path)) return qb_shards_probe(path, suffixes);
    return snprintf(file, sizeof file, "%s/data.mdb", path) < (int)sizeof file &&
           qb_path_exists(file);
}

static qb_status lmdb_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    if (qb_path_is_dir(dataset->path))
        dataset->path = qb_arena_format(cx, dataset->arena, "%s/data.mdb", dataset->path);
    return dataset->path ? qb_shards_open(cx, dataset, labels, &lmdb) : cx->code;
}

const qb_dataset_format qb_format_lmdb = {
    .name = "lmdb",
    .text = "a database of LMDB (a folder with data.mdb) of image files or Caffe's Datum",
    .probe = lmdb_probe,
    .open = lmdb_open,
    .read = qb_shards_read,
    .close = qb_shards_close,
};

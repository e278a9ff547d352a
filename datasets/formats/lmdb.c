/* lmdb: a database of LMDB (data.mdb, or the folder of it) whose values are image files, or Caffe's
 * Datum with an image file or raw pixels and a label. The file is read page by page: a database
 * that somebody writes to meanwhile, or one of several inner databases, is not for this.
 *
 * The file, as mdb.c of LMDB 0.9 has it (little-endian, 64 bits): pages that begin with number (8),
 * unused (2), flags (2), lower, upper (2 each; on an overflow page their number). Pages 0 and 1
 * describe the database: magic, version, address, size, the free list's tree and the main one. */
#include <string.h>

#include "base/file.h"
#include "datasets/shards_internal.h"

enum {
    PAGE_HEAD = 16,
    MAGIC = (int)0xbeefc0de,
    TREE = 48,  /* bytes of a tree's description */
    DEPTH = 32, /* of a tree, at most */
    BRANCH = 1,
    LEAF = 2,
    OVERFLOW_PAGE = 4,
    BIG = 1,    /* a node whose value has pages of its own */
    INNER = 2,  /* a node that is a database */
    COPIES = 4, /* a node with several values */
};

typedef struct database {
    qb_shard *shard;
    uint64_t page; /* bytes of one */
    uint64_t pages;
    uint64_t visited; /* more than there are: it goes in circles */
    const char *damage;
} database;

static int64_t label_of(qb_bytes *b, uint64_t at, uint64_t size);

/* The later one of the two descriptions; false: it is no database. */
static bool read_meta(database *d, uint64_t *root) {
    uint64_t latest = 0;
    bool any = false;
    for (int i = 0; i < 2; i++) {
        const uint8_t *m = qb_bytes_at(&d->shard->bytes, (i ? d->page : 0) + PAGE_HEAD, 136);
        if (!m || qb_get_u32(m) != (uint32_t)MAGIC || qb_get_u32(m + 4) != 1) continue;
        const uint8_t *trees = m + 24;
        const uint64_t page = qb_get_u32(trees), number = qb_get_u64(trees + 2 * TREE + 8);
        if (page < 512 || page > 65536 || (page & (page - 1)) != 0) continue;
        d->page = page;
        if (any && number <= latest) continue;
        any = true;
        latest = number;
        *root = qb_get_u64(trees + TREE + 40);
    }
    if (any) d->pages = d->shard->bytes.size / d->page;
    return any;
}

static qb_status damaged(database *d, const char *why) {
    d->damage = why;
    return QB_OK;
}

/* A value of a leaf: at `node` of the page, `room` bytes to the page's end. */
static qb_status add_value(database *d, uint64_t at, uint64_t room) {
    qb_bytes *b = &d->shard->bytes;
    const uint8_t *node = qb_bytes_at(b, at, 8);
    if (!node || room < 8) return damaged(d, "a node beyond its page");
    uint64_t size = qb_get_u32(node);
    const unsigned flags = qb_get_u16(node + 4), key_size = qb_get_u16(node + 6);
    char key[512];
    uint64_t value = at + 8 + key_size;
    const uint64_t here = flags & BIG ? 8 : size;
    if (key_size >= sizeof key || 8 + key_size + here > room)
        return damaged(d, "a value beyond its page");
    if (flags & (INNER | COPIES)) return QB_OK;
    const uint8_t *text = qb_bytes_at(b, at + 8, key_size);
    if (!text) return damaged(d, "a key that cannot be read");
    memcpy(key, text, key_size);
    key[key_size] = '\0';
    if (flags & BIG) {
        const uint8_t *number = qb_bytes_at(b, value, 8);
        const uint64_t page = number ? qb_get_u64(number) : d->pages;
        if (page >= d->pages) return damaged(d, "a value on a page that is not there");
        value = page * d->page + PAGE_HEAD;
    }
    if (value > b->size || size > b->size - value)
        return damaged(d, "the file ends within a value");
    return qb_shard_add(d->shard, strlen(key) == key_size && key_size > 0 ? key : NULL, value, size,
                        label_of(b, value, size));
}

static qb_status visit(database *d, uint64_t page, int depth) {
    qb_bytes *b = &d->shard->bytes;
    const uint64_t at = page * d->page;
    const uint8_t *head = page < d->pages ? qb_bytes_at(b, at, PAGE_HEAD) : NULL;
    if (!head || depth == DEPTH || ++d->visited > d->pages)
        return damaged(d, head ? "its tree goes in circles" : "a page that is not there");
    const unsigned flags = qb_get_u16(head + 10), lower = qb_get_u16(head + 12);
    if ((flags & (BRANCH | LEAF)) == 0 || lower < PAGE_HEAD || lower > d->page)
        return damaged(d, "a page of another kind");
    for (unsigned i = 0; i < (lower - PAGE_HEAD) / 2 && !d->damage; i++) {
        const uint8_t *pointer = qb_bytes_at(b, at + PAGE_HEAD + 2 * i, 2);
        const unsigned place = pointer ? qb_get_u16(pointer) : 0;
        if (place < lower || place + 8 > d->page) return damaged(d, "a node beyond its page");
        if (flags & LEAF) {
            QB_TRY(add_value(d, at + place, d->page - place));
            continue;
        }
        const uint8_t *node = qb_bytes_at(b, at + place, 8);
        if (!node) return damaged(d, "a node that cannot be read");
        QB_TRY(visit(d, qb_get_u32(node) | (uint64_t)qb_get_u16(node + 4) << 32, depth + 1));
    }
    return QB_OK;
}

static qb_status scan(qb_shard *s) {
    database d = {.shard = s, .page = 4096};
    uint64_t root = 0;
    if (!read_meta(&d, &root)) return qb_shard_add_damaged(s, 0, "not a database of LMDB");
    if (root == UINT64_MAX) return QB_OK; /* it is empty */
    QB_TRY(visit(&d, root, 0));
    return d.damage ? qb_shard_add_damaged(s, 0, d.damage) : QB_OK;
}

/* ---- Caffe's Datum ---- */

typedef struct datum {
    uint64_t channels, height, width;
    int64_t label;
    uint64_t at, size; /* the pixels, or an image file */
    bool any;
} datum;

/* Whether these bytes are one: fields as caffe.proto numbers them, one after the other. */
static bool read_datum(qb_bytes *b, uint64_t at, uint64_t size, datum *out) {
    qb_proto_field f;
    const uint64_t end = at + size;
    *out = (datum){.label = -1};
    while (qb_proto_next(b, &at, end, &f)) {
        if (f.number < 1 || f.number > 7) return false;
        uint64_t *const slot = f.number == 1   ? &out->channels
                               : f.number == 2 ? &out->height
                               : f.number == 3 ? &out->width
                                               : NULL;
        if (slot && f.type == 0) *slot = f.value;
        if (f.number == 5 && f.type == 0) out->label = (int64_t)f.value;
        if (f.number == 4 && f.type == 2) {
            out->at = f.at;
            out->size = f.size;
            out->any = true;
        }
    }
    return at == end && out->any;
}

static bool is_image(const uint8_t *head, uint64_t size) {
    return size > 8 && head &&
           (memcmp(head, "\xff\xd8\xff", 3) == 0 || memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0);
}

static int64_t label_of(qb_bytes *b, uint64_t at, uint64_t size) {
    datum d;
    if (is_image(size > 8 ? qb_bytes_at(b, at, 8) : NULL, size)) return -1;
    return read_datum(b, at, size, &d) && d.label >= 0 ? d.label : -1;
}

/* Planes of blue, green and red become pixels of red, green and blue. */
static qb_status from_planes(qb_ctx *cx, const char *name, const uint8_t *data, const datum *d,
                             qb_image *out) {
    const int64_t channels = (int64_t)d->channels;
    if (d->height > 65535 || d->width > 65535 || (channels != 1 && channels != 3) ||
        d->size != d->height * d->width * d->channels)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected an image file, or one or three planes of 8 bits", name);
    QB_TRY(qb_image_create(cx, name, (int64_t)d->width, (int64_t)d->height, (int)channels, out));
    const int64_t n = (int64_t)(d->height * d->width);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < channels; c++)
            out->pixel[i * channels + c] = data[d->at + (uint64_t)((channels - 1 - c) * n + i)];
    return QB_OK;
}

static qb_status extract(qb_ctx *cx, const char *name, const uint8_t *bytes, size_t size,
                         const uint8_t **from, size_t *n, qb_image *out) {
    qb_bytes b = {.data = bytes, .size = size};
    datum d;
    if (is_image(bytes, size)) return QB_OK;
    if (!read_datum(&b, 0, size, &d))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: expected a JPEG or PNG file, or Caffe's Datum", name);
    *from = bytes + d.at;
    *n = (size_t)d.size;
    return is_image(*from, d.size) ? QB_OK : from_planes(cx, name, bytes, &d, out);
}

static const char *const suffixes[] = {".mdb", ".lmdb", NULL};
static const qb_shard_kind lmdb = {.suffix = suffixes, .scan = scan, .extract = extract};

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

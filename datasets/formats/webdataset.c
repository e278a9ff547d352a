/* webdataset: tar files whose members come in samples, 0001.jpg and 0001.cls one after the other:
 * an image and its class number (.cls), or a class name or number (.txt). Members with the same
 * name up to the first dot are of one sample; other members of it are left alone. libarchive reads
 * them, also packed. */
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "datasets/shards_internal.h"
#include "datasets/unpacked_internal.h"

enum { BLOCK = 512, NAME_MAX_BYTES = 4096 };
/* A packed file that unpacks to more is refused: no images are packed so well. */
#define UNPACKED_MOST(packed) (((uint64_t)64 << 20) + 200 * (uint64_t)(packed))

/* Members that say something that cannot be used, told once a shard. */
typedef struct member_count {
    int64_t n;
    char first[NAME_MAX_BYTES];
} member_count;

typedef struct unused {
    member_count images, others, labels, alone, names;
} unused;

static void count(member_count *u, const char *name) {
    if (u->n++ == 0) snprintf(u->first, sizeof u->first, "%s", name);
}

/* The sample that is being put together. */
typedef struct group {
    char key[NAME_MAX_BYTES]; /* the name up to its first dot */
    char image[NAME_MAX_BYTES];
    uint64_t at, size;
    int64_t label;
    bool any;
} group;

static qb_status end_group(qb_shard *s, group *g, unused *u) {
    if (g->any && g->image[0] != '\0') QB_TRY(qb_shard_add(s, g->image, g->at, g->size, g->label));
    if (g->any && g->image[0] == '\0' && g->label >= 0) count(&u->alone, g->key);
    *g = (group){.label = -1};
    return QB_OK;
}

/* A class's number or name; -1: it is none. */
static int64_t read_label(const qb_shard *s, struct archive *a) {
    char text[256], *end;
    const la_ssize_t n = archive_read_data(a, text, sizeof text);
    if (n < 0 || n == sizeof text) return -1;
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    const long long number = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && number >= 0) return number;
    return s->labels ? qb_labels_find(s->labels, text) : -1;
}

/* The name's part that samples share, and what follows its first dot. */
static const char *split_key(const char *name, size_t *key) {
    const char *base = qb_path_base(name), *dot = strchr(base, '.');
    *key = dot ? (size_t)(dot - name) : strlen(name);
    return dot ? dot + 1 : "";
}

static qb_status add_member(qb_shard *s, struct archive *a, const char *name, uint64_t at,
                            uint64_t size, group *g, unused *u) {
    size_t key;
    const char *form = split_key(name, &key);
    if (key >= sizeof g->key) {
        count(&u->names, name);
        return QB_OK;
    }
    const bool again = strcmp(g->image, name) == 0; /* another sample of the same name */
    if (!g->any || again || strlen(g->key) != key || strncmp(g->key, name, key) != 0) {
        QB_TRY(end_group(s, g, u));
        g->any = true;
        memcpy(g->key, name, key);
        g->key[key] = '\0';
    }
    if (qb_name_is_image(name) && g->image[0] == '\0') {
        snprintf(g->image, sizeof g->image, "%s", name);
        g->at = at;
        g->size = size;
    } else if (qb_name_is_image(name)) {
        count(&u->others, name);
    } else if (strcmp(form, "cls") == 0 || (strcmp(form, "txt") == 0 && g->label < 0)) {
        g->label = read_label(s, a);
        if (g->label < 0 && strcmp(form, "cls") == 0) count(&u->labels, name);
    }
    return QB_OK;
}

/* Members up to the end, or to the first that is damaged: *why, and *next its place. */
static qb_status list(qb_shard *s, struct archive *a, group *g, unused *u, uint64_t *next,
                      const char **why) {
    struct archive_entry *entry;
    int state;
    while ((state = archive_read_next_header(a, &entry)) == ARCHIVE_OK || state == ARCHIVE_WARN) {
        s->is_packed = archive_filter_code(a, 0) != ARCHIVE_FILTER_NONE;
        const uint64_t at = (uint64_t)archive_filter_bytes(a, 0),
                       size = (uint64_t)archive_entry_size(entry),
                       end = s->is_packed ? UNPACKED_MOST(s->size) : s->size;
        if (at > end || size > end - at) {
            *why = s->is_packed ? "it unpacks to over 200 times its size"
                                : "the file ends within a member";
            return QB_OK;
        }
        *next = at + (size + BLOCK - 1) / BLOCK * BLOCK;
        const char *name = archive_entry_pathname(entry);
        if (!name) name = archive_entry_pathname_utf8(entry); /* beyond the locale's characters */
        QB_TRY(qb_check_cancel(s->cx));
        if (!name || qb_path_base(name)[0] == '.') continue;
        if (archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry) &&
            archive_entry_sparse_count(entry) == 0)
            QB_TRY(add_member(s, a, name, at, size, g, u));
        else if (qb_name_is_image(name))
            count(&u->images, name);
    }
    if (state != ARCHIVE_EOF) *why = qb_archive_reason(a);
    return QB_OK;
}

static void tell(const qb_shard *s, const unused *u) {
    const struct {
        const member_count *of;
        const char *what, *then;
    } each[] = {
        {&u->images, "links, sparse files and devices hold no image", "left out"},
        {&u->others, "a sample has one image", "left out"},
        {&u->alone, "a class without an image beside it", "left out"},
        {&u->labels, "expected a class", "its sample has none"},
        {&u->names, "a name beyond 4,095 bytes", "left out"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i].of->n > 0)
            qb_warn(s->cx, "%s: %s: '%s' (%lld such files): %s", s->name, each[i].what,
                    each[i].of->first, (long long)each[i].of->n, each[i].then);
}

static void archive_release(struct archive **a) { archive_read_free(*a); }

static qb_status scan(qb_shard *s) {
    group g = {.label = -1};
    QB_RELEASED(archive_release) struct archive *a = NULL;
    const char *why = NULL;
    uint64_t next = 0;
    if (!*s->own) {
        qb_unpacked *unpacked;
        QB_TRY(qb_unpacked_create(s->cx, &unpacked));
        *s->own = unpacked;
    }
    if (s->size == 0) return QB_OK;
    if (qb_archive_open(s->cx, s->fd, archive_read_support_format_tar, &a) != QB_OK)
        return qb_shard_end_damaged(s, 0);
    QB_FREED unused *u = QB_NEW(s->cx, qb_alloc(s->cx, 1, sizeof *u));
    QB_TRY(list(s, a, &g, u, &next, &why));
    QB_TRY(end_group(s, &g, u));
    if (!why && s->is_packed) QB_TRY(qb_gzip_check(s->cx, s->fd, UNPACKED_MOST(s->size), &why));
    if (why) QB_TRY(qb_shard_add_damaged(s, next, why));
    tell(s, u);
    return QB_OK;
}

static qb_status read_packed(qb_ctx *cx, void *own, const qb_stretch *where, uint8_t *out) {
    return qb_unpacked_read(cx, own, where->path, where->at, (size_t)where->size, out);
}

static void close_packed(void *own) { qb_unpacked_free(own); }

static const char *const suffixes[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", NULL};
static const qb_shard_kind tar = {
    .suffix = suffixes, .scan = scan, .read = read_packed, .close = close_packed};

static bool webdataset_probe(const char *path) { return qb_shards_probe(path, suffixes); }

static qb_status webdataset_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    return qb_shards_open(cx, dataset, labels, &tar);
}

const qb_dataset_format qb_format_webdataset = {
    .name = "webdataset",
    .text =
        "tar files (also .tar.gz and .tar.zst) of images and their classes (0001.jpg, 0001.cls): "
        "one, a folder of them, or train-{00..09}.tar",
    .probe = webdataset_probe,
    .open = webdataset_open,
    .read = qb_shards_read,
    .close = qb_shards_close,
};

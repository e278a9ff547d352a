#include "datasets/shards.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/open.h"
#include "datasets/shards_internal.h"

/* ---- names ----------------------------------------------------------------------------------- */

void qb_shards_free(char **names, size_t n) {
    for (size_t i = 0; i < n; i++) qb_free(names[i]);
    qb_free(names);
}

bool qb_shards_is_pattern(const char *path) {
    const char *open = strchr(path, '{');
    return open && strchr(open, '}') && !qb_path_exists(path);
}

typedef struct expansion {
    qb_ctx *cx;
    const char *pattern;
    char **name;
    size_t n, capacity;
} expansion;

static qb_status expand(expansion *e, const char *text);

/* The text with `item` in place of its first braces, which end at `close`. */
static qb_status put(expansion *e, const char *text, const char *open, const char *close,
                     const char *item, int length) {
    QB_FREED char *next =
        qb_format(e->cx, "%.*s%.*s%s", (int)(open - text), text, length, item, close + 1);
    return next ? expand(e, next) : e->cx->code;
}

/* {00..09} */
static qb_status expand_range(expansion *e, const char *text, const char *open, const char *close,
                              bool *is) {
    int first, last, width, all;
    char item[32];
    *is =
        sscanf(open, "{%9d..%n%9d}%n", &first, &width, &last, &all) == 2 && open + all == close + 1;
    if (!*is) return QB_OK;
    const int step = first <= last ? 1 : -1, digits = open[1] == '0' ? width - 3 : 1;
    for (int k = first;; k += step) {
        const int n = snprintf(item, sizeof item, "%0*d", digits, k);
        QB_TRY(put(e, text, open, close, item, n));
        if (k == last) return QB_OK;
    }
}

static qb_status expand(expansion *e, const char *text) {
    const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL;
    bool range;
    if (open && !close)
        return qb_fail(e->cx, QB_STATUS_USAGE, "%s: a brace is not closed", e->pattern);
    if (!open) {
        if (e->n == QB_SHARDS_MAX)
            return qb_fail(e->cx, QB_STATUS_USAGE, "%s: more than %d files", e->pattern,
                           QB_SHARDS_MAX);
        QB_TRY(qb_grow(e->cx, &e->name, &e->capacity, e->n + 1, sizeof *e->name));
        e->name[e->n] = qb_strdup(e->cx, text);
        return e->name[e->n++] ? QB_OK : e->cx->code;
    }
    QB_TRY(expand_range(e, text, open, close, &range));
    for (const char *item = open + 1; !range; item = item + strcspn(item, ",}") + 1) {
        const size_t n = strcspn(item, ",}");
        QB_TRY(put(e, text, open, close, item, (int)n));
        if (item[n] == '}') break;
    }
    return QB_OK;
}

qb_status qb_shards_expand(qb_ctx *cx, const char *pattern, char ***names, size_t *n) {
    expansion e = {.cx = cx, .pattern = pattern};
    const qb_status status = expand(&e, qb_shards_is_pattern(pattern) ? pattern : "");
    if (status == QB_OK && !qb_shards_is_pattern(pattern)) {
        qb_free(e.name[0]);
        e.name[0] = qb_strdup(cx, pattern);
    }
    if (status != QB_OK || !e.name[0]) {
        qb_shards_free(e.name, e.n);
        return cx->code;
    }
    *names = e.name;
    *n = e.n;
    return QB_OK;
}

static bool has_suffix(const char *name, const char *const *suffix) {
    for (; *suffix; suffix++)
        if (qb_has_suffix(name, *suffix)) return true;
    return false;
}

/* The files of a folder that have one of the suffixes, sorted. */
static qb_status list_folder(qb_ctx *cx, const char *path, const char *const *suffix,
                             qb_arena *arena, qb_names *out) {
    size_t kept = 0;
    QB_TRY(qb_scan_folder(cx, path, QB_SCAN_FILES, arena, out));
    for (size_t i = 0; i < out->n; i++)
        if (has_suffix(out->name[i], suffix)) out->name[kept++] = out->name[i];
    out->n = kept;
    return QB_OK;
}

bool qb_shards_probe(const char *path, const char *const *suffix) {
    qb_ctx quiet;
    QB_RELEASED(qb_names_release) qb_names names = {0};
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    qb_ctx_init(&quiet);
    if (!qb_path_is_dir(path))
        return has_suffix(path, suffix) && (qb_path_exists(path) || qb_shards_is_pattern(path));
    if (qb_arena_create(&quiet, &arena) == QB_OK) list_folder(&quiet, path, suffix, arena, &names);
    return names.n > 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

bool qb_bytes_are_image(const uint8_t *bytes, size_t size) {
    return size > 8 &&
           (memcmp(bytes, "\xff\xd8\xff", 3) == 0 || memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0);
}

qb_span qb_message_without_large(qb_span message, uint8_t *buffer) {
    qb_wire_field field;
    size_t n = 0;
    while (qb_wire_next(&message, &field)) {
        if (field.whole.size > QB_LABELS_ROOM / 16 || field.whole.size > QB_LABELS_ROOM - n)
            continue;
        memcpy(buffer + n, field.whole.data, field.whole.size);
        n += field.whole.size;
    }
    return (qb_span){buffer, message.size == 0 ? n : 0};
}

/* As many of n bytes at `at` as the file has; negative: errno. */
static ssize_t read_at(int fd, uint8_t *out, size_t n, uint64_t at) {
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct state {
    const qb_shard_kind *kind;
    const char **path;
    qb_stretch *sample; /* by the samples' position */
    size_t n, capacity;
    void *own; /* the kind's */
} state;

#define SAMPLE_MAX ((uint64_t)1 << 30)

static qb_status add(qb_shard *s, const char *name, int64_t label, const qb_stretch *where) {
    state *st = s->dataset->state;
    qb_ctx *cx = s->cx;
    const char *full = QB_NEW(
        cx, name ? qb_arena_format(cx, s->dataset->arena, "%s/%s", s->name, name)
                 : qb_arena_format(cx, s->dataset->arena, "%s[%lld]", s->name, (long long)s->n));
    if (s->n % 1024 == 0) QB_TRY(qb_check_cancel(cx));
    if (label >= 0) {
        QB_TRY(qb_label_check(cx, full, label, s->labels));
        s->dataset->has_labels = true;
        if (label >= s->dataset->n_classes) s->dataset->n_classes = (int32_t)label + 1;
    }
    QB_TRY(qb_grow(cx, &st->sample, &st->capacity, st->n + 1, sizeof *st->sample));
    st->sample[st->n] = *where;
    s->n++;
    return qb_dataset_add(cx, s->dataset, full, (int64_t)st->n++, label < 0 ? -1 : (int32_t)label);
}

qb_status qb_shard_add(qb_shard *s, const char *name, uint64_t at, uint64_t size, int64_t label) {
    return add(s, name, label, &(qb_stretch){s->path, at, size, s->number, s->is_packed, NULL});
}

qb_status qb_shard_add_damaged(qb_shard *s, uint64_t at, const char *why) {
    const char *damage = qb_arena_format(s->cx, s->dataset->arena,
                                         "damaged at byte %llu: %s; what follows in %s is "
                                         "left out",
                                         (unsigned long long)at, why, s->name);
    if (!damage) return s->cx->code;
    return add(s, NULL, -1, &(qb_stretch){.path = s->path, .at = at, .damage = damage});
}

qb_status qb_shard_end_damaged(qb_shard *s, uint64_t at) {
    char why[QB_MESSAGE_MAX];
    if (s->cx->code != QB_STATUS_FORMAT) return s->cx->code;
    memcpy(why, s->cx->message, sizeof why);
    qb_ctx_clear(s->cx);
    return qb_shard_add_damaged(s, at, why);
}

static qb_status scan_shard(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels,
                            int32_t number) {
    state *st = dataset->state;
    QB_RELEASED(qb_opened_close) qb_opened file = {.fd = -1};
    QB_TRY(qb_open_regular(cx, st->path[number], &file));
    qb_shard shard = {.cx = cx,
                      .dataset = dataset,
                      .labels = labels,
                      .path = st->path[number],
                      .name = qb_path_base(st->path[number]),
                      .number = number,
                      .fd = file.fd,
                      .size = file.size,
                      .own = &st->own};
    return st->kind->scan(&shard);
}

/* The shards' paths, in the arena. */
static qb_status list_paths(qb_ctx *cx, qb_dataset *dataset, state *st, size_t *n) {
    QB_RELEASED(qb_names_release) qb_names names = {0};
    char **given = NULL;
    qb_status status = QB_OK;
    const bool folder = qb_path_is_dir(dataset->path);
    if (folder)
        QB_GO(list_folder(cx, dataset->path, st->kind->suffix, dataset->arena, &names));
    else
        QB_GO(qb_shards_expand(cx, dataset->path, &given, n));
    if (folder) *n = names.n;
    st->path = qb_alloc(cx, *n, sizeof *st->path);
    for (size_t i = 0; st->path && i < *n; i++) {
        QB_GO_NEW(cx, st->path[i] = folder ? qb_arena_format(cx, dataset->arena, "%s/%s",
                                                             dataset->path, names.name[i])
                                           : qb_arena_strdup(cx, dataset->arena, given[i]));
    }
    status = st->path ? QB_OK : cx->code;
out:
    if (given) qb_shards_free(given, *n);
    return status;
}

qb_status qb_shards_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels,
                         const qb_shard_kind *kind) {
    size_t n = 0;
    state *st = QB_NEW(cx, qb_alloc(cx, 1, sizeof *st));
    dataset->state = st;
    st->kind = kind;
    QB_TRY(list_paths(cx, dataset, st, &n));
    for (size_t i = 0; i < n; i++) QB_TRY(scan_shard(cx, dataset, labels, (int32_t)i));
    if (labels) dataset->n_classes = labels->n;
    return QB_OK;
}

void qb_shards_close(qb_dataset *dataset) {
    state *st = dataset->state;
    if (!st) return;
    if (st->own) st->kind->close(st->own);
    QB_FREE_ALL(st->path, st->sample, st);
    dataset->state = NULL;
}

static qb_status read_plain(qb_ctx *cx, const qb_stretch *where, uint8_t *out) {
    QB_RELEASED(qb_opened_close) qb_opened file = {.fd = -1};
    QB_TRY(qb_open_regular(cx, where->path, &file));
    if (where->at > file.size || where->size > file.size - where->at)
        return qb_fail(cx, QB_STATUS_FORMAT, "the file ends at byte %zu", file.size);
    if (read_at(file.fd, out, (size_t)where->size, where->at) != (ssize_t)where->size)
        return qb_fail(cx, QB_STATUS_IO, "%s: could not be read", file.path);
    return QB_OK;
}

static qb_status read_bytes(qb_ctx *cx, const state *st, const qb_stretch *where, uint8_t **out) {
    if (where->size > SAMPLE_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%llu bytes, the limit is %llu",
                       (unsigned long long)where->size, (unsigned long long)SAMPLE_MAX);
    QB_FREED uint8_t *bytes = QB_NEW(cx, qb_alloc(cx, (size_t)where->size + 1, 1));
    QB_TRY(where->is_packed ? st->kind->read(cx, st->own, where, bytes)
                            : read_plain(cx, where, bytes));
    *out = QB_MOVE(bytes);
    return QB_OK;
}

/* `decode`: else *out holds nothing but what is told from the bytes without decoding. */
static qb_status read_sample(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                             bool decode, qb_image *out, qb_hash *hash) {
    const state *st = dataset->state;
    const qb_stretch *where = &st->sample[sample->position];
    QB_FREED uint8_t *bytes = NULL;
    if (where->damage) return qb_fail(cx, QB_STATUS_FORMAT, "%s", where->damage);
    QB_TRY(read_bytes(cx, st, where, &bytes));
    const uint8_t *from = bytes;
    size_t n = (size_t)where->size;
    out->pixel = NULL;
    if (st->kind->extract) QB_TRY(st->kind->extract(cx, sample->name, bytes, n, &from, &n, out));
    *hash = qb_hash_bytes(from, n);
    if (decode && !out->pixel)
        QB_TRY(qb_decoder_decode(cx, dataset->decoder, sample->name, from, n, out));
    return QB_OK;
}

qb_status qb_shards_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_image *out, qb_hash *hash) {
    return read_sample(cx, dataset, sample, true, out, hash);
}

qb_status qb_shards_hash(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                         qb_hash *hash) {
    QB_RELEASED(qb_image_release) qb_image image = {0};
    return read_sample(cx, dataset, sample, false, &image, hash);
}

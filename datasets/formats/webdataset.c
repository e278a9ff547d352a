/* webdataset: tar files whose members come in samples, 0001.jpg and 0001.cls one after the other:
 * an image and its class number (.cls), or a class name or number (.txt). Members with the same
 * name up to the first dot are of one sample; other members of it are left alone. Names longer than
 * a header has room for are read as GNU tar and pax (POSIX.1-2001) write them. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/shards_internal.h"

enum { BLOCK = 512, NAME_MAX_BYTES = 4096 };

typedef struct member {
    char name[NAME_MAX_BYTES];
    uint64_t at, size; /* its content */
    char type;
} member;

/* The sample that is being put together. */
typedef struct group {
    char key[NAME_MAX_BYTES]; /* the name up to its first dot */
    char image[NAME_MAX_BYTES];
    uint64_t at, size;
    int64_t label;
    bool any;
} group;

/* Octal digits, or a number of 63 bits behind a set bit. */
static bool read_number(const uint8_t *field, size_t n, uint64_t *out) {
    *out = 0;
    if (field[0] == 0x80) {
        for (size_t i = n - 8; i < n; i++) *out = *out << 8 | field[i];
        return *out < (uint64_t)1 << 62;
    }
    size_t i = 0;
    while (i < n && field[i] == ' ') i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) *out = *out << 3 | (field[i] - '0');
    return i == n || field[i] == ' ' || field[i] == '\0';
}

/* The checksum counts its own field as spaces. */
static bool is_sound(const uint8_t *header) {
    uint64_t told, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : header[i];
    return read_number(header + 148, 8, &told) && told == sum;
}

static bool is_empty(const uint8_t *block) {
    for (int i = 0; i < BLOCK; i++)
        if (block[i] != 0) return false;
    return true;
}

/* What a pax header says of the member behind it: lines "LENGTH KEY=VALUE\n"; false where one is
 * damaged or cut. */
static bool read_pax(const char *text, size_t n, char *name, uint64_t *size) {
    for (size_t at = 0; at < n;) {
        char *end;
        const unsigned long length = strtoul(text + at, &end, 10);
        const size_t head = (size_t)(end - (text + at)) + 1;
        if (length <= head || length > n - at || *end != ' ') return false;
        const char *key = end + 1;
        const size_t rest = length - head - 1; /* without the line's end */
        if (rest > 5 && strncmp(key, "path=", 5) == 0)
            snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(rest - 5 < NAME_MAX_BYTES ? rest - 5 : 0),
                     key + 5);
        if (rest > 5 && strncmp(key, "size=", 5) == 0) *size = strtoull(key + 5, NULL, 10);
        at += length;
    }
    return true;
}

/* The next file; *why: what is wrong. At the end the type is 0. */
static qb_status next_member(qb_shard *s, uint64_t *at, member *out, const char **why) {
    char long_name[NAME_MAX_BYTES] = "", text[NAME_MAX_BYTES];
    uint64_t long_size = 0;
    *why = NULL;
    for (;;) {
        const uint8_t *header = qb_bytes_at(&s->bytes, *at, BLOCK);
        *out = (member){.at = *at + BLOCK};
        if (!header && *at == s->bytes.size) return QB_OK; /* some writers leave the end out */
        if (!header) *why = "it ends within a header";
        if (header && is_empty(header)) return QB_OK;
        if (header && (!is_sound(header) || !read_number(header + 124, 12, &out->size)))
            *why = "not the header of a tar file";
        if (*why) return QB_OK;
        const char type = header[156] == '\0' ? '0' : (char)header[156];
        const bool posix = memcmp(header + 257, "ustar", 6) == 0;
        if (posix && header[345] != '\0')
            snprintf(out->name, sizeof out->name, "%.155s/%.100s", (const char *)header + 345,
                     (const char *)header);
        else
            snprintf(out->name, sizeof out->name, "%.100s", (const char *)header);
        const bool about_next = type == 'L' || type == 'x';
        if (long_size > 0 && !about_next) out->size = long_size;
        if (out->size > s->bytes.size - out->at) {
            *why = "the file ends within a member";
            return QB_OK;
        }
        *at = out->at + (out->size + BLOCK - 1) / BLOCK * BLOCK;
        if (!about_next) {
            if (long_name[0] != '\0') memcpy(out->name, long_name, sizeof long_name);
            out->type = type;
            return QB_OK;
        }
        const size_t n = out->size < sizeof text ? (size_t)out->size : sizeof text - 1;
        const uint8_t *body = qb_bytes_at(&s->bytes, out->at, n);
        if (!body) continue;
        memcpy(text, body, n);
        text[n] = '\0';
        if (type == 'L')
            memcpy(long_name, text, sizeof text);
        else if (!read_pax(text, n, long_name, &long_size) && n == out->size)
            *why = "a damaged pax header";
        if (*why) return QB_OK;
    }
}

static qb_status end_group(qb_shard *s, group *g) {
    qb_status status = QB_OK;
    if (g->any && g->image[0] != '\0') status = qb_shard_add(s, g->image, g->at, g->size, g->label);
    *g = (group){.label = -1};
    return status;
}

/* A class's number or name. */
static qb_status read_label(qb_shard *s, const member *m, group *g) {
    char text[256];
    const uint8_t *body =
        m->size < sizeof text ? qb_bytes_at(&s->bytes, m->at, (size_t)m->size) : NULL;
    if (!body) return QB_OK;
    snprintf(text, sizeof text, "%.*s", (int)m->size, (const char *)body);
    text[strcspn(text, "\r\n")] = '\0';
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && number >= 0)
        g->label = number;
    else if (s->labels)
        g->label = qb_labels_find(s->labels, text);
    return QB_OK;
}

/* The name's part that samples share, and what follows its first dot. */
static const char *split_key(const char *name, size_t *key) {
    const char *base = qb_path_base(name), *dot = strchr(base, '.');
    *key = dot ? (size_t)(dot - name) : strlen(name);
    return dot ? dot + 1 : "";
}

static qb_status scan(qb_shard *s) {
    group g = {.label = -1};
    member m;
    uint64_t at = 0;
    const char *why;
    for (;;) {
        size_t key;
        QB_TRY(next_member(s, &at, &m, &why));
        if (why || m.type == 0) break;
        if (m.type != '0' || qb_path_base(m.name)[0] == '.') continue;
        const char *form = split_key(m.name, &key);
        if (!g.any || strlen(g.key) != key || strncmp(g.key, m.name, key) != 0) {
            QB_TRY(end_group(s, &g));
            g.any = true;
            snprintf(g.key, sizeof g.key, "%.*s", (int)key, m.name);
        }
        if (qb_name_is_image(m.name) && g.image[0] == '\0') {
            memcpy(g.image, m.name, sizeof m.name);
            g.at = m.at;
            g.size = m.size;
        } else if (strcmp(form, "cls") == 0 || (strcmp(form, "txt") == 0 && g.label < 0)) {
            QB_TRY(read_label(s, &m, &g));
        }
    }
    QB_TRY(end_group(s, &g));
    return why ? qb_shard_add_damaged(s, at, why) : QB_OK;
}

static const char *const suffixes[] = {".tar", NULL};
static const qb_shard_kind tar = {.suffix = suffixes, .scan = scan};

static bool webdataset_probe(const char *path) { return qb_shards_probe(path, suffixes); }

static qb_status webdataset_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    return qb_shards_open(cx, dataset, labels, &tar);
}

const qb_dataset_format qb_format_webdataset = {
    .name = "webdataset",
    .text = "tar files of images and their classes (0001.jpg, 0001.cls): one, a folder of them, or "
            "train-{00..09}.tar",
    .probe = webdataset_probe,
    .open = webdataset_open,
    .read = qb_shards_read,
    .close = qb_shards_close,
};

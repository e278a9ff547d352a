/* A record: the number of its bytes, their hash, and they themselves. The first one is the plan. */
#include "quant/recover/trials.h"

#include <string.h>
#include <unistd.h>

typedef struct head {
    uint64_t size;
    qb_hash hash;
} head;

/* The record at *at of the map, which moves behind it; false where none ends there whole. */
static bool next(const qb_map *map, size_t *at, const uint8_t **bytes, size_t *size) {
    head h;
    if (map->size - *at < sizeof h) return false;
    memcpy(&h, map->data + *at, sizeof h);
    const uint8_t *from = map->data + *at + sizeof h;
    if (h.size > map->size - *at - sizeof h ||
        !qb_hash_equal(qb_hash_bytes(from, (size_t)h.size), h.hash))
        return false;
    *bytes = from;
    *size = (size_t)h.size;
    *at += sizeof h + *size;
    return true;
}

static qb_status append(qb_ctx *cx, const qb_trials *p, const void *bytes, size_t size) {
    const head h = {size, qb_hash_bytes(bytes, size)};
    fwrite(&h, sizeof h, 1, p->stream);
    fwrite(bytes, 1, size, p->stream);
    if (qb_stream_error(p->stream) == 0 && fsync(fileno(p->stream)) == 0) return QB_OK;
    return qb_fail_errno(cx, "%s", p->path);
}

/* Takes over what the file has; *keep is how much of it is whole, 0: nothing. */
static qb_status take(qb_ctx *cx, qb_trials *p, qb_hash plan, size_t *keep) {
    const uint8_t *bytes;
    size_t size, at = 0;
    *keep = 0;
    QB_TRY(qb_map_open(cx, p->path, &p->map));
    if (!next(&p->map, &at, &bytes, &size)) return QB_OK;
    if (size != sizeof plan || memcmp(bytes, &plan, sizeof plan) != 0)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s is of another recovery: without --resume it begins anew", p->path);
    p->at = at;
    while (next(&p->map, &at, &bytes, &size)) continue;
    p->end = *keep = at;
    return QB_OK;
}

qb_status qb_trials_open(qb_ctx *cx, const char *path, qb_hash plan, bool resume, qb_trials *out) {
    QB_RELEASED(qb_trials_close) qb_trials p = {0};
    size_t keep = 0;
    *out = p;
    if (!path) return QB_OK;
    if (!(p.path = qb_strdup(cx, path))) return cx->code;
    if (resume && qb_path_exists(path)) QB_TRY(take(cx, &p, plan, &keep));
    /* replaced: a link of that name is not followed */
    QB_TRY(qb_file_write(cx, path, keep > 0 ? (const char *)p.map.data : "", keep));
    p.stream = fopen(path, "ae");
    if (!p.stream) return qb_fail_errno(cx, "%s", path);
    if (keep == 0) QB_TRY(append(cx, &p, &plan, sizeof plan));
    *out = QB_MOVE(p);
    return QB_OK;
}

void qb_trials_close(qb_trials *p) {
    if (p->stream) fclose(p->stream);
    qb_map_close(&p->map);
    qb_free(p->path);
    *p = (qb_trials){0};
}

bool qb_trials_next(qb_ctx *cx, qb_trials *p, qb_pack *pack) {
    *pack = (qb_pack){.cx = cx, .name = p->path, .reads = true};
    return p->at < p->end && next(&p->map, &p->at, &pack->at, &pack->left);
}

qb_status qb_trials_add(qb_ctx *cx, qb_trials *p, qb_pack *pack) {
    if (!p->path) return QB_OK;
    QB_TRY(qb_pack_end(pack));
    return append(cx, p, pack->out.data, pack->out.size);
}

#include "base/index.h"

#include <string.h>

#include "base/hash.h"

uint32_t qb_index_hash(const void *data, size_t n) {
    const qb_hash hash = qb_hash_bytes(data, n);
    uint32_t value;
    memcpy(&value, hash.byte, sizeof value);
    return value;
}

int32_t qb_index_next(const qb_index *index, uint32_t hash, size_t *at) {
    if (!index->n_slots) return -1;
    for (;;) {
        const qb_index_slot *slot = &index->slot[(hash + *at) & (index->n_slots - 1)];
        ++*at;
        if (!slot->entry) return -1;
        if (slot->hash == hash) return slot->entry - 1;
    }
}

static void insert(qb_index *index, qb_index_slot added) {
    size_t at = added.hash;
    while (index->slot[at & (index->n_slots - 1)].entry) at++;
    index->slot[at & (index->n_slots - 1)] = added;
}

static qb_status grow(qb_ctx *cx, qb_index *index) {
    qb_index larger = {.n_slots = index->n_slots ? index->n_slots * 2 : 64, .n = index->n};
    QB_TRY_NEW(cx, larger.slot = qb_alloc(cx, larger.n_slots, sizeof *larger.slot));
    for (size_t i = 0; i < index->n_slots; i++)
        if (index->slot[i].entry) insert(&larger, index->slot[i]);
    qb_free(index->slot);
    *index = larger;
    return QB_OK;
}

qb_status qb_index_add(qb_ctx *cx, qb_index *index, uint32_t hash, int32_t entry) {
    if (index->n >= QB_INDEX_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d entries", QB_INDEX_MAX);
    if ((size_t)index->n >= index->n_slots / 2) QB_TRY(grow(cx, index));
    insert(index, (qb_index_slot){hash, 1 + entry});
    index->n++;
    return QB_OK;
}

void qb_index_clear(qb_index *index) {
    if (index->n_slots) memset(index->slot, 0, index->n_slots * sizeof *index->slot);
    index->n = 0;
}

void qb_index_release(qb_index *index) {
    qb_free(index->slot);
    *index = (qb_index){0};
}

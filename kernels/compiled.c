#include "kernels/compiled.h"

#include <string.h>

#include "base/index.h"

typedef struct entry {
    qb_hash key;
    const void *data;
    size_t bytes;
    void *own; /* a copy of its own, or NULL */
} entry;

struct qb_compiled {
    entry *entry;
    int32_t n;
    size_t capacity;
    qb_index index; /* of the entries by their keys */
};

qb_status qb_compiled_create(qb_ctx *cx, qb_compiled **out) {
    qb_compiled *c = QB_NEW(cx, qb_alloc(cx, 1, sizeof *c));
    *out = c;
    return QB_OK;
}

void qb_compiled_free(qb_compiled *c) {
    if (!c) return;
    for (int32_t i = 0; i < c->n; i++) qb_free(c->entry[i].own);
    qb_index_release(&c->index);
    QB_FREE_ALL(c->entry, c);
}

/* Keys may come from a file, which could make all of their first bytes alike. */
static uint32_t hash_of(qb_hash key) { return qb_index_hash(key.byte, sizeof key.byte); }

static const entry *find(const qb_compiled *c, qb_hash key) {
    const uint32_t hash = hash_of(key);
    int32_t i;
    for (size_t at = 0; (i = qb_index_next(&c->index, hash, &at)) >= 0;)
        if (qb_hash_equal(c->entry[i].key, key)) return &c->entry[i];
    return NULL;
}

const void *qb_compiled_find(const qb_compiled *c, qb_hash key, size_t *bytes) {
    const entry *e = find(c, key);
    if (e) *bytes = e->bytes;
    return e ? e->data : NULL;
}

qb_status qb_compiled_borrow(qb_ctx *cx, qb_compiled *c, qb_hash key, const void *data,
                             size_t bytes) {
    if (find(c, key)) return QB_OK;
    QB_TRY(qb_grow(cx, &c->entry, &c->capacity, (size_t)c->n + 1, sizeof *c->entry));
    QB_TRY(qb_index_add(cx, &c->index, hash_of(key), c->n));
    c->entry[c->n++] = (entry){.key = key, .data = data, .bytes = bytes};
    return QB_OK;
}

qb_status qb_compiled_borrow_all(qb_ctx *cx, qb_compiled *c, const qb_compiled *from) {
    for (int32_t i = 0; i < from->n; i++)
        QB_TRY(qb_compiled_borrow(cx, c, from->entry[i].key, from->entry[i].data,
                                  from->entry[i].bytes));
    return QB_OK;
}

qb_status qb_compiled_add(qb_ctx *cx, qb_compiled *c, qb_hash key, const void *data, size_t bytes) {
    if (find(c, key)) return QB_OK;
    QB_FREED void *own = QB_NEW(cx, qb_alloc(cx, bytes, 1));
    memcpy(own, data, bytes);
    QB_TRY(qb_compiled_borrow(cx, c, key, own, bytes));
    c->entry[c->n - 1].own = QB_MOVE(own);
    return QB_OK;
}

qb_status qb_compiled_take(qb_ctx *cx, qb_compiled *c, const qb_compiled *from, qb_hash key) {
    const entry *e = find(from, key);
    if (!e) return QB_OK;
    return (e->own ? qb_compiled_add : qb_compiled_borrow)(cx, c, key, e->data, e->bytes);
}

int32_t qb_compiled_count(const qb_compiled *c) { return c->n; }

const void *qb_compiled_entry(const qb_compiled *c, int32_t i, qb_hash *key, size_t *bytes) {
    *key = c->entry[i].key;
    *bytes = c->entry[i].bytes;
    return c->entry[i].data;
}

/* Kernels that steps share. A problem is looked for by all that it says, as bytes. */
#include <string.h>

#include "base/hash.h"
#include "base/strbuf.h"
#include "engine/realize/lowering_internal.h"

typedef struct entry {
    size_t hash, size;
    const char *key; /* [size], in the arena */
    qb_kernel *kernel;
} entry;

typedef struct qb_kernel_pool {
    qb_arena *arena;
    entry *slot; /* open addressing with linear probing, at most half full */
    size_t n_slots, n;
    qb_strbuf key; /* of what was looked for last */
    size_t hash;
} qb_kernel_pool;

/* ---- problems as bytes ----------------------------------------------------------------------- */

static void put(qb_strbuf *key, const void *data, size_t n) { qb_strbuf_addn(key, data, n); }

static void put_desc(qb_strbuf *key, const qb_desc *d) {
    const int32_t head[] = {(int32_t)d->dtype,   (int32_t)d->layout, d->shape.rank,    d->q.n,
                            (int32_t)d->q.dtype, d->q.axis,          d->q.zero != NULL};
    const int64_t slice[] = {d->channel_offset, d->channel_total, d->padded};
    const size_t n = d->q.n > 0 ? (size_t)d->q.n : 0;
    put(key, head, sizeof head);
    put(key, slice, sizeof slice);
    if (d->shape.rank > 0) put(key, d->shape.dim, (size_t)d->shape.rank * sizeof *d->shape.dim);
    put(key, d->q.scale, n * sizeof *d->q.scale);
    if (d->q.zero) put(key, d->q.zero, n * sizeof *d->q.zero);
}

/* Bytes between the members of a problem may differ for no reason: then one kernel more is made. */
static void put_problem(qb_strbuf *key, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant) {
    qb_problem plain;
    memcpy(&plain, p, sizeof plain);
    memset(&plain.out, 0, sizeof plain.out);
    plain.in = NULL;
    plain.chain = NULL;
    plain.compiled = NULL;
    put(key, &tactic, sizeof tactic);
    put(key, &plain, sizeof plain);
    for (int32_t i = 0; i < p->n_in; i++) put_desc(key, &p->in[i]);
    put(key, constant, (size_t)p->n_in);
    if (p->chain) put(key, p->chain, sizeof *p->chain);
    put_desc(key, &p->out);
}

/* ---- the pool -------------------------------------------------------------------------------- */

static qb_status open_pool(qb_lowering *b) {
    if (b->pool) return QB_OK;
    qb_kernel_pool *pool = QB_NEW(b->cx, qb_alloc(b->cx, 1, sizeof *pool));
    b->pool = pool;
    return qb_arena_create(b->cx, &pool->arena);
}

/* The slot of the key, or the empty one where it would be. */
static entry *slot_of(const qb_kernel_pool *pool) {
    const size_t mask = pool->n_slots - 1;
    for (size_t i = pool->hash & mask;; i = (i + 1) & mask) {
        entry *e = &pool->slot[i];
        if (!e->kernel || (e->hash == pool->hash && e->size == pool->key.size &&
                           memcmp(e->key, pool->key.data, e->size) == 0))
            return e;
    }
}

qb_status qb_kernel_pool_find(qb_lowering *b, const qb_tactic *tactic, const qb_problem *problem,
                              const bool *constant, qb_kernel **out) {
    *out = NULL;
    if (tactic->device_memory) return QB_OK;
    QB_TRY(open_pool(b));
    qb_kernel_pool *pool = b->pool;
    pool->key.size = 0;
    put_problem(&pool->key, tactic, problem, constant);
    if (pool->key.failed) return qb_fail(b->cx, QB_STATUS_NOMEM, "out of memory");
    const qb_hash hash = qb_hash_bytes(pool->key.data, pool->key.size);
    memcpy(&pool->hash, hash.byte, sizeof pool->hash);
    const entry *e = pool->n_slots ? slot_of(pool) : NULL;
    if (e && e->kernel) *out = qb_kernel_share(e->kernel);
    return QB_OK;
}

static qb_status grow(qb_ctx *cx, qb_kernel_pool *pool) {
    const size_t n = pool->n_slots ? pool->n_slots * 2 : 64;
    entry *slot = QB_NEW(cx, qb_alloc(cx, n, sizeof *slot));
    for (size_t i = 0; i < pool->n_slots; i++) {
        if (!pool->slot[i].kernel) continue;
        size_t at = pool->slot[i].hash & (n - 1);
        while (slot[at].kernel) at = (at + 1) & (n - 1);
        slot[at] = pool->slot[i];
    }
    qb_free(pool->slot);
    pool->slot = slot;
    pool->n_slots = n;
    return QB_OK;
}

qb_status qb_kernel_pool_add(qb_lowering *b, qb_kernel *kernel) {
    if (kernel->tactic->device_memory || kernel->packed_bytes > 0) return QB_OK;
    qb_kernel_pool *pool = b->pool;
    if (pool->n >= pool->n_slots / 2) QB_TRY(grow(b->cx, pool));
    char *key = QB_NEW(b->cx, qb_arena_pack(b->cx, pool->arena, pool->key.size, 1));
    memcpy(key, pool->key.data, pool->key.size);
    *slot_of(pool) = (entry){pool->hash, pool->key.size, key, qb_kernel_share(kernel)};
    pool->n++;
    return QB_OK;
}

void qb_kernel_pool_free(qb_kernel_pool *pool) {
    if (!pool) return;
    for (size_t i = 0; i < pool->n_slots; i++) qb_kernel_free(pool->slot[i].kernel);
    qb_arena_free(pool->arena);
    qb_strbuf_release(&pool->key);
    QB_FREE_ALL(pool->slot, pool);
}

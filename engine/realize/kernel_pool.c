/* Kernels that steps share. A problem is looked for by all that it says, as bytes. */
#include <string.h>

#include "base/index.h"
#include "base/strbuf.h"
#include "engine/realize/lowering_internal.h"

typedef struct entry {
    size_t size;
    const char *key; /* [size], in the arena */
    qb_kernel *kernel;
} entry;

typedef struct qb_kernel_pool {
    qb_arena *arena;
    entry *entry;
    size_t capacity;
    qb_index index; /* of the entries by their keys */
    qb_strbuf key;  /* of what was looked for last */
    uint32_t hash;
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

static qb_kernel *find(const qb_kernel_pool *pool) {
    int32_t i;
    for (size_t at = 0; (i = qb_index_next(&pool->index, pool->hash, &at)) >= 0;) {
        const entry *e = &pool->entry[i];
        if (e->size == pool->key.size && memcmp(e->key, pool->key.data, e->size) == 0)
            return e->kernel;
    }
    return NULL;
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
    pool->hash = qb_index_hash(pool->key.data, pool->key.size);
    qb_kernel *known = find(pool);
    if (known) *out = qb_kernel_share(known);
    return QB_OK;
}

qb_status qb_kernel_pool_add(qb_lowering *b, qb_kernel *kernel) {
    if (kernel->tactic->device_memory || kernel->packed_bytes > 0) return QB_OK;
    qb_kernel_pool *pool = b->pool;
    const int32_t n = pool->index.n;
    QB_TRY(qb_grow(b->cx, &pool->entry, &pool->capacity, (size_t)n + 1, sizeof *pool->entry));
    char *key = QB_NEW(b->cx, qb_arena_pack(b->cx, pool->arena, pool->key.size, 1));
    memcpy(key, pool->key.data, pool->key.size);
    QB_TRY(qb_index_add(b->cx, &pool->index, pool->hash, n));
    pool->entry[n] = (entry){pool->key.size, key, qb_kernel_share(kernel)};
    return QB_OK;
}

void qb_kernel_pool_free(qb_kernel_pool *pool) {
    if (!pool) return;
    for (int32_t i = 0; i < pool->index.n; i++) qb_kernel_free(pool->entry[i].kernel);
    qb_index_release(&pool->index);
    qb_arena_free(pool->arena);
    qb_strbuf_release(&pool->key);
    QB_FREE_ALL(pool->entry, pool);
}

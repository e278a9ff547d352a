#include "stream/engines.h"

#include <pthread.h>
#include <string.h>

struct qb_engines {
    qb_engines_options options;
    pthread_mutex_t lock; /* guards the sets but for ready ones' engines */
    pthread_cond_t built;
    uint64_t clock;
    int32_t n, capacity;
    qb_engine_set **set;
};

/* Does the set own this engine, or does it serve several devices and stands there for another? */
static bool owns(const qb_engines *e, const qb_engine_set *set, int32_t i) {
    const int32_t n = e->options.n_engines;
    return !set->given && (i < n || set->engine[i] != set->engine[i % n]);
}

static void set_free(const qb_engines *e, qb_engine_set *set) {
    if (!set) return;
    const int32_t n = e->options.n_engines;
    for (int32_t i = 0; set->context && i < n * e->options.workers; i++)
        qb_context_free(set->context[i]);
    for (int32_t i = n * e->options.n_devices - 1; set->engine && i >= 0; i--)
        if (owns(e, set, i)) qb_engine_free(set->engine[i]);
    QB_FREE_ALL(set->context, set->engine, set->shape, set);
}

static qb_status set_create(qb_ctx *cx, const qb_engines *e, qb_engine_set **out) {
    const size_t n = (size_t)e->options.n_engines;
    qb_engine_set *set = QB_NEW(cx, qb_alloc(cx, 1, sizeof *set));
    set->shape = qb_alloc(cx, (size_t)e->options.n_inputs, sizeof *set->shape);
    set->engine = qb_alloc(cx, n * (size_t)e->options.n_devices, sizeof *set->engine);
    set->context = qb_alloc(cx, n * (size_t)e->options.workers, sizeof *set->context);
    if (!set->shape || !set->engine || !set->context) {
        set_free(e, set);
        return cx->code;
    }
    *out = set;
    return QB_OK;
}

static qb_status add_given(qb_ctx *cx, qb_engines *e) {
    qb_engine_set *set;
    QB_TRY(set_create(cx, e, &set));
    for (int32_t i = 0; i < e->options.n_inputs; i++)
        set->shape[i] = qb_engine_input(e->options.given[0], i)->shape;
    for (int32_t i = 0; i < e->options.n_engines; i++)
        set->engine[i] = (qb_engine *)(uintptr_t)e->options.given[i];
    set->given = set->ready = true;
    e->set[e->n++] = set;
    return QB_OK;
}

qb_status qb_engines_create(qb_ctx *cx, const qb_engines_options *options, qb_engines **out) {
    qb_engines *e = QB_NEW(cx, qb_alloc(cx, 1, sizeof *e));
    e->options = *options;
    /* Each worker holds one set at most, so one can always go. */
    e->capacity = options->workers < QB_ENGINES_SETS ? QB_ENGINES_SETS : options->workers + 1;
    e->set = qb_alloc(cx, (size_t)e->capacity, sizeof(qb_engine_set *));
    if (!e->set) {
        qb_free(e);
        return cx->code;
    }
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->built, NULL);
    if (options->given && add_given(cx, e) != QB_OK) {
        qb_engines_free(e);
        return cx->code;
    }
    *out = e;
    return QB_OK;
}

void qb_engines_free(qb_engines *e) {
    if (!e) return;
    for (int32_t i = 0; i < e->n; i++) set_free(e, e->set[i]);
    pthread_cond_destroy(&e->built);
    pthread_mutex_destroy(&e->lock);
    QB_FREE_ALL(e->set, e);
}

/* ---- called with the lock held ---- */

static qb_engine_set *find(const qb_engines *e, const qb_tensor *input) {
    for (int32_t i = 0; i < e->n; i++) {
        bool same = true;
        for (int32_t k = 0; k < e->options.n_inputs && same; k++)
            same = qb_shape_equal(&e->set[i]->shape[k], &input[k].desc.shape);
        if (same) return e->set[i];
    }
    return NULL;
}

static void drop(qb_engines *e, qb_engine_set *set) {
    for (int32_t i = 0; i < e->n; i++)
        if (e->set[i] == set) e->set[i] = e->set[--e->n];
    set_free(e, set);
}

static qb_engine_set *oldest_unused(const qb_engines *e) {
    qb_engine_set *oldest = NULL;
    for (int32_t i = 0; i < e->n; i++)
        if (e->set[i]->users == 0 && (!oldest || e->set[i]->used < oldest->used))
            oldest = e->set[i];
    return oldest;
}

/* Makes room for one more set. */
static void shrink(qb_engines *e) {
    for (;;) {
        size_t bytes = 0;
        for (int32_t i = 0; i < e->n; i++) bytes += e->set[i]->bytes;
        qb_engine_set *oldest = oldest_unused(e);
        if (!oldest || (e->n < e->capacity && bytes < QB_ENGINES_BYTES)) return;
        drop(e, oldest);
    }
}

/* An engine for each device, and what it and the contexts of all workers take. */
static qb_status build_kind(qb_ctx *cx, const qb_engines *e, qb_engine_set *set, int32_t kind,
                            size_t *bytes) {
    const qb_engines_options *o = &e->options;
    qb_engine_memory memory;
    for (int32_t d = 0; d < o->n_devices; d++) {
        const int32_t i = d * o->n_engines + kind;
        QB_TRY(o->build(cx, o->user, kind, d, d > 0 ? set->engine[kind] : NULL, set->shape,
                        &set->engine[i]));
        if (owns(e, set, i)) *bytes += qb_engine_bytes(set->engine[i]);
    }
    qb_engine_memory_of(set->engine[kind], &memory);
    *bytes += (memory.arena + memory.workspace) * (size_t)o->workers;
    return QB_OK;
}

/* Builds without the lock, so that others go on with what is there. */
static qb_status build(qb_ctx *cx, qb_engines *e, qb_engine_set *set) {
    pthread_mutex_unlock(&e->lock);
    qb_status status = QB_OK;
    size_t bytes = 0;
    for (int32_t i = 0; i < e->options.n_engines && status == QB_OK; i++)
        status = build_kind(cx, e, set, i, &bytes);
    pthread_mutex_lock(&e->lock);
    set->bytes = bytes;
    set->ready = status == QB_OK;
    pthread_cond_broadcast(&e->built);
    return status;
}

static qb_status wrong_shape(qb_ctx *cx, const qb_engines *e, const qb_tensor *input) {
    int32_t i = 0;
    while (i + 1 < e->options.n_inputs &&
           qb_shape_equal(&e->set[0]->shape[i], &input[i].desc.shape))
        i++;
    char expected[96], got[96];
    return qb_fail(cx, QB_STATUS_MISMATCH, "input '%s': expected shape %s, got %s",
                   qb_engine_input_name(e->options.given[0], i),
                   qb_shape_text(&e->set[0]->shape[i], expected, sizeof expected),
                   qb_shape_text(&input[i].desc.shape, got, sizeof got));
}

/* In use by the caller: users counts it. */
static qb_status obtain(qb_ctx *cx, qb_engines *e, const qb_tensor *input, qb_engine_set **out) {
    qb_engine_set *set;
    while ((set = find(e, input)) && !set->ready) pthread_cond_wait(&e->built, &e->lock);
    if (!set && e->options.given) return wrong_shape(cx, e, input);
    if (!set) {
        shrink(e);
        QB_TRY(set_create(cx, e, &set));
        for (int32_t i = 0; i < e->options.n_inputs; i++) set->shape[i] = input[i].desc.shape;
        e->set[e->n++] = set;
        set->users = 1; /* nobody drops it meanwhile */
        qb_status status = build(cx, e, set);
        if (status != QB_OK) {
            drop(e, set);
            return status;
        }
        set->users = 0;
    }
    set->users++;
    set->used = ++e->clock;
    *out = set;
    return QB_OK;
}

/* ---- */

qb_engine *const *qb_engines_of(const qb_engines *e, const qb_engine_set *set, int32_t worker) {
    return set->engine + worker % e->options.n_devices * e->options.n_engines;
}

static qb_status make_contexts(qb_ctx *cx, const qb_engines *e, int32_t worker,
                               qb_engine_set *set) {
    qb_context **own = set->context + (size_t)worker * (size_t)e->options.n_engines;
    for (int32_t i = 0; i < e->options.n_engines; i++)
        if (!own[i]) QB_TRY(qb_context_create(cx, qb_engines_of(e, set, worker)[i], &own[i]));
    return QB_OK;
}

qb_status qb_engines_acquire(qb_ctx *cx, qb_engines *e, int32_t worker, const qb_tensor *input,
                             qb_engine_set **out) {
    qb_engine_set *set = NULL;
    pthread_mutex_lock(&e->lock);
    qb_status status = obtain(cx, e, input, &set);
    pthread_mutex_unlock(&e->lock);
    if (status != QB_OK) return status;
    status = make_contexts(cx, e, worker, set);
    if (status == QB_OK)
        *out = set;
    else
        qb_engines_release(e, set);
    return status;
}

void qb_engines_release(qb_engines *e, qb_engine_set *set) {
    pthread_mutex_lock(&e->lock);
    set->users--;
    pthread_mutex_unlock(&e->lock);
}

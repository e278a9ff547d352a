/* The memory plan: offsets of buffers in one arena, from the steps during which they live. Each
 * buffer goes into the lowest gap that fits best; the order in which they are placed decides, so a
 * few orders are tried until no memory is wasted at the moment that needs most. What is too many
 * for that is placed in one sweep. */
#include <stdlib.h>
#include <string.h>

#include "engine/device_internal.h"
#include "engine/realize/planner_internal.h"

#define ALIGNMENT 64

size_t qb_plan_padded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int by_address(const qb_buffer *x, const qb_buffer *y) { return x < y ? -1 : x > y; }

static int by_size(const void *a, const void *b) {
    const qb_buffer *x = *(const qb_buffer *const *)a, *y = *(const qb_buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return by_address(x, y);
}

/* Memory times time: what is large and stays long is in everybody's way. */
static int by_area(const void *a, const void *b) {
    const qb_buffer *x = *(const qb_buffer *const *)a, *y = *(const qb_buffer *const *)b;
    const double s = (double)x->bytes * (x->last - x->first + 1),
                 t = (double)y->bytes * (y->last - y->first + 1);
    return s != t ? (s > t ? -1 : 1) : by_size(a, b);
}

static int by_start(const void *a, const void *b) {
    const qb_buffer *x = *(const qb_buffer *const *)a, *y = *(const qb_buffer *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : by_size(a, b);
}

/* Puts `buffer` among the buffers placed[0..n), which are in order of offset, and keeps the order.
 */
static void place(const qb_buffer **placed, int32_t n, qb_buffer *buffer) {
    size_t need = qb_plan_padded(buffer->bytes), end = 0, best = SIZE_MAX, at = SIZE_MAX;
    for (int32_t i = 0; i < n; i++) {
        const qb_buffer *other = placed[i];
        if (other->last < buffer->first || other->first > buffer->last) continue;
        if (other->offset > end) {
            size_t gap = other->offset - end;
            if (gap >= need && gap < best) best = gap, at = end;
        }
        size_t other_end = other->offset + qb_plan_padded(other->bytes);
        if (other_end > end) end = other_end;
    }
    buffer->offset = at != SIZE_MAX ? at : end;
    int32_t slot = n;
    for (; slot > 0 && placed[slot - 1]->offset > buffer->offset; slot--)
        placed[slot] = placed[slot - 1];
    placed[slot] = buffer;
}

static size_t most_alive(const qb_buffer *const *buffers, int32_t n, size_t *change,
                         int32_t n_steps) {
    for (int32_t i = 0; i < n; i++) {
        change[buffers[i]->first] += qb_plan_padded(buffers[i]->bytes);
        change[buffers[i]->last + 1] -=
            qb_plan_padded(buffers[i]->bytes); /* wraps, and back again */
    }
    size_t alive = 0, most = 0;
    for (int32_t s = 0; s < n_steps; s++) {
        alive += change[s];
        if (alive > most) most = alive;
    }
    return most;
}

/* A plan in the making: buffers in the order in which they are placed. */
typedef struct plan {
    qb_buffer **order;
    const qb_buffer **placed;
    size_t *best; /* offsets of the best order so far */
    int32_t n;
    size_t end, best_end;
} plan;

/* Places all in order, keeps what is better than before. */
static void place_all(plan *p) {
    p->end = 0;
    for (int32_t i = 0; i < p->n; i++) {
        place(p->placed, i, p->order[i]);
        const size_t end = p->order[i]->offset + qb_plan_padded(p->order[i]->bytes);
        if (end > p->end) p->end = end;
    }
}

static void keep_better(plan *p, const qb_buffer *buffers) {
    place_all(p);
    if (p->end >= p->best_end) return;
    p->best_end = p->end;
    for (int32_t i = 0; i < p->n; i++) p->best[p->order[i] - buffers] = p->order[i]->offset;
}

/* Moves the buffer that ends highest to the front: it finds a lower gap next time. */
static void promote_highest(plan *p) {
    int32_t highest = 0;
    for (int32_t i = 0; i < p->n; i++)
        if (p->order[i]->offset + qb_plan_padded(p->order[i]->bytes) == p->end) highest = i;
    qb_buffer *buffer = p->order[highest];
    memmove(p->order + 1, p->order, (size_t)highest * sizeof *p->order);
    p->order[0] = buffer;
}

/* Comparisons of buffers that a search may take: what is found by then is good enough. */
#define SEARCH_WORK 4000000
/* Of more than this many buffers, even one order takes too long. */
#define SEARCH_MOST 4096

/* Tries a few orders, each of them improved step by step, until the bound is met. */
static void search(plan *p, const qb_buffer *buffers, size_t lower_bound) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_start};
    const int64_t work = (int64_t)p->n * p->n + 1;
    const int64_t rounds = SEARCH_WORK / work;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        qsort(p->order, (size_t)p->n, sizeof *p->order, orders[o]);
        keep_better(p, buffers);
        for (int64_t round = 0; round < rounds && p->best_end > lower_bound; round++) {
            promote_highest(p);
            keep_better(p, buffers);
        }
        if (p->best_end <= lower_bound) return;
    }
}

qb_status qb_plan_memory(qb_ctx *cx, qb_buffer_kind kind, qb_buffer *buffers, int32_t n,
                         int32_t n_steps, size_t *total, size_t *lower_bound) {
    QB_FREED qb_buffer **order = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *order));
    QB_FREED const qb_buffer **placed = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *placed));
    QB_FREED size_t *best = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *best));
    QB_FREED size_t *change = QB_NEW(cx, qb_alloc(cx, (size_t)n_steps + 1, sizeof *change));
    plan p = {.order = order, .placed = placed, .best = best, .best_end = SIZE_MAX};
    for (int32_t i = 0; i < n; i++)
        if (buffers[i].kind == kind && buffers[i].bytes > 0 && buffers[i].first <= buffers[i].last)
            order[p.n++] = &buffers[i];
    *lower_bound = most_alive((const qb_buffer *const *)order, p.n, change, n_steps);
    if (p.n > SEARCH_MOST) {
        qsort(order, (size_t)p.n, sizeof *order, by_start);
        return qb_plan_sweep(cx, order, p.n, total);
    }
    search(&p, buffers, *lower_bound);
    for (int32_t i = 0; i < p.n; i++) order[i]->offset = best[order[i] - buffers];
    *total = p.best_end;
    return QB_OK;
}

/* ---- the memory of an engine ----------------------------------------------------------------- */

/* Copies from the caller's memory first, copies to it last, so that what lies between can be
 * recorded as one. */
/* 0: from the caller's memory, 2: to it, 1: the rest. */
static int rank_of(const qb_engine *e, const qb_step *step) {
    if (step->kind == QB_STEP_UPLOAD &&
        e->buffers[e->layouts[step->in[0]].buffer].kind == QB_BUFFER_INPUT)
        return 0;
    if (step->kind == QB_STEP_DOWNLOAD &&
        e->buffers[e->layouts[step->out[0]].buffer].kind == QB_BUFFER_OUTPUT)
        return 2;
    return 1;
}

static qb_status order(qb_ctx *cx, qb_engine *engine) {
    size_t n = (size_t)engine->n_steps, at = 0;
    qb_step *sorted = QB_NEW(cx, qb_alloc(cx, n, sizeof *sorted));
    for (int rank = 0; rank < 3; rank++)
        for (size_t s = 0; s < n; s++)
            if (rank_of(engine, &engine->steps[s]) == rank) sorted[at++] = engine->steps[s];
    memcpy(engine->steps, sorted, n * sizeof *sorted);
    qb_free(sorted);
    return QB_OK;
}

static void touch(qb_engine *e, int32_t stored, int32_t step) {
    if (stored < 0) return;
    qb_buffer *buffer = &e->buffers[e->layouts[stored].buffer];
    if (step < buffer->first) buffer->first = step;
    if (step > buffer->last) buffer->last = step;
}

static void touch_all(qb_engine *e) {
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        for (int32_t i = 0; i < step->n_in; i++) touch(e, step->in[i], s);
        for (int32_t i = 0; i < step->n_out; i++) touch(e, step->out[i], s);
        size_t *workspace = step->on_device ? &e->on.workspace : &e->memory.workspace;
        if (step->workspace_bytes > *workspace) *workspace = step->workspace_bytes;
    }
    for (int32_t i = 0; i < e->n_buffers; i++)
        if (e->buffers[i].lasting) e->buffers[i].last = e->n_steps - 1;
}

/* Buffers of whole pages would begin at the same place in a page, and a load waits for a store
 * before it whose address has the same last 12 bits: kernels that read and write at one pace, such
 * as depthwise convolutions, took twice as long. */
#define PAGE 4096
#define STAGGER (3 * ALIGNMENT)

static size_t staggered(size_t bytes) {
    const size_t padded = qb_plan_padded(bytes);
    return padded > 0 && padded % PAGE == 0 ? padded + STAGGER : bytes;
}

/* What kernels read behind the end of 8-bit elements (QB_BUFFER_SLACK) is nobody else's: in the
 * next buffer another thread may be writing its part of the result. */
static void add_slack(qb_engine *e) {
    for (int32_t i = 0; i < e->n_layouts; i++) {
        const qb_desc *desc = &e->layouts[i].desc;
        qb_buffer *buffer = &e->buffers[e->layouts[i].buffer];
        if (buffer->kind != QB_BUFFER_ARENA || buffer->bytes == 0) continue;
        if (qb_dtype_size(desc->dtype) != 1) continue;
        const size_t bytes = qb_desc_bytes(desc) + QB_BUFFER_SLACK;
        if (bytes > buffer->bytes) buffer->bytes = bytes;
    }
}

qb_status qb_engine_plan_memory(qb_ctx *cx, qb_engine *e) {
    if (e->device) QB_TRY(order(cx, e));
    touch_all(e);
    add_slack(e);
    for (int32_t i = 0; i < e->n_buffers; i++)
        if (e->buffers[i].kind == QB_BUFFER_ARENA)
            e->buffers[i].bytes = staggered(e->buffers[i].bytes);
    QB_TRY(qb_plan_memory(cx, QB_BUFFER_ARENA, e->buffers, e->n_buffers, e->n_steps,
                          &e->memory.arena, &e->memory.lower_bound));
    if (!e->device) return QB_OK;
    size_t lower = 0;
    for (int32_t i = 0; i < e->n_buffers; i++) /* so that every offset is a multiple, too */
        if (e->buffers[i].kind == QB_BUFFER_DEVICE)
            e->buffers[i].bytes = qb_device_aligned(e->buffers[i].bytes);
    QB_TRY(qb_plan_memory(cx, QB_BUFFER_DEVICE, e->buffers, e->n_buffers, e->n_steps, &e->on.arena,
                          &lower));
    e->memory.lower_bound += lower;
    return QB_OK;
}

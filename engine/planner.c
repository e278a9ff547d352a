/* The memory plan: offsets of buffers in one arena, from the steps during which they live. */
#include <stdlib.h>

#include "engine_internal.h"

#define ALIGNMENT 64

static size_t padded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static bool is_placed(const qb_buffer *buffer, qb_buffer_kind kind) {
    return buffer->kind == kind && buffer->bytes > 0 && buffer->first <= buffer->last;
}

static int by_size(const void *a, const void *b) {
    const qb_buffer *x = *(const qb_buffer *const *)a, *y = *(const qb_buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Puts `buffer` among the buffers placed[0..n), which are in order of offset, and keeps the order.
 */
static void place(const qb_buffer **placed, int32_t n, qb_buffer *buffer) {
    size_t need = padded(buffer->bytes), end = 0, best = SIZE_MAX, at = SIZE_MAX;
    for (int32_t i = 0; i < n; i++) {
        const qb_buffer *other = placed[i];
        if (other->last < buffer->first || other->first > buffer->last) continue;
        if (other->offset > end) {
            size_t gap = other->offset - end;
            if (gap >= need && gap < best) best = gap, at = end;
        }
        size_t other_end = other->offset + padded(other->bytes);
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
        change[buffers[i]->first] += padded(buffers[i]->bytes);
        change[buffers[i]->last + 1] -= padded(buffers[i]->bytes); /* wraps, and back again */
    }
    size_t alive = 0, most = 0;
    for (int32_t s = 0; s < n_steps; s++) {
        alive += change[s];
        if (alive > most) most = alive;
    }
    return most;
}

qb_status qb_plan_memory(qb_ctx *cx, qb_buffer_kind kind, qb_buffer *buffers, int32_t n,
                         int32_t n_steps, size_t *total, size_t *lower_bound) {
    qb_status status = QB_OK;
    int32_t n_sorted = 0;
    size_t end = 0;
    qb_buffer **sorted = qb_alloc(cx, (size_t)n, sizeof *sorted);
    const qb_buffer **placed = qb_alloc(cx, (size_t)n, sizeof *placed);
    size_t *change = qb_alloc(cx, (size_t)n_steps + 1, sizeof *change);
    if (!sorted || !placed || !change) {
        status = cx->code;
        goto out;
    }
    for (int32_t i = 0; i < n; i++)
        if (is_placed(&buffers[i], kind)) sorted[n_sorted++] = &buffers[i];
    qsort(sorted, (size_t)n_sorted, sizeof *sorted, by_size);
    for (int32_t i = 0; i < n_sorted; i++) {
        place(placed, i, sorted[i]);
        size_t this_end = sorted[i]->offset + padded(sorted[i]->bytes);
        if (this_end > end) end = this_end;
    }
    *total = end;
    *lower_bound = most_alive((const qb_buffer *const *)sorted, n_sorted, change, n_steps);
out:
    qb_free(change);
    qb_free(placed);
    qb_free(sorted);
    return status;
}

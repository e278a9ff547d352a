/* Placing many buffers: one sweep over the steps that gives and takes back blocks, as an allocator
 * would. Blocks lie in a list by address, the free ones also in bins by size, so that each buffer
 * takes the same time however many there are. */
#include <stdlib.h>
#include <string.h>

#include "engine/realize/planner_internal.h"

/* Four bins for each power of two. */
enum { BINS = 64 * 4, LOOK_AT = 16, NONE = -1 };

typedef struct block {
    size_t offset, bytes;
    int32_t below, above;   /* by address */
    int32_t before, behind; /* in its bin */
    bool is_free;
} block;

typedef struct sweep {
    block *block;                      /* [2 n + 1] at most */
    int32_t n_blocks, highest, unused; /* unused: a list by `behind` of blocks that were merged */
    int32_t bin[BINS];
} sweep;

static int32_t bin_of(size_t bytes) {
    const int power = 63 - __builtin_clzll(bytes | 4);
    return power * 4 + (int32_t)(bytes >> (power - 2) & 3);
}

static void bin_add(sweep *s, int32_t id) {
    block *b = &s->block[id];
    int32_t *head = &s->bin[bin_of(b->bytes)];
    b->is_free = true;
    b->before = NONE;
    b->behind = *head;
    if (*head != NONE) s->block[*head].before = id;
    *head = id;
}

static void bin_remove(sweep *s, int32_t id) {
    block *b = &s->block[id];
    b->is_free = false;
    if (b->behind != NONE) s->block[b->behind].before = b->before;
    if (b->before != NONE)
        s->block[b->before].behind = b->behind;
    else
        s->bin[bin_of(b->bytes)] = b->behind;
}

static int32_t new_block(sweep *s, size_t offset, size_t bytes, int32_t below, int32_t above) {
    int32_t id = s->unused;
    if (id != NONE)
        s->unused = s->block[id].behind;
    else
        id = s->n_blocks++;
    s->block[id] = (block){.offset = offset, .bytes = bytes, .below = below, .above = above};
    if (below != NONE) s->block[below].above = id;
    if (above != NONE)
        s->block[above].below = id;
    else
        s->highest = id;
    return id;
}

/* The smallest of the first few of its bin that is large enough, else one of the next bin: there
 * all are. */
static int32_t find(const sweep *s, size_t bytes) {
    int32_t best = NONE, bin = bin_of(bytes);
    int looked = 0;
    for (int32_t id = s->bin[bin]; id != NONE && looked < LOOK_AT; id = s->block[id].behind) {
        const size_t size = s->block[id].bytes;
        if (size >= bytes && (best == NONE || size < s->block[best].bytes)) best = id;
        looked++;
    }
    while (best == NONE && ++bin < BINS) best = s->bin[bin];
    return best;
}

static int32_t take(sweep *s, size_t bytes) {
    int32_t id = find(s, bytes);
    if (id == NONE && s->highest != NONE && s->block[s->highest].is_free) {
        id = s->highest; /* memory ends here: it becomes as large as needed */
        bin_remove(s, id);
        s->block[id].bytes = bytes;
        return id;
    }
    if (id == NONE) {
        const block *last = s->highest == NONE ? NULL : &s->block[s->highest];
        return new_block(s, last ? last->offset + last->bytes : 0, bytes, s->highest, NONE);
    }
    bin_remove(s, id);
    const size_t rest = s->block[id].bytes - bytes;
    if (rest > 0) {
        s->block[id].bytes = bytes;
        bin_add(s, new_block(s, s->block[id].offset + bytes, rest, id, s->block[id].above));
    }
    return id;
}

/* `above` becomes part of the block below it. */
static void merge(sweep *s, int32_t below, int32_t above) {
    block *b = &s->block[below], *a = &s->block[above];
    b->bytes += a->bytes;
    b->above = a->above;
    if (a->above != NONE)
        s->block[a->above].below = below;
    else
        s->highest = below;
    a->behind = s->unused;
    s->unused = above;
}

static void give_back(sweep *s, int32_t id) {
    const int32_t above = s->block[id].above, below = s->block[id].below;
    if (above != NONE && s->block[above].is_free) {
        bin_remove(s, above);
        merge(s, id, above);
    }
    if (below != NONE && s->block[below].is_free) {
        bin_remove(s, below);
        merge(s, below, id);
        id = below;
    }
    bin_add(s, id);
}

static int by_last(const void *a, const void *b) {
    const qb_buffer *x = *(const qb_buffer *const *)a, *y = *(const qb_buffer *const *)b;
    return x->last != y->last ? (x->last < y->last ? -1 : 1) : x < y ? -1 : x > y;
}

qb_status qb_plan_sweep(qb_ctx *cx, qb_buffer *const *order, int32_t n, size_t *end) {
    const size_t count = (size_t)n;
    QB_FREED qb_buffer **leaving = QB_NEW(cx, qb_alloc(cx, count, sizeof *leaving));
    QB_FREED block *blocks = QB_NEW(cx, qb_alloc(cx, 2 * count + 1, sizeof *blocks));
    sweep s = {.block = blocks, .highest = NONE, .unused = NONE};
    int32_t next = 0;
    /* While a buffer lies in a block, its offset is the block's number. */
    for (int32_t i = 0; i < BINS; i++) s.bin[i] = NONE;
    if (n > 0) {
        memcpy(leaving, order, count * sizeof *leaving);
        qsort(leaving, count, sizeof *leaving, by_last);
    }
    *end = 0;
    for (int32_t i = 0; i < n; i++) {
        for (; leaving[next]->last < order[i]->first; next++) {
            const int32_t id = (int32_t)leaving[next]->offset;
            leaving[next]->offset = s.block[id].offset;
            give_back(&s, id);
        }
        const int32_t id = take(&s, qb_plan_padded(order[i]->bytes));
        order[i]->offset = (size_t)id;
        const size_t top = s.block[id].offset + s.block[id].bytes;
        if (top > *end) *end = top;
    }
    for (; next < n; next++) leaving[next]->offset = s.block[leaving[next]->offset].offset;
    return QB_OK;
}

/* Finds entries that lie elsewhere by the hash of what they are found by, in a time that does not
 * depend on how many there are: open addressing with linear probing, at most half full. */
#ifndef QB_BASE_INDEX_H
#define QB_BASE_INDEX_H

#include <stdint.h>

#include "ctx.h"

#define QB_INDEX_MAX (INT32_MAX / 4) /* entries */

typedef struct qb_index_slot {
    uint32_t hash;
    int32_t entry; /* 1 + its number, 0: empty */
} qb_index_slot;

typedef struct qb_index {
    qb_index_slot *slot;
    size_t n_slots; /* a power of two */
    int32_t n;
} qb_index; /* zeroed: empty */

uint32_t qb_index_hash(const void *data, size_t n);
/* The number of the next entry with this hash, which the caller compares with what it looks for,
 * -1: there is none any more. *at: 0 at first, then the count of slots that were looked at. */
int32_t qb_index_next(const qb_index *index, uint32_t hash, size_t *at);
/* Entries of one hash are found in any order. */
qb_status qb_index_add(qb_ctx *cx, qb_index *index, uint32_t hash, int32_t entry);
void qb_index_clear(qb_index *index); /* forgets all entries */
void qb_index_release(qb_index *index);

#endif

/* Places in a tensor that indices name, for the kernels that read or write there. */
#ifndef QB_CPU_PLACES_INTERNAL_H
#define QB_CPU_PLACES_INTERNAL_H

#include "kernels/places.h"
#include "kernels/tactic.h"

#define QB_PLACES_BLOCK 256

/* Loops that are at least one, and the indices' type. */
typedef struct qb_cpu_places {
    qb_places places;
    bool wide; /* indices of 64 bits, else of 32 */
} qb_cpu_places;

bool qb_cpu_places_supports(const qb_problem *p);
qb_cpu_places qb_cpu_places_of(const qb_problem *p);
/* Where the next places from *at on begin: as many as lie in the last loop, QB_PLACES_BLOCK or
 * `most` of them. *at is behind them then. 0: an index is out of range. */
int64_t qb_cpu_places_next(const qb_cpu_places *p, const void *indices, qb_place *at, int64_t most,
                           int64_t *begin);
/* The error of the first of n tuples of indices that has one out of range. */
qb_status qb_cpu_places_error(qb_ctx *cx, const qb_cpu_places *p, const void *indices, int64_t n);

#endif

/* Walking over the places that a tensor of indices names (qb_places of kernels/problem.h). */
#ifndef QB_KERNELS_PLACES_H
#define QB_KERNELS_PLACES_H

#include "kernels/problem.h"

/* Where a walk stands: the place begins at `base` and what the indices add, which are tuple number
 * `tuple`. */
typedef struct qb_place {
    int64_t at[QB_MAX_RANK], base, tuple;
} qb_place;

int64_t qb_places_count(const qb_places *places);
/* At place number i. */
qb_place qb_places_begin(const qb_places *places, int64_t i);
/* n places on, which may not lead over the end of the last loop but to the next one's start. */
void qb_places_next(const qb_places *places, qb_place *place, int64_t n);
/* Loops that are one for the data and the indices become one; at least one is left. */
void qb_places_simplify(qb_places *places);
#endif

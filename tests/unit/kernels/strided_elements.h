/* What a strided copy takes, element by element; and random numbers for its tests. */
#ifndef QB_TEST_STRIDED_ELEMENTS_H
#define QB_TEST_STRIDED_ELEMENTS_H

#include "base/rng.h"
#include "kernels/problem.h"

static inline int64_t between(qb_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)qb_rng_below(rng, (uint64_t)(high - low + 1));
}

static inline int64_t count_of(const qb_strided *s) {
    int64_t n = 1;
    for (int32_t d = 0; d < s->rank; d++) n *= s->dim[d];
    return n;
}

/* Number i of the elements. */
static inline int64_t element(const qb_strided *s, int64_t i) {
    int64_t at = s->offset;
    for (int32_t d = s->rank - 1; d >= 0; i /= s->dim[d--]) at += i % s->dim[d] * s->stride[d];
    return at;
}

#endif

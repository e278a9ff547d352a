#ifndef QB_BASE_SORT_H
#define QB_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Sorts n numbers in place, the smallest first. NaN has no place of its own. */
void qb_sort_doubles(double *values, size_t n);
void qb_sort_floats(float *values, size_t n);
/* A float as an unsigned number that is larger where it is: NaN is the largest, zeros are equal. */
static inline uint32_t qb_float_key(float x) {
    const float v = x + 0.0f; /* -0 becomes 0 */
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? UINT32_MAX : bits ^ (bits >> 31 ? UINT32_MAX : 0x80000000u);
}

/* Sorts n numbers by their upper 32 bits, the smallest first, in a time that grows with n: they are
 * in `other` then, and `list` is used up. What is equal keeps its order. */
void qb_sort_by_key(uint64_t *list, int64_t n, uint64_t *other);

/* For qsort and bsearch: texts (const char *), as strcmp has them. */
int qb_by_text(const void *a, const void *b);

#endif

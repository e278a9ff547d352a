#ifndef QB_BASE_SORT_H
#define QB_BASE_SORT_H

#include <stddef.h>

/* Sorts n numbers in place, the smallest first. NaN has no place of its own. */
void qb_sort_doubles(double *values, size_t n);
void qb_sort_floats(float *values, size_t n);
/* For qsort and bsearch: texts (const char *), as strcmp has them. */
int qb_by_text(const void *a, const void *b);

#endif

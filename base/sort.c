#include "base/sort.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void qb_sort_doubles(double *values, size_t n) {
    if (n > 0) qsort(values, n, sizeof *values, ascending);
}

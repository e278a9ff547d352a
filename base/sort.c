#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void qb_sort_doubles(double *values, size_t n) {
    if (n > 0) qsort(values, n, sizeof *values, ascending);
}

static int ascending_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void qb_sort_floats(float *values, size_t n) {
    if (n > 0) qsort(values, n, sizeof *values, ascending_floats);
}

int qb_by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

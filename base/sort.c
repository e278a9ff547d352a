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

#define DIGIT 11 /* bits, of which three have all of a key */
#define BINS (1 << DIGIT)

static void sort_digit(const uint64_t *from, int64_t n, int shift, uint64_t *to) {
    int64_t at[BINS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) at[from[i] >> shift & (BINS - 1)]++;
    for (int b = 0; b < BINS; b++) {
        const int64_t here = at[b];
        at[b] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < n; i++) to[at[from[i] >> shift & (BINS - 1)]++] = from[i];
}

void qb_sort_by_key(uint64_t *list, int64_t n, uint64_t *other) {
    sort_digit(list, n, 32, other);
    sort_digit(other, n, 32 + DIGIT, list);
    sort_digit(list, n, 32 + 2 * DIGIT, other);
}

int qb_by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

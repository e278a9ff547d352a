/* The vector part of qb_stats: one row for each instruction set, the same results from all. */
#ifndef QB_KERNELS_STATS_INTERNAL_H
#define QB_KERNELS_STATS_INTERNAL_H

#include "kernels/stats.h"

#define QB_STATS_ZERO_BIN (QB_STATS_BINS / 2) /* the bin whose left edge is zero */
#define QB_STATS_INDEX_SLACK 16               /* `index` may be written this far past the end */

typedef struct qb_stats_extent {
    float min, max; /* undefined when not finite */
    bool finite;    /* no NaN and no infinity */
} qb_stats_extent;

typedef struct qb_stats_path {
    const char *name;
    bool (*supported)(void);
    /* Extremes of n >= 1 values. */
    qb_stats_extent (*scan)(const float *value, size_t n);
    /* Writes the bins of the values that are not zero, in order, and returns their number. All
     * values are inside the range; `scale` is 2^-exponent * QB_STATS_BINS / 2. */
    size_t (*locate)(const float *value, size_t n, float scale, uint16_t *index);
} qb_stats_path;

/* Fastest first; the last one runs everywhere. */
const qb_stats_path *qb_stats_paths(int32_t *n);
/* qb_stats_add by a given path; for the tests. */
void qb_stats_add_by(qb_stats *stats, const qb_stats_path *path, const float *value, size_t n);

#endif

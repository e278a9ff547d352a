/* The vector part of qb_stats: one row for each instruction set, the same results from all. */
#ifndef QB_KERNELS_STATS_INTERNAL_H
#define QB_KERNELS_STATS_INTERNAL_H

#include "kernels/stats.h"

#define QB_STATS_ZERO_BIN (QB_STATS_BINS / 2) /* the bin whose left edge is zero */
#define QB_STATS_INDEX_SLACK 16               /* `index` may be written this far past the end */

/* What one pass over a chunk finds. */
typedef struct qb_stats_found {
    bool inside;    /* all values are finite and in the range; else nothing else is defined */
    float min, max; /* of the values */
    size_t used;    /* values that are not zero */
} qb_stats_found;

typedef struct qb_stats_path {
    const char *name;
    bool (*supported)(void);
    /* Writes the bins of those of n >= 1 values that are not zero, in order. `scale` is 2^-exponent
     * * QB_STATS_BINS / 2. */
    qb_stats_found (*locate)(const float *value, size_t n, float scale, uint16_t *index);
} qb_stats_path;

/* Fastest first; the last one runs everywhere. */
const qb_stats_path *qb_stats_paths(int32_t *n);
/* qb_stats_add by a given path; for the tests. */
void qb_stats_add_by(qb_stats *stats, const qb_stats_path *path, const float *value, size_t n);

#endif

/* Searching the ends of a range: what methods that minimize a cost share.
 *
 * Ends are edges of bins, so scaling the data by a power of two scales the range exactly. */
#ifndef QB_CALIB_SEARCH_H
#define QB_CALIB_SEARCH_H

#include "calib/spectrum.h"

/* Bins [a, b); zero is the left edge of bin QB_STATS_BINS / 2, and a <= it <= b. */
typedef struct qb_bins {
    int32_t a, b;
} qb_bins;

/* What a window costs; smaller is better. Whether it is below `beat` is all that matters: when not,
 * any number from there up will do, infinity too. */
typedef double (*qb_bins_cost)(const void *user, qb_bins at, double beat);

typedef struct qb_bins_problem {
    const qb_spectrum *spectrum;
    qb_bins_cost cost;
    const void *user;
    bool ends_used; /* a window ends with bins that are not empty, or at zero */
} qb_bins_problem;

/* All bins that are not empty, and zero. */
qb_bins qb_bins_full(const qb_spectrum *spectrum);
/* The same widened to both ends equally far from zero. */
qb_bins qb_bins_mirrored(qb_bins at);
/* The window with both ends `reach` bins from zero, within the full one. */
qb_bins qb_bins_around_zero(qb_bins full, int32_t reach);
/* The grid of 256 quantized values over a window. */
qb_grid qb_bins_grid(qb_bins at);
/* The window of least cost found by moving one end at a time from `start`, each end until neither
 * moves: first at every 16th bin, then at every bin around the best; the wider of equals. It
 * has at least 256 bins. */
qb_bins qb_bins_search(const qb_bins_problem *problem, qb_bins start);
/* The same with both ends equally far from zero; at least 128 bins each. Returns that distance. */
int32_t qb_reach_search(const qb_bins_problem *problem);
/* What a window keeps, within what was seen. */
qb_range qb_bins_range(const qb_stats *stats, qb_bins at);
#endif

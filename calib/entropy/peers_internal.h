/* Entropy calibration as other tools define it, for those who must reproduce their thresholds.
 *
 * Each looks at a histogram of its own kind; all of them can be made from qb_stats: the bins on
 * both sides of zero, pairs of them merged until there are at most as many as the tool would use.
 * The threshold is then the tool's own for that histogram. */
#ifndef QB_CALIB_ENTROPY_PEERS_INTERNAL_H
#define QB_CALIB_ENTROPY_PEERS_INTERNAL_H

#include "calib/calib.h"

#define QB_SIDE_BINS (QB_STATS_BINS / 2)

/* Bin i of `right` counts values in [i, i + 1) widths, of `left` in [-i - 1, -i). */
typedef struct qb_sides {
    int32_t n;    /* bins a side; one of the two last ones is not empty, unless all are zeros */
    double width; /* of a bin */
    double zeros; /* exact zeros, part of right[0] */
    double right[QB_SIDE_BINS], left[QB_SIDE_BINS];
} qb_sides;

/* What is kept, in bins from zero. */
typedef struct qb_kept {
    double lo, hi;
} qb_kept;

typedef struct qb_entropy_peer {
    int32_t most; /* bins a side */
    qb_status (*keep)(qb_ctx *cx, const qb_sides *sides, qb_kept *out);
} qb_entropy_peer;

extern const qb_entropy_peer qb_entropy_nvidia, qb_entropy_ort, qb_entropy_ncnn, qb_entropy_ppq;

/* The range by a peer's definition, within what was seen. */
qb_status qb_entropy_peer_range(qb_ctx *cx, const qb_stats *stats, const qb_entropy_peer *peer,
                                qb_range *out);

/* Prefix sums over bins by magnitude: [i] covers bins 0 .. i-1. */
typedef struct qb_mass {
    int32_t n;
    double count[QB_SIDE_BINS];
    double sum[QB_SIDE_BINS + 1];   /* of count */
    double log[QB_SIDE_BINS + 1];   /* of count ln(count) */
    int32_t used[QB_SIDE_BINS + 1]; /* bins that are not empty */
} qb_mass;

/* Sets the counts of n bins and their sums. */
void qb_mass_init(qb_mass *mass, const double *count, int32_t n);
double qb_x_log_x(double x); /* 0 at 0 */

#endif

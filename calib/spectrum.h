/* What rounding to 8 bits over a range costs, from a histogram: the measure behind `mse`, `auto`
 * and the figures of `qbench calib`.
 *
 * Values count as evenly spread inside their bin (the outer ones up to the extremes), exact zeros
 * as zeros (every range represents them). Under that model the error is exact: prefix sums of the
 * moments 0 to 2, read at the edges of each code's cell, give the integral of (value - code's
 * value)^2 in 256 steps a range, however fine or coarse the quantized values are against the bins.
 */
#ifndef QB_CALIB_SPECTRUM_H
#define QB_CALIB_SPECTRUM_H

#include "calib/table.h"

/* Prefix sums over the bins, positions in bins from zero: [j] covers bins 0 .. j-1. */
typedef struct qb_spectrum {
    double width;                    /* of a bin */
    double min, max;                 /* exact extremes, in bins: the outer bins reach only so far */
    int32_t first, last;             /* bins with values that are not zero; first > last: none */
    uint64_t zeros, total;           /* exact zeros; all finite values */
    double count[QB_STATS_BINS + 1]; /* values other than exact zeros */
    double moment1[QB_STATS_BINS + 1], moment2[QB_STATS_BINS + 1];
} qb_spectrum;

/* The grid of an 8-bit range, in bins: code c stands for (c - zero) step, low <= c <= high. */
typedef struct qb_grid {
    double step;
    int32_t zero, low, high;
} qb_grid;

typedef struct qb_range_quality {
    double sqnr_db;   /* 10 log10(sum of squares / squared error); infinite without error */
    double saturated; /* share of the values that the range clips, 0 .. 1 */
    double unused;    /* share of the quantized values that no value gets, 0 .. 1 */
} qb_range_quality;

void qb_spectrum_init(const qb_stats *stats, qb_spectrum *out);
/* The grid that the quantizer uses for a range: zero is representable; affine has 256 quantized
 * values and S = (hi - lo) / 255, symmetric has -127 .. 127 and S = max(|lo|, |hi|) / 127. A range
 * without extent has step 0. */
qb_grid qb_grid_of(const qb_spectrum *spectrum, qb_range range, bool symmetric);
/* Sum of squared errors over all values, in squares of a bin. Step 0: all become zero. */
double qb_spectrum_error(const qb_spectrum *spectrum, qb_grid grid);
/* Sum of squares of all values, in squares of a bin. */
double qb_spectrum_power(const qb_spectrum *spectrum);
void qb_range_quality_of(const qb_spectrum *spectrum, qb_range range, bool symmetric,
                         qb_range_quality *out);
#endif

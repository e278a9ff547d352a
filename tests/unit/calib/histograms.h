/* Seeded sample sets and their statistics, shared by the tests of calib/. */
#ifndef HISTOGRAMS_H
#define HISTOGRAMS_H

#include "kernels/stats.h"

typedef enum shape_of_data {
    DATA_GAUSS,
    DATA_RELU, /* of a gaussian: half are exact zeros */
    DATA_LAPLACE,
    DATA_OUTLIER, /* laplace and one value of 120 */
    DATA_UNIFORM, /* -3 to 5 */
    DATA_RELU6,   /* a spike at 0 and one at 6 */
    DATA_BYTES,   /* integers 0 to 255 */
    DATA_LEAKY,   /* the negative half at 1 % */
    DATA_HEAVY,   /* ReLU with a heavy tail: rare, large values */
    DATA_COUNT
} shape_of_data;

#define N_DATA 200000

/* New memory with N_DATA values times `factor`. */
float *data_make(shape_of_data shape, float factor);
/* New memory with their statistics. */
qb_stats *data_stats(const float *value, size_t n);
/* 10 log10(signal / noise) of the values after u8 affine quantization over [lo, hi]. */
double data_sqnr(const float *value, size_t n, float lo, float hi);

#endif

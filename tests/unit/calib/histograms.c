#include "histograms.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

static double laplace(qb_rng *rng) {
    double u = qb_rng_uniform(rng) - 0.5;
    return (u < 0 ? 1 : -1) * log1p(-2 * fabs(u) * (1 - 1e-12));
}

static double one_value(shape_of_data shape, qb_rng *rng, size_t i) {
    const double g = qb_rng_normal(rng);
    switch (shape) {
    case DATA_GAUSS: return g;
    case DATA_RELU: return g > 0 ? g : 0;
    case DATA_LAPLACE: return laplace(rng);
    case DATA_OUTLIER: return i == 777 ? 120 : laplace(rng);
    case DATA_UNIFORM: return 8 * qb_rng_uniform(rng) - 3;
    case DATA_RELU6: return fmin(fmax(4 * g, 0), 6);
    case DATA_BYTES: return (double)qb_rng_below(rng, 256);
    case DATA_LEAKY: return g > 0 ? g : 0.01 * g;
    default: return fmax(g - 1.5, 0) * exp(qb_rng_normal(rng));
    }
}

float *data_make(shape_of_data shape, float factor) {
    float *value = malloc(N_DATA * sizeof *value);
    qb_rng rng;
    qb_rng_seed(&rng, 1000 + (uint64_t)shape);
    for (size_t i = 0; i < N_DATA; i++) value[i] = (float)one_value(shape, &rng, i) * factor;
    return value;
}

qb_stats *data_stats(const float *value, size_t n) {
    qb_stats *stats = malloc(sizeof *stats);
    qb_stats_init(stats);
    qb_stats_add(stats, value, n);
    return stats;
}

double data_sqnr(const float *value, size_t n, float lo, float hi) {
    lo = lo < 0 ? lo : 0;
    hi = hi > 0 ? hi : 0;
    const double step = ((double)hi - lo) / 255, zero = rint(-lo / step);
    double signal = 0, noise = 0;
    for (size_t i = 0; i < n; i++) {
        double q = rint(value[i] / step) + zero;
        q = q < 0 ? 0 : q > 255 ? 255 : q;
        const double error = value[i] - (q - zero) * step;
        signal += (double)value[i] * value[i];
        noise += error * error;
    }
    return 10 * log10(signal / noise);
}

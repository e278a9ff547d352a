#include "eval/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/sort.h"

static const double z = 1.959963984540054; /* 97.5th percentile of the normal distribution */

static const qb_interval unknown = {NAN, NAN};

qb_interval qb_wilson(int64_t right, int64_t n) {
    if (n < 1 || right < 0 || right > n) return unknown;
    const double count = (double)n, p = (double)right / count, zz = z * z / count;
    const double middle = (p + zz / 2) / (1 + zz);
    const double half = z / (1 + zz) * sqrt(p * (1 - p) / count + zz / (4 * count));
    return (qb_interval){right == 0 ? 0 : 100 * (middle - half),
                         right == n ? 100 : 100 * (middle + half)};
}

double qb_mcnemar(int64_t lost, int64_t gained) {
    if (lost < 0 || gained < 0) return NAN;
    const double least = (double)(lost < gained ? lost : gained), n = (double)lost + (double)gained;
    /* P(X <= least) from its largest term downwards, which through logarithms: 2^-n underflows. */
    const double largest =
        exp(lgamma(n + 1) - lgamma(least + 1) - lgamma(n - least + 1) - n * M_LN2);
    double sum = 0, term = 1;
    for (double k = least; term > 1e-17 * sum; k--) {
        sum += term;
        term *= k / (n - k + 1);
    }
    return fmin(1, 2 * largest * sum);
}

/* Tango's score statistic for the hypothesis that the difference is `delta` (a proportion). */
static double score(double lost, double gained, double n, double delta) {
    const double a = 2 * n, b = -lost - gained + (2 * n - lost + gained) * delta,
                 c = -gained * delta * (1 - delta);
    const double root = fmax(b * b - 4 * a * c, 0);
    const double q = (sqrt(root) - b) / (2 * a); /* P(gained) under the hypothesis */
    const double variance = n * (2 * q + delta * (1 - delta));
    const double distance = lost - gained - n * delta;
    return variance > 0 ? distance / sqrt(variance) : distance == 0 ? 0 : copysign(1e9, distance);
}

/* Where the falling score crosses `level` between the two ends. */
static double crossing(double lost, double gained, double n, double level) {
    double low = -1, high = 1;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (score(lost, gained, n, middle) > level)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

qb_interval qb_paired_difference(int64_t lost, int64_t gained, int64_t n) {
    if (n < 1 || lost < 0 || gained < 0 || lost + gained > n) return unknown;
    const double a = (double)lost, b = (double)gained, count = (double)n;
    return (qb_interval){lost == 0 && gained == n ? -100 : 100 * crossing(a, b, count, z),
                         gained == 0 && lost == n ? 100 : 100 * crossing(a, b, count, -z)};
}

qb_interval qb_mean_interval(double sum, double sum_of_squares, int64_t n) {
    if (n < 2) return unknown;
    const double count = (double)n, mean = sum / count;
    const double variance = fmax(sum_of_squares - sum * mean, 0) / (count - 1);
    const double half = z * sqrt(variance / count);
    return (qb_interval){mean - half, mean + half};
}

/* ---- bootstrap ---- */

typedef struct ranked {
    double ms;
    int32_t round;
} ranked;

static int by_ms(const void *a, const void *b) {
    const double x = ((const ranked *)a)->ms, y = ((const ranked *)b)->ms;
    return (x > y) - (x < y);
}

/* The median of the runs when each counts as often as its round was drawn. */
static double weighted_median(const ranked *sorted, int64_t n, const int32_t *drawn) {
    int64_t total = 0, seen = 0, i = 0;
    for (int64_t k = 0; k < n; k++) total += drawn[sorted[k].round];
    if (total == 0) return NAN;
    double lower = NAN;
    for (; i < n; i++) {
        seen += drawn[sorted[i].round];
        if (isnan(lower) && 2 * seen >= total) lower = sorted[i].ms;
        if (2 * seen > total) break;
    }
    return (lower + sorted[i].ms) / 2;
}

qb_status qb_bootstrap_medians(qb_ctx *cx, const qb_samples *samples, int32_t n_rounds,
                               double medians[QB_BOOTSTRAP_DRAWS]) {
    ranked *sorted = qb_alloc(cx, (size_t)samples->n, sizeof *sorted);
    int32_t *drawn = qb_alloc(cx, (size_t)n_rounds, sizeof *drawn);
    qb_rng rng;
    qb_rng_seed(&rng, 95);
    for (int64_t i = 0; sorted && i < samples->n; i++)
        sorted[i] = (ranked){samples->ms[i], samples->round[i]};
    if (sorted && drawn) qsort(sorted, (size_t)samples->n, sizeof *sorted, by_ms);
    for (int b = 0; sorted && drawn && b < QB_BOOTSTRAP_DRAWS; b++) {
        for (int32_t r = 0; r < n_rounds; r++) drawn[r] = 0;
        for (int32_t r = 0; r < n_rounds; r++) drawn[qb_rng_below(&rng, (uint64_t)n_rounds)]++;
        medians[b] = weighted_median(sorted, samples->n, drawn);
    }
    const bool done = sorted && drawn;
    QB_FREE_ALL(sorted, drawn);
    return done ? QB_OK : cx->code;
}

qb_interval qb_bootstrap_interval(double draws[QB_BOOTSTRAP_DRAWS]) {
    for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++)
        if (isnan(draws[b])) return unknown;
    qb_sort_doubles(draws, QB_BOOTSTRAP_DRAWS);
    return (qb_interval){draws[QB_BOOTSTRAP_DRAWS * 25 / 1000 - 1],
                         draws[QB_BOOTSTRAP_DRAWS * 975 / 1000 - 1]};
}

static double normal_share(double x) { return 0.5 * erfc(-x / sqrt(2)); }

/* The value below which a share of the standard normal lies. */
static double normal_quantile(double share) {
    double low = -8, high = 8;
    for (int i = 0; i < 80; i++) {
        const double middle = (low + high) / 2;
        if (normal_share(middle) < share)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* Nearest rank of sorted draws. */
static double draw_at(const double *sorted, double share) {
    const double rank = ceil(share * QB_BOOTSTRAP_DRAWS - 1e-9);
    return sorted[(int)fmin(fmax(rank, 1), QB_BOOTSTRAP_DRAWS) - 1];
}

qb_interval qb_bootstrap_corrected(double draws[QB_BOOTSTRAP_DRAWS], double estimate) {
    const qb_interval plain = qb_bootstrap_interval(draws);
    if (isnan(plain.lo) || isnan(estimate)) return unknown;
    double below = 0;
    for (int b = 0; b < QB_BOOTSTRAP_DRAWS; b++)
        below += draws[b] < estimate ? 1 : draws[b] == estimate ? 0.5 : 0;
    below = fmin(fmax(below, 0.5), QB_BOOTSTRAP_DRAWS - 0.5);
    const double bias = 2 * normal_quantile(below / QB_BOOTSTRAP_DRAWS);
    return (qb_interval){draw_at(draws, normal_share(bias - 1.959963984540054)),
                         draw_at(draws, normal_share(bias + 1.959963984540054))};
}

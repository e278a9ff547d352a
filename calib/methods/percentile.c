/* percentile:P[:one-sided] (P 99.99 unless given): what P percent of all finite values keep within.
 *
 * two-sided: each tail of the signed distribution loses (100 - P) / 2 percent. A tensor that is
 * never negative loses its upper tail only (quantization keeps zero representable, so cutting the
 * lower one would gain nothing), one that is never positive its lower tail only. one-sided: by
 * magnitude; [-t, t] with the least t that P percent of the magnitudes keep within. All of the loss
 * may fall on one tail.
 *
 * Inside a bin values count as evenly spread. P = 100 is minmax. */

#include "calib/calib.h"

#define HALF (QB_STATS_BINS / 2)

/* The value that `rank` of the stats' values are below, 0 < rank <= count. */
static double quantile(const qb_stats *stats, double rank) {
    double below = 0;
    int32_t bin = 0;
    while (bin < QB_STATS_BINS - 1 && below + (double)stats->bin[bin] < rank)
        below += (double)stats->bin[bin++];
    double left = qb_stats_edge(stats, bin), right = qb_stats_edge(stats, bin + 1);
    return left + (right - left) * (rank - below) / (double)stats->bin[bin];
}

/* The same for magnitudes: bins at the same distance from zero count together. */
static double magnitude_quantile(const qb_stats *stats, double rank) {
    double below = 0, here = 0;
    int32_t bin = -1;
    do {
        below += here;
        bin++;
        here = (double)stats->bin[HALF + bin] + (double)stats->bin[HALF - 1 - bin];
    } while (bin < HALF - 1 && below + here < rank);
    double left = qb_stats_edge(stats, HALF + bin), right = qb_stats_edge(stats, HALF + bin + 1);
    return left + (right - left) * (rank - below) / here;
}

static qb_range two_sided(const qb_stats *stats, double lost) {
    const double count = (double)stats->count, tail = lost / 2;
    return qb_range_within(stats, stats->min < 0 ? quantile(stats, tail) : stats->min,
                           stats->max > 0 ? quantile(stats, count - tail) : stats->max);
}

static qb_range one_sided(const qb_stats *stats, double lost) {
    const double t = magnitude_quantile(stats, (double)stats->count - lost);
    return qb_range_within(stats, -t, t);
}

static const char *const variants[] = {"two-sided", "one-sided", NULL};

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    (void)cx;
    const qb_stats *stats = seen->stats;
    const double lost = (double)stats->count * (100.0 - choice->argument) / 100.0;
    *out = (qb_range){stats->min, stats->max};
    if (lost > 0) *out = choice->variant == 0 ? two_sided(stats, lost) : one_sided(stats, lost);
    return QB_OK;
}

const qb_calib_method qb_calib_method_percentile = {
    .name = "percentile",
    .summary =
        "the central P percent of the values (99.99 unless given); one-sided: of the magnitudes",
    .argument = "P",
    .argument_default = 99.99,
    .argument_min = 50.0,
    .argument_max = 100.0,
    .variants = variants,
    .range = range,
};

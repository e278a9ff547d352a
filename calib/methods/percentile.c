/* percentile:P (default 99.99): the central P percent of all finite values.
 *
 * Each tail of the signed distribution loses (100 - P) / 2 percent. A tensor that is never negative
 * loses its upper tail only (quantization keeps zero representable, so cutting the lower one would
 * gain nothing), one that is never positive its lower tail only. Inside a bin values count as
 * evenly spread. P = 100 is minmax. */
#include <math.h>

#include "calib/calib.h"

/* The value that `rank` of the stats' values are below, 0 < rank <= count. */
static double quantile(const qb_stats *stats, double rank) {
    double below = 0;
    int32_t bin = 0;
    while (bin < QB_STATS_BINS - 1 && below + (double)stats->bin[bin] < rank)
        below += (double)stats->bin[bin++];
    double left = qb_stats_edge(stats, bin), right = qb_stats_edge(stats, bin + 1);
    return left + (right - left) * (rank - below) / (double)stats->bin[bin];
}

static qb_status range(qb_ctx *cx, const qb_stats *stats, double argument, qb_range *out) {
    (void)cx;
    const double count = (double)stats->count;
    const double tail = count * (100.0 - argument) / 200.0;
    qb_range kept = {stats->min, stats->max};
    if (tail > 0 && stats->min < 0) kept.lo = fmaxf((float)quantile(stats, tail), stats->min);
    if (tail > 0 && stats->max > 0)
        kept.hi = fminf((float)quantile(stats, count - tail), stats->max);
    *out = kept;
    return QB_OK;
}

const qb_calib_method qb_calib_method_percentile = {
    .name = "percentile",
    .summary = "the central P percent of the values (99.99 unless given)",
    .argument = "P",
    .argument_default = 99.99,
    .argument_min = 50.0,
    .argument_max = 100.0,
    .range = range,
};

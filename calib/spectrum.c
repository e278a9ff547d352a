#include "calib/spectrum.h"

#include <math.h>

#define HALF (QB_STATS_BINS / 2)

/* fmin and fmax are calls, and these are numbers. */
static inline double lesser(double a, double b) { return a < b ? a : b; }
static inline double greater(double a, double b) { return a > b ? a : b; }

/* Where bin j's values lie: the extremes are known exactly. */
static double left_of(const qb_spectrum *s, int32_t j) { return greater(j - HALF, s->min); }
static double right_of(const qb_spectrum *s, int32_t j) { return lesser(j - HALF + 1, s->max); }

void qb_spectrum_init(const qb_stats *stats, qb_spectrum *out) {
    out->width = qb_stats_edge(stats, HALF + 1);
    out->min = stats->min / out->width;
    out->max = stats->max / out->width;
    out->first = QB_STATS_BINS;
    out->last = -1;
    out->zeros = stats->zeros;
    out->total = stats->count;
    out->count[0] = out->moment1[0] = out->moment2[0] = 0;
    for (int32_t j = 0; j < QB_STATS_BINS; j++) {
        const double n = (double)(stats->bin[j] - (j == HALF ? stats->zeros : 0));
        const double a = left_of(out, j), b = right_of(out, j);
        out->count[j + 1] = out->count[j] + n;
        out->moment1[j + 1] = out->moment1[j] + (n > 0 ? n * (a + b) / 2 : 0);
        out->moment2[j + 1] = out->moment2[j] + (n > 0 ? n * (a * a + a * b + b * b) / 3 : 0);
        if (n > 0) out->last = j;
        if (n > 0 && out->first == QB_STATS_BINS) out->first = j;
    }
}

qb_grid qb_grid_of(const qb_spectrum *spectrum, qb_range range, bool symmetric) {
    const double lo = fmin(range.lo, 0) / spectrum->width, hi = fmax(range.hi, 0) / spectrum->width;
    if (symmetric) return (qb_grid){fmax(-lo, hi) / 127, 0, -127, 127};
    const double step = (hi - lo) / 255;
    return (qb_grid){step, step > 0 ? (int32_t)rint(-lo / step) : 0, 0, 255};
}

/* The moments of all values below `x`, in bins from zero. */
typedef struct moments {
    double count, first, second;
} moments;

static moments below(const qb_spectrum *s, double x) {
    const double at = lesser(greater(x + HALF, 0), QB_STATS_BINS);
    int32_t j = (int32_t)at;
    if (j == QB_STATS_BINS) j--;
    const moments before = {s->count[j], s->moment1[j], s->moment2[j]};
    const double n = s->count[j + 1] - s->count[j];
    const double a = left_of(s, j), end = right_of(s, j);
    if (n <= 0 || at - HALF <= a) return before;
    if (at - HALF >= end) return (moments){s->count[j + 1], s->moment1[j + 1], s->moment2[j + 1]};
    const double b = at - HALF, part = n * (b - a) / (end - a);
    return (moments){before.count + part, before.first + part * (a + b) / 2,
                     before.second + part * (a * a + a * b + b * b) / 3};
}

static moments all(const qb_spectrum *s) {
    return (moments){s->count[QB_STATS_BINS], s->moment1[QB_STATS_BINS], s->moment2[QB_STATS_BINS]};
}

double qb_spectrum_power(const qb_spectrum *spectrum) { return all(spectrum).second; }

double qb_spectrum_error(const qb_spectrum *spectrum, qb_grid grid) {
    if (!(grid.step > 0)) return qb_spectrum_power(spectrum);
    moments before = {0};
    double sum = 0;
    for (int32_t level = grid.low; level <= grid.high; level++) {
        const double value = (level - grid.zero) * grid.step;
        const moments end =
            level < grid.high ? below(spectrum, value + grid.step / 2) : all(spectrum);
        /* A cell's error is not negative, whatever the difference of large sums says. */
        sum += greater(0, end.second - before.second - 2 * value * (end.first - before.first) +
                              value * value * (end.count - before.count));
        before = end;
    }
    return sum;
}

/* Share of the grid's quantized values in whose cells no value lies; zeros are in that of the zero
 * point. */
static double unused_levels(const qb_spectrum *s, qb_grid grid) {
    const int32_t levels = grid.high - grid.low + 1;
    int32_t used = 0;
    double before = 0;
    for (int32_t level = grid.low; level <= grid.high; level++) {
        const double value = (level - grid.zero) * grid.step;
        const double end =
            level < grid.high ? below(s, value + grid.step / 2).count : s->count[QB_STATS_BINS];
        used += end > before || (level == grid.zero && s->zeros > 0);
        before = end;
    }
    return 1 - (double)used / levels;
}

void qb_range_quality_of(const qb_spectrum *spectrum, qb_range range, bool symmetric,
                         qb_range_quality *out) {
    const qb_grid grid = qb_grid_of(spectrum, range, symmetric);
    const double error = qb_spectrum_error(spectrum, grid);
    const double power = qb_spectrum_power(spectrum);
    out->sqnr_db = error > 0 ? 10 * log10(power / error) : INFINITY;
    if (!(grid.step > 0)) {
        out->saturated = spectrum->total > spectrum->zeros
                             ? 1 - (double)spectrum->zeros / (double)spectrum->total
                             : 0;
        out->unused = 1 - 1.0 / (grid.high - grid.low + 1);
        return;
    }
    /* The range's own ends, zero included, or the symmetric ones. */
    const double lo = symmetric ? -127 * grid.step : fmin(range.lo, 0) / spectrum->width;
    const double hi = symmetric ? 127 * grid.step : fmax(range.hi, 0) / spectrum->width;
    const double left = lo <= spectrum->min ? 0 : below(spectrum, lo).count;
    const double right = hi >= spectrum->max ? all(spectrum).count : below(spectrum, hi).count;
    out->saturated = (all(spectrum).count - (right - left)) / (double)spectrum->total;
    out->unused = unused_levels(spectrum, grid);
}

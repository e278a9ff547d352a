/* entropy: the range whose 256 codes keep most of what the signal says, by Kullback-Leibler
 * divergence.
 *
 * Plain KL calibration asks how well the distribution of values survives. Most values of a network
 * are near zero, where every range quantizes well enough, so their sheer number outvotes the few
 * large values that carry the signal, and the range collapses. Here each value counts with its
 * magnitude: the distribution is that of the signal's amplitude. Zeros weigh nothing, so the spike
 * that ReLU makes needs no special case.
 *
 * Definition. The histogram has bins j = -4096 .. 4095 of one width; bin j has n_j values (exact
 * zeros are taken out of bin 0), center j + 1/2 and weight w_j = n_j |j + 1/2|; W is the sum of
 * all. A window is a run of whole bins [a, b), a <= 0 <= b, of at least 256 bins, a = 0 when no
 * value is negative and b = 0 when none is positive; a bin at an end of the window is not empty. In
 * units of bins its step is S = (b - a) / 255, its zero point Z = round(-a / S), and bin j has the
 * code c(j) = clamp(floor((j + 1/2) / S + 1/2) + Z, 0, 255).
 *
 * - P is the signal: p_j = w_j / W inside the window; the weight left of the window is added to bin
 * a, the weight right of it to bin b - 1.
 * - Q is what the codes tell about the window's own weight V (without the clipped part): each
 * code's weight, spread evenly over those of its bins that are not empty, divided by V.
 * - noise is what chance alone adds: n_c values that fall evenly into the m_c used bins of code c
 *   still differ from bin to bin, by |j + 1/2| (1 - 1/m_c) (1 - m_c/n_c) / 2W a bin to first order
 *   (Miller and Madow's correction, with a last factor for bins of few values). Without it a small
 *   sample looks full of detail and pulls the range in.
 * - KL = sum_j p_j ln(p_j / q_j) - noise
 *
 * P folds the clipped weight into the ends and Q does not, so clipping always costs; a wide window
 * costs because few codes cannot follow the shape. The window of least KL wins, the wider of
 * equals, among those whose squared error (of bin centers against what their codes stand for,
 * clipped ones included) is at most four times that of the full range: clipping may cost one of the
 * eight bits. Without this veto spikes decide: divergence counts it as loss when a code covers
 * several of them, though no value moved by more than half a step.
 *
 * Search. One end at a time from the full range, each end until neither moves: first at every 16th
 * bin, then at every bin around the best. All is in whole bins: scaling the data by a power of two
 * scales the range exactly. With prefix sums a window costs 256 logarithms, a tensor 1 to 10 ms. */
#include <math.h>

#include "calib/calib.h"

#define HALF (QB_STATS_BINS / 2)
#define CODES 256
#define STRIDE 16
#define ROUNDS 8
#define ERROR_FACTOR 4

typedef struct weights {
    int32_t first, last;             /* bins that are not empty, from 0 to QB_STATS_BINS - 1 */
    double bin[QB_STATS_BINS];       /* w_j */
    double sum[QB_STATS_BINS + 1];   /* of bin[0 .. j) */
    double log[QB_STATS_BINS + 1];   /* of bin ln(bin) */
    int32_t used[QB_STATS_BINS + 1]; /* bins that are not empty */
    double reach[QB_STATS_BINS + 1]; /* sum of |j + 1/2| over them */
    double count[QB_STATS_BINS + 1]; /* sums of n_j, n_j (j + 1/2) and n_j (j + 1/2)^2 */
    double first_moment[QB_STATS_BINS + 1];
    double second_moment[QB_STATS_BINS + 1];
    double error_limit; /* most squared error that a window may make */
} weights;

/* Bins [a, b); zero is the left edge of bin HALF. */
typedef struct window {
    int32_t a, b;
} window;

static double x_log_x(double x) { return x > 0 ? x * log(x) : 0; }

static void weigh(const qb_stats *stats, weights *w) {
    w->first = QB_STATS_BINS;
    w->last = -1;
    for (int32_t j = 0; j < QB_STATS_BINS; j++) {
        uint64_t n = stats->bin[j] - (j == HALF ? stats->zeros : 0);
        const double center = j - HALF + 0.5, magnitude = fabs(center);
        w->bin[j] = (double)n * magnitude;
        w->sum[j + 1] = w->sum[j] + w->bin[j];
        w->log[j + 1] = w->log[j] + x_log_x(w->bin[j]);
        w->used[j + 1] = w->used[j] + (n > 0);
        w->reach[j + 1] = w->reach[j] + (n > 0 ? magnitude : 0);
        w->count[j + 1] = w->count[j] + (double)n;
        w->first_moment[j + 1] = w->first_moment[j] + (double)n * center;
        w->second_moment[j + 1] = w->second_moment[j] + (double)n * center * center;
        if (n > 0) w->last = j;
        if (n > 0 && w->first == QB_STATS_BINS) w->first = j;
    }
}

/* S and Z of a window. */
typedef struct grid {
    double step, zero;
} grid;

static grid grid_of(window at) {
    const double step = (at.b - at.a) / (CODES - 1.0);
    return (grid){step, rint((HALF - at.a) / step)};
}

/* Where the bins of a code end, from `begin` to `last`: the next code starts at the first j with
 * (j + 1/2) / S + 1/2 >= code + 1 - Z. */
static int32_t code_end(grid g, int32_t code, int32_t begin, int32_t last) {
    if (code == CODES - 1) return last;
    int32_t end = (int32_t)ceil((code + 0.5 - g.zero) * g.step - 0.5) + HALF;
    return end < begin ? begin : end > last ? last : end;
}

/* Squared error of quantizing all bins, in squares of a bin. */
static double squared_error(const weights *w, window at) {
    const grid g = grid_of(at);
    double sum = 0;
    for (int32_t code = 0, begin = 0; code < CODES; code++) {
        const int32_t end = code_end(g, code, begin, QB_STATS_BINS);
        const double value = (code - g.zero) * g.step, count = w->count[end] - w->count[begin];
        sum += w->second_moment[end] - w->second_moment[begin] -
               2 * value * (w->first_moment[end] - w->first_moment[begin]) + value * value * count;
        begin = end;
    }
    return sum;
}

/* The noise of one code, times W. */
static double noise(const weights *w, int32_t begin, int32_t end) {
    const double used = w->used[end] - w->used[begin], count = w->count[end] - w->count[begin];
    return 0.5 * (w->reach[end] - w->reach[begin]) * (1 - 1 / used) * (1 - used / count);
}

/* KL of a window, times W: smaller is better. */
static double divergence(const weights *w, window at) {
    const double total = w->sum[QB_STATS_BINS], inside = w->sum[at.b] - w->sum[at.a];
    const double left = w->sum[at.a], right = total - w->sum[at.b];
    const grid g = grid_of(at);
    double cross = 0; /* sum of p ln q, without V */
    for (int32_t code = 0, begin = at.a; code < CODES; code++) {
        const int32_t end = code_end(g, code, begin, at.b);
        /* At least half a bin's magnitude, whatever is lost in the difference of large sums. */
        const double mass = fmax(w->sum[end] - w->sum[begin], 0.5);
        const int32_t used = w->used[end] - w->used[begin];
        if (used > 0) {
            double folded = mass + (begin <= at.a ? left : 0) + (end >= at.b ? right : 0);
            cross += folded * log(mass / used) + noise(w, begin, end);
        }
        begin = end;
    }
    double own = w->log[at.b] - w->log[at.a]; /* sum of p ln p */
    if (left > 0) own += x_log_x(w->bin[at.a] + left) - x_log_x(w->bin[at.a]);
    if (right > 0) own += x_log_x(w->bin[at.b - 1] + right) - x_log_x(w->bin[at.b - 1]);
    return own - cross - total * log(total / inside);
}

/* The window with one end (the right one, or the left one) `reach` bins from zero. */
static window with_reach(window at, bool right, int32_t reach) {
    return right ? (window){at.a, HALF + reach} : (window){HALF - reach, at.b};
}

typedef struct best {
    double value;
    window at;
    int32_t reach;
} best;

/* Tries the first window at or inside `reach` that ends with a bin that is not empty. */
static void try_reach(const weights *w, bool right, int32_t reach, int32_t least, best *found) {
    window at = with_reach(found->at, right, reach);
    while (reach >= least && w->bin[right ? at.b - 1 : at.a] == 0)
        at = with_reach(found->at, right, --reach);
    if (reach < least) return;
    double value = divergence(w, at);
    if (value < found->value && squared_error(w, at) <= w->error_limit)
        *found = (best){value, at, reach};
}

/* The best window that moves one end of `at`; `most` is the reach of the full range. */
static window search_end(const weights *w, window at, bool right, int32_t most) {
    int32_t other = right ? HALF - at.a : at.b - HALF;
    int32_t least = CODES - other > 1 ? CODES - other : 1;
    best found = {INFINITY, at, most};
    for (int32_t reach = most; reach >= least; reach -= STRIDE)
        try_reach(w, right, reach, least, &found);
    int32_t high = found.reach + STRIDE - 1, low = found.reach - STRIDE + 1;
    if (high > most) high = most;
    for (int32_t reach = high; reach >= low && reach >= least; reach--)
        try_reach(w, right, reach, least, &found);
    return found.at;
}

static window search(weights *w) {
    const window full = {w->first < HALF ? w->first : HALF, w->last >= HALF ? w->last + 1 : HALF};
    w->error_limit = ERROR_FACTOR * squared_error(w, full);
    window at = full;
    for (int round = 0; round < ROUNDS; round++) {
        window before = at;
        if (full.b > HALF) at = search_end(w, at, true, full.b - HALF);
        if (full.a < HALF) at = search_end(w, at, false, HALF - full.a);
        bool one_sided = full.a == HALF || full.b == HALF;
        if (one_sided || (at.a == before.a && at.b == before.b)) break;
    }
    return at;
}

static qb_status range(qb_ctx *cx, const qb_stats *stats, double argument, qb_range *out) {
    (void)argument;
    weights *w = qb_alloc(cx, 1, sizeof *w);
    if (!w) return cx->code;
    weigh(stats, w);
    qb_range kept = {stats->min, stats->max};
    if (w->last >= 0) {
        window at = search(w);
        kept.lo = fmaxf((float)qb_stats_edge(stats, at.a), stats->min);
        kept.hi = fminf((float)qb_stats_edge(stats, at.b), stats->max);
    }
    *out = kept;
    qb_free(w);
    return QB_OK;
}

const qb_calib_method qb_calib_method_entropy = {
    .name = "entropy",
    .summary = "least Kullback-Leibler divergence of the signal's amplitude over 256 codes",
    .range = range,
};

/* entropy: the range whose 256 quantized values keep most of what the signal says, by
 * Kullback-Leibler divergence.
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
 * - Q is what the quantized values tell about the window's own weight V (without the clipped part):
 * each code's weight, spread evenly over those of its bins that are not empty, divided by V.
 * - noise is what chance alone adds: n_c values that fall evenly into the m_c used bins of code c
 *   still differ from bin to bin, by |j + 1/2| (1 - 1/m_c) (1 - m_c/n_c) / 2W a bin to first order
 *   (Miller and Madow's correction, with a last factor for bins of few values). Without it a small
 *   sample looks full of detail and pulls the range in.
 * - KL = sum_j p_j ln(p_j / q_j) - noise
 *
 * P folds the clipped weight into the ends and Q does not, so clipping always costs; a wide window
 * costs because few quantized values cannot follow the shape. The window of least KL wins, the
 * wider of equals, among those whose squared error (of values against what their quantized values
 * stand for, clipped ones included) is at most four times that of the full range: clipping may cost
 * one of the eight bits. Without this veto spikes decide: divergence counts it as loss when a code
 * covers several of them, though no value moved by more than half a step.
 *
 * symmetric: the same with windows whose ends are equally far from zero, at least 128 bins each,
 * for quantized values that are (s8 symmetric); the range is the window's part that holds values.
 *
 * All is in whole bins (see calib/search.h for the search). With prefix sums a window costs 256
 * logarithms, a tensor 1 to 10 ms.
 *
 * The other variants are what well-known tools compute, see calib/entropy/. */
#include <math.h>

#include "calib/calib.h"
#include "calib/entropy/peers_internal.h"
#include "calib/search.h"

#define HALF (QB_STATS_BINS / 2)
#define LEVELS 256
#define ERROR_FACTOR 4

typedef struct weights {
    qb_spectrum spectrum;
    double bin[QB_STATS_BINS];       /* w_j */
    double sum[QB_STATS_BINS + 1];   /* of bin[0 .. j) */
    double log[QB_STATS_BINS + 1];   /* of bin ln(bin) */
    int32_t used[QB_STATS_BINS + 1]; /* bins that are not empty */
    double reach[QB_STATS_BINS + 1]; /* sum of |j + 1/2| over them */
    double error_limit;              /* most squared error that a window may make */
} weights;

static double x_log_x(double x) { return x > 0 ? x * log(x) : 0; }

static void weigh(const qb_stats *stats, weights *w) {
    qb_spectrum_init(stats, &w->spectrum);
    for (int32_t j = 0; j < QB_STATS_BINS; j++) {
        uint64_t n = stats->bin[j] - (j == HALF ? stats->zeros : 0);
        const double magnitude = fabs(j - HALF + 0.5);
        w->bin[j] = (double)n * magnitude;
        w->sum[j + 1] = w->sum[j] + w->bin[j];
        w->log[j + 1] = w->log[j] + x_log_x(w->bin[j]);
        w->used[j + 1] = w->used[j] + (n > 0);
        w->reach[j + 1] = w->reach[j] + (n > 0 ? magnitude : 0);
    }
}

/* Where the bins of one step end, from `begin` to `last`: the next code starts at the first j with
 * (j + 1/2) / S + 1/2 >= code + 1 - Z. */
static int32_t level_end(qb_grid g, int32_t level, int32_t begin, int32_t last) {
    if (level == LEVELS - 1) return last;
    int32_t end = (int32_t)ceil((level + 0.5 - g.zero) * g.step - 0.5) + HALF;
    return end < begin ? begin : end > last ? last : end;
}

/* The noise of one step, times W. */
static double noise(const weights *w, int32_t begin, int32_t end) {
    const double used = w->used[end] - w->used[begin];
    const double count = w->spectrum.count[end] - w->spectrum.count[begin];
    return 0.5 * (w->reach[end] - w->reach[begin]) * (1 - 1 / used) * (1 - used / count);
}

/* KL of a window, times W: smaller is better. */
static double divergence(const weights *w, qb_bins at) {
    const double total = w->sum[QB_STATS_BINS], inside = w->sum[at.b] - w->sum[at.a];
    const double left = w->sum[at.a], right = total - w->sum[at.b];
    const qb_grid g = qb_bins_grid(at);
    double cross = 0; /* sum of p ln q, without V */
    for (int32_t level = 0, begin = at.a; level < LEVELS; level++) {
        const int32_t end = level_end(g, level, begin, at.b);
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

static double squared_error(const weights *w, qb_bins at) {
    return qb_spectrum_error(&w->spectrum, qb_bins_grid(at));
}

static double cost(const void *user, qb_bins at, double beat) {
    const weights *w = user;
    const double value = divergence(w, at);
    return value < beat && squared_error(w, at) <= w->error_limit ? value : INFINITY;
}

/* What is clipped must have a bin to go to: here one of the two end bins may be empty. */
static double symmetric_cost(const void *user, qb_bins at, double beat) {
    const weights *w = user;
    const bool left_lost = w->sum[at.a] > 0 && w->bin[at.a] <= 0;
    const bool right_lost = w->sum[QB_STATS_BINS] > w->sum[at.b] && w->bin[at.b - 1] <= 0;
    return left_lost || right_lost ? INFINITY : cost(user, at, beat);
}

/* The best window of either kind, within the full one. */
static qb_bins search(const weights *w, bool symmetric) {
    const qb_bins full = qb_bins_full(&w->spectrum);
    if (symmetric) {
        const qb_bins_problem problem = {&w->spectrum, symmetric_cost, w, true};
        return qb_bins_around_zero(full, qb_reach_search(&problem));
    }
    const qb_bins_problem problem = {&w->spectrum, cost, w, true};
    return qb_bins_search(&problem, full);
}

static qb_status own_range(qb_ctx *cx, const qb_stats *stats, bool symmetric, qb_range *out) {
    QB_FREED weights *w = QB_NEW(cx, qb_alloc(cx, 1, sizeof *w));
    weigh(stats, w);
    *out = (qb_range){stats->min, stats->max};
    if (w->spectrum.last >= 0) {
        const qb_bins full = qb_bins_full(&w->spectrum);
        const qb_bins widest = symmetric ? qb_bins_mirrored(full) : full;
        w->error_limit = ERROR_FACTOR * squared_error(w, widest);
        *out = qb_bins_range(stats, search(w, symmetric));
    }
    return QB_OK;
}

static const char *const variants[] = {"amplitude", "symmetric", "nvidia", "ort",
                                       "ncnn",      "ppq",       NULL};

static qb_status range(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out) {
    static const qb_entropy_peer *const peers[] = {&qb_entropy_nvidia, &qb_entropy_ort,
                                                   &qb_entropy_ncnn, &qb_entropy_ppq};
    if (choice->variant < 2) return own_range(cx, seen->stats, choice->variant == 1, out);
    return qb_entropy_peer_range(cx, seen->stats, peers[choice->variant - 2], out);
}

const qb_calib_method qb_calib_method_entropy = {
    .name = "entropy",
    .summary =
        "least Kullback-Leibler divergence of the signal's amplitude over 256 quantized values;\n"
        "symmetric: both ends equally far from zero; nvidia, ort, ncnn, ppq: the "
        "definitions of these tools",
    .variants = variants,
    .range = range,
};

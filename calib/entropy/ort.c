/* entropy:ort: the entropy calibrator of onnxruntime's quantization tool.
 *
 * Definition. A histogram of 2n bins about zero, n <= 1024. For i = 64 .. n the window holds i bins
 * left of zero and i + 1 right of it (i at the end). P is the window with what lies beyond added to
 * its end bins. The window's own counts are summed over 128 runs of floor(size / 128) bins, what is
 * left over going to the last sum; Q gives each bin of a run the sum over the number of bins of P
 * in the run that are not empty, rounded down to an integer, and 0 to the bins left over. Zeros of
 * P and of Q become 1e-4, taken in equal parts from the other bins. Both are normalized to 1. The
 * first i of least KL(P | Q) is chosen.
 *
 * The tool's own default of 128 bins leaves one candidate, the full range; 2048 is what its users
 * give instead. */
#include <math.h>

#include "calib/entropy/peers_internal.h"

#define LEVELS 128
#define EPSILON 1e-4
#define N (QB_SIDE_BINS / 2) /* most bins of both sides together: 2048 */

/* Prefix sums over the bins of both sides; counts are whole numbers. */
typedef struct both {
    int32_t n; /* a side */
    double count[N], sum[N + 1];
    int32_t used[N + 1];
    /* For ln(c - e) with a small e: sums over the bins that are not empty of c ln(c), ln(c) + 1 and
     * of c^-1, c^-2, c^-3. */
    double log[N + 1], slope[N + 1], power[3][N + 1];
} both;

static void both_init(const qb_sides *sides, both *b) {
    b->n = sides->n;
    b->sum[0] = b->log[0] = b->slope[0] = 0;
    b->used[0] = 0;
    for (int k = 0; k < 3; k++) b->power[k][0] = 0;
    for (int32_t i = 0; i < 2 * b->n; i++) {
        const double c = i < b->n ? sides->left[b->n - 1 - i] : sides->right[i - b->n];
        const bool used = c > 0;
        b->count[i] = c;
        b->sum[i + 1] = b->sum[i] + c;
        b->used[i + 1] = b->used[i] + used;
        b->log[i + 1] = b->log[i] + qb_x_log_x(c);
        b->slope[i + 1] = b->slope[i] + (used ? log(c) + 1 : 0);
        for (int k = 0; k < 3; k++)
            b->power[k][i + 1] = b->power[k][i] + (used ? pow(c, -1 - k) : 0);
    }
}

/* Sum of (c - e) ln(c - e) over the bins of [begin, end) that are not empty; e < 1 <= c. */
static double own_terms(const both *b, int32_t begin, int32_t end, double e) {
    return b->log[end] - b->log[begin] - e * (b->slope[end] - b->slope[begin]) +
           e * e / 2 * (b->power[0][end] - b->power[0][begin]) +
           e * e * e / 6 * (b->power[1][end] - b->power[1][begin]) +
           e * e * e * e / 12 * (b->power[2][end] - b->power[2][begin]);
}

/* A window's P: bins [begin, end), of which the ends may hold more than their own count. */
typedef struct window {
    int32_t begin, end;
    double first, last; /* added to the end bins */
    double taken;       /* from each bin that is not empty */
} window;

static int32_t used_bins(const both *b, const window *w, int32_t begin, int32_t end) {
    int32_t used = b->used[end] - b->used[begin];
    if (begin == w->begin && w->first > 0 && b->count[w->begin] == 0) used++;
    if (end == w->end && w->last > 0 && b->count[w->end - 1] == 0) used++;
    return used;
}

/* Sum of the smoothed P over [begin, end). */
static double smoothed(const both *b, const window *w, int32_t begin, int32_t end) {
    const int32_t used = used_bins(b, w, begin, end);
    return b->sum[end] - b->sum[begin] + (begin == w->begin ? w->first : 0) +
           (end == w->end ? w->last : 0) - used * w->taken + (end - begin - used) * EPSILON;
}

static double own_of_window(const both *b, const window *w) {
    double own = own_terms(b, w->begin, w->end, w->taken);
    const int32_t at[2] = {w->begin, w->end - 1};
    const double more[2] = {w->first, w->last};
    for (int k = 0; k < 2; k++) {
        if (more[k] <= 0) continue;
        const double c = b->count[at[k]];
        if (c > 0) own -= own_terms(b, at[k], at[k] + 1, w->taken);
        own += qb_x_log_x(c + more[k] - w->taken);
    }
    const int32_t empty = w->end - w->begin - used_bins(b, w, w->begin, w->end);
    return own + empty * qb_x_log_x(EPSILON);
}

/* The runs' values in Q, and what smoothing takes from each; false when all of them are zero. */
static bool make_q(const both *b, const window *w, int32_t run, double q[LEVELS], double *taken,
                   double *total) {
    int32_t positive = 0;
    *total = 0;
    for (int32_t r = 0; r < LEVELS; r++) {
        const int32_t begin = w->begin + r * run, end = begin + run;
        const double sum = b->sum[r == LEVELS - 1 ? w->end : end] - b->sum[begin];
        const int32_t used = used_bins(b, w, begin, end);
        q[r] = used > 0 ? floor(sum / used) : 0;
        positive += q[r] > 0 ? run : 0;
        *total += q[r] * run;
    }
    if (positive == 0) return false;
    *taken = EPSILON * (w->end - w->begin - positive) / positive;
    return true;
}

static double divergence(const both *b, int32_t reach) {
    window w = {.begin = b->n - reach, .end = b->n + reach + (reach < b->n)};
    const int32_t size = w.end - w.begin, run = size / LEVELS;
    w.first = b->sum[w.begin];
    w.last = b->sum[2 * b->n] - b->sum[w.end];
    const int32_t used = used_bins(b, &w, w.begin, w.end);
    if (used == 0) return INFINITY;
    w.taken = EPSILON * (size - used) / used;
    double q[LEVELS], taken_q, total_q;
    if (!make_q(b, &w, run, q, &taken_q, &total_q) || w.taken >= 1 || taken_q >= 1) return INFINITY;
    double cross = 0;
    for (int32_t r = 0; r < LEVELS; r++)
        cross += smoothed(b, &w, w.begin + r * run, w.begin + (r + 1) * run) *
                 log(q[r] > 0 ? q[r] - taken_q : EPSILON);
    const int32_t rest = w.begin + LEVELS * run;
    if (rest < w.end) cross += smoothed(b, &w, rest, w.end) * log(EPSILON);
    const double total = b->sum[2 * b->n];
    return (own_of_window(b, &w) - cross) / total - log(total / total_q);
}

static qb_status keep(qb_ctx *cx, const qb_sides *sides, qb_kept *out) {
    QB_FREED both *b = QB_NEW(cx, qb_alloc(cx, 1, sizeof *b));
    both_init(sides, b);
    double best = INFINITY;
    int32_t at = b->n;
    for (int32_t i = LEVELS / 2; i <= b->n; i++) {
        const double kl = divergence(b, i);
        if (kl < best) {
            best = kl;
            at = i;
        }
    }
    *out = (qb_kept){-at, at + (at < b->n)};
    return QB_OK;
}

const qb_entropy_peer qb_entropy_ort = {.most = N / 2, .keep = keep};

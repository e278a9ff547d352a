/* entropy:ppq: the histogram observer of PPQ.
 *
 * Definition. Bins 0 .. n-1 by magnitude, n <= 4096, filled up with empty ones to a multiple of
 * 128; the first floor(0.002 n) of them are emptied and the next one gets the count 1. For each
 * multiple i of 128 up to n: P is bins 0 .. i-1 with all that lies beyond added to the last one, Q
 * spreads the count of each of 128 equal parts evenly over its bins that are not empty; both are
 * normalized. The first i of least sum of p (lg(p + 1e-30) - lg(q + 1e-30)) is the threshold, in
 * bins. */
#include <math.h>

#include "calib/entropy/peers_internal.h"

#define LEVELS 128
#define EPSILON 1e-30

static double term(double p, double q) {
    return p > 0 ? p * (log10(p + EPSILON) - log10(q + EPSILON)) : 0;
}

static double divergence(const qb_mass *m, int32_t at) {
    const double total = m->sum[m->n], inside = m->sum[at], tail = total - inside;
    const int32_t part = at / LEVELS;
    double sum = 0;
    for (int32_t begin = 0; begin < at; begin += part) {
        const int32_t used = m->used[begin + part] - m->used[begin];
        const double mass = m->sum[begin + part] - m->sum[begin];
        const double q = used > 0 ? mass / used / inside : 0;
        for (int32_t i = begin; i < begin + part; i++) {
            const double count = m->count[i] + (i == at - 1 ? tail : 0);
            sum += term(count / total, m->count[i] > 0 ? q : 0);
        }
    }
    return sum;
}

static qb_status keep(qb_ctx *cx, const qb_sides *sides, qb_kept *out) {
    QB_FREED qb_mass *m = qb_alloc(cx, 1, sizeof *m);
    QB_FREED double *count = qb_alloc(cx, QB_SIDE_BINS, sizeof *count);
    if (m && count) {
        const int32_t n = (sides->n + LEVELS - 1) / LEVELS * LEVELS, dropped = (int32_t)(n * 0.002);
        for (int32_t i = 0; i < sides->n; i++)
            count[i] = i < dropped ? 0 : i == dropped ? 1 : sides->right[i] + sides->left[i];
        count[dropped] = 1;
        qb_mass_init(m, count, n);
        double best = INFINITY;
        int32_t at = n;
        for (int32_t i = LEVELS; i <= n; i += LEVELS) {
            const double kl = divergence(m, i);
            if (kl < best) {
                best = kl;
                at = i;
            }
        }
        *out = (qb_kept){-at, at};
    }
    return m && count ? QB_OK : cx->code;
}

const qb_entropy_peer qb_entropy_ppq = {.most = 4096, .keep = keep};

/* entropy:nvidia: the histogram calibrator of NVIDIA's pytorch-quantization.
 *
 * Definition. Bins 0 .. n-1 by magnitude, n <= 2048; bin 0 gets the count of bin 1. For i = 128 ..
 * n: P is bins 0 .. i-1 with all that lies beyond added to the last one; Q spreads the count of
 * each of 128 equal parts of [0, i) (bin k is in part floor(k 128 / i)) evenly over its bins that
 * are not empty. Both are normalized to 1. The last i of least KL(P | Q) is the threshold, in bins.
 */
#include <math.h>

#include "calib/entropy/peers_internal.h"

#define LEVELS 128

/* KL for bins [0, at), times the sum of all counts; infinite where P has what Q has not. */
static double divergence(const qb_mass *m, int32_t at) {
    const double total = m->sum[m->n], tail = total - m->sum[at], last = m->count[at - 1];
    if (tail > 0 && last == 0) return INFINITY;
    double own = m->log[at] - qb_x_log_x(last) + qb_x_log_x(last + tail), cross = 0;
    for (int32_t level = 0, begin = 0; level < LEVELS; level++) {
        const int32_t end = (int32_t)(((int64_t)(level + 1) * at + LEVELS - 1) / LEVELS);
        const int32_t used = m->used[end] - m->used[begin];
        const double mass = m->sum[end] - m->sum[begin];
        if (used > 0) cross += (mass + (end == at ? tail : 0)) * log(mass / used);
        begin = end;
    }
    return own - cross - total * log(total / m->sum[at]);
}

static qb_status keep(qb_ctx *cx, const qb_sides *sides, qb_kept *out) {
    QB_FREED qb_mass *m = qb_alloc(cx, 1, sizeof *m);
    QB_FREED double *count = qb_alloc(cx, QB_SIDE_BINS, sizeof *count);
    if (m && count) {
        for (int32_t i = 0; i < sides->n; i++) count[i] = sides->right[i] + sides->left[i];
        count[0] = sides->n > 1 ? count[1] : 0;
        qb_mass_init(m, count, sides->n);
        double best = INFINITY;
        int32_t at = sides->n;
        for (int32_t i = LEVELS; i <= sides->n && m->sum[i] > 0; i++) {
            const double kl = divergence(m, i);
            if (kl <= best) {
                best = kl;
                at = i;
            }
        }
        *out = (qb_kept){-at, at};
    }
    return m && count ? QB_OK : cx->code;
}

const qb_entropy_peer qb_entropy_nvidia = {.most = 2048, .keep = keep};

#include <math.h>

#include "calib/entropy/peers_internal.h"

double qb_x_log_x(double x) { return x > 0 ? x * log(x) : 0; }

void qb_mass_init(qb_mass *mass, const double *count, int32_t n) {
    mass->n = n;
    mass->sum[0] = mass->log[0] = mass->used[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        mass->count[i] = count[i];
        mass->sum[i + 1] = mass->sum[i] + count[i];
        mass->log[i + 1] = mass->log[i] + qb_x_log_x(count[i]);
        mass->used[i + 1] = mass->used[i] + (count[i] > 0);
    }
}

static void halve(double *side, int32_t n) {
    for (int32_t i = 0; i < (n + 1) / 2; i++)
        side[i] = side[2 * i] + (2 * i + 1 < n ? side[2 * i + 1] : 0);
}

/* At most `most` bins each. */
static void init_sides(const qb_stats *stats, int32_t most, qb_sides *out) {
    out->width = qb_stats_edge(stats, QB_SIDE_BINS + 1);
    out->zeros = (double)stats->zeros;
    out->n = 1;
    for (int32_t i = 0; i < QB_SIDE_BINS; i++) {
        out->right[i] = (double)stats->bin[QB_SIDE_BINS + i];
        out->left[i] = (double)stats->bin[QB_SIDE_BINS - 1 - i];
        if (out->right[i] > 0 || out->left[i] > 0) out->n = i + 1;
    }
    while (out->n > most) {
        halve(out->right, out->n);
        halve(out->left, out->n);
        out->n = (out->n + 1) / 2;
        out->width *= 2;
    }
}

qb_status qb_entropy_peer_range(qb_ctx *cx, const qb_stats *stats, const qb_entropy_peer *peer,
                                qb_range *out) {
    QB_FREED qb_sides *sides = QB_NEW(cx, qb_alloc(cx, 1, sizeof *sides));
    init_sides(stats, peer->most, sides);
    qb_kept kept;
    QB_TRY(peer->keep(cx, sides, &kept));
    const double scale = sides->width / qb_stats_edge(stats, QB_SIDE_BINS + 1);
    *out = qb_range_of_bins(stats, kept.lo * scale, kept.hi * scale);
    return QB_OK;
}

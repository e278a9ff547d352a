#include "calib/search.h"

#include <math.h>

#include "calib/calib.h"

#define HALF (QB_STATS_BINS / 2)
#define LEVELS 256
#define STRIDE 16
#define ROUNDS 8

qb_bins qb_bins_full(const qb_spectrum *spectrum) {
    if (spectrum->first > spectrum->last) return (qb_bins){HALF, HALF};
    return (qb_bins){spectrum->first < HALF ? spectrum->first : HALF,
                     spectrum->last >= HALF ? spectrum->last + 1 : HALF};
}

static int32_t longest_reach(qb_bins at) {
    const int32_t left = HALF - at.a, right = at.b - HALF;
    return left > right ? left : right;
}

qb_bins qb_bins_mirrored(qb_bins at) {
    const int32_t reach = longest_reach(at);
    return (qb_bins){HALF - reach, HALF + reach};
}

qb_bins qb_bins_around_zero(qb_bins full, int32_t reach) {
    const int32_t a = HALF - reach, b = HALF + reach;
    return (qb_bins){a > full.a ? a : full.a, b < full.b ? b : full.b};
}

qb_grid qb_bins_grid(qb_bins at) {
    const double step = (at.b - at.a) / (LEVELS - 1.0);
    return (qb_grid){step, step > 0 ? (int32_t)rint((HALF - at.a) / step) : 0, 0, LEVELS - 1};
}

qb_range qb_bins_range(const qb_stats *stats, qb_bins at) {
    return qb_range_of_bins(stats, at.a - HALF, at.b - HALF);
}

/* Which ends move. */
typedef enum ends { LEFT, RIGHT, BOTH } ends;

/* The window with the moving ends `reach` bins from zero. */
static qb_bins with_reach(qb_bins at, ends moving, int32_t reach) {
    if (moving != RIGHT) at.a = HALF - reach;
    if (moving != LEFT) at.b = HALF + reach;
    return at;
}

static bool is_empty(const qb_spectrum *s, int32_t bin) {
    return s->count[bin + 1] - s->count[bin] <= 0;
}

static bool ends_empty(const qb_spectrum *s, qb_bins at, ends moving) {
    return (moving == LEFT || is_empty(s, at.b - 1)) && (moving == RIGHT || is_empty(s, at.a));
}

typedef struct best {
    double cost;
    qb_bins at;
    int32_t reach;
} best;

/* Tries the first window at or inside `reach` whose ends will do. */
static void try_reach(const qb_bins_problem *s, ends moving, int32_t reach, int32_t least,
                      best *found) {
    qb_bins at = with_reach(found->at, moving, reach);
    while (s->ends_used && reach >= least && ends_empty(s->spectrum, at, moving))
        at = with_reach(found->at, moving, --reach);
    if (reach < least) return;
    const double cost = s->cost(s->user, at, found->cost);
    if (cost < found->cost) *found = (best){cost, at, reach};
}

/* The best window that moves ends of `at`; `most` is their reach in the full one. */
static best search_ends(const qb_bins_problem *s, qb_bins at, ends moving, int32_t most,
                        int32_t least) {
    best found = {INFINITY, at, most};
    for (int32_t reach = most; reach >= least; reach -= STRIDE)
        try_reach(s, moving, reach, least, &found);
    int32_t high = found.reach + STRIDE - 1, low = found.reach - STRIDE + 1;
    if (high > most) high = most;
    for (int32_t reach = high; reach >= low && reach >= least; reach--)
        try_reach(s, moving, reach, least, &found);
    return found;
}

/* One end, with the other one where it is. */
static qb_bins search_end(const qb_bins_problem *s, qb_bins at, ends moving, int32_t most) {
    const int32_t other = moving == RIGHT ? HALF - at.a : at.b - HALF;
    const int32_t least = LEVELS - other > 1 ? LEVELS - other : 1;
    return search_ends(s, at, moving, most, least).at;
}

qb_bins qb_bins_search(const qb_bins_problem *problem, qb_bins start) {
    const qb_bins full = qb_bins_full(problem->spectrum);
    qb_bins at = start;
    for (int round = 0; round < ROUNDS; round++) {
        const qb_bins before = at;
        if (full.b > HALF) at = search_end(problem, at, RIGHT, full.b - HALF);
        if (full.a < HALF) at = search_end(problem, at, LEFT, HALF - full.a);
        const bool one_sided = full.a == HALF || full.b == HALF;
        if (one_sided || (at.a == before.a && at.b == before.b)) break;
    }
    return at;
}

int32_t qb_reach_search(const qb_bins_problem *problem) {
    const qb_bins full = qb_bins_full(problem->spectrum);
    return search_ends(problem, full, BOTH, longest_reach(full), LEVELS / 2).reach;
}

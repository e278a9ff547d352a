/* entropy:ncnn: the KL method of ncnn2table.
 *
 * Definition. Bins 0 .. n-1 by magnitude, n <= 2048, without exact zeros, normalized to the sum 1.
 * For t = 128 .. n-1: P is bins 0 .. t-1 with all that lies beyond added to the last one; Q gives
 * each of 128 equal parts of [0, t) its mean, where a bin that two parts share counts in both by
 * its fraction and gets from both by its fraction. 1e-4 is added to every bin of both, and neither
 * is normalized again. The first t of least sum of p ln(p / q) is chosen; the threshold is t + 1/2
 * bins. The full range is no candidate. */
#include <math.h>

#include "calib/entropy/peers_internal.h"

#define LEVELS 128
#define EPSILON 1e-4

/* Prefix sums of the normalized histogram h, and of a = h + epsilon and a ln(a). */
typedef struct smooth {
    int32_t n;
    double h[QB_SIDE_BINS], h_sum[QB_SIDE_BINS + 1], own[QB_SIDE_BINS + 1];
} smooth;

static void smooth_init(const qb_sides *sides, smooth *s) {
    double total = -sides->zeros;
    s->n = sides->n;
    for (int32_t i = 0; i < s->n; i++) total += sides->right[i] + sides->left[i];
    s->h_sum[0] = s->own[0] = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const double count = sides->right[i] + sides->left[i] - (i == 0 ? sides->zeros : 0);
        s->h[i] = total > 0 ? count / total : 0;
        s->h_sum[i + 1] = s->h_sum[i] + s->h[i];
        s->own[i + 1] = s->own[i] + qb_x_log_x(s->h[i] + EPSILON);
    }
}

/* Sum of h over [0, x), shared bins by their fraction. */
static double sum_below(const smooth *s, double x) {
    const int32_t whole = (int32_t)x;
    return s->h_sum[whole] + (x > whole ? (x - whole) * s->h[whole] : 0);
}

static double divergence(const smooth *s, int32_t t) {
    const double part = (double)t / LEVELS, tail = s->h_sum[s->n] - s->h_sum[t];
    const double last = s->h[t - 1] + EPSILON;
    double cross = 0, before = 0;    /* `before`: mean of the part to the left */
    double begin_sum = 0, begin = 0; /* where the part begins */
    for (int32_t level = 0; level < LEVELS; level++) {
        const double end = (level + 1) * part, end_sum = sum_below(s, end);
        const double mean = (end_sum - begin_sum) / part;
        const int32_t whole = (int32_t)begin;
        int32_t inner = whole;
        if (begin > whole) { /* the bin that it shares with the part to the left */
            const double q = EPSILON + (begin - whole) * before + (whole + 1 - begin) * mean;
            cross += (s->h[whole] + EPSILON) * log(q);
            inner++;
        }
        const int32_t stop = (int32_t)end;
        const double mass = s->h_sum[stop] - s->h_sum[inner] + (stop - inner) * EPSILON;
        cross += (mass + (level == LEVELS - 1 ? tail : 0)) * log(mean + EPSILON);
        before = mean;
        begin = end;
        begin_sum = end_sum;
    }
    return s->own[t] - qb_x_log_x(last) + qb_x_log_x(last + tail) - cross;
}

static qb_status keep(qb_ctx *cx, const qb_sides *sides, qb_kept *out) {
    QB_FREED smooth *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    smooth_init(sides, s);
    double best = INFINITY;
    int32_t at = LEVELS;
    for (int32_t t = LEVELS; t < s->n; t++) {
        const double kl = divergence(s, t);
        if (kl < best) {
            best = kl;
            at = t;
        }
    }
    *out = (qb_kept){-(at + 0.5), at + 0.5};
    return QB_OK;
}

const qb_entropy_peer qb_entropy_ncnn = {.most = 2048, .keep = keep};

/* Observers: exact extremes and a histogram in fixed memory, from one pass over the values.
 *
 * The histogram has QB_STATS_BINS bins over [-2^exponent, 2^exponent). When a finite value falls
 * outside, the range doubles and pairs of bins merge, so every count stays an exact integer and the
 * result depends only on the multiset of values: not on batches, order, threads or shards.
 * The exponent starts at QB_STATS_MIN_EXPONENT and ends as the smallest one that holds all values.
 * Value v falls into bin floor((v / 2^exponent + 1) * QB_STATS_BINS / 2). */
#ifndef QB_KERNELS_STATS_H
#define QB_KERNELS_STATS_H

#include <stdint.h>

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_STATS_BINS 8192
#define QB_STATS_MIN_EXPONENT (-32)
#define QB_STATS_MAX_EXPONENT 128

typedef struct qb_stats {
    int32_t exponent;
    float min, max; /* of the finite values; min > max (+inf, -inf) when there were none */
    uint64_t count; /* finite values */
    uint64_t zeros; /* exact zeros among them */
    uint64_t nan, pos_inf, neg_inf; /* counted, not folded in */
    uint64_t bin[QB_STATS_BINS];
} qb_stats;

void qb_stats_init(qb_stats *stats);
void qb_stats_add(qb_stats *stats, const float *value, size_t n);
/* Adds the first n_items of axis 0 of an f32 tensor in any layout, without its padding lanes.
 * n_items < 0: all. */
void qb_stats_add_tensor(qb_stats *stats, const qb_tensor *tensor, int64_t n_items);
/* into += from; exact, commutative and associative. */
void qb_stats_merge(qb_stats *into, const qb_stats *from);
/* Left edge of a bin (index QB_STATS_BINS gives the right end of the range). */
double qb_stats_edge(const qb_stats *stats, int32_t bin);

#ifdef __cplusplus
}
#endif
#endif

/* Statistics of tensors gathered on the device, in one pass: the numbers of qb_stats_add_tensor.
 *
 * Each block counts into a histogram in shared memory at the exponent that the tensor has so far,
 * and adds it to the tensor's bins. A value outside of that range goes to a table with the bins of
 * every exponent, and the last block to finish doubles the range until it holds all and empties the
 * table. All sums are of integers, so the result does not depend on the order of blocks. */
#ifndef QB_CUDA_OBSERVE_H
#define QB_CUDA_OBSERVE_H

#include "base/ctx.h"
#include "kernels/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One tensor's, on the device: zeros but for `stats`, which is as qb_stats_init leaves it. */
typedef struct qb_cuda_observed {
    qb_stats stats;
    uint64_t values; /* seen, finite or not */
    uint32_t done;   /* blocks of the launch that runs */
    uint32_t outside;
} qb_cuda_observed;

/* The table of values that are out of range: by exponent, 2048 bins of each sign. Zeros between
 * launches; tensors observed one after the other share one. */
#define QB_CUDA_OBSERVE_TABLE                                                                      \
    ((QB_STATS_MAX_EXPONENT - QB_STATS_MIN_EXPONENT + 1) * (QB_STATS_BINS / 2) * sizeof(uint32_t))

/* Extremes of one item as they are kept on the device, smaller is smaller: of the least value, and
 * of the greatest one inverted; all ones where nothing was finite. */
float qb_cuda_extreme_low(uint32_t key);
float qb_cuda_extreme_high(uint32_t key);

/* f32 in ROW or NHWC, also a slice of channels. */
bool qb_cuda_observe_takes(const qb_desc *desc);
/* Adds the first n_items of axis 0 to *state and their extremes to low[n_items] and high[n_items]
 * (set to all ones before). All pointers but `desc` are to device memory. Only enqueues. */
qb_status qb_cuda_observe(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                          qb_cuda_observed *state, uint32_t *table, uint32_t *low, uint32_t *high,
                          void *stream);

/* What the kernel needs to know: items of `rows` times `lanes` values, strides in elements. */
typedef struct qb_cuda_observe_shape {
    int64_t first, item_stride;
    uint32_t items, rows, lanes, row_stride, segments;
    int32_t quads; /* values may be read four at a time */
} qb_cuda_observe_shape;
int qb_cuda_observe_run(const qb_cuda_observe_shape *p, const float *data, qb_cuda_observed *state,
                        uint32_t *table, uint32_t *low, uint32_t *high, int32_t blocks,
                        void *stream);
#define QB_CUDA_OBSERVE_SEGMENT 16384 /* values of one item that a block takes at once */

#ifdef __cplusplus
}
#endif
#endif

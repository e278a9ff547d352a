/* Recurrent layers on the device: what host and kernels share of a layer's walk over time.
 *
 * Directions, and groups of items, do not depend on each other. Each such team has blocks of
 * `units` hidden units: all gates of a unit are in one block, with its part of R in shared memory
 * where that fits. After a step the blocks of a team wait for each other, as they need all of h. */
#ifndef QB_CUDA_RECURRENT_H
#define QB_CUDA_RECURRENT_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_CUDA_RECURRENT_THREADS 256
#define QB_CUDA_RECURRENT_ROWS 32 /* of R that a warp multiplies at a time */
#define QB_CUDA_RECURRENT_WARPS (QB_CUDA_RECURRENT_THREADS / 32)
#define QB_CUDA_RECURRENT_BLOCKS 2    /* of a multiprocessor, at most */
#define QB_CUDA_RECURRENT_STRIDE 128  /* bytes from a team's counter to the next one */
#define QB_CUDA_RECURRENT_DEPTH 32    /* the states' rows are padded to this */
#define QB_CUDA_RECURRENT_ITEMS_8 8   /* items whose products are made at once: few, */
#define QB_CUDA_RECURRENT_ITEMS_32 32 /* or many */

/* The products of a step. GRU has two where the reset gate multiplies h: the last gate's product is
 * of the result. */
typedef struct qb_cuda_recurrent_pass {
    int32_t gates; /* that the pass makes; they are the layer's from `first_gate` on */
    int32_t first_gate;
    int32_t rows;       /* gates units, padded to 16: row gate units + unit */
    int32_t pitch;      /* floats from an item's sums to the next one's */
    int32_t slices;     /* warps that share out the depth of a product */
    int64_t at_weights; /* bytes from the start of a block's part of R */
} qb_cuda_recurrent_pass;

/* Where things lie in the shared memory of a block, in bytes. R is at the start; x: of two steps;
 * states: see at_states, of a block that is alone. */
typedef struct qb_cuda_recurrent_shared {
    int32_t x, sums, h, c, lengths, states, bytes;
} qb_cuda_recurrent_shared;

typedef struct qb_cuda_recurrent {
    qb_recurrence layer;
    int32_t f16; /* h and R are multiplied as f16, else as f32 */
    int32_t out_dtype, h_dtype, c_dtype;
    int32_t steps, batch, hidden, directions, gates;
    int32_t units, blocks;       /* units of a block, blocks of a team */
    int32_t x_gates;             /* of a unit in the sums of X W; gates, or padded to 4 */
    int32_t items, groups;       /* items of a team (a multiple of 8 where there are several) */
    int32_t padded_items, depth; /* rows of a direction's states, and elements of a row */
    int32_t at_once;             /* items whose products are made at once */
    int32_t in_shared;           /* R is */
    int32_t alone;               /* teams are of one block each, of at most 8 items */
    int32_t usual;      /* sigmoid and tanh, all gates in one pass; no bounds, no peepholes */
    int32_t stationary; /* R is in registers; teams are clusters */
    int32_t n_passes;
    qb_cuda_recurrent_pass pass[2];
    qb_cuda_recurrent_shared shared;
    int64_t weight_bytes; /* R of a block */
    /* Bytes from the start of the packed constants: R [directions][blocks][weight_bytes], GRU's
     * recurrent bias of the last gate [directions][hidden], peepholes [directions][3][hidden]; -1:
     * there is none. */
    int64_t at_weights, at_last_bias, at_peepholes;
    /* Bytes from the start of the workspace: sums of X W and biases, f32 [rows of X][directions]
     * [blocks][units][x_gates]; states as the products read them, [h before, h after, reset h]
     * [directions][padded_items][depth]; a counter for each team. */
    int64_t at_x, at_states, at_counters;
} qb_cuda_recurrent;

/* Y, Y_h and Y_c may be NULL, as may what the layer does not have of `lengths`, h and c. */
typedef struct qb_cuda_recurrent_io {
    const int32_t *lengths;
    const void *h, *c;
    void *y, *y_h, *y_c;
    const char *packed;
    char *workspace;
} qb_cuda_recurrent_io;

/* All steps; the products of X and the counters (zeros) are in the workspace. Returns a code of the
 * CUDA runtime (0: fine). */
int qb_cuda_recurrent_run(const qb_cuda_recurrent *p, const qb_cuda_recurrent_io *io, void *stream);
/* The same of a plan that is weight-stationary, which has no counters. */
int qb_cuda_recurrent_stationary_run(const qb_cuda_recurrent *p, const qb_cuda_recurrent_io *io,
                                     void *stream);

#ifdef __cplusplus
}
#endif
#endif

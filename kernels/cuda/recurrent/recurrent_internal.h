/* What the files of the tactic share. */
#ifndef QB_CUDA_RECURRENT_INTERNAL_H
#define QB_CUDA_RECURRENT_INTERNAL_H

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/recurrent/recurrent.h"

typedef struct qb_cuda_recurrent_state {
    qb_kernel *projection; /* X W + biases, packed at the start of `packed` */
    qb_cuda_recurrent p;
} qb_cuda_recurrent_state;

/* recurrent_plan.c: how units and items are shared out among the blocks of a device. False where it
 * has no room for all blocks of a team at once. `p` has the sizes of the layer. `clusters`: the
 * program's code for the device has them. */
bool qb_cuda_recurrent_plan(qb_cuda_recurrent *p, const qb_cuda_device *device, bool clusters);
/* Columns of the sums of X W. */
int64_t qb_cuda_recurrent_columns(const qb_cuda_recurrent *p);

/* recurrent_pack.c */
qb_status qb_cuda_recurrent_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                                 void *packed);

#endif

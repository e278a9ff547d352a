/* Timing kernels on the device: captured graphs whose launches each work on buffers of their own,
 * together well beyond the L2 cache. */
#ifndef CUDA_TIMING_H
#define CUDA_TIMING_H

#include "base/rng.h"
#include "kernels/cuda/common/device.h"
#include "kernels/tactic.h"

#define TIMING_MAX_SETS 24
#define TIMING_INPUTS 4

/* Sets of inputs and results, filled with random bytes (floats: numbers around one). */
typedef struct timing_sets {
    void *in[TIMING_MAX_SETS][TIMING_INPUTS], *out[TIMING_MAX_SETS];
    int n;
} timing_sets;

/* For all inputs: constants, too, which not every kernel packs. Release in any case. */
qb_status timing_sets_open(qb_ctx *cx, timing_sets *sets, const qb_cuda_device *device,
                           const qb_problem *problem, const bool *constant);
void timing_sets_close(timing_sets *sets);

/* Median microseconds of one launch over `replays` replays. `constants` are the problem's. */
qb_status timing_kernel(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                        const timing_sets *sets, int replays, double *us);
/* The same for a tactic: 0 when it does not take the problem. `impl` gets the kernel's. */
qb_status timing_tactic(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, const void *const *constants, const timing_sets *sets,
                        int replays, double *us, char impl[64]);

#endif

/* Softmax along one dimension on the device. */
#ifndef QB_CUDA_SOFTMAX_H
#define QB_CUDA_SOFTMAX_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lines of n elements `step` apart; line (o, i) begins at element o n step + i, i < step. */
typedef struct qb_cuda_softmax {
    qb_cuda_value in, out;
    int32_t n;
    int64_t outer, step;
    bool zero_nan; /* lines of NaN become 0 */
} qb_cuda_softmax;
int qb_cuda_softmax_run(const qb_cuda_softmax *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

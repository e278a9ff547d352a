/* Integers that stand for themselves (of masks and the like) as dequantized values. */
#ifndef QB_CUDA_CAST_H
#define QB_CUDA_CAST_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_cuda_cast {
    int32_t from; /* S64, S32 or BOOL */
    uint32_t count;
    qb_cuda_value out;
} qb_cuda_cast;
/* Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_cast_run(const qb_cuda_cast *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

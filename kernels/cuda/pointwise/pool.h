/* Pooling on the device. */
#ifndef QB_CUDA_POOL_H
#define QB_CUDA_POOL_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_cuda_pool {
    qb_cuda_window w;
    qb_cuda_value in;
    qb_cuda_epilogue_params end;
    int32_t kind;  /* qb_pool_kind */
    int32_t width; /* channels that a thread takes: 16, 8, 4 or 1 */
    int32_t keeps; /* the greatest code is the result, as it is */
    int32_t share; /* threads that share a window: 1, 8, 32, 128 or 512 */
} qb_cuda_pool;
int qb_cuda_pool_run(const qb_cuda_pool *p, const void *in, void *out, void *stream);

typedef struct qb_cuda_pool_places {
    qb_cuda_window w;
    qb_cuda_value in;
} qb_cuda_pool_places;
/* out, row-major: the number that the greatest element of each window has in row-major data. */
int qb_cuda_pool_places_run(const qb_cuda_pool_places *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

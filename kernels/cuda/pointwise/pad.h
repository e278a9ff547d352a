/* Padding on the device. */
#ifndef QB_CUDA_PAD_H
#define QB_CUDA_PAD_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loops over the result's memory, the last one the fastest: sizes of result and data, how far into
 * the result the data begin, and strides. */
typedef struct qb_cuda_pad {
    qb_cuda_value in, out;
    int32_t mode; /* qb_pad_mode */
    int32_t rank;
    uint32_t count, to_dim[QB_MAX_RANK];
    int32_t from_dim[QB_MAX_RANK], begin[QB_MAX_RANK];
    int64_t from[QB_MAX_RANK], to[QB_MAX_RANK], from_first, to_first;
    float value;
    int32_t width; /* elements that a thread takes: 8 of a last dimension without padding, or 1 */
} qb_cuda_pad;
/* Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_pad_run(const qb_cuda_pad *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

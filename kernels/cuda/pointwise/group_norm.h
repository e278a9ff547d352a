/* Group and instance normalization on the device. */
#ifndef QB_CUDA_GROUP_NORM_H
#define QB_CUDA_GROUP_NORM_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Images [N, C, plane], or [N, plane, C] where channels_last. Each channel's plane is measured in
 * chunks, whose size depends on neither the batch nor the device. */
typedef struct qb_cuda_group_norm {
    qb_cuda_value in, out;
    int32_t images, channels, groups, channels_last;
    uint32_t plane, chunk, chunks;
    int32_t width; /* elements that a thread takes at once: 8 or 1 */
    float epsilon;
} qb_cuda_group_norm;

/* Scratch of qb_cuda_group_norm_run: the chunks' sums, then what each channel becomes. */
size_t qb_cuda_group_norm_bytes(const qb_cuda_group_norm *p);
/* `scale` and `bias`: of each channel, f32. Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_group_norm_run(const qb_cuda_group_norm *p, const void *in, const float *scale,
                           const float *bias, void *out, void *scratch, void *stream);

#ifdef __cplusplus
}
#endif
#endif

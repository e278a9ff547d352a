/* Group and instance normalization on the device. */
#ifndef QB_CUDA_GROUP_NORM_H
#define QB_CUDA_GROUP_NORM_H

#include <stdbool.h>

#include "kernels/cuda/common/device.h"
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
    int32_t width;  /* elements that a thread takes at once: 8 or 1 */
    int32_t blocks; /* that hold a group in shared memory; 0: too large, three kernels instead */
    float epsilon;
} qb_cuda_group_norm;

/* Scratch of qb_cuda_group_norm_run: the chunks' sums, then what each channel becomes. */
size_t qb_cuda_group_norm_bytes(const qb_cuda_group_norm *p);
/* `scale` and `bias`: of each channel, f32. Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_group_norm_run(const qb_cuda_group_norm *p, const void *in, const float *scale,
                           const float *bias, void *out, void *scratch, void *stream);

/* How many blocks hold a group in shared memory, one cluster: 1, 2, 4 or 8, above 1 only where
 * `clusters`; 0: they cannot. */
int32_t qb_cuda_group_norm_blocks(const qb_cuda_group_norm *p, const qb_cuda_device *device,
                                  bool clusters);
/* The same as qb_cuda_group_norm_run by one kernel without scratch, where p->blocks > 0. */
int qb_cuda_group_norm_cluster_run(const qb_cuda_group_norm *p, const void *in, const float *scale,
                                   const float *bias, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

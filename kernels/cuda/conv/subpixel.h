/* The pixels of a sub-pixel convolution (kernels/subpixel.h), each of which holds several of the
 * result's as channels, put where they belong. */
#ifndef QB_CUDA_SUBPIXEL_H
#define QB_CUDA_SUBPIXEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Depth, height and width; missing ones in front have size and stride 1. Pixel `at` of the result
 * along an axis is phase (at + cut) % stride of the convolution's pixel (at + cut) / stride. */
typedef struct qb_cuda_subpixel {
    int32_t batch, group, per_group;
    int32_t made[3], out[3], stride[3], cut[3];
    int32_t out_total, out_offset; /* channels of the tensor that the result is a slice of */
    int32_t size;                  /* bytes of an element: 1, 2 or 4 */
} qb_cuda_subpixel;

/* in [batch][made][group][phases][per_group] to out [batch][out][group][per_group]. Returns a code
 * of the CUDA runtime. */
int qb_cuda_subpixel_run(const qb_cuda_subpixel *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

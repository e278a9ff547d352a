/* Values of images at places between their pixels on the device. */
#ifndef QB_CUDA_GRID_SAMPLE_H
#define QB_CUDA_GRID_SAMPLE_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_CUDA_GRID_DIMS 3

/* Images of one to three dimensions (CUBIC: two); missing ones in front have size 1. */
typedef struct qb_cuda_grid_sample {
    qb_cuda_value in, at, out;
    qb_grid_sampling grid;
    uint32_t batch, channels, places; /* of an image */
    int32_t dims;                     /* coordinates of a place */
    int32_t size[QB_CUDA_GRID_DIMS];
} qb_cuda_grid_sample;
/* Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_grid_sample_run(const qb_cuda_grid_sample *p, const void *in, const void *at, void *out,
                            void *stream);

#ifdef __cplusplus
}
#endif
#endif

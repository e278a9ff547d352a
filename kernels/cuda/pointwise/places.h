/* Elements at the places that indices name, on the device. */
#ifndef QB_CUDA_PLACES_H
#define QB_CUDA_PLACES_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_cuda_places {
    qb_places places;
    qb_cuda_value in, updates, out;
    int32_t wide;       /* elements of 8 bytes, which move as they are */
    int32_t wide_index; /* indices are s64, else s32 */
    uint32_t count;     /* elements of all places */
    /* SCATTER */
    uint32_t x_count;
    int64_t x_dim[QB_MAX_RANK];
    int32_t reduce; /* qb_reduce_kind */
    int32_t axis; /* an element of x looks through the line of indices along it; -1: it does not */
} qb_cuda_places;

/* These return a code of the CUDA runtime (0: fine). */
int qb_cuda_gather_places_run(const qb_cuda_places *p, const void *in, const void *index, void *out,
                              void *stream);
/* What `owner` takes: nothing where lines are looked through. */
size_t qb_cuda_scatter_bytes(const qb_cuda_places *p);
int qb_cuda_scatter_run(const qb_cuda_places *p, const void *in, const void *index,
                        const void *updates, void *out, int32_t *owner, void *stream);

#ifdef __cplusplus
}
#endif
#endif

/* Reductions over any dimensions on the device. */
#ifndef QB_CUDA_REDUCE_H
#define QB_CUDA_REDUCE_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loops over some dimensions of the data, the last one the fastest; `to`: strides of the result. */
typedef struct qb_cuda_reduce_loops {
    int32_t rank;
    uint32_t dim[QB_MAX_RANK], count;
    int64_t from[QB_MAX_RANK], to[QB_MAX_RANK];
} qb_cuda_reduce_loops;

/* A block makes `results` results at once, each by QB_CUDA_REDUCE_THREADS / results threads.
 * Results of many elements are made of parts, which a second kernel puts together. */
#define QB_CUDA_REDUCE_THREADS 256
typedef struct qb_cuda_reduce {
    qb_cuda_value in, out;
    int32_t kind; /* qb_reduce_kind */
    qb_cuda_reduce_loops kept, reduced;
    int64_t in_first, out_first;
    int32_t results; /* a power of 2 */
    int32_t across;  /* neighbours in memory are of different results: so are those in a warp */
    int32_t width;   /* elements that a thread reads at once: 8 or 1 */
    uint32_t part, parts;
} qb_cuda_reduce;

/* Sets `results`, `part` and `parts`: by the elements of one result alone, so that sums do not
 * depend on how many there are. */
void qb_cuda_reduce_plan(qb_cuda_reduce *p);
/* What the parts take: `scratch` of qb_cuda_reduce_run; 0 where there is one. */
size_t qb_cuda_reduce_bytes(const qb_cuda_reduce *p);
/* Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_reduce_run(const qb_cuda_reduce *p, const void *in, void *out, void *scratch,
                       void *stream);

#ifdef __cplusplus
}
#endif
#endif

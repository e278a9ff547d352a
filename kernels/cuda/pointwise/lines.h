/* What runs along one dimension on the device: sums so far, and where extremes lie. */
#ifndef QB_CUDA_LINES_H
#define QB_CUDA_LINES_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `outer` times `inner` lines of n elements that are `inner` apart. */
typedef struct qb_cuda_lines {
    qb_cuda_value in, out;
    int32_t dtype;               /* of SCAN's integers: S32 or S64; NONE: floats */
    int32_t first, second;       /* SCAN: exclusive, reverse; ARG: smallest, last */
    uint32_t outer, n, inner, k; /* k: elements that ARG finds in a line */
    int32_t together;            /* threads that share a line; 1: each has its own */
} qb_cuda_lines;

/* These return a code of the CUDA runtime (0: fine). */
int qb_cuda_scan_run(const qb_cuda_lines *p, const void *in, void *out, void *stream);
int qb_cuda_arg_run(const qb_cuda_lines *p, const void *in, int64_t *out, void *stream);
/* The k first in order, at most QB_CUDA_FIRST_MOST; of equal ones the first. */
#define QB_CUDA_FIRST_MOST 1024
int qb_cuda_first_run(const qb_cuda_lines *p, const void *in, int64_t *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

/* Fused attention on the device: softmax(scale q k^T + mask) v for each head, f16 on Tensor Cores.
 */
#ifndef QB_CUDA_ATTENTION_H
#define QB_CUDA_ATTENTION_H

#include "kernels/cuda/common/value.h"
#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides of the mask: item, head, query, key; 0 where it is broadcast. */
typedef struct qb_cuda_attention {
    int32_t batch, heads, rows, keys; /* queries, keys */
    int32_t size, value_size;         /* elements of a head of queries and keys; of values */
    qb_heads q, k, v, out;
    int64_t mask[4];
    float scale;
    int32_t queries; /* of a warp: 16; or 32, where heads have up to 64 elements; 64: wgmma */
    bool split;      /* four warps have the same 16 queries, each with a quarter of the keys */
    bool pairs;      /* heads lie on no multiple of eight elements, but of two */
    qb_cuda_value mask_value, out_value; /* mask dtype NONE: no mask */
} qb_cuda_attention;

#define QB_CUDA_ATTENTION_SIZE 128 /* most elements of a head */

/* The more of a head's elements. */
static inline int32_t qb_cuda_attention_longest(const qb_cuda_attention *a) {
    return a->size > a->value_size ? a->size : a->value_size;
}

/* Fills *a from the problem; false where it is none of f16, or its heads are too long or of an odd
 * number of elements. */
bool qb_cuda_attention_of(const qb_problem *p, int32_t queries, qb_cuda_attention *a);
/* Call once before launches that may be captured. The functions return a code of the CUDA runtime.
 */
#define QB_CUDA_ATTENTION_SHARED(size)                                                             \
    (512 * ((size) > 64 ? 128 : 64)) /* bytes, for heads of size */
int qb_cuda_attention_prepare(const qb_cuda_attention *p);
int qb_cuda_attention_run(const qb_cuda_attention *p, const void *q, const void *k, const void *v,
                          const void *mask, void *out, int32_t multiprocessors, void *stream);

/* The same on wgmma (compute capability 9.0 alone): heads of up to 64 elements, not in pairs, up to
 * QB_CUDA_ATTENTION_KEYS keys, and a mask that is the same for all queries. */
#define QB_CUDA_ATTENTION_KEYS 256
#define QB_CUDA_ATTENTION_WGMMA_SHARED (1024 + (64 + 2 * 256) * 128) /* bytes, of the longest */
int qb_cuda_attention_wgmma_prepare(const qb_cuda_attention *p);
int qb_cuda_attention_wgmma_run(const qb_cuda_attention *p, const void *q, const void *k,
                                const void *v, const void *mask, void *out, int32_t multiprocessors,
                                void *stream);

#ifdef __cplusplus
}
#endif
#endif

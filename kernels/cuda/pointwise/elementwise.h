/* Elementwise kernels on the device: functions of one or two tensors, and copies between types,
 * layouts and slices. */
#ifndef QB_CUDA_ELEMENTWISE_H
#define QB_CUDA_ELEMENTWISE_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qb_cuda_copy_way {
    QB_CUDA_COPY_FLAT,      /* operands run the same way: as a function */
    QB_CUDA_COPY_TRANSPOSE, /* the fastest dimension of one is another of the other: by tiles */
    QB_CUDA_COPY_PLANES,    /* few channels, planes to pixels */
    QB_CUDA_COPY_GATHER     /* of few elements across or down: a word of the result from wherever
                               its elements lie */
} qb_cuda_copy_way;

typedef struct qb_cuda_elementwise {
    qb_cuda_walk walk;
    qb_cuda_value out, in[2];
    int32_t n_in;   /* 1: act(in 0); 2: act(in 0 (binary) in 1) */
    int32_t binary; /* qb_binary_kind */
    int32_t act, divide;
    float alpha, beta;
    int32_t way;  /* of a copy, else FLAT */
    int32_t unit; /* TRANSPOSE, PLANES: the dimension of the walk in which the data has stride 1 */
} qb_cuda_elementwise;

/* The launchers return a code of the CUDA runtime (0: fine). */
int qb_cuda_elementwise_run(const qb_cuda_elementwise *p, const void *a, const void *b, void *out,
                            void *stream);
/* A function of one or two tensors, as binary or unary problems say it; the tensors' layouts are
 * those that qb_cuda_choose_layouts gives. False: not by this kernel. */
bool qb_cuda_elementwise_of(const qb_problem *p, qb_cuda_elementwise *e);
/* out[i] = table[code i]; the table has 256 elements of the result's size (1, 2 or 4 bytes) and is
 * indexed by the code's byte. */
int qb_cuda_table_run(const qb_cuda_walk *walk, const void *table, int32_t size, const void *in,
                      void *out, void *stream);
int qb_cuda_copy_run(const qb_cuda_elementwise *p, const void *in, void *out, void *stream);
/* The same of n copies to parts of one result: those that are FLAT, QB_CUDA_PARTS at a time, are
 * one launch. */
#define QB_CUDA_PARTS 8
int qb_cuda_parts_run(const qb_cuda_elementwise *parts, int32_t n, const void *const *in, void *out,
                      void *stream);
/* From `in`, whole or the elements of `strided`, to the part of `out` that begins `skip`
 * elements later. False: not by these kernels. */
bool qb_cuda_copy_plan(const qb_desc *in, const qb_strided *strided, const qb_desc *out,
                       int64_t skip, qb_cuda_elementwise *e);
/* A copy by TRANSPOSE or PLANES that makes `affine`[c] in + affine[C + c] of each value, c being
 * its place in the result's fastest dimension, of C; `affine` is on the device, or NULL: a copy. */
int qb_cuda_image_run(const qb_cuda_elementwise *p, const void *in, const float *affine, void *out,
                      void *stream);

#ifdef __cplusplus
}
#endif
#endif

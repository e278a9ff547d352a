/* Matrix products on the device with any strides and broadcasting: the plain one for every type,
 * and one of two f16 tensors on Tensor Cores. */
#ifndef QB_CUDA_MATMUL_H
#define QB_CUDA_MATMUL_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides in elements; `lead`: the result's leading dimensions, with the strides of a and b. */
typedef struct qb_cuda_matmul {
    int32_t m, n, k, n_lead, lead[QB_MAX_RANK], matrices;
    int64_t a_lead[QB_MAX_RANK], b_lead[QB_MAX_RANK];
    int64_t a_row, a_step; /* along m and k */
    int64_t b_row, b_step; /* along k and n */
    qb_cuda_value a, b;
    qb_cuda_epilogue_params end;
    float scale;
    int32_t integer, has_bias, has_float_bias;
    int32_t width; /* f16: elements that are read at once, 8, 4 or 1: all strides but the contiguous
                      ones, and K, m or n beside them, are multiples of it */
    int64_t at_multiplier, at_weight_zero, at_bias, packed_bytes;
} qb_cuda_matmul;
/* The problem without the places in the packed block; false when it is none, or an operand is not
 * row-major. `smooth`: takes the activations that are not exact on quantized values, and no others.
 */
bool qb_cuda_matmul_of(const qb_problem *p, const bool *constant, bool smooth, qb_cuda_matmul *x);
/* MATMUL_INTEGER: only the sizes and strides count. Zero points are of their operand's type; NULL:
 * none. `b_zeros`: one, or one for each column. */
typedef struct qb_cuda_integer {
    qb_cuda_matmul shape;
    int32_t a_signed, b_signed, b_zeros;
} qb_cuda_integer;
int qb_cuda_matmul_integer_run(const qb_cuda_integer *p, const void *a, const void *b,
                               const void *a_zero, const void *b_zero, void *out, void *stream);
/* Around a product of s8 by a library, out = a b with rows of k and n elements, both multiples of
 * 16. Before it: a's quantized values as s8 into `quantized values` (NULL: they are), and the sums
 * of its rows into `sums` (NULL: nobody asks). After it: zero points, for which `columns` has the
 * sums of b's columns. u8 quantized values count as s8 with a zero point 128 less. */
int qb_cuda_integer_begin_run(const qb_cuda_integer *p, const void *a, void *quantized,
                              int32_t *sums, void *stream);
int qb_cuda_integer_epilogue_run(const qb_cuda_integer *p, const void *a_zero, const void *b_zero,
                                 const int32_t *sums, const int32_t *columns, void *out,
                                 void *stream);

int qb_cuda_matmul_run(const qb_cuda_matmul *p, const void *a, const void *b, const void *residual,
                       const char *packed, void *out, void *stream);
/* Of few columns and a short K: `n` columns at most, k times n elements of the right operand
 * (columns in fours). */
#define QB_CUDA_THIN_COLUMNS 32
#define QB_CUDA_THIN_WEIGHT 4096
int qb_cuda_matmul_thin_run(const qb_cuda_matmul *p, const void *a, const void *b,
                            const void *residual, const char *packed, void *out, void *stream);
/* Both operands f16. */
int qb_cuda_matmul_mma_run(const qb_cuda_matmul *p, const void *a, const void *b,
                           const void *residual, const char *packed, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif

/* Reference kernels: plain scalar C, the definition of right for every other tactic.
 *
 * Row-major only (but for qb_ref_copy). They take a problem whose shapes are known and that the
 * caller has checked (qb_ref_check), allocate nothing, and give the same bits for any number of
 * threads: each output element is computed by one thread in one order. Float sums of products
 * accumulate in double and are rounded to float once, before the epilogue. */
#ifndef QB_KERNELS_REF_H
#define QB_KERNELS_REF_H

#include "kernels/problem.h"

/* Can the reference run this problem? Layouts ROW (ANY counts as ROW; COPY takes all), float inputs
 * in f32 or quantized ones with one scale a tensor (weights: one scale a channel), at most 3
 * spatial dimensions, channel slices only where CONV, POOL, UNARY, CONCAT and COPY touch them. An
 * unsupported problem is QB_STATUS_UNSUPPORTED with the reason, inconsistent shapes are
 * QB_STATUS_INVALID. */
qb_status qb_ref_check(qb_ctx *cx, const qb_problem *p);

/* Each runs a problem of its kind; `in` in the order of the kind, NULL for absent inputs. `threads`
 * is the number of OpenMP threads to use. */
void qb_ref_conv(const qb_problem *p, const void *const *in, void *out, int threads);
void qb_ref_conv_transpose(const qb_problem *p, const void *const *in, void *out, int threads);
void qb_ref_matmul(const qb_problem *p, const void *const *in, void *out, int threads);
/* `indices` (may be NULL, maximum only): flat position of each maximum in the data. */
void qb_ref_pool(const qb_problem *p, const void *const *in, void *out, int64_t *indices,
                 int threads);
/* a[i] becomes the function of a[i] and b[i]; NaN wins in min and max, as in numpy. */
void qb_ref_combine(qb_binary_kind kind, int64_t n, float *a, const float *b);
void qb_ref_binary(const qb_problem *p, const void *const *in, void *out);
void qb_ref_unary(const qb_problem *p, const void *const *in, void *out);
void qb_ref_softmax(const qb_problem *p, const void *const *in, void *out);
void qb_ref_attention(const qb_problem *p, const void *const *in, void *out);
/* A CHAIN that qb_chain_valid accepts. */
void qb_ref_chain(const qb_problem *p, const void *const *in, void *out);
void qb_ref_concat(const qb_problem *p, const void *const *in, void *out);
/* Any dtype, layout, quantization (per axis too) and channel slice to any other. Between equal
 * dtypes and parameters the bits move unchanged; otherwise the dequantized value is converted:
 * quantized = qb_quantize_value, integers round half even and saturate. */
void qb_ref_copy(const qb_problem *p, const void *const *in, void *out);
/* n values to quantized ones and back, as a step rounds what it adds a residual to; nothing where
 * the type is NONE. */
void qb_ref_round(const qb_rounding *rounding, int64_t n, float *f32);

/* Element `at` of an array of any type as a number (quantization ignored), and back: integers round
 * half even and saturate, NaN becomes 0 there. */
double qb_number_get(qb_dtype dtype, const void *data, int64_t at);
void qb_number_put(qb_dtype dtype, void *data, int64_t at, double value);

/* Elements of a float or 8-bit quantized tensor in any layout as floats in row-major order. */
void qb_tensor_floats(const qb_tensor *tensor, float *out);

/* Walks a row-major output beside up to three operands with arbitrary strides (in elements), one
 * run of the innermost dimension at a time; dimensions that lie together in all of them are merged,
 * so runs are long. Offsets are relative to each operand's first element. */
#define QB_WALK_OPERANDS 3
typedef struct qb_walk {
    int32_t n_operands, rank;                      /* rank of the outer loop */
    int64_t dim[QB_MAX_RANK];                      /* its sizes */
    int64_t stride[QB_WALK_OPERANDS][QB_MAX_RANK]; /* and strides */
    int64_t index[QB_MAX_RANK];
    int64_t run;                    /* elements in one run */
    int64_t step[QB_WALK_OPERANDS]; /* operand's stride inside a run */
    int64_t at[QB_WALK_OPERANDS];   /* where the operand's run starts */
    int64_t out;                    /* where the output's run starts */
    int64_t left;                   /* runs to go, this one included */
} qb_walk;

/* for (qb_walk_init(&w, ...); w.left > 0; qb_walk_next(&w)) ... The operands are broadcast to `out`
 * by numpy's rule. */
void qb_walk_broadcast(qb_walk *walk, const qb_shape *out, const qb_shape *const *operands,
                       int32_t n);
/* One operand with the given stride for each dimension of `out`. */
void qb_walk_strided(qb_walk *walk, const qb_shape *out, const int64_t *stride);
void qb_walk_next(qb_walk *walk);

/* Copies a run of n elements of `size` bytes, source elements `step` apart (in elements). */
void qb_copy_run(void *to, const void *from, int64_t step, int64_t n, size_t size);
#endif

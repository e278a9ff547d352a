/* What host and device code share about tensors of dequantized values: elements, walks over tensors
 * with any strides, sliding windows, and the end of a fused step. Layouts are ROW and NHWC, with
 * channel slices; the host functions return false for anything else. */
#ifndef QB_CUDA_VALUE_H
#define QB_CUDA_VALUE_H

#include <stdint.h>

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How elements become dequantized values and back: f32 = scale (code - zero). `lowest` and
 * `highest` are the type's bounds less the zero point. Floats have scale 1 and zero point 0. */
typedef struct qb_cuda_value {
    int32_t dtype; /* F32, F16, U8, S8; NONE: absent. U16 only for moving bits */
    int32_t zero;
    float scale, inverse, lowest, highest;
} qb_cuda_value;
bool qb_cuda_value_of(const qb_desc *desc, qb_cuda_value *out);

/* The two ends of a move. Where types and parameters are equal the bits move as they are (elements
 * of one, two or four bytes of any type); else dequantized values are converted, quantized values
 * by a quotient
 * (*divide). */
bool qb_cuda_values_of(const qb_desc *from, const qb_desc *to, qb_cuda_value *in,
                       qb_cuda_value *out, int32_t *divide);

/* Strides in elements of the logical dimensions, and the first element. */
typedef struct qb_cuda_strides {
    int64_t first, stride[QB_MAX_RANK];
} qb_cuda_strides;
bool qb_cuda_strides_of(const qb_desc *desc, qb_cuda_strides *out);

/* A loop over the elements of a result, in the order in which they lie in memory, beside up to two
 * operands. Operand 0 is the result. Dimensions that lie together in all operands are merged; the
 * last is the fastest. */
#define QB_CUDA_OPERANDS 3
typedef struct qb_cuda_walk {
    int32_t rank, width; /* elements that a thread takes at once: 16, 4 or 1 */
    uint32_t count;      /* of all elements */
    uint32_t dim[QB_MAX_RANK];
    int64_t stride[QB_CUDA_OPERANDS][QB_MAX_RANK];
    int64_t first[QB_CUDA_OPERANDS];
    /* Quotients of numbers below 2^31 by dim[d]: their product with `inverse`, shifted (Granlund
     * and Montgomery 1994, theorem 4.2). */
    uint32_t inverse[QB_MAX_RANK], shift[QB_MAX_RANK];
} qb_cuda_walk;
/* `shape` is that of the result; strides of operands that are broadcast are 0. */
bool qb_cuda_walk_make(const qb_shape *shape, const qb_cuda_strides *operands, int32_t n,
                       qb_cuda_walk *out);
/* The strides with which an operand is read for a result of `shape`, by numpy's rule. */
void qb_cuda_broadcast(const qb_desc *operand, const qb_shape *shape, qb_cuda_strides *strides);
/* The channels that may be gone through for the result of an elementwise kernel: with its padding
 * where the n operands have as much, so that pixels follow each other. */
int64_t qb_cuda_stored_channels(const qb_desc *out, const qb_desc *in, int32_t n);
/* Bit i: the result may take the place of in[i], which lies as it does: each thread of an
 * elementwise kernel reads what it then overwrites. */
uint64_t qb_cuda_in_place(const qb_problem *p, const qb_desc *in);

/* The end of a step: activation, residual, and the result's type, as problem.h says. `rounding`:
 * dtype NONE where nothing is rounded before the residual. */
typedef struct qb_cuda_epilogue_params {
    qb_cuda_value out, residual, rounding;
    int32_t act, act_first;
    float alpha, beta;
} qb_cuda_epilogue_params;
/* False: not for the device; or what is rounded is the result of a smooth activation, see below,
 * which is not exact and would be off by any number of steps of the sum. */
bool qb_cuda_epilogue_params_of(const qb_problem *p, qb_cuda_epilogue_params *out);

/* Is there no exact arithmetic for it on the device (exp, tanh, erf)? */
bool qb_cuda_is_smooth(qb_act_kind kind);

/* A problem with a sliding window over three dimensions; missing ones in front have size 1.
 * Strides: image, channel, and the three dimensions. */
typedef struct qb_cuda_window {
    int32_t batch, in_c, out_c, group;
    int32_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
    int64_t in_stride[5], out_stride[5], res_stride[5], in_first, out_first, res_first;
    int32_t channels_last; /* of the result */
} qb_cuda_window;
bool qb_cuda_window_of(const qb_problem *p, qb_cuda_window *out);

#ifdef __cplusplus
}
#endif
#endif

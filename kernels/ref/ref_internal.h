/* What the reference kernels share: reading runs as float, the epilogue, geometry. */
#ifndef QB_REF_INTERNAL_H
#define QB_REF_INTERNAL_H

#include "base/vector_loop.h"
#include "kernels/ref.h"

#define QB_INLINE static inline __attribute__((always_inline))

#define QB_REF_CHUNK 512 /* output elements computed together */

/* Reads n elements `step` apart starting at element `at` as dequantized values (dequantized with
 * the one scale of the tensor). */
void qb_ref_load(const qb_desc *desc, const void *data, int64_t at, int64_t step, int64_t n,
                 float *f32);
/* Writes n consecutive elements from element `at`: quantized as the epilogue does (multiply by
 * 1 / scale), or rounded to the type. */
void qb_ref_store(const qb_desc *desc, void *data, int64_t at, int64_t n, const float *f32);
/* The end of a fused step: activation and residual in the problem's order, then the store. `f32`
 * is overwritten. The residual has the output's shape; its run starts at element residual_at. */
void qb_ref_epilogue(const qb_problem *p, const void *residual, int64_t residual_at, void *out,
                     int64_t at, int64_t n, float *f32);

void qb_ref_act_run(qb_act act, float *value, int64_t n);

/* Elements of one channel of one image, and the first element of channel c of image n in a tensor
 * that may be a channel slice of a larger one. */
int64_t qb_ref_plane(const qb_desc *desc);
int64_t qb_ref_plane_at(const qb_desc *desc, int64_t n, int64_t c);

/* A window problem with exactly three spatial dimensions (missing ones in front have size 1). */
typedef struct ref_geometry {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
} ref_geometry;
void qb_ref_geometry(const qb_window *window, const qb_shape *in, const qb_shape *out,
                     ref_geometry *geometry);

static inline int64_t qb_ceil_div(int64_t a, int64_t b) { /* b > 0 */
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Integer anchors: all that turns an accumulator into a dequantized value. */
typedef struct ref_integer {
    int32_t data_zero;
    const qb_qparams *weight;
    float data_scale, factor;
} ref_integer;
bool qb_ref_is_integer(const qb_problem *p);
ref_integer qb_ref_integer(const qb_problem *p);
/* The weight's zero point of an output channel. */
int32_t qb_ref_weight_zero(const ref_integer *integer, int64_t channel);
/* f32[i] = the dequantized value of accumulator sums[i] of output channel `channel` + i *
 * channel_step, with the bias: int32 ones are added to the accumulator, float ones afterwards. */
void qb_ref_rescale(const qb_problem *p, const ref_integer *integer, const void *const *in,
                    int64_t channel, int64_t channel_step, int64_t n, const uint32_t *sums,
                    float *f32);
/* One element of an integer weight. */
static inline int32_t qb_ref_quantized(qb_dtype dtype, const void *data, int64_t at) {
    return dtype == QB_DTYPE_U8 ? ((const uint8_t *)data)[at] : ((const int8_t *)data)[at];
}

#endif

/* Tensors, quantization parameters and memory layouts: the vocabulary that all folders share. */
#ifndef QB_KERNELS_TENSOR_H
#define QB_KERNELS_TENSOR_H

#include <stdint.h>

#include "base/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_MAX_RANK 8

/* X(NAME, text, bytes, ONNX TensorProto.DataType) */
#define QB_DTYPE_LIST(X)                                                                           \
    X(NONE, "none", 0, 0)                                                                          \
    X(F32, "f32", 4, 1)                                                                            \
    X(U8, "u8", 1, 2)                                                                              \
    X(S8, "s8", 1, 3)                                                                              \
    X(U16, "u16", 2, 4)                                                                            \
    X(S16, "s16", 2, 5)                                                                            \
    X(S32, "s32", 4, 6)                                                                            \
    X(S64, "s64", 8, 7)                                                                            \
    X(BOOL, "bool", 1, 9)                                                                          \
    X(F16, "f16", 2, 10)                                                                           \
    X(F64, "f64", 8, 11)                                                                           \
    X(U32, "u32", 4, 12)                                                                           \
    X(U64, "u64", 8, 13)                                                                           \
    X(BF16, "bf16", 2, 16)

typedef enum qb_dtype {
#define X(name, text, bytes, onnx) QB_DTYPE_##name,
    QB_DTYPE_LIST(X)
#undef X
        QB_DTYPE_COUNT
} qb_dtype;

const char *qb_dtype_text(qb_dtype dtype);
size_t qb_dtype_size(qb_dtype dtype);
int qb_dtype_to_onnx(qb_dtype dtype);
qb_dtype qb_dtype_from_onnx(int onnx); /* QB_DTYPE_NONE when unknown */
bool qb_dtype_is_float(qb_dtype dtype);
bool qb_dtype_is_16bit_float(qb_dtype dtype); /* f16 or bf16 */

/* How the elements of a tensor lie in memory. Shapes are always the logical ones of the graph
 * (N, C, spatial ...); a layout other than ROW applies to rank 3 to 5 with channels on axis 1.
 *   ROW   row-major, last dimension fastest (NCHW for images)
 *   NHWC  channels last: N, spatial, C
 *   C8/C16  channels in blocks of 8 or 16: N, ceil(C/b), spatial, b; the padding lanes are zero
 *   ANY   only in problems: the tactic chooses */
typedef enum qb_layout {
    QB_LAYOUT_ROW,
    QB_LAYOUT_NHWC,
    QB_LAYOUT_C8,
    QB_LAYOUT_C16,
    QB_LAYOUT_ANY
} qb_layout;
const char *qb_layout_text(qb_layout layout);

/* A dimension is a size >= 0, or negative: -1 unknown, <= -2 the symbol -2 - dim of the graph. */
typedef struct qb_shape {
    int32_t rank; /* -1: not known */
    int64_t dim[QB_MAX_RANK];
} qb_shape;

/* Builds a shape from `rank` sizes: qb_shape_of(4, 1, 3, 224, 224); arguments are int64_t-safe
 * ints. */
qb_shape qb_shape_of(int rank, ...);
bool qb_shape_equal(const qb_shape *a, const qb_shape *b);
/* All dimensions known (>= 0)? */
bool qb_shape_known(const qb_shape *shape);
/* Product of the dimensions (1 for rank 0). Only for known shapes. -1 where the product of those
 * that are not 0 overflows, also beside a 0: strides are such products. */
int64_t qb_shape_count(const qb_shape *shape);
/* Product of the dimensions `from` to `to` - 1, 1 where there are none. Only for known shapes. */
int64_t qb_shape_span(const qb_shape *shape, int32_t from, int32_t to);
/* Writes "1x3x224x224" ("?" for unknown, "scalar" for rank 0) into text[n]; returns text. */
char *qb_shape_text(const qb_shape *shape, char *text, size_t n);

/* v = scale (q - zero). n == 0: not quantized. axis == -1: one scale for all; otherwise one per
 * index of that axis. `zero` may be NULL: all zero. The arrays belong to whoever made them. */
typedef struct qb_qparams {
    qb_dtype dtype; /* S8, U8 or S32 (bias) */
    int32_t axis;
    int32_t n;
    const float *scale;
    const int32_t *zero;
} qb_qparams;

/* Type, shape and layout of a tensor without its data. */
typedef struct qb_desc {
    qb_dtype dtype;
    qb_layout layout;
    qb_shape shape;
    qb_qparams q;
    /* Concat in place: the tensor is channels [channel_offset, channel_offset + C) of a larger one
     * with channel_total channels, in the same layout; 0: it stands alone. */
    int64_t channel_offset, channel_total;
    /* The channels behind its own, up to channel_total, are nobody's: what writes the tensor may
     * write them, too. */
    bool padded;
} qb_desc;

/* A view of memory; never owns it. */
typedef struct qb_tensor {
    qb_desc desc;
    void *data; /* start of the whole buffer; a channel slice begins inside it */
} qb_tensor;

/* Bytes of the whole buffer (padding lanes, and all channels of the larger one for a slice).
 * The shape must be known. SIZE_MAX when that overflows. */
size_t qb_desc_bytes(const qb_desc *desc);
/* Where axis 1 lies in the buffer of a tensor of known shape. */
typedef struct qb_channel_view {
    int64_t n, offset, total; /* channels: of the tensor, before them, of the buffer */
    int64_t block;            /* channels that lie side by side in a blocked layout; else 1 */
    int64_t spatial;          /* values of a channel */
    int64_t stored;           /* values of an item, padding lanes and other channels included */
} qb_channel_view;
qb_channel_view qb_desc_channels(const qb_desc *desc);
/* A row-major, unquantized tensor view. */
qb_tensor qb_tensor_of(qb_dtype dtype, qb_shape shape, void *data);

/* q = clamp(round_half_even(v / scale) + zero), the one definition of quantization; NaN gives zero
 * point. Bounds are those of the dtype (S8: -128..127). */
int32_t qb_quantize_value(float v, float scale, int32_t zero, qb_dtype dtype);

/* IEEE binary16 <-> binary32, round half even. */
uint16_t qb_f32_to_f16(float value);
float qb_f16_to_f32(uint16_t f16);

#ifdef __cplusplus
}
#endif
#endif

/* Operators outside of fusion groups on the device: layer normalization, resizing, gathering,
 * quantization by the data's own range. */
#ifndef QB_CUDA_NODES_H
#define QB_CUDA_NODES_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of n consecutive elements: (x - mean) / sqrt(variance + epsilon) scale + bias; scale and
 * bias are f32. RMS: the mean is 0, and so the variance that of the squares. */
typedef struct qb_cuda_layer_norm {
    qb_cuda_value in, out;
    int64_t rows;
    int32_t n;
    float epsilon;
    int32_t rms;
} qb_cuda_layer_norm;
int qb_cuda_layer_norm_run(const qb_cuda_layer_norm *p, const void *in, const float *scale,
                           const float *bias, void *out, int32_t multiprocessors, void *stream);

/* Images of one to three dimensions; missing ones in front have size 1. Strides: image, channel,
 * and the three. */
typedef struct qb_cuda_resize {
    qb_cuda_value in, out;
    int32_t kind; /* qb_resize_kind */
    int32_t batch, channels, in_size[3], out_size[3];
    int64_t in_stride[5], out_stride[5], in_first, out_first;
    int32_t channels_last;
    int32_t width; /* channels that a thread takes: 16 (of quantized values that stay), 8 or 1 */
} qb_cuda_resize;
int qb_cuda_resize_run(const qb_cuda_resize *p, const void *in, void *out, void *stream);

/* out[o][i][..inner] = in[o][index[i]][..inner] for axis sizes n_in and n. */
typedef struct qb_cuda_gather {
    qb_cuda_value in, out;
    int64_t outer, inner;
    int32_t n_in, n;
    int32_t wide_index; /* indices are s64, else s32 */
    int32_t width;      /* elements that a thread takes: 4 or 1 */
} qb_cuda_gather;
int qb_cuda_gather_run(const qb_cuda_gather *p, const void *in, const void *index, void *out,
                       void *stream);

/* u8 quantized values of the range of the data and 0, which the data set; `range`: two integers of
 * scratch. `scale` (f32) and `zero` (u8) may be NULL. */
typedef struct qb_cuda_dynamic_quantize {
    qb_cuda_value in;
    uint32_t count, width; /* elements; those that a thread takes: 16 or 1 */
} qb_cuda_dynamic_quantize;
#define QB_CUDA_RANGE_BYTES 8
int qb_cuda_dynamic_quantize_run(const qb_cuda_dynamic_quantize *p, const void *in, void *range,
                                 void *out, float *scale, void *zero, int32_t multiprocessors,
                                 void *stream);

#ifdef __cplusplus
}
#endif
#endif

// Descriptors of the copy engine (TMA) for the operands and results of convolutions.
#ifndef QB_CUDA_TENSOR_MAPS_CUH
#define QB_CUDA_TENSOR_MAPS_CUH

#include <cuda.h>

#include "kernels/cuda/conv/conv.h"

typedef CUresult (*qb_encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
typedef CUresult (*qb_encode_im2col)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                     const cuuint64_t *, const cuuint64_t *, const int *,
                                     const int *, cuuint32_t, cuuint32_t, const cuuint32_t *,
                                     CUtensorMapInterleave, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static CUtensorMapDataType qb_map_type(int element) {
    return element == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

// A matrix of elements of 1 or 2 bytes, `width` innermost, read in boxes of bk bytes x rows that
// are swizzled as operands or lie as they are.
static int qb_map_matrix(const qb_cuda_tensor_maps *maps, CUtensorMap *map, const void *data,
                         int64_t width, int64_t height, int64_t pitch, int element, int bk,
                         int rows, bool swizzled = true) {
    cuuint64_t dim[2] = {(cuuint64_t)width, (cuuint64_t)height};
    cuuint64_t stride[1] = {(cuuint64_t)(pitch * element)};
    cuuint32_t box[2] = {(cuuint32_t)(bk / element), (cuuint32_t)rows}, step[2] = {1, 1};
    return ((qb_encode_tiled)maps->tiled)(map, qb_map_type(element), 2, (void *)data, dim, stride,
                                          box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                          !swizzled   ? CU_TENSOR_MAP_SWIZZLE_NONE
                                          : bk == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                      : CU_TENSOR_MAP_SWIZZLE_64B,
                                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static bool qb_in_byte(int64_t low, int64_t high) { return low >= INT8_MIN && high <= INT8_MAX; }

// Can the copy engine's im2col addresses express the window?
static bool qb_im2col_fits(const qb_cuda_conv *p) {
    int64_t upper_w = (int64_t)(p->out_w - 1) * p->stride_w - p->pad_w + 1 - p->in_w;
    int64_t upper_h = (int64_t)(p->out_h - 1) * p->stride_h - p->pad_h + 1 - p->in_h;
    return !qb_cuda_conv_is_volume(p) && p->stride_w <= 8 && p->stride_h <= 8 &&
           qb_in_byte(-p->pad_w, upper_w) && qb_in_byte(-p->pad_h, upper_h) &&
           qb_in_byte(upper_w, -p->pad_w) && qb_in_byte(upper_h, -p->pad_h) &&
           (p->kernel_w - 1) * p->dilation_w <= UINT8_MAX &&
           (p->kernel_h - 1) * p->dilation_h <= UINT8_MAX;
}

// The data as im2col columns of `rows` pixels x bk bytes of channels. The bounding box of base
// pixels starts at -pad and holds out_w x out_h of them, a stride apart.
static int qb_map_im2col(const qb_cuda_tensor_maps *maps, CUtensorMap *map, const qb_cuda_conv *p,
                         const void *data, int element, int bk, int rows) {
    cuuint64_t dim[4] = {(cuuint64_t)p->in_c, (cuuint64_t)p->in_w, (cuuint64_t)p->in_h,
                         (cuuint64_t)p->batch};
    cuuint64_t pixel = (cuuint64_t)p->in_total * (cuuint64_t)element;
    cuuint64_t stride[3] = {pixel, pixel * dim[1], pixel * dim[1] * dim[2]};
    int lower[2] = {-p->pad_w, -p->pad_h};
    int upper[2] = {lower[0] + (p->out_w - 1) * p->stride_w + 1 - p->in_w,
                    lower[1] + (p->out_h - 1) * p->stride_h + 1 - p->in_h};
    cuuint32_t step[4] = {1, (cuuint32_t)p->stride_w, (cuuint32_t)p->stride_h, 1};
    return ((qb_encode_im2col)maps->im2col)(
        map, qb_map_type(element), 4, (void *)data, dim, stride, lower, upper,
        (cuuint32_t)(bk / element), (cuuint32_t)rows, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        bk == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// The data as it lies, in boxes of 64 bytes of channels x `columns` pixels x `lines`.
static int qb_map_tiles(const qb_cuda_tensor_maps *maps, CUtensorMap *map, const qb_cuda_conv *p,
                        const void *data, int columns, int lines) {
    cuuint64_t dim[4] = {(cuuint64_t)p->in_c, (cuuint64_t)p->in_w, (cuuint64_t)p->in_h,
                         (cuuint64_t)p->batch};
    cuuint64_t pixel = (cuuint64_t)p->in_total;
    cuuint64_t stride[3] = {pixel, pixel * dim[1], pixel * dim[1] * dim[2]};
    cuuint32_t box[4] = {64, (cuuint32_t)columns, (cuuint32_t)lines, 1}, step[4] = {1, 1, 1, 1};
    return ((qb_encode_tiled)maps->tiled)(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)data, dim, stride, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Is the data a matrix as it lies, a row for each of the result?
static int qb_is_flat(const qb_cuda_conv *p) {
    return !qb_cuda_conv_is_volume(p) && p->kernel_h * p->kernel_w == 1 && p->stride_h == 1 &&
           p->stride_w == 1 && p->pad_h == 0 && p->pad_w == 0 && p->out_h == p->in_h &&
           p->out_w == p->in_w;
}

#endif

/* The driver's tensor map functions: descriptors of the copy engine (TMA). */
#ifndef QB_CUDA_TENSOR_MAP_H
#define QB_CUDA_TENSOR_MAP_H

#include "base/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cuTensorMapEncodeIm2col and cuTensorMapEncodeTiled. */
typedef struct qb_cuda_tensor_maps {
    void *im2col, *tiled;
} qb_cuda_tensor_maps;

/* Found through the runtime, so that nothing links the driver. UNSUPPORTED where it has none. */
qb_status qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out);

#ifdef __cplusplus
}
#endif
#endif

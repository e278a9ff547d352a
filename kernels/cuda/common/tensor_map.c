#include "kernels/cuda/common/tensor_map.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/device.h"

#define SINCE 12000 /* CUDA 12.0 */

static qb_status find(qb_ctx *cx, const char *name, void **out) {
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    int code = cudaGetDriverEntryPointByVersion(name, out, SINCE, cudaEnableDefault, &found);
    QB_TRY(qb_cuda_check(cx, code, name));
    if (found != cudaDriverEntryPointSuccess || !*out)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "the driver has no %s", name);
    return QB_OK;
}

qb_status qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out) {
    qb_cuda_tensor_maps found = {0};
    QB_TRY(find(cx, "cuTensorMapEncodeIm2col", &found.im2col));
    QB_TRY(find(cx, "cuTensorMapEncodeTiled", &found.tiled));
    *out = found;
    return QB_OK;
}

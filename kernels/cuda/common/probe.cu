// A kernel of no work: can this program's code be loaded on the current device, and which is taken?
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "kernels/cuda/common/code.h"

static __global__ void probe() {}

extern "C" int qb_cuda_code_probe(int32_t *machine, int32_t *source) {
    cudaFuncAttributes attributes;
    cudaError_t code = cudaFuncGetAttributes(&attributes, probe);
    if (code != cudaSuccess) {
        (void)cudaGetLastError(); // an answer, not an error to be found later
        return (int)code;
    }
    *machine = attributes.binaryVersion;
    *source = attributes.ptxVersion;
    return 0;
}

extern "C" bool qb_cuda_has_code_90(void) {
    int device = 0, major = 0, minor = 0;
    int32_t from;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return false;
    return qb_cuda_code_for(qb_cuda_architectures(), major, minor, &from) != QB_CUDA_CODE_NONE &&
           from >= 90;
}

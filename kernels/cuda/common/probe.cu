// A kernel of no work: can this program's code be loaded on the current device, and which is taken?
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "kernels/cuda/common/code.h"

#define DEVICES 64 // whose answers are kept

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

extern "C" bool qb_cuda_runs_code_90(void) {
    static int32_t sources[DEVICES]; // 0: not asked yet
    int device = 0;
    int32_t machine, source = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    int32_t *known = &sources[device % DEVICES];
    if (device < DEVICES) source = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (source == 0 && qb_cuda_code_probe(&machine, &source) != 0) return false;
    if (device < DEVICES) __atomic_store_n(known, source, __ATOMIC_RELAXED);
    return source >= 90;
}

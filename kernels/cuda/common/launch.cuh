// A kernel's launch as one call with a code.
#ifndef QB_CUDA_LAUNCH_CUH
#define QB_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

// Returns a code of the CUDA runtime (0: fine).
template <typename... Parameters, typename... Arguments>
static int qb_launch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                     size_t shared_bytes, void *stream, Arguments... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)stream;
    return (int)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

#endif

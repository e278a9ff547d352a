// Launches of kernels, each of which may begin while the one before it ends (programmatic dependent
// launch, compute capability 9.0 and later): what costs time before a kernel's first load is over
// by then. So each kernel has to wait before it touches what others write or read; reads of
// constants may come before that (tests/lint/dependent_launch.sh).
#ifndef QB_CUDA_LAUNCH_CUH
#define QB_CUDA_LAUNCH_CUH

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/value.cuh"

// The next kernel may begin when all blocks have come here; without this, when all have ended. For
// kernels whose blocks are few or fill their multiprocessors: else the blocks of the next one,
// which wait, take places, and the one behind it is spread unevenly: chains of copies by four
// blocks a multiprocessor are slower than without any overlap.
QB_DEVICE void qb_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until all kernels before are done and what they wrote is visible. Before the first read of their
// results, and before the first write: they may still read what is overwritten. Each block waits: a
// kernel whose blocks leave without would be done before those ahead of it.
QB_DEVICE void qb_wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets a kernel ask for so many bytes of shared memory; loads its code.
template <class Kernel> static int qb_reserve_shared(Kernel kernel, int bytes) {
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// Launches a kernel in clusters of `cluster` blocks. Code that was compiled for less than 9.0 has
// neither clusters nor the wait, wherever it runs: its kernels follow each other.
template <typename... Parameters, typename... Arguments>
static int qb_launch_clusters(void (*kernel)(Parameters...), dim3 blocks, unsigned cluster,
                              unsigned threads, size_t shared_bytes, void *stream,
                              Arguments... arguments) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)stream;
    config.attrs = attributes;
    config.numAttrs = !qb_cuda_has_code_90() ? 0 : cluster > 1 ? 2 : 1;
    return (int)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// The same without clusters. Returns a code of the CUDA runtime (0: fine).
template <typename... Parameters, typename... Arguments>
static int qb_launch(void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                     size_t shared_bytes, void *stream, Arguments... arguments) {
    return qb_launch_clusters(kernel, blocks, 1, threads, shared_bytes, stream, arguments...);
}

#endif

// Kernels that begin while the one before them ends (programmatic dependent launch, compute
// capability 9.0 and later): what costs time before a kernel's first load is over by then.
#ifndef QB_CUDA_DEPENDENT_LAUNCH_CUH
#define QB_CUDA_DEPENDENT_LAUNCH_CUH

#include "kernels/cuda/common/value.cuh"

// The next kernel may begin, too.
QB_DEVICE void qb_launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until all kernels before are done and what they wrote is visible. Before the first read of their
// results, and before the first write: they may still read what is overwritten.
QB_DEVICE void qb_wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets a kernel ask for so many bytes of shared memory; loads its code.
template <class Kernel> static int qb_reserve_shared(Kernel kernel, int bytes) {
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// Launches a kernel that awaits those before it, in clusters of `cluster` blocks (1 before compute
// capability 9.0).
template <typename... Parameters, typename... Arguments>
static int qb_launch_clusters(void (*kernel)(Parameters...), dim3 blocks, unsigned cluster,
                              unsigned threads, size_t shared_bytes, void *stream,
                              Arguments... arguments) {
    int device = 0, major = 0;
    cudaError_t code = cudaGetDevice(&device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (code != cudaSuccess) return (int)code;
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
    config.numAttrs = major < 9 ? 0 : cluster > 1 ? 2 : 1;
    return (int)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// The same without clusters.
template <typename... Parameters, typename... Arguments>
static int qb_launch_dependent(void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                               size_t shared_bytes, void *stream, Arguments... arguments) {
    return qb_launch_clusters(kernel, blocks, 1, threads, shared_bytes, stream, arguments...);
}

#endif

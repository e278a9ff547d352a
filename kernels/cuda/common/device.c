#include "kernels/cuda/common/device.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/vendor/cudnn_streams.h"

qb_status qb_cuda_check(qb_ctx *cx, int code, const char *what) {
    if (code == cudaSuccess) return QB_OK;
    qb_status status = code == cudaErrorMemoryAllocation ? QB_STATUS_NOMEM : QB_STATUS_INTERNAL;
    return qb_fail(cx, status, "%s: %s (%s)", what, cudaGetErrorString((cudaError_t)code),
                   cudaGetErrorName((cudaError_t)code));
}

int32_t qb_cuda_count(void) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    (void)cudaGetLastError(); /* no driver is an answer, not an error to be found later */
    return 0;
}

static qb_status attribute(qb_ctx *cx, int ordinal, enum cudaDeviceAttr which, int32_t *out) {
    int value = 0;
    QB_TRY(qb_cuda_check(cx, cudaDeviceGetAttribute(&value, which, ordinal),
                         "cudaDeviceGetAttribute"));
    *out = value;
    return QB_OK;
}

/* What kernels want to know; a microsecond. */
static qb_status describe_units(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out) {
    qb_cuda_device d = {.ordinal = ordinal};
    int32_t l2 = 0;
    QB_TRY(attribute(cx, ordinal, cudaDevAttrComputeCapabilityMajor, &d.major));
    QB_TRY(attribute(cx, ordinal, cudaDevAttrComputeCapabilityMinor, &d.minor));
    QB_TRY(attribute(cx, ordinal, cudaDevAttrMultiProcessorCount, &d.multiprocessors));
    QB_TRY(attribute(cx, ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin, &d.shared_per_block));
    QB_TRY(attribute(cx, ordinal, cudaDevAttrL2CacheSize, &l2));
    d.l2_bytes = (size_t)l2;
    *out = d;
    return QB_OK;
}

/* And its name, memory and software; milliseconds. */
static qb_status describe(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out) {
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0;
    QB_TRY(describe_units(cx, ordinal, out));
    QB_TRY(qb_cuda_check(cx, cudaGetDeviceProperties(&properties, ordinal),
                         "cudaGetDeviceProperties"));
    memcpy(out->name, properties.name, sizeof out->name - 1);
    out->memory_bytes = properties.totalGlobalMem;
    QB_TRY(qb_cuda_check(cx, cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
    QB_TRY(qb_cuda_check(cx, cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
    out->driver = driver;
    out->runtime = runtime;
    return QB_OK;
}

/* Without a device, or with a driver that is older than the runtime in this program. */
static qb_status no_device(qb_ctx *cx) {
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver > 0 && driver / 1000 < runtime / 1000)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "no CUDA device: expected a driver for CUDA %d.0 or later, got %d.%d",
                       runtime / 1000, driver / 1000, driver % 1000 / 10);
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no CUDA device on this machine");
}

/* Has this program code for the device, and does the driver take it, that very code? Kernels are
 * launched by what it can do (qb_cuda_has_code_90). */
static qb_status check_code(qb_ctx *cx, const qb_cuda_device *d) {
    int32_t machine, source, wanted;
    QB_TRY(qb_cuda_code_check(cx, qb_cuda_architectures(), d));
    qb_cuda_code_for(qb_cuda_architectures(), d->major, d->minor, &wanted);
    const int code = qb_cuda_code_probe(&machine, &source);
    if (code == 0 && source >= wanted) return QB_OK;
    if (code == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: the driver runs this program's code of compute capability %d.%d, not "
                       "that of %d.%d: unset CUDA_FORCE_PTX_JIT",
                       d->name, source / 10, source % 10, wanted / 10, wanted % 10);
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "%s: the driver (for CUDA %d.%d) does not load this program's code (CUDA %d.%d, "
                   "%s): %s",
                   d->name, d->driver / 1000, d->driver % 1000 / 10, d->runtime / 1000,
                   d->runtime % 1000 / 10, qb_cuda_architectures(),
                   cudaGetErrorString((cudaError_t)code));
}

qb_status qb_cuda_open(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out) {
    int32_t count = qb_cuda_count();
    if (count == 0) return no_device(cx);
    if (ordinal < 0 || ordinal >= count)
        return qb_fail(cx, QB_STATUS_INVALID, "CUDA device: expected 0 to %d, got %d", count - 1,
                       ordinal);
    qb_cuda_device device;
    QB_TRY(qb_cuda_check(cx, cudaSetDevice(ordinal), "cudaSetDevice"));
    QB_TRY(describe(cx, ordinal, &device));
    QB_TRY(check_code(cx, &device));
    *out = device;
    return QB_OK;
}

qb_status qb_cuda_current(qb_ctx *cx, qb_cuda_device *out) {
    int ordinal = 0;
    if (qb_cuda_count() == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no CUDA device on this machine");
    QB_TRY(qb_cuda_check(cx, cudaGetDevice(&ordinal), "cudaGetDevice"));
    return describe_units(cx, ordinal, out);
}

void qb_cuda_select(int32_t ordinal) { (void)cudaSetDevice(ordinal); }

int32_t qb_cuda_multiprocessors(void) {
    int ordinal = 0, value = 0;
    const bool known =
        cudaGetDevice(&ordinal) == cudaSuccess &&
        cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, ordinal) == cudaSuccess;
    return known && value > 0 ? value : 1;
}

int32_t qb_cuda_place(int32_t ordinal) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, cudaDevAttrPciDeviceId, ordinal) == cudaSuccess ? value
                                                                                          : 0;
}

int32_t qb_cuda_cudnn_version(void) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    size_t (*version)(void) = NULL;
    *(void **)&version = dlsym(library, "cudnnGetVersion");
    int32_t number = version ? (int32_t)version() : 0;
    dlclose(library);
    return number;
}

qb_status qb_cuda_memory_left(qb_ctx *cx, size_t *bytes) {
    size_t all;
    return qb_cuda_check(cx, cudaMemGetInfo(bytes, &all), "cudaMemGetInfo");
}

qb_status qb_cuda_alloc(qb_ctx *cx, size_t bytes, void **out) {
    void *memory = NULL;
    cudaError_t code = cudaMalloc(&memory, bytes ? bytes : 1);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        return qb_fail(cx, QB_STATUS_NOMEM, "%zu bytes on the device: %s", bytes,
                       cudaGetErrorString(code));
    }
    *out = memory;
    return QB_OK;
}

void qb_cuda_free(void *memory) {
    if (memory) (void)cudaFree(memory);
}

qb_status qb_cuda_host_alloc(qb_ctx *cx, size_t bytes, void **out) {
    void *memory = NULL;
    QB_TRY(qb_cuda_check(cx, cudaMallocHost(&memory, bytes ? bytes : 1), "cudaMallocHost"));
    *out = memory;
    return QB_OK;
}

void qb_cuda_host_free(void *memory) {
    if (memory) (void)cudaFreeHost(memory);
}

qb_status qb_cuda_upload(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream) {
    return qb_cuda_check(cx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "upload");
}

qb_status qb_cuda_download(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream) {
    return qb_cuda_check(cx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
                         "download");
}

qb_status qb_cuda_fill(qb_ctx *cx, void *to, int byte, size_t bytes, void *stream) {
    return qb_cuda_check(cx, cudaMemsetAsync(to, byte, bytes, stream), "fill");
}

qb_status qb_cuda_sync(qb_ctx *cx, void *stream) {
    return qb_cuda_check(cx, cudaStreamSynchronize(stream), "waiting for the device");
}

qb_status qb_cuda_event_open(qb_ctx *cx, void **event) {
    cudaEvent_t made = NULL;
    QB_TRY(qb_cuda_check(cx, cudaEventCreate(&made), "cudaEventCreate"));
    *event = made;
    return QB_OK;
}

void qb_cuda_event_close(void *event) {
    if (event) (void)cudaEventDestroy(event);
}

qb_status qb_cuda_event_record(qb_ctx *cx, void *event, void *stream) {
    return qb_cuda_check(cx, cudaEventRecord(event, stream), "cudaEventRecord");
}

qb_status qb_cuda_event_wait(qb_ctx *cx, void *event) {
    return qb_cuda_check(cx, cudaEventSynchronize(event), "waiting for the device");
}

qb_status qb_cuda_stream_wait(qb_ctx *cx, void *stream, void *event) {
    return qb_cuda_check(cx, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

qb_status qb_cuda_event_mark(qb_ctx *cx, void *event, void *stream) {
    return qb_cuda_check(cx, cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
                         "cudaEventRecordWithFlags");
}

qb_status qb_cuda_event_elapsed(qb_ctx *cx, void *from, void *to, float *milliseconds) {
    return qb_cuda_check(cx, cudaEventElapsedTime(milliseconds, from, to), "cudaEventElapsedTime");
}

qb_status qb_cuda_capture_begin(qb_ctx *cx, void *stream) {
    QB_TRY(qb_cudnn_stream_ready(cx, stream));
    return qb_cuda_check(cx, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                         "cudaStreamBeginCapture");
}

/* A node without work: the edges to and from it are whole dependencies. */
qb_status qb_cuda_fence(qb_ctx *cx, void *stream) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = NULL;
    const cudaGraphNode_t *before = NULL;
    cudaGraphNode_t node;
    size_t n = 0;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges = NULL;
    cudaError_t code = cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, &edges, &n);
#else
    cudaError_t code = cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &before, &n);
#endif
    QB_TRY(qb_cuda_check(cx, code, "cudaStreamGetCaptureInfo"));
    if (status != cudaStreamCaptureStatusActive) return QB_OK;
    QB_TRY(
        qb_cuda_check(cx, cudaGraphAddEmptyNode(&node, graph, before, n), "cudaGraphAddEmptyNode"));
#if CUDART_VERSION >= 13000
    code = cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1,
                                               cudaStreamSetCaptureDependencies);
#else
    code = cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies);
#endif
    return qb_cuda_check(cx, code, "cudaStreamUpdateCaptureDependencies");
}

qb_status qb_cuda_capture_end(qb_ctx *cx, void *stream, void **graph) {
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t ready = NULL;
    QB_TRY(qb_cuda_check(cx, cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture"));
    cudaError_t code = cudaGraphInstantiate(&ready, recorded, 0);
    (void)cudaGraphDestroy(recorded);
    QB_TRY(qb_cuda_check(cx, code, "cudaGraphInstantiate"));
    *graph = ready;
    return QB_OK;
}

qb_status qb_cuda_graph_launch(qb_ctx *cx, void *graph, void *stream) {
    return qb_cuda_check(cx, cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
}

void qb_cuda_graph_close(void *graph) {
    if (graph) (void)cudaGraphExecDestroy(graph);
}

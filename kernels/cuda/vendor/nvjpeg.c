/* The GPU's own JPEG engines. nvJPEG has three more ways to decode, but two of them leave the
 * Huffman quantized values to the processor, which then does most of the work, and the third gives
 * other pixels in large batches than in small ones. With interpolated chroma the engines' pixels
 * are libjpeg's within 1. */
#include "kernels/cuda/vendor/jpeg_batch.h"

#ifdef QB_HAVE_NVJPEG
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <nvjpeg.h>

#include "kernels/cuda/common/device.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libnvjpeg.so." TEXT(NVJPEG_VER_MAJOR)

/* NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION, which old headers lack: chroma between its samples as
 * libjpeg makes it. */
#define SMOOTH_CHROMA (1u << 5)

#define NVJPEG_FUNCTIONS(X)                                                                        \
    X(nvjpegCreateEx)                                                                              \
    X(nvjpegDestroy)                                                                               \
    X(nvjpegGetHardwareDecoderInfo)                                                                \
    X(nvjpegJpegStateCreate)                                                                       \
    X(nvjpegJpegStateDestroy)                                                                      \
    X(nvjpegDecodeBatchedInitialize)                                                               \
    X(nvjpegDecodeBatched)

/* Open for as long as the process runs. */
static struct {
    char why[256]; /* it cannot be used; "" */
#define X(name) __typeof__(&name) name;
    NVJPEG_FUNCTIONS(X)
#undef X
} library;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *error = dlerror();
        snprintf(library.why, sizeof library.why, "%s", error ? error : LIBRARY " is not there");
        return;
    }
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(handle, #name);                                                       \
        memcpy(&library.name, &symbol, sizeof symbol);                                             \
        if (!symbol) snprintf(library.why, sizeof library.why, LIBRARY " has no " #name);          \
    }
    NVJPEG_FUNCTIONS(X)
#undef X
}

typedef struct lane {
    int32_t device;
    nvjpegHandle_t handle;
    nvjpegJpegState_t state;
    int32_t prepared; /* batch size that the state is ready for; 0: none */
    void *stream;
    void *there, *here; /* pixels on the device, and on the host */
} lane;

static qb_status check(qb_ctx *cx, nvjpegStatus_t code, const char *what) {
    if (code == NVJPEG_STATUS_SUCCESS) return QB_OK;
    return qb_fail(cx,
                   code == NVJPEG_STATUS_ALLOCATOR_FAILURE ? QB_STATUS_NOMEM : QB_STATUS_INTERNAL,
                   "%s: nvJPEG status %d", what, (int)code);
}

static void lane_close(void *opened) {
    lane *l = opened;
    if (!l) return;
    qb_cuda_select(l->device);
    if (l->state) library.nvjpegJpegStateDestroy(l->state);
    if (l->handle) library.nvjpegDestroy(l->handle);
    qb_cuda_free(l->there);
    qb_cuda_host_free(l->here);
    qb_cuda_stream_close(l->stream);
    qb_free(l);
}

static qb_status no_engines(qb_ctx *cx, const char *device) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s has no JPEG engine", device);
}

static qb_status lane_fill(qb_ctx *cx, lane *l) {
    qb_cuda_device device;
    unsigned engines = 0, cores = 0;
    QB_TRY(qb_cuda_open(cx, l->device, &device));
    const nvjpegStatus_t created =
        library.nvjpegCreateEx(NVJPEG_BACKEND_HARDWARE, NULL, NULL, SMOOTH_CHROMA, &l->handle);
    if (created == NVJPEG_STATUS_ARCH_MISMATCH ||
        created == NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED)
        return no_engines(cx, device.name);
    QB_TRY(check(cx, created, "nvjpegCreateEx"));
    QB_TRY(check(cx, library.nvjpegGetHardwareDecoderInfo(l->handle, &engines, &cores),
                 "nvjpegGetHardwareDecoderInfo"));
    if (engines == 0) return no_engines(cx, device.name);
    QB_TRY(check(cx, library.nvjpegJpegStateCreate(l->handle, &l->state), "nvjpegJpegStateCreate"));
    QB_TRY(qb_cuda_stream_open(cx, &l->stream));
    QB_TRY(qb_cuda_alloc(cx, QB_JPEG_BATCH_BYTES, &l->there));
    return qb_cuda_host_alloc(cx, QB_JPEG_BATCH_BYTES, &l->here);
}

static qb_status lane_open(qb_ctx *cx, int32_t device, void **out) {
    pthread_once(&once, open_library);
    if (library.why[0]) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s", library.why);
    lane *l = qb_alloc(cx, 1, sizeof *l);
    if (!l) return cx->code;
    l->device = device;
    const qb_status status = lane_fill(cx, l);
    if (status == QB_OK)
        *out = l;
    else
        lane_close(l);
    return status;
}

/* Where the files' pixels lie in the lane's memory; false when there is not enough of it. */
static bool place(const qb_jpeg_job *job, int32_t n, size_t *at) {
    size_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const size_t bytes = (size_t)job[i].width * (size_t)job[i].height * 3;
        at[i] = used;
        used += (bytes + QB_JPEG_ALIGNMENT - 1) / QB_JPEG_ALIGNMENT * QB_JPEG_ALIGNMENT;
    }
    at[n] = used;
    return used <= QB_JPEG_BATCH_BYTES;
}

/* *taken: the engines decoded the files; what they refuse is not an error. */
static qb_status decode_together(qb_ctx *cx, lane *l, qb_jpeg_job *job, const size_t *at, int32_t n,
                                 bool *taken) {
    const unsigned char *data[QB_JPEG_BATCH];
    size_t size[QB_JPEG_BATCH];
    nvjpegImage_t image[QB_JPEG_BATCH];
    memset(image, 0, sizeof image);
    for (int32_t i = 0; i < n; i++) {
        data[i] = job[i].data;
        size[i] = job[i].size;
        image[i].channel[0] = (unsigned char *)l->there + at[i];
        image[i].pitch[0] = (size_t)job[i].width * 3;
    }
    if (l->prepared != n)
        QB_TRY(check(
            cx,
            library.nvjpegDecodeBatchedInitialize(l->handle, l->state, n, 1, NVJPEG_OUTPUT_RGBI),
            "nvjpegDecodeBatchedInitialize"));
    const nvjpegStatus_t code =
        library.nvjpegDecodeBatched(l->handle, l->state, data, size, image, l->stream);
    *taken = code == NVJPEG_STATUS_SUCCESS;
    l->prepared = *taken ? n : 0; /* a state that failed is to be prepared again */
    if (*taken)
        QB_TRY(qb_cuda_download(cx, (char *)l->here + at[0], (char *)l->there + at[0],
                                at[n] - at[0], l->stream));
    QB_TRY(qb_cuda_sync(cx, l->stream));
    for (int32_t i = 0; i < n && *taken; i++) job[i].pixel = (uint8_t *)l->here + at[i];
    return QB_OK;
}

/* Files that the engines refuse together are tried one by one: what becomes of a file must not
 * depend on its neighbours. */
static qb_status lane_decode(qb_ctx *cx, void *opened, qb_jpeg_job *job, int32_t n) {
    lane *l = opened;
    size_t at[QB_JPEG_BATCH + 1];
    bool taken;
    if (!place(job, n, at))
        return qb_fail(cx, QB_STATUS_INTERNAL,
                       "%zu bytes of pixels in a batch, expected at most %zu", at[n],
                       QB_JPEG_BATCH_BYTES);
    qb_cuda_select(l->device);
    QB_TRY(decode_together(cx, l, job, at, n, &taken));
    for (int32_t i = 0; i < n && !taken && n > 1; i++) {
        bool alone;
        QB_TRY(decode_together(cx, l, job + i, at + i, 1, &alone));
    }
    return QB_OK;
}
#else
static qb_status lane_open(qb_ctx *cx, int32_t device, void **out) {
    (void)device;
    (void)out;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "this qbench was built without nvjpeg.h");
}

static void lane_close(void *opened) { (void)opened; }

static qb_status lane_decode(qb_ctx *cx, void *opened, qb_jpeg_job *job, int32_t n) {
    (void)opened;
    (void)job;
    (void)n;
    return qb_fail(cx, QB_STATUS_INTERNAL, "nvJPEG: no lane was opened");
}
#endif

const qb_jpeg_batch_api qb_nvjpeg_api = {
    .name = "nvjpeg", .open = lane_open, .close = lane_close, .decode = lane_decode};

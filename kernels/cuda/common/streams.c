/* Streams are kept for the next who wants one. Once fifteen have been used in a process, also one
 * after another, each kernel of a graph begins 0.17 us later, for as long as the process lives
 * (H200, driver for CUDA 13): choosing kernels opens thirty, and networks of many small kernels
 * were 5 to 10 % slower for it. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "kernels/cuda/common/device.h"
#include "kernels/cuda/vendor/cudnn_streams.h"

typedef struct kept {
    struct kept *next;
    cudaStream_t stream;
    int device;
    bool taken;
} kept;

static kept *streams; /* of the process */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static kept *find_idle(int device) {
    kept *s = streams;
    while (s && (s->taken || s->device != device)) s = s->next;
    return s;
}

static qb_status create(qb_ctx *cx, int device, kept **out) {
    kept *made = qb_alloc(cx, 1, sizeof *made);
    if (!made) return cx->code;
    const qb_status status = qb_cuda_check(
        cx, cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    if (status != QB_OK) {
        qb_free(made);
        return status;
    }
    made->device = device;
    made->next = streams;
    *out = streams = made;
    return QB_OK;
}

qb_status qb_cuda_stream_open(qb_ctx *cx, void **stream) {
    int device = 0;
    QB_TRY(qb_cuda_check(cx, cudaGetDevice(&device), "cudaGetDevice"));
    pthread_mutex_lock(&streams_lock);
    kept *s = find_idle(device);
    const qb_status status = s ? QB_OK : create(cx, device, &s);
    if (status == QB_OK) {
        s->taken = true;
        *stream = s->stream;
    }
    pthread_mutex_unlock(&streams_lock);
    return status;
}

/* One that is still being captured is of no use to anybody: it stays taken. */
static bool is_capturing(cudaStream_t stream) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

void qb_cuda_stream_close(void *stream) {
    if (!stream) return;
    qb_cudnn_stream_close(stream);
    pthread_mutex_lock(&streams_lock);
    kept *s = streams;
    while (s && s->stream != stream) s = s->next;
    if (s) s->taken = is_capturing(stream);
    pthread_mutex_unlock(&streams_lock);
}

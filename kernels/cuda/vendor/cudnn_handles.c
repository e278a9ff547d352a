/* A handle of cuDNN for each stream. A handle that moves from one stream to another records an
 * event on the one it leaves: that stream may be gone by then, or another thread may be capturing
 * it, which would join the two captures. So a handle moves only while its stream is idle. */
#include <cuda_runtime.h>
#include <pthread.h>

#include "kernels/cuda/common/device.h"
#include "kernels/cuda/vendor/cudnn_internal.h"
#include "kernels/cuda/vendor/cudnn_streams.h"

typedef struct attached {
    struct attached *next;
    const qb_cudnn_api *api;
    int device;
    bool taken;   /* else it waits on the default stream for a stream to come */
    void *stream; /* NULL: the default stream; plans are made with its handle */
    cudnnHandle_t handle;
} attached;

static attached *handles; /* of the process: cuDNN keeps its kernels in them */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

static qb_status create(qb_ctx *cx, const qb_cudnn_api *api, int device, attached **out) {
    attached *made = qb_alloc(cx, 1, sizeof *made);
    if (!made) return cx->code;
    const cudnnStatus_t status = api->cudnnCreate(&made->handle);
    if (status != CUDNN_STATUS_SUCCESS) {
        qb_free(made);
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN does not start: %s",
                       api->cudnnGetErrorString(status));
    }
    made->api = api;
    made->device = device;
    made->next = handles;
    *out = handles = made;
    return QB_OK;
}

static attached *find(int device, bool taken, const void *stream) {
    for (attached *a = handles; a; a = a->next)
        if (a->device == device && a->taken == taken && a->stream == stream) return a;
    return NULL;
}

static qb_status attach(qb_ctx *cx, const qb_cudnn_api *api, void *stream, attached **out) {
    int device = 0;
    QB_TRY(qb_cuda_check(cx, cudaGetDevice(&device), "cudaGetDevice"));
    if ((*out = find(device, true, stream))) return QB_OK;
    *out = find(device, false, NULL);
    if (!*out) QB_TRY(create(cx, api, device, out));
    if (stream) QB_TRY(qb_cudnn_check(cx, api, api->cudnnSetStream((*out)->handle, stream)));
    (*out)->stream = stream;
    (*out)->taken = true;
    return QB_OK;
}

qb_status qb_cudnn_handle(qb_ctx *cx, const qb_cudnn_api *api, void *stream, cudnnHandle_t *out) {
    attached *a = NULL;
    pthread_mutex_lock(&handles_lock);
    const qb_status status = attach(cx, api, stream, &a);
    pthread_mutex_unlock(&handles_lock);
    if (status == QB_OK) *out = a->handle;
    return status;
}

qb_status qb_cudnn_stream_ready(qb_ctx *cx, void *stream) {
    attached *a = NULL;
    pthread_mutex_lock(&handles_lock);
    const qb_status status = handles ? attach(cx, handles->api, stream, &a) : QB_OK;
    pthread_mutex_unlock(&handles_lock);
    return status;
}

void qb_cudnn_stream_close(void *stream) {
    pthread_mutex_lock(&handles_lock);
    for (attached *a = handles; a; a = a->next) {
        if (!a->taken || a->stream != stream) continue;
        (void)a->api->cudnnSetStream(a->handle, NULL);
        a->stream = NULL;
        a->taken = false;
    }
    pthread_mutex_unlock(&handles_lock);
}

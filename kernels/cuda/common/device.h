/* The device as the rest of qbench sees it: opening it, memory, streams, events, captured graphs.
 * Plain C without a vendor's header. Streams, events and graphs are the runtime's own handles as
 * void pointers; NULL is the default stream. */
#ifndef QB_CUDA_DEVICE_H
#define QB_CUDA_DEVICE_H

#include <stdint.h>

#include "base/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_cuda_device {
    int32_t ordinal;
    char name[128];
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t shared_per_block; /* bytes that a block may ask for */
    size_t memory_bytes, l2_bytes;
    int32_t driver, runtime; /* 1000 major + 10 minor, as CUDA counts */
} qb_cuda_device;

/* How many devices there are; 0 without a driver. */
int32_t qb_cuda_count(void);
/* Makes device `ordinal` the calling thread's and describes it. UNSUPPORTED with one line when
 * there is none, or this program has no code for it. */
qb_status qb_cuda_open(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out);
/* Makes a device that is open the calling thread's. */
void qb_cuda_select(int32_t ordinal);
/* The units of the calling thread's current device: no name, memory or versions. */
qb_status qb_cuda_current(qb_ctx *cx, qb_cuda_device *out);
int32_t qb_cuda_multiprocessors(void); /* of that device; 1 where it does not tell */
int32_t
qb_cuda_place(int32_t ordinal); /* the device's number on the PCI bus; 0: it does not tell */
/* The version of the cuDNN library that is found at run time, as it counts (91300); 0: none. */
int32_t qb_cuda_cudnn_version(void);
/* Turns a code of the runtime into a status; `what` names the call. */
qb_status qb_cuda_check(qb_ctx *cx, int code, const char *what);

/* Bytes of that device that nobody holds. */
qb_status qb_cuda_memory_left(qb_ctx *cx, size_t *bytes);
qb_status qb_cuda_alloc(qb_ctx *cx, size_t bytes, void **out);
void qb_cuda_free(void *memory); /* accepts NULL */
/* Page-locked memory of the host: copies to and from it need nobody to wait. */
qb_status qb_cuda_host_alloc(qb_ctx *cx, size_t bytes, void **out);
void qb_cuda_host_free(void *memory); /* accepts NULL */
/* Copies and fills are ordered on the stream. The host side of a copy stays the caller's until the
 * stream is synchronized. */
/* `from` may also be on the device. */
qb_status qb_cuda_upload(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
qb_status qb_cuda_download(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
qb_status qb_cuda_fill(qb_ctx *cx, void *to, int byte, size_t bytes, void *stream);

/* A stream of the current device that nobody else has, until it is closed: then it is kept for the
 * next one. Work that was put on it before it was closed comes first. Any thread. */
qb_status qb_cuda_stream_open(qb_ctx *cx, void **stream);
void qb_cuda_stream_close(void *stream); /* accepts NULL */
/* Waits for all work on the stream; reports what went wrong in it. */
qb_status qb_cuda_sync(qb_ctx *cx, void *stream);

qb_status qb_cuda_event_open(qb_ctx *cx, void **event);
void qb_cuda_event_close(void *event);
qb_status qb_cuda_event_record(qb_ctx *cx, void *event, void *stream);
/* Waits until what was recorded before the event is done; later work on a stream waits for it. */
qb_status qb_cuda_event_wait(qb_ctx *cx, void *event);
qb_status qb_cuda_stream_wait(qb_ctx *cx, void *stream, void *event);
/* While the stream is captured: each replay of the graph records the event at this place. */
qb_status qb_cuda_event_mark(qb_ctx *cx, void *event, void *stream);
/* Milliseconds between two events that have happened. */
qb_status qb_cuda_event_elapsed(qb_ctx *cx, void *from, void *to, float *milliseconds);

/* Launches between begin and end are recorded instead of run; the graph replays them. */
qb_status qb_cuda_capture_begin(qb_ctx *cx, void *stream);
/* What is captured next starts when all before it is finished, also where one is a kernel that lets
 * its successors start early. Costs no time of its own; outside of a capture it does nothing. */
qb_status qb_cuda_fence(qb_ctx *cx, void *stream);
qb_status qb_cuda_capture_end(qb_ctx *cx, void *stream, void **graph);
qb_status qb_cuda_graph_launch(qb_ctx *cx, void *graph, void *stream);
void qb_cuda_graph_close(void *graph);

#ifdef __cplusplus
}
#endif
#endif

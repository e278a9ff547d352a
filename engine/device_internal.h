/* Devices with memory of their own: what the engine needs of one, and how it runs on it. */
#ifndef QB_ENGINE_DEVICE_INTERNAL_H
#define QB_ENGINE_DEVICE_INTERNAL_H

#include "engine/engine_internal.h"

#define QB_DEVICE_ALIGNMENT 256

/* Up to the next offset at which a tensor or constants may begin. */
static inline size_t qb_device_aligned(size_t bytes) {
    return (bytes + QB_DEVICE_ALIGNMENT - 1) / QB_DEVICE_ALIGNMENT * QB_DEVICE_ALIGNMENT;
}

/* Statistics of tensors gathered on the device, as qb_stats_add_tensor defines them. */
typedef struct qb_device_observers {
    size_t state_bytes;   /* of one tensor; begins with a qb_stats */
    size_t scratch_bytes; /* zeros at first; tensors observed one after the other share it */
    bool (*takes)(const qb_desc *desc);
    qb_status (*reset)(qb_ctx *cx, void *state, void *stream);
    /* Adds the first n_items; low and high: [n_items], all ones before, kept as keys. */
    qb_status (*observe)(qb_ctx *cx, const qb_desc *desc, const void *data, int64_t n_items,
                         void *state, void *scratch, uint32_t *low, uint32_t *high, void *stream);
    void (*extremes)(uint32_t low_key, uint32_t high_key, float *low, float *high);
} qb_device_observers;

/* What an engine was tuned for, and an engine file is bound to. */
typedef struct qb_device_identity {
    char hardware[160]; /* "NVIDIA H200, compute capability 9.0" */
    char software[128]; /* "driver 13.0, CUDA 13.0, cuDNN 91300" */
} qb_device_identity;

/* One kind of device. Streams, events and graphs are handles of the device's runtime; work on a
 * stream runs in order. All calls return a status but those that release (which accept NULL). */
typedef struct qb_device_api {
    const char *backend; /* of its tactics, and in the user's list */
    /* Makes a device the calling thread's, and says what it is (`identity` may be NULL). Fails with
     * one line where there is none. */
    qb_status (*open)(qb_ctx *cx, int32_t ordinal, qb_device_identity *identity);
    /* The same for one that is open, when another thread goes on: costs next to nothing. */
    void (*select)(int32_t ordinal);
    qb_status (*alloc)(qb_ctx *cx, size_t bytes, void **out);
    void (*release)(void *memory);
    /* `from` may also be on the device. */
    qb_status (*upload)(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
    qb_status (*download)(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
    qb_status (*fill)(qb_ctx *cx, void *to, int byte, size_t bytes, void *stream);
    qb_status (*stream_open)(qb_ctx *cx, void **stream);
    void (*stream_close)(void *stream);
    qb_status (*sync)(qb_ctx *cx, void *stream);
    struct {
        qb_status (*open)(qb_ctx *cx, void **event);
        void (*close)(void *event);
        qb_status (*record)(qb_ctx *cx, void *event, void *stream);
        qb_status (*mark)(qb_ctx *cx, void *event, void *stream); /* during a capture */
        qb_status (*elapsed)(qb_ctx *cx, void *from, void *to, float *milliseconds);
        qb_status (*wait)(qb_ctx *cx, void *event); /* by the host */
    } event;
    qb_status (*capture_begin)(qb_ctx *cx, void *stream);
    /* In a recording: what follows starts when all before it is finished, no earlier. */
    qb_status (*fence)(qb_ctx *cx, void *stream);
    qb_status (*capture_end)(qb_ctx *cx, void *stream, void **graph);
    qb_status (*graph_launch)(qb_ctx *cx, void *graph, void *stream);
    void (*graph_close)(void *graph);
    /* Page-locked memory of the host, from and to which copies need nobody to wait. */
    qb_status (*host_alloc)(qb_ctx *cx, size_t bytes, void **out);
    void (*host_release)(void *memory);
    qb_status (*stream_wait)(qb_ctx *cx, void *stream, void *event); /* by later work on it */
    const qb_device_observers *observers;                            /* NULL: it has none */
    /* Writes why the device's fast kernels do not take the problem of this slow one ("C=18: no
     * tile"); false: it is none, or nobody knows. NULL: the device has no remarks. */
    bool (*remark)(const qb_kernel *kernel, char *text, size_t n);
} qb_device_api;

/* The device of a backend; NULL for backends that run on the host. */
const qb_device_api *qb_device_find(const char *backend);

/* Packs all constants of device steps and uploads them to the device. */
qb_status qb_device_pack(qb_ctx *cx, qb_engine *engine);
/* The two halves of it: where the constants lie and how many bytes they are, and uploading them,
 * packed (device_constants bytes of the host). */
void qb_device_assign_offsets(qb_engine *engine);
qb_status qb_device_upload_constants(qb_ctx *cx, qb_engine *engine, const void *block);
/* New memory there with these bytes of the host; NULL for none. */
qb_status qb_device_upload(qb_ctx *cx, const qb_device_api *device, const void *bytes, size_t n,
                           void **out);
/* The packed constants back from the device. */
qb_status qb_device_constants(qb_ctx *cx, const qb_engine *engine, void *block);

/* Makes the engine's device the calling thread's; nothing for an engine of the host. */
void qb_engine_select(const qb_engine *engine);

/* engine/run/device_run.c */
typedef struct qb_device_run qb_device_run;
struct qb_context;
qb_status qb_device_run_create(qb_ctx *cx, struct qb_context *context);
/* Makes the context's engine the one that runs: with memory for it and the recording of its steps,
 * made now or kept from before. All addresses are bound anew where memory moves. */
qb_status qb_device_run_switch(qb_ctx *cx, struct qb_context *context);
size_t qb_device_run_bytes(const qb_device_run *run); /* on the device */
void qb_device_run_free(qb_device_run *run, const qb_device_api *device);
/* Where a buffer on the device lies. */
void *qb_device_address(const struct qb_context *context, const qb_buffer *buffer);
/* The packed constants of a step there; NULL where no kernel has any. */
const void *qb_device_packed(const qb_engine *engine, const qb_step *step);
/* Starts a copy or a kernel of the device. */
qb_status qb_device_run_step(qb_ctx *cx, struct qb_context *context, int32_t step);
/* One run on what qb_context_bind left; `seconds` and `raw` (may be NULL) as in
 * qb_context_profile_raw. */
qb_status qb_device_run_once(qb_ctx *cx, struct qb_context *context, double *seconds,
                             qb_profile_raw *raw);
/* The same with its parts timed; see qb_context_run_timed. */
qb_status qb_device_run_timed(qb_ctx *cx, struct qb_context *context, bool transfers,
                              qb_run_times *times);
qb_status qb_device_replay(qb_ctx *cx, struct qb_context *context, int32_t n, double *ms);
/* A step's result on the host, for observers; valid until the next call. */
qb_status qb_device_fetch(qb_ctx *cx, struct qb_context *context, int32_t stored, const void *from,
                          void **data);

#endif

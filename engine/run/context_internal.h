/* The execution context, for the files that run one. */
#ifndef QB_ENGINE_CONTEXT_INTERNAL_H
#define QB_ENGINE_CONTEXT_INTERNAL_H

#include "base/temp.h"
#include "engine/engine_internal.h"

/* A pointer that follows a buffer of the caller. */
typedef struct qb_patch {
    const void **slot;
    int32_t buffer;
} qb_patch;

struct qb_context {
    const qb_engine *engine; /* what runs: `whole`, or its plan for the shapes of now */
    const qb_engine *whole;  /* what the context was made for */
    size_t n_memory, cap_pointers, cap_tensors, cap_patches, cap_in, cap_node_in;
    qb_workers *workers;
    bool borrowed;         /* the workers are another context's */
    char *memory;          /* arena, then workspace */
    const void **pointers; /* in, then out, of every kernel step and every copy */
    const void ***in;      /* [n_steps] into pointers */
    qb_tensor *tensors;    /* in, then out, of every node step */
    qb_tensor **node_in;   /* [n_steps] into tensors */
    qb_patch *patches;
    int32_t n_patches;
    qb_temp temp;                 /* of node steps */
    struct qb_device_run *device; /* NULL for an engine of the host */
    struct qb_tail_run *tail;     /* NULL: the engine has none */
    void *device_stream;          /* all of its work runs on this one */
};

/* A context of the engine for these shapes, made where *context is NULL. It shares the workers
 * (NULL: the calling thread alone) of another one, which outlives it; both may not run at once. */
qb_status qb_context_prepare(qb_ctx *cx, const qb_engine *engine, qb_workers *workers,
                             const qb_shape *shapes, qb_context **context);

/* Points the steps at the caller's buffers: at the items of one part of the batch. `outputs` may be
 * NULL. */
void qb_context_bind(qb_context *context, const void *const *inputs, void *const *outputs,
                     int64_t part);

/* Points them at all that lies in the context's memory and in the engine. */
void qb_context_bind_all(qb_context *context);

/* The context runs `plan` from now on: for other shapes, or with other kernels, than the engine
 * that it was made for. Whatever was bound is for the engine of before or for none: afterwards it
 * is for `plan`. What it records is known by the address of `plan`. */
qb_status qb_context_switch(qb_ctx *cx, qb_context *context, const qb_engine *plan);

/* Runs one step on the host, or starts it on the device. */
qb_status qb_context_step(qb_ctx *cx, qb_context *context, int32_t step);

#endif

/* The constants of an engine: where they lie, packed for their kernels on the host and on the
 * device. */
#include <pthread.h>
#include <string.h>

#include "engine/device_internal.h"
#include "kernels/workers.h"

/* ---- on the device --------------------------------------------------------------------------- */

static bool is_on_device(const qb_step *step) { return step->kernel && step->on_device; }

/* Places of all constants that plans do not share in the device's block; returns its size. */
static size_t place_constants(qb_engine *e) {
    size_t total = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        if (!is_on_device(&e->steps[s]) || e->steps[s].shared) continue;
        e->steps[s].packed_offset = total;
        total += qb_device_aligned(e->steps[s].kernel->packed_bytes);
    }
    for (int32_t i = 0; i < e->n_buffers; i++) {
        if (e->buffers[i].kind != QB_BUFFER_DEVICE_CONSTANT || e->buffers[i].shared) continue;
        e->buffers[i].offset = total;
        total += qb_device_aligned(e->buffers[i].bytes + QB_BUFFER_SLACK);
    }
    return total;
}

typedef struct packing {
    qb_ctx *cx;
    const qb_engine *engine;
    char *block;
    pthread_mutex_t lock; /* of the context: the first error is its */
} packing;

static void pack_step(int64_t task, void *argument) {
    packing *p = argument;
    const qb_step *step = &p->engine->steps[task];
    qb_ctx cx;
    if (!is_on_device(step) || !step->kernel->pack || step->shared) return;
    qb_ctx_child(p->cx, &cx);
    if (step->kernel->pack(&cx, step->kernel, step->constants, p->block + step->packed_offset) ==
        QB_OK)
        return;
    qb_wrap(&cx, "packing the constants of '%s' for %s", step->name, step->tactic);
    pthread_mutex_lock(&p->lock);
    qb_ctx_take(p->cx, &cx);
    pthread_mutex_unlock(&p->lock);
}

/* A step a task: most of a build whose kernels' times are known is packing. */
#define PACKED_ALONE ((size_t)4 << 20) /* bytes: threads take longer to come and go */
static qb_status pack_into(qb_ctx *cx, const qb_engine *e, char *block) {
    packing p = {cx, e, block, PTHREAD_MUTEX_INITIALIZER};
    qb_workers *workers;
    QB_TRY(qb_workers_create(cx, e->on.constants > PACKED_ALONE ? qb_threads(cx) : 1, &workers));
    qb_workers_run(workers, e->n_steps, pack_step, &p);
    qb_workers_free(workers);
    QB_TRY(cx->code);
    for (int32_t i = 0; i < e->n_buffers; i++) {
        const qb_buffer *buffer = &e->buffers[i];
        if (buffer->kind == QB_BUFFER_DEVICE_CONSTANT && buffer->bytes > 0 && !buffer->shared)
            memcpy(block + buffer->offset, buffer->data, buffer->bytes);
    }
    return QB_OK;
}

void qb_device_assign_offsets(qb_engine *engine) {
    engine->on.constants = place_constants(engine);
    engine->memory.weights += engine->on.constants;
}

qb_status qb_device_upload(qb_ctx *cx, const qb_device_api *device, const void *bytes, size_t n,
                           void **out) {
    qb_status status = QB_OK;
    void *stream = NULL, *there = NULL;
    *out = NULL;
    if (n == 0) return QB_OK;
    QB_GO(device->alloc(cx, n + QB_BUFFER_SLACK, &there));
    QB_GO(device->stream_open(cx, &stream));
    QB_GO(device->upload(cx, there, bytes, n, stream));
    QB_GO(device->sync(cx, stream));
    *out = QB_MOVE(there);
out:
    device->stream_close(stream);
    device->release(there);
    return status;
}

qb_status qb_device_upload_constants(qb_ctx *cx, qb_engine *engine, const void *block) {
    return qb_device_upload(cx, engine->device, block, engine->on.constants, &engine->on.block);
}

qb_status qb_device_pack(qb_ctx *cx, qb_engine *engine) {
    qb_device_assign_offsets(engine);
    QB_FREED char *block = QB_NEW(cx, qb_alloc_aligned(cx, engine->on.constants, 1));
    QB_TRY(pack_into(cx, engine, block));
    return qb_device_upload_constants(cx, engine, block);
}

qb_status qb_device_constants(qb_ctx *cx, const qb_engine *engine, void *block) {
    const qb_device_api *device = engine->device;
    const size_t bytes = engine->on.constants;
    qb_status status = QB_OK;
    void *stream = NULL;
    QB_GO(device->stream_open(cx, &stream));
    if (bytes > 0) QB_GO(device->download(cx, block, engine->on.block, bytes, stream));
    QB_GO(device->sync(cx, stream));
out:
    device->stream_close(stream);
    return status;
}

/* ---- on the host ----------------------------------------------------------------------------- */

void qb_engine_assign_offsets(qb_engine *e) {
    size_t total = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        qb_step *step = &e->steps[s];
        if (!step->kernel || step->on_device) continue;
        step->packed_offset = total;
        total += (step->kernel->packed_bytes + 63) / 64 * 64;
    }
    e->memory.weights = total;
}

qb_status qb_engine_pack(qb_ctx *cx, qb_engine *e) {
    if (e->packed.data) return QB_OK;
    qb_engine_assign_offsets(e);
    QB_TRY_NEW(cx, e->packed.data = qb_alloc_aligned(cx, e->memory.weights, 1));
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (!step->kernel || !step->kernel->pack || step->on_device) continue;
        QB_TRY_WRAP(cx,
                    step->kernel->pack(cx, step->kernel, step->constants,
                                       (char *)e->packed.data + step->packed_offset),
                    "packing the constants of '%s' for %s", step->name, step->tactic);
    }
    return e->device ? qb_device_pack(cx, e) : QB_OK;
}

/* One step of a device on data of the host. */
#include "engine/device_internal.h"
#include "engine/tune/check_internal.h"

/* Where the data lie in one block of the device. */
typedef struct places {
    size_t in[QB_MAX_INPUTS], out, workspace, bytes;
} places;

static size_t take(places *at, size_t bytes) {
    const size_t begin = at->bytes;
    at->bytes += qb_device_aligned(bytes);
    return begin;
}

static places places_of(const qb_kernel *k, const void *const *in) {
    places at = {0};
    for (int32_t i = 0; i < k->problem.n_in; i++)
        if (in[i]) at.in[i] = take(&at, qb_desc_bytes(&k->problem.in[i]) + QB_BUFFER_SLACK);
    at.out = take(&at, qb_desc_bytes(&k->problem.out) + QB_BUFFER_SLACK);
    at.workspace = take(&at, k->workspace_bytes);
    return at;
}

static qb_status run_at(qb_ctx *cx, const qb_engine *e, const qb_step *step, const void *const *in,
                        const places *at, char *block, void *stream, void *out) {
    const qb_device_api *device = e->device;
    const qb_kernel *k = step->kernel;
    const void *there[QB_MAX_INPUTS] = {0};
    char *result = block + at->out;
    QB_TRY(device->fill(cx, block, 0, at->bytes, stream));
    for (int32_t i = 0; i < k->problem.n_in; i++) {
        if (!in[i]) continue;
        char *to = block + at->in[i];
        QB_TRY(device->upload(cx, to, in[i], qb_desc_bytes(&k->problem.in[i]), stream));
        there[i] = to;
        if (k->in_place_required && k->in_place_inputs >> i & 1) result = to;
    }
    const qb_launch launch = {.in = there,
                              .out = result,
                              .packed = qb_device_packed(e, step),
                              .workspace = k->workspace_bytes ? block + at->workspace : NULL,
                              .stream = stream};
    QB_TRY(k->launch(cx, k, &launch));
    QB_TRY(device->download(cx, out, result, qb_desc_bytes(&k->problem.out), stream));
    return device->sync(cx, stream);
}

qb_status qb_check_launch(qb_ctx *cx, const qb_engine *engine, const qb_step *step,
                          const void *const *in, void *out) {
    const qb_device_api *device = engine->device;
    const places at = places_of(step->kernel, in);
    void *stream = NULL, *block = NULL;
    qb_status status = QB_OK;
    qb_engine_select(engine);
    QB_GO(device->stream_open(cx, &stream));
    QB_GO(device->alloc(cx, at.bytes, &block));
    status = run_at(cx, engine, step, in, &at, block, stream, out);
out:
    device->release(block);
    device->stream_close(stream);
    return status;
}

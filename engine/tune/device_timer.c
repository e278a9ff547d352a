/* How long a kernel takes on a device: scratch memory there, and replays of recorded launches. */
#include <string.h>

#include "base/rng.h"
#include "base/sort.h"
#include "engine/tune/device_timer_internal.h"

#define NOISE_BYTES ((size_t)4 << 20)
#define REPLAYS 5
#define LAUNCHES_MAX 16
#define GRAPH_SECONDS 2e-3 /* aimed at for one replay */
#define HOPELESS 4.0       /* times the best so far: not measured further */

/* A block that only grows. */
typedef struct block {
    char *data;
    size_t bytes;
} block;

struct qb_scratch {
    const qb_device_api *device;
    void *stream, *begin, *end;
    char *noise_pattern;      /* on the host, NOISE_BYTES */
    block noise, zeros, work; /* inputs, inputs that index, and all that is written */
};

qb_status qb_scratch_create(qb_ctx *cx, const qb_device_api *device, qb_scratch **out) {
    QB_RELEASED(qb_scratch_free_at) qb_scratch *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    s->device = device;
    QB_TRY_NEW(cx, s->noise_pattern = qb_alloc(cx, NOISE_BYTES, 1));
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    /* finite and below 2 in f16 and in f32, varied as bytes */
    for (size_t i = 0; i < NOISE_BYTES; i += sizeof(uint64_t)) {
        const uint64_t four = (qb_rng_u64(&rng) & 0x8fff8fff8fff8fff) + 0x2c002c002c002c00;
        memcpy(s->noise_pattern + i, &four, sizeof four);
    }
    QB_TRY(device->stream_open(cx, &s->stream));
    QB_TRY(device->event.open(cx, &s->begin));
    QB_TRY(device->event.open(cx, &s->end));
    *out = QB_MOVE(s);
    return QB_OK;
}

void qb_scratch_free(qb_scratch *s) {
    if (!s) return;
    s->device->release(s->noise.data);
    s->device->release(s->zeros.data);
    s->device->release(s->work.data);
    s->device->event.close(s->begin);
    s->device->event.close(s->end);
    s->device->stream_close(s->stream);
    QB_FREE_ALL(s->noise_pattern, s);
}

/* *grown: the block is new. */
static qb_status grow(qb_ctx *cx, qb_scratch *s, block *b, size_t bytes, bool *grown) {
    *grown = bytes > b->bytes;
    if (!*grown) return QB_OK;
    s->device->release(b->data);
    *b = (block){0};
    void *data;
    QB_TRY(s->device->alloc(cx, bytes, &data));
    *b = (block){data, bytes};
    return QB_OK;
}

static qb_status grow_noise(qb_ctx *cx, qb_scratch *s, size_t bytes) {
    bool grown;
    QB_TRY(grow(cx, s, &s->noise, bytes, &grown));
    for (size_t at = 0; grown && at < s->noise.bytes; at += NOISE_BYTES) {
        size_t left = s->noise.bytes - at, n = left < NOISE_BYTES ? left : NOISE_BYTES;
        QB_TRY(s->device->upload(cx, s->noise.data + at, s->noise_pattern, n, s->stream));
    }
    return QB_OK;
}

static qb_status grow_zeros(qb_ctx *cx, qb_scratch *s, size_t bytes) {
    bool grown;
    QB_TRY(grow(cx, s, &s->zeros, bytes, &grown));
    return grown ? s->device->fill(cx, s->zeros.data, 0, bytes, s->stream) : QB_OK;
}

/* Integers of more than 8 bits may index something: zero is always in range. */
static bool is_index(const qb_desc *d) {
    return !qb_dtype_is_float(d->dtype) && qb_dtype_size(d->dtype) > 1;
}

static bool is_read(const qb_kernel *kernel, int32_t i) {
    return qb_problem_has(&kernel->problem, i) && !(kernel->packed_inputs >> i & 1);
}

/* Memory for one launch of a kernel; in[] as for launch. */
static qb_status assign(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel, const void **in,
                        qb_launch *launch) {
    const qb_problem *p = &kernel->problem;
    size_t need[2] = {0, 0}, at[2] = {0, 0};
    for (int32_t i = 0; i < p->n_in; i++)
        if (is_read(kernel, i))
            need[is_index(&p->in[i])] +=
                qb_device_aligned(qb_desc_bytes(&p->in[i]) + QB_BUFFER_SLACK);
    QB_TRY(grow_noise(cx, s, need[0]));
    QB_TRY(grow_zeros(cx, s, need[1]));
    for (int32_t i = 0; i < p->n_in; i++) {
        in[i] = NULL;
        if (!is_read(kernel, i)) continue;
        int which = is_index(&p->in[i]);
        in[i] = (which ? s->zeros.data : s->noise.data) + at[which];
        at[which] += qb_device_aligned(qb_desc_bytes(&p->in[i]) + QB_BUFFER_SLACK);
    }
    size_t out = qb_device_aligned(qb_desc_bytes(&p->out) + QB_BUFFER_SLACK);
    size_t packed = qb_device_aligned(kernel->packed_bytes),
           total = out + packed + kernel->workspace_bytes;
    bool grown;
    QB_TRY(grow(cx, s, &s->work, total, &grown));
    *launch = (qb_launch){.in = in,
                          .out = s->work.data,
                          .packed = s->work.data + out,
                          .workspace = kernel->workspace_bytes ? s->work.data + out + packed : NULL,
                          .stream = s->stream};
    if (kernel->in_place_required)
        for (int32_t i = 0; i < p->n_in; i++)
            if (kernel->in_place_inputs >> i & 1) launch->out = (void *)(uintptr_t)in[i];
    return QB_OK;
}

static qb_status upload_constants(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel,
                                  const void *const *constants, const qb_launch *launch) {
    if (!kernel->pack || kernel->packed_bytes == 0) return QB_OK;
    QB_FREED void *packed = QB_NEW(cx, qb_alloc_aligned(cx, kernel->packed_bytes, 1));
    QB_TRY(kernel->pack(cx, kernel, constants, packed));
    QB_TRY(s->device->upload(cx, (void *)(uintptr_t)launch->packed, packed, kernel->packed_bytes,
                             s->stream));
    return s->device->sync(cx, s->stream);
}

static qb_status elapsed(qb_ctx *cx, qb_scratch *s, double *seconds) {
    float ms = 0;
    QB_TRY(s->device->event.record(cx, s->end, s->stream));
    QB_TRY(s->device->sync(cx, s->stream));
    QB_TRY(s->device->event.elapsed(cx, s->begin, s->end, &ms));
    *seconds = (double)ms * 1e-3;
    return QB_OK;
}

/* The median over replays of a graph of `launches` launches. */
static qb_status replay(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel, const qb_launch *launch,
                        int launches, double *seconds) {
    double took[REPLAYS];
    void *graph = NULL;
    qb_status status = s->device->capture_begin(cx, s->stream), ended;
    if (status != QB_OK) return status;
    for (int i = 0; i < launches && status == QB_OK; i++)
        status = kernel->launch(cx, kernel, launch);
    ended = s->device->capture_end(cx, s->stream, &graph); /* a stream must not stay captured */
    if (status == QB_OK) status = ended;
    if (status != QB_OK) goto out;
    QB_GO(s->device->graph_launch(cx, graph, s->stream));
    for (int i = 0; i < REPLAYS; i++) {
        QB_GO(s->device->event.record(cx, s->begin, s->stream));
        QB_GO(s->device->graph_launch(cx, graph, s->stream));
        QB_GO(elapsed(cx, s, &took[i]));
    }
    qb_sort_doubles(took, REPLAYS);
    *seconds = took[REPLAYS / 2] / launches;
out:
    s->device->graph_close(graph);
    return status;
}

qb_status qb_scratch_time(qb_ctx *cx, qb_scratch *s, const qb_kernel *kernel,
                          const void *const *constants, double best, double *seconds) {
    const void *in[QB_MAX_INPUTS];
    qb_launch launch;
    QB_TRY(assign(cx, s, kernel, in, &launch));
    QB_TRY(upload_constants(cx, s, kernel, constants, &launch));
    QB_TRY(kernel->launch(cx, kernel, &launch)); /* loads code */
    QB_TRY(s->device->sync(cx, s->stream));
    QB_TRY(s->device->event.record(cx, s->begin, s->stream));
    QB_TRY(kernel->launch(cx, kernel, &launch));
    QB_TRY(elapsed(cx, s, seconds));
    if (*seconds > HOPELESS * best + 50e-6) return QB_OK;
    int launches = (int)(GRAPH_SECONDS / (*seconds + 1e-6));
    launches = launches < 1 ? 1 : launches > LAUNCHES_MAX ? LAUNCHES_MAX : launches;
    return replay(cx, s, kernel, &launch, launches, seconds);
}

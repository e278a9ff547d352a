/* Collectors: runs on a device with an observer behind each step. */
#include "engine/collect.h"

#include <string.h>

#include "engine/device_internal.h"
#include "engine/run/context_internal.h"

#define SLOTS 2

typedef struct watched {
    int32_t number; /* as observed */
    int32_t step;   /* it is there after this one */
    int32_t stored;
    void *seen; /* event: its observer is done */
} watched;

typedef struct slot {
    qb_collector_slot shown;
    void **staged;  /* [n_inputs] the inputs on the device */
    void *extremes; /* on the device: [n][2][batch] */
    void *arrived;  /* event: the inputs are on the device */
    void *ended;    /* event: the run is over and the extremes are here */
    bool under_way;
} slot;

struct qb_collector {
    const qb_engine *engine;
    qb_context *context;
    const qb_device_observers *observers;
    int64_t batch;
    int32_t n;
    watched *value;
    char *states;  /* on the device, [n] of observers->state_bytes */
    void *scratch; /* on the device */
    void *uploads; /* a stream: inputs arrive while the other slot runs */
    void *looking; /* a stream: observers run beside the steps that follow */
    void *written; /* event: the step is done whose result is to be observed */
    slot slot[SLOTS];
    int32_t at; /* slot of the last turn */
};

static size_t extremes_bytes(const qb_collector *c) {
    return (size_t)c->n * 2 * (size_t)c->batch * sizeof(uint32_t);
}

/* ---- what is watched ---- */

static qb_status not_there(qb_ctx *cx, const qb_engine *e, int32_t s, const char *why) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "step %d %s '%s' (%s): %s", (int)s, e->steps[s].op,
                   e->steps[s].name, e->steps[s].tactic, why);
}

static qb_status check_step(qb_ctx *cx, const qb_engine *e, int32_t s) {
    const qb_step *step = &e->steps[s];
    const bool there = step->kind == QB_STEP_ALIAS || step->kind == QB_STEP_UPLOAD ||
                       step->kind == QB_STEP_DOWNLOAD ||
                       (step->kernel && step->kernel->tactic->device_memory);
    return there ? QB_OK : not_there(cx, e, s, "runs on the host");
}

static qb_status watch(qb_ctx *cx, qb_collector *c, int32_t number, int32_t step, int32_t stored) {
    const qb_engine *e = c->engine;
    if (e->layouts[stored].desc.dtype != QB_DTYPE_F32) return QB_OK;
    if (!qb_layout_on_device(e, stored) || !c->observers->takes(&e->layouts[stored].desc))
        return not_there(cx, e, step, "its result cannot be observed on the device");
    c->value[c->n++] = (watched){.number = number, .step = step, .stored = stored};
    return QB_OK;
}

/* The engine's input that a step uploads, -1. */
static int32_t input_of(const qb_engine *e, const qb_step *step) {
    if (step->kind != QB_STEP_UPLOAD) return -1;
    const qb_buffer *buffer = &e->buffers[e->layouts[step->in[0]].buffer];
    return buffer->kind == QB_BUFFER_INPUT ? buffer->index : -1;
}

static qb_status find_values(qb_ctx *cx, qb_collector *c) {
    const qb_engine *e = c->engine;
    QB_TRY_NEW(cx, c->value = qb_alloc(cx, (size_t)e->n_observed, sizeof *c->value));
    QB_FREED bool *seen = QB_NEW(cx, qb_alloc(cx, (size_t)e->n_inputs, sizeof *seen));
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        const int32_t input = input_of(e, step);
        QB_TRY(check_step(cx, e, s));
        if (input >= 0 && !seen[input]) {
            seen[input] = true;
            QB_TRY(watch(cx, c, input, s, step->out[0]));
        }
        int32_t number = step->observed;
        for (int32_t i = 0; i < step->n_out && number >= 0; i++)
            if (step->out[i] >= 0 && e->layouts[step->out[i]].value >= 0)
                QB_TRY(watch(cx, c, number++, s, step->out[i]));
    }
    return QB_OK;
}

/* ---- memory ---- */

static qb_status reset(qb_ctx *cx, qb_collector *c, int32_t value) {
    return c->observers->reset(cx, c->states + (size_t)value * c->observers->state_bytes,
                               c->context->device_stream);
}

static qb_status open_slot(qb_ctx *cx, qb_collector *c, slot *s) {
    const qb_engine *e = c->engine;
    const qb_device_api *device = e->device;
    QB_TRY_NEW(cx, s->shown.input = qb_alloc(cx, (size_t)e->n_inputs, sizeof *s->shown.input));
    QB_TRY_NEW(cx, s->staged = qb_alloc(cx, (size_t)e->n_inputs, sizeof *s->staged));
    for (int32_t i = 0; i < e->n_inputs; i++) {
        const size_t bytes = qb_desc_bytes(&e->inputs[i].desc);
        QB_TRY(device->host_alloc(cx, bytes, &s->shown.input[i]));
        memset(s->shown.input[i], 0, bytes);
        QB_TRY(device->alloc(cx, bytes, &s->staged[i]));
    }
    void *extremes;
    QB_TRY(device->host_alloc(cx, extremes_bytes(c), &extremes));
    s->shown.extremes = extremes;
    QB_TRY(device->alloc(cx, extremes_bytes(c), &s->extremes));
    QB_TRY(device->event.open(cx, &s->arrived));
    return device->event.open(cx, &s->ended);
}

static void close_slot(const qb_collector *c, slot *s) {
    const qb_device_api *device = c->engine->device;
    for (int32_t i = 0; i < c->engine->n_inputs; i++) {
        if (s->shown.input) device->host_release(s->shown.input[i]);
        if (s->staged) device->release(s->staged[i]);
    }
    device->host_release((void *)(uintptr_t)s->shown.extremes);
    device->release(s->extremes);
    device->event.close(s->arrived);
    device->event.close(s->ended);
    QB_FREE_ALL(s->shown.input, s->staged);
}

static qb_status open_all(qb_ctx *cx, qb_collector *c) {
    const qb_device_api *device = c->engine->device;
    void *states;
    QB_TRY(find_values(cx, c));
    QB_TRY(qb_context_create(cx, c->engine, &c->context));
    const size_t bytes = (size_t)c->n * c->observers->state_bytes;
    QB_TRY(device->alloc(cx, bytes, &states));
    c->states = states;
    QB_TRY(device->alloc(cx, c->observers->scratch_bytes, &c->scratch));
    QB_TRY(device->fill(cx, c->scratch, 0, c->observers->scratch_bytes, c->context->device_stream));
    for (int32_t v = 0; v < c->n; v++) QB_TRY(reset(cx, c, v));
    QB_TRY(device->stream_open(cx, &c->uploads));
    QB_TRY(device->stream_open(cx, &c->looking));
    QB_TRY(device->event.open(cx, &c->written));
    for (int32_t v = 0; v < c->n; v++) QB_TRY(device->event.open(cx, &c->value[v].seen));
    for (int32_t i = 0; i < SLOTS; i++) QB_TRY(open_slot(cx, c, &c->slot[i]));
    return device->sync(cx, c->context->device_stream);
}

qb_status qb_collector_create(qb_ctx *cx, const qb_engine *engine, qb_collector **out) {
    if (!engine->device || !engine->device->observers)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected an engine of a device with observers");
    qb_collector *c = QB_NEW(cx, qb_alloc(cx, 1, sizeof *c));
    qb_engine_select(engine);
    c->engine = engine;
    c->observers = engine->device->observers;
    const qb_shape *shape = &engine->inputs[0].desc.shape;
    c->batch = shape->rank > 0 ? shape->dim[0] : 1;
    qb_status status = open_all(cx, c);
    if (status == QB_OK)
        *out = c;
    else
        qb_collector_free(c);
    return status;
}

void qb_collector_free(qb_collector *c) {
    if (!c) return;
    const qb_device_api *device = c->engine->device;
    qb_engine_select(c->engine);
    if (c->context) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        (void)device->sync(&cx, c->context->device_stream); /* nothing may still be written */
    }
    for (int32_t i = 0; i < SLOTS; i++) close_slot(c, &c->slot[i]);
    for (int32_t v = 0; v < c->n; v++) device->event.close(c->value[v].seen);
    device->event.close(c->written);
    device->stream_close(c->uploads);
    device->stream_close(c->looking);
    device->release(c->states);
    device->release(c->scratch);
    qb_context_free(c->context);
    QB_FREE_ALL(c->value, c);
}

/* ---- running ---- */

static qb_status wait_for(qb_ctx *cx, qb_collector *c, slot *s) {
    if (!s->under_way) return QB_OK;
    s->under_way = false;
    return c->engine->device->event.wait(cx, s->ended);
}

qb_status qb_collector_swap(qb_ctx *cx, qb_collector *c, qb_collector_slot **out) {
    c->at = (c->at + 1) % SLOTS;
    qb_engine_select(c->engine);
    QB_TRY(wait_for(cx, c, &c->slot[c->at]));
    *out = &c->slot[c->at].shown;
    return QB_OK;
}

/* Behind the step that has just been launched, beside those that follow. */
static qb_status observe(qb_ctx *cx, const qb_collector *c, const slot *s, int32_t v) {
    const qb_engine *e = c->engine;
    const qb_device_api *device = e->device;
    const qb_value_layout *stored = &e->layouts[c->value[v].stored];
    uint32_t *low = (uint32_t *)s->extremes + (size_t)v * 2 * (size_t)c->batch;
    QB_TRY(device->event.record(cx, c->written, c->context->device_stream));
    QB_TRY(device->stream_wait(cx, c->looking, c->written));
    QB_TRY(c->observers->observe(
        cx, &stored->desc, qb_device_address(c->context, &e->buffers[stored->buffer]),
        s->shown.n_items, c->states + (size_t)v * c->observers->state_bytes, c->scratch, low,
        low + c->batch, c->looking));
    return device->event.record(cx, c->value[v].seen, c->looking);
}

/* Does the step write where this value lies? Memory of values that nobody reads any more is free
 * for others. */
static bool takes_place_of(const qb_engine *e, int32_t s, int32_t stored) {
    const qb_step *step = &e->steps[s];
    const int32_t buffer = e->layouts[stored].buffer;
    if (step->kind == QB_STEP_ALIAS) return false;
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i] >= 0 && e->layouts[step->out[i]].buffer == buffer) return true;
    return e->buffers[buffer].last < s;
}

/* Steps wait for observers of what they overwrite; those run in order, so for the last of them. */
static qb_status run_steps(qb_ctx *cx, const qb_collector *c, const slot *s) {
    const qb_device_api *device = c->engine->device;
    void *stream = c->context->device_stream;
    int32_t launched = 0, awaited = 0;
    for (int32_t step = 0; step < c->engine->n_steps; step++) {
        int32_t last = launched;
        while (last > awaited && !takes_place_of(c->engine, step, c->value[last - 1].stored))
            last--;
        if (last > awaited) QB_TRY(device->stream_wait(cx, stream, c->value[last - 1].seen));
        if (last > awaited) awaited = last;
        if (c->engine->steps[step].kind != QB_STEP_ALIAS)
            QB_TRY(qb_context_step(cx, c->context, step));
        for (; launched < c->n && c->value[launched].step == step; launched++)
            QB_TRY(observe(cx, c, s, launched));
    }
    return launched > awaited ? device->stream_wait(cx, stream, c->value[launched - 1].seen)
                              : QB_OK;
}

qb_status qb_collector_start(qb_ctx *cx, qb_collector *c, int64_t n_items) {
    const qb_device_api *device = c->engine->device;
    void *stream = c->context->device_stream;
    slot *s = &c->slot[c->at];
    s->shown.n_items = n_items;
    qb_engine_select(c->engine);
    for (int32_t i = 0; i < c->engine->n_inputs; i++)
        QB_TRY(device->upload(cx, s->staged[i], s->shown.input[i],
                              qb_desc_bytes(&c->engine->inputs[i].desc), c->uploads));
    QB_TRY(device->event.record(cx, s->arrived, c->uploads));
    QB_TRY(device->stream_wait(cx, stream, s->arrived));
    QB_TRY(device->fill(cx, s->extremes, 0xff, extremes_bytes(c), stream));
    qb_context_bind(c->context, (const void *const *)s->staged, NULL, 0);
    QB_TRY(run_steps(cx, c, s));
    QB_TRY(device->download(cx, (void *)(uintptr_t)s->shown.extremes, s->extremes,
                            extremes_bytes(c), stream));
    QB_TRY(device->event.record(cx, s->ended, stream));
    s->under_way = true;
    return QB_OK;
}

qb_status qb_collector_wait(qb_ctx *cx, qb_collector *c) {
    qb_engine_select(c->engine);
    for (int32_t i = 0; i < SLOTS; i++) QB_TRY(wait_for(cx, c, &c->slot[i]));
    return QB_OK;
}

/* ---- results ---- */

int32_t qb_collector_count(const qb_collector *c) { return c->n; }

const char *qb_collector_name(const qb_collector *c, int32_t value) {
    return qb_engine_observed_name(c->engine, c->value[value].number);
}

void qb_collector_extremes(const qb_collector *c, const qb_collector_slot *s, int32_t value,
                           int64_t item, float *low, float *high) {
    const uint32_t *keys = s->extremes + (size_t)value * 2 * (size_t)c->batch;
    c->observers->extremes(keys[item], keys[c->batch + item], low, high);
}

qb_status qb_collector_take(qb_ctx *cx, qb_collector *c, int32_t value, qb_stats *into) {
    const qb_device_api *device = c->engine->device;
    void *stream = c->context->device_stream;
    QB_FREED qb_stats *seen = QB_NEW(cx, qb_alloc(cx, 1, sizeof *seen));
    qb_engine_select(c->engine);
    QB_TRY(device->download(cx, seen, c->states + (size_t)value * c->observers->state_bytes,
                            sizeof *seen, stream));
    QB_TRY(device->sync(cx, stream));
    qb_stats_merge(into, seen);
    return reset(cx, c, value);
}

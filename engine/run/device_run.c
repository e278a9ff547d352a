/* Running on a device: what lies between copies and steps of the host is recorded once as a graph
 * of the device and replayed. */
#include "base/log.h"
#include "engine/device_internal.h"
#include "engine/plans_internal.h"
#include "engine/run/context_internal.h"
#include "kernels/sources.h"

/* Events that a recording marks: none, before the first step and after the last, around each, or
 * around each without the steps. */
typedef enum marks { MARK_NONE, MARK_ENDS, MARK_STEPS, MARK_ALONE, MARKS } marks;

/* Steps first to last, as recorded graphs, or a single step that is no work of the device. */
typedef struct segment {
    int32_t first, last;
    void *graph[MARKS];
} segment;

/* The steps of an engine, or of its plan for some shapes, as this context runs them. */
typedef struct recording {
    const qb_engine *engine; /* held */
    int32_t n_segments;
    segment *segment;
    int64_t last_use;
} recording;

/* Recordings of one context; beyond that, the longest unused goes. */
#define RECORDINGS_MAX 16

/* Of a run: inputs in, steps, outputs out. */
#define PHASES 3

struct qb_device_run {
    void *stream;
    char *memory; /* arena, then workspace */
    size_t bytes; /* of it */
    recording kept[RECORDINGS_MAX], *now;
    int32_t n_kept, n_events;
    int64_t clock; /* counts turns */
    void **event;  /* [n_steps + 1] of the longest */
    size_t cap_events;
    void *mark[PHASES + 1]; /* between the parts of a run that is timed */
    char *fetched;
    size_t fetched_bytes;
};

static bool runs_there(const qb_step *step) {
    return step->kind == QB_STEP_ALIAS || step->on_device;
}

static bool touches_caller(const qb_engine *e, const qb_step *step) {
    if (step->kind != QB_STEP_UPLOAD && step->kind != QB_STEP_DOWNLOAD) return false;
    int32_t stored = step->kind == QB_STEP_UPLOAD ? step->in[0] : step->out[0];
    qb_buffer_kind kind = e->buffers[e->layouts[stored].buffer].kind;
    return kind == QB_BUFFER_INPUT || kind == QB_BUFFER_OUTPUT;
}

static void forget(recording *r) {
    for (int32_t i = 0; i < r->n_segments; i++)
        for (int m = 0; m < MARKS; m++) r->engine->device->graph_close(r->segment[i].graph[m]);
    qb_free(r->segment);
    qb_engine_release(r->engine);
    *r = (recording){0};
}

static void forget_all(qb_device_run *run) {
    for (int32_t i = 0; i < run->n_kept; i++) forget(&run->kept[i]);
    run->n_kept = 0;
    run->now = NULL;
}

/* Capacity for `arena` and `workspace`; what was recorded in less is no more. On failure all is as
 * it was. */
static qb_status reserve(qb_ctx *cx, qb_context *c, size_t arena, size_t workspace) {
    qb_device_run *run = c->device;
    const qb_device_api *device = c->whole->device;
    const size_t bytes = arena + QB_DEVICE_ALIGNMENT + workspace;
    void *memory;
    if (bytes <= run->bytes) return QB_OK;
    QB_TRY(device->alloc(cx, bytes, &memory));
    if (device->fill(cx, memory, 0, bytes, run->stream) != QB_OK) {
        device->release(memory);
        return cx->code;
    }
    forget_all(run);
    device->release(run->memory);
    run->memory = memory;
    run->bytes = bytes;
    return QB_OK;
}

/* With memory for the largest shapes, where there are several. */
qb_status qb_device_run_create(qb_ctx *cx, qb_context *c) {
    const qb_engine *e = c->engine;
    const qb_device_api *device = e->device;
    qb_plans_need need = {.device_arena = e->on.arena, .device_workspace = e->on.workspace};
    qb_device_run *run = c->device = qb_alloc(cx, 1, sizeof *run);
    if (!run) return cx->code;
    QB_TRY(device->open(cx, e->on.ordinal, NULL)); /* for this thread */
    QB_TRY(device->stream_open(cx, &run->stream));
    c->device_stream = run->stream;
    if (e->plans) need = qb_plans_memory(e->plans);
    return reserve(cx, c, need.device_arena, need.device_workspace);
}

size_t qb_device_run_bytes(const qb_device_run *run) { return run->bytes; }

void qb_device_run_free(qb_device_run *run, const qb_device_api *device) {
    if (!run) return;
    forget_all(run);
    for (int32_t i = 0; i < run->n_events; i++) device->event.close(run->event[i]);
    for (int32_t i = 0; i <= PHASES; i++) device->event.close(run->mark[i]);
    device->stream_close(run->stream);
    device->release(run->memory);
    QB_FREE_ALL(run->event, run->fetched, run);
}

/* Into the weights; NULL where no kernel has any. */
static void *weights_at(const qb_engine *e, size_t offset) {
    return e->on.block ? (char *)e->on.block + offset : NULL;
}

void *qb_device_address(const qb_context *c, const qb_buffer *buffer) {
    if (buffer->kind == QB_BUFFER_DEVICE) return c->device->memory + buffer->offset;
    if (buffer->shared) return (void *)(uintptr_t)buffer->shared;
    return weights_at(c->engine, buffer->offset);
}

const void *qb_device_packed(const qb_engine *e, const qb_step *step) {
    return step->shared ? step->shared : weights_at(e, step->packed_offset);
}

qb_status qb_device_run_step(qb_ctx *cx, qb_context *c, int32_t s) {
    const qb_engine *e = c->engine;
    const qb_step *step = &e->steps[s];
    const void *const *in = c->in[s];
    void *out = (void *)(uintptr_t)in[step->n_in], *stream = c->device->stream;
    if (step->kind == QB_STEP_UPLOAD || step->kind == QB_STEP_DOWNLOAD) {
        size_t bytes = qb_desc_bytes(&e->layouts[step->in[0]].desc);
        if (!out) return QB_OK; /* an output that the caller does not want */
        return step->kind == QB_STEP_UPLOAD ? e->device->upload(cx, out, in[0], bytes, stream)
                                            : e->device->download(cx, out, in[0], bytes, stream);
    }
    void *workspace = c->device->memory + e->on.arena + QB_DEVICE_ALIGNMENT;
    if (step->kind == QB_STEP_PLUGIN) return qb_plugin_step_run(cx, step, in, workspace, stream, 1);
    qb_launch launch = {.in = in,
                        .out = out,
                        .more = step->n_out > 1 ? (void *const *)(uintptr_t)(in + step->n_in + 1)
                                                : NULL,
                        .packed = qb_device_packed(e, step),
                        .workspace = workspace,
                        .stream = stream};
    return step->kernel->launch(cx, step->kernel, &launch);
}

/* ---- recording ------------------------------------------------------------------------------ */

static bool is_own(const qb_step *step) {
    return step->kernel && qb_tactic_source(step->kernel->tactic) == QB_SOURCE_OWN;
}

/* Own kernels let the next one start before they end; it waits before it reads. That
 * libraries' kernels and plugins wait, too, nobody promises. */
static bool needs_fence(const qb_engine *e, int32_t s) {
    while (--s >= 0 && e->steps[s].kind == QB_STEP_ALIAS) {
    }
    return s >= 0 && is_own(&e->steps[s]);
}

static qb_status launch_step(qb_ctx *cx, qb_context *c, int32_t s) {
    if (!is_own(&c->engine->steps[s]) && needs_fence(c->engine, s))
        QB_TRY(c->engine->device->fence(cx, c->device->stream));
    return qb_context_step(cx, c, s);
}

static qb_status launch_all(qb_ctx *cx, qb_context *c, const segment *g, marks marked) {
    const qb_device_run *run = c->device;
    const qb_device_api *device = c->engine->device;
    for (int32_t s = g->first; s <= g->last; s++) {
        const bool alias = c->engine->steps[s].kind == QB_STEP_ALIAS;
        if (s == g->first ? marked : marked >= MARK_STEPS && !alias)
            QB_TRY(device->event.mark(cx, run->event[s], run->stream));
        if (!alias && marked != MARK_ALONE) QB_TRY(launch_step(cx, c, s));
    }
    return marked ? device->event.mark(cx, run->event[g->last + 1], run->stream) : QB_OK;
}

static qb_status record(qb_ctx *cx, qb_context *c, segment *g, marks marked) {
    const qb_device_api *device = c->engine->device;
    QB_TRY(device->capture_begin(cx, c->device->stream));
    qb_status status = launch_all(cx, c, g, marked);
    void *recorded = NULL;
    if (status != QB_OK) { /* a stream must not stay captured; the first error counts */
        qb_ctx ended;
        qb_ctx_child(cx, &ended);
        if (device->capture_end(&ended, c->device->stream, &recorded) == QB_OK)
            device->graph_close(recorded);
        return status;
    }
    QB_TRY(device->capture_end(cx, c->device->stream, &recorded));
    g->graph[marked] = recorded;
    return QB_OK;
}

static void cut(recording *r) {
    const qb_engine *e = r->engine;
    for (int32_t s = 0; s < e->n_steps; s++) {
        bool there = runs_there(&e->steps[s]);
        segment *last = r->n_segments > 0 ? &r->segment[r->n_segments - 1] : NULL;
        if (there && last && last->last == s - 1 && runs_there(&e->steps[last->first]))
            last->last = s;
        else
            r->segment[r->n_segments++] = (segment){.first = s, .last = s};
    }
}

static qb_status record_all(qb_ctx *cx, qb_context *c, recording *r) {
    qb_device_run *run = c->device;
    const size_t n = (size_t)c->engine->n_steps;
    QB_TRY_NEW(cx, r->segment = qb_alloc(cx, n, sizeof *r->segment));
    QB_TRY(qb_grow(cx, &run->event, &run->cap_events, n + 1, sizeof *run->event));
    cut(r);
    for (int32_t i = 0; i < r->n_segments; i++) {
        segment *g = &r->segment[i];
        if (!runs_there(&c->engine->steps[g->first])) continue;
        QB_TRY(
            launch_all(cx, c, g, MARK_NONE)); /* loads code, which cannot happen in a recording */
        QB_TRY(c->engine->device->sync(cx, run->stream));
        QB_TRY(record(cx, c, g, MARK_NONE));
    }
    return QB_OK;
}

/* An empty slot for one more recording. */
static recording *free_place(qb_device_run *run) {
    recording *oldest = &run->kept[0];
    if (run->n_kept < RECORDINGS_MAX) return &run->kept[run->n_kept++];
    for (int32_t i = 1; i < run->n_kept; i++)
        if (run->kept[i].last_use < oldest->last_use) oldest = &run->kept[i];
    forget(oldest);
    return oldest;
}

static qb_status record_new(qb_ctx *cx, qb_context *c) {
    qb_device_run *run = c->device;
    recording *r = free_place(run);
    r->engine = c->engine;
    qb_engine_hold(r->engine);
    run->now = r;
    const qb_status status = record_all(cx, c, r);
    if (status == QB_OK) return QB_OK;
    forget(r);
    *r = run->kept[--run->n_kept]; /* the slot that gets free must be empty for the next */
    run->kept[run->n_kept] = (recording){0};
    run->now = NULL;
    return status;
}

qb_status qb_device_run_switch(qb_ctx *cx, qb_context *c) {
    qb_device_run *run = c->device;
    if (run->now && run->now->engine == c->engine) return QB_OK;
    const char *before = run->memory;
    QB_TRY(reserve(cx, c, c->engine->on.arena, c->engine->on.workspace));
    if (run->memory != before) qb_context_bind_all(c);
    run->now = NULL;
    for (int32_t i = 0; i < run->n_kept; i++)
        if (run->kept[i].engine == c->engine) run->now = &run->kept[i];
    if (!run->now) QB_TRY(record_new(cx, c));
    run->now->last_use = ++run->clock;
    return QB_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

/* One step that is not recorded; what a step of the host reads must have arrived. */
static qb_status run_single(qb_ctx *cx, qb_context *c, int32_t s, double *seconds) {
    const qb_step *step = &c->engine->steps[s];
    bool host = step->kind != QB_STEP_UPLOAD && step->kind != QB_STEP_DOWNLOAD;
    if (host || seconds) QB_TRY(c->engine->device->sync(cx, c->device->stream));
    double start = qb_now();
    QB_TRY(qb_context_step(cx, c, s));
    if (!seconds) return QB_OK;
    QB_TRY(c->engine->device->sync(cx, c->device->stream));
    seconds[s] += qb_now() - start;
    return QB_OK;
}

/* Twice, so that the marks that stay are those of a run that follows another one. */
static qb_status run_recorded(qb_ctx *cx, qb_context *c, segment *g, marks marked) {
    if (!g->graph[marked]) QB_TRY(record(cx, c, g, marked));
    for (int i = 0; i < 2; i++)
        QB_TRY(c->engine->device->graph_launch(cx, g->graph[marked], c->device->stream));
    return c->engine->device->sync(cx, c->device->stream);
}

/* From one event to another. */
static qb_status span(qb_ctx *cx, const qb_context *c, int32_t from, int32_t to, double *seconds) {
    float ms = 0;
    QB_TRY(c->engine->device->event.elapsed(cx, c->device->event[from], c->device->event[to], &ms));
    *seconds = (double)ms * 1e-3;
    return QB_OK;
}

/* A recording that was run, with the events of its marks. */
static qb_status measure(qb_ctx *cx, qb_context *c, segment *g, marks marked, double *whole) {
    QB_TRY(run_recorded(cx, c, g, marked));
    return span(cx, c, g->first, g->last + 1, whole);
}

/* The mark behind step s: before the next step that has one. */
static int32_t behind(const qb_context *c, const segment *g, int32_t s) {
    while (++s <= g->last && c->engine->steps[s].kind == QB_STEP_ALIAS) continue;
    return s;
}

/* A mark between two steps takes time, and keeps the second from starting while the first one ends.
 * What all marks cost together is the difference to a run that has marks at its ends alone; each
 * step has an equal part of it, and no step ends up with less than nothing. So the steps' times add
 * up to the run's; `raw` has what was measured. */
static qb_status run_marked(qb_ctx *cx, qb_context *c, segment *g, double *seconds,
                            qb_profile_raw *raw) {
    qb_device_run *run = c->device;
    double whole, all, alone, sum = 0;
    int32_t n = 0;
    for (; run->n_events <= g->last + 1; run->n_events++)
        QB_TRY(c->engine->device->event.open(cx, &run->event[run->n_events]));
    QB_TRY(measure(cx, c, g, MARK_ENDS, &whole));
    if (raw) QB_TRY(measure(cx, c, g, MARK_ALONE, &alone));
    QB_TRY(measure(cx, c, g, MARK_STEPS, &all));
    for (int32_t s = g->first; s <= g->last; s++) n += c->engine->steps[s].kind != QB_STEP_ALIAS;
    double part = n > 0 && all > whole ? (all - whole) / n : 0;
    for (int pass = 0; pass < 2; pass++) /* the sum, then the shares of the whole */
        for (int32_t s = g->first; s <= g->last; s++) {
            double between, took;
            if (c->engine->steps[s].kind == QB_STEP_ALIAS) continue;
            QB_TRY(span(cx, c, s, behind(c, g, s), &between));
            took = between > part ? between - part : 0;
            if (pass == 0)
                sum += took;
            else if (sum > 0)
                seconds[s] += took * (whole / sum);
            if (raw && pass == 0) raw->step[s] += between;
        }
    if (!raw) return QB_OK;
    raw->marks += alone;
    raw->whole += whole;
    return QB_OK;
}

static qb_status run_segments(qb_ctx *cx, qb_context *c, bool copies, double *seconds,
                              qb_profile_raw *raw) {
    qb_device_run *run = c->device;
    for (int32_t i = 0; i < run->now->n_segments; i++) {
        segment *g = &run->now->segment[i];
        if (!g->graph[MARK_NONE]) {
            if (copies || !touches_caller(c->engine, &c->engine->steps[g->first]))
                QB_TRY(run_single(cx, c, g->first, seconds));
        } else if (seconds) {
            QB_TRY(run_marked(cx, c, g, seconds, raw));
        } else {
            QB_TRY(c->engine->device->graph_launch(cx, g->graph[MARK_NONE], run->stream));
        }
    }
    return QB_OK;
}

qb_status qb_device_run_once(qb_ctx *cx, qb_context *c, double *seconds, qb_profile_raw *raw) {
    QB_TRY(run_segments(cx, c, true, seconds, raw));
    return c->engine->device->sync(cx, c->device->stream);
}

/* All of a run with a mark before each phase and behind the last. */
static qb_status start_marked(qb_ctx *cx, qb_context *c, bool transfers) {
    qb_device_run *run = c->device;
    const qb_device_api *device = c->engine->device;
    int at = 0;
    QB_TRY(device->event.record(cx, run->mark[0], run->stream));
    for (int32_t i = 0; i < run->now->n_segments; i++) {
        const segment *g = &run->now->segment[i];
        const qb_step *first = &c->engine->steps[g->first];
        const int phase = !touches_caller(c->engine, first) ? 1
                          : first->kind == QB_STEP_UPLOAD   ? 0
                                                            : 2;
        while (at < phase) QB_TRY(device->event.record(cx, run->mark[++at], run->stream));
        if (g->graph[MARK_NONE])
            QB_TRY(device->graph_launch(cx, g->graph[MARK_NONE], run->stream));
        else if (transfers || phase == 1)
            QB_TRY(run_single(cx, c, g->first, NULL));
    }
    while (at < PHASES) QB_TRY(device->event.record(cx, run->mark[++at], run->stream));
    return QB_OK;
}

qb_status qb_device_run_timed(qb_ctx *cx, qb_context *c, bool transfers, qb_run_times *times) {
    qb_device_run *run = c->device;
    const qb_device_api *device = c->engine->device;
    float ms[PHASES];
    for (int32_t i = 0; i <= PHASES; i++)
        if (!run->mark[i]) QB_TRY(device->event.open(cx, &run->mark[i]));
    const double begin = qb_now();
    QB_TRY(start_marked(cx, c, transfers));
    const double enqueue = (qb_now() - begin) * 1e3;
    QB_TRY(device->sync(cx, run->stream));
    for (int32_t i = 0; i < PHASES; i++)
        QB_TRY(device->event.elapsed(cx, run->mark[i], run->mark[i + 1], &ms[i]));
    *times = (qb_run_times){
        .h2d = (double)ms[0], .compute = (double)ms[1], .d2h = (double)ms[2], .enqueue = enqueue};
    return QB_OK;
}

static qb_status replay(qb_ctx *cx, qb_context *c, int32_t n, void **event, double *ms) {
    const qb_device_api *device = c->engine->device;
    void *stream = c->device->stream;
    QB_TRY(run_segments(cx, c, false, NULL, NULL)); /* so that the first one follows another too */
    QB_TRY(device->event.record(cx, event[0], stream));
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(run_segments(cx, c, false, NULL, NULL));
        QB_TRY(device->event.record(cx, event[i + 1], stream));
    }
    QB_TRY(device->sync(cx, stream));
    for (int32_t i = 0; i < n; i++) {
        float took = 0;
        QB_TRY(device->event.elapsed(cx, event[i], event[i + 1], &took));
        ms[i] = (double)took;
    }
    return QB_OK;
}

qb_status qb_device_replay(qb_ctx *cx, qb_context *c, int32_t n, double *ms) {
    qb_status status = QB_OK;
    QB_FREED void **event = QB_NEW(cx, qb_alloc(cx, (size_t)n + 1, sizeof *event));
    for (int32_t i = 0; i <= n; i++) QB_GO(c->engine->device->event.open(cx, &event[i]));
    QB_GO(replay(cx, c, n, event, ms));
out:
    for (int32_t i = 0; i <= n; i++) c->engine->device->event.close(event[i]);
    return status;
}

qb_status qb_device_fetch(qb_ctx *cx, qb_context *c, int32_t stored, const void *from,
                          void **data) {
    qb_device_run *run = c->device;
    size_t bytes = qb_desc_bytes(&c->engine->layouts[stored].desc);
    if (bytes > run->fetched_bytes) {
        qb_free(run->fetched);
        run->fetched_bytes = 0;
        QB_TRY_NEW(cx, run->fetched = qb_alloc_aligned(cx, bytes + QB_BUFFER_SLACK, 1));
        run->fetched_bytes = bytes;
    }
    QB_TRY(c->engine->device->download(cx, run->fetched, from, bytes, run->stream));
    QB_TRY(c->engine->device->sync(cx, run->stream));
    *data = run->fetched;
    return QB_OK;
}

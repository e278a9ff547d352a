/* Execution contexts: the memory of one run, and running. */
#include <string.h>

#include "base/log.h"
#include "engine/device_internal.h"
#include "engine/plans_internal.h"
#include "engine/run/context_internal.h"
#include "engine/run/tail_internal.h"

static void *address_of(const qb_context *c, int32_t stored) {
    const qb_buffer *buffer = &c->engine->buffers[c->engine->layouts[stored].buffer];
    switch (buffer->kind) {
    case QB_BUFFER_ARENA: return c->memory + buffer->offset;
    case QB_BUFFER_CONSTANT: return (void *)(uintptr_t)buffer->data;
    case QB_BUFFER_DEVICE:
    case QB_BUFFER_DEVICE_CONSTANT: return qb_device_address(c, buffer);
    case QB_BUFFER_INPUT:
    case QB_BUFFER_OUTPUT: break;
    }
    return NULL;
}

static void bind_slot(qb_context *c, int32_t stored, const void **slot) {
    *slot = NULL; /* another plan's tensor may be there */
    if (stored < 0) return;
    int32_t buffer = c->engine->layouts[stored].buffer;
    *slot = address_of(c, stored);
    const qb_buffer_kind kind = c->engine->buffers[buffer].kind;
    if (kind == QB_BUFFER_INPUT || kind == QB_BUFFER_OUTPUT)
        c->patches[c->n_patches++] = (qb_patch){slot, buffer};
}

static void bind_node(qb_context *c, const qb_step *step, qb_tensor *tensors) {
    for (int32_t i = 0; i < step->n_in + step->n_out; i++) {
        int32_t stored = i < step->n_in ? step->in[i] : step->out[i - step->n_in];
        tensors[i] = (qb_tensor){.desc.dtype = QB_DTYPE_NONE};
        if (stored < 0) continue;
        tensors[i].desc = c->engine->layouts[stored].desc;
        tensors[i].desc.layout = QB_LAYOUT_ROW; /* or the same in memory */
        bind_slot(c, stored, (const void **)&tensors[i].data);
    }
}

void qb_context_bind_all(qb_context *c) {
    const qb_engine *e = c->engine;
    const void **pointer = c->pointers;
    qb_tensor *tensor = c->tensors;
    c->n_patches = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (step->kind == QB_STEP_NODE) {
            c->node_in[s] = tensor;
            bind_node(c, step, tensor);
            tensor += step->n_in + step->n_out;
        } else {
            c->in[s] = pointer;
            for (int32_t i = 0; i < step->n_in; i++) bind_slot(c, step->in[i], pointer++);
            for (int32_t i = 0; i < step->n_out; i++) bind_slot(c, step->out[i], pointer++);
        }
    }
}

static qb_status reserve(qb_ctx *cx, qb_context *c, size_t arena, size_t workspace) {
    const size_t bytes = arena + QB_BUFFER_SLACK + workspace;
    if (c->memory && bytes <= c->n_memory) return QB_OK;
    char *memory = qb_alloc_aligned(cx, bytes, 1);
    if (!memory) return qb_wrap(cx, "the engine's activations");
    qb_free(c->memory);
    c->memory = memory;
    c->n_memory = bytes;
    return QB_OK;
}

/* Capacity for the pointers and the memory of `plan`; never less than there was. What was bound is
 * so no more. */
static qb_status make_capacity(qb_ctx *cx, qb_context *c, const qb_engine *plan) {
    size_t n = 1, n_steps = (size_t)plan->n_steps + 1;
    for (int32_t s = 0; s < plan->n_steps; s++)
        n += (size_t)(plan->steps[s].n_in + plan->steps[s].n_out);
    QB_TRY(reserve(cx, c, plan->memory.arena, plan->memory.workspace));
    QB_TRY(qb_grow(cx, &c->pointers, &c->cap_pointers, n, sizeof *c->pointers));
    QB_TRY(qb_grow(cx, &c->tensors, &c->cap_tensors, n, sizeof *c->tensors));
    QB_TRY(qb_grow(cx, &c->patches, &c->cap_patches, n, sizeof *c->patches));
    QB_TRY(qb_grow(cx, &c->in, &c->cap_in, n_steps, sizeof *c->in));
    return qb_grow(cx, &c->node_in, &c->cap_node_in, n_steps, sizeof *c->node_in);
}

/* Of the largest shapes, where there are several. */
static qb_status make_memory(qb_ctx *cx, qb_context *c) {
    const qb_engine_memory *m = &c->engine->memory;
    qb_plans_need need = {.arena = m->arena, .workspace = m->workspace};
    if (c->engine->plans) need = qb_plans_memory(c->engine->plans);
    return reserve(cx, c, need.arena, need.workspace);
}

/* With workers of its own unless it borrows some. */
static qb_status create(qb_ctx *cx, const qb_engine *engine, bool borrows, qb_workers *workers,
                        qb_context **out) {
    QB_RELEASED(qb_context_free_at) qb_context *c = QB_NEW(cx, qb_alloc(cx, 1, sizeof *c));
    c->engine = c->whole = engine;
    c->borrowed = borrows;
    c->workers = workers;
    QB_TRY(make_memory(cx, c));
    QB_TRY(make_capacity(cx, c, engine));
    if (!borrows) QB_TRY(qb_workers_create(cx, engine->plan->spec.threads, &c->workers));
    if (engine->device) QB_TRY(qb_device_run_create(cx, c));
    qb_context_bind_all(c);
    if (engine->device) QB_TRY(qb_device_run_switch(cx, c));
    if (engine->tail) QB_TRY(qb_tail_run_create(cx, engine, c->workers, &c->tail));
    *out = QB_MOVE(c);
    return QB_OK;
}

qb_status qb_context_create(qb_ctx *cx, const qb_engine *engine, qb_context **out) {
    return create(cx, engine, false, NULL, out);
}

qb_status qb_context_switch(qb_ctx *cx, qb_context *c, const qb_engine *plan) {
    qb_status status = make_capacity(cx, c, plan);
    if (status == QB_OK) c->engine = plan;
    qb_context_bind_all(c);
    return status == QB_OK && c->device ? qb_device_run_switch(cx, c) : status;
}

qb_status qb_context_set_shapes(qb_ctx *cx, qb_context *context, const qb_shape *shapes) {
    const qb_engine *before = context->engine, *plan;
    qb_engine_select(context->whole);
    QB_TRY(qb_engine_at(cx, context->whole, shapes, &plan));
    if (plan == before) { /* which is held already */
        qb_engine_release(plan);
        return QB_OK;
    }
    const qb_status status = qb_context_switch(cx, context, plan);
    if (status != QB_OK) {
        context->engine = before;
        qb_context_bind_all(context);
        qb_engine_release(plan);
    } else if (before != context->whole) {
        qb_engine_release(before);
    }
    return status;
}

qb_status qb_context_prepare(qb_ctx *cx, const qb_engine *engine, qb_workers *workers,
                             const qb_shape *shapes, qb_context **context) {
    if (!*context) QB_TRY(create(cx, engine, true, workers, context));
    return qb_context_set_shapes(cx, *context, shapes);
}

const qb_engine *qb_context_engine(const qb_context *context) { return context->engine; }

size_t qb_context_bytes(const qb_context *c) {
    return sizeof *c + c->n_memory + c->cap_pointers * sizeof *c->pointers +
           c->cap_tensors * sizeof *c->tensors + c->cap_patches * sizeof *c->patches +
           c->cap_in * sizeof *c->in + c->cap_node_in * sizeof *c->node_in +
           (c->device ? qb_device_run_bytes(c->device) : 0);
}

void qb_context_free(qb_context *context) {
    if (!context) return;
    qb_engine_select(context->whole);
    if (context->device) qb_device_run_free(context->device, context->whole->device);
    qb_tail_run_free(context->tail);
    if (!context->borrowed) qb_workers_free(context->workers);
    qb_free(context->memory);
    qb_temp_free(&context->temp);
    QB_FREE_ALL(context->pointers, context->in, context->tensors, context->node_in,
                context->patches);
    if (context->engine != context->whole) qb_engine_release(context->engine);
    qb_free(context);
}

static qb_status check_inputs(qb_ctx *cx, const qb_engine *e, const void *const *inputs) {
    for (int32_t i = 0; i < e->n_inputs; i++)
        if (!inputs[i])
            return qb_fail(cx, QB_STATUS_INVALID, "input '%s': expected data, got NULL",
                           e->inputs[i].name);
    return QB_OK;
}

void qb_context_bind(qb_context *c, const void *const *inputs, void *const *outputs, int64_t part) {
    for (int32_t i = 0; i < c->n_patches; i++) {
        const qb_buffer *buffer = &c->engine->buffers[c->patches[i].buffer];
        const char *data = buffer->kind == QB_BUFFER_INPUT ? inputs[buffer->index]
                           : outputs                       ? outputs[buffer->index]
                                                           : NULL;
        *c->patches[i].slot = data ? data + (size_t)part * buffer->bytes : NULL;
    }
}

static qb_status run_node(qb_ctx *cx, qb_context *c, const qb_step *step, qb_tensor *in) {
    qb_temp_open(&c->temp);
    qb_status status = step->node->op->eval(cx, step->node, in, in + step->n_in);
    qb_status closed = qb_temp_close(cx, &c->temp);
    return status == QB_OK ? closed : status;
}

/* The kernel's constants; NULL where it has none and the engine's block is not there (plans). */
static const void *packed_of(const qb_engine *e, const qb_step *step) {
    if (step->shared || !e->packed.data) return step->shared;
    return (const char *)e->packed.data + step->packed_offset;
}

qb_status qb_context_step(qb_ctx *cx, qb_context *c, int32_t s) {
    const qb_engine *e = c->engine;
    const qb_step *step = &e->steps[s];
    qb_status status = QB_OK;
    void *workspace = c->memory + e->memory.arena + QB_BUFFER_SLACK;
    if (step->kind == QB_STEP_UPLOAD || step->kind == QB_STEP_DOWNLOAD || step->on_device) {
        status = qb_device_run_step(cx, c, s);
    } else if (step->kind == QB_STEP_KERNEL) {
        qb_launch launch = {.in = c->in[s],
                            .out = (void *)(uintptr_t)c->in[s][step->n_in],
                            .more = (void *const *)(uintptr_t)(c->in[s] + step->n_in + 1),
                            .packed = packed_of(e, step),
                            .workspace = workspace,
                            .workers = c->workers};
        if (step->n_out == 1) {
            launch.more = NULL;
            if (!launch.out) return QB_OK; /* an output that the caller does not want */
        }
        status = step->kernel->launch(cx, step->kernel, &launch);
    } else if (step->kind == QB_STEP_PLUGIN) {
        status = qb_plugin_step_run(cx, step, c->in[s], workspace, NULL, e->plan->spec.threads);
    } else if (step->kind == QB_STEP_NODE) {
        status = run_node(cx, c, step, c->node_in[s]);
    }
    if (status == QB_OK) return QB_OK;
    return qb_wrap(cx, "step %d %s '%s' (%s)", (int)s, step->op, step->name, step->tactic);
}

static const void *data_of(const qb_context *c, int32_t s, int32_t output) {
    const qb_step *step = &c->engine->steps[s];
    if (step->kind == QB_STEP_NODE) return c->node_in[s][step->n_in + output].data;
    return c->in[s][step->n_in + output];
}

static qb_status show(qb_ctx *cx, qb_context *c, int32_t s, qb_observe_fn observe, void *user) {
    const qb_engine *e = c->engine;
    const qb_step *step = &e->steps[s];
    if (step->observed < 0) return QB_OK;
    int32_t number = step->observed;
    for (int32_t i = 0; i < step->n_out; i++) {
        if (step->out[i] < 0 || e->layouts[step->out[i]].value < 0) continue;
        void *data = (void *)(uintptr_t)data_of(c, s, i);
        if (qb_layout_on_device(e, step->out[i]))
            QB_TRY(qb_device_fetch(cx, c, step->out[i], data, &data));
        qb_tensor tensor = {e->layouts[step->out[i]].desc, data};
        QB_TRY(observe(cx, user, number, qb_engine_observed_name(e, number), &tensor));
        number++;
    }
    return QB_OK;
}

static qb_status show_inputs(qb_ctx *cx, const qb_context *c, const void *const *inputs,
                             qb_observe_fn observe, void *user) {
    for (int32_t i = 0; i < c->engine->n_inputs; i++) {
        qb_tensor tensor = {c->engine->inputs[i].desc, (void *)(uintptr_t)inputs[i]};
        QB_TRY(observe(cx, user, i, c->engine->inputs[i].name, &tensor));
    }
    return QB_OK;
}

static qb_status run_part(qb_ctx *cx, qb_context *c, double *seconds, qb_observe_fn observe,
                          void *user) {
    for (int32_t s = 0; s < c->engine->n_steps; s++) {
        double start = seconds ? qb_now() : 0.0;
        QB_TRY(qb_context_step(cx, c, s));
        if (seconds) seconds[s] += qb_now() - start;
        if (observe) QB_TRY(show(cx, c, s, observe, user));
    }
    return QB_OK;
}

/* All three ways to run: `seconds`, `raw` and `observe` may be NULL. */
static qb_status run(qb_ctx *cx, qb_context *c, const void *const *inputs, void *const *outputs,
                     double *seconds, qb_profile_raw *raw, qb_observe_fn observe, void *user) {
    qb_engine_select(c->whole);
    QB_TRY(check_inputs(cx, c->engine, inputs));
    if (c->device) QB_TRY(qb_device_run_switch(cx, c));
    if (observe && c->engine->parts > 1)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "the engine runs its batch in parts; build it observable");
    if (observe) QB_TRY(show_inputs(cx, c, inputs, observe, user));
    qb_status status = QB_OK;
    void *const *own = c->tail ? c->tail->head : outputs;
    int before = qb_use_threads(c->engine->plan->spec.threads);
    for (int64_t part = 0; part < c->engine->parts && status == QB_OK; part++) {
        qb_context_bind(c, inputs, own, part);
        status = c->device && !observe ? qb_device_run_once(cx, c, seconds, raw)
                                       : run_part(cx, c, seconds, observe, user);
    }
    qb_use_threads(before);
    if (status != QB_OK || !c->tail) return status;
    const double start = qb_now();
    status = qb_tail_run_nodes(cx, c->tail, inputs, outputs);
    c->tail->seconds = qb_now() - start;
    return status;
}

double qb_context_late_seconds(const qb_context *c) { return c->tail ? c->tail->seconds : 0; }

int32_t qb_context_late_engines(const qb_context *c) {
    return c->tail ? qb_tail_groups_planned(c->tail->groups) : 0;
}

qb_shape qb_context_output_shape(const qb_context *c, int32_t i) {
    return c->tail ? c->tail->shape[i] : c->engine->outputs[i].desc.shape;
}

qb_status qb_context_run(qb_ctx *cx, qb_context *context, const void *const *inputs,
                         void *const *outputs) {
    return run(cx, context, inputs, outputs, NULL, NULL, NULL, NULL);
}

qb_status qb_context_profile(qb_ctx *cx, qb_context *context, const void *const *inputs,
                             void *const *outputs, double *seconds) {
    return run(cx, context, inputs, outputs, seconds, NULL, NULL, NULL);
}

qb_status qb_context_profile_raw(qb_ctx *cx, qb_context *context, const void *const *inputs,
                                 void *const *outputs, double *seconds, qb_profile_raw *raw) {
    const int32_t n = context->engine->n_steps;
    if (context->device) return run(cx, context, inputs, outputs, seconds, raw, NULL, NULL);
    QB_FREED double *one = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *one));
    QB_TRY(run(cx, context, inputs, outputs, one, NULL, NULL, NULL));
    for (int32_t s = 0; s < n; s++) {
        seconds[s] += one[s];
        raw->step[s] += one[s];
        raw->whole += one[s];
    }
    return QB_OK;
}

qb_status qb_context_observe(qb_ctx *cx, qb_context *context, const void *const *inputs,
                             void *const *outputs, qb_observe_fn observe, void *user) {
    return run(cx, context, inputs, outputs, NULL, NULL, observe, user);
}

qb_status qb_context_replay(qb_ctx *cx, qb_context *context, int32_t n, double *ms) {
    if (!context->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "replay: expected an engine of a device");
    qb_engine_select(context->whole);
    QB_TRY(qb_device_run_switch(cx, context));
    return qb_device_replay(cx, context, n, ms);
}

qb_status qb_context_run_timed(qb_ctx *cx, qb_context *context, const void *const *inputs,
                               void *const *outputs, bool transfers, qb_run_times *times) {
    if (!context->device)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "times of a run: expected an engine of a device");
    QB_TRY(check_inputs(cx, context->engine, inputs));
    qb_engine_select(context->whole);
    QB_TRY(qb_device_run_switch(cx, context));
    qb_context_bind(context, inputs, context->tail ? context->tail->head : outputs, 0);
    QB_TRY(qb_device_run_timed(cx, context, transfers, times));
    return context->tail && transfers ? qb_tail_run_nodes(cx, context->tail, inputs, outputs)
                                      : QB_OK;
}

void *qb_engine_buffer(qb_ctx *cx, const qb_engine *engine, size_t bytes) {
    void *memory = NULL;
    if (!engine->device) return qb_alloc_aligned(cx, 1, bytes);
    qb_engine_select(engine);
    if (engine->device->host_alloc(cx, bytes, &memory) != QB_OK) return NULL;
    return memset(memory, 0, bytes);
}

void qb_engine_buffer_free(const qb_engine *engine, void *buffer) {
    if (engine->device)
        engine->device->host_release(buffer);
    else
        qb_free(buffer);
}

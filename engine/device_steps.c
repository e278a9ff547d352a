/* Steps on a device: posing problems to its tactics, the order of copies, and its constants. */
#include <string.h>

#include "base/log.h"
#include "device_internal.h"
#include "plans_internal.h"

#ifdef QB_HAVE_CUDA
#include "engine/cuda/device_api_internal.h"
#endif

const qb_device_api *qb_device_find(const char *backend) {
#ifdef QB_HAVE_CUDA
    if (strcmp(backend, qb_cuda_device_api.backend) == 0) return &qb_cuda_device_api;
#endif
    (void)backend;
    return NULL;
}

void qb_engine_select(const qb_engine *engine) {
    if (engine->device) engine->device->select(engine->ordinal);
}

static qb_desc as_half(qb_desc desc) {
    if (desc.dtype != QB_DTYPE_NONE) desc.dtype = QB_DTYPE_F16;
    desc.q = (qb_qparams){.axis = -1};
    return desc;
}

qb_desc qb_device_value(const qb_builder *b, int32_t value, qb_layout layout) {
    qb_desc desc = qb_build_desc(b, value, layout);
    return qb_device_is_half(b, value) ? as_half(desc) : qb_device_float(b, value, desc);
}

qb_desc qb_device_desc(const qb_builder *b, qb_desc desc) {
    if (desc.dtype == QB_DTYPE_F32 && desc.q.n == 0) desc.dtype = b->device_float;
    return desc;
}

static bool is_constant(const qb_builder *b, const qb_group *group, int32_t i) {
    return group->in[i] >= 0 && b->graph->values[group->in[i]].data;
}

/* The kernel becomes the group's step. */
static qb_status add_step(qb_builder *b, const qb_group *group, qb_kernel *kernel,
                          const qb_choice *choice) {
    if (kernel->problem.out.channel_total == 0) b->slice_of[group->out] = -1;
    b->why_not = NULL;
    qb_status status = qb_build_add_kernel(b, group, &kernel);
    qb_kernel_free(kernel);
    if (status == QB_OK) b->engine->steps[b->engine->n_steps - 1].choice = *choice;
    return status;
}

void qb_device_problem(const qb_builder *b, const qb_group *group, bool half, qb_desc *in,
                       qb_problem *problem, bool *constant) {
    problem->tf32 = b->tf32;
    problem->out = half ? as_half(problem->out) : qb_device_float(b, group->out, problem->out);
    for (int32_t i = 0; i < problem->n_in; i++) {
        constant[i] = is_constant(b, group, i);
        if (!constant[i]) in[i] = half ? as_half(in[i]) : qb_device_float(b, group->in[i], in[i]);
    }
}

qb_status qb_device_step(qb_builder *b, const qb_group *group, const qb_problem *problem,
                         bool *done) {
    qb_desc in[QB_MAX_INPUTS], slice;
    bool constant[QB_MAX_INPUTS];
    qb_problem p = *problem;
    qb_kernel *kernel;
    qb_choice choice = {0};
    qb_forms f = {.device = true};
    p.in = in;
    for (int32_t i = 0; i < p.n_in; i++) in[i] = problem->in[i];
    qb_device_problem(b, group, qb_device_is_half(b, group->out), in, &p, constant);
    const qb_problem *forms = f.problem;
    if (p.kind == QB_KIND_CONCAT) {
        forms = &p;
        f.n = 1;
    } else {
        bool sliced = b->slice_of[group->out] >= 0;
        if (sliced) QB_TRY(qb_build_slice_desc(b, group->out, &slice));
        qb_build_forms(b, group, &p, sliced ? &slice : NULL, &f);
    }
    QB_TRY(qb_device_decide(b, forms, f.n, constant, group->in, &kernel, &choice));
    *done = kernel != NULL;
    choice.why_joined = b->why_joined;
    if (qb_device_is_half(b, group->out)) choice.why_half = b->half_note[group->out];
    if (kernel) return add_step(b, group, kernel, &choice);
    b->why_not = choice.why_not;
    b->slice_of[group->out] = -1; /* what runs on the host cannot write into the device's memory */
    return QB_OK;
}

bool qb_device_takes(const qb_builder *b, const qb_problem *problem) {
    const bool constant[QB_MAX_INPUTS] = {false};
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p = *problem;
    p.in = in;
    p.out = qb_device_desc(b, problem->out);
    for (int32_t i = 0; i < p.n_in; i++) in[i] = qb_device_desc(b, problem->in[i]);
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (qb_device_has(b, *t, p.kind) && (*t)->supports(&p, constant)) return true;
    return false;
}

static bool takes(const void *user, const qb_problem *problem) {
    return qb_device_takes(user, problem);
}

qb_status qb_device_fuse(qb_builder *b) {
    int32_t n;
    QB_TRY(qb_fuse_attention(b->cx, b->graph, takes, b, &n));
    if (n > 0) qb_debug(b->cx, "attention: %d times as one step", (int)n);
    b->packs_heads = true;
    if (b->plans) return QB_OK; /* weights that a plan makes are no other plan's: see below */
    QB_TRY(qb_fuse_products(b->cx, b->graph, takes, b, &n));
    if (n > 0) qb_debug(b->cx, "queries, keys and values: %d times as one product", (int)n);
    return QB_OK;
}

qb_status qb_device_fuse_plans(qb_builder *b, bool *changed) {
    int32_t n;
    QB_TRY(qb_fuse_products_as(b->cx, b->plans->graph, b->graph, takes, b, &n));
    if (n > 0) qb_debug(b->cx, "queries, keys and values: %d times as one product", (int)n);
    *changed = n > 0;
    return QB_OK;
}

/* A Cast as a copy. A device's alone: the host's copies take integers by way of double, which
 * rounds the largest ones twice. */
static bool pose_cast(const qb_builder *b, const qb_node *node, qb_desc *in, qb_problem *problem) {
    if (strcmp(node->op->name, "Cast") != 0 || b->graph->values[node->in[0]].data) return false;
    in[0] = qb_build_desc(b, node->in[0], QB_LAYOUT_ROW);
    *problem = (qb_problem){.kind = QB_KIND_COPY,
                            .n_in = 1,
                            .in = in,
                            .group = 1,
                            .scale = 1,
                            .out = qb_build_desc(b, node->out[0], QB_LAYOUT_ROW)};
    return qb_shape_known(&in[0].shape) && qb_shape_known(&problem->out.shape);
}

qb_status qb_device_node(qb_builder *b, const qb_group *group, bool *done) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    qb_desc in[QB_MAX_INPUTS];
    int32_t packed[4];
    qb_problem problem;
    *done = qb_device_is_packing(b, group);
    b->why_not = "no tactic for this operator";
    if (*done) { /* a later step reads what would be split: nothing may be written over it */
        b->last_group[node->in[0]] = b->groups.n;
        return QB_OK;
    }
    if (node->n_in > 4 ||
        (!pose_cast(b, node, in, &problem) && !qb_node_problem(b->graph, node, in, &problem)) ||
        problem.kind == QB_KIND_RECURRENT) {               /* no device has that */
        if (group->out >= 0) b->slice_of[group->out] = -1; /* the host writes no slice of it */
        return QB_OK;
    }
    qb_group posed = *group;
    const qb_group *split =
        problem.kind == QB_KIND_ATTENTION ? qb_device_packed(b, group, packed, in, &problem) : NULL;
    if (split) posed.in = packed;
    posed.kind = problem.kind;
    posed.n_in = problem.n_in;
    QB_TRY(qb_device_step(b, &posed, &problem, done));
    return split && !*done ? qb_build_node(b, split) : QB_OK; /* the host reads three tensors */
}

/* ---- order ------------------------------------------------------------------------------------
 */

/* 0: from the caller's memory, 2: to it, 1: the rest. */
static int rank_of(const qb_engine *e, const qb_step *step) {
    if (step->kind == QB_STEP_UPLOAD &&
        e->buffers[e->images[step->in[0]].buffer].kind == QB_BUFFER_INPUT)
        return 0;
    if (step->kind == QB_STEP_DOWNLOAD &&
        e->buffers[e->images[step->out[0]].buffer].kind == QB_BUFFER_OUTPUT)
        return 2;
    return 1;
}

qb_status qb_device_order(qb_ctx *cx, qb_engine *engine) {
    size_t n = (size_t)engine->n_steps, at = 0;
    qb_step *sorted = qb_alloc(cx, n, sizeof *sorted);
    if (!sorted) return cx->code;
    for (int rank = 0; rank < 3; rank++)
        for (size_t s = 0; s < n; s++)
            if (rank_of(engine, &engine->steps[s]) == rank) sorted[at++] = engine->steps[s];
    memcpy(engine->steps, sorted, n * sizeof *sorted);
    qb_free(sorted);
    return QB_OK;
}

/* ---- constants --------------------------------------------------------------------------------
 */

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

static qb_status pack_into(qb_ctx *cx, const qb_engine *e, char *block) {
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (!is_on_device(step) || !step->kernel->pack || step->shared) continue;
        QB_TRY_WRAP(
            cx, step->kernel->pack(cx, step->kernel, step->constants, block + step->packed_offset),
            "packing the constants of '%s' for %s", step->name, step->tactic);
    }
    for (int32_t i = 0; i < e->n_buffers; i++) {
        const qb_buffer *buffer = &e->buffers[i];
        if (buffer->kind == QB_BUFFER_DEVICE_CONSTANT && buffer->bytes > 0 && !buffer->shared)
            memcpy(block + buffer->offset, buffer->data, buffer->bytes);
    }
    return QB_OK;
}

void qb_device_place(qb_engine *engine) {
    engine->device_constants = place_constants(engine);
    engine->memory.weights += engine->device_constants;
}

qb_status qb_device_bring(qb_ctx *cx, const qb_device_api *device, const void *bytes, size_t n,
                          void **out) {
    qb_status status = QB_OK;
    void *stream = NULL, *there = NULL;
    *out = NULL;
    if (n == 0) return QB_OK;
    QB_GO(device->alloc(cx, n + QB_BUFFER_SLACK, &there));
    QB_GO(device->stream_open(cx, &stream));
    QB_GO(device->upload(cx, there, bytes, n, stream));
    QB_GO(device->sync(cx, stream));
    *out = there;
    there = NULL;
out:
    device->stream_close(stream);
    device->release(there);
    return status;
}

qb_status qb_device_adopt(qb_ctx *cx, qb_engine *engine, const void *block) {
    return qb_device_bring(cx, engine->device, block, engine->device_constants,
                           &engine->device_block);
}

qb_status qb_device_pack(qb_ctx *cx, qb_engine *engine) {
    qb_device_place(engine);
    char *block = qb_alloc_aligned(cx, engine->device_constants, 1);
    if (!block) return cx->code;
    qb_status status = pack_into(cx, engine, block);
    if (status == QB_OK) status = qb_device_adopt(cx, engine, block);
    qb_free(block);
    return status;
}

qb_status qb_device_constants(qb_ctx *cx, const qb_engine *engine, void *block) {
    const qb_device_api *device = engine->device;
    const size_t bytes = engine->device_constants;
    qb_status status = QB_OK;
    void *stream = NULL;
    QB_GO(device->stream_open(cx, &stream));
    if (bytes > 0) QB_GO(device->download(cx, block, engine->device_block, bytes, stream));
    QB_GO(device->sync(cx, stream));
out:
    device->stream_close(stream);
    return status;
}

/* Layouts: the candidates in which values lie in memory while an engine is built, and the copy
 * steps that make one from another. */

#include "engine/realize/lowering_internal.h"

int32_t qb_lower_buffer(qb_lowering *b, qb_buffer_kind kind, int32_t index, const void *data,
                        size_t bytes) {
    qb_engine *e = b->engine;
    if (bytes == SIZE_MAX) {
        qb_fail(b->cx, QB_STATUS_NOMEM, "a tensor is larger than the address space");
        return -1;
    }
    if (qb_grow(b->cx, &e->buffers, &b->capacity.buffers, (size_t)e->n_buffers + 1,
                sizeof *e->buffers) != QB_OK)
        return -1;
    e->buffers[e->n_buffers] = (qb_buffer){.kind = kind,
                                           .index = index,
                                           .data = data,
                                           .bytes = bytes,
                                           .first = INT32_MAX,
                                           .last = -1,
                                           .layouts = -1};
    return e->n_buffers++;
}

int32_t qb_lower_layout(qb_lowering *b, int32_t value, const qb_desc *desc, int32_t buffer) {
    qb_engine *e = b->engine;
    if (buffer < 0 || qb_grow(b->cx, &e->layouts, &b->capacity.layouts, (size_t)e->n_layouts + 1,
                              sizeof *e->layouts) != QB_OK)
        return -1;
    int32_t id = e->n_layouts++;
    e->layouts[id] = (qb_value_layout){.value = value,
                                       .next = -1,
                                       .buffer = buffer,
                                       .below = e->buffers[buffer].layouts,
                                       .desc = *desc};
    e->buffers[buffer].layouts = id;
    if (value < 0) return id;
    int32_t *link =
        &b->value[value].layout; /* appended: the first layout is the one that was computed */
    while (*link >= 0) link = &e->layouts[*link].next;
    *link = id;
    return id;
}

int32_t qb_lower_fresh(qb_lowering *b, int32_t value, const qb_desc *desc, bool device) {
    int32_t buffer = qb_lower_buffer(b, device ? QB_BUFFER_DEVICE : QB_BUFFER_ARENA, -1, NULL,
                                     qb_desc_bytes(desc));
    return qb_lower_layout(b, value, desc, buffer);
}

static bool is_slice(const qb_desc *desc) {
    return desc->channel_total > 0 &&
           (desc->shape.rank < 2 || desc->channel_total != desc->shape.dim[1]);
}

/* Is row-major order the same as the layout's for this shape? */
static bool is_row(const qb_desc *desc) {
    if (desc->layout == QB_LAYOUT_ROW) return true;
    if (is_slice(desc) || desc->shape.rank < 2) return false;
    const int64_t channels = desc->shape.dim[1];
    const int64_t plane = qb_shape_span(&desc->shape, 2, desc->shape.rank);
    switch (desc->layout) {
    case QB_LAYOUT_NHWC: return channels == 1 || plane == 1;
    case QB_LAYOUT_C8: return channels % 8 == 0 && plane == 1;
    case QB_LAYOUT_C16: return channels % 16 == 0 && plane == 1;
    case QB_LAYOUT_ROW:
    case QB_LAYOUT_ANY: break;
    }
    return false;
}

static bool reads_as(const qb_desc *have, const qb_desc *want) {
    if (have->dtype != want->dtype || !qb_same_params(&have->q, &want->q)) return false;
    if (is_slice(have) || is_slice(want))
        return have->layout == want->layout && have->channel_offset == want->channel_offset &&
               have->channel_total == want->channel_total;
    return have->layout == want->layout || (is_row(have) && is_row(want));
}

int32_t qb_lower_first(const qb_lowering *b, int32_t value, bool device) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->value[value].layout; id >= 0; id = e->layouts[id].next)
        if (qb_layout_on_device(e, id) == device) return id;
    return -1;
}

int32_t qb_lower_find(const qb_lowering *b, int32_t value, const qb_desc *want, bool device) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->value[value].layout; id >= 0; id = e->layouts[id].next)
        if (qb_layout_on_device(e, id) == device && reads_as(&e->layouts[id].desc, want)) return id;
    return -1;
}

bool qb_lower_needs_copy(const qb_lowering *b, int32_t value, const qb_desc *want, qb_desc *have) {
    int32_t from = qb_lower_first(b, value, true);
    if (from < 0) from = qb_lower_first(b, value, false); /* will be moved there as it is */
    if (from < 0) from = b->value[value].source;
    if (from < 0 || qb_lower_find(b, value, want, true) >= 0) return false;
    *have = b->engine->layouts[from].desc;
    return !reads_as(have, want);
}

bool qb_lower_is_there(const qb_lowering *b, int32_t value) {
    const qb_engine *e = b->engine;
    if (!e->device) return false;
    int32_t first = b->value[value].layout;
    return first < 0 || e->buffers[e->layouts[first].buffer].kind != QB_BUFFER_ARENA;
}

/* Constants get their layout when they are first asked for. */
static int32_t constant_layout(qb_lowering *b, int32_t value, bool device) {
    const qb_value *v = &b->graph->values[value];
    qb_desc desc = qb_lower_desc(b, value, QB_LAYOUT_ROW);
    int32_t buffer = qb_lower_buffer(b, device ? QB_BUFFER_DEVICE_CONSTANT : QB_BUFFER_CONSTANT, -1,
                                     v->data, v->bytes);
    return qb_lower_layout(b, value, &desc, buffer);
}

/* The layout that others in this memory space are made from; -1 when the value is only in the
 * other. */
static int32_t origin(qb_lowering *b, int32_t value, bool device) {
    int32_t first = qb_lower_first(b, value, device);
    if (first >= 0) return first;
    if (b->graph->values[value].data) return constant_layout(b, value, device);
    return device ? b->value[value].staged : b->value[value].source;
}

qb_status qb_lower_move(qb_lowering *b, int32_t from, int32_t to) {
    qb_engine *e = b->engine;
    bool up = qb_layout_on_device(e, to);
    qb_step *step = QB_NEW(b->cx, qb_lower_step(b, up ? QB_STEP_UPLOAD : QB_STEP_DOWNLOAD, 1, 1));
    int32_t value = e->layouts[to].value >= 0 ? e->layouts[to].value : e->layouts[from].value;
    step->name = value >= 0 ? b->graph->values[value].name : "";
    step->op = step->tactic = up ? "upload" : "download";
    step->dtype = e->layouts[to].desc.dtype;
    step->in[0] = from;
    step->out[0] = to;
    step->bytes = 2.0 * (double)qb_desc_bytes(&e->layouts[to].desc);
    return QB_OK;
}

/* A layout with the same bytes in the other memory space. */
static int32_t moved(qb_lowering *b, int32_t value, int32_t from, bool device) {
    qb_engine *e = b->engine;
    qb_desc desc = e->layouts[from].desc;
    qb_buffer_kind kind = e->buffers[e->layouts[from].buffer].kind;
    bool input = kind == QB_BUFFER_INPUT;
    int32_t to = qb_lower_fresh(b, input ? -1 : value, &desc, device);
    if (to < 0 || qb_lower_move(b, from, to) != QB_OK) return -1;
    e->steps[e->n_steps - 1].name = b->graph->values[value].name;
    if (input) b->value[value].staged = to;
    if (input) e->buffers[e->layouts[to].buffer].lasting = true;
    return to;
}

static int32_t copied(qb_lowering *b, int32_t value, int32_t from, const qb_desc *want) {
    bool device = qb_layout_on_device(b->engine, from);
    int32_t to = qb_lower_fresh(b, value, want, device);
    return to < 0 || qb_lower_copy(b, from, to) != QB_OK ? -1 : to;
}

/* Can the value be uploaded into the form on the device? */
static bool converts_there(const qb_lowering *b, int32_t from, const qb_desc *want) {
    const qb_desc *have = &b->engine->layouts[from].desc;
    return reads_as(have, want) || qb_device_copies(b, have, want);
}

/* Conversions happen on the device where it can do them. */
static int32_t require_on_device(qb_lowering *b, int32_t value, int32_t from, const qb_desc *want) {
    int32_t other = from >= 0 ? from : origin(b, value, false);
    if (other < 0) return -1;
    if (!converts_there(b, other, want)) {
        int32_t here = qb_lower_require(b, value, want, false);
        return here < 0 ? -1 : moved(b, value, here, true);
    }
    if (from < 0) from = moved(b, value, other, true);
    if (from < 0 || reads_as(&b->engine->layouts[from].desc, want)) return from;
    return copied(b, value, from, want);
}

static int32_t require_on_host(qb_lowering *b, int32_t value, int32_t from, const qb_desc *want) {
    if (from >= 0) return copied(b, value, from, want);
    int32_t other = qb_lower_first(b, value, true);
    if (other < 0) return -1;
    if (!converts_there(b, other, want)) {
        from = moved(b, value, other, false);
        return from < 0 ? -1 : copied(b, value, from, want);
    }
    int32_t there = qb_lower_require(b, value, want, true);
    return there < 0 ? -1 : moved(b, value, there, false);
}

/* Would floats be read of a quantized value as the caller gives it, before it was rounded? What an
 * engine makes in f16 is not rounded at all. */
static bool skips_rounding(qb_lowering *b, int32_t value, int32_t from, const qb_desc *want) {
    if (from < 0) from = origin(b, value, false);
    return from >= 0 && want->q.n == 0 && b->graph->values[value].q.n > 0 &&
           b->engine->layouts[from].value < 0 && !b->value[value].is_f16;
}

int32_t qb_lower_require(qb_lowering *b, int32_t value, const qb_desc *want, bool device) {
    int32_t from = origin(b, value, device);
    int32_t found = qb_lower_find(b, value, want, device);
    if (found >= 0) return found;
    if (skips_rounding(b, value, from, want)) {
        const qb_desc rounded = qb_lower_desc(b, value, QB_LAYOUT_ROW);
        from = qb_lower_require(b, value, &rounded, device);
        if (from < 0) return -1;
    }
    found =
        device ? require_on_device(b, value, from, want) : require_on_host(b, value, from, want);
    if (found < 0 && b->cx->code == QB_OK)
        qb_fail(b->cx, QB_STATUS_INTERNAL, "value '%s' is read before it is written",
                b->graph->values[value].name);
    return found;
}

/* The value of a copy; one of both sides may be private to a step. */
static const char *copied_name(const qb_lowering *b, int32_t from, int32_t to) {
    const qb_value_layout *layouts = b->engine->layouts;
    const int32_t value = layouts[to].value >= 0 ? layouts[to].value : layouts[from].value;
    return value >= 0 ? b->graph->values[value].name : "";
}

static qb_status copy_kernel(qb_lowering *b, const qb_problem *problem, const char *name,
                             bool device, qb_kernel **kernel) {
    const bool constant = false;
    const qb_selection wanted = {.candidates = problem,
                                 .n_candidates = 1,
                                 .constant = &constant,
                                 .copied = name,
                                 .on_device = device};
    QB_TRY(b->selector->select(b, &wanted, kernel));
    if (*kernel) return QB_OK;
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "no tactic of the %s copies %s %s to %s %s",
                   device ? "device" : "host", qb_dtype_text(problem->in->dtype),
                   qb_layout_text(problem->in->layout), qb_dtype_text(problem->out.dtype),
                   qb_layout_text(problem->out.layout));
}

qb_status qb_lower_copy(qb_lowering *b, int32_t from, int32_t to) {
    const qb_value_layout *layouts = b->engine->layouts;
    qb_desc in = layouts[from].desc;
    qb_problem problem = {.kind = QB_KIND_COPY, .n_in = 1, .in = &in, .out = layouts[to].desc};
    const char *name = copied_name(b, from, to);
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(copy_kernel(b, &problem, name, qb_layout_on_device(b->engine, to), &kernel));
    qb_step *step = QB_NEW(b->cx, qb_lower_step(b, QB_STEP_KERNEL, 1, 1));
    int32_t value = b->engine->layouts[to].value;
    step->on_device = kernel->tactic->device_memory;
    step->workspace_bytes = kernel->workspace_bytes;
    step->name = value >= 0 ? b->graph->values[value].name : "";
    step->op = in.q.n == 0 && problem.out.q.n > 0   ? "quantize"
               : in.q.n > 0 && problem.out.q.n == 0 ? "dequantize"
                                                    : "reorder";
    step->tactic = kernel->tactic->name;
    step->kernel = QB_MOVE(kernel);
    step->dtype = problem.out.dtype;
    step->in[0] = from;
    step->out[0] = to;
    step->bytes = (double)(qb_desc_bytes(&in) + qb_desc_bytes(&problem.out));
    return b->selector->record(b, name, true, step);
}

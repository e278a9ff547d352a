/* Images: the forms in which values lie in memory while an engine is built, and the copy steps that
 * make one from another. */
#include <string.h>

#include "device_internal.h"

int32_t qb_build_buffer(qb_builder *b, qb_buffer_kind kind, int32_t index, const void *data,
                        size_t bytes) {
    qb_engine *e = b->engine;
    if (bytes == SIZE_MAX) {
        qb_fail(b->cx, QB_STATUS_NOMEM, "a tensor is larger than the address space");
        return -1;
    }
    if (qb_grow(b->cx, &e->buffers, &b->cap_buffers, (size_t)e->n_buffers + 1,
                sizeof *e->buffers) != QB_OK)
        return -1;
    e->buffers[e->n_buffers] = (qb_buffer){
        .kind = kind, .index = index, .data = data, .bytes = bytes, .first = INT32_MAX, .last = -1};
    return e->n_buffers++;
}

int32_t qb_build_image(qb_builder *b, int32_t value, const qb_desc *desc, int32_t buffer) {
    qb_engine *e = b->engine;
    if (buffer < 0 || qb_grow(b->cx, &e->images, &b->cap_images, (size_t)e->n_images + 1,
                              sizeof *e->images) != QB_OK)
        return -1;
    int32_t id = e->n_images++;
    e->images[id] = (qb_image){.value = value, .next = -1, .buffer = buffer, .desc = *desc};
    if (value < 0) return id;
    int32_t *link =
        &b->image_of[value]; /* appended: the first image is the one that was computed */
    while (*link >= 0) link = &e->images[*link].next;
    *link = id;
    return id;
}

int32_t qb_build_fresh(qb_builder *b, int32_t value, const qb_desc *desc, bool device) {
    int32_t buffer = qb_build_buffer(b, device ? QB_BUFFER_DEVICE : QB_BUFFER_ARENA, -1, NULL,
                                     qb_desc_bytes(desc));
    return qb_build_image(b, value, desc, buffer);
}

bool qb_image_on_device(const qb_engine *engine, int32_t image) {
    qb_buffer_kind kind = engine->buffers[engine->images[image].buffer].kind;
    return kind == QB_BUFFER_DEVICE || kind == QB_BUFFER_DEVICE_CONSTANT;
}

qb_desc qb_build_desc(const qb_builder *b, int32_t value, qb_layout layout) {
    const qb_value *v = &b->graph->values[value];
    return (qb_desc){.dtype = v->dtype, .layout = layout, .shape = v->shape, .q = v->q};
}

static bool is_slice(const qb_desc *desc) {
    return desc->channel_total > 0 &&
           (desc->shape.rank < 2 || desc->channel_total != desc->shape.dim[1]);
}

bool qb_layout_is_row(const qb_desc *desc) {
    if (desc->layout == QB_LAYOUT_ROW) return true;
    if (is_slice(desc) || desc->shape.rank < 2) return false;
    int64_t channels = desc->shape.dim[1], plane = 1;
    for (int32_t d = 2; d < desc->shape.rank; d++) plane *= desc->shape.dim[d];
    switch (desc->layout) {
    case QB_LAYOUT_NHWC: return channels == 1 || plane == 1;
    case QB_LAYOUT_C8: return channels % 8 == 0 && plane == 1;
    case QB_LAYOUT_C16: return channels % 16 == 0 && plane == 1;
    case QB_LAYOUT_ROW:
    case QB_LAYOUT_ANY: break;
    }
    return false;
}

bool qb_same_params(const qb_qparams *a, const qb_qparams *b) {
    if (a->n != b->n) return false;
    if (a->n == 0) return true;
    if (a->dtype != b->dtype || (a->n > 1 && a->axis != b->axis)) return false;
    for (int32_t i = 0; i < a->n; i++)
        if (a->scale[i] != b->scale[i] || (a->zero ? a->zero[i] : 0) != (b->zero ? b->zero[i] : 0))
            return false;
    return true;
}

static bool reads_as(const qb_desc *have, const qb_desc *want) {
    if (have->dtype != want->dtype || !qb_same_params(&have->q, &want->q)) return false;
    if (is_slice(have) || is_slice(want))
        return have->layout == want->layout && have->channel_offset == want->channel_offset &&
               have->channel_total == want->channel_total;
    return have->layout == want->layout || (qb_layout_is_row(have) && qb_layout_is_row(want));
}

int32_t qb_build_first(const qb_builder *b, int32_t value, bool device) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->image_of[value]; id >= 0; id = e->images[id].next)
        if (qb_image_on_device(e, id) == device) return id;
    return -1;
}

int32_t qb_build_find(const qb_builder *b, int32_t value, const qb_desc *want, bool device) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->image_of[value]; id >= 0; id = e->images[id].next)
        if (qb_image_on_device(e, id) == device && reads_as(&e->images[id].desc, want)) return id;
    return -1;
}

bool qb_build_needs_copy(const qb_builder *b, int32_t value, const qb_desc *want, qb_desc *have) {
    int32_t from = qb_build_first(b, value, true);
    if (from < 0) from = qb_build_first(b, value, false); /* will be moved there as it is */
    if (from < 0) from = b->source_of[value];
    if (from < 0 || qb_build_find(b, value, want, true) >= 0) return false;
    *have = b->engine->images[from].desc;
    return !reads_as(have, want);
}

bool qb_build_is_there(const qb_builder *b, int32_t value) {
    const qb_engine *e = b->engine;
    if (!e->device) return false;
    int32_t first = b->image_of[value];
    return first < 0 || e->buffers[e->images[first].buffer].kind != QB_BUFFER_ARENA;
}

/* Constants get their image when they are first asked for. */
static int32_t constant_image(qb_builder *b, int32_t value, bool device) {
    const qb_value *v = &b->graph->values[value];
    qb_desc desc = qb_build_desc(b, value, QB_LAYOUT_ROW);
    int32_t buffer = qb_build_buffer(b, device ? QB_BUFFER_DEVICE_CONSTANT : QB_BUFFER_CONSTANT, -1,
                                     v->data, v->bytes);
    return qb_build_image(b, value, &desc, buffer);
}

/* The form that others at this place are made from; -1 when the value is only at the other one. */
static int32_t origin(qb_builder *b, int32_t value, bool device) {
    int32_t first = qb_build_first(b, value, device);
    if (first >= 0) return first;
    if (b->graph->values[value].data) return constant_image(b, value, device);
    return device ? b->staged_of[value] : b->source_of[value];
}

qb_status qb_build_move(qb_builder *b, int32_t from, int32_t to) {
    qb_engine *e = b->engine;
    bool up = qb_image_on_device(e, to);
    qb_step *step = qb_build_step(b, up ? QB_STEP_UPLOAD : QB_STEP_DOWNLOAD, 1, 1);
    if (!step) return b->cx->code;
    int32_t value = e->images[to].value >= 0 ? e->images[to].value : e->images[from].value;
    step->name = value >= 0 ? b->graph->values[value].name : "";
    step->op = step->tactic = up ? "upload" : "download";
    step->dtype = e->images[to].desc.dtype;
    step->in[0] = from;
    step->out[0] = to;
    step->bytes = 2.0 * (double)qb_desc_bytes(&e->images[to].desc);
    return QB_OK;
}

/* An image with the same bytes at the other place. */
static int32_t moved(qb_builder *b, int32_t value, int32_t from, bool device) {
    qb_engine *e = b->engine;
    qb_desc desc = e->images[from].desc;
    qb_buffer_kind kind = e->buffers[e->images[from].buffer].kind;
    bool input = kind == QB_BUFFER_INPUT;
    int32_t to = qb_build_fresh(b, input ? -1 : value, &desc, device);
    if (to < 0 || qb_build_move(b, from, to) != QB_OK) return -1;
    e->steps[e->n_steps - 1].name = b->graph->values[value].name;
    if (input) b->staged_of[value] = to;
    if (input) e->buffers[e->images[to].buffer].lasting = true;
    return to;
}

static int32_t copied(qb_builder *b, int32_t value, int32_t from, const qb_desc *want) {
    bool device = qb_image_on_device(b->engine, from);
    int32_t to = qb_build_fresh(b, value, want, device);
    return to < 0 || qb_build_copy(b, from, to) != QB_OK ? -1 : to;
}

/* Can the value be brought into the form on the device? */
static bool converts_there(const qb_builder *b, int32_t from, const qb_desc *want) {
    const qb_desc *have = &b->engine->images[from].desc;
    return reads_as(have, want) || qb_device_copies(b, have, want);
}

/* Conversions take place on the device where it can do them. */
static int32_t require_on_device(qb_builder *b, int32_t value, int32_t from, const qb_desc *want) {
    int32_t other = from >= 0 ? from : origin(b, value, false);
    if (other < 0) return -1;
    if (!converts_there(b, other, want)) {
        int32_t here = qb_build_require(b, value, want, false);
        return here < 0 ? -1 : moved(b, value, here, true);
    }
    if (from < 0) from = moved(b, value, other, true);
    if (from < 0 || reads_as(&b->engine->images[from].desc, want)) return from;
    return copied(b, value, from, want);
}

static int32_t require_on_host(qb_builder *b, int32_t value, int32_t from, const qb_desc *want) {
    if (from >= 0) return copied(b, value, from, want);
    int32_t other = qb_build_first(b, value, true);
    if (other < 0) return -1;
    if (!converts_there(b, other, want)) {
        from = moved(b, value, other, false);
        return from < 0 ? -1 : copied(b, value, from, want);
    }
    int32_t there = qb_build_require(b, value, want, true);
    return there < 0 ? -1 : moved(b, value, there, false);
}

int32_t qb_build_require(qb_builder *b, int32_t value, const qb_desc *want, bool device) {
    int32_t from = origin(b, value, device);
    int32_t found = qb_build_find(b, value, want, device);
    if (found >= 0) return found;
    found =
        device ? require_on_device(b, value, from, want) : require_on_host(b, value, from, want);
    if (found < 0 && b->cx->code == QB_OK)
        qb_fail(b->cx, QB_STATUS_INTERNAL, "value '%s' is read before it is written",
                b->graph->values[value].name);
    return found;
}

static qb_status copy_kernel(qb_builder *b, const qb_problem *problem, bool device,
                             qb_kernel **kernel, qb_choice *choice) {
    bool constant = false;
    if (!device) return qb_build_kernel(b, problem, 1, &constant, kernel);
    QB_TRY(qb_device_decide(b, problem, 1, &constant, NULL, kernel, choice));
    if (*kernel) return QB_OK;
    return qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "no tactic of the device copies %s %s to %s %s",
                   qb_dtype_text(problem->in->dtype), qb_layout_text(problem->in->layout),
                   qb_dtype_text(problem->out.dtype), qb_layout_text(problem->out.layout));
}

qb_status qb_build_copy(qb_builder *b, int32_t from, int32_t to) {
    const qb_image *images = b->engine->images;
    qb_desc in = images[from].desc;
    qb_problem problem = {.kind = QB_KIND_COPY, .n_in = 1, .in = &in, .out = images[to].desc};
    qb_kernel *kernel;
    qb_choice choice = {0};
    QB_TRY(copy_kernel(b, &problem, qb_image_on_device(b->engine, to), &kernel, &choice));
    qb_step *step = qb_build_step(b, QB_STEP_KERNEL, 1, 1);
    if (!step) {
        qb_kernel_free(kernel);
        return b->cx->code;
    }
    int32_t value = b->engine->images[to].value;
    step->kernel = kernel;
    step->on_device = kernel->tactic->device_memory;
    step->workspace_bytes = kernel->workspace_bytes;
    step->choice = choice;
    step->name = value >= 0 ? b->graph->values[value].name : "";
    step->op = in.q.n == 0 && problem.out.q.n > 0   ? "quantize"
               : in.q.n > 0 && problem.out.q.n == 0 ? "dequantize"
                                                    : "reorder";
    step->tactic = kernel->tactic->name;
    step->dtype = problem.out.dtype;
    step->in[0] = from;
    step->out[0] = to;
    step->bytes = (double)(qb_desc_bytes(&in) + qb_desc_bytes(&problem.out));
    return QB_OK;
}

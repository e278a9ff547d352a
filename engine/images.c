/* Images: the forms in which values lie in memory while an engine is built, and the copy steps that
 * make one from another. */
#include <string.h>

#include "engine_internal.h"

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

int32_t qb_build_fresh(qb_builder *b, int32_t value, const qb_desc *desc) {
    int32_t buffer = qb_build_buffer(b, QB_BUFFER_ARENA, -1, NULL, qb_desc_bytes(desc));
    return qb_build_image(b, value, desc, buffer);
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

int32_t qb_build_find(const qb_builder *b, int32_t value, const qb_desc *want) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->image_of[value]; id >= 0; id = e->images[id].next)
        if (reads_as(&e->images[id].desc, want)) return id;
    return -1;
}

/* Constants get their image when they are first asked for. */
static int32_t first_image(qb_builder *b, int32_t value) {
    if (b->image_of[value] >= 0) return b->image_of[value];
    const qb_value *v = &b->graph->values[value];
    if (!v->data) return b->source_of[value];
    int32_t buffer = qb_build_buffer(b, QB_BUFFER_CONSTANT, -1, v->data, v->bytes);
    qb_desc desc = qb_build_desc(b, value, QB_LAYOUT_ROW);
    return qb_build_image(b, value, &desc, buffer);
}

int32_t qb_build_require(qb_builder *b, int32_t value, const qb_desc *want) {
    int32_t from = first_image(b, value);
    int32_t found = qb_build_find(b, value, want);
    if (found >= 0) return found;
    if (from < 0) {
        if (b->cx->code == QB_OK)
            qb_fail(b->cx, QB_STATUS_INTERNAL, "value '%s' is read before it is written",
                    b->graph->values[value].name);
        return -1;
    }
    int32_t to = qb_build_fresh(b, value, want);
    if (to < 0 || qb_build_copy(b, from, to) != QB_OK) return -1;
    return to;
}

qb_status qb_build_copy(qb_builder *b, int32_t from, int32_t to) {
    const qb_image *images = b->engine->images;
    qb_desc in = images[from].desc;
    qb_problem problem = {.kind = QB_KIND_COPY, .n_in = 1, .in = &in, .out = images[to].desc};
    bool constant = false;
    qb_kernel *kernel;
    QB_TRY(qb_build_kernel(b, &problem, 1, &constant, &kernel));
    qb_step *step = qb_build_step(b, QB_STEP_KERNEL, 1, 1);
    if (!step) {
        qb_kernel_free(kernel);
        return b->cx->code;
    }
    int32_t value = b->engine->images[to].value;
    step->kernel = kernel;
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

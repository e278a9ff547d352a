/* Concat along the channels: producers write their slice of the output where that is legal, the
 * other inputs are copied into theirs. */
#include <string.h>

#include "device_internal.h"

/* The group that computes each value; -1 for inputs and constants. */
static qb_status producers(qb_builder *b, int32_t **out) {
    int32_t *producer = qb_alloc(b->cx, (size_t)b->graph->n_values, sizeof *producer);
    if (!producer) return b->cx->code;
    for (int32_t v = 0; v < b->graph->n_values; v++) producer[v] = -1;
    for (int32_t g = 0; g < b->groups.n; g++) producer[b->groups.group[g].out] = g;
    *out = producer;
    return QB_OK;
}

static bool is_channel_concat(const qb_builder *b, const qb_group *group) {
    if (group->kind != QB_KIND_CONCAT) return false;
    const qb_node *node = &b->graph->nodes[group->node[0]];
    const qb_shape *shape = &b->graph->values[group->out].shape;
    int64_t axis = ((const qb_axis_attrs *)node->attrs)->axis;
    if (axis < 0) axis += shape->rank;
    return axis == 1 && shape->rank >= 3 && shape->rank <= 5;
}

/* Values that come from sliding windows lie channels last; what is only a table of numbers does not
 * want that layout. */
static bool wants_slice(const qb_builder *b, const qb_group *producer) {
    switch (producer->kind) {
    case QB_KIND_CONV:
    case QB_KIND_CONV_TRANSPOSE:
    case QB_KIND_POOL: return true;
    case QB_KIND_CONCAT: return is_channel_concat(b, producer);
    case QB_KIND_NODE: /* as a detector's necks have them; hosts' kernels write no slices of it */
        return b->engine->device &&
               strcmp(b->graph->nodes[producer->node[0]].op->name, "Resize") == 0;
    default: return false;
    }
}

static bool fits(const qb_builder *b, const qb_group *concat, int32_t input) {
    int32_t v = concat->in[input];
    const qb_value *part = &b->graph->values[v], *whole = &b->graph->values[concat->out];
    if (b->slice_of[v] >= 0 || part->dtype != whole->dtype || !qb_same_params(&part->q, &whole->q))
        return false;
    for (int32_t i = 0; i < concat->n_in; i++)
        if (i != input && concat->in[i] == v) return false;
    return true;
}

qb_status qb_build_slices(qb_builder *b) {
    int32_t *producer = NULL;
    QB_TRY(producers(b, &producer));
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *concat = &b->groups.group[g];
        if (!is_channel_concat(b, concat)) continue;
        int64_t offset = 0;
        for (int32_t i = 0; i < concat->n_in; i++) {
            int32_t v = concat->in[i], from = producer[v];
            if (from >= 0 && wants_slice(b, &b->groups.group[from]) && fits(b, concat, i)) {
                b->slice_of[v] = concat->out;
                b->slice_offset[v] = offset;
            }
            offset += b->graph->values[v].shape.dim[1];
        }
    }
    qb_free(producer);
    return QB_OK;
}

qb_status qb_build_slice_desc(qb_builder *b, int32_t value, qb_desc *out) {
    int32_t whole = qb_build_whole(b, b->slice_of[value]);
    if (whole < 0) return b->cx->code;
    const qb_desc *large = &b->engine->images[whole].desc;
    *out = qb_build_desc(b, value, large->layout);
    out->dtype = large->dtype;
    out->q = large->q;
    out->channel_offset = large->channel_offset + b->slice_offset[value];
    out->channel_total = large->channel_total > 0 ? large->channel_total : large->shape.dim[1];
    return QB_OK;
}

int32_t qb_build_whole(qb_builder *b, int32_t value) {
    if (b->image_of[value] >= 0) return b->image_of[value];
    bool device = b->engine->device != NULL;
    qb_desc desc =
        device ? qb_device_value(b, value, b->spatial) : qb_build_desc(b, value, b->spatial);
    if (!device) desc.dtype = qb_bf16_type(b, value);
    if (b->slice_of[value] < 0) return qb_build_fresh(b, value, &desc, device);
    if (qb_build_slice_desc(b, value, &desc) != QB_OK) return -1;
    int32_t larger = qb_build_whole(b, b->slice_of[value]);
    return qb_build_image(b, value, &desc, b->engine->images[larger].buffer);
}

/* Does the value lie in its slice already? */
static bool is_in_place(const qb_builder *b, int32_t value, int32_t whole) {
    if (b->slice_of[value] < 0 || b->image_of[value] < 0) return false;
    const qb_image *images = b->engine->images;
    return images[b->image_of[value]].buffer == images[whole].buffer;
}

static qb_status copy_part(qb_builder *b, int32_t value, int32_t whole, int64_t offset) {
    const qb_desc *large = &b->engine->images[whole].desc;
    int64_t total = large->channel_total > 0 ? large->channel_total : large->shape.dim[1];
    qb_desc slice = *large;
    slice.shape = b->graph->values[value].shape;
    slice.channel_offset = large->channel_offset + offset;
    slice.channel_total = total;
    bool device = qb_image_on_device(b->engine, whole);
    qb_desc plain =
        device ? qb_device_value(b, value, large->layout) : qb_build_desc(b, value, large->layout);
    int32_t from = qb_build_first(b, value, device);
    if (from < 0) from = qb_build_require(b, value, &plain, device);
    if (from < 0) return b->cx->code;
    int32_t part = qb_build_image(b, -1, &slice, b->engine->images[whole].buffer);
    if (part < 0) return b->cx->code;
    return qb_build_copy(b, from, part);
}

static bool any_sliced(const qb_builder *b, const qb_group *group) {
    for (int32_t i = 0; i < group->n_in; i++)
        if (b->slice_of[group->in[i]] == group->out) return true;
    return false;
}

/* Nobody writes in place: one kernel gathers the inputs. */
static qb_status concat_kernel(qb_builder *b, const qb_group *group, const qb_problem *problem) {
    bool constant[QB_MAX_INPUTS] = {false};
    qb_kernel *kernel;
    b->slice_of[group->out] = -1;
    b->image_of[group->out] = -1; /* what was made ready for parts, and none came */
    if (b->engine->device) {
        bool done;
        QB_TRY(qb_device_step(b, group, problem, &done));
        if (done) return QB_OK;
    }
    QB_TRY(qb_build_kernel(b, problem, 1, constant, &kernel));
    qb_status status = qb_build_add_kernel(b, group, &kernel);
    qb_kernel_free(kernel);
    return status;
}

qb_status qb_build_concat(qb_builder *b, const qb_group *group, const qb_problem *problem) {
    if (!any_sliced(b, group)) return concat_kernel(b, group, problem);
    int32_t whole = qb_build_whole(b, group->out);
    if (whole < 0) return b->cx->code;
    int64_t offset = 0;
    for (int32_t i = 0; i < group->n_in; i++) {
        int32_t v = group->in[i];
        if (!is_in_place(b, v, whole)) QB_TRY(copy_part(b, v, whole, offset));
        offset += b->graph->values[v].shape.dim[1];
    }
    return qb_build_add_alias(b, group, whole, whole);
}

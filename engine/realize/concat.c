/* Concat along the channels: producers write their slice of the output where that is legal, the
 * other inputs are copied into theirs. */

#include "engine/realize/lowering_internal.h"

/* Does the value lie in its slice already? Where a part of the whole is a Concat, too, it may lie
 * elsewhere in the same memory. */
static bool is_in_place(const qb_lowering *b, int32_t value, int32_t whole, int64_t offset) {
    if (b->value[value].slice_of < 0 || b->value[value].layout < 0) return false;
    const qb_value_layout *part = &b->engine->layouts[b->value[value].layout];
    const qb_value_layout *all = &b->engine->layouts[whole];
    return part->buffer == all->buffer &&
           part->desc.channel_offset == all->desc.channel_offset + offset;
}

static qb_status copy_part(qb_lowering *b, int32_t value, int32_t whole, int64_t offset) {
    const qb_desc *large = &b->engine->layouts[whole].desc;
    int64_t total = large->channel_total > 0 ? large->channel_total : large->shape.dim[1];
    qb_desc slice = *large;
    slice.shape = b->graph->values[value].shape;
    slice.channel_offset = large->channel_offset + offset;
    slice.channel_total = total;
    slice.padded = false;
    bool device = qb_layout_on_device(b->engine, whole);
    qb_desc plain =
        device ? qb_device_value(b, value, large->layout) : qb_lower_desc(b, value, large->layout);
    int32_t from = qb_lower_first(b, value, device);
    if (device && b->value[value].f32_reason && large->dtype == QB_DTYPE_F16) {
        plain = qb_device_desc(b, qb_lower_desc(b, value, large->layout));
        from = -1; /* it is converted before it is put there */
    }
    if (from < 0) from = qb_lower_require(b, value, &plain, device);
    if (from < 0) return b->cx->code;
    int32_t part = qb_lower_layout(b, -1, &slice, b->engine->layouts[whole].buffer);
    if (part < 0) return b->cx->code;
    return qb_lower_copy(b, from, part);
}

static bool any_sliced(const qb_lowering *b, const qb_group *group) {
    for (int32_t i = 0; i < group->n_in; i++)
        if (b->value[group->in[i]].slice_of == group->out) return true;
    return false;
}

/* Do all inputs lie pixel by pixel, and does a reader want the whole so? Then each is copied to its
 * place, where a kernel would need them by rows. */
static bool lies_by_pixels(const qb_lowering *b, const qb_group *group) {
    if (b->engine->device || b->value[group->out].only_rows || !qb_is_channel_concat(b, group))
        return false;
    for (int32_t i = 0; i < group->n_in; i++) {
        const int32_t stored = qb_lower_first(b, group->in[i], false);
        if (stored < 0 || b->engine->layouts[stored].desc.layout != QB_LAYOUT_NHWC) return false;
    }
    return true;
}

/* Nobody writes in place: one kernel gathers the inputs. */
static qb_status concat_kernel(qb_lowering *b, const qb_group *group, const qb_problem *problem) {
    bool constant[QB_MAX_INPUTS] = {false};
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    b->value[group->out].slice_of = -1;
    b->value[group->out].layout = -1; /* what was made ready for parts, and none came */
    if (b->engine->device) {
        bool done;
        QB_TRY(qb_device_step(b, group, problem, &done));
        if (done) return QB_OK;
    }
    const qb_selection wanted = {.candidates = problem, .n_candidates = 1, .constant = constant};
    QB_TRY(b->selector->select(b, &wanted, &kernel));
    return qb_lower_add_kernel(b, group, &kernel);
}

qb_status qb_lower_concat(qb_lowering *b, const qb_group *group, const qb_problem *problem) {
    if (!any_sliced(b, group) && !lies_by_pixels(b, group)) return concat_kernel(b, group, problem);
    int32_t whole = qb_lower_whole(b, group->out);
    if (whole < 0) return b->cx->code;
    int64_t offset = 0;
    for (int32_t i = 0; i < group->n_in; i++) {
        int32_t v = group->in[i];
        if (!is_in_place(b, v, whole, offset)) QB_TRY(copy_part(b, v, whole, offset));
        offset += b->graph->values[v].shape.dim[1];
    }
    return qb_lower_add_alias(b, group, whole, whole);
}

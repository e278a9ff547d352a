/* Values that are written straight into the output of a Concat along the channels. */
#include <string.h>

#include "engine/realize/lowering_internal.h"

/* The group that computes each value; -1 for inputs and constants. */
static qb_status producers(qb_lowering *b, int32_t **out) {
    int32_t *producer = qb_alloc(b->cx, (size_t)b->graph->n_values, sizeof *producer);
    if (!producer) return b->cx->code;
    for (int32_t v = 0; v < b->graph->n_values; v++) producer[v] = -1;
    for (int32_t g = 0; g < b->groups.n; g++) producer[b->groups.group[g].out] = g;
    *out = producer;
    return QB_OK;
}

bool qb_is_channel_concat(const qb_lowering *b, const qb_group *group) {
    if (group->kind != QB_KIND_CONCAT) return false;
    const qb_node *node = &b->graph->nodes[group->node[0]];
    const qb_shape *shape = &b->graph->values[group->out].shape;
    int64_t axis = ((const qb_axis_attrs *)node->attrs)->axis;
    if (axis < 0) axis += shape->rank;
    return axis == 1 && shape->rank >= 3 && shape->rank <= 5;
}

/* Values that come from sliding windows lie channels last; what is only a table of numbers does not
 * want that layout. */
static bool wants_slice(const qb_lowering *b, const qb_group *producer) {
    switch (producer->kind) {
    case QB_KIND_CONV:
    case QB_KIND_CONV_TRANSPOSE:
    case QB_KIND_POOL: return true;
    case QB_KIND_CONCAT: return qb_is_channel_concat(b, producer);
    case QB_KIND_NODE: /* as a detector's necks have them; hosts' kernels write no slices of it */
        return b->engine->device &&
               strcmp(b->graph->nodes[producer->node[0]].op->name, "Resize") == 0;
    default: return false;
    }
}

static bool fits(const qb_lowering *b, const qb_group *concat, int32_t input) {
    int32_t v = concat->in[input];
    const qb_value *part = &b->graph->values[v], *whole = &b->graph->values[concat->out];
    if (b->value[v].slice_of >= 0 || part->dtype != whole->dtype ||
        !qb_same_params(&part->q, &whole->q) ||
        !b->value[v].f32_reason != !b->value[concat->out].f32_reason)
        return false;
    for (int32_t i = 0; i < concat->n_in; i++)
        if (i != input && concat->in[i] == v) return false;
    return true;
}

qb_status qb_lower_slices(qb_lowering *b) {
    int32_t *producer = NULL;
    QB_TRY(producers(b, &producer));
    for (int32_t g = 0; g < b->groups.n; g++) {
        const qb_group *concat = &b->groups.group[g];
        if (!qb_is_channel_concat(b, concat)) continue;
        int64_t offset = 0;
        for (int32_t i = 0; i < concat->n_in; i++) {
            int32_t v = concat->in[i], from = producer[v];
            if (from >= 0 && wants_slice(b, &b->groups.group[from]) && fits(b, concat, i)) {
                b->value[v].slice_of = concat->out;
                b->value[v].slice_offset = offset;
            }
            offset += b->graph->values[v].shape.dim[1];
        }
    }
    qb_free(producer);
    return QB_OK;
}

qb_status qb_lower_slice_desc(qb_lowering *b, int32_t value, qb_desc *out) {
    int32_t whole = qb_lower_whole(b, b->value[value].slice_of);
    if (whole < 0) return b->cx->code;
    const qb_desc *large = &b->engine->layouts[whole].desc;
    *out = qb_lower_desc(b, value, large->layout);
    out->dtype = large->dtype;
    out->q = large->q;
    out->channel_offset = large->channel_offset + b->value[value].slice_offset;
    out->channel_total = large->channel_total > 0 ? large->channel_total : large->shape.dim[1];
    return QB_OK;
}

int32_t qb_lower_whole(qb_lowering *b, int32_t value) {
    if (b->value[value].layout >= 0) return b->value[value].layout;
    bool device = b->engine->device != NULL;
    qb_desc desc =
        device ? qb_device_value(b, value, b->spatial) : qb_lower_desc(b, value, b->spatial);
    if (!device) desc.dtype = qb_bf16_type(b, value);
    if (b->value[value].slice_of < 0) {
        if (device) desc.channel_total = qb_lower_padded_channels(b, value, &desc);
        return qb_lower_fresh(b, value, &desc, device);
    }
    if (qb_lower_slice_desc(b, value, &desc) != QB_OK) return -1;
    int32_t larger = qb_lower_whole(b, b->value[value].slice_of);
    return qb_lower_layout(b, value, &desc, b->engine->layouts[larger].buffer);
}

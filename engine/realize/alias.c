/* Nodes that move nothing: their result is the data's memory, seen with other dimensions. */
#include "engine/realize/lowering_internal.h"
#include "kernels/strided.h"

/* The memory as the node's result. */
static qb_status add_part(qb_lowering *b, const qb_group *group, int32_t from,
                          const qb_desc *desc) {
    const int32_t to = qb_lower_layout(b, group->out, desc, b->engine->layouts[from].buffer);
    return to < 0 ? b->cx->code : qb_lower_add_alias(b, group, from, to);
}

/* The same elements, in the layout's type, as the node's result. */
static qb_status add_view(qb_lowering *b, const qb_group *group, int32_t from, qb_layout layout) {
    qb_desc desc = b->engine->layouts[from].desc;
    desc.shape = b->graph->values[group->out].shape;
    desc.layout = layout;
    return add_part(b, group, from, &desc);
}

static qb_status alias_rows(qb_lowering *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    bool device = qb_lower_is_there(b, node->in[0]);
    qb_desc in = qb_lower_desc(b, node->in[0], QB_LAYOUT_ROW);
    if (device && !b->value[group->out].f32_reason) in = qb_device_float(b, node->in[0], in);
    if (qb_bf16_is(b, node->in[0])) in.dtype = QB_DTYPE_BF16;
    int32_t from = qb_lower_require(b, node->in[0], &in, device);
    return from < 0 ? b->cx->code : add_view(b, group, from, QB_LAYOUT_ROW);
}

/* Tiles of a device copy pieces of this many bytes. */
#define PIECE 16

static bool is_of_pieces(const qb_desc *part) {
    const int64_t size = (int64_t)qb_dtype_size(part->dtype);
    return part->channel_offset * size % PIECE == 0 && part->channel_total * size % PIECE == 0 &&
           part->shape.dim[1] * size % PIECE == 0;
}

/* Some channels of what lies channels last: kernels read them where they are. */
static qb_status alias_channels(qb_lowering *b, const qb_group *group, const qb_strided *moved,
                                bool *done) {
    const qb_engine *e = b->engine;
    *done = false;
    for (int32_t id = b->value[group->in[0]].layout; id >= 0; id = e->layouts[id].next) {
        qb_desc part = e->layouts[id].desc;
        part.shape = b->graph->values[group->out].shape;
        if (!qb_strided_is_channels(moved, &e->layouts[id].desc, &part)) continue;
        if (e->device && (!qb_layout_on_device(e, id) || !is_of_pieces(&part))) continue;
        *done = true;
        return add_part(b, group, id, &part);
    }
    return QB_OK;
}

/* A value in whatever layout may be what is wanted as it lies: [N, C, 14, 14] channels last is
 * [N, 14, 14, C] and [N, 196, C] in rows. */
qb_status qb_lower_alias(qb_lowering *b, const qb_group *group, bool *done) {
    static const qb_layout layouts[] = {QB_LAYOUT_ROW, QB_LAYOUT_NHWC};
    const qb_engine *e = b->engine;
    qb_strided moved;
    const bool moves = qb_group_strided(b->graph, group, &moved);
    if (moves) QB_TRY(alias_channels(b, group, &moved, done));
    if (*done) return QB_OK;
    *done = true;
    for (int32_t id = moves ? b->value[group->in[0]].layout : -1; id >= 0; id = e->layouts[id].next)
        for (int32_t i = 0; qb_layout_on_device(e, id) == (e->device != NULL) && i < 2; i++) {
            const qb_desc out = qb_lower_desc(b, group->out, layouts[i]);
            if (qb_strided_is_memory(&moved, &e->layouts[id].desc, &out))
                return add_view(b, group, id, layouts[i]);
        }
    if (qb_lower_is_alias(b, group)) return alias_rows(b, group);
    *done = false;
    return QB_OK;
}

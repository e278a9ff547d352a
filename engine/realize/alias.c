/* Nodes that move nothing: their result is the data's memory, seen with other dimensions. */
#include "engine/realize/lowering_internal.h"

/* The layout of the value on the device that lies channels last, whole; -1: none. */
static int32_t find_channels_last(const qb_lowering *b, int32_t value) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->value[value].layout; id >= 0; id = e->layouts[id].next) {
        const qb_desc *d = &e->layouts[id].desc;
        if (qb_layout_on_device(e, id) && d->layout == QB_LAYOUT_NHWC && d->channel_total == 0)
            return id;
    }
    return -1;
}

/* [N, C, 14, 14] as [N, C, 196]: both lie channels last as they are. */
static bool keeps_channels(const qb_shape *in, const qb_shape *out) {
    return in->rank >= 3 && in->rank <= 5 && out->rank >= 3 && out->rank <= 5 &&
           in->dim[0] == out->dim[0] && in->dim[1] == out->dim[1];
}

/* Does it make [N, ..., C] of [N, C, ...]? */
static bool moves_channels_last(const qb_lowering *b, const qb_node *node) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    if (!qb_node_problem(b->graph, node, in, &p) || p.kind != QB_KIND_STRIDED_COPY) return false;
    const qb_shape *x = &in[0].shape;
    const qb_strided *s = &p.strided;
    if (x->rank < 3 || x->rank > 5 || s->rank != x->rank || s->offset != 0) return false;
    int64_t step = 1; /* of the dimension d, and at last of the images */
    for (int32_t d = x->rank - 1; d > 1; d--) {
        if (s->dim[d - 1] != x->dim[d] || s->stride[d - 1] != step) return false;
        step *= x->dim[d];
    }
    return s->dim[x->rank - 1] == x->dim[1] && s->stride[x->rank - 1] == step &&
           s->dim[0] == x->dim[0] && s->stride[0] == step * x->dim[1];
}

/* The same elements, in the layout's type, as the node's result. */
static qb_status add_view(qb_lowering *b, const qb_group *group, int32_t from, qb_layout layout) {
    const qb_engine *e = b->engine;
    qb_desc desc = e->layouts[from].desc;
    desc.shape = b->graph->values[group->out].shape;
    desc.layout = layout;
    int32_t to = qb_lower_layout(b, group->out, &desc, e->layouts[from].buffer);
    return to < 0 ? b->cx->code : qb_lower_add_alias(b, group, from, to);
}

static bool same_type(const qb_lowering *b, int32_t x, int32_t y) {
    const qb_value *v = &b->graph->values[x], *w = &b->graph->values[y];
    return v->dtype == w->dtype && qb_same_params(&v->q, &w->q);
}

static qb_status alias_rows(qb_lowering *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    bool device = qb_lower_is_there(b, node->in[0]);
    qb_desc in = qb_lower_desc(b, node->in[0], QB_LAYOUT_ROW);
    if (device) in = qb_device_float(b, node->in[0], in);
    if (qb_bf16_is(b, node->in[0])) in.dtype = QB_DTYPE_BF16;
    int32_t from = qb_lower_require(b, node->in[0], &in, device);
    return from < 0 ? b->cx->code : add_view(b, group, from, QB_LAYOUT_ROW);
}

qb_status qb_lower_alias(qb_lowering *b, const qb_group *group, bool *done) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    bool transposed = node->n_in > 0 && node->in[0] >= 0 && node->out[0] >= 0;
    int32_t from = transposed && b->engine->device ? find_channels_last(b, node->in[0]) : -1;
    const qb_shape *in = transposed ? &b->graph->values[node->in[0]].shape : NULL;
    *done = true;
    if (from >= 0 && moves_channels_last(b, node) && same_type(b, node->in[0], node->out[0]))
        return add_view(b, group, from, QB_LAYOUT_ROW);
    if (qb_lower_is_alias(b, group)) {
        bool kept = from >= 0 && keeps_channels(in, &b->graph->values[node->out[0]].shape);
        return kept ? add_view(b, group, from, QB_LAYOUT_NHWC) : alias_rows(b, group);
    }
    *done = false;
    return QB_OK;
}

/* Nodes that move nothing: their result is the data's memory, seen with other dimensions. */
#include <string.h>

#include "device_internal.h"

bool qb_build_is_alias_op(const char *name) {
    static const char *const names[] = {"Reshape",   "Flatten",  "Squeeze",
                                        "Unsqueeze", "Identity", "Dropout"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

bool qb_build_is_alias(const qb_builder *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    if (group->kind != QB_KIND_NODE || !qb_build_is_alias_op(node->op->name) || node->out[0] < 0)
        return false;
    /* whether Dropout trains, an input may tell: its definition refuses to */
    if (node->n_in > 2 && node->in[2] >= 0) return false;
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return false;
    qb_desc in = qb_build_desc(b, node->in[0], QB_LAYOUT_ROW);
    qb_desc out = qb_build_desc(b, node->out[0], QB_LAYOUT_ROW);
    return in.dtype == out.dtype && qb_same_params(&in.q, &out.q) &&
           qb_desc_bytes(&in) == qb_desc_bytes(&out);
}

qb_status qb_build_add_alias(qb_builder *b, const qb_group *group, int32_t from, int32_t to) {
    qb_step *step = qb_build_step(b, QB_STEP_ALIAS, 1, 1);
    if (!step) return b->cx->code;
    step->in[0] = from;
    step->out[0] = to;
    step->tactic = "alias";
    step->dtype = b->engine->images[to].desc.dtype;
    step->observed = b->engine->n_observed;
    QB_TRY(qb_build_describe(b, group, step));
    return qb_build_observed(b, group->out);
}

/* The image of the value on the device that lies channels last, whole; -1: none. */
static int32_t find_channels_last(const qb_builder *b, int32_t value) {
    const qb_engine *e = b->engine;
    for (int32_t id = b->image_of[value]; id >= 0; id = e->images[id].next) {
        const qb_desc *d = &e->images[id].desc;
        if (qb_image_on_device(e, id) && d->layout == QB_LAYOUT_NHWC && d->channel_total == 0)
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
static bool moves_channels_last(const qb_builder *b, const qb_node *node) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    if (strcmp(node->op->name, "Transpose") != 0 || !qb_node_problem(b->graph, node, in, &p))
        return false;
    int32_t rank = in[0].shape.rank;
    if (rank < 3 || rank > 5 || p.perm[0] != 0 || p.perm[rank - 1] != 1) return false;
    for (int32_t d = 1; d < rank - 1; d++)
        if (p.perm[d] != d + 1) return false;
    return true;
}

/* The same elements, in the image's type, as the node's result. */
static qb_status add_view(qb_builder *b, const qb_group *group, int32_t from, qb_layout layout) {
    const qb_engine *e = b->engine;
    qb_desc desc = e->images[from].desc;
    desc.shape = b->graph->values[group->out].shape;
    desc.layout = layout;
    int32_t to = qb_build_image(b, group->out, &desc, e->images[from].buffer);
    return to < 0 ? b->cx->code : qb_build_add_alias(b, group, from, to);
}

static bool same_type(const qb_builder *b, int32_t x, int32_t y) {
    const qb_value *v = &b->graph->values[x], *w = &b->graph->values[y];
    return v->dtype == w->dtype && qb_same_params(&v->q, &w->q);
}

static qb_status alias_rows(qb_builder *b, const qb_group *group) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    bool device = qb_build_is_there(b, node->in[0]);
    qb_desc in = qb_build_desc(b, node->in[0], QB_LAYOUT_ROW);
    if (device) in = qb_device_float(b, node->in[0], in);
    if (qb_bf16_is(b, node->in[0])) in.dtype = QB_DTYPE_BF16;
    int32_t from = qb_build_require(b, node->in[0], &in, device);
    return from < 0 ? b->cx->code : add_view(b, group, from, QB_LAYOUT_ROW);
}

qb_status qb_build_alias(qb_builder *b, const qb_group *group, bool *done) {
    const qb_node *node = &b->graph->nodes[group->node[0]];
    bool turned = node->n_in > 0 && node->in[0] >= 0 && node->out[0] >= 0;
    int32_t from = turned && b->engine->device ? find_channels_last(b, node->in[0]) : -1;
    const qb_shape *in = turned ? &b->graph->values[node->in[0]].shape : NULL;
    *done = true;
    if (from >= 0 && moves_channels_last(b, node) && same_type(b, node->in[0], node->out[0]))
        return add_view(b, group, from, QB_LAYOUT_ROW);
    if (qb_build_is_alias(b, group)) {
        bool kept = from >= 0 && keeps_channels(in, &b->graph->values[node->out[0]].shape);
        return kept ? add_view(b, group, from, QB_LAYOUT_NHWC) : alias_rows(b, group);
    }
    *done = false;
    return QB_OK;
}

/* From a group of a graph with known shapes to the problem that kernels solve. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/rewrite_internal.h"

static qb_status desc_of(qb_ctx *cx, const qb_graph *graph, int32_t value, qb_desc *out) {
    if (value < 0) {
        *out = (qb_desc){.dtype = QB_DTYPE_NONE};
        return QB_OK;
    }
    const qb_value *v = &graph->values[value];
    char text[128];
    if (!qb_shape_known(&v->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "value '%s': expected a known shape, got %s", v->name,
                       qb_shape_text(&v->shape, text, sizeof text));
    *out = (qb_desc){.dtype = v->dtype, .layout = QB_LAYOUT_ROW, .shape = v->shape, .q = v->q};
    return QB_OK;
}

/* Data or a weight of floats makes float arithmetic: the other's integers come in as the floats
 * they stand for. */
static void match_weight(qb_desc *in) {
    qb_desc *data = &in[QB_IN_DATA], *weight = &in[QB_IN_WEIGHT];
    if ((weight->q.n > 0) == (data->q.n > 0)) return;
    qb_desc *integers = weight->q.n > 0 ? weight : data;
    integers->dtype = QB_DTYPE_F32;
    integers->q = (qb_qparams){.axis = -1};
}

/* A bias is a vector to the kernels, whatever ones the graph has in front of it. */
static void flatten_bias(qb_desc *bias) {
    if (bias->dtype == QB_DTYPE_NONE) return;
    bias->shape = (qb_shape){.rank = 1, .dim = {qb_shape_count(&bias->shape)}};
    if (bias->q.n > 1) bias->q.axis = 0;
}

/* A constant matrix is one of two dimensions to the kernels, whatever ones the graph has in front.
 */
static void flatten_matrix(qb_desc *weight, int32_t data_rank) {
    qb_shape *s = &weight->shape;
    while (s->rank > 2 && s->rank <= data_rank && s->dim[0] == 1) {
        memmove(s->dim, s->dim + 1, (size_t)(s->rank - 1) * sizeof *s->dim);
        s->rank--;
        if (weight->q.axis > 0) weight->q.axis--;
    }
}

static int32_t axis_of(const qb_node *node, int32_t rank, int64_t fallback) {
    int64_t axis = qb_node_int(node, "axis", fallback);
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

static qb_status fill_pool(qb_ctx *cx, const qb_node *node, qb_problem *p) {
    const qb_shape *x = &p->in[0].shape;
    const bool pools = node->op->kernel.kind == QB_KIND_POOL; /* else a mean over all pixels */
    p->pool = pools ? node->op->kernel.pool : QB_POOL_AVG;
    if (qb_node_int(node, "count_include_pad", 0)) p->pool = QB_POOL_AVG_INCLUDE_PAD;
    if (pools) return qb_op_window(cx, node, x, NULL, &p->window);
    p->window = (qb_window){.n = x->rank - 2};
    for (int32_t d = 0; d < p->window.n; d++) {
        p->window.kernel[d] = x->dim[2 + d];
        p->window.stride[d] = p->window.dilation[d] = 1;
    }
    return QB_OK;
}

static qb_status fill(qb_ctx *cx, const qb_node *node, qb_desc *in, qb_problem *p) {
    switch (p->kind) {
    case QB_KIND_CONV:
    case QB_KIND_CONV_POOL:
    case QB_KIND_CONV_TRANSPOSE:
        p->group = qb_node_int(node, "group", 1);
        match_weight(in);
        flatten_bias(&in[QB_IN_BIAS]);
        return qb_op_window(cx, node, &in[QB_IN_DATA].shape, &in[QB_IN_WEIGHT].shape, &p->window);
    case QB_KIND_MATMUL:
        p->transpose_a = qb_node_int(node, "transA", 0) != 0;
        p->transpose_b = qb_node_int(node, "transB", 0) != 0;
        p->scale = qb_node_float(node, "alpha", 1);
        match_weight(in);
        flatten_bias(&in[QB_IN_BIAS]);
        return QB_OK;
    case QB_KIND_POOL: return fill_pool(cx, node, p);
    case QB_KIND_BINARY: p->binary = node->op->kernel.binary; return QB_OK;
    case QB_KIND_SOFTMAX: p->axis = axis_of(node, in[0].shape.rank, -1); return QB_OK;
    case QB_KIND_CONCAT: p->axis = axis_of(node, p->out.shape.rank, 0); return QB_OK;
    case QB_KIND_UNARY:
    case QB_KIND_STRIDED_COPY:
    case QB_KIND_ATTENTION:
    case QB_KIND_CHAIN: return QB_OK;
    default: break; /* of a node alone: graph/node_problem.c */
    }
    return qb_fail(cx, QB_STATUS_INTERNAL, "a group of kind %s is no problem for kernels",
                   qb_kind_text(p->kind));
}

/* All but its tensors is as the node says. */
static qb_status fill_attention(qb_ctx *cx, const qb_graph *graph, const qb_node *node,
                                const qb_attention *views, qb_problem *p) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem plain;
    if (!qb_node_problem(graph, node, in, &plain))
        return qb_fail(cx, QB_STATUS_INTERNAL, "'%s' is no attention for kernels", node->name);
    p->group = plain.group;
    p->scale = plain.scale;
    p->has_views = true;
    p->views = *views;
    return QB_OK;
}

qb_status qb_group_problem(qb_ctx *cx, const qb_graph *graph, const qb_group *group, qb_desc *in,
                           qb_problem *problem) {
    const qb_node *anchor = &graph->nodes[group->node[0]];
    qb_problem p = {.kind = group->kind,
                    .n_in = group->n_in,
                    .in = in,
                    .group = 1,
                    .scale = 1,
                    .act = group->act,
                    .act_first = group->act_first,
                    .rounding = group->rounding,
                    .chain = group->chain,
                    .zero_nan = group->kind == QB_KIND_SOFTMAX && group->n_nodes > 1};
    if (group->strided) p.strided = *group->strided;
    if (group->views) QB_TRY(fill_attention(cx, graph, anchor, group->views, &p));
    if (group->n_in > QB_MAX_INPUTS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s '%s': expected at most %d inputs, got %d",
                       anchor->op->name, anchor->name, QB_MAX_INPUTS, group->n_in);
    for (int32_t i = 0; i < group->n_in; i++)
        QB_TRY_WRAP(cx, desc_of(cx, graph, group->in[i], &in[i]), "%s '%s'", anchor->op->name,
                    anchor->name);
    QB_TRY_WRAP(cx, desc_of(cx, graph, group->out, &p.out), "%s '%s'", anchor->op->name,
                anchor->name);
    QB_TRY_WRAP(cx, fill(cx, anchor, in, &p), "%s '%s'", anchor->op->name, anchor->name);
    p.transpose_a = p.transpose_a != group->swaps_a;
    p.transpose_b = p.transpose_b != group->swaps_b;
    if (p.kind == QB_KIND_MATMUL && graph->values[group->in[QB_IN_WEIGHT]].data)
        flatten_matrix(&in[QB_IN_WEIGHT], in[QB_IN_DATA].shape.rank);
    if (group->kind == QB_KIND_CONV_POOL) {
        const qb_node *pool = &graph->nodes[group->node[group->n_nodes - 1]];
        const qb_shape *between = &graph->values[pool->in[0]].shape;
        QB_TRY_WRAP(cx, qb_op_window(cx, pool, between, NULL, &p.after), "%s '%s'", pool->op->name,
                    pool->name);
    }
    *problem = p;
    return QB_OK;
}

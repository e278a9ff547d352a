/* Weights and biases of integer groups: s8 symmetric in [-127, 127], one scale an output channel
 * (or one a tensor) over the range that options->weights chooses; bias s32 with scale Sx * Sw[c]. A
 * bias that is not an input of the anchor itself (MatMul and Add), that Gemm's alpha does not
 * multiply, or that the target wants in float stays float. */
#include <math.h>
#include <string.h>

#include "quant/quant_internal.h"

/* Half of the s32 range: the accumulator adds at most 255 * 127 for each of its terms to the bias.
 */
#define BIAS_MAX 1073741824.0

/* A constant tensor seen as [outer, channels, inner]. */
typedef struct channels {
    int64_t outer, n, inner;
} channels;

static channels view(const qb_shape *shape, int32_t axis) {
    channels c = {1, 1, 1};
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i < axis)
            c.outer *= shape->dim[i];
        else if (i == axis)
            c.n = shape->dim[i];
        else
            c.inner *= shape->dim[i];
    }
    return c;
}

/* One weight a channel, as the pass scale-to-conv makes of a normalization: they are factors, which
 * one scale for all would not tell apart. */
static bool is_scale(const qb_group *group, const qb_shape *weight) {
    return group->kind == QB_KIND_CONV && qb_shape_count(weight) == weight->dim[0];
}

/* The output-channel axis of a group's weight; -1 where one scale must do for the whole tensor. */
static int32_t weight_axis(const qb_quant_state *s, const qb_group *group) {
    const qb_node *node = &s->graph->nodes[group->node[0]];
    const qb_shape *shape = &s->graph->values[group->in[QB_IN_WEIGHT]].shape;
    if (s->options->per_tensor_weights && !is_scale(group, shape)) return -1;
    if (qb_attr_int(node, "transB", 0)) return 0;
    if (group->kind == QB_KIND_MATMUL && shape->rank != 2) return -1;
    /* Grouped transposed convolutions share weight columns among output channels. */
    if (group->kind == QB_KIND_CONV_TRANSPOSE && ((const qb_conv_attrs *)node->attrs)->group != 1)
        return -1;
    return node->op->weight_axis < 0 ? shape->rank + node->op->weight_axis : node->op->weight_axis;
}

/* The largest magnitude that each channel keeps (n == 1: one for all). */
static qb_status channel_bounds(qb_ctx *cx, const float *w, channels c,
                                const qb_weight_range *range, float *bound) {
    const size_t row = (size_t)c.inner * sizeof *w;
    QB_FREED float *own = QB_NEW(cx, qb_alloc(cx, (size_t)(c.outer * c.inner), sizeof *own));
    for (int64_t k = 0; k < c.n; k++) {
        for (int64_t o = 0; o < c.outer; o++)
            memcpy(own + o * c.inner, w + (o * c.n + k) * c.inner, row);
        bound[k] = range->bound(own, c.outer * c.inner);
    }
    return QB_OK;
}

static void quantize_channels(const float *w, channels c, const float *scale, int8_t *q) {
    for (int64_t o = 0; o < c.outer; o++)
        for (int64_t k = 0; k < c.n; k++)
            for (int64_t i = 0; i < c.inner; i++) {
                const int64_t at = (o * c.n + k) * c.inner + i;
                const double v = nearbyint((double)w[at] / (double)scale[k]);
                q[at] = (int8_t)fmax(-127, fmin(127, v));
            }
}

/* A constant with the name and shape of another one and new contents; its id or -1. */
static int32_t add_integers(qb_ctx *cx, qb_graph *graph, int32_t like, qb_dtype dtype,
                            const void *data, qb_qparams q) {
    const qb_value *old = &graph->values[like];
    const qb_shape shape = old->shape;
    const char *name = qb_arena_format(cx, graph->arena, "%s_quantized", old->name);
    const int32_t id = name ? qb_graph_add_constant(cx, graph, name, dtype, &shape, data) : -1;
    if (id >= 0) graph->values[id].q = q;
    return id;
}

/* The scale of a channel whose weights reach to `bound`: at least so large that the bias fits s32.
 */
static float channel_scale(float bound, float bias, float input_scale) {
    const double needed = fabs((double)bias) / (BIAS_MAX * (double)input_scale);
    const double scale = fmax((double)bound / 127, needed);
    return scale >= QB_LEAST_SCALE ? (float)scale : 1; /* no weights and no bias */
}

typedef struct work {
    qb_quant_state *s;
    const qb_group *group;
    int32_t weight, bias; /* value ids, bias -1 when absent */
    channels c;
    int32_t axis;
    float input_scale;
    float *scale; /* [c.n], in the graph's arena */
} work;

/* A weight that is not a number would silently become a code. */
static qb_status check_finite(qb_ctx *cx, const qb_value *value) {
    const float *v = value->data;
    const int64_t n = qb_shape_count(&value->shape);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return qb_fail(cx, QB_STATUS_INVALID, "'%s': element %lld is %g", value->name,
                           (long long)i, (double)v[i]);
    return QB_OK;
}

static qb_status choose_scales(qb_ctx *cx, work *w) {
    const qb_graph *graph = w->s->graph;
    const float *bias = w->bias >= 0 ? graph->values[w->bias].data : NULL;
    const int64_t n_bias = bias ? qb_shape_count(&graph->values[w->bias].shape) : 0;
    if (bias && graph->values[w->bias].dtype != QB_DTYPE_F32)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "bias '%s' is %s, expected f32",
                       graph->values[w->bias].name, qb_dtype_text(graph->values[w->bias].dtype));
    QB_TRY(check_finite(cx, &graph->values[w->weight]));
    if (bias) QB_TRY(check_finite(cx, &graph->values[w->bias]));
    w->scale = qb_arena_alloc(cx, w->s->graph->arena, (size_t)w->c.n, sizeof *w->scale);
    if (!w->scale) return cx->code;
    const qb_weight_range *range = w->s->options->weights;
    QB_TRY(channel_bounds(cx, graph->values[w->weight].data, w->c,
                          range ? range : qb_weight_ranges(NULL)[0], w->scale));
    for (int64_t k = 0; k < w->c.n; k++) {
        float largest = 0;
        for (int64_t i = 0; i < n_bias; i++)
            if (w->c.n == 1 || i == k) largest = fmaxf(largest, fabsf(bias[i]));
        w->scale[k] = channel_scale(w->scale[k], largest, w->input_scale);
    }
    return QB_OK;
}

static qb_status make_weight(qb_ctx *cx, const work *w, int32_t *out) {
    qb_graph *graph = w->s->graph;
    const qb_value *old = &graph->values[w->weight];
    const int64_t count = qb_shape_count(&old->shape);
    int8_t *q = QB_NEW(cx, qb_alloc(cx, (size_t)count, sizeof *q));
    quantize_channels(old->data, w->c, w->scale, q);
    const qb_qparams params = {
        .dtype = QB_DTYPE_S8, .axis = w->axis, .n = (int32_t)w->c.n, .scale = w->scale};
    *out = add_integers(cx, graph, w->weight, QB_DTYPE_S8, q, params);
    qb_free(q);
    return *out >= 0 ? QB_OK : cx->code;
}

static qb_status make_bias(qb_ctx *cx, const work *w, int32_t *out) {
    qb_graph *graph = w->s->graph;
    const qb_value *old = &graph->values[w->bias];
    const int64_t count = qb_shape_count(&old->shape);
    const float *value = old->data;
    float *scale = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)w->c.n, sizeof *scale));
    QB_FREED int32_t *q = QB_NEW(cx, qb_alloc(cx, (size_t)count, sizeof *q));
    for (int64_t k = 0; k < w->c.n; k++) scale[k] = w->input_scale * w->scale[k];
    for (int64_t i = 0; i < count; i++) {
        const double v = nearbyint((double)value[i] / (double)scale[w->c.n == 1 ? 0 : i]);
        q[i] = (int32_t)fmax(-BIAS_MAX, fmin(BIAS_MAX, v));
    }
    const qb_qparams params = {.dtype = QB_DTYPE_S32,
                               .axis = w->c.n == 1 ? -1 : graph->values[w->bias].shape.rank - 1,
                               .n = (int32_t)w->c.n,
                               .scale = scale};
    *out = add_integers(cx, graph, w->bias, QB_DTYPE_S32, q, params);
    return *out >= 0 ? QB_OK : cx->code;
}

/* The group's nodes read `to` instead of `from`; other users of a shared constant keep it. */
static void rewire(const work *w, int32_t from, int32_t to) {
    for (int32_t n = 0; n < w->group->n_nodes; n++) {
        qb_node *node = &w->s->graph->nodes[w->group->node[n]];
        for (int32_t i = 0; i < node->n_in; i++)
            if (node->in[i] == from) node->in[i] = to;
    }
}

/* The group's bias where it becomes integers, else -1. */
static int32_t integer_bias(const qb_quant_state *s, const qb_group *group) {
    const qb_node *anchor = &s->graph->nodes[group->node[0]];
    const int32_t bias = group->n_in > QB_IN_BIAS ? group->in[QB_IN_BIAS] : -1;
    if (s->options->target && s->options->target->float_bias) return -1;
    if (anchor->n_in <= QB_IN_BIAS || anchor->in[QB_IN_BIAS] != bias) return -1;
    const bool product = group->kind == QB_KIND_MATMUL && anchor->op->attrs; /* Gemm */
    if (product && ((const qb_gemm_attrs *)anchor->attrs)->alpha != 1) return -1;
    return bias;
}

static qb_status quantize_group(qb_ctx *cx, qb_quant_state *s, const qb_group *group) {
    const int32_t data = group->in[QB_IN_DATA];
    const qb_qparams *input = s->in_16_bits[data] ? &s->params_16[data] : &s->graph->values[data].q;
    work w = {.s = s,
              .group = group,
              .weight = group->in[QB_IN_WEIGHT],
              .bias = integer_bias(s, group),
              .axis = weight_axis(s, group),
              .input_scale = input->scale[0]};
    const qb_shape *shape = &s->graph->values[w.weight].shape;
    w.c = w.axis < 0 ? (channels){1, 1, qb_shape_count(shape)} : view(shape, w.axis);
    int32_t weight = -1, bias = -1;
    QB_TRY(choose_scales(cx, &w));
    QB_TRY(make_weight(cx, &w, &weight));
    if (w.bias >= 0) QB_TRY(make_bias(cx, &w, &bias));
    rewire(&w, w.weight, weight);
    if (w.bias >= 0) rewire(&w, w.bias, bias);
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        if (s->rule[g] != QB_QRULE_COMPUTE) continue;
        const int32_t data = group->in[QB_IN_DATA];
        if (!s->quantized[data] && !s->in_16_bits[data] &&
            !qb_quant_is_held(s, data)) { /* its input is a graph output, held in float */
            s->rule[g] = QB_QRULE_FLOAT;
            continue;
        }
        const qb_node *node = &s->graph->nodes[group->node[0]];
        QB_TRY_WRAP(cx, quantize_group(cx, s, group), "node %d %s '%s'", group->node[0],
                    node->op->name, node->name);
    }
    return QB_OK;
}

const qb_quant_step qb_quant_step_weights = {.name = "weights", .run = run};

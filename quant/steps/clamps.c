/* For targets that fuse a convolution with its quantized output only: Relu and Clip behind an
 * integer convolution or sum. Where the quantized values of the output clamp at the same bounds
 * anyway (u8 with zero point 0 is never negative), the operator goes. Where they do not (the
 * parameters are shared with a signed tensor), the convolution's own output takes the parameters of
 * the clamped one, which changes no value. */
#include <math.h>

#include "quant/quant_internal.h"

bool qb_quantized_range_implies(qb_dtype dtype, float scale, int32_t zero, float low, float high) {
    const int32_t least = dtype == QB_DTYPE_U8 ? 0 : -128;
    return qb_quantize_value(low, scale, zero, dtype) == least &&
           qb_quantize_value(high, scale, zero, dtype) == least + 255;
}

static bool is_implied(const qb_act *act, const qb_qparams *q) {
    const bool relu = act->kind == QB_ACT_RELU;
    return qb_quantized_range_implies(q->dtype, q->scale[0], q->zero ? q->zero[0] : 0,
                                      relu ? 0 : act->alpha, relu ? INFINITY : act->beta);
}

static void finalize(qb_graph *graph, const qb_group *group) {
    const int32_t last = group->node[group->n_nodes - 1];
    qb_node *clamp = &graph->nodes[last], *maker = &graph->nodes[group->node[group->n_nodes - 2]];
    qb_value *inner = &graph->values[maker->out[0]];
    const qb_value *out = &graph->values[clamp->out[0]];
    if (is_implied(&group->act, &out->q)) {
        maker->out[0] = clamp->out[0];
        qb_graph_kill_node(graph, last);
    } else if (group->kind == QB_KIND_CONV) {
        inner->dtype = out->dtype;
        inner->q = out->q;
    }
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    (void)cx;
    if (!s->options->target || !s->options->target->quantized_layers) return QB_OK;
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        const bool clamped = group->act.kind == QB_ACT_RELU || group->act.kind == QB_ACT_CLIP;
        const bool layer = (group->kind == QB_KIND_CONV && s->rule[g] == QB_QRULE_COMPUTE) ||
                           (group->kind == QB_KIND_BINARY && s->rule[g] == QB_QRULE_ELTWISE);
        if (layer && clamped && group->n_nodes > 1 && s->quantized[group->out])
            finalize(s->graph, group);
    }
    return QB_OK;
}

const qb_quant_step qb_quant_step_clamps = {.name = "clamps", .run = run};

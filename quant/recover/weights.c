#include "quant/recover/weights.h"

#include <math.h>
#include <string.h>

/* The layer of the node that writes the value of this name. */
static qb_status layer_named(qb_ctx *cx, const qb_graph *graph, const char *name, qb_layer *out,
                             bool *known) {
    const int32_t node = qb_graph_writer(graph, name);
    QB_RELEASED(qb_uses_release) qb_uses uses = {0};
    *known = false;
    if (node < 0) return QB_OK;
    QB_TRY(qb_uses_build(cx, graph, &uses));
    *known = qb_layer_of(graph, &uses, node, out);
    return QB_OK;
}

static const char *name_of(const qb_replay_layer *layer) {
    const qb_node *node = &layer->quantized->nodes[layer->group->node[0]];
    return layer->quantized->values[node->out[0]].name;
}

static int64_t channel_of(const qb_layer *l, int64_t at) {
    return at / l->group_stride * l->n_out + at / l->out_stride % l->n_out;
}

static qb_status fill(qb_ctx *cx, const qb_graph *graph, const qb_layer *reference,
                      const qb_layer *own, const qb_graph *float_graph, qb_layer_weights *w) {
    const qb_value *weight = &graph->values[graph->nodes[w->layer.node].in[1]];
    const int64_t n = qb_layer_outputs(&w->layer), count = n * w->layer.n_in * w->layer.taps;
    w->reference = reference->weight;
    QB_TRY_NEW(cx, w->dequantized = qb_alloc(cx, (size_t)count, sizeof *w->dequantized));
    QB_TRY_NEW(cx, w->q = qb_alloc(cx, (size_t)count, sizeof *w->q));
    QB_TRY_NEW(cx, w->scale = qb_alloc(cx, (size_t)n, sizeof *w->scale));
    QB_TRY_NEW(cx, w->bias = qb_alloc(cx, (size_t)n, sizeof *w->bias));
    for (int64_t o = 0; o < n; o++) w->scale[o] = weight->q.scale[weight->q.n == 1 ? 0 : o];
    memcpy(w->q, weight->data, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        w->dequantized[i] = w->scale[channel_of(&w->layer, i)] * (float)w->q[i];
    qb_layer_bias(float_graph, own, w->bias);
    return QB_OK;
}

qb_status qb_layer_weights_of(qb_ctx *cx, const qb_recover_state *state,
                              const qb_replay_layer *layer, qb_layer_weights *out, bool *known) {
    QB_RELEASED(qb_layer_weights_release) qb_layer_weights w = {0};
    qb_layer reference, own;
    bool in_reference, in_own;
    *known = false;
    QB_TRY(layer_named(cx, state->reference, name_of(layer), &reference, &in_reference));
    QB_TRY(layer_named(cx, state->graph, name_of(layer), &own, &in_own));
    QB_TRY(qb_uses_build(cx, layer->quantized, &w.uses));
    if (!in_reference || !in_own ||
        !qb_layer_of_quantized(layer->quantized, &w.uses, layer->group->node[0], &w.layer))
        return QB_OK;
    QB_TRY(fill(cx, layer->quantized, &reference, &own, state->graph, &w));
    w.can_shift =
        (own.bias_node >= 0 || own.takes_bias) && (w.layer.bias_node >= 0 || w.layer.takes_bias);
    w.has_patches = qb_patches_of(cx, layer->quantized, &w.layer, &w.patches) == QB_OK;
    if (!w.has_patches) qb_ctx_clear(cx);
    *known = true;
    *out = QB_MOVE(w);
    return QB_OK;
}

void qb_layer_weights_release(qb_layer_weights *w) {
    qb_uses_release(&w->uses);
    QB_FREE_ALL(w->dequantized, w->q, w->scale, w->bias);
    *w = (qb_layer_weights){0};
}

qb_status qb_layer_weights_set_bias(qb_ctx *cx, qb_recover_state *state,
                                    const qb_replay_layer *layer, const qb_layer_weights *w,
                                    const float *bias) {
    const qb_layer *l = &w->layer;
    qb_graph *graph = layer->quantized;
    qb_layer own;
    bool known;
    QB_TRY(layer_named(cx, state->graph, name_of(layer), &own, &known));
    if (known) QB_TRY(qb_layer_set_bias(cx, state->graph, &own, bias));
    const qb_value *old =
        l->bias_node >= 0 ? &graph->values[graph->nodes[l->bias_node].in[l->bias_input]] : NULL;
    if (!old || old->dtype != QB_DTYPE_S32) return qb_layer_set_bias(cx, graph, l, bias);
    const int64_t n = qb_layer_outputs(l);
    QB_FREED int32_t *q = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *q));
    for (int64_t o = 0; o < n; o++) {
        const double scale = (double)old->q.scale[old->q.n == 1 ? 0 : o];
        q[o] = (int32_t)fmax(-0x1p30, fmin(0x1p30, nearbyint((double)bias[o] / scale)));
    }
    return qb_graph_replace_constant(cx, graph, l->bias_node, l->bias_input, q);
}

qb_status qb_layer_weights_set(qb_ctx *cx, qb_recover_state *state, const qb_replay_layer *layer,
                               const qb_layer_weights *w, const int8_t *q) {
    const int64_t count = qb_layer_outputs(&w->layer) * w->layer.n_in * w->layer.taps;
    qb_layer own;
    bool known;
    QB_TRY(layer_named(cx, state->graph, name_of(layer), &own, &known));
    if (!known) return QB_OK;
    QB_FREED float *stands = QB_NEW(cx, qb_alloc(cx, (size_t)count, sizeof *stands));
    for (int64_t i = 0; i < count; i++)
        stands[i] = w->scale[channel_of(&w->layer, i)] * (float)q[i];
    QB_TRY(qb_graph_replace_constant(cx, state->graph, own.node, 1, stands));
    return qb_graph_replace_constant(cx, layer->quantized, w->layer.node, 1, q);
}

qb_status qb_recover_replay(qb_ctx *cx, const qb_recover_state *state, qb_replay_options hooks) {
    QB_RELEASED(qb_graph_free_at) qb_graph *quantized = NULL;
    QB_TRY(qb_recover_quantize(cx, state, &quantized));
    hooks.reference = state->reference;
    hooks.quantized = quantized;
    hooks.samples = state->samples;
    hooks.bytes = QB_RECOVER_MEMORY;
    return qb_replay_run(cx, &hooks);
}

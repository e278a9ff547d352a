/* Weights and biases of layers that stay float, where recovery has changed them for integers: in
 * float they are better as they were before. */
#include "graph/layer.h"
#include "quant/quant_internal.h"

static qb_status take(qb_ctx *cx, qb_graph *graph, const qb_layer *own, const qb_layer *from,
                      const qb_graph *unrounded) {
    const qb_value *is = &graph->values[graph->nodes[own->node].in[1]],
                   *was = &unrounded->values[unrounded->nodes[from->node].in[1]];
    if (!qb_shape_equal(&is->shape, &was->shape))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "weights '%s' have another shape before rounding than after: recover again",
                       is->name);
    QB_TRY(qb_graph_replace_constant(cx, graph, own->node, 1, was->data));
    if (own->bias_node < 0) return QB_OK;
    QB_FREED float *bias = QB_NEW(cx, qb_alloc(cx, (size_t)qb_layer_outputs(own), sizeof *bias));
    qb_layer_bias(unrounded, from, bias);
    return qb_layer_set_bias(cx, graph, own, bias);
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    const qb_graph *unrounded = s->options->unrounded;
    QB_RELEASED(qb_uses_release) qb_uses uses = {0}, before = {0};
    if (!unrounded) return QB_OK;
    QB_TRY(qb_uses_build(cx, s->graph, &uses));
    QB_TRY(qb_uses_build(cx, unrounded, &before));
    for (int32_t g = 0; g < s->groups.n; g++) {
        const int32_t node = s->groups.group[g].node[0];
        qb_layer own, from;
        if (s->rule[g] != QB_QRULE_FLOAT || !qb_layer_of(s->graph, &uses, node, &own)) continue;
        const char *name = s->graph->values[s->graph->nodes[node].out[0]].name;
        const int32_t there = qb_graph_writer(unrounded, name);
        if (there >= 0 && qb_layer_of(unrounded, &before, there, &from))
            QB_TRY(take(cx, s->graph, &own, &from, unrounded));
    }
    return QB_OK;
}

const qb_quant_step qb_quant_step_unrounded = {.name = "unrounded", .run = run};

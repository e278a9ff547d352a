/* Activations in 16 bits: QuantizeLinear and DequantizeLinear nodes behind the value, whose readers
 * get what comes out of them. No kernel of qbench's computes on 16 bits: an engine runs the two
 * nodes and the layers behind them in float, with integer weights, so that its results are those of
 * a runtime that has such kernels, and its times are not. */
#include <fnmatch.h>

#include "quant/quant_internal.h"

/* A constant of one element for the value `of`; its id or -1. */
static int32_t add_scalar(qb_ctx *cx, qb_graph *graph, int32_t of, const char *suffix,
                          qb_dtype dtype, const void *data) {
    const qb_shape scalar = {0};
    const char *name = qb_arena_format(cx, graph->arena, "%s_%s", graph->values[of].name, suffix);
    return name ? qb_graph_add_constant(cx, graph, name, dtype, &scalar, data) : -1;
}

/* A node of the pair behind `of`, with the output of that type; its output or -1. */
static int32_t add_node(qb_ctx *cx, qb_graph *graph, int32_t of, const char *op,
                        const int32_t in[3], qb_dtype dtype) {
    const qb_shape shape = graph->values[of].shape;
    const char *base = graph->values[of].name;
    const char *name = qb_arena_format(cx, graph->arena, "%s_%s", base, op),
               *made = qb_arena_format(cx, graph->arena, "%s_%s_Output", base, op);
    const int32_t out = name && made ? qb_graph_add_value(cx, graph, made, dtype, &shape) : -1;
    if (out < 0 || qb_graph_add_node(cx, graph, qb_op_find(op, ""), name, in, 3, &out, 1) < 0)
        return -1;
    return out;
}

static qb_status add_pair(qb_ctx *cx, qb_graph *graph, int32_t value, const qb_qparams *q) {
    const uint16_t zero = (uint16_t)q->zero[0];
    const int32_t n_nodes = graph->n_nodes;
    const int32_t scale = add_scalar(cx, graph, value, "scale", QB_DTYPE_F32, q->scale);
    const int32_t zero_point =
        scale < 0 ? -1 : add_scalar(cx, graph, value, "zero_point", q->dtype, &zero);
    if (zero_point < 0) return cx->code;
    const int32_t q_in[] = {value, scale, zero_point};
    const int32_t quantized = add_node(cx, graph, value, "QuantizeLinear", q_in, q->dtype);
    if (quantized < 0) return cx->code;
    const int32_t dq_in[] = {quantized, scale, zero_point};
    const int32_t floats = add_node(cx, graph, value, "DequantizeLinear", dq_in, QB_DTYPE_F32);
    if (floats < 0) return cx->code;
    for (int32_t i = 0; i < n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_in; k++)
            if (graph->nodes[i].in[k] == value) graph->nodes[i].in[k] = floats;
    return QB_OK;
}

static qb_status expect_one(qb_ctx *cx, const qb_quant_state *s, const char *glob) {
    for (int32_t v = 0; v < s->n_values; v++)
        if (s->in_16_bits[v] && fnmatch(glob, s->graph->values[v].name, 0) == 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "16 bits: no quantized activation is called '%s'", glob);
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    for (const char *const *glob = s->options->activations_16; glob && *glob; glob++)
        QB_TRY(expect_one(cx, s, *glob));
    for (int32_t v = 0; v < s->n_values; v++)
        if (s->in_16_bits[v]) QB_TRY(add_pair(cx, s->graph, v, &s->params_16[v]));
    return QB_OK;
}

const qb_quant_step qb_quant_step_pairs_16 = {.name = "pairs-16", .run = run};

#include "graph/dequantize.h"

#include <float.h>
#include <math.h>

#include "graph/op.h"
#include "graph_internal.h"
#include "rewrite_internal.h"

void qb_value_dequantized(const qb_value *value, float *f32) {
    const qb_qparams *q = &value->q;
    const int64_t n = qb_shape_count(&value->shape);
    const int64_t inner =
        q->n > 1 ? qb_shape_span(&value->shape, q->axis + 1, value->shape.rank) : 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = q->n > 1 ? i / inner % q->n : 0;
        const double zero = q->zero ? (double)q->zero[c] : 0.0;
        const double code = value->dtype == QB_DTYPE_S32 ? (double)((const int32_t *)value->data)[i]
                            : value->dtype == QB_DTYPE_U8
                                ? (double)((const uint8_t *)value->data)[i]
                                : (double)((const int8_t *)value->data)[i];
        f32[i] = (float)((code - zero) * (double)q->scale[c]);
    }
}

/* As qb_quantize_value, for many: to clamp to whole numbers and then to round is the same, and
 * adding a number whose last bit is a 1 rounds half to even. */
static void round_run(float *f32, int64_t n, float scale, float low, float high) {
    const float ones = 12582912; /* 1.5 x 2^23 */
    for (int64_t i = 0; i < n; i++) {
        float steps = f32[i] / scale;
        steps = steps == steps ? steps : 0;
        steps = steps < low ? low : steps > high ? high : steps;
        f32[i] = scale * ((steps + ones) - ones);
    }
}

static void round_value(const qb_qparams *q, const qb_shape *shape, float *f32) {
    const int64_t n = qb_shape_count(shape);
    const int64_t run = q->n > 1 ? qb_shape_span(shape, q->axis + 1, shape->rank) : n;
    const int32_t low = qb_quantize_value(-FLT_MAX, 1, 0, q->dtype);
    const int32_t high = qb_quantize_value(FLT_MAX, 1, 0, q->dtype);
    if (high > INT16_MAX * 2 + 1) return; /* sums: finer than floats */
    for (int64_t i = 0; i < n; i += run) {
        const int64_t c = q->n > 1 ? i / run % q->n : 0;
        const int32_t zero = q->zero ? q->zero[c] : 0;
        round_run(f32 + i, run, q->scale[c], (float)(low - zero), (float)(high - zero));
    }
}

/* Does the node move numbers that are rounded already? */
static bool moves(const qb_graph *graph, const qb_node *node, const qb_qparams *q) {
    bool same = node->op->qrule == QB_QRULE_SAME_SCALE;
    for (int32_t k = 0; k < node->n_in && same; k++) {
        const qb_value *value = node->in[k] >= 0 ? &graph->values[node->in[k]] : NULL;
        same = !value ||
               (value->q.n > 0 ? qb_qparams_same(&value->q, q) : !qb_dtype_is_float(value->dtype));
    }
    return same;
}

void qb_node_round(const qb_graph *graph, int32_t index, const qb_graph *floats) {
    const qb_node *node = &graph->nodes[index];
    for (int32_t k = 0; k < node->n_out; k++) {
        const int32_t id = node->out[k];
        const qb_value *made = id >= 0 ? &floats->values[id] : NULL;
        if (!made || graph->values[id].q.n == 0 || moves(graph, node, &graph->values[id].q))
            continue;
        round_value(&graph->values[id].q, &made->shape, (float *)(uintptr_t)made->data);
    }
}

float qb_value_reach(const qb_value *value) {
    const qb_qparams *q = &value->q;
    double reach = (double)value->largest;
    for (int32_t c = 0; c < q->n; c++) {
        const double zero = q->zero ? (double)q->zero[c] : 0.0;
        const double lo = (double)qb_quantize_value(-FLT_MAX, 1, 0, value->dtype),
                     hi = (double)qb_quantize_value(FLT_MAX, 1, 0, value->dtype);
        reach = fmax(reach, (double)q->scale[c] * fmax(hi - zero, zero - lo));
    }
    return (float)fmin(reach, (double)FLT_MAX);
}

bool qb_graph_is_quantized(const qb_graph *graph) {
    for (int32_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].q.n > 0) return true;
    return false;
}

static qb_status make_float(qb_ctx *cx, qb_graph *graph, qb_value *value) {
    if (value->data) {
        const size_t n = (size_t)qb_shape_count(&value->shape);
        float *f32 = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, n, sizeof *f32));
        qb_value_dequantized(value, f32);
        value->data = f32;
        value->bytes = n * sizeof *f32;
    }
    value->largest = qb_value_reach(value);
    value->dtype = QB_DTYPE_F32;
    value->q = (qb_qparams){.axis = -1};
    return QB_OK;
}

qb_status qb_graph_dequantize(qb_ctx *cx, const qb_graph *graph, qb_graph **out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *copy = NULL;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op && qb_op_has(graph->nodes[i].op, QB_TRAIT_INTEGERS))
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s works on integers",
                           graph->nodes[i].op->name);
    QB_TRY(qb_graph_clone(cx, graph, &copy));
    for (int32_t v = 0; v < copy->n_values; v++)
        if (copy->values[v].q.n > 0) QB_TRY(make_float(cx, copy, &copy->values[v]));
    QB_TRY(qb_graph_infer(cx, copy));
    *out = QB_MOVE(copy);
    return QB_OK;
}

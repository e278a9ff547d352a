/* What no kernel computes in integers is computed in floats, which have these integers:
 *
 *   Cast(ConvInteger(x, w, x_zero, w_zero))
 *                         Conv(x - x_zero, w - w_zero), the weight as it is packed
 *   x -> QuantizeLinear to 16 bits -> DequantizeLinear with the same parameters
 *                         clip(round(x / scale), lowest - zero, highest - zero) scale
 *
 * Sums beyond 2^24 are rounded as floats are; all else has the same bits. */
#include <math.h>

#include "graph/fusion.h"
#include "graph/passes_internal.h"
#include "kernels/ref.h"

/* --- convolutions of dynamic quantization ------------------------------------------------------
 */

static qb_status to_f32(qb_rewrite *rw, int32_t from, int32_t like, const char *suffix,
                        int32_t *out) {
    const qb_shape shape = rw->graph->values[from].shape;
    QB_TRY(qb_rewrite_append_plain(rw, "Cast", (int32_t[]){from, -1}, like, suffix, &shape, out));
    return qb_node_set_int(rw, rw->graph->n_nodes - 1, "to", qb_dtype_to_onnx(QB_DTYPE_F32));
}

/* An 8-bit constant; of `n` elements or one, where that is asked. */
static bool is_bytes(const qb_graph *graph, int32_t value, int64_t n) {
    const qb_value *v = value < 0 ? NULL : &graph->values[value];
    const int64_t count = v && v->data && v->q.n == 0 ? qb_shape_count(&v->shape) : 0;
    return v && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8) && count > 0 &&
           (n == 0 || count == 1 || count == n);
}

/* The weight less its zero points, of which there may be one a filter. */
static qb_status weight_floats(qb_rewrite *rw, const qb_node *conv, int32_t like, int32_t *out) {
    const qb_graph *graph = rw->graph;
    const qb_value *w = &graph->values[conv->in[1]];
    const int32_t zero = qb_node_in(conv, 3);
    const int64_t n = qb_shape_count(&w->shape), filter = n / w->shape.dim[0];
    const int64_t zeros = zero < 0 ? 0 : qb_shape_count(&graph->values[zero].shape);
    QB_FREED float *data = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *data));
    for (int64_t i = 0; i < n; i++) {
        const qb_value *z = zeros > 0 ? &graph->values[zero] : NULL;
        const double less = z ? qb_number_get(z->dtype, z->data, zeros == 1 ? 0 : i / filter) : 0.0;
        data[i] = (float)(qb_number_get(w->dtype, w->data, i) - less);
    }
    const qb_shape shape = w->shape;
    return qb_rewrite_floats(rw, like, "_weight", &shape, data, out);
}

/* `cast` makes floats of a ConvInteger's sums, which nobody else reads. */
static qb_status match_conv(qb_rewrite *rw, int32_t cast) {
    const qb_graph *graph = rw->graph;
    const int32_t out = graph->nodes[cast].out[0], sums = graph->nodes[cast].in[0];
    const int32_t index = qb_rewrite_from(rw, sums, "ConvInteger");
    if (index < 0 || !qb_value_is_plain(graph, out) ||
        qb_uses_sole_user(graph, &rw->uses, sums) != cast)
        return QB_OK;
    const qb_node *conv = &graph->nodes[index];
    const int32_t zero = qb_node_in(conv, 2), w_zero = qb_node_in(conv, 3);
    const int64_t filters = graph->values[conv->in[1]].shape.dim[0];
    if (!is_bytes(graph, conv->in[1], 0) || (w_zero >= 0 && !is_bytes(graph, w_zero, filters)) ||
        (zero >= 0 && qb_shape_count(&graph->values[zero].shape) != 1))
        return QB_OK;
    const qb_shape shape = graph->values[conv->in[0]].shape;
    void *attrs = conv->attrs;
    int32_t in[2], z;
    QB_TRY(to_f32(rw, conv->in[0], out, "_data", &in[0]));
    if (zero >= 0) {
        QB_TRY(to_f32(rw, zero, out, "_zero", &z));
        QB_TRY(qb_rewrite_append_plain(rw, "Sub", (int32_t[]){in[0], z}, out, "_centred", &shape,
                                       &in[0]));
    }
    QB_TRY(weight_floats(rw, &graph->nodes[index], out, &in[1]));
    qb_rewrite_kill(rw, index);
    QB_TRY(qb_rewrite_node(rw, cast, qb_op_find("Conv", ""), in, 2, out));
    graph->nodes[cast].attrs = attrs; /* both have qb_conv_attrs */
    return qb_rewrite_changed(rw);
}

/* --- pairs in 16 bits --------------------------------------------------------------------------
 */

/* Parameters of a Q or DQ node: one scale, and 16 bits. */
typedef struct steps {
    float scale;
    double zero;
} steps;

static bool steps_of(const qb_graph *graph, const qb_node *node, qb_dtype dtype, steps *out) {
    const float *scale = qb_value_floats(graph, node->in[1]);
    const int32_t zero = qb_node_in(node, 2);
    const qb_value *z = zero < 0 ? NULL : &graph->values[zero];
    if (!scale || qb_shape_count(&graph->values[node->in[1]].shape) != 1 || !isnormal(scale[0]) ||
        scale[0] < 0 || (z && (!z->data || z->dtype != dtype || qb_shape_count(&z->shape) != 1)))
        return false;
    *out = (steps){scale[0], z ? qb_number_get(dtype, z->data, 0) : 0};
    return true;
}

static qb_status scalar(qb_rewrite *rw, int32_t like, const char *suffix, double v, int32_t *out) {
    const qb_shape shape = {.rank = 0};
    const float f32 = (float)v;
    return qb_rewrite_floats(rw, like, suffix, &shape, &f32, out);
}

static qb_status match_pair(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *dequantize = &graph->nodes[index];
    const int32_t code = dequantize->in[0], out = dequantize->out[0];
    const int32_t quantize = qb_rewrite_from(rw, code, "QuantizeLinear");
    const qb_dtype dtype = graph->values[code].dtype;
    const bool is_signed = dtype == QB_DTYPE_S16;
    steps s, other;
    if (quantize < 0 || (!is_signed && dtype != QB_DTYPE_U16)) return QB_OK;
    const int32_t x = graph->nodes[quantize].in[0];
    if (!qb_value_has_one_scale(&graph->values[x]) ||
        !qb_value_has_one_scale(&graph->values[out]) || !steps_of(graph, dequantize, dtype, &s) ||
        !steps_of(graph, &graph->nodes[quantize], dtype, &other) || s.scale != other.scale ||
        s.zero != other.zero)
        return QB_OK;
    const qb_shape shape = graph->values[out].shape;
    int32_t scale, v, bounds[3];
    QB_TRY(scalar(rw, out, "_scale", (double)s.scale, &scale));
    QB_TRY(scalar(rw, out, "_lowest", (is_signed ? INT16_MIN : 0) - s.zero, &bounds[1]));
    QB_TRY(scalar(rw, out, "_highest", (is_signed ? INT16_MAX : UINT16_MAX) - s.zero, &bounds[2]));
    QB_TRY(qb_rewrite_append_plain(rw, "Div", (int32_t[]){x, scale}, out, "_scaled", &shape, &v));
    QB_TRY(qb_rewrite_append_plain(rw, "Round", (int32_t[]){v, -1}, out, "_steps", &shape,
                                   &bounds[0]));
    QB_TRY(qb_rewrite_plain(rw, out, "_clipped", &shape, &v));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Clip", ""), bounds, 3, v));
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Mul", ""), (int32_t[]){v, scale}, 2, out));
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    if (qb_node_is(node, "Cast")) return match_conv(rw, index);
    return qb_node_is(node, "DequantizeLinear") ? match_pair(rw, index) : QB_OK;
}

qb_status qb_fuse_floats(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

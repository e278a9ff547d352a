/* QuantizeLinear and DequantizeLinear nodes become quantization parameters of values.
 *
 *   float constant -> Q [-> Clip]  the integers it yields, as a constant
 *   integer constant -> DQ         a quantized constant, which takes the name of DQ's output
 *   x -> Q -> DQ -> users          x is quantized and keeps its name, when nobody else sees x
 *   x -> Q -> DQ -> users, x -> others
 *                                  Identity(x) is quantized: its value keeps the name of DQ's
 * output
 *
 * Scales must be constant, finite and positive; activations have one scale. Everything else
 * (several scales on activations, blocks, 16 bit, scales that are computed, integers that reach
 * other operators) stays as the nodes in the file and runs as written. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "graph/rewrite_internal.h"
#include "kernels/ref.h"

typedef struct folder {
    qb_graph *graph;
    qb_uses uses; /* as before folding */
    bool *output; /* [n_values] graph outputs */
    bool *input;
    bool *shared;   /* [n_values] known to have users that see it unquantized */
    int32_t *alias; /* [n_values] the value that takes this one's place, or -1 */
    const qb_op *quantize, *dequantize, *identity, *clip;
} folder;

/* --- parameters
 * ------------------------------------------------------------------------------------ */

static const qb_value *input_of(const qb_graph *graph, const qb_node *node, int32_t i) {
    return i < node->n_in && node->in[i] >= 0 ? &graph->values[node->in[i]] : NULL;
}

static int32_t zero_at(const qb_value *zero, int64_t i) {
    switch (zero->dtype) {
    case QB_DTYPE_U8: return ((const uint8_t *)zero->data)[i];
    case QB_DTYPE_S8: return ((const int8_t *)zero->data)[i];
    default: return ((const int32_t *)zero->data)[i];
    }
}

static bool integer_type(qb_dtype dtype) {
    return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8 || dtype == QB_DTYPE_S32;
}

/* The axis of per-channel scales, -1 for one scale; false when they do not fit the shape. */
static bool resolve_axis(const qb_node *node, const qb_shape *shape, const qb_value *scale,
                         int32_t *axis) {
    *axis = -1;
    if (scale->shape.rank == 0) return true;
    if (scale->shape.rank != 1) return false;
    int64_t given = qb_attr_int(node, "axis", 1);
    if (given < 0) given += shape->rank;
    bool fits = given >= 0 && given < shape->rank && shape->dim[given] == scale->shape.dim[0];
    if (fits) *axis = (int32_t)given;
    return fits || scale->shape.dim[0] == 1;
}

/* The parameters of a Q or DQ node on integers of type `dtype` and the given shape, with arrays in
 * the graph's arena. *ok is false when they cannot hang on a value. */
static qb_status read_qparams(qb_ctx *cx, const qb_graph *graph, const qb_node *node,
                              qb_dtype dtype, const qb_shape *shape, qb_qparams *q, bool *ok) {
    const qb_value *scale = input_of(graph, node, 1), *zero = input_of(graph, node, 2);
    int32_t axis;
    *ok = false;
    if (!integer_type(dtype) || qb_attr_int(node, "block_size", 0) != 0) return QB_OK;
    if (!scale || !scale->data || scale->dtype != QB_DTYPE_F32) return QB_OK;
    if (!resolve_axis(node, shape, scale, &axis)) return QB_OK;
    int64_t n = qb_shape_count(&scale->shape);
    if (n < 1 || n > INT32_MAX) return QB_OK;
    if (zero && (!zero->data || zero->dtype != dtype || qb_shape_count(&zero->shape) != n))
        return QB_OK;
    float *scales = qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *scales);
    int32_t *zeros = zero ? qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *zeros) : NULL;
    if (!scales || (zero && !zeros)) return cx->code;
    for (int64_t i = 0; i < n; i++) {
        scales[i] = ((const float *)scale->data)[i];
        if (!isfinite(scales[i]) || scales[i] <= 0.0f) return QB_OK;
        if (zeros) zeros[i] = zero_at(zero, i);
    }
    *q = (qb_qparams){dtype, axis, (int32_t)n, scales, zeros};
    *ok = true;
    return QB_OK;
}

/* DequantizeLinear may make other floats than f32 since opset 23. */
static bool makes_f32(const qb_node *dequantize) {
    int64_t type = qb_attr_int(dequantize, "output_dtype", 0);
    return type == 0 || type == qb_dtype_to_onnx(QB_DTYPE_F32);
}

/* The integer type that a QuantizeLinear node makes. */
static qb_dtype quantized_type(const qb_graph *graph, const qb_node *node) {
    const qb_value *zero = input_of(graph, node, 2);
    if (zero) return zero->dtype;
    int64_t type = qb_attr_int(node, "output_dtype", 0);
    return type > 0 && type < 64 ? qb_dtype_from_onnx((int)type) : QB_DTYPE_U8;
}

static bool same_qparams(const qb_qparams *a, const qb_qparams *b) {
    if (a->dtype != b->dtype || a->axis != b->axis || a->n != b->n) return false;
    for (int32_t i = 0; i < a->n; i++) {
        if (a->scale[i] != b->scale[i]) return false;
        if ((a->zero ? a->zero[i] : 0) != (b->zero ? b->zero[i] : 0)) return false;
    }
    return true;
}

/* --- constants
 * ------------------------------------------------------------------------------------- */

static void store(void *data, qb_dtype dtype, int64_t i, int32_t value) {
    switch (dtype) {
    case QB_DTYPE_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case QB_DTYPE_S8: ((int8_t *)data)[i] = (int8_t)value; break;
    default: ((int32_t *)data)[i] = value; break;
    }
}

static qb_status quantize_constant(qb_ctx *cx, folder *f, int32_t index) {
    qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_value *x = input_of(graph, node, 0);
    if (!x || !x->data || x->q.n || x->dtype != QB_DTYPE_F32 || node->out[0] < 0) return QB_OK;
    qb_dtype dtype = quantized_type(graph, node);
    qb_qparams q;
    bool ok;
    QB_TRY(read_qparams(cx, graph, node, dtype, &x->shape, &q, &ok));
    if (!ok || dtype == QB_DTYPE_S32) return QB_OK;
    int64_t n = qb_shape_count(&x->shape);
    void *data = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n, qb_dtype_size(dtype)));
    int64_t inner = q.axis < 0 ? 1 : qb_shape_span(&x->shape, q.axis + 1, x->shape.rank);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = q.axis < 0 ? 0 : i / inner % q.n;
        int32_t zero = q.zero ? q.zero[c] : 0;
        store(data, dtype, i,
              qb_quantize_value(((const float *)x->data)[i], q.scale[c], zero, dtype));
    }
    qb_value *out = &graph->values[node->out[0]];
    out->dtype = dtype;
    out->shape = x->shape;
    out->data = data;
    out->bytes = (size_t)n * qb_dtype_size(dtype);
    qb_graph_kill_node(graph, index);
    return QB_OK;
}

/* The integers between bounds, as quantizers for few bits write them. */
static qb_status clip_constant(qb_ctx *cx, folder *f, int32_t index) {
    qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_value *x = input_of(graph, node, 0);
    if (!x || !x->data || x->q.n || (x->dtype != QB_DTYPE_U8 && x->dtype != QB_DTYPE_S8) ||
        node->out[0] < 0)
        return QB_OK;
    int32_t bound[2] = {INT32_MIN, INT32_MAX};
    for (int32_t i = 0; i < 2; i++) {
        const qb_value *b = input_of(graph, node, i + 1);
        if (b && (!b->data || b->dtype != x->dtype)) return QB_OK;
        if (b) bound[i] = zero_at(b, 0);
    }
    const int64_t n = qb_shape_count(&x->shape);
    void *data = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n, 1));
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = zero_at(x, i), low = v < bound[0] ? bound[0] : v;
        store(data, x->dtype, i, low > bound[1] ? bound[1] : low);
    }
    qb_value *out = &graph->values[node->out[0]];
    out->dtype = x->dtype;
    out->shape = x->shape;
    out->data = data;
    out->bytes = (size_t)n;
    qb_graph_kill_node(graph, index);
    return QB_OK;
}

static qb_status dequantize_constant(qb_ctx *cx, folder *f, int32_t index) {
    qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_value *x = input_of(graph, node, 0);
    if (!x || !x->data || x->q.n || node->out[0] < 0 || !makes_f32(node)) return QB_OK;
    qb_qparams q;
    bool ok;
    QB_TRY(read_qparams(cx, graph, node, x->dtype, &x->shape, &q, &ok));
    if (!ok) return QB_OK;
    qb_value *out = &graph->values[node->out[0]];
    out->dtype = x->dtype;
    out->shape = x->shape;
    out->data = x->data; /* never changed in place, so two values may share it */
    out->bytes = x->bytes;
    out->q = q;
    qb_graph_kill_node(graph, index);
    return QB_OK;
}

/* --- activations
 * ----------------------------------------------------------------------------------- */

static bool is_live(const qb_graph *graph, int32_t index, const qb_op *op) {
    return op && graph->nodes[index].op == op;
}

/* Can Q node `index` and the DQ nodes behind it go? *n_outputs counts the DQ outputs that are graph
 * outputs. */
static qb_status check_pair(qb_ctx *cx, const folder *f, int32_t index, qb_qparams *q,
                            int32_t *n_outputs, bool *ok) {
    const qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_value *x = input_of(graph, node, 0);
    *ok = false;
    *n_outputs = 0;
    if (!is_live(graph, index, f->quantize) || !x || node->n_out != 1 || node->out[0] < 0)
        return QB_OK;
    int32_t code = node->out[0];
    if (x->dtype != QB_DTYPE_F32 && x->q.n == 0) return QB_OK;
    if (f->output[code] || f->uses.n_users[code] == 0) return QB_OK;
    bool fits;
    QB_TRY(read_qparams(cx, graph, node, quantized_type(graph, node), &x->shape, q, &fits));
    if (!fits || q->axis >= 0 || q->dtype == QB_DTYPE_S32) return QB_OK;
    for (int32_t i = 0; i < f->uses.n_users[code]; i++) {
        int32_t user = f->uses.users[code][i];
        const qb_node *dq = &graph->nodes[user];
        if (!is_live(graph, user, f->dequantize) || dq->in[0] != code || !makes_f32(dq))
            return QB_OK;
        for (int32_t k = 1; k < dq->n_in; k++)
            if (dq->in[k] == code) return QB_OK;
        if (dq->n_out != 1 || dq->out[0] < 0) return QB_OK;
        qb_qparams back;
        QB_TRY(read_qparams(cx, graph, dq, q->dtype, &x->shape, &back, &fits));
        if (!fits || !same_qparams(q, &back)) return QB_OK;
        if (f->output[dq->out[0]]) ++*n_outputs;
    }
    *ok = *n_outputs <= 1; /* two graph outputs cannot share one value */
    return QB_OK;
}

/* Replaces the outputs of the DQ nodes behind Q by `value` and removes the pair. The name of a
 * graph output goes with it. */
static qb_status remove_pair(qb_ctx *cx, folder *f, int32_t index, int32_t value) {
    qb_graph *graph = f->graph;
    int32_t code = graph->nodes[index].out[0];
    qb_graph_kill_node(graph, index);
    for (int32_t i = 0; i < f->uses.n_users[code]; i++) {
        int32_t dq = f->uses.users[code][i], out = graph->nodes[dq].out[0];
        qb_graph_kill_node(graph, dq);
        if (out == value) continue;
        f->alias[out] = value;
        if (!f->output[out]) continue;
        f->output[value] = true;
        const char *name = QB_NEW(cx, qb_arena_strdup(cx, graph->arena, graph->values[out].name));
        QB_TRY(qb_graph_rename(cx, graph, value, name));
    }
    return QB_OK;
}

/* x has other users: its quantized form becomes a value of its own. */
static qb_status split_off(qb_ctx *cx, folder *f, int32_t index, const qb_qparams *q) {
    qb_graph *graph = f->graph;
    int32_t code = graph->nodes[index].out[0], value = -1;
    if (!f->identity) return QB_OK;
    for (int32_t i = 0; i < f->uses.n_users[code]; i++) {
        int32_t out = graph->nodes[f->uses.users[code][i]].out[0];
        if (value < 0 || f->output[out]) value = out;
    }
    qb_node copy = graph->nodes[index];
    QB_TRY(remove_pair(cx, f, index, value));
    copy.op = f->identity;
    copy.attrs = NULL;
    copy.n_in = 1;
    copy.out[0] = value;
    graph->nodes[index] = copy;
    graph->values[value].dtype = q->dtype;
    graph->values[value].q = *q;
    return QB_OK;
}

/* Do all users of x quantize it, with the same parameters, in pairs that can go? */
static qb_status check_exclusive(qb_ctx *cx, const folder *f, int32_t x, const qb_qparams *q,
                                 bool *ok) {
    int32_t outputs = 0;
    *ok = false;
    const qb_value *value = &f->graph->values[x];
    if (value->data || value->q.n || f->output[x] || f->alias[x] >= 0 || f->shared[x]) return QB_OK;
    f->shared[x] = true; /* unless all of the following holds; asked once a value */
    for (int32_t i = 0; i < f->uses.n_users[x]; i++) {
        qb_qparams other;
        int32_t n;
        bool fits;
        QB_TRY(check_pair(cx, f, f->uses.users[x][i], &other, &n, &fits));
        if (!fits || !same_qparams(q, &other)) return QB_OK;
        outputs += n;
    }
    *ok = outputs == 0 || (outputs == 1 && !f->input[x]);
    f->shared[x] = !*ok;
    return QB_OK;
}

static qb_status fold_pair(qb_ctx *cx, folder *f, int32_t index) {
    qb_graph *graph = f->graph;
    qb_qparams q;
    int32_t n_outputs, x = graph->nodes[index].in[0];
    bool ok;
    QB_TRY(check_pair(cx, f, index, &q, &n_outputs, &ok));
    if (!ok) return QB_OK;
    QB_TRY(check_exclusive(cx, f, x, &q, &ok));
    if (!ok) return split_off(cx, f, index, &q);
    for (int32_t i = 0; i < f->uses.n_users[x]; i++)
        QB_TRY(remove_pair(cx, f, f->uses.users[x][i], x));
    graph->values[x].dtype = q.dtype;
    graph->values[x].q = q;
    return QB_OK;
}

/* --- what is wrong with scales
 * ------------------------------------------------------------------------------------- */

/* The first index at which a node's constant scale, its input `in`, is none; -1: it has none such.
 */
static int64_t bad_scale(const qb_graph *graph, const qb_node *node, int32_t in, double *out) {
    const qb_value *scale = input_of(graph, node, in);
    const int64_t n = scale && scale->data ? qb_shape_count(&scale->shape) : 0;
    for (int64_t i = 0; i < n; i++) {
        *out = qb_number_get(scale->dtype, scale->data, i);
        if (!isfinite(*out) || *out <= 0) return i;
    }
    return -1;
}

void qb_graph_warn_of_scales(qb_ctx *cx, const qb_graph *graph) {
    enum { PAIRS = 2, ALL = 4 };
    const qb_op *const ops[ALL] = {qb_op_find("QuantizeLinear", ""),
                                   qb_op_find("DequantizeLinear", ""),
                                   qb_op_find("QLinearConv", ""), qb_op_find("QLinearMatMul", "")};
    char name[160];
    double scale;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        int k = 0;
        while (k < ALL && node->op != ops[k]) k++;
        if (!node->op || k == ALL) continue;
        int64_t at = bad_scale(graph, node, 1, &scale);
        if (at < 0 && k >= PAIRS) at = bad_scale(graph, node, 4, &scale);
        if (at < 0 && k >= PAIRS) at = bad_scale(graph, node, 6, &scale);
        if (at < 0) continue;
        qb_warn(cx,
                "%s: scale %lld is %g, expected a finite number above 0: this node and others like "
                "it are computed as written",
                qb_node_text(graph, i, name, sizeof name), (long long)at, scale);
        return;
    }
}

/* --- the whole
 * ------------------------------------------------------------------------------------- */

static int32_t resolve(const folder *f, int32_t value) {
    while (value >= 0 && f->alias[value] >= 0) value = f->alias[value];
    return value;
}

static void apply_aliases(folder *f) {
    qb_graph *graph = f->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_in; k++) node->in[k] = resolve(f, node->in[k]);
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        qb_graph_replace_output(graph, graph->outputs[i], resolve(f, graph->outputs[i]));
}

static qb_status fold(qb_ctx *cx, folder *f) {
    qb_graph *graph = f->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) { /* producers come first: Q, then its DQ */
        if (is_live(graph, i, f->quantize)) QB_TRY(quantize_constant(cx, f, i));
        if (is_live(graph, i, f->clip)) QB_TRY(clip_constant(cx, f, i));
        if (is_live(graph, i, f->dequantize)) QB_TRY(dequantize_constant(cx, f, i));
    }
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (is_live(graph, i, f->quantize)) QB_TRY(fold_pair(cx, f, i));
    apply_aliases(f);
    return QB_OK;
}

qb_status qb_graph_fold_qdq(qb_ctx *cx, qb_graph *graph) {
    folder f = {.graph = graph,
                .quantize = qb_op_find("QuantizeLinear", ""),
                .dequantize = qb_op_find("DequantizeLinear", ""),
                .identity = qb_op_find("Identity", ""),
                .clip = qb_op_find("Clip", "")};
    size_t n = (size_t)graph->n_values;
    qb_status status = QB_OK;
    QB_GO(qb_uses_build(cx, graph, &f.uses));
    QB_GO_NEW(cx, f.output = qb_alloc(cx, n, sizeof *f.output));
    QB_GO_NEW(cx, f.input = qb_alloc(cx, n, sizeof *f.input));
    QB_GO_NEW(cx, f.shared = qb_alloc(cx, n, sizeof *f.shared));
    QB_GO_NEW(cx, f.alias = qb_alloc(cx, n, sizeof *f.alias));
    memset(f.alias, -1, n * sizeof *f.alias);
    for (int32_t i = 0; i < graph->n_outputs; i++) f.output[graph->outputs[i]] = true;
    for (int32_t i = 0; i < graph->n_inputs; i++) f.input[graph->inputs[i]] = true;
    QB_GO(fold(cx, &f));
out:
    QB_FREE_ALL(f.output, f.input, f.shared, f.alias);
    qb_uses_release(&f.uses);
    return status;
}

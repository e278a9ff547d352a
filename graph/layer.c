#include "graph/layer.h"

#include <string.h>

/* ---- reading ---- */

static bool is_plain(const qb_graph *graph, int32_t value) {
    return value >= 0 && graph->values[value].data && graph->values[value].dtype == QB_DTYPE_F32 &&
           graph->values[value].q.n == 0;
}

static bool describe_window(const qb_node *node, const qb_shape *w, qb_layer *l) {
    const int64_t groups = ((const qb_conv_attrs *)node->attrs)->group;
    if (w->rank < 3 || groups < 1 || w->dim[0] % groups != 0) return false;
    l->groups = groups;
    l->data_axis = l->out_axis = 1;
    l->taps = qb_shape_span(w, 2, w->rank);
    if (l->kind == QB_KIND_CONV) {
        l->n_out = w->dim[0] / groups;
        l->n_in = w->dim[1];
        l->out_stride = l->n_in * l->taps;
        l->in_stride = l->taps;
    } else {
        l->n_in = w->dim[0] / groups;
        l->n_out = w->dim[1];
        l->in_stride = l->n_out * l->taps;
        l->out_stride = l->taps;
    }
    l->group_stride = l->n_out * l->n_in * l->taps;
    return true;
}

static bool describe_product(const qb_graph *graph, const qb_node *node, const qb_shape *w,
                             qb_layer *l) {
    const qb_shape *x = &graph->values[node->in[0]].shape;
    const bool transposed = qb_attr_int(node, "transB", 0) != 0;
    if (w->rank != 2 || x->rank < 2 || qb_attr_int(node, "transA", 0) != 0) return false;
    l->groups = l->taps = 1;
    l->n_in = w->dim[transposed];
    l->n_out = w->dim[!transposed];
    l->in_stride = transposed ? 1 : l->n_out;
    l->out_stride = transposed ? l->n_in : 1;
    l->group_stride = l->n_in * l->n_out;
    l->data_axis = l->out_axis = x->rank - 1;
    return true;
}

/* Gemm has factors beside the product. */
static bool has_scalars(const qb_node *node) {
    for (const qb_attr_desc *a = node->op->attrs; a && a->name; a++) {
        const bool factor = a->type == QB_ATTR_FLOAT;
        if (factor && *(const float *)((const char *)node->attrs + a->offset) != 1) return true;
    }
    return false;
}

static bool is_bias(const qb_graph *graph, int32_t value, int64_t n) {
    const qb_value *v = &graph->values[value];
    return v->data && qb_shape_count(&v->shape) == n && v->shape.rank > 0 &&
           v->shape.dim[v->shape.rank - 1] == n;
}

/* The constant operand of the sum that alone reads a product. */
static void find_sum(const qb_graph *graph, const qb_uses *uses, const qb_node *node, qb_layer *l) {
    const int32_t out = node->out[0];
    if (uses->n_users[out] != 1 || qb_graph_is_output(graph, out)) return;
    const qb_node *sum = &graph->nodes[uses->users[out][0]];
    if (sum->op->kernel.kind != QB_KIND_BINARY || sum->op->kernel.binary != QB_BINARY_ADD) return;
    const int32_t side = sum->in[0] == out;
    if (!is_bias(graph, sum->in[side], qb_layer_outputs(l))) return;
    l->bias_node = uses->users[out][0];
    l->bias_input = side;
}

static bool describe(const qb_graph *graph, const qb_uses *uses, int32_t index, qb_layer *l) {
    const qb_node *node = &graph->nodes[index];
    const qb_op *op = node->op;
    *l = (qb_layer){.node = index, .kind = op->kernel.kind, .bias_node = -1};
    if (op->qrule != QB_QRULE_COMPUTE || op->weight_input != 1 || node->n_in < 2 ||
        graph->values[node->in[0]].data || !graph->values[node->in[1]].data || has_scalars(node))
        return false;
    const qb_shape *w = &graph->values[node->in[1]].shape;
    const bool product = l->kind == QB_KIND_MATMUL;
    if (!product && l->kind != QB_KIND_CONV && l->kind != QB_KIND_CONV_TRANSPOSE) return false;
    if (!(product ? describe_product(graph, node, w, l) : describe_window(node, w, l)))
        return false;
    l->takes_bias = op->max_in > 2;
    if (node->n_in > 2 && node->in[2] >= 0) {
        if (!is_bias(graph, node->in[2], qb_layer_outputs(l))) return false;
        l->bias_node = index;
        l->bias_input = 2;
    } else if (!l->takes_bias) {
        find_sum(graph, uses, node, l);
    }
    return true;
}

bool qb_layer_of(const qb_graph *graph, const qb_uses *uses, int32_t node, qb_layer *out) {
    qb_layer l;
    if (!describe(graph, uses, node, &l)) return false;
    const qb_node *n = &graph->nodes[node];
    if (!is_plain(graph, n->in[1])) return false;
    if (l.bias_node >= 0 && !is_plain(graph, graph->nodes[l.bias_node].in[l.bias_input]))
        return false;
    l.weight = graph->values[n->in[1]].data;
    *out = l;
    return true;
}

bool qb_layer_of_quantized(const qb_graph *graph, const qb_uses *uses, int32_t node,
                           qb_layer *out) {
    qb_layer l;
    if (!describe(graph, uses, node, &l)) return false;
    const qb_value *w = &graph->values[graph->nodes[node].in[1]];
    if (w->dtype != QB_DTYPE_S8 || w->q.n == 0) return false;
    *out = l;
    return true;
}

int32_t qb_graph_writer(const qb_graph *graph, const char *name) {
    const int32_t value = qb_graph_find_value(graph, name);
    for (int32_t i = 0; value >= 0 && i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_out; k++)
            if (graph->nodes[i].out[k] == value) return i;
    return -1;
}

/* ---- writing ---- */

qb_status qb_graph_replace_constant(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t input,
                                    const void *data) {
    const qb_value old = graph->values[graph->nodes[node].in[input]];
    const qb_shape shape = old.shape;
    const int32_t id = qb_graph_add_constant(cx, graph, old.name, old.dtype, &shape, data);
    if (id < 0) return cx->code;
    graph->values[id].q = old.q;
    graph->nodes[node].in[input] = id;
    return QB_OK;
}

qb_status qb_layer_scale(qb_ctx *cx, qb_graph *graph, const qb_layer *l, const double *out,
                         const double *in) {
    const int64_t all = qb_layer_outputs(l), count = all * l->n_in * l->taps;
    QB_FREED float *w = QB_NEW(cx, qb_alloc(cx, (size_t)count, sizeof *w));
    QB_FREED float *bias = QB_NEW(cx, qb_alloc(cx, (size_t)all, sizeof *bias));
    for (int64_t g = 0; g < l->groups; g++)
        for (int64_t o = 0; o < l->n_out; o++)
            for (int64_t i = 0; i < l->n_in; i++) {
                const double factor =
                    (out ? out[g * l->n_out + o] : 1) / (in ? in[g * l->n_in + i] : 1);
                const int64_t at = g * l->group_stride + o * l->out_stride + i * l->in_stride;
                for (int64_t k = 0; k < l->taps; k++)
                    w[at + k] = (float)((double)l->weight[at + k] * factor);
            }
    QB_TRY(qb_graph_replace_constant(cx, graph, l->node, 1, w));
    if (!out || l->bias_node < 0) return QB_OK;
    qb_layer_bias(graph, l, bias);
    for (int64_t c = 0; c < all; c++) bias[c] = (float)((double)bias[c] * out[c]);
    return qb_layer_set_bias(cx, graph, l, bias);
}

/* A bias input of its own. */
static qb_status add_bias(qb_ctx *cx, qb_graph *graph, const qb_layer *l, const float *bias) {
    const qb_shape shape = {.rank = 1, .dim = {qb_layer_outputs(l)}};
    const qb_value *weight = &graph->values[graph->nodes[l->node].in[1]];
    const char *name = qb_arena_format(cx, graph->arena, "%s_bias", weight->name);
    const int32_t id =
        name ? qb_graph_add_constant(cx, graph, name, QB_DTYPE_F32, &shape, bias) : -1;
    int32_t *in = QB_NEW(cx, id >= 0 ? qb_arena_alloc(cx, graph->arena, 3, sizeof *in) : NULL);
    qb_node *node = &graph->nodes[l->node];
    memcpy(in, node->in, 2 * sizeof *in);
    in[2] = id;
    node->in = in;
    node->n_in = 3;
    return QB_OK;
}

qb_status qb_layer_set_bias(qb_ctx *cx, qb_graph *graph, const qb_layer *l, const float *bias) {
    if (l->bias_node >= 0)
        return qb_graph_replace_constant(cx, graph, l->bias_node, l->bias_input, bias);
    if (l->takes_bias) return add_bias(cx, graph, l, bias);
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "the layer has no bias and takes none");
}

void qb_layer_bias(const qb_graph *graph, const qb_layer *l, float *bias) {
    const size_t n = (size_t)qb_layer_outputs(l);
    memset(bias, 0, n * sizeof *bias);
    if (l->bias_node >= 0)
        memcpy(bias, graph->values[graph->nodes[l->bias_node].in[l->bias_input]].data,
               n * sizeof *bias);
}

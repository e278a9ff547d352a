/* Products of integers with the scales behind them, as tools for dynamic quantization write them:
 *
 *   Cast(MatMulInteger(a, b, a_zero, b_zero)) * (a_scale * b_scale) [+ bias]
 *
 * becomes one MatMulIntegerToFloat, with the same bits. Its weight has no zero points, for these
 * are taken off where 8 bits with a sign hold what is left. */
#include "graph/fusion.h"
#include "graph/graph_internal.h"
#include "graph/passes_internal.h"
#include "kernels/ref.h"

typedef struct scaled {
    int32_t product, cast, scales; /* nodes */
    int32_t a_scale, b_scale, bias;
} scaled;

/* Does one node alone read the value, which need not reach memory? */
static bool is_inner(const qb_rewrite *rw, int32_t value) {
    return value >= 0 && rw->uses.n_users[value] == 1 && rw->graph->values[value].q.n == 0 &&
           !rw->graph->values[value].kept && !qb_graph_is_output(rw->graph, value);
}

/* A constant of one float, or one for each column. */
static bool is_by_column(const qb_graph *graph, int32_t value, int64_t columns, bool or_one) {
    if (!qb_value_floats(graph, value)) return false;
    const qb_shape *shape = &graph->values[value].shape;
    const int64_t n = qb_shape_count(shape);
    return (or_one && n == 1) ||
           (shape->rank > 0 && n == columns && shape->dim[shape->rank - 1] == columns);
}

/* Element i of a weight [rows, columns] less its zero point, of which there may be one a column. */
static int32_t centred(const qb_value *b, const qb_value *zero, int64_t i) {
    const int64_t zeros = zero ? qb_shape_count(&zero->shape) : 0;
    const int64_t at = zeros > 1 ? i % zeros : 0;
    const double less = zeros > 0 ? qb_number_get(zero->dtype, zero->data, at) : 0.0;
    return (int32_t)(qb_number_get(b->dtype, b->data, i) - less);
}

/* Weights of two dimensions that less their zero points have 8 bits with a sign. */
static bool is_centred_s8(const qb_graph *graph, int32_t weight, int32_t zero_point) {
    const qb_value *b = &graph->values[weight];
    const qb_value *zero = zero_point < 0 ? NULL : &graph->values[zero_point];
    if (!b->data || (b->dtype != QB_DTYPE_S8 && b->dtype != QB_DTYPE_U8) || b->q.n > 0 ||
        b->shape.rank != 2 || (zero && !zero->data))
        return false;
    const int64_t zeros = zero ? qb_shape_count(&zero->shape) : 1;
    if (zeros != 1 && zeros != b->shape.dim[1]) return false;
    for (int64_t i = 0, n = qb_shape_count(&b->shape); i < n; i++)
        if (centred(b, zero, i) < INT8_MIN || centred(b, zero, i) > INT8_MAX) return false;
    return true;
}

/* Such a weight without zero points. */
static qb_status centre(qb_rewrite *rw, int32_t weight, int32_t zero_point, int32_t *out) {
    qb_graph *graph = rw->graph;
    const qb_value b = graph->values[weight];
    const qb_value *zero = zero_point < 0 ? NULL : &graph->values[zero_point];
    const qb_value by = zero ? *zero : (qb_value){0};
    const char *name = QB_NEW(rw->cx, qb_arena_format(rw->cx, graph->arena, "%s_s8", b.name));
    int8_t *data =
        QB_NEW(rw->cx, qb_graph_new_constant(rw->cx, graph, name, QB_DTYPE_S8, &b.shape, out));
    for (int64_t i = 0, n = qb_shape_count(&b.shape); i < n; i++)
        data[i] = (int8_t)centred(&b, zero ? &by : NULL, i);
    return QB_OK;
}

/* The scale of the data, and that of the weight. */
static bool find_scales(const qb_rewrite *rw, int32_t value, int64_t columns, scaled *s) {
    const qb_graph *graph = rw->graph;
    s->scales = qb_value_is_plain(graph, value) ? qb_rewrite_from(rw, value, "Mul") : -1;
    for (int32_t i = 0; s->scales >= 0 && i < 2; i++) {
        const int32_t *in = graph->nodes[s->scales].in;
        s->a_scale = in[i];
        s->b_scale = in[1 - i];
        if (qb_value_is_plain(graph, s->a_scale) && !qb_value_is_const(graph, s->a_scale) &&
            qb_shape_count(&graph->values[s->a_scale].shape) == 1 &&
            is_by_column(graph, s->b_scale, columns, true))
            return true;
    }
    return false;
}

/* Is input `i` of the Mul the float of a product's sums, and the other one its scale? */
static bool find_product(const qb_rewrite *rw, const qb_node *mul, int32_t i, scaled *s) {
    const qb_graph *graph = rw->graph;
    s->cast = is_inner(rw, mul->in[i]) ? qb_rewrite_from(rw, mul->in[i], "Cast") : -1;
    if (s->cast < 0 || !qb_value_is_plain(graph, mul->in[i])) return false;
    const int32_t sums = graph->nodes[s->cast].in[0];
    s->product = is_inner(rw, sums) ? qb_rewrite_from(rw, sums, "MatMulInteger") : -1;
    const qb_node *product = s->product < 0 ? NULL : &graph->nodes[s->product];
    if (!product || !is_centred_s8(graph, product->in[1], qb_node_in(product, 3))) return false;
    const int64_t columns = graph->values[product->in[1]].shape.dim[1];
    return qb_shape_surely_equal(&graph->values[mul->out[0]].shape, &graph->values[sums].shape) &&
           find_scales(rw, mul->in[1 - i], columns, s);
}

/* The Add of a bias that alone reads what the Mul makes; else the Mul. */
static int32_t find_end(const qb_rewrite *rw, int32_t mul, scaled *s) {
    const qb_graph *graph = rw->graph;
    const int32_t value = graph->nodes[mul].out[0];
    const int32_t add = is_inner(rw, value) ? rw->uses.users[value][0] : -1;
    const qb_shape *shape = &graph->values[value].shape;
    s->bias = -1;
    if (add < 0 || !qb_node_is(&graph->nodes[add], "Add") || shape->rank < 1) return mul;
    const int32_t *in = graph->nodes[add].in, other = in[0] == value ? in[1] : in[0];
    if (!is_by_column(graph, other, shape->dim[shape->rank - 1], false) ||
        !qb_value_is_plain(graph, graph->nodes[add].out[0]) ||
        !qb_shape_surely_equal(&graph->values[graph->nodes[add].out[0]].shape, shape))
        return mul;
    s->bias = other;
    return add;
}

static qb_status match_scaled(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *mul = &graph->nodes[index];
    scaled s;
    if (!qb_node_is(mul, "Mul") || !qb_value_is_plain(graph, mul->out[0])) return QB_OK;
    if (!find_product(rw, mul, 0, &s) && !find_product(rw, mul, 1, &s)) return QB_OK;
    const int32_t end = find_end(rw, index, &s), out = graph->nodes[end].out[0];
    const int32_t scales = graph->nodes[s.scales].out[0];
    int32_t weight;
    QB_TRY(centre(rw, graph->nodes[s.product].in[1], qb_node_in(&graph->nodes[s.product], 3),
                  &weight));
    const qb_node *product = &graph->nodes[s.product];
    const int32_t in[] = {product->in[0],         weight, s.a_scale, s.b_scale,
                          qb_node_in(product, 2), -1,     s.bias};
    const bool shared = !is_inner(rw, scales);
    qb_rewrite_kill(rw, s.cast);
    qb_rewrite_kill(rw, s.product);
    if (!shared) qb_rewrite_kill(rw, s.scales);
    if (end != index) qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return qb_rewrite_node(rw, end, qb_op_find("MatMulIntegerToFloat", "com.microsoft"), in,
                           s.bias < 0 ? 5 : 7, out);
}

/* A product with scales that the file has as one. */
static qb_status match_zero(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    const int32_t zero = qb_node_in(node, 5), bias = qb_node_in(node, 6);
    int32_t weight;
    if (zero < 0 || !is_centred_s8(rw->graph, node->in[1], zero)) return QB_OK;
    QB_TRY(centre(rw, node->in[1], zero, &weight));
    node = &rw->graph->nodes[index];
    const int32_t in[] = {node->in[0],         weight, node->in[2], node->in[3],
                          qb_node_in(node, 4), -1,     bias};
    QB_TRY(qb_rewrite_inputs(rw, index, in, bias < 0 ? 5 : 7));
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_op *op = rw->graph->nodes[index].op;
    return op == qb_op_find("MatMulIntegerToFloat", "com.microsoft") ? match_zero(rw, index)
                                                                     : match_scaled(rw, index);
}

qb_status qb_fuse_integers(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    return qb_rewrite_fuse(&rw, match, n_changes);
}

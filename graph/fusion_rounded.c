/* Sums of what a convolution or a product gives in quantized values of its own: one group, which
 * rounds twice. */
#include <string.h>

#include "graph/fusion_backwards.h"

static bool is_u8_or_s8(const qb_value *v) {
    return qb_value_has_one_scale(v) && v->q.n == 1 &&
           (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

static bool is_addend(const qb_graph *graph, int32_t value) {
    const qb_value *v = &graph->values[value];
    return !v->data && (is_u8_or_s8(v) || (v->dtype == QB_DTYPE_F32 && v->q.n == 0));
}

/* Quantized values from the zero point on: what is negative becomes the zero point without it. */
static bool is_implied(qb_act act, const qb_rounding *r) {
    return act.kind == QB_ACT_RELU && r->zero == (r->dtype == QB_DTYPE_U8 ? 0 : INT8_MIN);
}

/* The group of the Add in `sum`, whose operand `value` its anchor `product` makes: with one
 * activation at most. */
static bool merge(const qb_graph *graph, const qb_group *product, const qb_group *sum,
                  int32_t value, qb_group *out) {
    const qb_value *v = &graph->values[value];
    *out = *product;
    if (product->n_nodes + sum->n_nodes > QB_GROUP_NODES) return false;
    memcpy(out->node + out->n_nodes, sum->node, (size_t)sum->n_nodes * sizeof *sum->node);
    out->n_nodes += sum->n_nodes;
    out->out = sum->out;
    out->rounding = (qb_rounding){v->dtype, v->q.scale[0], v->q.zero ? v->q.zero[0] : 0};
    if (is_implied(out->act, &out->rounding)) out->act = (qb_act){0};
    out->act_first = out->act.kind != QB_ACT_NONE;
    if (sum->act.kind == QB_ACT_NONE) return true;
    if (out->act_first) return false;
    out->act = sum->act;
    return true;
}

/* Does a product of integers without a residual make the value, for the sum alone and in its shape?
 * Products of floats are not exact, and what is rounded of them would be off by steps of the sum.
 */
static bool is_product(const qb_fusing *f, int32_t value, int32_t sum) {
    const qb_graph *graph = f->graph;
    const qb_value *v = &graph->values[value];
    if (f->maker[value] < 0 || !is_u8_or_s8(v) || v->kept || f->uses.n_users[value] != 1 ||
        qb_graph_is_output(graph, value) || !qb_shape_equal(&v->shape, &graph->values[sum].shape))
        return false;
    const qb_group *group = &f->groups->group[f->maker[value]];
    if ((group->kind != QB_KIND_CONV && group->kind != QB_KIND_MATMUL) ||
        group->in[QB_IN_RESIDUAL] >= 0)
        return false;
    const qb_value *weight = &graph->values[group->in[QB_IN_WEIGHT]];
    return weight->data && weight->q.n > 0 && graph->values[group->in[QB_IN_DATA]].q.n > 0;
}

static qb_status try_operand(qb_fusing *f, qb_group *sum, int32_t i, bool *done) {
    const int32_t *in = sum->in, value = in[i], other = in[1 - i];
    const qb_graph *graph = f->graph;
    qb_group merged;
    qb_desc desc[4];
    int32_t inputs[4];
    qb_problem problem;
    if (!is_product(f, value, sum->out) || !is_addend(graph, other) ||
        !qb_shape_equal(&graph->values[other].shape, &graph->values[sum->out].shape))
        return QB_OK;
    qb_group *product = &f->groups->group[f->maker[value]];
    if (!merge(graph, product, sum, value, &merged)) return QB_OK;
    merged.in = memcpy(inputs, product->in, sizeof inputs);
    merged.in[QB_IN_RESIDUAL] = other;
    QB_TRY(qb_group_problem(f->cx, graph, &merged, desc, &problem));
    if (merged.kind == QB_KIND_CONV) /* matrices are rows */
        desc[QB_IN_DATA].layout = desc[QB_IN_RESIDUAL].layout = problem.out.layout = QB_LAYOUT_ANY;
    *done = f->accept(f->user, &problem);
    if (!*done) return QB_OK;
    merged.in = memcpy(product->in, inputs, sizeof inputs);
    *product = (qb_group){.out = product->out};
    *sum = merged;
    return QB_OK;
}

/* The later one of two products takes the other's result in. */
static qb_status fuse(qb_fusing *f, int32_t g) {
    qb_group *sum = &f->groups->group[g];
    bool done = false;
    if (sum->kind != QB_KIND_BINARY || !qb_node_is(&f->graph->nodes[sum->node[0]], "Add") ||
        sum->in[0] == sum->in[1])
        return QB_OK;
    const int32_t later = f->maker[sum->in[1]] > f->maker[sum->in[0]];
    QB_TRY(try_operand(f, sum, later, &done));
    return done ? QB_OK : try_operand(f, sum, 1 - later, &done);
}

const bool *qb_filter_constants(const qb_problem *problem) {
    static const bool none[QB_MAX_INPUTS] = {false};
    static const bool weights[QB_MAX_INPUTS] = {[QB_IN_WEIGHT] = true, [QB_IN_BIAS] = true};
    return problem->rounding.dtype == QB_DTYPE_NONE ? none : weights;
}

qb_status qb_fuse_rounded_sums(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept,
                               const void *user, qb_groups *groups) {
    qb_fusing f = {.cx = cx, .graph = graph, .groups = groups, .accept = accept, .user = user};
    return qb_fuse_backwards(&f, fuse);
}

/* Groups: each node belongs to exactly one, and a group runs where its last node stands.
 *
 * That place is always a legal one: what the other nodes of the group read was written before it,
 * and nothing outside reads a value from inside. So a residual that is computed after the anchor is
 * no obstacle. Anchors are looked at from the last to the first: where both sides of an Add are
 * convolutions, the later one takes it and the earlier one's result is the residual. */
#include "graph/fusion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite_internal.h"

typedef struct fuser {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_uses uses;
    bool *taken; /* [n_nodes] */
    qb_groups *out;
} fuser;

/* --- what may be fused ------------------------------------------------------------------------ */

/* Float 32, or integers with one scale for the whole tensor. */
static bool is_float(const qb_graph *graph, int32_t value) {
    if (value < 0) return false;
    const qb_value *v = &graph->values[value];
    return v->q.n == 0 ? v->dtype == QB_DTYPE_F32 : v->q.n == 1;
}

static bool is_byte(qb_dtype dtype) { return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8; }

/* A weight to go with float data: float 32 (then the arithmetic is, also where the data are
 * integers, as for a layer that was kept in float), or both 8-bit integers, the weight's scales
 * being one or along `axis`. One that is computed may be quantized beside floats, too. */
static bool is_weight(const qb_graph *graph, int32_t value, int32_t data, int32_t axis) {
    const qb_value *w = &graph->values[value], *x = &graph->values[data];
    if (w->q.n == 0) return w->dtype == QB_DTYPE_F32;
    if (!w->data && x->q.n == 0) return is_byte(w->q.dtype) && w->q.n == 1;
    return is_byte(w->q.dtype) && is_byte(x->q.dtype) && (w->q.n == 1 || w->q.axis == axis);
}

/* A constant with one number a channel: [n], or [1, ..., 1, n] where `rows`; int32 beside an
 * integer weight only. */
static bool is_bias(const qb_graph *graph, int32_t value, int32_t weight, int64_t n, bool rows) {
    if (!qb_value_is_const(graph, value)) return false;
    const qb_value *v = &graph->values[value];
    const qb_shape *s = &v->shape;
    if (s->rank < 1 || s->dim[s->rank - 1] != n || qb_shape_count(s) != n) return false;
    if (s->rank > 1 && !rows) return false;
    if (v->q.n == 0) return v->dtype == QB_DTYPE_F32;
    return v->q.dtype == QB_DTYPE_S32 && graph->values[weight].q.n > 0;
}

/* May the value stay inside a group, given that all its users are in it? */
static bool may_vanish(const fuser *f, int32_t value) {
    return qb_value_is_plain(f->graph, value) && !f->graph->values[value].kept &&
           !qb_graph_is_output(f->graph, value);
}

/* The free node that alone reads the value, which may vanish; else -1. */
static int32_t next_of(const fuser *f, int32_t value) {
    if (!may_vanish(f, value)) return -1;
    int32_t user = qb_uses_sole_user(f->graph, &f->uses, value);
    return user >= 0 && !f->taken[user] ? user : -1;
}

/* --- activations ------------------------------------------------------------------------------ */

static bool clip_act(const qb_graph *graph, const qb_node *node, qb_act *act) {
    double low = -INFINITY, high = INFINITY;
    int32_t min = qb_node_in(node, 1), max = qb_node_in(node, 2);
    if (min >= 0 && !qb_value_scalar(graph, min, &low)) return false;
    if (max >= 0 && !qb_value_scalar(graph, max, &high)) return false;
    *act = (qb_act){QB_ACT_CLIP, (float)low, (float)high};
    if (low == 0 && high == INFINITY) *act = (qb_act){.kind = QB_ACT_RELU};
    return true;
}

static bool gelu_act(const qb_node *node, qb_act *act) {
    bool tanh_approximation = strcmp(qb_node_string(node, "approximate", "none"), "tanh") == 0;
    act->kind = tanh_approximation ? QB_ACT_GELU_TANH : QB_ACT_GELU;
    return true;
}

/* The activation that a node with one data input computes. */
static bool act_of(const qb_graph *graph, const qb_node *node, qb_act *act) {
    double slope;
    *act = (qb_act){0};
    if (!node->op) return false;
    const qb_act_kind kind = node->op->kernel.act;
    if (kind == QB_ACT_NONE) return false;
    if (kind == QB_ACT_CLIP) return clip_act(graph, node, act);
    if (kind == QB_ACT_GELU) return gelu_act(node, act);
    *act = (qb_act){kind, qb_node_float(node, "alpha", 0), qb_node_float(node, "beta", 0)};
    if (node->n_in == 1) return true;
    if (!qb_value_scalar(graph, qb_node_in(node, 1), &slope)) return false; /* PRelu */
    act->alpha = (float)slope;
    return true;
}

/* The Mul of value * Sigmoid(value), where `sigmoid` is the free node that reads `value` and whose
 * result only that Mul reads; else -1. */
static int32_t silu_product(const fuser *f, int32_t value, int32_t sigmoid) {
    const qb_node *node = &f->graph->nodes[sigmoid];
    if (f->taken[sigmoid] || !qb_node_is(node, "Sigmoid") || node->in[0] != value) return -1;
    int32_t mul = next_of(f, node->out[0]);
    if (mul < 0 || !qb_node_is(&f->graph->nodes[mul], "Mul")) return -1;
    const int32_t *in = f->graph->nodes[mul].in;
    int32_t other = in[0] == node->out[0] ? in[1] : in[0];
    return other == value ? mul : -1;
}

/* --- building a group ------------------------------------------------------------------------- */

typedef struct pattern {
    qb_group group;
    int32_t in[4]; /* CONV, CONV_TRANSPOSE, MATMUL, BINARY */
} pattern;

static void add_node(pattern *d, int32_t node) { d->group.node[d->group.n_nodes++] = node; }

/* Adds a bias to a MATMUL without one. */
static void take_bias(const fuser *f, pattern *d) {
    const qb_graph *graph = f->graph;
    int32_t value = d->group.out, add = next_of(f, value);
    if (d->in[QB_IN_BIAS] >= 0 || add < 0 || !qb_node_is(&graph->nodes[add], "Add")) return;
    const qb_node *node = &graph->nodes[add];
    int32_t bias = node->in[0] == value ? node->in[1] : node->in[0];
    const qb_shape *shape = &graph->values[value].shape;
    if (shape->rank < 2 ||
        !is_bias(graph, bias, d->in[QB_IN_WEIGHT], shape->dim[shape->rank - 1], true))
        return;
    if (!qb_value_is_plain(graph, bias) || graph->values[bias].shape.rank > shape->rank) return;
    d->in[QB_IN_BIAS] = bias;
    d->group.out = node->out[0];
    add_node(d, add);
}

static bool take_residual(const fuser *f, pattern *d) {
    const qb_graph *graph = f->graph;
    int32_t value = d->group.out, add = next_of(f, value);
    if (add < 0 || !qb_node_is(&graph->nodes[add], "Add")) return false;
    const qb_node *node = &graph->nodes[add];
    int32_t other = node->in[0] == value ? node->in[1] : node->in[0];
    if (qb_value_is_const(graph, other) || !is_float(graph, other)) return false;
    if (!qb_shape_surely_equal(&graph->values[value].shape, &graph->values[other].shape))
        return false;
    d->in[QB_IN_RESIDUAL] = other;
    d->group.out = node->out[0];
    add_node(d, add);
    return true;
}

static bool take_silu(const fuser *f, pattern *d) {
    int32_t value = d->group.out;
    if (!may_vanish(f, value) || f->uses.n_users[value] != 2) return false;
    for (int32_t i = 0; i < 2; i++) {
        int32_t sigmoid = f->uses.users[value][i], mul = silu_product(f, value, sigmoid);
        if (mul < 0 || f->uses.users[value][1 - i] != mul) continue;
        d->group.act = (qb_act){.kind = QB_ACT_SILU};
        d->group.out = f->graph->nodes[mul].out[0];
        add_node(d, sigmoid);
        add_node(d, mul);
        return true;
    }
    return false;
}

static bool take_act(const fuser *f, pattern *d) {
    int32_t node = next_of(f, d->group.out);
    qb_act act;
    if (node < 0) return take_silu(f, d);
    if (f->graph->nodes[node].in[0] != d->group.out ||
        !act_of(f->graph, &f->graph->nodes[node], &act))
        return false;
    d->group.act = act;
    d->group.out = f->graph->nodes[node].out[0];
    add_node(d, node);
    return true;
}

static qb_status commit(fuser *f, const pattern *d, const int32_t *in, int32_t n_in) {
    qb_group *group = &f->out->group[f->out->n];
    int32_t *copy = qb_arena_pack(f->cx, f->out->arena, (size_t)n_in, sizeof *copy);
    if (!copy) return f->cx->code;
    if (n_in) memcpy(copy, in, (size_t)n_in * sizeof *copy);
    *group = d->group;
    group->in = copy;
    group->n_in = n_in;
    for (int32_t i = 0; i < group->n_nodes; i++) f->taken[group->node[i]] = true;
    f->out->n++;
    return QB_OK;
}

/* --- anchors ---------------------------------------------------------------------------------- */

static bool match_conv(const fuser *f, int32_t index, pattern *d) {
    const qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    const qb_kind kind = node->op->kernel.kind;
    const bool transpose = kind == QB_KIND_CONV_TRANSPOSE;
    if (!transpose && kind != QB_KIND_CONV) return false;
    int32_t x = node->in[0], w = node->in[1], bias = qb_node_in(node, 2);
    int32_t rank = graph->values[x].shape.rank;
    const qb_shape *out = &graph->values[node->out[0]].shape;
    if (!is_float(graph, x) || !is_float(graph, node->out[0]) || rank < 3 || rank > 5) return false;
    if (graph->values[w].shape.rank != rank || !is_weight(graph, w, x, transpose ? 1 : 0))
        return false;
    if (bias >= 0 && !is_bias(graph, bias, w, out->dim[1], false)) return false;
    d->group.kind = kind;
    d->in[QB_IN_DATA] = x;
    d->in[QB_IN_WEIGHT] = w;
    d->in[QB_IN_BIAS] = bias;
    return true;
}

static bool match_matmul(const fuser *f, int32_t index, pattern *d) {
    const qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    if (node->op->kernel.kind != QB_KIND_MATMUL) return false;
    int32_t a = node->in[0], b = node->in[1], bias = qb_node_in(node, 2);
    const qb_shape *out = &graph->values[node->out[0]].shape;
    int32_t rank = graph->values[b].shape.rank;
    if (graph->values[a].shape.rank < 2 || rank < 2 || out->rank < 2) return false;
    if (!is_float(graph, a) || !is_float(graph, node->out[0])) return false;
    if (!qb_value_is_const(graph, b) && !is_float(graph, b)) return false;
    bool transposed = qb_node_int(node, "transB", 0) != 0;
    if (!is_weight(graph, b, a, transposed ? rank - 2 : rank - 1)) return false;
    if (bias >= 0 &&
        (qb_node_float(node, "beta", 1) != 1 || !is_bias(graph, bias, b, out->dim[1], true)))
        return false;
    d->group.kind = QB_KIND_MATMUL;
    d->in[QB_IN_DATA] = a;
    d->in[QB_IN_WEIGHT] = b;
    d->in[QB_IN_BIAS] = bias;
    return true;
}

static pattern new_pattern(const fuser *f, int32_t index) {
    const qb_node *node = &f->graph->nodes[index];
    pattern d = {.in = {-1, -1, -1, -1}};
    d.group.out = -1;
    for (int32_t i = node->n_out - 1; i >= 0; i--)
        if (node->out[i] >= 0) d.group.out = node->out[i];
    add_node(&d, index);
    return d;
}

static qb_status fuse_anchor(fuser *f, int32_t index) {
    pattern d = new_pattern(f, index);
    if (!match_conv(f, index, &d) && !match_matmul(f, index, &d)) return QB_OK;
    bool residual = false;
    if (d.group.kind == QB_KIND_MATMUL) take_bias(f, &d);
    if (d.group.kind != QB_KIND_CONV_TRANSPOSE) residual = take_residual(f, &d);
    if (take_act(f, &d) && !residual && d.group.kind != QB_KIND_CONV_TRANSPOSE)
        d.group.act_first = take_residual(f, &d);
    return commit(f, &d, d.in, d.group.kind == QB_KIND_CONV_TRANSPOSE ? 3 : 4);
}

static bool is_binary(const qb_graph *graph, const qb_node *node) {
    return node->op->kernel.kind == QB_KIND_BINARY && node->n_in == 2 &&
           is_float(graph, node->in[0]) && is_float(graph, node->in[1]) &&
           is_float(graph, node->out[0]);
}

static bool is_pool(const qb_graph *graph, const qb_node *node) {
    if (node->op->kernel.kind != QB_KIND_POOL &&
        !(qb_node_is_spatial_mean(graph, node) && qb_node_int(node, "keepdims", 1)))
        return false;
    int32_t rank = graph->values[node->in[0]].shape.rank;
    if (node->n_out > 1 && node->out[1] >= 0) return false;
    return rank >= 3 && rank <= 5 && is_float(graph, node->in[0]) && is_float(graph, node->out[0]);
}

static bool is_concat(const qb_graph *graph, const qb_node *node) {
    if (node->op->kernel.kind != QB_KIND_CONCAT || node->n_in > QB_MAX_INPUTS) return false;
    for (int32_t i = 0; i < node->n_in; i++)
        if (!is_float(graph, node->in[i])) return false;
    return is_float(graph, node->out[0]) && graph->values[node->out[0]].shape.rank >= 1;
}

static bool is_softmax(const qb_graph *graph, const qb_node *node) {
    return node->op->kernel.kind == QB_KIND_SOFTMAX && is_float(graph, node->in[0]) &&
           is_float(graph, node->out[0]) && graph->values[node->in[0]].shape.rank >= 1;
}

/* Where(IsNaN(s), 0, s) behind a Softmax, as PyTorch writes attention: a line where everything is
 * masked becomes 0. */
static void take_nan_guard(const fuser *f, pattern *d) {
    const qb_graph *graph = f->graph;
    const int32_t value = d->group.out;
    if (!may_vanish(f, value) || f->uses.n_users[value] != 2) return;
    for (int32_t i = 0; i < 2; i++) {
        int32_t test = f->uses.users[value][i], where = f->uses.users[value][1 - i];
        if (!qb_node_is(&graph->nodes[test], "IsNaN") || !qb_node_is(&graph->nodes[where], "Where"))
            continue;
        const qb_node *choice = &graph->nodes[where];
        double otherwise;
        const int32_t is_nan = graph->nodes[test].out[0];
        if (qb_graph_is_output(graph, is_nan) || choice->in[0] != is_nan ||
            qb_uses_sole_user(graph, &f->uses, is_nan) != where || choice->in[2] != value ||
            !qb_value_scalar(graph, choice->in[1], &otherwise) || otherwise != 0 ||
            graph->values[choice->in[1]].shape.rank > graph->values[value].shape.rank)
            continue;
        d->group.out = choice->out[0];
        add_node(d, test);
        add_node(d, where);
        return;
    }
}

static bool match_unary(const fuser *f, int32_t index, pattern *d) {
    const qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    if (!act_of(graph, node, &d->group.act)) return false;
    int32_t x = node->in[0], mul = silu_product(f, x, index);
    if (!is_float(graph, x) || !is_float(graph, d->group.out)) return false;
    d->group.kind = QB_KIND_UNARY;
    if (mul < 0 || !is_float(graph, graph->nodes[mul].out[0])) return true;
    d->group.act = (qb_act){.kind = QB_ACT_SILU};
    d->group.out = graph->nodes[mul].out[0];
    add_node(d, mul);
    return true;
}

/* What is left after the anchors, in order. */
static qb_status fuse_rest(fuser *f, int32_t index) {
    const qb_graph *graph = f->graph;
    const qb_node *node = &graph->nodes[index];
    pattern d = new_pattern(f, index);
    if (is_binary(graph, node)) {
        d.group.kind = QB_KIND_BINARY;
        take_act(f, &d);
        return commit(f, &d, node->in, 2);
    }
    if (match_unary(f, index, &d)) return commit(f, &d, node->in, 1);
    d.group.act = (qb_act){0};
    d.group.kind = is_pool(graph, node)      ? QB_KIND_POOL
                   : is_softmax(graph, node) ? QB_KIND_SOFTMAX
                   : is_concat(graph, node)  ? QB_KIND_CONCAT
                                             : QB_KIND_NODE;
    if (d.group.kind == QB_KIND_SOFTMAX) take_nan_guard(f, &d);
    bool one_input = d.group.kind == QB_KIND_POOL || d.group.kind == QB_KIND_SOFTMAX;
    return commit(f, &d, node->in, one_input ? 1 : node->n_in);
}

static int compare_last(const void *a, const void *b) {
    const qb_group *p = a, *q = b;
    int32_t i = p->node[p->n_nodes - 1], j = q->node[q->n_nodes - 1];
    return (i > j) - (i < j);
}

static qb_status fuse(fuser *f) {
    const qb_graph *graph = f->graph;
    for (int32_t i = graph->n_nodes - 1; i >= 0; i--)
        if (graph->nodes[i].op) QB_TRY(fuse_anchor(f, i));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op && !f->taken[i]) QB_TRY(fuse_rest(f, i));
    qsort(f->out->group, (size_t)f->out->n, sizeof *f->out->group, compare_last);
    return QB_OK;
}

qb_status qb_fuse(qb_ctx *cx, const qb_graph *graph, qb_groups *out) {
    qb_groups groups = {0};
    fuser f = {.cx = cx, .graph = graph, .out = &groups};
    qb_status status = QB_OK;
    QB_GO(qb_arena_create(cx, &groups.arena));
    QB_GO(qb_uses_build(cx, graph, &f.uses));
    f.taken = qb_alloc(cx, (size_t)graph->n_nodes, sizeof *f.taken);
    groups.group = qb_arena_alloc(cx, groups.arena, (size_t)graph->n_nodes, sizeof *groups.group);
    if (!f.taken || !groups.group) QB_GO(cx->code);
    QB_GO(fuse(&f));
    *out = groups;
    groups = (qb_groups){0};
out:
    qb_groups_release(&groups);
    qb_uses_release(&f.uses);
    qb_free(f.taken);
    return status;
}

void qb_groups_release(qb_groups *groups) {
    if (!groups) return;
    qb_arena_free(groups->arena);
    *groups = (qb_groups){0};
}

static bool all_are(qb_ints list, int64_t wanted) {
    for (int64_t i = 0; i < list.n; i++)
        if (list.v[i] != wanted) return false;
    return true;
}

bool qb_group_prepares_image(const qb_graph *graph, const qb_group *group) {
    if (group->kind != QB_KIND_CONV || group->in[QB_IN_RESIDUAL] >= 0) return false;
    const qb_node *conv = &graph->nodes[group->node[0]];
    const int64_t n = qb_image_channels(graph, group->in[QB_IN_DATA]);
    const qb_shape *weight = &graph->values[group->in[QB_IN_WEIGHT]].shape;
    return n > 0 && qb_node_int(conv, "group", 1) == n && qb_shape_count(weight) == n &&
           weight->dim[0] == n && all_are(qb_node_ints(conv, "strides"), 1) &&
           all_are(qb_node_ints(conv, "pads"), 0);
}

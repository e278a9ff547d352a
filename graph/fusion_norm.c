/* Group normalization as exporters write it: Reshape to [N, groups, the rest], instance
 * normalization of that, Reshape back, and a factor and a term for each channel. As one node it
 * runs in whatever layout the data lie. */
#include <math.h>

#include "graph/fusion.h"
#include "graph/rewrite_internal.h"

/* What the normalized channels are multiplied with and what is added. */
typedef struct factors {
    int64_t groups, channels;
    double *scale, *shift, *more;
} factors;

static void spread(const qb_graph *graph, int32_t of_groups, const factors *f, double *to) {
    const float *from = qb_value_floats(graph, of_groups);
    for (int64_t c = 0; c < f->channels; c++) to[c] = (double)from[c / (f->channels / f->groups)];
}

static qb_status as_constant(qb_rewrite *rw, int32_t like, const double *from, int64_t n,
                             int32_t *out) {
    const qb_shape shape = {.rank = 1, .dim = {n}};
    QB_FREED float *to = qb_alloc(rw->cx, (size_t)n, sizeof *to);
    if (!to) return rw->cx->code;
    for (int64_t c = 0; c < n; c++) to[c] = (float)from[c];
    return qb_rewrite_floats(rw, like, "_channels", &shape, to, out);
}

/* The node that multiplies or shifts the channels of node `index`'s result, which it alone reads;
 * -1: none. */
static int32_t take_affine(const qb_rewrite *rw, int32_t index, const factors *f) {
    const qb_graph *graph = rw->graph;
    const int32_t value = graph->nodes[index].out[0];
    const int32_t user = qb_uses_sole_user(graph, &rw->uses, value);
    if (user < 0 || !qb_value_is_plain(graph, value) || graph->values[value].kept) return -1;
    const qb_node *node = &graph->nodes[user];
    const qb_affine kind =
        qb_affine_of(node) == QB_AFFINE_NONE
            ? QB_AFFINE_NONE
            : qb_affine_numbers(graph, node, node->in[1] == value, 1, f->channels, f->more);
    if (kind == QB_AFFINE_NONE ||
        !qb_shape_equal(&graph->values[node->out[0]].shape, &graph->values[value].shape))
        return -1;
    for (int64_t c = 0; c < f->channels; c++)
        if (!isfinite((float)f->more[c])) return -1;
    for (int64_t c = 0; c < f->channels; c++) {
        if (kind == QB_AFFINE_SCALE) f->scale[c] *= f->more[c];
        f->shift[c] = kind == QB_AFFINE_SCALE ? f->shift[c] * f->more[c] : f->shift[c] + f->more[c];
    }
    return user;
}

static bool is_numbers(const qb_graph *graph, int32_t value, int64_t n) {
    return qb_value_floats(graph, value) && qb_shape_count(&graph->values[value].shape) == n;
}

/* Are the groups the value's floats? A Reshape of quantized values dequantizes them. */
static bool may_be_read(const qb_graph *graph, int32_t x, int32_t groups) {
    const qb_qparams *q = &graph->values[x].q;
    return (q->n == 0 ? qb_value_is_plain(graph, x) : q->n == 1) &&
           (qb_value_is_plain(graph, groups) || qb_qparams_same(q, &graph->values[groups].q));
}

qb_status qb_match_group_norm(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!qb_node_is(node, "InstanceNormalization")) return QB_OK;
    const int32_t before = qb_rewrite_from(rw, node->in[0], "Reshape");
    const int32_t behind = qb_uses_sole_user(graph, &rw->uses, node->out[0]);
    if (before < 0 || behind < 0 || !qb_node_is(&graph->nodes[behind], "Reshape") ||
        graph->nodes[behind].in[0] != node->out[0])
        return QB_OK;
    const int32_t x = graph->nodes[before].in[0], y = graph->nodes[behind].out[0];
    const qb_shape *whole = &graph->values[x].shape, *parts = &graph->values[node->in[0]].shape;
    if (whole->rank < 3 || !qb_shape_known(whole) || !qb_shape_known(parts) ||
        !qb_shape_equal(whole, &graph->values[y].shape) || parts->rank < 3 ||
        parts->dim[0] != whole->dim[0] || parts->dim[1] < 1 || whole->dim[1] % parts->dim[1] != 0 ||
        !may_be_read(graph, x, node->in[0]) || !qb_value_is_plain(graph, node->out[0]) ||
        graph->values[y].q.n > 1 || !is_numbers(graph, node->in[1], parts->dim[1]) ||
        !is_numbers(graph, node->in[2], parts->dim[1]))
        return QB_OK;
    const float epsilon = qb_node_float(node, "epsilon", 1e-5f);
    const int32_t gain = node->in[1];
    factors f = {.groups = parts->dim[1], .channels = whole->dim[1]};
    QB_FREED double *numbers = qb_alloc(rw->cx, (size_t)f.channels * 3, sizeof *numbers);
    if (!numbers) return rw->cx->code;
    f.scale = numbers, f.shift = numbers + f.channels, f.more = f.shift + f.channels;
    spread(graph, gain, &f, f.scale);
    spread(graph, node->in[2], &f, f.shift);
    int32_t last = behind, in[3] = {x};
    for (int32_t next = last; next >= 0; next = take_affine(rw, last, &f)) {
        if (next != last) qb_rewrite_kill(rw, last);
        last = next;
    }
    QB_TRY(as_constant(rw, gain, f.scale, f.channels, &in[1]));
    QB_TRY(as_constant(rw, gain, f.shift, f.channels, &in[2]));
    QB_TRY(qb_rewrite_node(rw, last, qb_op_find("GroupNormalization", ""), in, 3,
                           graph->nodes[last].out[0]));
    QB_TRY(qb_node_set_int(rw, last, "num_groups", f.groups));
    QB_TRY(qb_node_set_float(rw, last, "epsilon", epsilon));
    qb_rewrite_changed(rw);
    return QB_OK;
}

qb_status qb_fuse_norms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    qb_rewrite rw = {.cx = cx, .graph = graph};
    int32_t n;
    QB_TRY(qb_fuse_rms_norms(cx, graph, n_changes));
    QB_TRY(qb_rewrite_fuse(&rw, qb_match_group_norm, &n));
    *n_changes += n;
    return QB_OK;
}

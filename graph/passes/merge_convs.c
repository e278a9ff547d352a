/* The sum of two convolutions of one value is one convolution: the windows lie over each other, and
 * weights and biases are added. Networks that are trained with several branches and exported with
 * them (RepVGG, MobileOne, GhostNetV3) compute a fraction of their products afterwards.
 *
 * Windows may differ in size and padding, groups may divide each other. What would multiply more
 * than both do stays: 1 x 3 beside 3 x 1, 1 x 1 beside a depthwise 3 x 3. */
#include <math.h>

#include "graph/passes_internal.h"

#define MAX_SPATIAL (QB_MAX_RANK - 2)

typedef struct branch {
    int32_t node, n; /* dimensions of the window */
    const float *weight, *bias;
    int64_t out, in, group; /* channels */
    int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
    int64_t begin[MAX_SPATIAL], end[MAX_SPATIAL];
} branch;

static bool read_window(qb_rewrite *rw, const qb_node *node, const qb_shape *weight, branch *b) {
    const qb_ints stride = qb_node_ints(node, "strides"),
                  dilation = qb_node_ints(node, "dilations");
    int64_t pads[2 * MAX_SPATIAL];
    if ((stride.n && stride.n != b->n) || (dilation.n && dilation.n != b->n) ||
        !qb_node_pads(rw, node, b->n, pads))
        return false;
    for (int32_t i = 0; i < b->n; i++) {
        b->kernel[i] = weight->dim[2 + i];
        b->stride[i] = stride.n ? stride.v[i] : 1;
        b->dilation[i] = dilation.n ? dilation.v[i] : 1;
        b->begin[i] = pads[i];
        b->end[i] = pads[b->n + i];
    }
    return true;
}

/* The Conv of constants that makes the value for node `add` alone. */
static bool read_branch(qb_rewrite *rw, int32_t value, int32_t add, branch *b) {
    const qb_graph *graph = rw->graph;
    *b = (branch){.node = qb_rewrite_from(rw, value, "Conv")};
    if (b->node < 0 || graph->values[value].kept || !qb_value_is_plain(graph, value) ||
        qb_uses_sole_user(graph, &rw->uses, value) != add)
        return false;
    const qb_node *node = &graph->nodes[b->node];
    const int32_t weight = node->in[1], bias = qb_node_in(node, 2);
    const qb_shape *shape = &graph->values[weight].shape;
    if (!qb_value_is_const(graph, weight) || !qb_value_is_plain(graph, weight) || shape->rank < 3 ||
        (bias >= 0 && (!qb_value_is_const(graph, bias) || !qb_value_is_plain(graph, bias))))
        return false;
    b->n = shape->rank - 2;
    b->weight = (const float *)graph->values[weight].data;
    b->bias = bias >= 0 ? (const float *)graph->values[bias].data : NULL;
    b->group = qb_node_int(node, "group", 1);
    b->out = shape->dim[0];
    b->in = shape->dim[1] * b->group;
    return read_window(rw, node, shape, b);
}

static int64_t products(const branch *b) {
    int64_t n = b->in / b->group;
    for (int32_t i = 0; i < b->n; i++) n *= b->kernel[i];
    return n;
}

/* Elements that a window reaches beyond the last one it begins at, and the image without them. */
static int64_t reach(const branch *b, int32_t i) { return (b->kernel[i] - 1) * b->dilation[i]; }
static int64_t padded(const branch *b, int32_t i) { return b->begin[i] + b->end[i] - reach(b, i); }

/* The window that covers both, without weights. */
static bool cover(const branch *a, const branch *b, branch *both) {
    *both = *a;
    both->weight = both->bias = NULL;
    both->group = a->group < b->group ? a->group : b->group;
    if (a->n != b->n || a->out != b->out || a->in != b->in || a->group % both->group != 0 ||
        b->group % both->group != 0)
        return false;
    for (int32_t i = 0; i < a->n; i++) {
        const int64_t step = a->kernel[i] > 1 ? a->dilation[i] : b->dilation[i];
        if (a->stride[i] != b->stride[i] || (b->kernel[i] > 1 && b->dilation[i] != step) ||
            padded(a, i) != padded(b, i) || (a->begin[i] - b->begin[i]) % step != 0)
            return false;
        const int64_t after_a = reach(a, i) - a->begin[i], after_b = reach(b, i) - b->begin[i];
        const int64_t last = after_a > after_b ? after_a : after_b; /* where windows begin: 0 */
        both->dilation[i] = step;
        both->begin[i] = a->begin[i] > b->begin[i] ? a->begin[i] : b->begin[i];
        both->kernel[i] = (last + both->begin[i]) / step + 1;
        both->end[i] = padded(a, i) - both->begin[i] + reach(both, i);
    }
    return products(both) <= products(a) + products(b);
}

/* The branch's weights, where the larger window has them. */
static void add_weights(const branch *b, const branch *both, float *to) {
    const int64_t channels = b->in / b->group, all = both->in / both->group;
    int64_t taps = 1, places = 1;
    for (int32_t i = 0; i < b->n; i++) taps *= b->kernel[i], places *= both->kernel[i];
    for (int64_t o = 0; o < b->out; o++) {
        const int64_t first = o / (b->out / b->group) * channels;
        const int64_t skipped = first - o / (both->out / both->group) * all;
        for (int64_t k = 0; k < channels * taps; k++) {
            int64_t place = 0, size = 1;
            for (int64_t i = b->n - 1, rest = k % taps; i >= 0; rest /= b->kernel[i--]) {
                const int64_t before = (both->begin[i] - b->begin[i]) / both->dilation[i];
                place += (before + rest % b->kernel[i]) * size;
                size *= both->kernel[i];
            }
            to[(o * all + skipped + k / taps) * places + place] +=
                b->weight[o * channels * taps + k];
        }
    }
}

static bool are_finite(const float *v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

/* Weights and bias of both; *done is false where sums overflow. */
static qb_status add_constants(qb_rewrite *rw, const branch *a, const branch *b, const branch *both,
                               int32_t *in, bool *done) {
    const qb_node *node = &rw->graph->nodes[a->node];
    qb_shape shape = {.rank = 2 + both->n, .dim = {both->out, both->in / both->group}};
    for (int32_t i = 0; i < both->n; i++) shape.dim[2 + i] = both->kernel[i];
    const int64_t n = qb_shape_count(&shape);
    QB_FREED float *weight = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *weight));
    QB_FREED float *bias = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)both->out, sizeof *bias));
    add_weights(a, both, weight);
    add_weights(b, both, weight);
    for (int64_t o = 0; o < both->out; o++)
        bias[o] = (a->bias ? a->bias[o] : 0) + (b->bias ? b->bias[o] : 0);
    *done = are_finite(weight, n) && are_finite(bias, both->out);
    if (!*done) return QB_OK;
    const int32_t out = node->out[0];
    in[0] = node->in[0];
    QB_TRY(qb_rewrite_floats(rw, node->in[1], "_merged", &shape, weight, &in[1]));
    shape = (qb_shape){.rank = 1, .dim = {both->out}};
    return qb_rewrite_floats(rw, out, "_bias", &shape, bias, &in[2]);
}

static qb_status set_window(qb_rewrite *rw, int32_t node, const branch *b) {
    int64_t pads[2 * MAX_SPATIAL];
    for (int32_t i = 0; i < b->n; i++) pads[i] = b->begin[i], pads[b->n + i] = b->end[i];
    QB_TRY(qb_node_set_ints(rw, node, "kernel_shape", b->kernel, b->n));
    QB_TRY(qb_node_set_ints(rw, node, "strides", b->stride, b->n));
    QB_TRY(qb_node_set_ints(rw, node, "dilations", b->dilation, b->n));
    QB_TRY(qb_node_set_ints(rw, node, "pads", pads, 2 * b->n));
    return qb_node_set_int(rw, node, "group", b->group);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    branch a, b, both;
    int32_t in[3];
    bool done;
    if (!qb_node_is(node, "Add") || !qb_value_is_plain(graph, node->out[0]) ||
        !read_branch(rw, node->in[0], index, &a) || !read_branch(rw, node->in[1], index, &b) ||
        graph->nodes[a.node].in[0] != graph->nodes[b.node].in[0] || !cover(&a, &b, &both))
        return QB_OK;
    QB_TRY(add_constants(rw, &a, &b, &both, in, &done));
    if (!done) return QB_OK;
    QB_TRY(qb_rewrite_node(rw, index, graph->nodes[a.node].op, in, 3, node->out[0]));
    QB_TRY(set_window(rw, index, &both));
    qb_rewrite_kill(rw, a.node);
    qb_rewrite_kill(rw, b.node);
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_merge_convs = {
    "merge-convs", "makes one Conv of Convs of one value that are added", .match = match};

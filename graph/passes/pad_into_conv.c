/* A Pad with zeros before a Conv, or before an AveragePool that counts its padding, becomes padding
 * of that node. Quantized values stay as they are: their zero need not be the code 0. */
#include <string.h>

#include "graph/passes_internal.h"

#define MAX_SPATIAL (QB_MAX_RANK - 2)

typedef struct padding {
    int32_t rank;
    int64_t begin[QB_MAX_RANK], end[QB_MAX_RANK];
} padding;

static bool pads_with_zero(const qb_graph *graph, const qb_node *pad) {
    double fill = 0;
    int32_t value = qb_node_in(pad, 2);
    if (strcmp(qb_node_string(pad, "mode", "constant"), "constant") != 0) return false;
    return value < 0 || (qb_value_scalar(graph, value, &fill) && fill == 0);
}

static bool read_padding(const qb_graph *graph, const qb_node *pad, padding *p) {
    int64_t pads[2 * QB_MAX_RANK], axes[QB_MAX_RANK];
    int32_t n = 0, n_axes = 0;
    memset(p, 0, sizeof *p);
    p->rank = graph->values[pad->in[0]].shape.rank;
    if (p->rank < 3 || !pads_with_zero(graph, pad)) return false;
    if (!qb_value_int_list(graph, qb_node_in(pad, 1), pads, 2 * QB_MAX_RANK, &n)) return false;
    if (qb_node_in(pad, 3) >= 0) {
        if (!qb_value_int_list(graph, pad->in[3], axes, QB_MAX_RANK, &n_axes)) return false;
    } else {
        for (n_axes = 0; n_axes < p->rank; n_axes++) axes[n_axes] = n_axes;
    }
    if (n != 2 * n_axes) return false;
    for (int32_t i = 0; i < n_axes; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + p->rank : axes[i];
        if (axis < 0 || axis >= p->rank || pads[i] < 0 || pads[n_axes + i] < 0) return false;
        p->begin[axis] = pads[i];
        p->end[axis] = pads[n_axes + i];
    }
    return p->begin[0] == 0 && p->end[0] == 0 && p->begin[1] == 0 && p->end[1] == 0;
}

bool qb_node_pads(qb_rewrite *rw, const qb_node *node, int32_t n, int64_t *pads) {
    const qb_graph *graph = rw->graph;
    const char *mode = qb_node_string(node, "auto_pad", "NOTSET");
    memset(pads, 0, 2 * (size_t)n * sizeof *pads);
    if (strcmp(mode, "VALID") == 0) return true;
    if (strcmp(mode, "NOTSET") == 0) {
        qb_ints given = qb_node_ints(node, "pads");
        if (given.n != 0 && given.n != 2 * n) return false;
        if (given.n) memcpy(pads, given.v, (size_t)given.n * sizeof *pads);
        return true;
    }
    const qb_shape *x = &graph->values[node->in[0]].shape;
    for (int32_t i = 0; i < n; i++)
        if (x->dim[2 + i] < 0) return false;
    const qb_shape *w = qb_node_in(node, 1) < 0 ? NULL : &graph->values[node->in[1]].shape;
    qb_window window;
    if (n > 3 || qb_op_window(rw->cx, node, x, w, &window) != QB_OK) return false;
    for (int32_t i = 0; i < n; i++) {
        pads[i] = window.pad_begin[i];
        pads[n + i] = window.pad_end[i];
    }
    return true;
}

/* A pool's padding must be smaller than its kernel and must be counted in the mean. */
static bool pool_allows(const qb_node *node, int32_t n, const int64_t *own, const int64_t *sum) {
    qb_ints kernel = qb_node_ints(node, "kernel_shape");
    if (kernel.n != n || qb_node_int(node, "ceil_mode", 0) != 0) return false;
    bool counted = qb_node_int(node, "count_include_pad", 0) != 0;
    for (int32_t i = 0; i < 2 * n; i++) {
        if (own[i] != 0 && !counted) return false;
        if (sum[i] >= kernel.v[i % n]) return false;
    }
    return true;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    qb_node *node = &graph->nodes[index];
    bool pool = qb_node_is(node, "AveragePool");
    if (!pool && !qb_node_is(node, "Conv")) return QB_OK;
    int32_t pad = qb_rewrite_from(rw, node->in[0], "Pad");
    if (pad < 0 || !qb_value_is_plain(graph, node->in[0])) return QB_OK;
    int32_t x = graph->nodes[pad].in[0];
    padding p;
    if (!qb_value_is_plain(graph, x) || !read_padding(graph, &graph->nodes[pad], &p)) return QB_OK;
    int32_t n = p.rank - 2;
    int64_t own[2 * MAX_SPATIAL], sum[2 * MAX_SPATIAL];
    if (!qb_node_pads(rw, node, n, own)) return QB_OK;
    for (int32_t i = 0; i < n; i++) {
        sum[i] = own[i] + p.begin[2 + i];
        sum[n + i] = own[n + i] + p.end[2 + i];
    }
    if (pool && !pool_allows(node, n, own, sum)) return QB_OK;
    QB_TRY(qb_node_set_ints(rw, index, "pads", sum, 2 * n));
    QB_TRY(qb_node_set_string(rw, index, "auto_pad", "NOTSET"));
    if (pool) QB_TRY(qb_node_set_int(rw, index, "count_include_pad", 1));
    node->in[0] = x;
    qb_rewrite_touch(rw, index);
    return qb_rewrite_changed(rw);
}

const qb_pass qb_pass_pad_into_conv = {
    "pad-into-conv", "moves zero padding into the Conv or AveragePool that reads it",
    .match = match};

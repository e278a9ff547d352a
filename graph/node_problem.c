/* Nodes outside of fusion groups as problems for kernels. */
#include <math.h>
#include <string.h>

#include "graph/fusion.h"
#include "graph/rewrite_internal.h"

static bool desc_of(const qb_graph *graph, int32_t value, qb_desc *out) {
    const qb_value *v = &graph->values[value];
    if (!qb_shape_known(&v->shape) || v->q.n > 1) return false;
    *out = (qb_desc){.dtype = v->dtype, .layout = QB_LAYOUT_ROW, .shape = v->shape, .q = v->q};
    return true;
}

/* Quantized values come in as the floats they stand for; constants would have to be converted
 * first. */
static bool make_float(const qb_graph *graph, int32_t value, qb_desc *desc) {
    desc->dtype = QB_DTYPE_F32;
    desc->q = (qb_qparams){.axis = -1};
    return !graph->values[value].data;
}

static bool normal_axis(int64_t axis, int32_t rank, int32_t *out) {
    if (axis < 0) axis += rank;
    *out = (int32_t)axis;
    return axis >= 0 && axis < rank;
}

static bool lower_layer_norm(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    p->n_in = node->n_in;
    p->epsilon = qb_node_float(node, "epsilon", 1e-5f);
    p->rms = node->op->kernel.rms;
    return normal_axis(qb_node_int(node, "axis", -1), graph->values[node->in[0]].shape.rank,
                       &p->axis);
}

/* Each channel is a group of its own where the node names no number of them. */
static bool lower_group_norm(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    p->n_in = 3;
    p->epsilon = qb_node_float(node, "epsilon", 1e-5f);
    p->group = qb_node_int(node, "num_groups", graph->values[node->in[0]].shape.dim[1]);
    return node->n_in == 3;
}

static bool lower_reduce(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const int32_t rank = graph->values[node->in[0]].shape.rank, list = qb_node_in(node, 1);
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0, axis;
    p->n_in = 1;
    p->reduce = node->op->kernel.reduce;
    if (list >= 0 && !qb_value_int_list(graph, list, axes, QB_MAX_RANK, &n)) return false;
    for (int32_t i = 0; i < n; i++) {
        if (!normal_axis(axes[i], rank, &axis)) return false;
        p->axes |= 1u << axis;
    }
    if (n == 0 && !qb_node_int(node, "noop_with_empty_axes", 0)) p->axes = (1u << rank) - 1;
    return n > 0 || p->axes;
}

/* Operators that only move elements, where these stay what they are. */
static bool lower_strided(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    p->kind = QB_KIND_STRIDED_COPY;
    p->n_in = 1;
    return qb_value_same_type(x, y) && qb_node_strided(graph, node, 0, &p->strided);
}

/* Whatever the elements are, as long as all parts have the same form: what is behind ArgMax, too.
 */
static bool lower_concat(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_value *y = &graph->values[node->out[0]];
    if (node->n_in > QB_MAX_INPUTS) return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        const qb_value *x = &graph->values[node->in[i]];
        if (!qb_value_same_type(x, y)) return false;
    }
    p->n_in = node->n_in;
    return normal_axis(qb_node_int(node, "axis", 0), y->shape.rank, &p->axis);
}

/* An axis with the dimensions of the indices in its place is told from indices for each element. */
static bool lower_gather(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const int32_t rank = graph->values[node->in[0]].shape.rank;
    if (lower_strided(graph, node, p)) return true;
    p->kind = QB_KIND_GATHER;
    p->n_in = 2;
    if (graph->values[node->out[0]].shape.rank != rank - 1 + graph->values[node->in[1]].shape.rank)
        p->axis = -1;
    else if (!normal_axis(qb_node_int(node, "axis", 0), rank, &p->axis))
        return false;
    return qb_node_places(graph, node, &p->places);
}

static bool lower_scatter(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    qb_ctx quiet = {0};
    p->n_in = 3;
    return qb_scatter_reduction(&quiet, qb_node_string(node, "reduction", NULL), &p->reduce) ==
               QB_OK &&
           qb_node_places(graph, node, &p->places);
}

static bool lower_grid(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    (void)graph;
    p->n_in = 2;
    return qb_node_grid(node, &p->grid);
}

static bool lower_fourier(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    if (!qb_node_fourier(graph, node, &p->fourier, &p->axis)) return false;
    p->n_in = p->fourier.step > 0 ? node->n_in : 1;
    return true;
}

static bool lower_fold(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    p->n_in = 1;
    return qb_node_fold(graph, node, &p->window);
}

static bool lower_scan(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    int64_t axis;
    int32_t n;
    p->n_in = 1;
    p->scan = (qb_scan){.exclusive = qb_node_int(node, "exclusive", 0) != 0,
                        .reverse = qb_node_int(node, "reverse", 0) != 0};
    return qb_value_int_list(graph, node->in[1], &axis, 1, &n) && n == 1 &&
           normal_axis(axis, graph->values[node->in[0]].shape.rank, &p->axis);
}

/* The output that a kernel makes: places come behind the values that lie there. */
static int32_t output_of(const qb_node *node) {
    const qb_kind kind = node->op->kernel.kind;
    return kind == QB_KIND_ARG || kind == QB_KIND_POOL ? node->op->max_out - 1 : 0;
}

static bool lower_arg(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    p->n_in = 1;
    p->extreme = node->op->kernel.extreme;
    p->extreme.last = qb_node_int(node, "select_last_index", 0) != 0;
    if (!qb_node_int(node, "largest", 1)) p->extreme.smallest = true;
    return normal_axis(qb_node_int(node, "axis", 0), graph->values[node->in[0]].shape.rank,
                       &p->axis);
}

static bool lower_pool(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    qb_ctx quiet;
    qb_ctx_init(&quiet);
    p->kind = QB_KIND_POOL_PLACES;
    p->n_in = 1;
    return node->op->max_out > 1 && !qb_node_int(node, "storage_order", 0) &&
           qb_op_window(&quiet, node, &graph->values[node->in[0]].shape, NULL, &p->window) == QB_OK;
}

static bool lower_pad(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const char *mode = qb_node_string(node, "mode", modes[0]);
    const int32_t rank = graph->values[node->in[0]].shape.rank;
    const int32_t pads = qb_node_in(node, 1), value = qb_node_in(node, 2),
                  list = qb_node_in(node, 3);
    int64_t pad[2 * QB_MAX_RANK], axes[QB_MAX_RANK];
    int32_t n, n_axes = rank, axis, known = 0;
    double number = 0;
    while (known < 4 && strcmp(mode, modes[known]) != 0) known++;
    p->n_in = 1;
    p->padding.mode = (qb_pad_mode)known;
    if (known == 4 || !qb_value_int_list(graph, pads, pad, 2 * QB_MAX_RANK, &n) ||
        (value >= 0 && !qb_value_scalar(graph, value, &number)) ||
        (list >= 0 && !qb_value_int_list(graph, list, axes, QB_MAX_RANK, &n_axes)) ||
        n != 2 * n_axes)
        return false;
    p->padding.value = (float)number;
    for (int32_t i = 0; i < n_axes; i++) {
        if (!normal_axis(list < 0 ? i : axes[i], rank, &axis)) return false;
        p->padding.begin[axis] = pad[i];
    }
    return true;
}

/* As many key heads as query heads, nothing cached, no cap, no causal order, no window. */
static bool lower_attention(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_shape *q = &graph->values[node->in[0]].shape, *k = &graph->values[node->in[1]].shape;
    int64_t heads = qb_node_int(node, "q_num_heads", 0);
    int64_t key_heads = qb_node_int(node, "kv_num_heads", 0);
    if (q->rank == 4 && k->rank == 4) heads = q->dim[1], key_heads = k->dim[1];
    p->n_in = qb_node_in(node, 3) >= 0 ? 4 : 3;
    p->group = heads;
    p->scale = qb_node_float(node, "scale", NAN);
    for (int32_t i = 4; i < node->n_in; i++)
        if (node->in[i] >= 0) return false;
    if (qb_node_int(node, "is_causal", 0) || qb_node_float(node, "softcap", 0) != 0 ||
        qb_node_int(node, "left_window_size", -1) >= 0 ||
        qb_node_int(node, "right_window_size", -1) >= 0 || heads < 1 || heads != key_heads ||
        q->rank < 3)
        return false;
    int64_t size = q->rank == 4 ? q->dim[3] : q->dim[2] / heads;
    if (isnan(p->scale)) p->scale = (float)(1 / sqrt((double)size));
    return true;
}

/* Is the size of dimension `d` of the output exactly the input's times the scale that is meant? */
static bool scales_evenly(const qb_graph *graph, const qb_node *node, int32_t d) {
    int64_t in = graph->values[node->in[0]].shape.dim[d];
    int64_t out = graph->values[node->out[0]].shape.dim[d];
    int32_t scales = qb_node_in(node, 2);
    if (scales < 0 || graph->values[scales].shape.dim[0] == 0) return true; /* sizes */
    const float *scale = graph->values[scales].data;
    return scale && (double)scale[d] * (double)in == (double)out;
}

static bool lower_resize(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_shape *x = &graph->values[node->in[0]].shape, *y = &graph->values[node->out[0]].shape;
    const char *mode = qb_node_string(node, "mode", "nearest");
    const char *transform = qb_node_string(node, "coordinate_transformation_mode", "half_pixel");
    const char *rounding = qb_node_string(node, "nearest_mode", "round_prefer_floor");
    const bool cubic = strcmp(mode, "cubic") == 0 && !qb_node_int(node, "exclude_outside", 0) &&
                       qb_node_float(node, "cubic_coeff_a", -0.75f) == -0.75f;
    const bool linear = cubic || strcmp(mode, "linear") == 0;
    const bool corners = strcmp(transform, "align_corners") == 0;
    bool centred = strcmp(transform, "half_pixel") == 0;
    p->n_in = 1;
    p->resize = cubic ? QB_RESIZE_CUBIC : linear ? QB_RESIZE_LINEAR : QB_RESIZE_NEAREST;
    if (x->rank < 3 || x->rank > 5 || y->rank != x->rank || x->dim[0] != y->dim[0] ||
        x->dim[1] != y->dim[1] || qb_node_int(node, "antialias", 0) ||
        qb_node_ints(node, "axes").n > 0 ||
        strcmp(qb_node_string(node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return false;
    if (strcmp(transform, "pytorch_half_pixel") == 0) { /* another one for a single pixel */
        centred = true;
        for (int32_t d = 2; d < y->rank; d++) centred = centred && y->dim[d] > 1;
    }
    for (int32_t d = 2; d < x->rank; d++) {
        if (x->dim[d] < 1 || !scales_evenly(graph, node, d)) return false;
        /* whole factors: the centre of an output pixel lies in the pixel where its corner lies */
        if (!linear && centred && y->dim[d] % x->dim[d] != 0) return false;
    }
    if (linear && corners) p->resize = cubic ? QB_RESIZE_CUBIC_CORNERS : QB_RESIZE_LINEAR_CORNERS;
    const bool asymmetric = strcmp(transform, "asymmetric") == 0;
    if (linear && !cubic && asymmetric) p->resize = QB_RESIZE_LINEAR_ASYMMETRIC;
    if (linear) return centred || corners || (asymmetric && !cubic);
    if (strcmp(mode, "nearest") != 0) return false;
    /* with whole factors no centre lies between two pixels */
    return centred ? strncmp(rounding, "round_prefer_", 13) == 0
                   : asymmetric && strcmp(rounding, "floor") == 0;
}

static bool lower_recurrent(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_shape *x = &graph->values[node->in[QB_IN_X]].shape;
    const qb_shape *r = &graph->values[node->in[QB_IN_R]].shape;
    qb_recurrence *layer = &p->recurrence;
    layer->cell = node->op->kernel.cell;
    layer->reverse = strcmp(qb_node_string(node, "direction", "forward"), "reverse") == 0;
    layer->batch_first = qb_node_int(node, "layout", 0) != 0;
    layer->input_forget = qb_node_int(node, "input_forget", 0) != 0;
    layer->linear_before_reset = qb_node_int(node, "linear_before_reset", 0) != 0;
    const float clip = qb_node_float(node, "clip", INFINITY);
    layer->clip = isfinite(clip) ? clip : 0;
    p->n_in = node->n_in;
    if (!qb_shape_known(x) || !qb_shape_known(r)) return false;
    p->out = (qb_desc){.dtype = QB_DTYPE_F32, .layout = QB_LAYOUT_ROW, .q.axis = -1};
    p->out.shape = layer->batch_first ? (qb_shape){4, {x->dim[0], x->dim[1], r->dim[0], r->dim[2]}}
                                      : (qb_shape){4, {x->dim[0], r->dim[0], x->dim[1], r->dim[2]}};
    return qb_node_cell_acts(node, r->dim[0], layer->act);
}

/* A product of integers: all inputs as they are. */
static bool lower_inputs(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    (void)graph;
    p->n_in = node->n_in;
    return true;
}

/* Sums of integers become floats as a copy; of other types it is not what Cast says to the last
 * bit.
 */
static bool lower_cast(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    const qb_value *from = &graph->values[node->in[0]], *to = &graph->values[node->out[0]];
    p->n_in = 1;
    return from->dtype == QB_DTYPE_S32 && to->dtype == QB_DTYPE_F32 && !from->data;
}

static bool lower_dynamic_quantize(const qb_graph *graph, const qb_node *node, qb_problem *p) {
    (void)graph;
    p->n_in = 1;
    return node->out[0] >= 0;
}

bool qb_node_problem(const qb_graph *graph, const qb_node *node, qb_desc *in, qb_problem *problem) {
    static const struct {
        bool (*lower)(const qb_graph *graph, const qb_node *node, qb_problem *problem);
        bool of_floats; /* no integers: inputs come dequantized */
    } kinds[QB_KIND_COUNT] = {
        [QB_KIND_LAYER_NORM] = {lower_layer_norm},
        [QB_KIND_STRIDED_COPY] = {lower_strided},
        [QB_KIND_CONCAT] = {lower_concat},
        [QB_KIND_GATHER] = {lower_gather},
        [QB_KIND_SCATTER] = {lower_scatter},
        [QB_KIND_GRID_SAMPLE] = {lower_grid, .of_floats = true},
        [QB_KIND_ATTENTION] = {lower_attention},
        [QB_KIND_GROUP_NORM] = {lower_group_norm},
        [QB_KIND_REDUCE] = {lower_reduce},
        [QB_KIND_PAD] = {lower_pad},
        [QB_KIND_SCAN] = {lower_scan},
        [QB_KIND_FOURIER] = {lower_fourier, .of_floats = true},
        [QB_KIND_FOLD] = {lower_fold, .of_floats = true},
        [QB_KIND_ARG] = {lower_arg},
        [QB_KIND_POOL] = {lower_pool},
        [QB_KIND_RESIZE] = {lower_resize},
        [QB_KIND_RECURRENT] = {lower_recurrent, .of_floats = true},
        [QB_KIND_MATMUL_INTEGER] = {lower_inputs},
        [QB_KIND_MATMUL_SCALED] = {lower_inputs},
        [QB_KIND_COPY] = {lower_cast},
        [QB_KIND_DYNAMIC_QUANTIZE] = {lower_dynamic_quantize},
    };
    qb_problem p = {.in = in, .group = 1, .scale = 1};
    p.kind = node->op ? node->op->kernel.kind : QB_KIND_NODE;
    if (!kinds[p.kind].lower || !kinds[p.kind].lower(graph, node, &p)) return false;
    for (int32_t i = 0; i < p.n_in; i++) {
        in[i] = (qb_desc){.dtype = QB_DTYPE_NONE};
        if (node->in[i] >= 0 && !desc_of(graph, node->in[i], &in[i])) return false;
        if (kinds[p.kind].of_floats && in[i].q.n > 0 && !make_float(graph, node->in[i], &in[i]))
            return false;
    }
    const int32_t made = output_of(node), end = made + qb_kind_outputs(p.kind);
    for (int32_t i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0 && (i < made || i >= end)) return false;
    if (p.kind != QB_KIND_RECURRENT &&
        (made >= node->n_out || node->out[made] < 0 || !desc_of(graph, node->out[made], &p.out)))
        return false;
    *problem = p;
    return true;
}

#include "quant/recover/scales.h"

#include <math.h>
#include <string.h>

/* ---- variables ---- */

static int32_t root(const qb_scales *s, int32_t v) {
    while (s->parent[v] != v) v = s->parent[v] = s->parent[s->parent[v]];
    return v;
}

int32_t qb_scales_of(const qb_scales *s, int32_t value, int64_t channel) {
    return root(s, s->of[s->first[value] + channel]);
}

static void join(qb_scales *s, int32_t a, int32_t b) {
    a = root(s, a);
    b = root(s, b);
    if (a == b) return;
    s->parent[b] = a;
    s->pinned[a] = s->pinned[a] || s->pinned[b];
    const float x = s->limit[a], y = s->limit[b];
    s->limit[a] = x > 0 && y > 0 ? fminf(x, y) : fmaxf(x, y);
}

/* Nothing may be done to the channels of a value, or of the one whose elements it has. */
static void pin(qb_scales *s, int32_t value) {
    if (value >= 0 && s->axis[value] < 0) value = s->origin[value];
    if (value < 0) return;
    for (int64_t c = 0; c < qb_scales_channels(s, value); c++)
        s->pinned[qb_scales_of(s, value, c)] = true;
}

static void pin_inputs(qb_scales *s, const qb_node *node) {
    for (int32_t i = 0; i < node->n_in; i++) pin(s, node->in[i]);
}

/* Room for the variables of a value's channels, along `axis`. */
static qb_status reserve(qb_ctx *cx, qb_scales *s, int32_t value, int32_t axis) {
    const int64_t n = s->graph->values[value].shape.dim[axis];
    QB_TRY(qb_grow(cx, &s->of, &s->cap_of, s->n_of + (size_t)n, sizeof *s->of));
    s->axis[value] = axis;
    s->first[value] = (int32_t)s->n_of;
    s->n_of += (size_t)n;
    return QB_OK;
}

static qb_status fresh(qb_ctx *cx, qb_scales *s, int32_t value, int32_t axis) {
    const size_t n = (size_t)s->n + (size_t)s->graph->values[value].shape.dim[axis];
    size_t cap[3] = {s->cap, s->cap, s->cap};
    QB_TRY(reserve(cx, s, value, axis));
    QB_TRY(qb_grow(cx, &s->parent, &cap[0], n, sizeof *s->parent));
    QB_TRY(qb_grow(cx, &s->pinned, &cap[1], n, sizeof *s->pinned));
    QB_TRY(qb_grow(cx, &s->limit, &cap[2], n, sizeof *s->limit));
    s->cap = cap[0];
    for (int32_t *of = s->of + s->first[value]; s->n < (int32_t)n; s->n++) {
        *of++ = s->n;
        s->parent[s->n] = s->n;
    }
    return QB_OK;
}

static bool is_data(const qb_scales *s, int32_t value) {
    return value >= 0 && !s->graph->values[value].data;
}

/* Is it a float value of known shape, one of which channels could be scaled? */
static bool is_tensor(const qb_scales *s, int32_t value) {
    const qb_value *v = &s->graph->values[value];
    return v->dtype == QB_DTYPE_F32 && v->shape.rank > 1 && qb_shape_known(&v->shape);
}

/* ---- what operators do with factors ---- */

/* The output has the input's variables. */
static qb_status hand_through(qb_ctx *cx, qb_scales *s, int32_t in, int32_t out) {
    const int32_t axis = s->axis[in];
    if (axis < 0 || !is_tensor(s, out) || s->graph->values[out].shape.rank <= axis ||
        s->graph->values[out].shape.dim[axis] != qb_scales_channels(s, in)) {
        pin(s, in);
        return QB_OK;
    }
    QB_TRY(reserve(cx, s, out, axis));
    memcpy(s->of + s->first[out], s->of + s->first[in],
           (size_t)qb_scales_channels(s, in) * sizeof *s->of);
    return QB_OK;
}

static float scalar(const qb_scales *s, const qb_node *node, int32_t input, float otherwise) {
    if (input >= node->n_in || node->in[input] < 0) return otherwise;
    const qb_value *v = &s->graph->values[node->in[input]];
    return v->data && v->dtype == QB_DTYPE_F32 && qb_shape_count(&v->shape) == 1
               ? *(const float *)v->data
               : NAN;
}

/* Clip to [0, c]: as Relu below c. */
static qb_status clip(qb_ctx *cx, qb_scales *s, const qb_node *node) {
    const int32_t in = node->in[0];
    const float low = scalar(s, node, 1, -INFINITY), high = scalar(s, node, 2, INFINITY);
    if (s->axis[in] < 0 || low != 0 || !(high > 0)) {
        pin(s, in);
        return QB_OK;
    }
    for (int64_t c = 0; c < qb_scales_channels(s, in) && high < INFINITY; c++) {
        float *limit = &s->limit[qb_scales_of(s, in, c)];
        *limit = *limit > 0 ? fminf(*limit, high) : high;
    }
    return hand_through(cx, s, in, node->out[0]);
}

/* All inputs that are data have one axis and shape: their factors become one. */
static bool join_inputs(qb_scales *s, const qb_node *node) {
    const int32_t first = node->in[0];
    for (int32_t i = 0; i < node->n_in; i++)
        if (!is_data(s, node->in[i]) || s->axis[node->in[i]] < 0 ||
            s->axis[node->in[i]] != s->axis[first] ||
            !qb_shape_equal(&s->graph->values[node->in[i]].shape, &s->graph->values[first].shape))
            return false;
    for (int32_t i = 1; i < node->n_in; i++)
        for (int64_t c = 0; c < qb_scales_channels(s, first); c++)
            join(s, qb_scales_of(s, first, c), qb_scales_of(s, node->in[i], c));
    return true;
}

/* Does the constant vary along this axis of the value alone? */
static bool is_by_channel(const qb_scales *s, int32_t constant, int32_t value, int32_t axis) {
    const qb_value *c = &s->graph->values[constant];
    const qb_shape *x = &s->graph->values[value].shape;
    if (!c->data || c->dtype != QB_DTYPE_F32 || c->shape.rank > x->rank) return false;
    const int32_t at = axis - (x->rank - c->shape.rank);
    return at >= 0 && c->shape.dim[at] == x->dim[axis] && qb_shape_count(&c->shape) == x->dim[axis];
}

static int32_t bias_of_layer(const qb_scales *s, int32_t index) {
    const qb_node *node = &s->graph->nodes[index];
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t maker = is_data(s, node->in[i]) ? s->uses.producer[node->in[i]] : -1;
        qb_layer layer;
        if (maker >= 0 && s->role[maker] == QB_SCALE_LAYER &&
            qb_layer_of(s->graph, &s->uses, maker, &layer) && layer.bias_node == index)
            return maker;
    }
    return -1;
}

/* Sum or product with a constant of one number a channel. *done: it was one. */
static qb_status with_constant(qb_ctx *cx, qb_scales *s, int32_t index, bool *done) {
    const qb_node *node = &s->graph->nodes[index];
    const qb_binary_kind kind = node->op->kernel.binary;
    *done = false;
    for (int32_t side = 0; side < 2 && !*done; side++) {
        const int32_t x = node->in[side], c = node->in[1 - side], out = node->out[0];
        if (!is_data(s, x) || !is_tensor(s, out) ||
            !qb_shape_equal(&s->graph->values[x].shape, &s->graph->values[out].shape))
            continue;
        const int32_t axis = s->axis[x] >= 0 ? s->axis[x]
                             : s->graph->values[x].shape.rank > 3
                                 ? 1
                                 : s->graph->values[x].shape.rank - 1;
        if (!is_by_channel(s, c, x, axis)) continue;
        s->constant[index] = 1 - side;
        if (kind == QB_BINARY_MUL) {
            if (s->axis[x] < 0) pin(s, x);
            s->role[index] = QB_SCALE_FACTOR;
            QB_TRY(fresh(cx, s, out, axis));
            *done = true;
        } else if (kind == QB_BINARY_ADD && s->axis[x] >= 0) {
            if (bias_of_layer(s, index) < 0) s->role[index] = QB_SCALE_TERM;
            QB_TRY(hand_through(cx, s, x, out));
            *done = true;
        }
    }
    return QB_OK;
}

/* A positive number for all elements: the factor passes. */
static int32_t beside_scalar(const qb_scales *s, const qb_node *node) {
    for (int32_t side = 0; side < 2; side++) {
        const float c = scalar(s, node, 1 - side, NAN);
        if (is_data(s, node->in[side]) && !isnan(c)) return side;
    }
    return -1;
}

static qb_status binary(qb_ctx *cx, qb_scales *s, int32_t index) {
    const qb_node *node = &s->graph->nodes[index];
    const qb_binary_kind kind = node->op->kernel.binary;
    bool done;
    QB_TRY(with_constant(cx, s, index, &done));
    if (done) return QB_OK;
    if (kind == QB_BINARY_MUL || kind == QB_BINARY_DIV) { /* homogeneous in one of them */
        const int32_t side = beside_scalar(s, node);
        if (side == 0 || (side == 1 && kind == QB_BINARY_MUL))
            return hand_through(cx, s, node->in[side], node->out[0]);
        for (int32_t i = 0; i < 2 && kind == QB_BINARY_MUL; i++) {
            const int32_t x = node->in[i], other = node->in[1 - i];
            if (!is_data(s, x) || s->axis[x] < 0 || (is_data(s, other) && s->axis[other] >= 0))
                continue;
            pin(s, other);
            return hand_through(cx, s, x, node->out[0]);
        }
    } else if (join_inputs(s, node)) {
        return hand_through(cx, s, node->in[0], node->out[0]);
    }
    pin_inputs(s, node);
    return QB_OK;
}

static qb_status concat(qb_ctx *cx, qb_scales *s, const qb_node *node) {
    const int32_t out = node->out[0], first = node->in[0];
    const int32_t rank = s->graph->values[out].shape.rank;
    int64_t along = qb_attr_int(node, "axis", 0);
    bool fits = is_tensor(s, out) && is_data(s, first) && s->axis[first] >= 0;
    if (along < 0) along += rank;
    for (int32_t i = 0; fits && i < node->n_in; i++)
        fits = is_data(s, node->in[i]) && s->axis[node->in[i]] == s->axis[first];
    if (!fits) {
        pin_inputs(s, node);
        return QB_OK;
    }
    if (along != s->axis[first]) {
        for (int32_t i = 1; i < node->n_in; i++)
            for (int64_t c = 0; c < qb_scales_channels(s, first); c++)
                join(s, qb_scales_of(s, first, c), qb_scales_of(s, node->in[i], c));
        return hand_through(cx, s, first, out);
    }
    QB_TRY(reserve(cx, s, out, s->axis[first]));
    int32_t *of = s->of + s->first[out];
    for (int32_t i = 0; i < node->n_in; i++)
        for (int64_t c = 0; c < qb_scales_channels(s, node->in[i]); c++)
            *of++ = s->of[s->first[node->in[i]] + c];
    return QB_OK;
}

/* ---- moves ---- */

/* The channel that fills index i of an axis of `out`, for each i; false where one holds several. */
static bool channels_along(const qb_tensor *out, int32_t axis, int32_t *of) {
    const qb_shape *shape = &out->desc.shape;
    const float *v = out->data;
    int64_t outer = 1, inner = 1;
    for (int32_t d = 0; d < shape->rank; d++)
        if (d != axis) *(d < axis ? &outer : &inner) *= shape->dim[d];
    for (int64_t i = 0; i < shape->dim[axis]; i++)
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k < inner; k++) {
                const float id = v[(o * shape->dim[axis] + i) * inner + k];
                if (o + k == 0) of[i] = (int32_t)id - 1;
                if (of[i] != (int32_t)id - 1 || of[i] < 0) return false;
            }
    return true;
}

static void number_channels(const qb_scales *s, int32_t value, float *data) {
    const qb_shape *shape = &s->graph->values[value].shape;
    const int64_t inner = qb_shape_span(shape, s->axis[value] + 1, shape->rank);
    for (int64_t i = 0, n = qb_shape_count(shape); i < n; i++)
        data[i] = (float)(i / inner % shape->dim[s->axis[value]] + 1);
}

/* Where the channels went, by the axis that holds the most of them. */
static qb_status place_moved(qb_ctx *cx, qb_scales *s, int32_t in, int32_t value,
                             const qb_tensor *out, bool *placed) {
    QB_FREED int32_t *of = qb_alloc(cx, (size_t)qb_shape_count(&out->desc.shape) + 1, sizeof *of);
    if (!of) return cx->code;
    qb_status status = QB_OK;
    *placed = false;
    int32_t best = -1;
    for (int32_t d = 0; d < out->desc.shape.rank; d++)
        if ((best < 0 || out->desc.shape.dim[d] > out->desc.shape.dim[best]) &&
            channels_along(out, d, of))
            best = d;
    if (best >= 0 && channels_along(out, best, of)) {
        status = reserve(cx, s, value, best);
        for (int64_t c = 0; status == QB_OK && c < out->desc.shape.dim[best]; c++)
            s->of[s->first[value] + c] = s->of[s->first[in] + of[c]];
        *placed = status == QB_OK;
    }
    return status;
}

enum { MOVED_OUTPUTS = 64, MOVED_INPUTS = 8 };

/* The numbers that elements of a value go into a move with: those of their channels in *origin. */
static qb_status number_elements(qb_ctx *cx, const qb_scales *s, int32_t value, float **out,
                                 int32_t *origin) {
    const size_t n = (size_t)qb_shape_count(&s->graph->values[value].shape);
    *origin = s->axis[value] >= 0 ? value : s->origin[value];
    QB_TRY_NEW(cx, *out = qb_alloc_aligned(cx, n + 1, sizeof **out));
    if (s->axis[value] >= 0)
        number_channels(s, value, *out);
    else
        memcpy(*out, s->moved[value], n * sizeof **out);
    return QB_OK;
}

/* Its channels where each lies at an index of one axis, else the numbers of its elements. */
static qb_status place_or_keep(qb_ctx *cx, qb_scales *s, int32_t origin, int32_t value,
                               const qb_tensor *out) {
    const size_t n = (size_t)qb_shape_count(&out->desc.shape);
    bool placed;
    QB_TRY(place_moved(cx, s, origin, value, out, &placed));
    if (placed) return QB_OK;
    QB_TRY_NEW(cx, s->moved[value] = qb_arena_alloc(cx, s->arena, n + 1, sizeof *s->moved[value]));
    memcpy(s->moved[value], out->data, n * sizeof *s->moved[value]);
    s->origin[value] = origin;
    return QB_OK;
}

/* An operator that only moves elements is run on the numbers of their channels. */
static qb_status move(qb_ctx *cx, qb_scales *s, const qb_node *node) {
    const int32_t in = node->in[0];
    qb_tensor from[MOVED_INPUTS] = {0}, to[MOVED_OUTPUTS] = {0};
    int32_t origin = -1;
    bool fits = (s->axis[in] >= 0 || s->origin[in] >= 0) && node->n_in <= MOVED_INPUTS &&
                node->n_out <= MOVED_OUTPUTS;
    for (int32_t i = 1; i < node->n_in; i++) fits = fits && !is_data(s, node->in[i]);
    for (int32_t i = 0; i < node->n_out && fits; i++)
        fits = node->out[i] < 0 || is_tensor(s, node->out[i]);
    bool all = fits;
    qb_status status = QB_OK;
    for (int32_t i = 0; i < node->n_in && fits; i++) {
        const int32_t v = node->in[i];
        if (v < 0) continue;
        const qb_value *value = &s->graph->values[v];
        from[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
    }
    if (fits) {
        float *numbers;
        QB_GO(number_elements(cx, s, in, &numbers, &origin));
        from[0].data = numbers;
        for (int32_t i = 0; i < node->n_out; i++) {
            if (node->out[i] < 0) continue;
            const qb_value *value = &s->graph->values[node->out[i]];
            to[i] = qb_tensor_of(QB_DTYPE_F32, value->shape, NULL);
            QB_GO_NEW(cx, to[i].data = qb_alloc_aligned(
                              cx, (size_t)qb_shape_count(&value->shape) + 1, sizeof(float)));
        }
        all = node->op->eval && node->op->eval(cx, node, from, to) == QB_OK;
        if (!all) qb_ctx_clear(cx);
    }
    for (int32_t i = 0; i < node->n_out && all; i++)
        if (node->out[i] >= 0) QB_GO(place_or_keep(cx, s, origin, node->out[i], &to[i]));
    if (!all) pin(s, in);
out:
    qb_free(from[0].data);
    for (int32_t i = 0; i < node->n_out && fits; i++) qb_free(to[i].data);
    return status;
}

/* ---- the walk ---- */

static bool is_homogeneous(const qb_node *node) {
    switch (node->op->kernel.function) {
    case QB_FUNCTION_RELU:
    case QB_FUNCTION_ABS:
    case QB_FUNCTION_NEG:
    case QB_FUNCTION_COPY: return true;
    default: return node->op->kernel.act == QB_ACT_LEAKY_RELU; /* and PRelu, in its data */
    }
}

/* Of one number a channel behind the data, over the channels' axis or all of them. */
static qb_status normalization(qb_ctx *cx, qb_scales *s, int32_t index) {
    const qb_node *node = &s->graph->nodes[index];
    const int32_t out = node->out[0], rank = s->graph->values[out].shape.rank;
    const int32_t axis = node->op->kernel.kind == QB_KIND_LAYER_NORM ? rank - 1 : 1;
    const int64_t along = qb_attr_int(node, "axis", -1);
    bool fits = is_tensor(s, out) && (axis == 1 || along == -1 || along == rank - 1);
    for (int32_t i = 1; i < node->n_in && fits; i++)
        fits = node->in[i] >= 0 && s->graph->values[node->in[i]].data &&
               s->graph->values[node->in[i]].dtype == QB_DTYPE_F32 &&
               qb_shape_count(&s->graph->values[node->in[i]].shape) ==
                   s->graph->values[out].shape.dim[axis];
    pin_inputs(s, node);
    if (!fits || node->n_in < 2) return QB_OK;
    s->role[index] = QB_SCALE_NORM;
    return fresh(cx, s, out, axis);
}

static qb_status layer(qb_ctx *cx, qb_scales *s, int32_t index, const qb_layer *l) {
    const qb_node *node = &s->graph->nodes[index];
    if (s->axis[node->in[0]] != l->data_axis) pin(s, node->in[0]);
    if (!is_tensor(s, node->out[0])) {
        pin(s, node->in[0]);
        return QB_OK;
    }
    s->role[index] = QB_SCALE_LAYER;
    return fresh(cx, s, node->out[0], l->out_axis);
}

static qb_status visit(qb_ctx *cx, qb_scales *s, int32_t index) {
    const qb_node *node = &s->graph->nodes[index];
    const qb_op_kernel *k = &node->op->kernel;
    qb_layer l;
    if (node->n_in == 0 || node->n_out == 0 || node->out[0] < 0 || node->in[0] < 0) {
        pin_inputs(s, node);
        return QB_OK;
    }
    if (qb_layer_of(s->graph, &s->uses, index, &l)) return layer(cx, s, index, &l);
    if (k->kind == QB_KIND_BINARY && node->n_in == 2) return binary(cx, s, index);
    if (k->kind == QB_KIND_CONCAT) return concat(cx, s, node);
    if (k->kind == QB_KIND_LAYER_NORM || k->kind == QB_KIND_GROUP_NORM)
        return normalization(cx, s, index);
    if (!is_data(s, node->in[0])) {
        pin_inputs(s, node);
        return QB_OK;
    }
    for (int32_t i = 1; i < node->n_in; i++) pin(s, node->in[i]);
    if (k->act == QB_ACT_CLIP) return clip(cx, s, node);
    if (is_homogeneous(node) && node->n_out == 1 &&
        qb_shape_equal(&s->graph->values[node->in[0]].shape, &s->graph->values[node->out[0]].shape))
        return hand_through(cx, s, node->in[0], node->out[0]);
    if ((k->kind == QB_KIND_POOL || k->kind == QB_KIND_RESIZE) && s->axis[node->in[0]] == 1 &&
        node->n_out == 1)
        return hand_through(cx, s, node->in[0], node->out[0]);
    if (qb_op_has(node->op, QB_TRAIT_VIEW) || qb_op_has(node->op, QB_TRAIT_REORDER) ||
        qb_op_has(node->op, QB_TRAIT_IN_ORDER))
        return move(cx, s, node);
    pin(s, node->in[0]);
    return QB_OK;
}

qb_status qb_scales_find(qb_ctx *cx, const qb_graph *graph, qb_scales *out) {
    QB_RELEASED(qb_scales_release) qb_scales s = {.graph = graph};
    QB_TRY(qb_arena_create(cx, &s.arena));
    QB_TRY(qb_uses_build(cx, graph, &s.uses));
    s.axis = qb_arena_alloc(cx, s.arena, (size_t)graph->n_values, sizeof *s.axis);
    s.origin = qb_arena_alloc(cx, s.arena, (size_t)graph->n_values, sizeof *s.origin);
    s.moved = qb_arena_alloc(cx, s.arena, (size_t)graph->n_values, sizeof *s.moved);
    s.first = qb_arena_alloc(cx, s.arena, (size_t)graph->n_values, sizeof *s.first);
    s.role = qb_arena_alloc(cx, s.arena, (size_t)graph->n_nodes, sizeof *s.role);
    s.constant = qb_arena_alloc(cx, s.arena, (size_t)graph->n_nodes, sizeof *s.constant);
    if (!s.axis || !s.origin || !s.moved || !s.first || !s.role || !s.constant) return cx->code;
    for (int32_t v = 0; v < graph->n_values; v++) s.axis[v] = s.origin[v] = -1;
    for (int32_t i = 0; i < graph->n_nodes; i++) QB_TRY(visit(cx, &s, i));
    for (int32_t i = 0; i < graph->n_outputs; i++) pin(&s, graph->outputs[i]);
    *out = QB_MOVE(s);
    return QB_OK;
}

void qb_scales_release(qb_scales *s) {
    qb_uses_release(&s->uses);
    QB_FREE_ALL(s->of, s->parent, s->pinned, s->limit);
    qb_arena_free(s->arena);
    *s = (qb_scales){0};
}

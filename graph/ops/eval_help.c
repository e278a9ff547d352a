/* Helpers of the operators' eval and upgrade functions. */
#include "base/sort.h"
#include "ops_internal.h"

qb_status qb_eval_refuse(qb_ctx *cx, const qb_node *node, qb_dtype dtype) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s does not compute with type %s", node->op->name,
                   qb_dtype_text(dtype));
}

qb_status qb_eval_need_f32(qb_ctx *cx, const qb_node *node, const qb_tensor *tensor) {
    return tensor->desc.dtype == QB_DTYPE_F32 ? QB_OK
                                              : qb_eval_refuse(cx, node, tensor->desc.dtype);
}

qb_status qb_eval_same_bytes(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)cx, (void)node;
    size_t bytes = (size_t)qb_shape_count(&out->desc.shape) * qb_dtype_size(out->desc.dtype);
    if (bytes > 0 && out->data != in->data) memcpy(out->data, in->data, bytes);
    return QB_OK;
}

qb_status qb_eval_runs(qb_ctx *cx, const qb_node *node, const qb_tensor *a, const qb_tensor *b,
                       qb_tensor *out, const qb_run_fn runs[QB_DTYPE_COUNT]) {
    const qb_dtype dtype = a->desc.dtype;
    if (!runs[dtype]) return qb_eval_refuse(cx, node, dtype);
    const size_t size = qb_dtype_size(dtype), out_size = qb_dtype_size(out->desc.dtype);
    const qb_shape *shapes[2] = {&a->desc.shape, &b->desc.shape};
    qb_walk w;
    for (qb_walk_broadcast(&w, &out->desc.shape, shapes, 2); w.left > 0; qb_walk_next(&w))
        runs[dtype]((const char *)a->data + (size_t)w.at[0] * size, w.step[0],
                    (const char *)b->data + (size_t)w.at[1] * size, w.step[1],
                    (char *)out->data + (size_t)w.out * out_size, w.run);
    return QB_OK;
}

static void gather(const qb_tensor *in, const qb_strided *strided, const qb_tensor *out) {
    const size_t size = qb_dtype_size(out->desc.dtype);
    qb_shape shape = {.rank = strided->rank};
    qb_walk w;
    memcpy(shape.dim, strided->dim, sizeof shape.dim);
    for (qb_walk_strided(&w, &shape, strided->stride); w.left > 0; qb_walk_next(&w))
        qb_copy_run((char *)out->data + (size_t)w.out * size,
                    (const char *)in->data + (strided->offset + w.at[0]) * (int64_t)size, w.step[0],
                    w.run, size);
}

qb_status qb_eval_strided(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    for (int32_t i = 0; i < node->n_out; i++) {
        qb_strided strided;
        if (node->out[i] < 0) continue;
        QB_TRY(node->op->strided(cx, node, in, i, &strided));
        gather(&in[0], &strided, &out[i]);
    }
    return QB_OK;
}

bool qb_node_strided(const qb_graph *graph, const qb_node *node, int32_t output, qb_strided *out) {
    qb_tensor in[QB_MAX_RANK] = {{{0}, NULL}};
    qb_ctx quiet = {0}; /* what is wrong, inference has told */
    if (!node->op || !node->op->strided || node->n_in > QB_MAX_RANK || node->out[output] < 0)
        return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *v = &graph->values[node->in[i]];
        if (!qb_shape_known(&v->shape) || (i > 0 && !v->data)) return false;
        in[i] = qb_tensor_of(v->dtype, v->shape, (void *)(uintptr_t)v->data);
    }
    return qb_shape_known(&graph->values[node->out[output]].shape) &&
           node->op->strided(&quiet, node, in, output, out) == QB_OK;
}

bool qb_node_places(const qb_graph *graph, const qb_node *node, qb_places *out) {
    qb_tensor in[2];
    qb_ctx quiet = {0};
    for (int32_t i = 0; i < 2; i++) {
        const qb_value *v = &graph->values[node->in[i]];
        if (!qb_shape_known(&v->shape)) return false;
        in[i] = qb_tensor_of(v->dtype, v->shape, NULL);
    }
    return node->op->places && node->op->places(&quiet, node, in, out) == QB_OK;
}

qb_status qb_node_inputs_set(qb_ctx *cx, qb_graph *graph, int32_t node, const int32_t *in,
                             int32_t n_in) {
    int32_t *copy = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, (size_t)n_in, sizeof *copy));
    for (int32_t i = 0; i < n_in; i++) copy[i] = in[i];
    graph->nodes[node].in = copy;
    graph->nodes[node].n_in = n_in;
    return QB_OK;
}

qb_status qb_node_input_set(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t i, int32_t value) {
    int32_t in[QB_MAX_RANK], old = graph->nodes[node].n_in, n = old > i + 1 ? old : i + 1;
    if (n > QB_MAX_RANK)
        return qb_fail(cx, QB_STATUS_INTERNAL, "expected at most %d inputs, got %d", QB_MAX_RANK,
                       n);
    for (int32_t k = 0; k < n; k++) in[k] = k < old ? graph->nodes[node].in[k] : -1;
    in[i] = value;
    return qb_node_inputs_set(cx, graph, node, in, n);
}

static const char *derived_name(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix) {
    const qb_node *n = &graph->nodes[node];
    const char *base = n->n_out > 0 && n->out[0] >= 0 ? graph->values[n->out[0]].name : n->name;
    return qb_arena_format(cx, graph->arena, "%s_%s", base, suffix);
}

qb_status qb_node_const_ints(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                             const int64_t *v, int32_t n, int32_t *id) {
    const char *name = QB_NEW(cx, derived_name(cx, graph, node, suffix));
    qb_shape shape = {.rank = 1, .dim = {n}};
    *id = qb_graph_add_constant(cx, graph, name, QB_DTYPE_S64, &shape, v);
    return *id < 0 ? cx->code : QB_OK;
}

qb_status qb_node_const_floats(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                               const qb_shape *shape, const float *v, int32_t *id) {
    const char *name = QB_NEW(cx, derived_name(cx, graph, node, suffix));
    *id = qb_graph_add_constant(cx, graph, name, QB_DTYPE_F32, shape, v);
    return *id < 0 ? cx->code : QB_OK;
}

qb_status qb_node_axes_to_input(qb_ctx *cx, qb_graph *graph, int32_t node, qb_ints *axes,
                                int32_t i) {
    if (axes->n == 0) return QB_OK;
    int32_t id;
    QB_TRY(qb_node_const_ints(cx, graph, node, "axes", axes->v, axes->n, &id));
    *axes = (qb_ints){0};
    return qb_node_input_set(cx, graph, node, i, id);
}

qb_status qb_node_detach_output(qb_ctx *cx, qb_graph *graph, int32_t node, const char *suffix,
                                int32_t *fresh, int32_t *old) {
    const char *name = QB_NEW(cx, derived_name(cx, graph, node, suffix));
    qb_shape unknown = {.rank = -1};
    int32_t id = qb_graph_add_value(cx, graph, name, QB_DTYPE_NONE, &unknown);
    if (id < 0) return cx->code;
    *old = graph->nodes[node].out[0];
    *fresh = id;
    graph->nodes[node].out[0] = id;
    return QB_OK;
}

void qb_sort_indices(const void *what, qb_before_fn before, int64_t *index, int64_t *other,
                     int64_t n) {
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            int64_t middle = start + width < n ? start + width : n;
            int64_t end = start + 2 * width < n ? start + 2 * width : n, a = start, b = middle;
            for (int64_t to = start; to < end; to++) {
                bool left = b == end || (a < middle && !before(what, index[b], index[a]));
                other[to] = left ? index[a++] : index[b++];
            }
        }
        memcpy(index, other, (size_t)n * sizeof *index);
    }
}

void qb_sort_by_floats(const float *x, int64_t step, bool largest, int64_t *index, int64_t *other,
                       int64_t n) {
    const uint32_t flip = largest ? UINT32_MAX : 0;
    uint64_t *list = (uint64_t *)index, *sorted = (uint64_t *)other;
    for (int64_t i = 0; i < n; i++)
        list[i] = (uint64_t)(qb_float_key(x[index[i] * step]) ^ flip) << 32 | (uint64_t)index[i];
    qb_sort_by_key(list, n, sorted);
    for (int64_t i = 0; i < n; i++) index[i] = (int64_t)(sorted[i] & UINT32_MAX);
}

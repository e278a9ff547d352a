#include <string.h>

#include "graph/rewrite_internal.h"

bool qb_node_is(const qb_node *node, const char *op) {
    return node->op && node->op->domain[0] == '\0' && strcmp(node->op->name, op) == 0;
}

static const void *attr_field(const qb_node *node, const char *name, qb_attr_type type) {
    if (!node->op || !node->op->attrs || !node->attrs) return NULL;
    for (const qb_attr_desc *a = node->op->attrs; a->name; a++)
        if (a->type == type && strcmp(a->name, name) == 0)
            return (const char *)node->attrs + a->offset;
    return NULL;
}

int64_t qb_node_int(const qb_node *node, const char *attr, int64_t fallback) {
    const int64_t *field = attr_field(node, attr, QB_ATTR_INT);
    return field ? *field : fallback;
}

float qb_node_float(const qb_node *node, const char *attr, float fallback) {
    const float *field = attr_field(node, attr, QB_ATTR_FLOAT);
    return field ? *field : fallback;
}

const char *qb_node_string(const qb_node *node, const char *attr, const char *fallback) {
    const char *const *field = attr_field(node, attr, QB_ATTR_STRING);
    return field && *field ? *field : fallback;
}

qb_ints qb_node_ints(const qb_node *node, const char *attr) {
    const qb_ints *field = attr_field(node, attr, QB_ATTR_INTS);
    return field ? *field : (qb_ints){0};
}

static bool same_attr(const qb_attr_desc *desc, const void *a, const void *b) {
    switch (desc->type) {
    case QB_ATTR_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case QB_ATTR_FLOAT: return memcmp(a, b, sizeof(float)) == 0;
    case QB_ATTR_STRING: {
        const char *s = *(const char *const *)a, *t = *(const char *const *)b;
        return s == t || (s && t && strcmp(s, t) == 0);
    }
    case QB_ATTR_INTS: {
        const qb_ints *s = a, *t = b;
        return s->n == t->n && (s->n == 0 || memcmp(s->v, t->v, (size_t)s->n * sizeof *s->v) == 0);
    }
    case QB_ATTR_FLOATS: {
        const qb_floats *s = a, *t = b;
        return s->n == t->n && (s->n == 0 || memcmp(s->v, t->v, (size_t)s->n * sizeof *s->v) == 0);
    }
    case QB_ATTR_STRINGS: {
        const qb_strings *s = a, *t = b;
        int32_t same = 0;
        while (s->n == t->n && same < s->n && strcmp(s->v[same], t->v[same]) == 0) same++;
        return s->n == t->n && same == s->n;
    }
    case QB_ATTR_TENSOR: {
        const qb_tensor *s = a, *t = b;
        if (!s->data || !t->data) return s->data == t->data;
        return s->desc.dtype == t->desc.dtype && qb_shape_equal(&s->desc.shape, &t->desc.shape) &&
               memcmp(s->data, t->data, qb_desc_bytes(&s->desc)) == 0;
    }
    }
    return false;
}

bool qb_node_same_attrs(const qb_node *a, const qb_node *b) {
    if (a->op != b->op) return false;
    if (!a->op->attrs || a->attrs == b->attrs) return true;
    if (!a->attrs || !b->attrs) return false;
    for (const qb_attr_desc *d = a->op->attrs; d->name; d++)
        if (!same_attr(d, (const char *)a->attrs + d->offset, (const char *)b->attrs + d->offset))
            return false;
    return true;
}

int32_t qb_node_in(const qb_node *node, int32_t i) { return i < node->n_in ? node->in[i] : -1; }

bool qb_value_is_const(const qb_graph *graph, int32_t value) {
    return value >= 0 && graph->values[value].data != NULL;
}

bool qb_value_is_plain(const qb_graph *graph, int32_t value) {
    return value >= 0 && graph->values[value].dtype == QB_DTYPE_F32 &&
           graph->values[value].q.n == 0;
}

bool qb_value_has_one_scale(const qb_value *value) {
    return value->q.n == 0
               ? value->dtype == QB_DTYPE_F32
               : value->q.n == 1 && (value->dtype == QB_DTYPE_U8 || value->dtype == QB_DTYPE_S8);
}

const float *qb_value_floats(const qb_graph *graph, int32_t value) {
    return qb_value_is_plain(graph, value) ? graph->values[value].data : NULL;
}

bool qb_value_scalar(const qb_graph *graph, int32_t value, double *out) {
    if (!qb_value_is_const(graph, value)) return false;
    const qb_value *v = &graph->values[value];
    if (v->q.n > 0 || qb_shape_count(&v->shape) != 1) return false;
    switch (v->dtype) {
    case QB_DTYPE_F32: *out = *(const float *)v->data; return true;
    case QB_DTYPE_F64: *out = *(const double *)v->data; return true;
    case QB_DTYPE_S32: *out = *(const int32_t *)v->data; return true;
    case QB_DTYPE_S64: *out = (double)*(const int64_t *)v->data; return true;
    case QB_DTYPE_BOOL: *out = *(const uint8_t *)v->data != 0; return true;
    default: return false;
    }
}

bool qb_value_int_list(const qb_graph *graph, int32_t value, int64_t *out, int32_t cap,
                       int32_t *n) {
    if (!qb_value_is_const(graph, value)) return false;
    const qb_value *v = &graph->values[value];
    int64_t count = qb_shape_count(&v->shape);
    if (v->q.n > 0 || v->shape.rank > 1 || count < 0 || count > cap) return false;
    if (v->dtype != QB_DTYPE_S64 && v->dtype != QB_DTYPE_S32) return false;
    for (int64_t i = 0; i < count; i++)
        out[i] = v->dtype == QB_DTYPE_S64 ? ((const int64_t *)v->data)[i]
                                          : ((const int32_t *)v->data)[i];
    *n = (int32_t)count;
    return true;
}

bool qb_value_channels(const qb_graph *graph, int32_t value, int32_t rank, int32_t axis,
                       int64_t channels, double *out) {
    const float *data = qb_value_floats(graph, value);
    if (!data) return false;
    const qb_shape *shape = &graph->values[value].shape;
    if (shape->rank > rank) return false;
    int64_t n = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 1) continue;
        if (rank - shape->rank + i != axis || shape->dim[i] != channels) return false;
        n = channels;
    }
    for (int64_t c = 0; c < channels; c++) out[c] = data[n == 1 ? 0 : c];
    return true;
}

int64_t qb_image_channels(const qb_graph *graph, int32_t value) {
    const qb_value *v = &graph->values[value];
    const bool image = qb_graph_is_input(graph, value) && qb_value_is_plain(graph, value) &&
                       v->shape.rank == 4 && v->shape.dim[1] >= QB_IMAGE_CHANNELS_MAX - 1 &&
                       v->shape.dim[1] <= QB_IMAGE_CHANNELS_MAX;
    return image ? v->shape.dim[1] : 0;
}

bool qb_node_is_spatial_mean(const qb_graph *graph, const qb_node *node) {
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0;
    bool seen[QB_MAX_RANK] = {false};
    if (!qb_node_is(node, "ReduceMean")) return false;
    int32_t rank = graph->values[node->in[0]].shape.rank;
    if (rank < 3 || rank > 5) return false;
    if (!qb_value_int_list(graph, qb_node_in(node, 1), axes, QB_MAX_RANK, &n) || n != rank - 2)
        return false;
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 2 || axis >= rank || seen[axis]) return false;
        seen[axis] = true;
    }
    return true;
}

bool qb_qparams_same(const qb_qparams *a, const qb_qparams *b) {
    if (a->n != b->n) return false;
    if (a->n == 0) return true;
    if (a->dtype != b->dtype || a->axis != b->axis) return false;
    for (int32_t i = 0; i < a->n; i++) {
        if (memcmp(&a->scale[i], &b->scale[i], sizeof(float)) != 0) return false;
        if ((a->zero ? a->zero[i] : 0) != (b->zero ? b->zero[i] : 0)) return false;
    }
    return true;
}

bool qb_value_same_type(const qb_value *a, const qb_value *b) {
    return a->dtype == b->dtype && qb_qparams_same(&a->q, &b->q);
}

bool qb_shape_surely_equal(const qb_shape *a, const qb_shape *b) {
    if (a->rank < 0 || !qb_shape_equal(a, b)) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] == -1) return false;
    return true;
}

/* The queries, keys and values of an Attention as one product:
 *
 *   q = x Wq + bq, k = x Wk + bk, v = x Wv + bv   becomes   q, k, v = Split(x [Wq Wk Wv] + [bq bk
 * bv])
 *
 * Weights stand side by side with their scales, column by column as before, so that integer
 * products are the same bit for bit. */
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes_internal.h"
#include "kernels/heads.h"

enum { PARTS = 3 };

/* x times a weight, which is `result`, plus a bias (-1: none) */
typedef struct product {
    int32_t x, weight, bias, result;
} product;

/* Does one node alone read the value, which is float and need not reach memory? */
static bool is_inner(const qb_rewrite *rw, int32_t value) {
    return value >= 0 && rw->uses.n_users[value] == 1 && qb_value_is_plain(rw->graph, value) &&
           !rw->graph->values[value].kept && !qb_graph_is_output(rw->graph, value);
}

static int64_t last_dim(const qb_shape *shape) {
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 0;
}

static bool is_bias(const qb_graph *graph, int32_t value, int64_t width) {
    const qb_shape *shape = &graph->values[value].shape;
    return qb_value_is_const(graph, value) && last_dim(shape) == width &&
           qb_shape_count(shape) == width;
}

static bool product_of(const qb_rewrite *rw, int32_t value, product *p) {
    const qb_graph *graph = rw->graph;
    const int64_t width = value < 0 ? 0 : last_dim(&graph->values[value].shape);
    if (width <= 0) return false;
    int32_t add = qb_rewrite_from(rw, value, "Add");
    *p = (product){.bias = -1, .result = value};
    for (int32_t side = 0; add >= 0 && side < 2 && p->bias < 0; side++) {
        const int32_t *in = graph->nodes[add].in;
        if (!is_bias(graph, in[side], width)) continue;
        p->bias = in[side];
        p->result = in[1 - side];
    }
    if (add >= 0 && p->bias < 0) return false;
    const int32_t node = qb_rewrite_from(rw, p->result, "MatMul");
    if (node < 0) return false;
    p->x = graph->nodes[node].in[0];
    p->weight = graph->nodes[node].in[1];
    /* A wider bias would spread the columns. */
    const qb_shape *shape = &graph->values[p->weight].shape;
    return qb_value_is_const(graph, p->weight) && shape->rank == 2 && shape->dim[1] == width;
}

/* Can the constants stand side by side? Where they are quantized values, each column may have its
 * scale. */
static bool fit_together(const qb_graph *graph, const int32_t id[PARTS]) {
    const qb_value *first = &graph->values[id[0]];
    for (int32_t i = 0; i < PARTS; i++) {
        const qb_value *v = &graph->values[id[i]];
        const bool by_column = v->q.n > 1 && v->q.axis == v->shape.rank - 1;
        if (v->dtype != first->dtype || !qb_shape_equal(&v->shape, &first->shape) ||
            (v->q.n > 0) != (first->q.n > 0) || v->q.dtype != first->q.dtype ||
            (v->q.n > 1 && !by_column))
            return false;
    }
    return true;
}

/* The parameters of the parts, one for each column. */
static qb_status join_params(qb_rewrite *rw, const int32_t id[PARTS], int64_t width,
                             qb_qparams *out) {
    const size_t n = (size_t)(PARTS * width);
    const qb_value *values = rw->graph->values;
    float *scale = qb_arena_alloc(rw->cx, rw->graph->arena, n, sizeof *scale);
    int32_t *zero = qb_arena_alloc(rw->cx, rw->graph->arena, n, sizeof *zero);
    if (!scale || !zero) return rw->cx->code;
    for (size_t i = 0; i < n; i++) {
        const qb_qparams *q = &values[id[i / (size_t)width]].q;
        const size_t at = q->n > 1 ? i % (size_t)width : 0;
        scale[i] = q->scale[at];
        zero[i] = q->zero ? q->zero[at] : 0;
    }
    *out =
        (qb_qparams){values[id[0]].q.dtype, values[id[0]].shape.rank - 1, (int32_t)n, scale, zero};
    return QB_OK;
}

/* A constant with the columns of all parts. */
static qb_status join_columns(qb_rewrite *rw, const int32_t id[PARTS], int32_t *out) {
    const qb_value like = rw->graph->values[id[0]];
    const int64_t width = last_dim(&like.shape);
    const size_t part = (size_t)width * qb_dtype_size(like.dtype), rows = like.bytes / part;
    qb_shape shape = like.shape;
    shape.dim[shape.rank - 1] = PARTS * width;
    char *data = qb_alloc(rw->cx, rows * PARTS, part);
    if (!data) return rw->cx->code;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < PARTS; i++)
            memcpy(data + (r * PARTS + i) * part,
                   (const char *)rw->graph->values[id[i]].data + r * part, part);
    *out = qb_graph_add_constant(rw->cx, rw->graph, like.name, like.dtype, &shape, data);
    qb_free(data);
    if (*out < 0) return rw->cx->code;
    return like.q.n > 0 ? join_params(rw, id, width, &rw->graph->values[*out].q) : QB_OK;
}

typedef struct joint {
    int32_t part[PARTS], all;
} joint;

typedef struct joiner {
    qb_problem_filter accept;
    const void *user;
    joint *joints; /* so far: layers that share their weights share these, too */
    size_t n_joints, cap_joints;
} joiner;

static qb_status join(qb_rewrite *rw, joiner *j, const int32_t id[PARTS], int32_t *out) {
    for (size_t i = 0; i < j->n_joints; i++) {
        *out = j->joints[i].all;
        if (memcmp(j->joints[i].part, id, sizeof j->joints[i].part) == 0) return QB_OK;
    }
    QB_TRY(qb_grow(rw->cx, &j->joints, &j->cap_joints, j->n_joints + 1, sizeof *j->joints));
    QB_TRY(join_columns(rw, id, out));
    joint *made = &j->joints[j->n_joints++];
    memcpy(made->part, id, sizeof made->part);
    made->all = *out;
    return QB_OK;
}

/* Where sizes are open, a Shape may read a product before its bias: it can as well read the sum. */
static void move_shapes(qb_rewrite *rw, int32_t from, int32_t to) {
    for (int32_t u = 0; u < rw->uses.n_users[from]; u++) {
        const int32_t user = rw->uses.users[from][u];
        const qb_node *node = &rw->graph->nodes[user];
        if (!qb_node_is(node, "Shape") && !qb_node_is(node, "Size")) continue;
        node->in[0] = to;
        qb_rewrite_touch(rw, user);
    }
}

/* What the product of all parts is added to and split into, in front of the nodes that read it. */
static qb_status rewrite(qb_rewrite *rw, joiner *j, const int32_t out[PARTS],
                         const product part[PARTS]) {
    const int32_t weights[PARTS] = {part[0].weight, part[1].weight, part[2].weight};
    const int32_t biases[PARTS] = {part[0].bias, part[1].bias, part[2].bias};
    const int64_t width = last_dim(&rw->graph->values[out[0]].shape);
    const int64_t sizes[PARTS] = {width, width, width};
    qb_shape shape = rw->graph->values[out[0]].shape;
    int32_t in[2] = {part[0].x, -1}, all;
    shape.dim[shape.rank - 1] = PARTS * width;
    QB_TRY(join(rw, j, weights, &in[1]));
    QB_TRY(qb_rewrite_value(rw, out[0], "_joint", &shape, &all));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("MatMul", ""), in, 2, all));
    if (biases[0] >= 0) {
        in[0] = all;
        QB_TRY(join(rw, j, biases, &in[1]));
        QB_TRY(qb_rewrite_value(rw, out[0], "_joint_sum", &shape, &all));
        QB_TRY(qb_rewrite_append(rw, qb_op_find("Add", ""), in, 2, all));
    }
    in[0] = all;
    QB_TRY(qb_rewrite_int64s(rw, out[0], "_widths", sizes, PARTS, &in[1]));
    for (int32_t i = 0; i < PARTS; i++) {
        qb_rewrite_kill(rw, rw->uses.producer[out[i]]);
        if (biases[0] >= 0) move_shapes(rw, part[i].result, out[i]);
    }
    const int32_t split =
        qb_graph_add_node(rw->cx, rw->graph, qb_op_find("Split", ""), "", in, 2, out, PARTS);
    if (split < 0) return rw->cx->code;
    qb_rewrite_touch(rw, split);
    qb_rewrite_changed(rw);
    return qb_node_set_int(rw, split, "axis", shape.rank - 1);
}

/* Are they products of one value, whose constants fit together? */
static bool parts_of(const qb_rewrite *rw, const int32_t out[PARTS], product part[PARTS]) {
    for (int32_t i = 0; i < PARTS; i++)
        if (!product_of(rw, out[i], &part[i]) || part[i].x != part[0].x ||
            (part[i].bias < 0) != (part[0].bias < 0))
            return false;
    const int32_t weights[PARTS] = {part[0].weight, part[1].weight, part[2].weight};
    const int32_t biases[PARTS] = {part[0].bias, part[1].bias, part[2].bias};
    return fit_together(rw->graph, weights) && (biases[0] < 0 || fit_together(rw->graph, biases));
}

/* Does a kernel read the parts where the one product has them? */
static bool is_accepted(const qb_graph *graph, const qb_node *node, const joiner *j) {
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    if (!qb_node_problem(graph, node, in, &p) || in[0].shape.rank != 3 ||
        !qb_attention_of(&p, &p.views))
        return false;
    const qb_shape part = in[0].shape;
    for (int32_t i = 0; i < PARTS; i++) {
        if (!qb_shape_equal(&in[i].shape, &part)) return false;
        in[i].shape.dim[2] *= PARTS;
        p.views.in[i].stride[0] *= PARTS;
        p.views.in[i].stride[3] *= PARTS;
        p.views.in[i].offset = i * part.dim[2];
    }
    p.has_views = true;
    return j->accept(j->user, &p);
}

/* Does the node read what is to be one product? */
static bool reads_products(const qb_rewrite *rw, const qb_node *node, const joiner *j) {
    product part[PARTS];
    if (!node->op || !qb_node_is(node, "Attention") || !is_accepted(rw->graph, node, j) ||
        !parts_of(rw, node->in, part))
        return false;
    for (int32_t i = 0; i < PARTS; i++)
        if (!is_inner(rw, node->in[i]) || !is_inner(rw, part[i].result)) return false;
    return true;
}

/* Joins in rw's graph what is to be one in `model`'s, which may be the same. */
static qb_status fuse(qb_rewrite *rw, qb_rewrite *model, joiner *j) {
    for (int32_t i = 0, n = model->graph->n_nodes; i < n; i++) {
        product part[PARTS];
        int32_t out[PARTS];
        QB_TRY(qb_rewrite_refresh(model));
        if (!reads_products(model, &model->graph->nodes[i], j)) continue;
        if (rw != model) QB_TRY(qb_rewrite_refresh(rw));
        for (int32_t k = 0; k < PARTS; k++) {
            const int32_t value = model->graph->nodes[i].in[k];
            out[k] = qb_graph_find_value(rw->graph, model->graph->values[value].name);
        }
        if (parts_of(rw, out, part)) QB_TRY(rewrite(rw, j, out, part));
    }
    return qb_rewrite_tidy(rw);
}

qb_status qb_fuse_products(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                           int32_t *n_changes) {
    joiner j = {.accept = accept, .user = user};
    qb_rewrite rw = {.cx = cx, .graph = graph};
    const qb_status status = fuse(&rw, &rw, &j);
    *n_changes = rw.n_changes;
    qb_free(j.joints);
    qb_rewrite_release(&rw);
    return status;
}

qb_status qb_fuse_products_as(qb_ctx *cx, qb_graph *graph, const qb_graph *bound,
                              qb_problem_filter accept, const void *user, int32_t *n_changes) {
    joiner j = {.accept = accept, .user = user};
    qb_rewrite rw = {.cx = cx, .graph = graph};
    qb_rewrite model = {.cx = cx, .graph = (qb_graph *)(uintptr_t)bound}; /* is only read */
    const qb_status status = fuse(&rw, &model, &j);
    *n_changes = rw.n_changes;
    qb_free(j.joints);
    qb_rewrite_release(&model);
    qb_rewrite_release(&rw);
    return status;
}

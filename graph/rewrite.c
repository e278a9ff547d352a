#include "graph/dequantize.h"
#include "graph/graph_internal.h"
#include "graph/rewrite_internal.h"

#include <string.h>

#include "graph/passes_internal.h"

qb_status qb_rewrite_each(qb_ctx *cx, qb_graph *graph, qb_match match, int32_t *n_changes) {
    QB_RELEASED(qb_rewrite_release) qb_rewrite rw = {.cx = cx, .graph = graph};
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i].op) continue;
        QB_TRY(qb_rewrite_refresh(&rw));
        QB_TRY(match(&rw, i));
    }
    if (rw.n_changes > 0) QB_TRY(qb_rewrite_check(&rw));
    if (rw.unsorted) QB_TRY(qb_graph_sort(cx, graph));
    *n_changes = rw.n_changes;
    return QB_OK;
}

qb_status qb_rewrite_fuse(qb_rewrite *rw, qb_match match, int32_t *n_changes) {
    qb_status status = QB_OK;
    for (int32_t i = 0, n = rw->graph->n_nodes; i < n; i++) {
        if (!rw->graph->nodes[i].op) continue;
        QB_GO(qb_rewrite_refresh(rw));
        QB_GO(match(rw, i));
    }
    QB_GO(qb_rewrite_tidy(rw));
    *n_changes = rw->n_changes;
out:
    qb_rewrite_release(rw);
    return status;
}

qb_status qb_rewrite_tidy(qb_rewrite *rw) {
    int32_t n;
    if (rw->n_changes == 0) return QB_OK;
    QB_TRY(qb_rewrite_check(rw));
    QB_TRY(qb_graph_sort(rw->cx, rw->graph));
    QB_TRY(qb_pass_prune_dead.run(rw->cx, rw->graph, &n));
    return qb_graph_sweep(rw->cx, rw->graph);
}

int32_t qb_rewrite_from(const qb_rewrite *rw, int32_t value, const char *op) {
    if (value < 0) return -1;
    int32_t node = rw->uses.producer[value];
    if (node < 0 || !rw->graph->nodes[node].op) return -1;
    return !op || qb_node_is(&rw->graph->nodes[node], op) ? node : -1;
}

const qb_node *qb_rewrite_behind(const qb_rewrite *rw, int32_t value, const char *op) {
    const int32_t node = qb_rewrite_from(rw, value, op);
    return node >= 0 && qb_value_is_plain(rw->graph, value) ? &rw->graph->nodes[node] : NULL;
}

int32_t qb_rewrite_made_for(const qb_rewrite *rw, int32_t value, int32_t reader) {
    const int32_t node = qb_rewrite_from(rw, value, NULL);
    const bool alone = node >= 0 && qb_value_is_plain(rw->graph, value) &&
                       qb_uses_sole_user(rw->graph, &rw->uses, value) == reader;
    return alone ? node : -1;
}

int32_t qb_uses_sole_user(const qb_graph *graph, const qb_uses *uses, int32_t value) {
    if (value < 0 || uses->n_users[value] != 1 || qb_graph_is_output(graph, value)) return -1;
    return uses->users[value][0];
}

qb_status qb_rewrite_changed(qb_rewrite *rw) {
    rw->n_changes++;
    return QB_OK;
}

void qb_rewrite_kill(qb_rewrite *rw, int32_t node) {
    qb_rewrite_touch(rw, node);
    qb_graph_kill_node(rw->graph, node);
}

bool qb_rewrite_forward(qb_rewrite *rw, int32_t from, int32_t to) {
    qb_graph *graph = rw->graph;
    if (!qb_graph_is_output(graph, from)) {
        qb_rewrite_replace_uses(rw, from, to);
        qb_rewrite_changed(rw);
        return true;
    }
    int32_t producer = qb_rewrite_from(rw, to, NULL);
    if (producer < 0 || qb_graph_is_output(graph, to)) return false;
    /* The old producer of `from` still names it; it is dead once the caller has killed it. */
    qb_node *node = &graph->nodes[producer];
    qb_rewrite_touch(rw, producer);
    for (int32_t i = 0; i < node->n_out; i++)
        if (node->out[i] == to) node->out[i] = from;
    qb_rewrite_replace_uses(rw, to, from);
    qb_rewrite_changed(rw);
    /* A user of `to` may stand before the killed node, but never before the new producer. */
    return true;
}

static qb_status need_op(qb_rewrite *rw, const qb_op *op) {
    return op ? QB_OK : qb_fail(rw->cx, QB_STATUS_INTERNAL, "a rewrite needs a missing operator");
}

static qb_status index_node_names(qb_rewrite *rw) {
    QB_TRY(qb_rewrite_arena(rw));
    qb_arena *arena = rw->index.arena;
    qb_names *names = QB_NEW(rw->cx, qb_arena_alloc(rw->cx, arena, 1, sizeof *names));
    for (int32_t i = 0; i < rw->graph->n_nodes; i++) {
        const qb_node *node = &rw->graph->nodes[i];
        if (node->op && *node->name && qb_names_find(names, node->name) < 0)
            QB_TRY(qb_names_put(rw->cx, arena, names, node->name, i));
    }
    rw->index.node_names = names;
    return QB_OK;
}

/* VALUE_OPERATOR, with a number behind it when that is taken. */
static qb_status new_node_name(qb_rewrite *rw, const qb_op *op, int32_t out, const char **name) {
    qb_arena *arena = rw->graph->arena;
    if (!rw->index.node_names) QB_TRY(index_node_names(rw));
    *name = qb_arena_format(rw->cx, arena, "%s_%s", rw->graph->values[out].name, op->name);
    if (*name) *name = qb_names_unique(rw->cx, arena, rw->index.node_names, *name);
    if (!*name) return rw->cx->code;
    return qb_names_put(rw->cx, rw->index.arena, rw->index.node_names, *name, 0);
}

qb_status qb_rewrite_append(qb_rewrite *rw, const qb_op *op, const int32_t *in, int32_t n_in,
                            int32_t out) {
    QB_TRY(need_op(rw, op));
    const char *name;
    QB_TRY(new_node_name(rw, op, out, &name));
    const int32_t node = qb_graph_add_node(rw->cx, rw->graph, op, name, in, n_in, &out, 1);
    if (node < 0) return rw->cx->code;
    qb_rewrite_touch(rw, node);
    rw->unsorted = true;
    return QB_OK;
}

qb_status qb_rewrite_node(qb_rewrite *rw, int32_t node, const qb_op *op, const int32_t *in,
                          int32_t n_in, int32_t out) {
    qb_graph *graph = rw->graph;
    QB_TRY(need_op(rw, op));
    int32_t added =
        qb_graph_add_node(rw->cx, graph, op, graph->nodes[node].name, in, n_in, &out, 1);
    if (added < 0) return rw->cx->code;
    graph->nodes[node] = graph->nodes[added];
    memset(&graph->nodes[added], 0, sizeof graph->nodes[added]);
    graph->n_nodes = added;
    qb_rewrite_touch(rw, node);
    return QB_OK;
}

qb_status qb_rewrite_inputs(qb_rewrite *rw, int32_t node, const int32_t *in, int32_t n_in) {
    int32_t *copy = qb_arena_alloc(rw->cx, rw->graph->arena, (size_t)n_in, sizeof *copy);
    if (!copy) return rw->cx->code;
    memcpy(copy, in, (size_t)n_in * sizeof *copy);
    rw->graph->nodes[node].in = copy;
    rw->graph->nodes[node].n_in = n_in;
    qb_rewrite_touch(rw, node);
    return QB_OK;
}

/* NAME_SUFFIX, once: a constant that is folded again and again keeps its name. */
static const char *derived_name(qb_rewrite *rw, int32_t like, const char *suffix) {
    const char *name = rw->graph->values[like].name;
    size_t n = strlen(name), m = strlen(suffix);
    if (n > m && strcmp(name + n - m, suffix) == 0)
        return qb_arena_strdup(rw->cx, rw->graph->arena, name);
    return qb_arena_format(rw->cx, rw->graph->arena, "%s%s", name, suffix);
}

float *qb_rewrite_dequantized(qb_rewrite *rw, int32_t value) {
    const qb_value *v = &rw->graph->values[value];
    const size_t n = (size_t)qb_shape_count(&v->shape);
    float *to = qb_arena_alloc(rw->cx, rw->graph->arena, n + 1, sizeof *to);
    if (to && v->q.n > 0)
        qb_value_dequantized(v, to);
    else if (to)
        memcpy(to, v->data, n * sizeof *to);
    return to;
}

qb_status qb_rewrite_floats(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                            const float *data, int32_t *out) {
    const char *name = QB_NEW(rw->cx, derived_name(rw, like, suffix));
    int32_t id = qb_graph_add_constant(rw->cx, rw->graph, name, QB_DTYPE_F32, shape, data);
    if (id < 0) return rw->cx->code;
    *out = id;
    return QB_OK;
}

qb_status qb_rewrite_int64s(qb_rewrite *rw, int32_t like, const char *suffix, const int64_t *data,
                            int32_t n, int32_t *out) {
    const char *name = QB_NEW(rw->cx, derived_name(rw, like, suffix));
    qb_shape shape = {.rank = 1, .dim = {n}};
    int32_t id = qb_graph_add_constant(rw->cx, rw->graph, name, QB_DTYPE_S64, &shape, data);
    if (id < 0) return rw->cx->code;
    *out = id;
    return QB_OK;
}

qb_status qb_rewrite_value(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                           int32_t *out) {
    const char *name = QB_NEW(rw->cx, derived_name(rw, like, suffix));
    int32_t id = qb_graph_add_value(rw->cx, rw->graph, name, rw->graph->values[like].dtype, shape);
    if (id < 0) return rw->cx->code;
    rw->graph->values[id].q = rw->graph->values[like].q;
    *out = id;
    return QB_OK;
}

qb_status qb_rewrite_plain(qb_rewrite *rw, int32_t like, const char *suffix, const qb_shape *shape,
                           int32_t *out) {
    QB_TRY(qb_rewrite_value(rw, like, suffix, shape, out));
    rw->graph->values[*out].dtype = QB_DTYPE_F32;
    rw->graph->values[*out].q = (qb_qparams){.axis = -1};
    return QB_OK;
}

qb_status qb_rewrite_append_plain(qb_rewrite *rw, const char *op, const int32_t in[2], int32_t like,
                                  const char *suffix, const qb_shape *shape, int32_t *out) {
    QB_TRY(qb_rewrite_plain(rw, like, suffix, shape, out));
    return qb_rewrite_append(rw, qb_op_find(op, ""), in, in[1] < 0 ? 1 : 2, *out);
}

qb_status qb_rewrite_before(qb_rewrite *rw, int32_t index, int32_t side, int32_t view,
                            const char *suffix) {
    qb_graph *graph = rw->graph;
    const int32_t from = graph->nodes[view].in[0], out = graph->nodes[index].out[0];
    const qb_shape shape = graph->values[from].shape;
    int32_t made;
    QB_TRY(qb_rewrite_value(rw, out, suffix, &shape, &made));
    graph->nodes[index].in[side] = from;
    graph->nodes[index].out[0] = made;
    graph->nodes[view].in[0] = made;
    graph->nodes[view].out[0] = out;
    qb_rewrite_touch(rw, index);
    qb_rewrite_touch(rw, view);
    rw->unsorted = true;
    return qb_rewrite_changed(rw);
}

static void *attr_slot(qb_rewrite *rw, int32_t node, const char *attr, qb_attr_type type) {
    const qb_node *n = &rw->graph->nodes[node];
    for (const qb_attr_desc *d = n->op->attrs; d && d->name; d++)
        if (d->type == type && strcmp(d->name, attr) == 0) return (char *)n->attrs + d->offset;
    qb_fail(rw->cx, QB_STATUS_INTERNAL, "node %d %s: no attribute %s of this type", node,
            n->op->name, attr);
    return NULL;
}

qb_status qb_node_set_int(qb_rewrite *rw, int32_t node, const char *attr, int64_t value) {
    int64_t *slot = QB_NEW(rw->cx, attr_slot(rw, node, attr, QB_ATTR_INT));
    *slot = value;
    return QB_OK;
}

qb_status qb_node_set_float(qb_rewrite *rw, int32_t node, const char *attr, float value) {
    float *slot = QB_NEW(rw->cx, attr_slot(rw, node, attr, QB_ATTR_FLOAT));
    *slot = value;
    return QB_OK;
}

qb_status qb_node_set_string(qb_rewrite *rw, int32_t node, const char *attr, const char *value) {
    const char **slot = QB_NEW(rw->cx, attr_slot(rw, node, attr, QB_ATTR_STRING));
    const char *copy = QB_NEW(rw->cx, qb_arena_strdup(rw->cx, rw->graph->arena, value));
    *slot = copy;
    return QB_OK;
}

qb_status qb_node_set_ints(qb_rewrite *rw, int32_t node, const char *attr, const int64_t *value,
                           int32_t n) {
    qb_ints *slot = QB_NEW(rw->cx, attr_slot(rw, node, attr, QB_ATTR_INTS));
    int64_t *copy = qb_arena_alloc(rw->cx, rw->graph->arena, (size_t)n, sizeof *copy);
    if (!copy) return rw->cx->code;
    memcpy(copy, value, (size_t)n * sizeof *copy);
    *slot = (qb_ints){n, copy};
    return QB_OK;
}

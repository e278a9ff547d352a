/* Operators that only move elements, one after the other, as one copy: Reshape, Transpose and
 * Reshape of a channel shuffle or a window partition are one pass over memory, and so may be any
 * other row of them. */
#include "graph/fusion_backwards.h"
#include "kernels/strided.h"

bool qb_group_strided(const qb_graph *graph, const qb_group *group, qb_strided *out) {
    const qb_node *node = group->n_nodes == 1 ? &graph->nodes[group->node[0]] : NULL;
    if (group->strided) *out = *group->strided;
    if (group->strided) return true;
    if (!node || group->kind != QB_KIND_NODE || !node->op || node->n_in < 1 || node->in[0] < 0 ||
        node->out[0] < 0)
        return false;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return false;
    if (x->data || x->dtype != y->dtype || !qb_qparams_same(&x->q, &y->q) || x->q.n > 1 ||
        !qb_shape_known(&x->shape) || !qb_shape_known(&y->shape) || qb_shape_count(&y->shape) < 1)
        return false;
    if (qb_node_is_view(node)) {
        *out = qb_strided_all(qb_shape_count(&x->shape));
        return qb_shape_count(&x->shape) == qb_shape_count(&y->shape);
    }
    return qb_node_strided(graph, node, 0, out);
}

/* The group that makes the value for this one reader alone; NULL: none. */
static qb_group *maker_of(const qb_fusing *m, int32_t value) {
    const qb_value *v = &m->graph->values[value];
    if (m->maker[value] < 0 || v->kept || qb_graph_is_output(m->graph, value) ||
        m->uses.n_users[value] != 1)
        return NULL;
    return &m->groups->group[m->maker[value]];
}

static bool accepted(const qb_fusing *m, int32_t from, int32_t to, const qb_strided *strided) {
    const qb_value *x = &m->graph->values[from], *y = &m->graph->values[to];
    const qb_desc in = {.dtype = x->dtype, .shape = x->shape, .q = x->q};
    qb_problem p = {.kind = QB_KIND_STRIDED_COPY, .n_in = 1, .in = &in, .strided = *strided};
    p.out = (qb_desc){.dtype = y->dtype, .shape = y->shape, .q = y->q};
    return m->accept(m->user, &p);
}

/* Nodes that are one copy so far, the last one first. */
typedef struct row {
    int32_t n, from; /* the value that is read */
    qb_group *group[QB_GROUP_NODES];
    qb_strided strided;
    bool copies; /* one of them is no view */
} row;

static bool add(const qb_fusing *m, qb_group *group, const qb_strided *strided, row *r) {
    const qb_node *node = &m->graph->nodes[group->node[0]];
    if (r->n == QB_GROUP_NODES) return false;
    r->group[r->n++] = group;
    r->from = node->in[0];
    r->strided = *strided;
    r->copies = r->copies || !qb_node_is_view(node);
    return true;
}

static qb_status commit(qb_fusing *m, const row *r) {
    qb_group *to = r->group[0];
    int32_t *in = qb_arena_alloc(m->cx, m->groups->arena, 1, sizeof *in);
    qb_strided *kept = qb_arena_alloc(m->cx, m->groups->arena, 1, sizeof *kept);
    if (!in || !kept) return m->cx->code;
    in[0] = r->from;
    *kept = r->strided;
    const int32_t last = to->node[0];
    to->n_nodes = 0;
    for (int32_t i = r->n - 1; i > 0; i--) {
        to->node[to->n_nodes++] = r->group[i]->node[0];
        *r->group[i] = (qb_group){.out = r->group[i]->out};
    }
    to->node[to->n_nodes++] = last;
    to->kind = QB_KIND_STRIDED_COPY;
    to->in = in;
    to->n_in = 1;
    to->strided = kept;
    return QB_OK;
}

/* From the last one backwards, for as long as all are one copy. */
static qb_status fuse_moves(qb_fusing *m, int32_t g) {
    qb_group *group = &m->groups->group[g];
    row r = {0};
    qb_strided one;
    if (!qb_group_strided(m->graph, group, &one) || !add(m, group, &one, &r)) return QB_OK;
    for (;;) {
        group = maker_of(m, r.from);
        if (!group || !qb_group_strided(m->graph, group, &one) ||
            !qb_strided_compose(&one, &r.strided, &one) ||
            !accepted(m, m->graph->nodes[group->node[0]].in[0], r.group[0]->out, &one) ||
            !add(m, group, &one, &r))
            break;
    }
    return r.n > 1 && r.copies ? commit(m, &r) : QB_OK;
}

qb_status qb_fuse_views(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept, const void *user,
                        qb_groups *groups) {
    qb_fusing f = {.cx = cx, .graph = graph, .groups = groups, .accept = accept, .user = user};
    return qb_fuse_backwards(&f, fuse_moves);
}

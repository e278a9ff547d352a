/* Operators that only move elements, one after the other, as one copy: Reshape, Transpose and
 * Reshape of a channel shuffle or a window partition are one pass over memory, and so may be any
 * other row of them. Such a copy may quantize or dequantize on its way, once. */
#include "graph/fusion_views.h"
#include "kernels/strided.h"

bool qb_group_strided(const qb_graph *graph, const qb_group *group, qb_strided *out) {
    const qb_node *node = group->n_nodes == 1 ? &graph->nodes[group->node[0]] : NULL;
    if (group->strided) {
        *out = *group->strided;
        return qb_value_same_type(&graph->values[group->in[0]], &graph->values[group->out]);
    }
    if (!node || group->kind != QB_KIND_NODE || !node->op || node->n_in < 1 || node->in[0] < 0 ||
        node->out[0] < 0)
        return false;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    for (int32_t i = 1; i < node->n_out; i++)
        if (node->out[i] >= 0) return false;
    if (x->data || !qb_value_same_type(x, y) || x->q.n > 1 || !qb_shape_known(&x->shape) ||
        !qb_shape_known(&y->shape) || qb_shape_count(&y->shape) < 1)
        return false;
    if (qb_node_is_view(node)) {
        *out = qb_strided_all(qb_shape_count(&x->shape));
        return qb_shape_count(&x->shape) == qb_shape_count(&y->shape);
    }
    return qb_node_strided(graph, node, 0, out);
}

/* Does a group of one node quantize its input, dequantize it, or requantize it, and nothing else?
 */
static bool converts(const qb_graph *graph, const qb_group *group) {
    const qb_node *node = group->n_nodes == 1 ? &graph->nodes[group->node[0]] : NULL;
    if (!node || group->strided || !qb_node_is_view(node)) return false;
    const qb_value *x = &graph->values[node->in[0]], *y = &graph->values[node->out[0]];
    return !x->data && !qb_value_same_type(x, y) && qb_value_has_one_scale(x) &&
           qb_value_has_one_scale(y) && qb_shape_known(&x->shape) && qb_shape_known(&y->shape) &&
           qb_shape_count(&y->shape) > 0;
}

/* The group that makes the value for this one reader alone; NULL: none. A row that begins before
 * its own maker reads what no node of it does. */
static qb_group *maker_of(const qb_fusing *m, int32_t value) {
    const qb_value *v = &m->graph->values[value];
    if (m->maker[value] < 0 || v->kept || qb_graph_is_output(m->graph, value) ||
        m->uses.n_users[value] != 1 || m->readers[value] > 1)
        return NULL;
    return &m->groups->group[m->maker[value]];
}

/* Is everybody who reads the value a move, too? */
static bool only_moves_read(const qb_fusing *m, int32_t value) {
    const qb_value *v = &m->graph->values[value];
    if (v->kept || qb_graph_is_output(m->graph, value)) return false;
    for (int32_t i = 0; i < m->uses.n_users[value]; i++) {
        const qb_node *node = &m->graph->nodes[m->uses.users[value][i]];
        qb_strided one;
        if (node->in[0] != value || node->n_out != 1 ||
            (!qb_node_is_view(node) && !qb_node_strided(m->graph, node, 0, &one)))
            return false;
    }
    return true;
}

static bool accepted(const qb_fusing *m, int32_t from, int32_t to, const qb_strided *strided) {
    const qb_value *x = &m->graph->values[from], *y = &m->graph->values[to];
    const qb_desc in = {.dtype = x->dtype, .shape = x->shape, .q = x->q};
    qb_problem p = {.kind = QB_KIND_STRIDED_COPY, .n_in = 1, .in = &in, .strided = *strided};
    p.out = (qb_desc){.dtype = y->dtype, .shape = y->shape, .q = y->q};
    return m->accept(m->user, &p);
}

static bool add(const qb_fusing *m, qb_group *group, const qb_strided *strided, qb_row *r) {
    const qb_node *node = &m->graph->nodes[group->node[0]];
    if (r->n == QB_GROUP_NODES) return false;
    r->group[r->n++] = group;
    r->from = node->in[0];
    r->strided = *strided;
    r->copies = r->copies || !qb_node_is_view(node);
    return true;
}

/* What the group moves; true, too, of one that converts what the others of the row move. */
static bool is_move(const qb_fusing *m, const qb_group *group, qb_row *r, qb_strided *out) {
    if (qb_group_strided(m->graph, group, out)) return true;
    if (r->converts || !converts(m->graph, group)) return false;
    *out = qb_strided_all(qb_shape_count(&m->graph->values[group->out].shape));
    return r->converts = true;
}

/* The first copy of several that are apart: each reads what that one reads, which is then made for
 * nobody. Only where the row copies anyway: a view of what is copied costs nothing. */
static qb_group *shared_maker(const qb_fusing *m, const qb_row *r) {
    const bool shared =
        r->copies && m->maker[r->from] >= 0 && (r->past >= 0 || only_moves_read(m, r->from));
    return shared ? &m->groups->group[m->maker[r->from]] : NULL;
}

static void begin_before(const qb_fusing *m, const qb_group *group, const qb_strided *strided,
                         qb_row *r) {
    if (r->past < 0) r->past = r->from;
    r->from = m->graph->nodes[group->node[0]].in[0];
    r->strided = *strided;
}

static qb_status commit(qb_fusing *m, const qb_row *r) {
    qb_group *to = r->group[0];
    int32_t *in = qb_arena_alloc(m->cx, m->groups->arena, 1, sizeof *in);
    qb_strided *kept = qb_arena_alloc(m->cx, m->groups->arena, 1, sizeof *kept);
    if (!in || !kept) return m->cx->code;
    in[0] = r->from;
    *kept = r->strided;
    const int32_t last = to->node[0];
    to->n_nodes = 0;
    for (int32_t i = r->n - 1; i > 0; i--) to->node[to->n_nodes++] = r->group[i]->node[0];
    to->node[to->n_nodes++] = last;
    qb_row_take(m, r, 1);
    to->kind = QB_KIND_STRIDED_COPY;
    to->in = in;
    to->n_in = 1;
    to->strided = kept;
    return QB_OK;
}

/* Are the elements those of a transposition of the last two dimensions? */
static bool swaps_last(const qb_graph *graph, int32_t from, int32_t to, const qb_strided *strided) {
    const qb_shape *x = &graph->values[from].shape, *y = &graph->values[to].shape;
    const int32_t rank = y->rank;
    qb_strided swapped = {.rank = rank};
    if (rank < 2 || x->rank != rank) return false;
    int64_t stride = 1;
    for (int32_t d = rank - 1; d >= 0; d--) {
        const int32_t at = d < rank - 2 ? d : 2 * rank - 3 - d; /* where the result has it */
        if (y->dim[at] != x->dim[d]) return false;
        swapped.dim[at] = x->dim[d];
        swapped.stride[at] = stride;
        stride *= x->dim[d];
    }
    return qb_strided_same(&swapped, strided);
}

static void swap(qb_group *product, int32_t operand, int32_t from) {
    bool *swaps = operand == QB_IN_WEIGHT ? &product->swaps_b : &product->swaps_a;
    product->in[operand] = from;
    *swaps = !*swaps;
}

/* A product of floats reads an operand before its transposition. */
static void fuse_operand(qb_fusing *m, qb_group *product, int32_t operand) {
    const int32_t value = product->in[operand];
    qb_group *maker = m->maker[value] >= 0 ? maker_of(m, value) : NULL;
    qb_ctx quiet = {0};
    qb_strided strided;
    qb_desc in[QB_MAX_INPUTS];
    qb_problem p;
    const bool floats = m->graph->values[product->in[QB_IN_DATA]].q.n == 0 &&
                        m->graph->values[product->in[QB_IN_WEIGHT]].q.n == 0;
    if (!maker || !floats || !qb_group_strided(m->graph, maker, &strided)) return;
    const int32_t from = m->graph->nodes[maker->node[0]].in[0];
    if (!swaps_last(m->graph, from, value, &strided)) return;
    swap(product, operand, from);
    if (qb_group_problem(&quiet, m->graph, product, in, &p) == QB_OK && m->accept(m->user, &p))
        *maker = (qb_group){.out = maker->out};
    else
        swap(product, operand, value);
}

bool qb_row_extend(const qb_fusing *m, qb_row *r, bool one_copy) {
    qb_group *group = r->past < 0 ? maker_of(m, r->from) : NULL;
    const bool shared = !group, converted = r->converts;
    qb_strided one;
    if (shared) group = shared_maker(m, r);
    if (!group || !is_move(m, group, r, &one) || (shared && r->converts != converted) ||
        !qb_strided_compose(&one, &r->strided, &one) ||
        (one_copy && !accepted(m, m->graph->nodes[group->node[0]].in[0], r->group[0]->out, &one)))
        return false;
    if (!shared) return add(m, group, &one, r);
    begin_before(m, group, &one, r);
    return true;
}

void qb_row_take(qb_fusing *m, const qb_row *r, int32_t first) {
    if (r->past >= 0) m->readers[r->past]--, m->readers[r->from]++;
    for (int32_t i = first; i < r->n; i++) *r->group[i] = (qb_group){.out = r->group[i]->out};
}

/* From the last one backwards, for as long as all are one copy. */
static qb_status fuse_moves(qb_fusing *m, int32_t g) {
    qb_group *group = &m->groups->group[g];
    qb_row r = {.past = -1};
    qb_strided one;
    if (group->kind == QB_KIND_MATMUL) {
        fuse_operand(m, group, QB_IN_DATA);
        fuse_operand(m, group, QB_IN_WEIGHT);
        return QB_OK;
    }
    if (group->kind == QB_KIND_NODE && group->n_nodes == 1 &&
        qb_node_is(&m->graph->nodes[group->node[0]], "Attention"))
        return qb_fuse_heads(m, g);
    if (!is_move(m, group, &r, &one)) return QB_OK;
    if (m->readers[group->out] == 0 && m->uses.n_users[group->out] > 0) {
        m->readers[m->graph->nodes[group->node[0]].in[0]]--;
        *group = (qb_group){.out = group->out};
        return QB_OK;
    }
    if (!add(m, group, &one, &r)) return QB_OK;
    while (qb_row_extend(m, &r, true)) {
    }
    return (r.n > 1 || r.past >= 0) && (r.copies || r.converts) ? commit(m, &r) : QB_OK;
}

qb_status qb_fuse_views(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept, const void *user,
                        qb_groups *groups) {
    qb_fusing f = {.cx = cx, .graph = graph, .groups = groups, .accept = accept, .user = user};
    return qb_fuse_backwards(&f, fuse_moves);
}

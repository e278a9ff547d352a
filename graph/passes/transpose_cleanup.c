/* Transposes: two in a row become one or none, one behind an Expand goes before it, and a region of
 * elementwise nodes between transposes is computed in the other order of axes when that leaves
 * fewer of them.
 *
 * A region grows from one Transpose with permutation p through nodes whose inputs are all
 * transposed by p, other values of the region, or constants that can be permuted beforehand.
 * Inside, a value v is computed as v' with v = transpose(v', p). Transposes that undo p at the
 * region's end go, and a value that is read elsewhere too gets one. Each application lowers the
 * number of transposes. */
#include <string.h>

#include "graph/passes_internal.h"

typedef struct perm {
    int32_t n;
    int32_t to[QB_MAX_RANK]; /* axis i of the result is axis to[i] of the input */
} perm;

static bool perm_of(const qb_graph *graph, const qb_node *node, perm *p) {
    if (!qb_node_is(node, "Transpose")) return false;
    qb_ints given = qb_node_ints(node, "perm");
    int32_t rank = graph->values[node->in[0]].shape.rank;
    p->n = given.n ? given.n : rank;
    if (p->n < 1 || p->n > QB_MAX_RANK || (rank >= 0 && rank != p->n)) return false;
    uint32_t seen = 0; /* where the rank is not known, nobody has checked the attribute yet */
    for (int32_t i = 0; i < p->n; i++) {
        int64_t axis = given.n ? given.v[i] : p->n - 1 - i;
        if (axis < 0 || axis >= p->n || (seen & 1u << axis)) return false;
        seen |= 1u << axis;
        p->to[i] = (int32_t)axis;
    }
    return true;
}

static bool perm_equal(const perm *a, const perm *b) {
    return a->n == b->n && memcmp(a->to, b->to, (size_t)a->n * sizeof *a->to) == 0;
}

/* First a, then b. */
static perm perm_then(const perm *a, const perm *b) {
    perm c = {.n = b->n};
    for (int32_t i = 0; i < b->n; i++) c.to[i] = a->to[b->to[i]];
    return c;
}

static bool perm_is_identity(const perm *p) {
    for (int32_t i = 0; i < p->n; i++)
        if (p->to[i] != i) return false;
    return true;
}

static perm perm_inverse(const perm *p) {
    perm inverse = {.n = p->n};
    for (int32_t i = 0; i < p->n; i++) inverse.to[p->to[i]] = i;
    return inverse;
}

static qb_status set_perm(qb_rewrite *rw, int32_t node, const perm *p) {
    int64_t wide[QB_MAX_RANK];
    for (int32_t i = 0; i < p->n; i++) wide[i] = p->to[i];
    return qb_node_set_ints(rw, node, "perm", wide, p->n);
}

/* Values may change places freely when one scale holds for all of them. */
static bool movable(const qb_graph *graph, int32_t value) {
    const qb_qparams *q = &graph->values[value].q;
    return q->n == 0 || q->axis < 0;
}

static bool transparent(const qb_graph *graph, const qb_node *node) {
    return movable(graph, node->in[0]) &&
           qb_qparams_same(&graph->values[node->in[0]].q, &graph->values[node->out[0]].q);
}

/* --- two in a row ---------------------------------------------------------------------------- */

static qb_status merge(qb_rewrite *rw, int32_t index, const perm *second, bool *done) {
    qb_graph *graph = rw->graph;
    qb_node *node = &graph->nodes[index];
    int32_t before = qb_rewrite_from(rw, node->in[0], "Transpose");
    perm first;
    *done = false;
    if (before < 0 || !perm_of(graph, &graph->nodes[before], &first) || first.n != second->n)
        return QB_OK;
    if (!transparent(graph, node) || !transparent(graph, &graph->nodes[before])) return QB_OK;
    int32_t x = graph->nodes[before].in[0];
    perm both = perm_then(&first, second);
    if (perm_is_identity(&both)) {
        *done = qb_rewrite_forward(rw, node->out[0], x);
        if (*done) qb_rewrite_kill(rw, index);
        return QB_OK;
    }
    node->in[0] = x;
    qb_rewrite_touch(rw, index);
    QB_TRY(set_perm(rw, index, &both));
    qb_rewrite_changed(rw);
    *done = true;
    return QB_OK;
}

/* --- behind an Expand ------------------------------------------------------------------------ */

/* Elements are repeated after they were moved: fewer move, and arithmetic repeats them itself. */
static qb_status go_before_expand(qb_rewrite *rw, int32_t index, const perm *p, bool *done) {
    qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    const int32_t repeated = node->in[0], out = node->out[0];
    const int32_t expand = qb_rewrite_from(rw, repeated, "Expand");
    *done = false;
    if (expand < 0 || graph->values[repeated].kept || !transparent(graph, node) ||
        !transparent(graph, &graph->nodes[expand]))
        return QB_OK;
    const int32_t x = graph->nodes[expand].in[0], sizes = graph->nodes[expand].in[1];
    const qb_shape once = graph->values[x].shape, of_sizes = graph->values[sizes].shape;
    if (once.rank != p->n || of_sizes.rank != 1 || of_sizes.dim[0] != p->n) return QB_OK;
    qb_shape shape = {.rank = p->n};
    int64_t axes[QB_MAX_RANK];
    for (int32_t i = 0; i < p->n; i++) shape.dim[i] = once.dim[axes[i] = p->to[i]];
    int32_t in[2], picked[2] = {sizes, -1};
    QB_TRY(qb_rewrite_value(rw, out, "_once", &shape, &in[0]));
    QB_TRY(qb_rewrite_append(rw, node->op, &x, 1, in[0]));
    QB_TRY(set_perm(rw, graph->n_nodes - 1, p));
    QB_TRY(qb_rewrite_int64s(rw, out, "_axes", axes, p->n, &picked[1]));
    QB_TRY(qb_rewrite_value(rw, sizes, "_permuted", &of_sizes, &in[1]));
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Gather", ""), picked, 2, in[1]));
    QB_TRY(qb_rewrite_node(rw, index, qb_op_find("Expand", ""), in, 2, out));
    qb_rewrite_changed(rw);
    *done = true;
    return QB_OK;
}

/* --- regions --------------------------------------------------------------------------------- */

typedef struct region {
    perm p;
    int32_t start; /* the Transpose it grows from */
    int32_t last;  /* the last node of the region */
    bool *inside;  /* by node */
} region;

static bool has_axis(const qb_node *node) { return qb_op_has(node->op, QB_TRAIT_AXIS); }

static bool may_belong(const qb_node *node) {
    return node->op && node->n_out == 1 &&
           (has_axis(node) || qb_op_has(node->op, QB_TRAIT_ELEMENTWISE));
}

static bool from_transpose(const qb_rewrite *rw, const region *r, int32_t value) {
    int32_t producer = qb_rewrite_from(rw, value, "Transpose");
    perm p;
    return producer >= 0 && perm_of(rw->graph, &rw->graph->nodes[producer], &p) &&
           perm_equal(&p, &r->p) && transparent(rw->graph, &rw->graph->nodes[producer]);
}

static bool from_region(const qb_rewrite *rw, const region *r, int32_t value) {
    int32_t producer = qb_rewrite_from(rw, value, NULL);
    return producer >= 0 && r->inside[producer];
}

/* A constant that can be read as it is, or permuted: 4-byte elements or a single one. */
static bool permutable(const qb_graph *graph, int32_t value, int32_t rank) {
    if (!qb_value_is_const(graph, value)) return false;
    const qb_value *v = &graph->values[value];
    return qb_shape_count(&v->shape) == 1 ||
           (qb_value_is_plain(graph, value) && v->shape.rank <= rank);
}

static bool belongs(const qb_rewrite *rw, const region *r, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    if (!may_belong(node)) return false;
    if (graph->values[node->out[0]].shape.rank != r->p.n || !movable(graph, node->out[0]))
        return false;
    bool connected = false;
    for (int32_t i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i];
        if (v < 0) continue;
        if (qb_value_is_const(graph, v)) {
            if (has_axis(node) || !permutable(graph, v, r->p.n)) return false;
            continue;
        }
        bool inner = from_region(rw, r, v);
        if (!inner && !from_transpose(rw, r, v)) return false;
        connected = connected || inner || rw->uses.producer[v] == r->start;
    }
    return connected;
}

/* The last node that reads what a node makes: no other that belongs comes after all of these. */
static int32_t last_user(const qb_rewrite *rw, int32_t index) {
    const int32_t out = rw->graph->nodes[index].out[0], n = rw->uses.n_users[out];
    return n > 0 ? rw->uses.users[out][n - 1] : -1;
}

static void grow(const qb_rewrite *rw, region *r) {
    int32_t end = last_user(rw, r->start);
    for (int32_t i = r->start + 1; i <= end; i++) {
        if (!belongs(rw, r, i)) continue;
        r->inside[i] = true;
        r->last = i;
        if (last_user(rw, i) > end) end = last_user(rw, i);
    }
}

static bool undoes(const qb_graph *graph, const region *r, const qb_node *node) {
    perm p;
    if (!perm_of(graph, node, &p) || p.n != r->p.n || !transparent(graph, node)) return false;
    p = perm_then(&r->p, &p);
    return perm_is_identity(&p);
}

/* The transpose whose output the node of the region writes from now on: one that undoes p, a graph
 * output before others, because that name has to stay; -1 when there is none. */
static int32_t heir(const qb_rewrite *rw, const region *r, int32_t index) {
    const qb_graph *graph = rw->graph;
    int32_t out = graph->nodes[index].out[0], found = -1;
    for (int32_t i = 0; i < rw->uses.n_users[out]; i++) {
        int32_t user = rw->uses.users[out][i];
        if (!undoes(graph, r, &graph->nodes[user])) continue;
        if (qb_graph_is_output(graph, graph->nodes[user].out[0])) return user;
        if (found < 0) found = user;
    }
    return found;
}

/* How many transposes go at the end of a node of the region, and whether one must come. */
static int32_t exits(const qb_rewrite *rw, const region *r, int32_t index, bool *needed) {
    const qb_graph *graph = rw->graph;
    int32_t out = graph->nodes[index].out[0], gone = 0, first = heir(rw, r, index);
    *needed = qb_graph_is_output(graph, out);
    for (int32_t i = 0; i < rw->uses.n_users[out]; i++) {
        int32_t user = rw->uses.users[out][i];
        const qb_node *node = &graph->nodes[user];
        if (undoes(graph, r, node) && (user == first || !qb_graph_is_output(graph, node->out[0])))
            gone++;
        else if (!r->inside[user])
            *needed = true;
    }
    return gone;
}

static int32_t entries_into(const qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    int32_t n = 0;
    for (int32_t i = 0; i < node->n_in; i++)
        n += node->in[i] >= 0 && !qb_value_is_const(rw->graph, node->in[i]);
    return n;
}

/* Nodes at the end that read one value and lead to no undoing transpose only carry one along. */
static void trim(const qb_rewrite *rw, region *r) {
    for (int32_t i = r->last; i > r->start; i--) {
        if (!r->inside[i]) continue;
        const qb_graph *graph = rw->graph;
        int32_t out = graph->nodes[i].out[0];
        bool needed, used_inside = false;
        int32_t gone = exits(rw, r, i, &needed);
        for (int32_t k = 0; k < rw->uses.n_users[out]; k++)
            used_inside = used_inside || r->inside[rw->uses.users[out][k]];
        if (gone == 0 && !used_inside && entries_into(rw, i) < 2) r->inside[i] = false;
    }
}

/* A transpose in front goes when all its users are inside. */
static bool entry_goes(const qb_rewrite *rw, const region *r, int32_t index) {
    const qb_graph *graph = rw->graph;
    const qb_node *node = &graph->nodes[index];
    int32_t out = node->out[0], n = rw->uses.n_users[out];
    if (!node->op || !from_transpose(rw, r, out) || n == 0 || qb_graph_is_output(graph, out))
        return false;
    for (int32_t i = 0; i < n; i++)
        if (!r->inside[rw->uses.users[out][i]]) return false;
    return true;
}

/* Transposes in front of a node that go; each counts at the first node that reads it. */
static int32_t entries_gone(const qb_rewrite *rw, const region *r, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    int32_t gone = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const int32_t value = node->in[i], transpose = qb_rewrite_from(rw, value, "Transpose");
        bool counted = transpose < 0 || rw->uses.users[value][0] != index;
        for (int32_t k = 0; k < i; k++) counted = counted || node->in[k] == value;
        if (!counted) gone += entry_goes(rw, r, transpose);
    }
    return gone;
}

static int32_t profit(const qb_rewrite *rw, const region *r) {
    int32_t gain = 0;
    for (int32_t i = r->start; i <= r->last; i++) {
        bool needed = false;
        if (r->inside[i]) gain += entries_gone(rw, r, i) + exits(rw, r, i, &needed) - needed;
    }
    return gain;
}

/* c where the region needs transpose(c, inverse of p), with leading ones as broadcasting puts them.
 */
static qb_status permute_constant(qb_rewrite *rw, const region *r, int32_t value, int32_t *out) {
    qb_graph *graph = rw->graph;
    const qb_value *v = &graph->values[value];
    *out = value;
    if (qb_shape_count(&v->shape) == 1) return QB_OK;
    qb_shape from = {.rank = r->p.n}, to = from;
    int32_t lead = r->p.n - v->shape.rank;
    for (int32_t i = 0; i < from.rank; i++) from.dim[i] = i < lead ? 1 : v->shape.dim[i - lead];
    perm inverse = perm_inverse(&r->p);
    for (int32_t i = 0; i < to.rank; i++) to.dim[i] = from.dim[inverse.to[i]];
    int64_t stride[QB_MAX_RANK], index[QB_MAX_RANK] = {0}, n = qb_shape_count(&to);
    for (int64_t i = from.rank - 1, s = 1; i >= 0; s *= from.dim[i--]) stride[i] = s;
    QB_FREED float *permuted = QB_NEW(rw->cx, qb_alloc(rw->cx, (size_t)n, sizeof *permuted));
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0;
        for (int32_t i = 0; i < to.rank; i++) at += index[i] * stride[inverse.to[i]];
        permuted[k] = ((const float *)v->data)[at];
        for (int32_t i = to.rank - 1; i >= 0 && ++index[i] == to.dim[i]; i--) index[i] = 0;
    }
    return qb_rewrite_floats(rw, value, "_permuted", &to, permuted, out);
}

static qb_status rewire_inputs(qb_rewrite *rw, const region *r, int32_t index) {
    qb_graph *graph = rw->graph;
    qb_rewrite_touch(rw, index);
    for (int32_t i = 0; i < graph->nodes[index].n_in; i++) {
        int32_t v = graph->nodes[index].in[i], fresh = v;
        if (v < 0) continue;
        if (qb_value_is_const(graph, v))
            QB_TRY(permute_constant(rw, r, v, &fresh));
        else if (!from_region(rw, r, v))
            fresh = graph->nodes[rw->uses.producer[v]].in[0];
        graph->nodes[index].in[i] = fresh;
    }
    if (!has_axis(&graph->nodes[index])) return QB_OK;
    int64_t axis = qb_node_int(&graph->nodes[index], "axis", -1);
    return qb_node_set_int(rw, index, "axis", r->p.to[axis < 0 ? axis + r->p.n : axis]);
}

/* Users of the old output that follow it into the new order of axes. */
static void rewire_users(qb_rewrite *rw, const region *r, int32_t out, int32_t inner) {
    qb_graph *graph = rw->graph;
    for (int32_t i = 0; i < rw->uses.n_users[out]; i++) {
        int32_t user = rw->uses.users[out][i];
        const qb_node *node = &graph->nodes[user];
        if (undoes(graph, r, node)) {
            bool stays = qb_graph_is_output(graph, node->out[0]) && node->out[0] != inner;
            if (stays) continue;
            if (node->out[0] != inner) qb_rewrite_replace_uses(rw, node->out[0], inner);
            qb_rewrite_kill(rw, user);
        } else if (r->inside[user]) {
            for (int32_t k = 0; k < node->n_in; k++)
                if (node->in[k] == out) node->in[k] = inner;
        }
    }
}

/* The node writes the new order of axes: into the output of a transpose that goes, else into its
 * own output, or into a new value when the old order is wanted too and gets a transpose. */
static qb_status rewire_output(qb_rewrite *rw, const region *r, int32_t index) {
    qb_graph *graph = rw->graph;
    int32_t out = graph->nodes[index].out[0], inner = out, first = heir(rw, r, index);
    const qb_shape *old = &graph->values[out].shape;
    qb_shape shape = {.rank = r->p.n};
    for (int32_t i = 0; i < shape.rank; i++) shape.dim[r->p.to[i]] = old->dim[i];
    bool needed;
    exits(rw, r, index, &needed);
    if (first >= 0)
        inner = graph->nodes[first].out[0];
    else if (needed)
        QB_TRY(qb_rewrite_value(rw, out, "_permuted", &shape, &inner));
    else
        graph->values[out].shape = shape;
    graph->nodes[index].out[0] = inner;
    rewire_users(rw, r, out, inner);
    if (!needed) return QB_OK;
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Transpose", ""), &inner, 1, out));
    return set_perm(rw, graph->n_nodes - 1, &r->p);
}

static qb_status apply(qb_rewrite *rw, const region *r) {
    for (int32_t i = r->start; i <= r->last; i++)
        if (r->inside[i]) QB_TRY(rewire_inputs(rw, r, i));
    for (int32_t i = r->last; i >= r->start; i--)
        if (r->inside[i]) QB_TRY(rewire_output(rw, r, i));
    return qb_rewrite_changed(rw);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    qb_graph *graph = rw->graph;
    region r = {.start = index, .last = index};
    bool done = false;
    if (!perm_of(graph, &graph->nodes[index], &r.p)) return QB_OK;
    QB_TRY(merge(rw, index, &r.p, &done));
    if (!done) QB_TRY(go_before_expand(rw, index, &r.p, &done));
    if (done || !transparent(graph, &graph->nodes[index])) return QB_OK;
    QB_TRY_NEW(rw->cx, r.inside = qb_alloc(rw->cx, (size_t)graph->n_nodes, sizeof *r.inside));
    grow(rw, &r);
    trim(rw, &r);
    qb_status status = QB_OK;
    if (profit(rw, &r) > 0) status = apply(rw, &r);
    qb_free(r.inside);
    return status;
}

const qb_pass qb_pass_transpose_cleanup = {"transpose-cleanup",
                                           "merges, cancels and moves Transposes", .match = match};

/* What tools write in operator form moves integers as they are:
 *
 *   x -> Q -> Reshape -> Pad -> DQ -> users
 *
 * Between a QuantizeLinear and DequantizeLinear nodes with its parameters such nodes may as well
 * move the numbers that the integers stand for, between a DQ and a Q of their own:
 *
 *   x -> Q -> DQ -> Reshape -> Q -> DQ -> Pad -> Q -> DQ -> users
 *
 * with the same integers, for Q(DQ(c)) is c. The reader then folds all of them. What asks for the
 * order of integers alone (ArgMax, TopK) asks for that of the numbers; what takes means of them
 * (Resize between pixels) rounds those of the numbers instead of cutting off, half a step apart.
 * Bounds of a Clip, as quantizers for few bits write it, are numbers of the same steps. */
#include <math.h>
#include <string.h>

#include "graph/rewrite_internal.h"
#include "onnx_internal.h"

typedef struct mover {
    qb_ctx *cx;
    qb_graph *graph;
    qb_uses uses;
    int32_t *from; /* [n_values] the node that says its parameters, or -1 */
    bool *moves;   /* [n_nodes] it may move floats instead */
    const qb_op *quantize, *dequantize;
} mover;

static bool is_clip(const qb_node *node) { return node->op->kernel.act == QB_ACT_CLIP; }

/* Does an element of the outputs come from the data, or from a filling that is given, or lies
 * between such? Or is it the place of one? */
static bool only_moves(const qb_node *node) {
    if (!node->op || node->n_in < 1 || node->in[0] < 0) return false;
    if (node->op->kernel.kind == QB_KIND_PAD)
        return qb_node_in(node, 2) >= 0 ||
               strcmp(qb_node_string(node, "mode", "constant"), "constant") != 0;
    if (node->op->kernel.kind == QB_KIND_RESIZE || node->op->kernel.kind == QB_KIND_ARG ||
        is_clip(node))
        return true;
    return node->op->qrule == QB_QRULE_SAME_SCALE && !node->op->of_plugin;
}

/* Inputs that hold integers with the parameters of the data. */
static bool is_data(const qb_node *node, int32_t i) {
    return i == 0 || node->op->max_in == INT32_MAX ||
           (i == 2 && node->op->kernel.kind == QB_KIND_PAD) || is_clip(node);
}

/* Outputs that do: places are behind them. */
static int32_t data_outputs(const qb_node *node) {
    return node->op->kernel.kind == QB_KIND_ARG && node->n_out == node->op->max_out
               ? node->n_out - 1
               : node->n_out;
}

static bool is_8_bit_constant(const qb_graph *graph, int32_t value) {
    const qb_value *v = &graph->values[value];
    return v->data && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8);
}

static bool same_constant(const qb_graph *graph, int32_t a, int32_t b) {
    if (a == b || a < 0 || b < 0) return a == b;
    const qb_value *p = &graph->values[a], *q = &graph->values[b];
    return p->data && q->data && p->dtype == q->dtype && p->bytes == q->bytes &&
           memcmp(p->data, q->data, p->bytes) == 0;
}

static bool same_parameters(const mover *m, int32_t a, int32_t b) {
    const qb_node *p = &m->graph->nodes[a], *q = &m->graph->nodes[b];
    return same_constant(m->graph, qb_node_in(p, 1), qb_node_in(q, 1)) &&
           same_constant(m->graph, qb_node_in(p, 2), qb_node_in(q, 2));
}

/* The parameters of all data of a node; -1: not known, or different ones. */
static int32_t parameters_of(const mover *m, const qb_node *node) {
    const int32_t found = m->from[node->in[0]];
    for (int32_t i = 1; found >= 0 && i < node->n_in; i++) {
        if (!is_data(node, i) || node->in[i] < 0) continue;
        const int32_t other = m->from[node->in[i]];
        if (other < 0 ? !is_8_bit_constant(m->graph, node->in[i])
                      : !same_parameters(m, found, other))
            return -1;
    }
    return found;
}

/* One scale for all, with which an integer comes back from its number. */
static bool has_one_scale(const qb_graph *graph, const qb_node *q) {
    const float *scale = q->n_in >= 3 && q->in[2] >= 0 ? qb_value_floats(graph, q->in[1]) : NULL;
    return scale && qb_shape_count(&graph->values[q->in[1]].shape) == 1 && isnormal(scale[0]) &&
           scale[0] > 0;
}

/* Constants have the parameters of what dequantizes a thing that is moved out of them. */
static void take_from_ends(mover *m) {
    const qb_graph *graph = m->graph;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        if (!only_moves(node) || is_clip(node) /* folded as it is */ ||
            !is_8_bit_constant(graph, node->in[0]) || node->out[0] < 0)
            continue;
        for (int32_t k = 0; k < m->uses.n_users[node->out[0]]; k++) {
            const int32_t user = m->uses.users[node->out[0]][k];
            if (graph->nodes[user].op == m->dequantize &&
                graph->nodes[user].in[0] == node->out[0] &&
                has_one_scale(graph, &graph->nodes[user]))
                m->from[node->in[0]] = user;
        }
    }
}

/* Along the moves; nodes lie in any order. */
static void spread_parameters(mover *m) {
    qb_graph *graph = m->graph;
    take_from_ends(m);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op == m->quantize && has_one_scale(graph, &graph->nodes[i]))
            m->from[graph->nodes[i].out[0]] = i;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = 0; i < graph->n_nodes; i++) {
            const qb_node *node = &graph->nodes[i];
            const int32_t found = only_moves(node) ? parameters_of(m, node) : -1;
            if (m->moves[i] || found < 0) continue;
            m->moves[i] = changed = true;
            for (int32_t k = 0; k < data_outputs(node); k++)
                if (node->out[k] >= 0) m->from[node->out[k]] = found;
        }
    }
}

/* Do all that read the value dequantize it so, move it as well, or look at its shape alone? */
static bool ends_in_floats(const mover *m, int32_t value) {
    if (value < 0) return true;
    if (qb_graph_is_output(m->graph, value)) return false;
    for (int32_t i = 0; i < m->uses.n_users[value]; i++) {
        const int32_t user = m->uses.users[value][i];
        const qb_node *node = &m->graph->nodes[user];
        if (!m->moves[user] && !qb_op_has(node->op, QB_TRAIT_SHAPE_ONLY) &&
            !(node->op == m->dequantize && node->in[0] == value &&
              same_parameters(m, m->from[value], user)))
            return false;
    }
    return true;
}

static void drop_others(mover *m) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = 0; i < m->graph->n_nodes; i++) {
            const qb_node *node = &m->graph->nodes[i];
            bool ends = true;
            for (int32_t k = 0; m->moves[i] && k < data_outputs(node); k++)
                ends = ends && ends_in_floats(m, node->out[k]);
            if (ends) continue;
            m->moves[i] = false;
            changed = true;
        }
    }
}

/* ---- rewriting ---- */

static qb_status new_float(const mover *m, int32_t like, int32_t *out) {
    const qb_shape unknown = {.rank = -1};
    const char *name =
        qb_arena_format(m->cx, m->graph->arena, "%s_real", m->graph->values[like].name);
    *out = name ? qb_graph_add_value(m->cx, m->graph, name, QB_DTYPE_NONE, &unknown) : -1;
    return *out < 0 ? m->cx->code : QB_OK;
}

/* A Q or DQ node with the parameters of another one. */
static qb_status add_node(const mover *m, const qb_op *op, int32_t like, int32_t from, int32_t to) {
    const qb_node *q = &m->graph->nodes[like];
    const int32_t in[] = {from, q->in[1], q->in[2]};
    return qb_graph_add_node(m->cx, m->graph, op, "", in, 3, &to, 1) < 0 ? m->cx->code : QB_OK;
}

static qb_status move_floats(const mover *m, int32_t index) {
    qb_graph *graph = m->graph;
    const int32_t like = m->from[graph->nodes[index].in[0]];
    int32_t dequantized;
    for (int32_t i = 0; i < graph->nodes[index].n_in; i++) {
        const int32_t value = graph->nodes[index].in[i];
        if (value < 0 || !is_data(&graph->nodes[index], i)) continue;
        QB_TRY(new_float(m, value, &dequantized));
        QB_TRY(add_node(m, m->dequantize, like, value, dequantized));
        graph->nodes[index].in[i] = dequantized;
    }
    for (int32_t k = 0; k < data_outputs(&graph->nodes[index]); k++) {
        const int32_t value = graph->nodes[index].out[k];
        if (value < 0) continue;
        QB_TRY(new_float(m, value, &dequantized));
        graph->nodes[index].out[k] = dequantized;
        QB_TRY(add_node(m, m->quantize, like, dequantized, value));
    }
    return QB_OK;
}

qb_status qb_onnx_move_floats(qb_ctx *cx, qb_graph *graph) {
    mover m = {.cx = cx,
               .graph = graph,
               .quantize = qb_op_find("QuantizeLinear", ""),
               .dequantize = qb_op_find("DequantizeLinear", "")};
    const int32_t n_nodes = graph->n_nodes;
    qb_status status = QB_OK;
    QB_GO(qb_uses_build(cx, graph, &m.uses));
    QB_GO_NEW(cx, m.from = qb_alloc(cx, (size_t)graph->n_values + 1, sizeof *m.from));
    QB_GO_NEW(cx, m.moves = qb_alloc(cx, (size_t)n_nodes + 1, sizeof *m.moves));
    memset(m.from, -1, (size_t)graph->n_values * sizeof *m.from);
    spread_parameters(&m);
    drop_others(&m);
    for (int32_t i = 0; i < n_nodes; i++)
        if (m.moves[i]) QB_GO(move_floats(&m, i));
out:
    QB_FREE_ALL(m.from, m.moves);
    qb_uses_release(&m.uses);
    return status;
}

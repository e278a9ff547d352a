/* Chains of elementwise operators: which groups become one, and its program.
 *
 * A chain is found from its last operator backwards: whoever makes one of its inputs, in the shape
 * of its result and for it alone, joins it, as long as inputs, constants and operations suffice. */
#include <math.h>
#include <string.h>

#include "graph/fusion_backwards.h"

/* --- which operators -------------------------------------------------------------------------- */

static bool is_condition(const qb_value *v) { return v->q.n == 0 && v->dtype == QB_DTYPE_BOOL; }

static bool is_number(const qb_value *v) { return qb_value_has_one_scale(v) || is_condition(v); }

static bool is_integer(const qb_value *v) {
    return v->q.n == 0 && (v->dtype == QB_DTYPE_S32 || v->dtype == QB_DTYPE_S64);
}

/* What a Cast reads or writes beside numbers: other types, whose numbers a float has. */
static bool is_of_other_type(const qb_value *v) {
    switch (v->dtype) {
    case QB_DTYPE_F16:
    case QB_DTYPE_BF16:
    case QB_DTYPE_U8:
    case QB_DTYPE_S8:
    case QB_DTYPE_U16:
    case QB_DTYPE_S16: return v->q.n == 0;
    default: return is_integer(v);
    }
}

static bool is_float(const qb_value *v) {
    return v->dtype == QB_DTYPE_F32 || qb_dtype_is_16bit_float(v->dtype);
}

/* The function of a Cast. Integers that become smaller ones keep their low bits, which floats do
 * not know. */
static qb_function cast_of(const qb_value *in, const qb_value *out) {
    if (!(is_number(in) || is_of_other_type(in)) || !(is_number(out) || is_of_other_type(out)))
        return QB_FUNCTION_NONE;
    if (out->dtype == QB_DTYPE_BOOL) return QB_FUNCTION_TRUTH;
    if (is_float(out) || out->q.n > 0 || in->dtype == QB_DTYPE_BOOL) return QB_FUNCTION_COPY;
    if (is_float(in)) return QB_FUNCTION_TRUNCATE;
    return is_integer(out) && qb_dtype_size(in->dtype) < qb_dtype_size(out->dtype)
               ? QB_FUNCTION_COPY
               : QB_FUNCTION_NONE;
}

/* Does the node compute in integers, from integers and conditions? A cast from or to another type
 * is not of these. */
static bool is_of_integers(const qb_graph *graph, const qb_node *node) {
    const qb_function f = node->op ? node->op->kernel.function : QB_FUNCTION_NONE;
    bool any = false;
    if (!qb_function_of_integers(f) || node->n_out < 1 || node->out[0] < 0) return false;
    if (node->n_in != qb_function_arguments(f) || qb_node_is_view(node)) return false;
    if (f == QB_FUNCTION_MODULO && qb_node_int(node, "fmod", 0) != 0) return false;
    for (int32_t i = 0; i <= node->n_in; i++) {
        const int32_t value = i < node->n_in ? node->in[i] : node->out[0];
        const qb_value *v = value < 0 ? NULL : &graph->values[value];
        if (!v || !(is_integer(v) || (f != QB_FUNCTION_COPY && is_condition(v)))) return false;
        any = any || is_integer(v);
    }
    return any;
}

/* Its function, where the node computes in floats and conditions, or in integers alone. */
static qb_function function_of(const qb_graph *graph, const qb_node *node) {
    qb_function f = node->op ? node->op->kernel.function : QB_FUNCTION_NONE;
    if (is_of_integers(graph, node)) return f;
    if (f == QB_FUNCTION_NONE || f == QB_FUNCTION_MODULO || node->n_out < 1 || node->out[0] < 0)
        return QB_FUNCTION_NONE;
    const qb_value *out = &graph->values[node->out[0]];
    if (f == QB_FUNCTION_COPY) {
        const qb_value *in = &graph->values[node->in[0]];
        return qb_node_is_view(node) && qb_qparams_same(&in->q, &out->q) ? QB_FUNCTION_NONE
                                                                         : cast_of(in, out);
    } /* a view is its data's memory */
    if (node->op->max_in == INT32_MAX && node->n_in != qb_function_arguments(f))
        return QB_FUNCTION_NONE; /* any number of inputs */
    if (node->n_in > qb_function_arguments(f) || !is_number(out)) return QB_FUNCTION_NONE;
    for (int32_t i = 0; i < node->n_in; i++) {
        const qb_value *v = node->in[i] < 0 ? NULL : &graph->values[node->in[i]];
        if (v ? !is_number(v) : f != QB_FUNCTION_CLIP) return QB_FUNCTION_NONE;
    }
    if (f == QB_FUNCTION_GELU && strcmp(qb_node_string(node, "approximate", "none"), "tanh") == 0)
        return QB_FUNCTION_GELU_TANH;
    return f;
}

static bool is_link(const qb_fusing *c, const qb_group *group) {
    if (group->kind != QB_KIND_NODE && group->kind != QB_KIND_BINARY &&
        group->kind != QB_KIND_UNARY)
        return false;
    for (int32_t i = 0; i < group->n_nodes; i++)
        if (function_of(c->graph, &c->graph->nodes[group->node[i]]) == QB_FUNCTION_NONE)
            return false;
    return group->n_nodes > 0;
}

/* --- the program ------------------------------------------------------------------------------ */

typedef struct pattern {
    const qb_graph *graph;
    qb_group group;
    int32_t in[QB_CHAIN_INPUTS];
    qb_chain chain;
    int32_t made[QB_CHAIN_OPERATIONS]; /* value that an operation makes, -1 */
} pattern;

/* A register of an input, as a number below 0 until all inputs and constants are known; -1000: no
 * room. */
enum { INPUT = -1, CONSTANT = -100, NO_ROOM = -1000 };

#define LARGEST_EXACT (1 << 24) /* up to here a float has all integers */

static int32_t constant(pattern *d, float v) {
    qb_chain *p = &d->chain;
    for (int32_t i = 0; i < p->n_constants; i++)
        if (memcmp(&p->constant[i], &v, sizeof v) == 0) return CONSTANT - i;
    if (p->n_constants == QB_CHAIN_CONSTANTS) return NO_ROOM;
    p->constant[p->n_constants] = v;
    return CONSTANT - p->n_constants++;
}

/* A constant of one float, of one quantized value, or among integers of one that a float has. */
static bool is_constant(const pattern *d, int32_t value, float *out) {
    const qb_graph *graph = d->graph;
    const qb_value *v = &graph->values[value];
    double number;
    if (!v->data || qb_shape_count(&v->shape) != 1) return false;
    if (d->chain.integer) {
        if (!is_integer(v) || !qb_value_scalar(graph, value, &number)) return false;
        *out = (float)number;
        return fabs(number) <= LARGEST_EXACT;
    }
    if (!qb_value_has_one_scale(v)) return false;
    if (v->q.n == 0) {
        if (!qb_value_scalar(graph, value, &number)) return false;
        *out = (float)number;
        return true;
    }
    const int32_t q =
        v->dtype == QB_DTYPE_U8 ? *(const uint8_t *)v->data : *(const int8_t *)v->data;
    *out = v->q.scale[0] * (float)(q - (v->q.zero ? v->q.zero[0] : 0));
    return true;
}

/* The register of a value; operations count from 0. */
static int32_t register_of(pattern *d, int32_t value) {
    qb_chain *p = &d->chain;
    float number;
    for (int32_t i = p->n_operations - 1; i >= 0; i--)
        if (d->made[i] == value) return i;
    if (is_constant(d, value, &number)) return constant(d, number);
    for (int32_t i = 0; i < p->n_in; i++)
        if (d->in[i] == value) return INPUT - i;
    if (p->n_in == QB_CHAIN_INPUTS) return NO_ROOM;
    d->in[p->n_in] = value;
    return INPUT - p->n_in++;
}

static bool operation(pattern *d, qb_function function, const int32_t *in, int32_t makes) {
    qb_chain *p = &d->chain;
    if (p->n_operations == QB_CHAIN_OPERATIONS) return false;
    qb_chain_operation *o = &p->operation[p->n_operations];
    *o = (qb_chain_operation){.function = function};
    for (int32_t i = 0; i < qb_function_arguments(function); i++) {
        o->in[i] = in[i];
        if (in[i] == NO_ROOM) return false;
    }
    d->made[p->n_operations++] = makes;
    return true;
}

/* x^2, x^3 and 1 / x are what a power of that constant means. */
static bool power(pattern *d, int32_t *in, int32_t makes) {
    const float by =
        in[1] <= CONSTANT && in[1] != NO_ROOM ? d->chain.constant[CONSTANT - in[1]] : NAN;
    const int32_t square[] = {in[0], in[0]};
    if (by == -1.0f) return operation(d, QB_FUNCTION_RECIPROCAL, in, makes);
    if (by == 2.0f) return operation(d, QB_FUNCTION_MUL, square, makes);
    if (by != 3.0f) return operation(d, QB_FUNCTION_POW, in, makes);
    if (!operation(d, QB_FUNCTION_MUL, square, -1)) return false;
    const int32_t cube[] = {d->chain.n_operations - 1, in[0]};
    return operation(d, QB_FUNCTION_MUL, cube, makes);
}

/* The arguments that are no inputs are attributes, or Clip's bounds that are left out. */
static int32_t argument(pattern *d, const qb_node *node, int32_t i, qb_function f) {
    if (qb_node_in(node, i) >= 0) return register_of(d, node->in[i]);
    if (f == QB_FUNCTION_CLIP) return constant(d, i == 1 ? -INFINITY : INFINITY);
    const qb_attr_desc *attr = node->op->attrs; /* the function's order is the table's */
    for (i -= node->op->max_in; attr && attr->name && i > 0; i--) attr++;
    return constant(d, attr && attr->name ? qb_node_float(node, attr->name, 0) : 0);
}

/* Operators that are fused steps multiply by the reciprocal of their result's scale. */
static bool divides(const qb_node *node) {
    return node->op->kernel.kind != QB_KIND_BINARY && node->op->kernel.kind != QB_KIND_UNARY;
}

static bool add_node(pattern *d, int32_t index, int32_t out) {
    const qb_node *node = &d->graph->nodes[index];
    const qb_function f = function_of(d->graph, node);
    const qb_value *y = &d->graph->values[node->out[0]];
    const bool integer = is_of_integers(d->graph, node);
    int32_t in[3] = {0};
    if (d->chain.n_operations > 0 && d->chain.integer != integer) return false;
    d->chain.integer = integer;
    for (int32_t i = 0; i < qb_function_arguments(f); i++) in[i] = argument(d, node, i, f);
    if (!(f == QB_FUNCTION_POW ? power(d, in, node->out[0]) : operation(d, f, in, node->out[0])))
        return false;
    d->chain.divide = divides(node);
    d->chain.operation[d->chain.n_operations - 1].narrow = integer && y->dtype == QB_DTYPE_S32;
    if (node->out[0] == out || y->q.n == 0) return true;
    const int32_t last = d->chain.n_operations - 1;
    d->made[last] = -1;
    if (!operation(d, QB_FUNCTION_QUANTIZE, &last, node->out[0])) return false;
    d->chain.operation[last + 1].quantized =
        (qb_chain_quantized){y->q.scale[0], y->q.zero ? y->q.zero[0] : 0, y->dtype, divides(node)};
    return true;
}

/* Inputs first, then constants, then results. */
static void number_registers(qb_chain *p) {
    for (int32_t i = 0; i < p->n_operations; i++)
        for (int32_t a = 0; a < qb_function_arguments(p->operation[i].function); a++) {
            int32_t *in = &p->operation[i].in[a];
            *in = *in >= 0          ? *in + p->n_in + p->n_constants
                  : *in <= CONSTANT ? CONSTANT - *in + p->n_in
                                    : INPUT - *in;
        }
}

static bool compile(const qb_graph *graph, const qb_group *group, pattern *d) {
    *d = (pattern){.graph = graph, .group = *group};
    for (int32_t i = 0; i < group->n_nodes; i++)
        if (!add_node(d, group->node[i], group->out)) return false;
    number_registers(&d->chain);
    return d->chain.n_in > 0;
}

/* --- growing ---------------------------------------------------------------------------------- */

static bool has_node(const qb_group *group, int32_t node) {
    for (int32_t i = 0; i < group->n_nodes; i++)
        if (group->node[i] == node) return true;
    return false;
}

/* Is the value made for the chain alone, in the shape of its result? */
static bool joins(const qb_fusing *c, const qb_group *chain, int32_t value) {
    const qb_graph *graph = c->graph;
    const qb_value *v = &graph->values[value];
    if (c->maker[value] < 0 || v->kept || !(is_number(v) || is_integer(v)) ||
        qb_graph_is_output(graph, value) ||
        !qb_shape_equal(&v->shape, &graph->values[chain->out].shape))
        return false;
    for (int32_t i = 0; i < c->uses.n_users[value]; i++)
        if (!has_node(chain, c->uses.users[value][i])) return false;
    return true;
}

/* Both groups' nodes in their order. */
static bool merge(const qb_group *first, const qb_group *last, qb_group *out) {
    *out = *last;
    if (first->n_nodes + last->n_nodes > QB_GROUP_NODES) return false;
    for (int32_t i = 0; i < first->n_nodes; i++) {
        int32_t at = out->n_nodes++;
        for (; at > 0 && out->node[at - 1] > first->node[i]; at--)
            out->node[at] = out->node[at - 1];
        out->node[at] = first->node[i];
    }
    return true;
}

/* Values on which the chain has grown: those groups' results. */
typedef struct growth {
    int32_t n, value[QB_GROUP_NODES];
} growth;

/* One more group in the chain; false: there is none. */
static bool grow(const qb_fusing *c, pattern *d, growth *g) {
    for (int32_t i = 0; i < d->chain.n_in; i++) {
        qb_group joined;
        pattern longer;
        const int32_t value = d->in[i];
        if (!joins(c, &d->group, value)) continue;
        const qb_group *maker = &c->groups->group[c->maker[value]];
        if (!is_link(c, maker) || !merge(maker, &d->group, &joined) ||
            !compile(c->graph, &joined, &longer))
            continue;
        *d = longer;
        g->value[g->n++] = value;
        return true;
    }
    return false;
}

/* All that is computed of one 8-bit value is a table of 256 results, however long it is; but for a
 * binary operator alone, whose kernel knows no tables. */
static bool is_table(const qb_fusing *c, const pattern *d) {
    const qb_value *x = &c->graph->values[d->in[0]], *y = &c->graph->values[d->group.out];
    const bool binary = d->group.kind == QB_KIND_BINARY && d->group.n_nodes == 1;
    return c->tables && d->chain.n_in == 1 && !binary && x->q.n == 1 && qb_value_has_one_scale(x) &&
           is_number(y) && qb_shape_equal(&x->shape, &y->shape);
}

/* As long as it gets; but a table stays one. False: it is the group alone. */
static bool grow_all(qb_fusing *c, pattern *d) {
    growth g = {0};
    int32_t taken = 0;
    pattern longer = *d;
    while (grow(c, &longer, &g)) {
        if (is_table(c, d) && !is_table(c, &longer)) continue;
        *d = longer;
        taken = g.n;
    }
    for (int32_t i = 0; i < taken; i++) {
        qb_group *maker = &c->groups->group[c->maker[g.value[i]]];
        *maker = (qb_group){.out = maker->out};
    }
    return taken > 0;
}

static bool accepted(const qb_fusing *c, const pattern *d) {
    qb_desc in[QB_CHAIN_INPUTS];
    qb_problem p = {.kind = QB_KIND_CHAIN, .n_in = d->chain.n_in, .in = in, .chain = &d->chain};
    for (int32_t i = 0; i <= p.n_in; i++) {
        const qb_value *v = &c->graph->values[i < p.n_in ? d->in[i] : d->group.out];
        *(i < p.n_in ? &in[i] : &p.out) =
            (qb_desc){.dtype = v->dtype, .shape = v->shape, .q = v->q};
    }
    return c->accept(c->user, &p);
}

static qb_status commit(qb_fusing *c, const pattern *d, qb_group *group) {
    qb_arena *arena = c->groups->arena;
    int32_t *in = qb_arena_alloc(c->cx, arena, QB_CHAIN_INPUTS, sizeof *in);
    qb_chain *chain = qb_arena_alloc(c->cx, arena, 1, sizeof *chain);
    if (!in || !chain) return c->cx->code;
    memcpy(in, d->in, sizeof d->in);
    *chain = d->chain;
    *group = d->group;
    group->kind = QB_KIND_CHAIN;
    group->in = in;
    group->n_in = d->chain.n_in;
    group->act = (qb_act){0};
    group->chain = chain;
    return QB_OK;
}

static qb_status make_chain(qb_fusing *c, int32_t g) {
    qb_group *group = &c->groups->group[g];
    pattern d;
    if (!is_link(c, group) || !compile(c->graph, group, &d) || !accepted(c, &d)) return QB_OK;
    const bool alone = !grow_all(c, &d);
    if (alone && group->kind != QB_KIND_NODE) return QB_OK; /* it has kernels of its own */
    return commit(c, &d, group);
}

qb_status qb_fuse_chains(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept,
                         const void *user, bool tables, qb_groups *groups) {
    qb_fusing f = {.cx = cx,
                   .graph = graph,
                   .groups = groups,
                   .accept = accept,
                   .user = user,
                   .tables = tables};
    return qb_fuse_backwards(&f, make_chain);
}

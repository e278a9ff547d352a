/* Einsum as the products that engines have kernels for, of more than two operands as several:
 *
 *   labels of both operands and the result    the product's batch
 *   of one operand and the result             its rows or columns, several as one
 *   of both operands alone                    what it sums over
 *   of one operand alone                      summed before (ReduceSum)
 *
 * Each operand is transposed and reshaped into that order, and the result back; what is in order
 * already stays. Without a label to sum over it is a Mul. Quantized values are moved as such, and
 * the product has the parameters of the result; what lies between several products is float 32. */
#include "graph/einsum_internal.h"
#include "graph/passes_internal.h"

#define UNKNOWN (-1)

enum { LEFT = 1, RIGHT = 2, RESULT = 4 };

typedef struct labels {
    int32_t n, label[QB_MAX_RANK];
} labels;

typedef struct pattern {
    qb_rewrite *rw;
    int32_t name; /* the result, after which values are named */
    qb_einsum e;
    int32_t where[QB_EINSUM_LABELS];
    labels batch, rows, columns, summed;
} pattern;

static bool has(const labels *l, int32_t label) {
    for (int32_t i = 0; i < l->n; i++)
        if (l->label[i] == label) return true;
    return false;
}

static void add(labels *l, int32_t label) { l->label[l->n++] = label; }

static void append(labels *l, const labels *more) {
    for (int32_t i = 0; i < more->n; i++) add(l, more->label[i]);
}

/* Marks where the term's labels occur; false where one does so twice, or they are too many. */
static bool mark(pattern *d, const qb_einsum_term *t, int32_t bit) {
    if (t->n > QB_MAX_RANK) return false;
    for (int32_t i = 0; i < t->n; i++) {
        if (d->where[t->label[i]] & bit) return false;
        d->where[t->label[i]] |= bit;
    }
    return true;
}

static labels of_term(const pattern *d, const qb_einsum_term *t, int32_t where) {
    labels l = {0};
    for (int32_t i = 0; i < t->n; i++)
        if (where < 0 || d->where[t->label[i]] == where) add(&l, t->label[i]);
    return l;
}

/* Dimensions of an ellipsis may be 1 in one operand: only a product's batch takes that. */
static bool broadcasts_only_in_batch(const pattern *d) {
    for (int32_t k = QB_EINSUM_LETTERS; k < QB_EINSUM_LABELS; k++)
        if (d->where[k] && !(d->where[k] & RESULT)) return false;
    return true;
}

static bool is_known(const pattern *d, const labels *l) {
    for (int32_t i = 0; i < l->n; i++)
        if (d->e.size[l->label[i]] < 1) return false;
    return true;
}

static int64_t product_of(const pattern *d, const labels *l) {
    int64_t n = 1;
    for (int32_t i = 0; i < l->n; i++) n *= d->e.size[l->label[i]];
    return is_known(d, l) ? n : UNKNOWN;
}

/* May a Reshape name the sizes? It leaves out one, and copies those of the batch. */
static bool can_reshape(const pattern *d, const labels *rows, const labels *columns) {
    return is_known(d, rows) || is_known(d, columns);
}

static int32_t unknowns(const pattern *d, const labels *l) {
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) n += d->e.size[l->label[i]] < 1;
    return n;
}

static bool classify(pattern *d) {
    const qb_einsum *e = &d->e;
    if (!mark(d, &e->in[0], LEFT) || !mark(d, &e->out, RESULT) ||
        (e->n_operands == 2 && !mark(d, &e->in[1], RIGHT)))
        return false;
    d->batch = of_term(d, &e->out, LEFT | RIGHT | RESULT);
    d->rows = of_term(d, &e->out, LEFT | RESULT);
    d->columns = of_term(d, &e->out, RIGHT | RESULT);
    d->summed = of_term(d, &e->in[0], LEFT | RIGHT);
    if (!broadcasts_only_in_batch(d)) return false;
    if (e->n_operands == 1) return true;
    return d->batch.n + 2 <= QB_MAX_RANK && can_reshape(d, &d->rows, &d->summed) &&
           can_reshape(d, &d->summed, &d->columns) &&
           unknowns(d, &d->rows) + unknowns(d, &d->columns) <= 1;
}

/* ---- nodes ---- */

/* A node that makes a new value of `value` and a list of numbers. */
static qb_status reordered(pattern *d, const char *op, int32_t *value, const int64_t *list,
                           int32_t n, const qb_shape *shape) {
    int32_t in[2] = {*value, -1};
    QB_TRY(qb_rewrite_int64s(d->rw, d->name, "_list", list, n, &in[1]));
    QB_TRY(qb_rewrite_value(d->rw, *value, "_operand", shape, value));
    return qb_rewrite_append(d->rw, qb_op_find(op, ""), in, 2, *value);
}

/* What sums and pairs of quantized values are. */
static void make_float(const pattern *d, int32_t value) {
    d->rw->graph->values[value].dtype = QB_DTYPE_F32;
    d->rw->graph->values[value].q = (qb_qparams){.axis = -1};
}

static qb_status sum_alone(pattern *d, int32_t *value, labels *have, int32_t side) {
    labels left = {0};
    int64_t axes[QB_MAX_RANK];
    int32_t n = 0;
    qb_shape shape = {0};
    for (int32_t i = 0; i < have->n; i++) {
        if (d->where[have->label[i]] == side)
            axes[n++] = i;
        else
            add(&left, have->label[i]);
    }
    *have = left;
    if (n == 0) return QB_OK;
    shape.rank = left.n;
    for (int32_t i = 0; i < left.n; i++) shape.dim[i] = d->e.size[left.label[i]];
    QB_TRY(reordered(d, "ReduceSum", value, axes, n, &shape));
    make_float(d, *value);
    return qb_node_set_int(d->rw, d->rw->graph->n_nodes - 1, "keepdims", 0);
}

static qb_status transpose(pattern *d, int32_t *value, const labels *have, const labels *want,
                           int32_t out) {
    int64_t perm[QB_MAX_RANK];
    bool same = true;
    qb_shape shape = {.rank = want->n};
    for (int32_t i = 0; i < want->n; i++) {
        for (int32_t k = 0; k < have->n; k++)
            if (have->label[k] == want->label[i]) perm[i] = k;
        same = same && perm[i] == i;
        shape.dim[i] = d->rw->graph->values[*value].shape.dim[perm[i]];
    }
    if (same && out < 0) return QB_OK;
    const int32_t from = *value;
    *value = out;
    if (out < 0) QB_TRY(qb_rewrite_value(d->rw, from, "_operand", &shape, value));
    QB_TRY(qb_rewrite_append(d->rw, qb_op_find("Transpose", ""), &from, 1, *value));
    return qb_node_set_ints(d->rw, d->rw->graph->n_nodes - 1, "perm", perm, want->n);
}

/* An operand as [batch, rows, columns]. */
static qb_status as_matrix(pattern *d, int32_t *value, int32_t side, const labels *rows,
                           const labels *columns) {
    const qb_einsum_term *term = &d->e.in[side == LEFT ? 0 : 1];
    labels have = of_term(d, term, -1), want = d->batch;
    int64_t dims[QB_MAX_RANK] = {0}; /* of the batch: copied */
    const int32_t n = d->batch.n;
    append(&want, rows);
    append(&want, columns);
    QB_TRY(sum_alone(d, value, &have, side));
    QB_TRY(transpose(d, value, &have, &want, -1));
    if (rows->n == 1 && columns->n == 1) return QB_OK;
    qb_shape shape = d->rw->graph->values[*value].shape;
    shape.rank = n + 2;
    dims[n] = shape.dim[n] = product_of(d, rows);
    dims[n + 1] = shape.dim[n + 1] = product_of(d, columns);
    return reordered(d, "Reshape", value, dims, n + 2, &shape);
}

/* The product [batch, rows, columns] with its labels apart, in the order of the result. */
static qb_status as_result(pattern *d, int32_t value, const labels *rows, const labels *columns) {
    labels have = d->batch;
    int64_t dims[QB_MAX_RANK] = {0};
    const int32_t n = d->batch.n;
    append(&have, rows);
    append(&have, columns);
    const labels want = of_term(d, &d->e.out, -1);
    qb_shape shape = d->rw->graph->values[value].shape;
    shape.rank = have.n;
    for (int32_t i = n; i < have.n; i++) {
        shape.dim[i] = d->e.size[have.label[i]];
        dims[i] = shape.dim[i] < 1 ? UNKNOWN : shape.dim[i];
    }
    if (rows->n != 1 || columns->n != 1)
        QB_TRY(reordered(d, "Reshape", &value, dims, have.n, &shape));
    return transpose(d, &value, &have, &want, d->name);
}

static qb_status multiply(pattern *d, const int32_t in[2]) {
    /* the operand whose labels come first in the result makes its rows */
    const labels out = of_term(d, &d->e.out, -1);
    const bool swap = d->rows.n > 0 && d->columns.n > 0 &&
                      has(&d->columns, out.label[out.n - d->rows.n - d->columns.n]);
    const labels *rows = swap ? &d->columns : &d->rows, *columns = swap ? &d->rows : &d->columns;
    int32_t side[2] = {in[swap], in[!swap]}, value;
    QB_TRY(as_matrix(d, &side[0], swap ? RIGHT : LEFT, rows, &d->summed));
    QB_TRY(as_matrix(d, &side[1], swap ? LEFT : RIGHT, &d->summed, columns));
    qb_shape shape = d->rw->graph->values[side[0]].shape;
    for (int32_t i = 0; i < d->batch.n; i++) shape.dim[i] = d->e.size[d->batch.label[i]];
    shape.dim[shape.rank - 1] = product_of(d, columns);
    QB_TRY(qb_rewrite_value(d->rw, d->name, "_product", &shape, &value));
    const qb_op *op = qb_op_find(d->summed.n > 0 ? "MatMul" : "Mul", "");
    QB_TRY(qb_rewrite_append(d->rw, op, side, 2, value));
    return as_result(d, value, rows, columns);
}

static qb_status rearrange(pattern *d, int32_t value) {
    labels have = of_term(d, &d->e.in[0], -1);
    const labels want = of_term(d, &d->e.out, -1);
    QB_TRY(sum_alone(d, &value, &have, LEFT));
    return transpose(d, &value, &have, &want, d->name);
}

/* Float 32, or 8-bit values of one scale. */
static bool is_float(const qb_graph *graph, int32_t value) {
    const qb_value *v = &graph->values[value];
    return qb_value_is_plain(graph, value) ||
           (v->q.n == 1 && (v->dtype == QB_DTYPE_U8 || v->dtype == QB_DTYPE_S8));
}

/* ---- more than two operands ---- */

static bool term_has(const qb_einsum_term *term, int32_t label) {
    for (int32_t i = 0; i < term->n; i++)
        if (term->label[i] == label) return true;
    return false;
}

/* What the result of operands a and b keeps: labels of the result or of another operand. */
static qb_einsum_term kept_of(const qb_einsum *e, int32_t a, int32_t b) {
    qb_einsum_term kept = {.dots = -1};
    for (int32_t label = 0; label < QB_EINSUM_LETTERS; label++) {
        bool wanted = term_has(&e->out, label);
        for (int32_t i = 0; i < e->n_operands; i++)
            wanted = wanted || (i != a && i != b && term_has(&e->in[i], label));
        if (wanted && (term_has(&e->in[a], label) || term_has(&e->in[b], label)))
            kept.label[kept.n++] = label;
    }
    return kept;
}

/* Unknown sizes count as one. */
static double elements_of(const qb_einsum *e, const qb_einsum_term *term) {
    double n = 1.0;
    for (int32_t i = 0; i < term->n; i++)
        if (e->size[term->label[i]] > 0) n *= (double)e->size[term->label[i]];
    return n;
}

static char *add_term(char *to, const qb_einsum_term *term, char behind) {
    for (int32_t i = 0; i < term->n; i++)
        *to++ = (char)(term->label[i] < 26 ? 'a' + term->label[i] : 'A' + term->label[i] - 26);
    *to++ = behind;
    return to;
}

static qb_status append_einsum(qb_rewrite *rw, const int32_t *in, const qb_einsum_term *terms,
                               int32_t n, const qb_einsum_term *out, int32_t value) {
    char text[(QB_EINSUM_OPERANDS + 1) * (QB_EINSUM_TERM + 2)], *to = text;
    for (int32_t i = 0; i < n; i++) to = add_term(to, &terms[i], i + 1 < n ? ',' : '-');
    *to++ = '>';
    add_term(to, out, '\0');
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Einsum", ""), in, n, value));
    return qb_node_set_string(rw, rw->graph->n_nodes - 1, "equation", text);
}

/* The two operands with the smallest result become one, which takes their places. */
static qb_status split(pattern *d, int32_t index, const int32_t *in) {
    const qb_einsum *e = &d->e;
    int32_t best[2] = {0, 1}, value, n = 0;
    for (int32_t a = 0; a < e->n_operands; a++)
        for (int32_t b = a + 1; b < e->n_operands; b++) {
            const qb_einsum_term now = kept_of(e, best[0], best[1]), other = kept_of(e, a, b);
            if (elements_of(e, &other) >= elements_of(e, &now)) continue;
            best[0] = a, best[1] = b;
        }
    const qb_einsum_term kept = kept_of(e, best[0], best[1]);
    qb_einsum_term pair[2], rest[QB_EINSUM_OPERANDS] = {kept};
    int32_t pair_in[2], rest_in[QB_EINSUM_OPERANDS];
    for (int32_t i = 0, p = 0; i < e->n_operands; i++) {
        const bool joins = i == best[0] || i == best[1];
        if (!joins) n++;
        *(joins ? &pair[p] : &rest[n]) = e->in[i];
        *(joins ? &pair_in[p++] : &rest_in[n]) = in[i];
    }
    qb_shape shape = {.rank = kept.n};
    if (kept.n > QB_MAX_RANK) return QB_OK;
    qb_rewrite_kill(d->rw, index);
    qb_rewrite_changed(d->rw);
    for (int32_t i = 0; i < kept.n; i++)
        shape.dim[i] = e->size[kept.label[i]] < 0 ? -1 : e->size[kept.label[i]];
    QB_TRY(qb_rewrite_value(d->rw, d->name, "_pair", &shape, &value));
    make_float(d, value);
    QB_TRY(append_einsum(d->rw, pair_in, pair, 2, &kept, value));
    rest_in[0] = value;
    return append_einsum(d->rw, rest_in, rest, n + 1, &e->out, d->name);
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    const int32_t n = node->n_in;
    const qb_shape *shapes[QB_EINSUM_OPERANDS];
    int32_t in[QB_EINSUM_OPERANDS];
    if (!qb_node_is(node, "Einsum") || n > QB_EINSUM_OPERANDS) return QB_OK;
    for (int32_t i = 0; i < n; i++) {
        in[i] = node->in[i];
        shapes[i] = &rw->graph->values[in[i]].shape;
        if (!is_float(rw->graph, in[i]) || shapes[i]->rank < 0) return QB_OK;
    }
    pattern d = {.rw = rw, .name = node->out[0]};
    const char *equation = qb_node_string(node, "equation", "");
    QB_TRY(qb_einsum_resolve(rw->cx, equation, shapes, n, &d.e));
    if (!is_float(rw->graph, d.name) || (n > 2 ? d.e.n_dots > 0 : !classify(&d))) return QB_OK;
    if (n > 2) return split(&d, index, in);
    qb_rewrite_kill(rw, index);
    qb_rewrite_changed(rw);
    return n == 2 ? multiply(&d, in) : rearrange(&d, in[0]);
}

const qb_pass qb_pass_einsum_to_matmul = {
    "einsum-to-matmul", "turns Einsum into Transpose, Reshape and MatMul", .match = match};

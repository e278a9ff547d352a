/* Integers that shapes are computed from, as far as they are known while dimensions are open:
 * [batch, 64, -1] on its way from Shape to Reshape.
 *
 * A value that is a short tensor of integers has one code an element: the number itself, or, far
 * below all numbers that sizes are made of, a symbol or the unknown. What only moves elements is
 * evaluated on the quantized values by its own definition. */
#include <stdint.h>
#include <string.h>

#include "graph/op.h"
#include "graph_internal.h"

int64_t qb_size_of_dim(int64_t dim) {
    return dim >= 0 ? dim : dim == -1 ? QB_SIZE_UNKNOWN : QB_SIZE_UNKNOWN - dim;
}

int64_t qb_dim_of_size(int64_t size) {
    return size == QB_SIZE_UNKNOWN ? -1 : qb_size_is_number(size) ? size : QB_SIZE_UNKNOWN - size;
}

static bool is_symbol(int64_t size) { return !qb_size_is_number(size) && size != QB_SIZE_UNKNOWN; }

static bool holds_integers(const qb_value *value) {
    return value->q.n == 0 && (value->dtype == QB_DTYPE_S64 || value->dtype == QB_DTYPE_S32 ||
                               value->dtype == QB_DTYPE_BOOL);
}

static int64_t constant_at(const qb_value *value, int64_t i) {
    switch (value->dtype) {
    case QB_DTYPE_S64: return ((const int64_t *)value->data)[i];
    case QB_DTYPE_S32: return ((const int32_t *)value->data)[i];
    default: return ((const uint8_t *)value->data)[i] != 0;
    }
}

/* Can the value have sizes: short, of integers? */
static bool may_be_sizes(const qb_value *value) {
    if (!holds_integers(value) || !qb_shape_known(&value->shape)) return false;
    const int64_t n = qb_shape_count(&value->shape); /* -1: beyond int64_t */
    return n >= 0 && n <= QB_SIZES_MAX;
}

bool qb_sizes_get(const qb_graph *graph, int32_t id, qb_sizes *out) {
    if (id < 0 || !may_be_sizes(&graph->values[id])) return false;
    const qb_value *value = &graph->values[id];
    if (!value->data && value->sizes) {
        *out = *value->sizes;
        return true;
    }
    out->n = (int32_t)qb_shape_count(&value->shape);
    for (int32_t i = 0; i < out->n; i++) {
        const int64_t v = value->data ? constant_at(value, i) : QB_SIZE_UNKNOWN;
        out->v[i] = qb_size_is_number(v) ? v : QB_SIZE_UNKNOWN;
    }
    return true;
}

bool qb_sizes_are_numbers(const qb_sizes *sizes) {
    for (int32_t i = 0; i < sizes->n; i++)
        if (!qb_size_is_number(sizes->v[i])) return false;
    return true;
}

void qb_sizes_put(const qb_sizes *sizes, qb_dtype dtype, void *data) {
    for (int32_t i = 0; i < sizes->n; i++) {
        switch (dtype) {
        case QB_DTYPE_S64: ((int64_t *)data)[i] = sizes->v[i]; break;
        case QB_DTYPE_S32: ((int32_t *)data)[i] = (int32_t)sizes->v[i]; break;
        default: ((uint8_t *)data)[i] = sizes->v[i] != 0;
        }
    }
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* Shape's dimensions: those that its output has room for, from `start` on. */
static bool of_shape(const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    const qb_shape *x = &graph->values[node->in[0]].shape;
    const int64_t given = qb_attr_int(node, "start", 0);
    const int64_t from = given < 0 ? given + x->rank : given;
    const int64_t start = from < 0 ? 0 : from;
    if (x->rank < 0 || start + out->n > x->rank) return false;
    for (int32_t i = 0; i < out->n; i++) out->v[i] = qb_size_of_dim(x->dim[start + i]);
    return true;
}

/* Size: the number of elements; one symbol may stand alone. */
static bool of_size(const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    const qb_shape *x = &graph->values[node->in[0]].shape;
    int64_t product = 1;
    for (int32_t d = 0; d < x->rank; d++)
        if (x->dim[d] != 1) product = product == 1 ? x->dim[d] : -1;
    if (x->rank < 0 || product == -1) return false;
    out->v[0] = qb_size_of_dim(product);
    return true;
}

/* --- element by element ----------------------------------------------------------------------- */

static int64_t number_or_unknown(int64_t v) { return qb_size_is_number(v) ? v : QB_SIZE_UNKNOWN; }

static int64_t add(int64_t a, int64_t b) {
    int64_t v = 0;
    if (a == 0) return b;
    if (b == 0) return a;
    if (!qb_size_is_number(a) || !qb_size_is_number(b)) return QB_SIZE_UNKNOWN;
    return __builtin_add_overflow(a, b, &v) ? QB_SIZE_UNKNOWN : number_or_unknown(v);
}

static int64_t sub(int64_t a, int64_t b) {
    int64_t v = 0;
    if (b == 0) return a;
    if (is_symbol(a) && a == b) return 0;
    if (!qb_size_is_number(a) || !qb_size_is_number(b)) return QB_SIZE_UNKNOWN;
    return __builtin_sub_overflow(a, b, &v) ? QB_SIZE_UNKNOWN : number_or_unknown(v);
}

static int64_t mul(int64_t a, int64_t b) {
    int64_t v = 0;
    if (a == 1) return b;
    if (b == 1) return a;
    if (!qb_size_is_number(a) || !qb_size_is_number(b)) return QB_SIZE_UNKNOWN;
    return __builtin_mul_overflow(a, b, &v) ? QB_SIZE_UNKNOWN : number_or_unknown(v);
}

static int64_t divide(int64_t a, int64_t b) {
    if (b == 1) return a;
    if (!qb_size_is_number(a) || !qb_size_is_number(b) || b == 0) return QB_SIZE_UNKNOWN;
    return a / b;
}

/* A symbol is no negative number; two different ones may yet be equal. */
static int64_t equal(int64_t a, int64_t b) {
    if (qb_size_is_number(a) && qb_size_is_number(b)) return a == b;
    if (is_symbol(a) && (a == b || (qb_size_is_number(b) && b < 0))) return a == b;
    if (is_symbol(b) && qb_size_is_number(a) && a < 0) return 0;
    return QB_SIZE_UNKNOWN;
}

static int64_t (*const binaries[])(int64_t, int64_t) = {
    [QB_BINARY_ADD] = add, [QB_BINARY_SUB] = sub, [QB_BINARY_MUL] = mul, [QB_BINARY_DIV] = divide};

/* An operand beside an output of n elements: of as many, or one for all. */
static bool operand(const qb_graph *graph, int32_t id, int32_t n, qb_sizes *out) {
    if (!qb_sizes_get(graph, id, out) || (out->n != n && out->n != 1)) return false;
    for (int32_t i = out->n; i < n; i++) out->v[i] = out->v[0];
    return true;
}

static bool of_binary(const qb_graph *graph, const qb_node *node, int64_t (*of)(int64_t, int64_t),
                      qb_sizes *out) {
    qb_sizes a, b;
    if (!operand(graph, node->in[0], out->n, &a) || !operand(graph, node->in[1], out->n, &b))
        return false;
    for (int32_t i = 0; i < out->n; i++) out->v[i] = of(a.v[i], b.v[i]);
    return true;
}

/* Between integers of 64 and 32 bits, of which sizes have the same. */
static bool of_cast(const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    if (graph->values[node->out[0]].dtype == QB_DTYPE_BOOL) return false;
    if (!operand(graph, node->in[0], out->n, out)) return false;
    for (int32_t i = 0; i < out->n; i++)
        if (qb_size_is_number(out->v[i]) && out->v[i] != (int32_t)out->v[i])
            out->v[i] = QB_SIZE_UNKNOWN;
    return true;
}

static bool of_where(const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    qb_sizes c, a, b;
    if (!operand(graph, node->in[0], out->n, &c) || !operand(graph, node->in[1], out->n, &a) ||
        !operand(graph, node->in[2], out->n, &b))
        return false;
    for (int32_t i = 0; i < out->n; i++) {
        const int64_t chosen = c.v[i] ? a.v[i] : b.v[i];
        out->v[i] = qb_size_is_number(c.v[i]) || a.v[i] == b.v[i] ? chosen : QB_SIZE_UNKNOWN;
    }
    return true;
}

/* --- what only moves elements ----------------------------------------------------------------- */

/* Which inputs are moved; the others must be constant. */
static bool moves_input(const qb_node *node, int32_t i) { return i < qb_reordered_inputs(node); }

static bool of_moves(qb_ctx *cx, const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    qb_sizes inputs[QB_SIZES_MAX];
    qb_tensor in[QB_SIZES_MAX];
    if (node->n_in > QB_SIZES_MAX) return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = (qb_tensor){0};
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        const void *data = value->data;
        qb_dtype dtype = value->dtype;
        if (moves_input(node, i)) {
            if (!qb_sizes_get(graph, node->in[i], &inputs[i])) return false;
            dtype = QB_DTYPE_S64;
            data = inputs[i].v;
        }
        if (!data) return false;
        in[i] = qb_tensor_of(dtype, value->shape, (void *)(uintptr_t)data);
    }
    qb_tensor moved = qb_tensor_of(QB_DTYPE_S64, graph->values[node->out[0]].shape, out->v);
    const bool done = node->op->eval(cx, node, in, &moved) == QB_OK;
    if (!done) qb_ctx_clear(cx); /* whoever runs the node reports it */
    return done;
}

/* --- the table -------------------------------------------------------------------------------- */

static bool sizes_of(qb_ctx *cx, const qb_graph *graph, const qb_node *node, qb_sizes *out) {
    const char *name = node->op->name;
    if (node->n_in < 1 || node->in[0] < 0) return false;
    if (strcmp(name, "Shape") == 0) return of_shape(graph, node, out);
    if (strcmp(name, "Size") == 0) return of_size(graph, node, out);
    if (strcmp(name, "Where") == 0) return of_where(graph, node, out);
    const qb_op_kernel *k = &node->op->kernel;
    if (k->kind == QB_KIND_BINARY && k->binary <= QB_BINARY_DIV)
        return of_binary(graph, node, binaries[k->binary], out);
    if (strcmp(name, "Equal") == 0) return of_binary(graph, node, equal, out);
    if (strcmp(name, "Cast") == 0) return of_cast(graph, node, out);
    return node->op->qrule == QB_QRULE_SAME_SCALE && of_moves(cx, graph, node, out);
}

static bool any_known(const qb_sizes *sizes) {
    for (int32_t i = 0; i < sizes->n; i++)
        if (sizes->v[i] != QB_SIZE_UNKNOWN) return true;
    return sizes->n == 0;
}

qb_status qb_sizes_infer(qb_ctx *cx, qb_graph *graph, int32_t index) {
    const qb_node *node = &graph->nodes[index];
    if (node->n_out != 1 || node->out[0] < 0) return QB_OK;
    qb_value *value = &graph->values[node->out[0]];
    value->sizes = NULL;
    if (value->data || !may_be_sizes(value)) return QB_OK;
    qb_sizes sizes = {.n = (int32_t)qb_shape_count(&value->shape)};
    if (!sizes_of(cx, graph, node, &sizes) || !any_known(&sizes)) return QB_OK;
    qb_sizes *kept = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, 1, sizeof *kept));
    *kept = sizes;
    value->sizes = kept;
    return QB_OK;
}

#include "build_internal.h"

int32_t qb_build_in(const qb_build *b, int32_t i) {
    const qb_node *node = &b->graph->nodes[b->node];
    return i < node->n_in ? node->in[i] : -1;
}

bool qb_build_wants(const qb_build *b, int32_t i) {
    const qb_node *node = &b->graph->nodes[b->node];
    return i < node->n_out && node->out[i] >= 0;
}

const qb_shape *qb_build_shape(const qb_build *b, int32_t value) {
    static const qb_shape unknown = {.rank = -1};
    return value < 0 ? &unknown : &b->graph->values[value].shape;
}

/* Named after the node's first output. */
static const char *name_of(qb_build *b, const char *suffix) {
    const qb_node *node = &b->graph->nodes[b->node];
    int32_t first = 0;
    while (first < node->n_out - 1 && node->out[first] < 0) first++;
    return qb_arena_format(b->cx, b->graph->arena, "%s_%s", b->graph->values[node->out[first]].name,
                           suffix);
}

static void note(qb_build *b, qb_status status) {
    if (b->status == QB_OK) b->status = status;
}

void qb_build_refuse(qb_build *b, const char *why) {
    if (b->status == QB_OK) b->status = qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "%s", why);
}

/* Types and shapes of what was added last, as far as they are known: what follows looks at them.
 * Errors come up again when the whole graph is inferred. */
static void infer_last(const qb_build *b) {
    qb_ctx scratch;
    qb_ctx_init(&scratch);
    qb_infer_node(&scratch, b->graph, b->graph->n_nodes - 1);
}

int32_t qb_build_node(qb_build *b, const char *op, int32_t n_in, const int32_t *in) {
    const qb_shape unknown = {.rank = -1};
    const qb_op *found = qb_op_find(op, "");
    for (int32_t i = 0; i < found->min_in && i < n_in; i++)
        if (in[i] < 0) qb_build_refuse(b, "an input is left out");
    const char *name = b->status == QB_OK ? name_of(b, op) : NULL;
    const int32_t out =
        name ? qb_graph_add_value(b->cx, b->graph, name, QB_DTYPE_NONE, &unknown) : -1;
    if (b->status != QB_OK) return -1;
    if (out < 0 || qb_graph_add_node(b->cx, b->graph, found, "", in, n_in, &out, 1) < 0)
        note(b, b->cx->code);
    else
        infer_last(b);
    return out;
}

static void set(const qb_build *b, const char *attr, const void *value, size_t bytes) {
    if (b->status != QB_OK) return;
    const qb_node *last = &b->graph->nodes[b->graph->n_nodes - 1];
    memcpy((char *)last->attrs + qb_attr_find(last->op, attr)->offset, value, bytes);
    infer_last(b);
}

void qb_build_set_int(qb_build *b, const char *attr, int64_t value) {
    set(b, attr, &value, sizeof value);
}

void qb_build_set_float(qb_build *b, const char *attr, float value) {
    set(b, attr, &value, sizeof value);
}

void qb_build_set_string(qb_build *b, const char *attr, const char *value) {
    set(b, attr, &value, sizeof value);
}

static void set_ints(qb_build *b, const char *attr, int32_t n, const int64_t *v) {
    if (b->status != QB_OK) return;
    int64_t *copy = qb_arena_alloc(b->cx, b->graph->arena, (size_t)n, sizeof *copy);
    if (!copy) {
        note(b, b->cx->code);
        return;
    }
    memcpy(copy, v, (size_t)n * sizeof *v);
    const qb_ints list = {n, copy};
    set(b, attr, &list, sizeof list);
}

void *qb_build_constant(qb_build *b, qb_dtype dtype, const qb_shape *shape, int32_t *id) {
    const char *name = b->status == QB_OK ? name_of(b, "constant") : NULL;
    void *data = name ? qb_graph_new_constant(b->cx, b->graph, name, dtype, shape, id) : NULL;
    if (!data) note(b, b->cx->code);
    return data;
}

int32_t qb_build_float(qb_build *b, int32_t like, float v) {
    const qb_shape scalar = {.rank = 0};
    const qb_dtype dtype = like < 0 ? QB_DTYPE_NONE : b->graph->values[like].dtype;
    int32_t id = -1;
    void *data =
        qb_build_constant(b, qb_dtype_is_float(dtype) ? dtype : QB_DTYPE_F32, &scalar, &id);
    if (data) qb_number_put(b->graph->values[id].dtype, data, 0, (double)v);
    return id;
}

int32_t qb_build_ints(qb_build *b, int32_t n, const int64_t *v) {
    const qb_shape shape = {.rank = 1, .dim = {n}};
    int32_t id = -1;
    void *data = qb_build_constant(b, QB_DTYPE_S64, &shape, &id);
    if (data) memcpy(data, v, (size_t)n * sizeof *v);
    return id;
}

int32_t qb_build_int(qb_build *b, int64_t v) {
    const qb_shape scalar = {.rank = 0};
    int32_t id = -1;
    int64_t *data = qb_build_constant(b, QB_DTYPE_S64, &scalar, &id);
    if (data) *data = v;
    return id;
}

int32_t qb_build_reshape(qb_build *b, int32_t x, int32_t n, const int64_t *to) {
    return QB_BUILD(b, "Reshape", x, qb_build_ints(b, n, to));
}

int32_t qb_build_transpose(qb_build *b, int32_t x, int32_t n, const int64_t *perm) {
    const int32_t y = QB_BUILD(b, "Transpose", x);
    set_ints(b, "perm", n, perm);
    return y;
}

int32_t qb_build_cast(qb_build *b, int32_t x, qb_dtype to) {
    const int32_t y = QB_BUILD(b, "Cast", x);
    qb_build_set_int(b, "to", qb_dtype_to_onnx(to));
    return y;
}

int32_t qb_build_dim(qb_build *b, int32_t x, int64_t dim) {
    const int32_t shape = QB_BUILD(b, "Shape", x);
    return QB_BUILD(b, "Gather", shape, qb_build_int(b, dim));
}

void qb_build_output(qb_build *b, int32_t i, int32_t value) {
    if (b->status != QB_OK || !qb_build_wants(b, i)) return;
    int32_t *out = &b->graph->nodes[b->node].out[i];
    if (qb_graph_add_node(b->cx, b->graph, qb_op_find("Identity", ""), "", &value, 1, out, 1) < 0)
        note(b, b->cx->code);
    *out = -1;
}

qb_status qb_build_end(qb_build *b) {
    const qb_node *node = &b->graph->nodes[b->node];
    for (int32_t i = 0; i < node->n_out && b->status == QB_OK; i++)
        if (node->out[i] >= 0)
            b->status = qb_fail(b->cx, QB_STATUS_UNSUPPORTED, "output %d is not supported", (int)i);
    if (b->status == QB_OK) qb_graph_kill_node(b->graph, b->node);
    return b->status;
}

/* --- attention ---------------------------------------------------------------------------------
 */

int32_t qb_build_split_heads(qb_build *b, int32_t x, int64_t heads) {
    const int32_t apart = qb_build_reshape(b, x, 4, (int64_t[]){0, 0, heads, -1});
    return qb_build_transpose(b, apart, 4, (int64_t[]){0, 2, 1, 3});
}

int32_t qb_build_join_heads(qb_build *b, int32_t y) {
    y = qb_build_transpose(b, y, 4, (int64_t[]){0, 2, 1, 3});
    return qb_build_reshape(b, y, 3, (int64_t[]){0, 0, -1});
}

/* The last size of q, also where only a run knows it. */
static int32_t scaled(qb_build *b, const qb_products *h, int32_t scores) {
    const qb_shape *q = qb_build_shape(b, h->q);
    const int64_t size = q->rank == 4 ? q->dim[3] : QB_DIM_UNKNOWN;
    if (!isnan(h->scale) || size > 0) {
        const double scale = isnan(h->scale) ? 1.0 / sqrt((double)size) : (double)h->scale;
        return QB_BUILD(b, "Mul", scores, qb_build_float(b, h->q, (float)scale));
    }
    const int32_t count = QB_BUILD(b, "CastLike", qb_build_dim(b, h->q, 3), h->q);
    return QB_BUILD(b, "Div", scores, QB_BUILD(b, "Sqrt", count));
}

/* Query heads that share keys lie one after the other, as more queries of one head. */
static int32_t grouped(qb_build *b, const qb_products *h, int32_t x) {
    if (h->heads == h->kv_heads) return x;
    return qb_build_reshape(b, x, 4, (int64_t[]){0, h->kv_heads, -1, 0});
}

static int32_t with_bias(qb_build *b, const qb_products *h, int32_t scores, int32_t bias,
                         bool shared) {
    if (bias < 0) return scores;
    if (h->heads == h->kv_heads) return QB_BUILD(b, "Add", scores, bias);
    const int64_t heads = shared ? h->heads / h->kv_heads : h->heads;
    const int64_t kv_heads = shared ? 1 : h->kv_heads;
    const int32_t repeated = QB_BUILD(b, "Expand", bias, QB_BUILD_INTS(b, 1, heads, 1, 1));
    return QB_BUILD(b, "Add", scores,
                    qb_build_reshape(b, repeated, 4, (int64_t[]){0, kv_heads, -1, 0}));
}

/* [1, 1, queries, keys] */
static int32_t causal_bias(qb_build *b, const qb_products *h) {
    const int32_t zero = qb_build_int(b, 0), one = qb_build_int(b, 1);
    const int32_t queries = qb_build_dim(b, h->q, 2), keys = qb_build_dim(b, h->k, 2);
    const int32_t first = h->before >= 0 ? h->before : QB_BUILD(b, "Sub", keys, queries);
    const int32_t end = h->before >= 0 ? QB_BUILD(b, "Add", first, queries) : keys;
    const int32_t rows =
        QB_BUILD(b, "Unsqueeze", QB_BUILD(b, "Range", first, end, one), QB_BUILD_INTS(b, 1));
    const int32_t seen = QB_BUILD(b, "LessOrEqual", QB_BUILD(b, "Range", zero, keys, one), rows);
    const int32_t mask = QB_BUILD(b, "Where", seen, qb_build_float(b, h->q, 0.0f),
                                  qb_build_float(b, h->q, h->masked));
    return QB_BUILD(b, "Unsqueeze", mask, QB_BUILD_INTS(b, 0, 1));
}

int32_t qb_build_attention(qb_build *b, const qb_products *h) {
    const int32_t keys = qb_build_transpose(b, h->k, 4, (int64_t[]){0, 1, 3, 2});
    int32_t s = scaled(b, h, QB_BUILD(b, "MatMul", grouped(b, h, h->q), keys));
    if (h->softcap > 0.0f) {
        const int32_t cap = qb_build_float(b, h->q, h->softcap);
        s = QB_BUILD(b, "Mul", QB_BUILD(b, "Tanh", QB_BUILD(b, "Div", s, cap)), cap);
    }
    s = with_bias(b, h, s, h->bias[0], true);
    s = with_bias(b, h, s, h->bias[1], false);
    if (h->causal) s = with_bias(b, h, s, causal_bias(b, h), true);
    s = QB_BUILD(b, "Softmax", s);
    if (h->none)
        s = QB_BUILD(b, "Where", QB_BUILD(b, "IsNaN", s), qb_build_float(b, h->q, 0.0f), s);
    const int32_t y = QB_BUILD(b, "MatMul", s, h->v);
    if (h->heads == h->kv_heads) return y;
    return qb_build_reshape(b, y, 4, (int64_t[]){0, h->heads, -1, 0});
}

/* --- files only --------------------------------------------------------------------------------
 */

qb_status qb_rename_upgrade(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    (void)cx, (void)version;
    graph->nodes[node].op = qb_op_find(graph->nodes[node].op->name, "");
    return QB_OK;
}

qb_status qb_infer_rewritten(qb_ctx *cx, const qb_infer_args *args) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s is for reading only",
                   qb_infer_at(args)->op->name);
}

qb_status qb_eval_rewritten(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    (void)in, (void)out;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s is for reading only", node->op->name);
}

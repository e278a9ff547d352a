#include "open_models.h"

#include <string.h>

#include "base/rng.h"
#include "graph/op.h"

typedef struct model {
    qb_ctx *cx;
    qb_graph *graph;
    uint64_t seed;
} model;

static int32_t constant(model *m, const char *name, qb_shape shape) {
    const size_t n = (size_t)qb_shape_count(&shape);
    float *data = qb_alloc(m->cx, n, sizeof *data);
    qb_rng rng;
    assert_non_null(data);
    qb_rng_seed(&rng, ++m->seed);
    for (size_t i = 0; i < n; i++) data[i] = (float)(qb_rng_uniform(&rng) - 0.5) * 0.5f;
    const int32_t id = qb_graph_add_constant(m->cx, m->graph, name, QB_DTYPE_F32, &shape, data);
    qb_free(data);
    assert_true(id >= 0);
    return id;
}

static int32_t node(model *m, const char *op, const char *name, int32_t a, int32_t b,
                    void **attrs) {
    const qb_shape unknown = {.rank = -1};
    const int32_t in[] = {a, b};
    int32_t out = qb_graph_add_value(m->cx, m->graph, name, QB_DTYPE_NONE, &unknown);
    const int32_t id =
        qb_graph_add_node(m->cx, m->graph, qb_op_find(op, ""), name, in, b < 0 ? 1 : 2, &out, 1);
    assert_true(id >= 0);
    if (attrs) *attrs = m->graph->nodes[id].attrs;
    return out;
}

static int32_t begin(model *m, const char *input, qb_shape shape) {
    assert_ok(m->cx, qb_graph_create(m->cx, &m->graph));
    m->graph->name = m->graph->source = input;
    m->graph->opset = QB_GRAPH_OPSET;
    static const char *const symbols[] = {"N", "S", "T"};
    int32_t next = 0;
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = qb_graph_add_symbol(m->cx, m->graph, symbols[next++]);
    const int32_t x = qb_graph_add_value(m->cx, m->graph, input, QB_DTYPE_F32, &shape);
    assert_ok(m->cx, qb_graph_add_input(m->cx, m->graph, x));
    return x;
}

static void end(model *m, int32_t y, qb_graph **out) {
    assert_ok(m->cx, qb_graph_add_output(m->cx, m->graph, y));
    assert_ok(m->cx, qb_graph_infer(m->cx, m->graph));
    *out = m->graph;
}

static int32_t conv(model *m, const char *name, int32_t x, qb_shape weight, int64_t stride) {
    char label[64];
    void *attrs;
    snprintf(label, sizeof label, "%s.w", name);
    const int32_t w = constant(m, label, weight);
    const int32_t y = node(m, "Conv", name, x, w, &attrs);
    const int64_t pads[] = {1, 1, 1, 1}, strides[] = {stride, stride};
    for (const qb_attr_desc *a = qb_op_find("Conv", "")->attrs; a->name; a++) {
        const bool is_pads = strcmp(a->name, "pads") == 0;
        if (!is_pads && strcmp(a->name, "strides") != 0) continue;
        int64_t *kept = qb_arena_alloc(m->cx, m->graph->arena, 4, sizeof *kept);
        assert_non_null(kept);
        memcpy(kept, is_pads ? pads : strides, is_pads ? sizeof pads : sizeof strides);
        *(qb_ints *)(void *)((char *)attrs + a->offset) =
            (qb_ints){.n = is_pads ? 4 : 2, .v = kept};
    }
    return y;
}

void open_image_model(qb_ctx *cx, qb_graph **out) {
    model m = {.cx = cx};
    int32_t x = begin(&m, "image", qb_shape_of(4, -1, 3, -1, -1));
    x = node(&m, "Relu", "r1", conv(&m, "c1", x, qb_shape_of(4, 24, 3, 3, 3), 1), -1, NULL);
    x = node(&m, "Relu", "r2", conv(&m, "c2", x, qb_shape_of(4, 32, 24, 3, 3), 2), -1, NULL);
    end(&m, conv(&m, "y", x, qb_shape_of(4, 8, 32, 3, 3), 1), out);
}

void open_sequence_model(qb_ctx *cx, qb_graph **out) {
    model m = {.cx = cx, .seed = 50};
    void *attrs;
    const int32_t x = begin(&m, "tokens", qb_shape_of(3, -1, -1, 16));
    const int32_t q = node(&m, "MatMul", "q", x, constant(&m, "wq", qb_shape_of(2, 16, 64)), NULL);
    const int32_t k = node(&m, "MatMul", "k", x, constant(&m, "wk", qb_shape_of(2, 16, 64)), NULL);
    const int32_t v = node(&m, "MatMul", "v", x, constant(&m, "wv", qb_shape_of(2, 16, 64)), NULL);
    const int32_t transposed = node(&m, "Transpose", "kt", k, -1, &attrs);
    qb_ints *perm = &((qb_perm_attrs *)attrs)->perm;
    static int64_t order[] = {0, 2, 1};
    *perm = (qb_ints){.n = 3, .v = order};
    const int32_t scores = node(&m, "MatMul", "scores", q, transposed, NULL);
    const int32_t weights = node(&m, "Softmax", "weights", scores, -1, &attrs);
    ((qb_axis_attrs *)attrs)->axis = -1;
    const int32_t mixed = node(&m, "MatMul", "mixed", weights, v, NULL);
    const int32_t back =
        node(&m, "MatMul", "back", mixed, constant(&m, "wo", qb_shape_of(2, 64, 16)), NULL);
    end(&m, node(&m, "Add", "y", back, x, NULL), out);
}

static void set_int(const qb_node *node, const char *attr, int64_t value) {
    const qb_attr_desc *a = node->op->attrs;
    while (strcmp(a->name, attr) != 0) a++;
    *(int64_t *)(void *)((char *)node->attrs + a->offset) = value;
}

/* x weight + bias */
static int32_t product(model *m, const char *name, int32_t x) {
    char label[3][16];
    static const char *const form[] = {"w%s", "b%s", "x%s"};
    for (int i = 0; i < 3; i++) snprintf(label[i], sizeof label[i], form[i], name);
    const int32_t w = constant(m, label[0], qb_shape_of(2, 16, 32));
    const int32_t b = constant(m, label[1], qb_shape_of(1, 32));
    return node(m, "Add", name, node(m, "MatMul", label[2], x, w, NULL), b, NULL);
}

void open_attention_model(qb_ctx *cx, qb_graph **out) {
    model m = {.cx = cx, .seed = 90};
    const qb_shape unknown = {.rank = -1};
    const int32_t x = begin(&m, "tokens", qb_shape_of(3, -1, -1, 16));
    const int32_t q = product(&m, "q", x), k = product(&m, "k", x);
    const int32_t in[] = {q, k, product(&m, "v", x)};
    int32_t mixed = qb_graph_add_value(cx, m.graph, "mixed", QB_DTYPE_NONE, &unknown);
    const int32_t id =
        qb_graph_add_node(cx, m.graph, qb_op_find("Attention", ""), "attend", in, 3, &mixed, 1);
    assert_true(id >= 0);
    set_int(&m.graph->nodes[id], "q_num_heads", 2);
    set_int(&m.graph->nodes[id], "kv_num_heads", 2);
    const int32_t shape = node(&m, "Shape", "shape", qb_graph_find_value(m.graph, "xq"), -1, NULL);
    end(&m, node(&m, "Reshape", "y", mixed, shape, NULL), out);
}

void open_products_model(qb_ctx *cx, qb_graph **out) {
    model m = {.cx = cx};
    static int64_t order[] = {0, 2, 1};
    void *attrs;
    const int32_t x = begin(&m, "rows", qb_shape_of(3, -1, -1, 16));
    const int32_t mean = node(&m, "GlobalAveragePool", "mean", x, -1, NULL);
    const int32_t scaled = node(&m, "Mul", "scaled", x, mean, NULL);
    const int32_t transposed = node(&m, "Transpose", "turned", scaled, -1, &attrs);
    ((qb_perm_attrs *)attrs)->perm = (qb_ints){.n = 3, .v = order};
    const int32_t square = node(&m, "MatMul", "square", transposed, x, NULL);
    end(&m, node(&m, "MatMul", "y", square, square, NULL), out);
}

float *open_run(qb_ctx *cx, qb_context *context, uint64_t seed, size_t *n) {
    const qb_engine *plan = qb_context_engine(context);
    const size_t count = (size_t)qb_shape_count(&qb_engine_input(plan, 0)->shape);
    *n = (size_t)qb_shape_count(&qb_engine_output(plan, 0)->shape);
    float *x = qb_alloc(cx, count, sizeof *x), *y = qb_alloc(cx, *n, sizeof *y);
    qb_rng rng;
    assert_true(x && y);
    qb_rng_seed(&rng, seed);
    for (size_t i = 0; i < count; i++) x[i] = (float)qb_rng_normal(&rng);
    const void *inputs[] = {x};
    void *outputs[] = {y};
    assert_ok(cx, qb_context_run(cx, context, inputs, outputs));
    qb_free(x);
    return y;
}

#include "plugin_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

void plugin_graph_library(char *path, size_t n, const char *name) {
    snprintf(path, n, "%s/%s.so", QB_PLUGIN_DIR, name);
}

qb_status plugin_graph_load(qb_ctx *cx, const char *name) {
    char path[1024];
    if (!cx->plugins) QB_TRY(qb_plugins_create(cx, &cx->plugins));
    plugin_graph_library(path, sizeof path, name);
    return qb_plugins_load(cx, cx->plugins, path);
}

/* What is under construction; errors stay in the context until `finish`. */
typedef struct maker {
    qb_ctx *cx;
    qb_graph *graph;
    qb_rng rng;
} maker;

static qb_status begin(maker *m, qb_ctx *cx) {
    *m = (maker){.cx = cx};
    qb_rng_seed(&m->rng, 5);
    return qb_graph_create(cx, &m->graph);
}

static int32_t add_input(maker *m, const char *name, qb_shape shape) {
    const int32_t id = qb_graph_add_value(m->cx, m->graph, name, QB_DTYPE_F32, &shape);
    if (id >= 0) qb_graph_add_input(m->cx, m->graph, id);
    return id;
}

static int32_t add_weight(maker *m, const char *name, qb_shape shape) {
    float data[4096];
    const int64_t n = qb_shape_count(&shape);
    const double size = sqrt(2.0 * (double)shape.dim[0] / (double)n);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(qb_rng_normal(&m->rng) * size);
    return qb_graph_add_constant(m->cx, m->graph, name, QB_DTYPE_F32, &shape, data);
}

static int32_t add(maker *m, const char *op, const char *domain, const char *name, int32_t a,
                   int32_t b) {
    const int32_t in[] = {a, b};
    const qb_op *row = qb_op_lookup(m->cx, op, domain);
    if (!row) {
        qb_fail(m->cx, QB_STATUS_NOTFOUND, "no operator %s.%s", domain, op);
        return -1;
    }
    const int32_t out = qb_graph_add_value(m->cx, m->graph, name, QB_DTYPE_NONE, NULL);
    if (out >= 0) qb_graph_add_node(m->cx, m->graph, row, name, in, b >= 0 ? 2 : 1, &out, 1);
    return out;
}

static qb_status finish(maker *m, const int32_t *outputs, int32_t n, qb_graph **out) {
    for (int32_t i = 0; i < n && m->cx->code == QB_OK; i++)
        qb_graph_add_output(m->cx, m->graph, outputs[i]);
    if (m->cx->code == QB_OK) qb_graph_infer(m->cx, m->graph);
    if (m->cx->code == QB_OK)
        *out = m->graph;
    else
        qb_graph_free(m->graph);
    return m->cx->code;
}

void *plugin_graph_attr(qb_graph *graph, const char *name) {
    const qb_node *node = &graph->nodes[graph->n_nodes - 1];
    for (const qb_attr_desc *a = node->op->attrs; a->name; a++)
        if (strcmp(a->name, name) == 0) return (char *)node->attrs + a->offset;
    return NULL;
}

qb_status plugin_graph_gate(qb_ctx *cx, bool plain, qb_graph **out) {
    maker m;
    QB_TRY(begin(&m, cx));
    const int64_t n = qb_graph_add_symbol(cx, m.graph, "N");
    const int32_t x = add_input(&m, "image", (qb_shape){4, {n, 3, 32, 32}});
    const int32_t w1 = add_weight(&m, "w1", qb_shape_of(4, 16, 3, 3, 3));
    const int32_t w2 = add_weight(&m, "w2", qb_shape_of(4, 16, 16, 1, 1));
    const int32_t w3 = add_weight(&m, "w3", qb_shape_of(4, 16, 16, 3, 3));
    const int32_t w4 = add_weight(&m, "w4", qb_shape_of(2, 16, 10));
    const int32_t t = add(&m, "Relu", "", "t", add(&m, "Conv", "", "c1", x, w1), -1);
    const int32_t mean = add(&m, "GlobalAveragePool", "", "mean", t, -1);
    const int32_t s = add(&m, "Conv", "", "s", mean, w2);
    const int32_t y = plain ? add(&m, "Mul", "", "gate", t, add(&m, "HardSigmoid", "", "h", s, -1))
                            : add(&m, "HardSigmoidGate", "com.example", "gate", t, s);
    const int32_t r = add(&m, "Relu", "", "r", add(&m, "Conv", "", "c3", y, w3), -1);
    const int32_t p = add(&m, "GlobalAveragePool", "", "p", r, -1);
    const int32_t logits = add(&m, "MatMul", "", "logits", add(&m, "Flatten", "", "f", p, -1), w4);
    const int32_t prob = add(&m, "Softmax", "", "prob", logits, -1);
    return finish(&m, &prob, 1, out);
}

qb_status plugin_graph_sampler(qb_ctx *cx, int64_t channels, int64_t side, int64_t points,
                               qb_graph **out) {
    maker m;
    QB_TRY(begin(&m, cx));
    const int32_t image = add_input(&m, "image", (qb_shape){4, {1, channels, side, side}});
    const int32_t grid = add_input(&m, "grid", (qb_shape){4, {1, points, points, 2}});
    const int32_t y = add(&m, "Relu", "", "y",
                          add(&m, "BilinearSampler", "com.example", "sample", image, grid), -1);
    return finish(&m, &y, 1, out);
}

qb_status plugin_graph_kit(qb_ctx *cx, bool both, const char *mode, qb_graph **out) {
    maker m;
    QB_TRY(begin(&m, cx));
    int32_t in[2] = {add_input(&m, "x", qb_shape_of(2, 2, 3)), -1}, made[2];
    if (both) in[1] = add_input(&m, "y", qb_shape_of(2, 2, 3));
    made[0] = qb_graph_add_value(cx, m.graph, "sum", QB_DTYPE_NONE, NULL);
    made[1] = qb_graph_add_value(cx, m.graph, "back", QB_DTYPE_NONE, NULL);
    const qb_op *kit = qb_op_lookup(cx, "Kit", "test");
    if (!kit) qb_fail(cx, QB_STATUS_NOTFOUND, "no operator test.Kit");
    if (cx->code == QB_OK) qb_graph_add_node(cx, m.graph, kit, "kit", in, both ? 2 : 1, made, 2);
    if (cx->code == QB_OK) {
        static const int64_t shifts[] = {4, -1};
        static const float factors[] = {0.5f, 3};
        *(const char **)plugin_graph_attr(m.graph, "mode") = mode;
        *(qb_ints *)plugin_graph_attr(m.graph, "shifts") = (qb_ints){2, shifts};
        *(qb_floats *)plugin_graph_attr(m.graph, "factors") = (qb_floats){2, factors};
    }
    return finish(&m, made, 2, out);
}

static int32_t add_size(maker *m, plugin_size from, int64_t batch) {
    static const int64_t fixed[] = {4, 6};
    const qb_shape two = qb_shape_of(1, 2);
    if (from == SIZE_CONSTANT)
        return qb_graph_add_constant(m->cx, m->graph, "size", QB_DTYPE_S64, &two, fixed);
    if (from == SIZE_INPUT) {
        const int32_t id = qb_graph_add_value(m->cx, m->graph, "size", QB_DTYPE_S64, &two);
        if (id >= 0) qb_graph_add_input(m->cx, m->graph, id);
        return id;
    }
    const int64_t rows = qb_graph_add_symbol(m->cx, m->graph, "U");
    const int64_t columns = qb_graph_add_symbol(m->cx, m->graph, "V");
    const int32_t like = add_input(m, "like", (qb_shape){4, {batch, 1, rows, columns}});
    const int32_t size = add(m, "Shape", "", "size", like, -1);
    if (m->cx->code == QB_OK) *(int64_t *)plugin_graph_attr(m->graph, "start") = 2;
    return size;
}

qb_status plugin_graph_resize(qb_ctx *cx, plugin_size from, qb_graph **out) {
    maker m;
    QB_TRY(begin(&m, cx));
    const int64_t n = qb_graph_add_symbol(cx, m.graph, "N");
    const int64_t rows = qb_graph_add_symbol(cx, m.graph, "H");
    const int64_t columns = qb_graph_add_symbol(cx, m.graph, "W");
    const int32_t x = add_input(&m, "x", (qb_shape){4, {n, 2, rows, columns}});
    const int32_t size = add_size(&m, from, n);
    const int32_t y = add(&m, "Relu", "", "y", add(&m, "ResizeTo", "test", "resized", x, size), -1);
    return finish(&m, &y, 1, out);
}

#include "build_graph.h"

#include <stdarg.h>
#include <string.h>

#include "graph/rewrite_internal.h"

void maker_init(maker *m, uint64_t seed) {
    qb_ctx_init(&m->cx);
    m->seed = seed;
    qb_rng_seed(&m->rng, seed);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
}

void maker_release(maker *m) { qb_graph_free(m->graph); }

void maker_replace(maker *m, qb_graph *graph) {
    qb_graph_free(m->graph);
    m->graph = graph;
}

qb_shape make_shape(int first, ...) {
    qb_shape shape = {0};
    va_list args;
    va_start(args, first);
    for (int d = first; d != DIMS_END; d = va_arg(args, int)) shape.dim[shape.rank++] = d;
    va_end(args);
    return shape;
}

static int32_t need(maker *m, int32_t id) {
    if (id < 0) fail_msg("%s", m->cx.message);
    return id;
}

int32_t make_input(maker *m, const char *name, qb_shape shape) {
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0) shape.dim[i] = qb_graph_add_symbol(&m->cx, m->graph, "N");
    int32_t id = need(m, qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_F32, &shape));
    assert_ok(&m->cx, qb_graph_add_input(&m->cx, m->graph, id));
    return id;
}

void make_output(maker *m, int32_t value) {
    if (!qb_graph_is_output(m->graph, value))
        assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, value));
}

int32_t make_floats(maker *m, const char *name, qb_shape shape, const float *data) {
    return need(m, qb_graph_add_constant(&m->cx, m->graph, name, QB_DTYPE_F32, &shape, data));
}

static int32_t make_drawn(maker *m, const char *name, qb_shape shape, bool normal, double low,
                          double high) {
    int64_t n = qb_shape_count(&shape);
    float *data = qb_alloc(&m->cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++)
        data[i] =
            (float)(normal ? qb_rng_normal(&m->rng) : low + (high - low) * qb_rng_uniform(&m->rng));
    int32_t id = make_floats(m, name, shape, data);
    qb_free(data);
    return id;
}

int32_t make_random(maker *m, const char *name, qb_shape shape) {
    return make_drawn(m, name, shape, true, 0, 0);
}

int32_t make_uniform(maker *m, const char *name, qb_shape shape, double low, double high) {
    return make_drawn(m, name, shape, false, low, high);
}

int32_t make_scalar(maker *m, const char *name, float value) {
    return make_floats(m, name, (qb_shape){.rank = 0}, &value);
}

int32_t make_ints(maker *m, const char *name, int32_t n, const int64_t *data) {
    qb_shape shape = {.rank = 1, .dim = {n}};
    return need(m, qb_graph_add_constant(&m->cx, m->graph, name, QB_DTYPE_S64, &shape, data));
}

int32_t make_node(maker *m, const char *op, const char *name, int32_t n_in, const int32_t *in) {
    const qb_op *row = qb_op_find(op, "");
    if (!row) fail_msg("no operator %s", op);
    int32_t out = need(m, qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_NONE, NULL));
    const char *unique = m->graph->values[out].name; /* a name of its own, as exporters give */
    need(m, qb_graph_add_node(&m->cx, m->graph, row, unique, in, n_in, &out, 1));
    /* Attributes may still be missing: set_* infers again, and so does qb_optimize. */
    if (qb_graph_infer(&m->cx, m->graph) != QB_OK) qb_ctx_clear(&m->cx);
    return out;
}

static qb_rewrite last(maker *m) { return (qb_rewrite){.cx = &m->cx, .graph = m->graph}; }

void set_int(maker *m, const char *attr, int64_t value) {
    qb_rewrite rw = last(m);
    assert_ok(&m->cx, qb_node_set_int(&rw, m->graph->n_nodes - 1, attr, value));
    if (qb_graph_infer(&m->cx, m->graph) != QB_OK) qb_ctx_clear(&m->cx);
}

void set_float(maker *m, const char *attr, float value) {
    qb_rewrite rw = last(m);
    assert_ok(&m->cx, qb_node_set_float(&rw, m->graph->n_nodes - 1, attr, value));
}

void set_string(maker *m, const char *attr, const char *value) {
    qb_rewrite rw = last(m);
    assert_ok(&m->cx, qb_node_set_string(&rw, m->graph->n_nodes - 1, attr, value));
    if (qb_graph_infer(&m->cx, m->graph) != QB_OK) qb_ctx_clear(&m->cx);
}

void set_ints(maker *m, const char *attr, int32_t n, const int64_t *value) {
    qb_rewrite rw = last(m);
    assert_ok(&m->cx, qb_node_set_ints(&rw, m->graph->n_nodes - 1, attr, value, n));
    if (qb_graph_infer(&m->cx, m->graph) != QB_OK) qb_ctx_clear(&m->cx);
}

int32_t make_batch_norm(maker *m, const char *name, int32_t x, int64_t channels) {
    qb_shape shape = {.rank = 1, .dim = {channels}};
    int32_t gamma = make_uniform(m, "gamma", shape, 0.5, 2), beta = make_random(m, "beta", shape);
    int32_t mean = make_random(m, "mean", shape), var = make_uniform(m, "var", shape, 0.5, 3);
    return NODE(m, "BatchNormalization", name, x, gamma, beta, mean, var);
}

void make_quantized(maker *m, int32_t value, float scale, int32_t zero) {
    float *s = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *s);
    int32_t *z = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *z);
    assert_non_null(s);
    assert_non_null(z);
    *s = scale;
    *z = zero;
    m->graph->values[value].q = (qb_qparams){QB_DTYPE_U8, -1, 1, s, z};
    m->graph->values[value].dtype = QB_DTYPE_U8;
}

const qb_value *value_of(const maker *m, int32_t value) { return &m->graph->values[value]; }

int32_t count_op(const qb_graph *graph, const char *op) {
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) n += qb_node_is(&graph->nodes[i], op);
    return n;
}

int32_t count_nodes(const qb_graph *graph) {
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) n += graph->nodes[i].op != NULL;
    return n;
}

const qb_node *node_writing(const maker *m, const char *value) {
    int32_t id = qb_graph_find_value(m->graph, value);
    for (int32_t i = 0; i < m->graph->n_nodes; i++) {
        const qb_node *node = &m->graph->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_out; k++)
            if (id >= 0 && node->out[k] == id) return node;
    }
    fail_msg("no node writes '%s'", value);
    return NULL;
}

void assert_same_results(maker *m, const qb_graph *before, const qb_graph *after,
                         double tolerance) {
    qb_tensor inputs[QB_EVAL_TENSORS];
    assert_int_equal(before->n_inputs, after->n_inputs);
    assert_int_equal(before->n_outputs, after->n_outputs);
    for (int32_t i = 0; i < before->n_inputs; i++) {
        qb_shape shape = before->values[before->inputs[i]].shape;
        for (int32_t k = 0; k < shape.rank; k++)
            if (shape.dim[k] < 0) shape.dim[k] = 2;
        int64_t n = qb_shape_count(&shape);
        float *data = qb_alloc(&m->cx, (size_t)n, sizeof *data);
        assert_non_null(data);
        for (int64_t k = 0; k < n; k++) data[k] = (float)qb_rng_normal(&m->rng);
        inputs[i] = qb_tensor_of(QB_DTYPE_F32, shape, data);
    }
    qb_eval a, b;
    assert_ok(&m->cx, qb_eval_run(&m->cx, before, inputs, &a));
    assert_ok(&m->cx, qb_eval_run(&m->cx, after, inputs, &b));
    for (int32_t i = 0; i < before->n_outputs; i++) {
        qb_tensor x = qb_eval_output(&a, i), y = qb_eval_output(&b, i);
        const char *name = a.graph->values[a.graph->outputs[i]].name;
        assert_string_equal(b.graph->values[b.graph->outputs[i]].name, name);
        double error = qb_eval_error(&y, &x);
        if (!(error <= tolerance))
            fail_msg("seed %llu, output '%s': error %g of its range, expected at most %g",
                     (unsigned long long)m->seed, name, error, tolerance);
    }
    qb_eval_release(&a);
    qb_eval_release(&b);
    for (int32_t i = 0; i < before->n_inputs; i++) qb_free(inputs[i].data);
}

static bool has_suffix(const char *text, const char *suffix) {
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

int64_t count_trained(const qb_graph *graph) {
    int64_t n = 0;
    for (int32_t i = 0; i < graph->n_values; i++) {
        const qb_value *v = &graph->values[i];
        if (v->data && (has_suffix(v->name, ".weight") || has_suffix(v->name, ".bias")))
            n += qb_shape_count(&v->shape);
    }
    return n;
}

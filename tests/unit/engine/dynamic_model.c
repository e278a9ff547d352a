#include "dynamic_model.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "graph/op.h"

#define INNER 512

typedef struct model {
    qb_ctx *cx;
    qb_graph *graph;
    qb_rng rng;
    dynamic_form form;
} model;

static int32_t value(model *m, const char *name) {
    const int32_t id = qb_graph_add_value(m->cx, m->graph, name, QB_DTYPE_NONE, NULL);
    assert_true(id >= 0);
    return id;
}

static int32_t constant(model *m, const char *name, qb_dtype dtype, qb_shape shape,
                        const void *data) {
    const int32_t id = qb_graph_add_constant(m->cx, m->graph, name, dtype, &shape, data);
    assert_true(id >= 0);
    return id;
}

static int32_t node(model *m, const char *op, const char *name, const int32_t *in, int32_t n) {
    const int32_t out = value(m, name);
    assert_true(qb_graph_add_node(m->cx, m->graph, qb_op_find(op, ""), name, in, n, &out, 1) >= 0);
    return out;
}

static int32_t two(model *m, const char *op, const char *name, int32_t a, int32_t b) {
    return node(m, op, name, (const int32_t[]){a, b}, 2);
}

/* To [1, 4, 33, ...] or so: one more dimension in front. */
static int32_t reshaped(model *m, int32_t x) {
    static const int64_t front[] = {0};
    return two(m, "Unsqueeze", "reshaped", x,
               constant(m, "axes", QB_DTYPE_S64, qb_shape_of(1, 1), front));
}

static int32_t floats(model *m, const char *name, int n, double low, double high) {
    float data[DYNAMIC_MIDDLE];
    for (int i = 0; i < n; i++) data[i] = (float)(low + (high - low) * qb_rng_uniform(&m->rng));
    return constant(m, name, QB_DTYPE_F32, n > 1 ? qb_shape_of(1, n) : (qb_shape){0}, data);
}

static int32_t codes(model *m, const char *name, qb_dtype dtype, qb_shape shape) {
    static uint8_t data[INNER * DYNAMIC_MIDDLE];
    for (int64_t i = 0; i < qb_shape_count(&shape); i++) data[i] = (uint8_t)qb_rng_u64(&m->rng);
    return constant(m, name, dtype, shape, data);
}

/* Quantized values, scale and zero point. */
static void quantize(model *m, const char *name, int32_t x, int32_t out[3]) {
    out[0] = value(m, "codes"), out[1] = value(m, "scale"), out[2] = value(m, "zero");
    assert_true(qb_graph_add_node(m->cx, m->graph, qb_op_find("DynamicQuantizeLinear", ""), name,
                                  &x, 1, out, 3) >= 0);
}

/* x W with the scale of x found on the way; *sums: before any scale. */
static int32_t product(model *m, const char *name, int32_t x, int32_t weight, int32_t zero,
                       int32_t scale, int32_t *sums) {
    int32_t made[3], other[3];
    quantize(m, name, x, made);
    *sums = node(m, "MatMulInteger", name, (const int32_t[]){made[0], weight, made[2], zero}, 4);
    int32_t real = m->form == DYNAMIC_SUMS_RESHAPED ? reshaped(m, *sums) : *sums;
    real = node(m, "Cast", "real", &real, 1);
    ((qb_cast_attrs *)m->graph->nodes[m->graph->n_nodes - 1].attrs)->to = 1; /* FLOAT */
    if (m->form == DYNAMIC_FLOATS_RESHAPED) real = reshaped(m, real);
    if (m->form == DYNAMIC_SCALE_RESHAPED) made[1] = reshaped(m, made[1]);
    int32_t scales = two(m, "Mul", "scales", made[1], scale);
    if (m->form == DYNAMIC_SCALES_COMPUTED) {
        quantize(m, "other", x, other);
        scales = two(m, "Mul", "scales", scales, other[1]);
    }
    real = two(m, "Mul", name, real, scales);
    const int32_t axes = constant(m, "axes", QB_DTYPE_S64, qb_shape_of(1, 1), (int64_t[]){0});
    const bool flat = m->form == DYNAMIC_SUMS_RESHAPED || m->form == DYNAMIC_FLOATS_RESHAPED;
    return flat ? two(m, "Squeeze", name, real, axes) : real;
}

void dynamic_model(qb_ctx *cx, dynamic_form form, qb_graph **out) {
    const qb_shape shape = qb_shape_of(3, 4, 33, INNER);
    const double unit = form == DYNAMIC_SCALES_COMPUTED ? 30 : 1; /* for the scale that is added */
    const int8_t none = 0;
    model m = {.cx = cx, .form = form};
    int32_t sums, last, made[3];
    qb_rng_seed(&m.rng, 3);
    assert_ok(cx, qb_graph_create(cx, &m.graph));
    m.graph->name = m.graph->source = "dynamic";
    m.graph->opset = QB_GRAPH_OPSET;
    const int32_t x = qb_graph_add_value(cx, m.graph, "x", QB_DTYPE_F32, &shape);
    assert_ok(cx, qb_graph_add_input(cx, m.graph, x));
    int32_t y =
        product(&m, "first", x, codes(&m, "w1", QB_DTYPE_S8, qb_shape_of(2, INNER, DYNAMIC_MIDDLE)),
                constant(&m, "z1", QB_DTYPE_S8, (qb_shape){0}, &none),
                floats(&m, "s1", DYNAMIC_MIDDLE, 1e-5 * unit, 3e-5 * unit), &sums);
    y = two(&m, "Add", "biased", floats(&m, "b1", DYNAMIC_MIDDLE, -0.05, 0.05), y);
    y = node(&m, "Relu", "relu", &y, 1);
    y = product(&m, "y", y,
                codes(&m, "w2", QB_DTYPE_U8, qb_shape_of(2, DYNAMIC_MIDDLE, DYNAMIC_COLUMNS)),
                codes(&m, "z2", QB_DTYPE_U8, qb_shape_of(1, DYNAMIC_COLUMNS)),
                floats(&m, "s2", 1, 1e-5 * unit * unit, 1e-4 * unit * unit), &last);
    quantize(&m, "result", y, made);
    const int32_t outputs[] = {y, made[0], made[1], made[2], sums, last};
    const int n_outputs = form == DYNAMIC_SUMS_HIDDEN ? 4 : 6;
    for (int i = 0; i < n_outputs; i++) assert_ok(cx, qb_graph_add_output(cx, m.graph, outputs[i]));
    assert_ok(cx, qb_graph_infer(cx, m.graph));
    *out = m.graph;
}

qb_engine *dynamic_model_build(qb_ctx *cx, dynamic_form form, const char *backends, qb_dtype type,
                               uint32_t without) {
    const qb_build_spec options = {
        .backends = backends, .threads = 1, .float_type = type, .excluded_sources = without};
    qb_graph *graph;
    qb_engine *engine;
    dynamic_model(cx, form, &graph);
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    return engine;
}

void dynamic_model_run(qb_ctx *cx, const qb_engine *engine, dynamic_results *out) {
    static float x[DYNAMIC_ROWS * INNER];
    qb_context *context;
    qb_rng rng;
    qb_rng_seed(&rng, 9);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(qb_rng_normal(&rng) + 0.3);
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, qb_context_run(cx, context, (const void *[]){x},
                                 (void *[]){out->y, out->codes, &out->scale, &out->zero, out->sums,
                                            out->last}));
    qb_context_free(context);
}

double dynamic_model_error(const dynamic_results *actual, const dynamic_results *expected) {
    double error = 0, size = 0;
    for (int i = 0; i < DYNAMIC_ROWS * DYNAMIC_COLUMNS; i++) {
        const double e = (double)expected->y[i], d = (double)actual->y[i] - e;
        error += d * d;
        size += e * e;
    }
    return sqrt(error / size);
}

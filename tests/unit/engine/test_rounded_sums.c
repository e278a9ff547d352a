/* Sums of convolutions that have quantized values of their own, as tools write them that quantize
 * each operator for itself: one step, which gives what the two give one by one. */
#include "qb_test.h"

#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "graph/graph_internal.h"

enum { CHANNELS = 48, SIDE = 5, PIXELS = SIDE * SIDE, N = CHANNELS * PIXELS };

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
    qb_rng rng;
} maker;

static int32_t node(maker *m, const char *op, const char *name, const int32_t *in, int32_t n) {
    const qb_shape unknown = {.rank = -1};
    const int32_t out = qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_NONE, &unknown);
    assert_true(qb_graph_add_node(&m->cx, m->graph, qb_op_find(op, ""), name, in, n, &out, 1) >= 0);
    return out;
}

static int32_t quantized(maker *m, int32_t value, qb_dtype dtype, float scale, int32_t zero) {
    float *s = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *s);
    int32_t *z = qb_arena_alloc(&m->cx, m->graph->arena, 1, sizeof *z);
    assert_true(s && z);
    *s = scale;
    *z = zero;
    m->graph->values[value].dtype = dtype;
    m->graph->values[value].q = (qb_qparams){dtype, -1, 1, s, z};
    return value;
}

static int32_t convolve(maker *m, const char *name, int32_t x, bool matmul) {
    const qb_shape shape =
        matmul ? qb_shape_of(2, SIDE, SIDE) : qb_shape_of(4, CHANNELS, CHANNELS, 1, 1);
    int8_t weight[CHANNELS * CHANNELS];
    char text[32];
    for (int i = 0; i < CHANNELS * CHANNELS; i++)
        weight[i] = (int8_t)(qb_rng_below(&m->rng, 255) - 127);
    snprintf(text, sizeof text, "%s.w", name);
    const int32_t w = qb_graph_add_constant(&m->cx, m->graph, text, QB_DTYPE_S8, &shape, weight);
    quantized(m, w, QB_DTYPE_S8, 0.004f, 0);
    return node(m, matmul ? "MatMul" : "Conv", name, (int32_t[]){x, w}, 2);
}

typedef enum reader { READER_NONE, READER_OTHER, READER_OUTPUT } reader;

typedef struct row {
    const char *before, *after; /* activations */
    qb_dtype dtype;             /* of the convolution's result */
    int32_t zero;
    bool two;      /* the sum is of two convolutions */
    bool matmul;   /* ... or the convolution is a product of rows */
    bool coarse;   /* its steps are several of the sum's */
    bool floats;   /* ... or its other operand is no quantized value */
    reader reader; /* of the convolution's result, beside the sum */
    bool fused;
} row;

/* y = after(x' + before(conv(x'))), quantized on the way; x' is x in quantized values. */
static void make(maker *m, const row *r) {
    const qb_shape image = qb_shape_of(4, 1, CHANNELS, SIDE, SIDE);
    qb_ctx_init(&m->cx);
    qb_rng_seed(&m->rng, 7);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
    m->graph->opset = QB_GRAPH_OPSET;
    const int32_t in = qb_graph_add_value(&m->cx, m->graph, "in", QB_DTYPE_F32, &image);
    assert_ok(&m->cx, qb_graph_add_input(&m->cx, m->graph, in));
    const int32_t x = quantized(m, node(m, "Relu", "x", &in, 1), QB_DTYPE_U8, 0.02f, 3);
    int32_t other = r->two      ? convolve(m, "other", x, false)
                    : r->floats ? node(m, "Tanh", "other", &in, 1)
                                : x;
    if (r->two) quantized(m, other, QB_DTYPE_S8, 0.05f, -5);
    int32_t product = convolve(m, "product", x, r->matmul);
    if (r->before) product = node(m, r->before, "before", &product, 1);
    quantized(m, product, r->dtype, r->coarse ? 0.2f : 0.012f, r->zero);
    int32_t y = node(m, "Add", "sum", (int32_t[]){other, product}, 2);
    if (r->after) y = node(m, r->after, "after", &y, 1);
    quantized(m, y, QB_DTYPE_U8, 0.04f, 90);
    if (r->reader == READER_OUTPUT)
        assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, product));
    if (r->reader == READER_OTHER)
        assert_ok(&m->cx,
                  qb_graph_add_output(&m->cx, m->graph, node(m, "Sigmoid", "reader", &product, 1)));
    assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, node(m, "Neg", "out", &y, 1)));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
}

/* The results; how many steps are sums alone. */
static int run(const row *r, const char *backends, float *y) {
    const qb_build_spec spec = {.backends = backends, .threads = 1, .check = true};
    static float x[N], first[N];
    const void *inputs[] = {x};
    maker m;
    qb_engine *engine;
    qb_context *context;
    int sums = 0;
    make(&m, r);
    void *outputs[] = {r->reader == READER_NONE ? y : first, y};
    for (int i = 0; i < N; i++) x[i] = (float)qb_rng_normal(&m.rng);
    assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &spec, &engine));
    assert_ok(&m.cx, qb_context_create(&m.cx, engine, &context));
    assert_ok(&m.cx, qb_context_run(&m.cx, context, inputs, outputs));
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        sums += strstr(info.op, "Add") && !strstr(info.op, "Conv") && !strstr(info.op, "MatMul");
    }
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(m.graph);
    return sums;
}

static void a_sum_rounds_twice(void **state) {
    (void)state;
    static const row rows[] = {
        {.dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.dtype = QB_DTYPE_S8, .zero = -9, .fused = true},
        {.after = "Relu", .dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.after = "HardSwish", .dtype = QB_DTYPE_S8, .fused = true},
        {.before = "Relu", .dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.before = "HardSwish", .dtype = QB_DTYPE_U8, .zero = 20, .fused = true},
        /* two activations, of which quantization implies the first one; or not */
        {.before = "Relu", .after = "Relu", .dtype = QB_DTYPE_U8, .fused = true},
        {.before = "Relu", .after = "Relu", .dtype = QB_DTYPE_U8, .zero = 1},
        {.two = true, .dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.floats = true, .dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.matmul = true, .dtype = QB_DTYPE_S8, .zero = -9, .fused = true},
        {.coarse = true, .dtype = QB_DTYPE_U8, .zero = 120, .fused = true},
        {.dtype = QB_DTYPE_U8, .zero = 120, .reader = READER_OTHER},
        {.dtype = QB_DTYPE_U8, .zero = 120, .reader = READER_OUTPUT},
    };
    static float expected[N], y[N];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(run(&rows[i], "ref", expected), 1);
        const int sums = run(&rows[i], NULL, y);
        if (sums != !rows[i].fused) fail_msg("row %zu: %d sums are steps of their own", i, sums);
        for (int k = 0; k < N; k++)
            if (memcmp(&y[k], &expected[k], sizeof *y) != 0)
                fail_msg("row %zu, result %d: %g, expected %g", i, k, (double)y[k],
                         (double)expected[k]);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(a_sum_rounds_twice)};
QB_TEST_MAIN(tests)

/* Integer biases with scales of any kind: engines give what the file says. x = 1 with the scale
 * 1/2, w = 1 with the scales 1/4 and 1/8 of two filters, b = 8: only scales of 1/8 and 1/16 are
 * those of the sums that kernels add b to. */
#include "qb_test.h"

#include "engine/engine.h"
#include "graph/graph_internal.h"

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
} maker;

static int32_t add(maker *m, const char *name, qb_dtype dtype, qb_shape shape, const void *data,
                   qb_qparams q) {
    const int32_t id = data ? qb_graph_add_constant(&m->cx, m->graph, name, dtype, &shape, data)
                            : qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_F32, &shape);
    assert_true(id >= 0);
    m->graph->values[id].dtype = dtype;
    m->graph->values[id].q = q;
    return id;
}

static void convolve(const char *backends, const float *b_scale, const int32_t *b_zero, float *y) {
    static const float half[] = {0.5f}, w_scale[] = {0.25f, 0.125f}, one[] = {1};
    static const int8_t w[] = {4, 8};
    static const int32_t b[] = {8, 8};
    const qb_build_spec options = {.backends = backends, .threads = 1};
    const qb_shape pixel = qb_shape_of(4, 1, 1, 1, 1), unknown = {.rank = -1};
    const void *inputs[] = {one};
    void *outputs[] = {y};
    maker m;
    qb_engine *engine;
    qb_context *context;
    qb_ctx_init(&m.cx);
    assert_ok(&m.cx, qb_graph_create(&m.cx, &m.graph));
    m.graph->opset = QB_GRAPH_OPSET;
    int32_t in[3] = {add(&m, "x", QB_DTYPE_F32, pixel, NULL, (qb_qparams){.axis = -1})};
    int32_t out = add(&m, "relu", QB_DTYPE_U8, pixel, NULL,
                      (qb_qparams){QB_DTYPE_U8, -1, 1, (float *)half, NULL});
    assert_ok(&m.cx, qb_graph_add_input(&m.cx, m.graph, in[0]));
    qb_graph_add_node(&m.cx, m.graph, qb_op_find("Relu", ""), "relu", in, 1, &out, 1);
    in[0] = out;
    in[1] = add(&m, "w", QB_DTYPE_S8, qb_shape_of(4, 2, 1, 1, 1), w,
                (qb_qparams){QB_DTYPE_S8, 0, 2, (float *)w_scale, NULL});
    in[2] = add(&m, "b", QB_DTYPE_S32, qb_shape_of(1, 2), b,
                (qb_qparams){QB_DTYPE_S32, 0, 2, (float *)b_scale, (int32_t *)b_zero});
    out = qb_graph_add_value(&m.cx, m.graph, "y", QB_DTYPE_NONE, &unknown);
    qb_graph_add_node(&m.cx, m.graph, qb_op_find("Conv", ""), "conv", in, 3, &out, 1);
    assert_ok(&m.cx, qb_graph_add_output(&m.cx, m.graph, out));
    assert_ok(&m.cx, qb_graph_infer(&m.cx, m.graph));
    assert_ok(&m.cx, qb_engine_build(&m.cx, m.graph, &options, &engine));
    assert_ok(&m.cx, qb_context_create(&m.cx, engine, &context));
    assert_ok(&m.cx, qb_context_run(&m.cx, context, inputs, outputs));
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(m.graph);
}

static void scales_of_biases_count(void **state) {
    (void)state;
    static const struct {
        float scale[2];
        int32_t zero[2];
        float y[2];
    } rows[] = {{{0.125f, 0.0625f}, {0, 0}, {2, 1.5f}},
                {{0.5f, 0.0625f}, {0, 0}, {5, 1.5f}},
                {{0.125f, 0.03125f}, {0, 0}, {2, 1.25f}},
                {{0.125f, 0.0625f}, {0, 4}, {2, 1.25f}}};
    static const char *const backends[] = {"ref", "cpu", "cpu,dnnl,ref"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 3; k++) {
            float y[2] = {0};
            convolve(backends[k], rows[i].scale, rows[i].zero, y);
            if (y[0] != rows[i].y[0] || y[1] != rows[i].y[1])
                fail_msg("row %zu, %s: %g and %g, expected %g and %g", i, backends[k], (double)y[0],
                         (double)y[1], (double)rows[i].y[0], (double)rows[i].y[1]);
        }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(scales_of_biases_count)};
QB_TEST_MAIN(tests)

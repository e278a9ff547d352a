/* What engines compute in floats for want of kernels in integers: convolutions of dynamic
 * quantization and Q/DQ pairs of 16 bits, with the bits of their definitions. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "graph/op.h"

enum { CHANNELS = 4, FILTERS = 6, SIDE = 7, PIXELS = SIDE * SIDE, N = CHANNELS * PIXELS };
enum { OUTPUTS = FILTERS * PIXELS, TAPS = CHANNELS / 2 * 9, WEIGHTS = FILTERS * TAPS };

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
    qb_rng rng;
} maker;

static void begin(maker *m) {
    qb_ctx_init(&m->cx);
    qb_rng_seed(&m->rng, 3);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
    m->graph->opset = QB_GRAPH_OPSET;
}

static int32_t node(maker *m, const char *op, const char *name, const int32_t *in, int32_t n) {
    const qb_shape unknown = {.rank = -1};
    const int32_t out = qb_graph_add_value(&m->cx, m->graph, name, QB_DTYPE_NONE, &unknown);
    assert_true(qb_graph_add_node(&m->cx, m->graph, qb_op_find(op, ""), name, in, n, &out, 1) >= 0);
    return out;
}

static int32_t constant(maker *m, const char *name, qb_dtype dtype, qb_shape shape,
                        const void *data) {
    return qb_graph_add_constant(&m->cx, m->graph, name, dtype, &shape, data);
}

static int32_t input(maker *m, qb_shape shape) {
    const int32_t x = qb_graph_add_value(&m->cx, m->graph, "x", QB_DTYPE_F32, &shape);
    assert_ok(&m->cx, qb_graph_add_input(&m->cx, m->graph, x));
    return x;
}

/* `observable` engines run nodes by their definition. The steps that do so are counted. */
static int32_t run(maker *m, bool observable, const float *x, float *y) {
    const qb_build_spec spec = {.threads = 2, .observable = observable};
    const void *inputs[] = {x};
    void *outputs[] = {y};
    qb_engine *engine;
    qb_context *context;
    int32_t plain = 0;
    assert_ok(&m->cx, qb_engine_build(&m->cx, m->graph, &spec, &engine));
    assert_ok(&m->cx, qb_context_create(&m->cx, engine, &context));
    assert_ok(&m->cx, qb_context_run(&m->cx, context, inputs, outputs));
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        plain += strcmp(info.tactic, "node") == 0;
    }
    qb_context_free(context);
    qb_engine_free(engine);
    return plain;
}

static void end(maker *m, int32_t y) {
    assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, y));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
}

/* Two groups, pads, a stride; the weight has no zero point, one, or one a filter. */
static void make_conv(maker *m, int zeros) {
    static qb_cast_attrs to = {.to = 1};
    static const int64_t pads[] = {1, 1, 1, 1};
    uint8_t weight[WEIGHTS], zero[FILTERS];
    begin(m);
    const int32_t x = input(m, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t made[3];
    for (int i = 0; i < 3; i++)
        made[i] = qb_graph_add_value(&m->cx, m->graph,
                                     i == 0   ? "q"
                                     : i == 1 ? "s"
                                              : "z",
                                     QB_DTYPE_NONE, &(qb_shape){.rank = -1});
    qb_graph_add_node(&m->cx, m->graph, qb_op_find("DynamicQuantizeLinear", ""), "d", &x, 1, made,
                      3);
    for (int i = 0; i < WEIGHTS; i++) weight[i] = (uint8_t)qb_rng_u64(&m->rng);
    for (int i = 0; i < FILTERS; i++) zero[i] = (uint8_t)(100 + 9 * i);
    const qb_dtype dtype = zeros ? QB_DTYPE_U8 : QB_DTYPE_S8;
    const qb_shape shape = qb_shape_of(4, FILTERS, CHANNELS / 2, 3, 3);
    const qb_shape zero_shape = zeros > 1 ? qb_shape_of(1, FILTERS) : (qb_shape){.rank = 0};
    const int32_t in[] = {made[0], constant(m, "w", dtype, shape, weight), made[2],
                          zeros ? constant(m, "wz", dtype, zero_shape, zero) : -1};
    int32_t y = node(m, "ConvInteger", "conv", in, zeros ? 4 : 3);
    qb_conv_attrs *attrs = m->graph->nodes[m->graph->n_nodes - 1].attrs;
    attrs->pads = (qb_ints){4, pads};
    attrs->group = 2;
    y = node(m, "Cast", "cast", &y, 1);
    m->graph->nodes[m->graph->n_nodes - 1].attrs = &to;
    end(m, node(m, "Mul", "y", (int32_t[]){y, made[1]}, 2));
}

static void convolutions_of_integers_have_their_sums(void **state) {
    (void)state;
    for (int zeros = 0; zeros < 3; zeros++) {
        maker m;
        float x[N], expected[OUTPUTS], y[OUTPUTS];
        make_conv(&m, zeros);
        for (int i = 0; i < N; i++) x[i] = (float)qb_rng_normal(&m.rng);
        assert_true(run(&m, true, x, expected) > 0);
        assert_int_equal(run(&m, false, x, y), 0);
        assert_memory_equal(y, expected, sizeof y);
        qb_graph_free(m.graph);
    }
}

static void pairs_of_16_bits_round_as_they_say(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        const float scale = k == 3 ? INFINITY : 0.0013f;
        const int16_t zero = k == 1 ? 700 : 0;
        const qb_shape one = {.rank = 0};
        maker m;
        float x[N], expected[N], y[N];
        begin(&m);
        const int32_t in = input(&m, qb_shape_of(1, N));
        const int32_t s = constant(&m, "s", QB_DTYPE_F32, one, &scale);
        const int32_t z = constant(&m, "z", k == 2 ? QB_DTYPE_U16 : QB_DTYPE_S16, one, &zero);
        const int32_t q = node(&m, "QuantizeLinear", "q", (int32_t[]){in, s, z}, 3);
        const int32_t back = node(&m, "DequantizeLinear", "r", (int32_t[]){q, s, z}, 3);
        end(&m, node(&m, "Neg", "y", &back, 1));
        for (int i = 0; i < N; i++)
            x[i] = (float)qb_rng_normal(&m.rng) * (i % 9 ? 1.0f : 60.0f); /* some saturate */
        assert_true(run(&m, true, x, expected) > 0);
        /* a scale that is none stays as written */
        assert_int_equal(run(&m, false, x, y) > 0, k == 3);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == expected[i] || (isnan(y[i]) && isnan(expected[i])));
        qb_graph_free(m.graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_integers_have_their_sums),
        cmocka_unit_test(pairs_of_16_bits_round_as_they_say),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

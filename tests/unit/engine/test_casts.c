/* Casts between types as single steps: the bits of the definition, also of numbers that the other
 * type has not. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "graph/graph_internal.h"
#include "kernels/ref.h"

enum { N = 400 };

typedef struct answer {
    _Alignas(8) char bytes[N * 8];
    char tactic[64];
} answer;

static qb_graph *make(qb_ctx *cx, qb_dtype from, qb_dtype to) {
    const qb_shape line = qb_shape_of(1, N), unknown = {.rank = -1};
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    graph->opset = QB_GRAPH_OPSET;
    const int32_t x = qb_graph_add_value(cx, graph, "x", from, &line);
    const int32_t y = qb_graph_add_value(cx, graph, "y", QB_DTYPE_NONE, &unknown);
    const int32_t node = qb_graph_add_node(cx, graph, qb_op_find("Cast", ""), "", &x, 1, &y, 1);
    ((qb_cast_attrs *)graph->nodes[node].attrs)->to = qb_dtype_to_onnx(to);
    assert_ok(cx, qb_graph_add_input(cx, graph, x));
    assert_ok(cx, qb_graph_add_output(cx, graph, y));
    assert_ok(cx, qb_graph_infer(cx, graph));
    return graph;
}

/* `observable` engines run nodes by their definition. */
static void run(qb_ctx *cx, qb_graph *graph, bool observable, const void *x, answer *a) {
    const qb_build_spec spec = {.threads = 1, .observable = observable};
    const void *inputs[] = {x};
    void *outputs[] = {a->bytes};
    qb_step_info info;
    qb_engine *engine;
    qb_context *context;
    assert_ok(cx, qb_engine_build(cx, graph, &spec, &engine));
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, qb_context_run(cx, context, inputs, outputs));
    qb_engine_step(engine, 0, &info);
    snprintf(a->tactic, sizeof a->tactic, "%s", info.tactic);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* Numbers around the ends of the types, ties of halves and of whole numbers, and what is none;
 * `finite`: none beyond those of a half. */
static void fill(qb_dtype dtype, bool finite, void *data) {
    static const double some[] = {
        0.0,         -0.0,      0.5,       -1.5,           2.5,      255.5,
        256.0,       -128.5,    -129.0,    65519.9,        65520.0,  -65536.0,
        1e9,         -3e9,      INFINITY,  -INFINITY,      NAN,      0x1p-14,
        0x1p-24,     0x1.8p-24, 0x1p-25,   0x1.000002p-25, 0x1p-30,  0x1.ffcp-15,
        0x1.ffep-15, 0x1.002p0, 0x1.006p0, 0x1.01p0,       0x1.03p0, 0x1.fep127};
    const int n = sizeof some / sizeof *some;
    memset(data, 0, N * qb_dtype_size(dtype));
    for (int i = 0; i < N; i++) {
        const double v = i < n ? some[i] : (i - 200) * 1.37 * (i % 3 ? 1 : 1e-6);
        qb_number_put(dtype, data, i, finite && fabs(v) > 6e4 ? 6e4 : v);
    }
}

static void casts_have_the_bits_of_their_definition(void **state) {
    (void)state;
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_F16, QB_DTYPE_BF16,
                                     QB_DTYPE_U8,  QB_DTYPE_S8,  QB_DTYPE_U16,
                                     QB_DTYPE_S16, QB_DTYPE_S32, QB_DTYPE_S64};
    enum { TYPES = sizeof types / sizeof *types, REALS = 3, WHOLE = 7 };
    _Alignas(8) char x[N * 8];
    answer expected, got;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int k = 0; k < TYPES * TYPES; k++) {
        const int i = k / TYPES, j = k % TYPES;
        if (i == j) continue;
        qb_graph *graph = make(&cx, types[i], types[j]);
        fill(types[i], types[j] == QB_DTYPE_S64, x);
        run(&cx, graph, true, x, &expected);
        run(&cx, graph, false, x, &got);
        assert_memory_equal(got.bytes, expected.bytes, N * qb_dtype_size(types[j]));
        /* integers that become smaller ones keep their low bits: not of a step of floats */
        const bool wider = qb_dtype_size(types[j]) > qb_dtype_size(types[i]) && j >= WHOLE;
        const bool floats = i < REALS || j < REALS || wider;
        const bool whole = i >= WHOLE && j >= WHOLE;
        assert_string_equal(got.tactic, whole    ? "cpu.chain.integer"
                                        : floats ? "cpu.chain"
                                                 : "node");
        qb_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(casts_have_the_bits_of_their_definition)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

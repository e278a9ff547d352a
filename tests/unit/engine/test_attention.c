/* Attention on the processor is one step, which gives what its operators do one by one, for any
 * number of threads. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "base/processor.h"
#include "engine/engine.h"
#include "graph/passes.h"
#include "graph/zoo/zoo_internal.h"

enum { ITEMS = 3, TOKENS = 37, WIDTH = 40, HEADS = 4, N = ITEMS * TOKENS * WIDTH };

typedef enum mask { NONE, OF_KEYS, OF_QUERIES, MASKS } mask;

static void make(qb_ctx *cx, mask which, qb_graph **out) {
    static float data[HEADS * TOKENS * TOKENS];
    const qb_shape tokens = qb_shape_of(3, ITEMS, TOKENS, WIDTH);
    const qb_shape shape =
        which == OF_KEYS ? qb_shape_of(1, TOKENS) : qb_shape_of(4, 1, HEADS, TOKENS, TOKENS);
    qb_zoo z = {.cx = cx};
    qb_rng_seed(&z.rng, 5);
    for (int i = 0; i < HEADS * TOKENS * TOKENS; i++)
        data[i] = i % 7 == 3 ? -INFINITY : (float)qb_rng_normal(&z.rng);
    assert_ok(cx, qb_graph_create(cx, &z.graph));
    const int32_t x = qb_zoo_input(&z, "x", QB_DTYPE_F32, &tokens);
    const int32_t added =
        which == NONE ? -1 : qb_graph_add_constant(cx, z.graph, "mask", QB_DTYPE_F32, &shape, data);
    assert_ok(cx, qb_graph_add_output(cx, z.graph, qb_zoo_attention(&z, "a", x, HEADS, added)));
    assert_ok(cx, qb_graph_infer(cx, z.graph));
    assert_ok(cx, qb_optimize(cx, z.graph, NULL, NULL));
    *out = z.graph;
}

/* Steps whose tactic's name begins so, or all. */
static int count(const qb_engine *engine, const char *tactic) {
    int n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (strncmp(info.tactic, tactic, strlen(tactic)) == 0) n++;
    }
    return n;
}

static void run(mask which, const char *backends, int threads, float *y) {
    static float x[N];
    const qb_build_spec options = {.backends = backends, .threads = threads};
    const void *inputs[] = {x};
    void *outputs[] = {y};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    qb_ctx_init(&cx);
    make(&cx, which, &graph);
    for (int i = 0; i < N; i++) x[i] = (float)(i % 23 - 11) / 8;
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, qb_context_run(&cx, context, inputs, outputs));
    const bool fuses = strcmp(backends, "ref") != 0 && qb_processor_has(QB_TIER_AVX2);
    assert_int_equal(count(engine, "cpu.attention_f32"), fuses);
    assert_int_equal(count(engine, "ref.attention"), 0);
    /* three products of tokens, the attention, the one behind it and the output: no copy of heads
     */
    if (fuses) assert_int_equal(qb_engine_n_steps(engine) - count(engine, "alias"), 6);
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void it_is_one_step(void **state) {
    (void)state;
    static float expected[N], got[N], again[N];
    for (int which = 0; which < MASKS; which++) {
        run((mask)which, "ref", 1, expected);
        for (int threads = 1; threads <= 3; threads++) {
            run((mask)which, "cpu,dnnl,ref", threads, threads == 1 ? got : again);
            if (threads > 1) assert_memory_equal(again, got, sizeof got);
        }
        for (int i = 0; i < N; i++) assert_true(fabsf(got[i] - expected[i]) < 1e-4f);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_one_step)};
QB_TEST_MAIN(tests)

/* Contexts of one engine that come and go on several threads, each recording its run, while another
 * engine is being built: libraries that keep a handle's last stream must not meet one that is gone
 * or that another thread captures. Skips without a device. ctest-timeout: 180 */
#include <pthread.h>
#include <string.h>

#include "bench_models.h"
#include "graph/passes.h"
#include "graph/zoo.h"
#include "kernels/cuda/common/device.h"
#include "qb_test.h"

#define WORKERS 8
#define ROUNDS 12

typedef struct worker {
    pthread_t thread;
    const qb_engine *engine;
    const float *expected;
    int64_t n; /* elements of output 0 */
    qb_ctx cx;
    qb_status status;
    int wrong; /* rounds with another result */
} worker;

static qb_engine *build(qb_ctx *cx, const qb_graph *graph, qb_dtype type) {
    const qb_build_spec options = {.backends = "cuda", .float_type = type, .batch = 2};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static qb_status run_once(qb_ctx *cx, const qb_engine *engine, bench_ports *ports) {
    qb_context *context = NULL;
    QB_TRY(qb_context_create(cx, engine, &context));
    const qb_status status =
        qb_context_run(cx, context, (const void *const *)ports->in, ports->out);
    qb_context_free(context);
    return status;
}

static void *work(void *user) {
    worker *w = user;
    bench_ports ports = {0};
    w->status = bench_ports_new(&w->cx, w->engine, 5, &ports);
    for (int i = 0; i < ROUNDS && w->status == QB_OK; i++) {
        w->status = run_once(&w->cx, w->engine, &ports);
        w->wrong += memcmp(ports.out[0], w->expected, (size_t)w->n * sizeof(float)) != 0;
    }
    bench_ports_free(&ports);
    return NULL;
}

static void contexts_come_and_go_on_threads(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    bench_ports ports;
    worker workers[WORKERS] = {0};
    qb_ctx_init(&cx);
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    assert_ok(&cx, qb_zoo_build(&cx, "squeezenet1_1", 1, NULL, &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    qb_engine *engine = build(&cx, graph, QB_DTYPE_F32);
    assert_ok(&cx, bench_ports_new(&cx, engine, 5, &ports));
    assert_ok(&cx, run_once(&cx, engine, &ports));
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &workers[i];
        *w = (worker){.engine = engine, .expected = ports.out[0]};
        w->n = qb_shape_count(&qb_engine_output(engine, 0)->shape);
        qb_ctx_child(&cx, &w->cx);
        assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    }
    qb_engine *other = build(&cx, graph, QB_DTYPE_F16);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_ok(&workers[i].cx, workers[i].status);
        assert_int_equal(workers[i].wrong, 0);
    }
    bench_ports_free(&ports);
    qb_engine_free(other);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_come_and_go_on_threads)};

QB_TEST_MAIN(tests)

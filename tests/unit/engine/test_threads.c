/* One engine, many contexts: what threads get is what one alone gets. */
#include "open_models.h"
#include "small_engine.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 6, SAMPLES = 8, ROUNDS = 30 };

typedef struct worker {
    const qb_engine *engine;
    float (*x)[SMALL_INPUTS], (*expected)[SMALL_OUTPUTS];
    pthread_t thread;
    int first, different;
    qb_ctx cx;
} worker;

static qb_status run_one(qb_ctx *cx, qb_context *context, const float *x, float *y) {
    const void *inputs[] = {x};
    void *outputs[] = {y};
    return qb_context_run(cx, context, inputs, outputs);
}

/* Each thread begins with another sample, so that they are at different ones at any time. */
static void *hammer(void *user) {
    worker *w = user;
    qb_context *context;
    if (qb_context_create(&w->cx, w->engine, &context) != QB_OK) return NULL;
    for (int i = 0; i < ROUNDS * SAMPLES; i++) {
        float y[SMALL_OUTPUTS];
        const int sample = (w->first + i) % SAMPLES;
        if (run_one(&w->cx, context, w->x[sample], y) != QB_OK) break;
        w->different += memcmp(y, w->expected[sample], sizeof y) != 0;
    }
    qb_context_free(context);
    return NULL;
}

static void threads_get_what_one_gets(const char *backends) {
    static float x[SAMPLES][SMALL_INPUTS], expected[SAMPLES][SMALL_OUTPUTS];
    small_engine f;
    qb_context *context;
    worker workers[THREADS];
    small_engine_make(&f, backends);
    assert_ok(&f.cx, qb_context_create(&f.cx, f.engine, &context));
    for (int i = 0; i < SAMPLES; i++) {
        small_engine_input((uint64_t)i, x[i]);
        assert_ok(&f.cx, run_one(&f.cx, context, x[i], expected[i]));
    }
    qb_context_free(context);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.engine = f.engine, .x = x, .expected = expected, .first = i};
        qb_ctx_child(&f.cx, &workers[i].cx);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, hammer, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_ok(&workers[i].cx, workers[i].cx.code);
        assert_int_equal(workers[i].different, 0);
    }
    small_engine_release(&f);
}

static void on_own_kernels(void **state) {
    (void)state;
    threads_get_what_one_gets("cpu,ref");
}

/* The reference and oneDNN share their work among OpenMP's threads, which the thread sanitizer
 * cannot see into. */
static void skip_where_blind(void) {
#ifdef __SANITIZE_THREAD__
    qb_test_skip("OpenMP is not instrumented");
#endif
}

static void on_the_reference(void **state) {
    (void)state;
    skip_where_blind();
    threads_get_what_one_gets("ref");
}

static void on_the_default(void **state) {
    (void)state;
    skip_where_blind();
    threads_get_what_one_gets(NULL);
}

/* ---- shapes that alternate ---- */

enum { SHAPES = 5, SHAPE_ROUNDS = 12 };

typedef struct shaper {
    const qb_engine *engine;
    float *const *expected;
    pthread_t thread;
    int first, different;
    qb_ctx cx;
} shaper;

static qb_shape shape_number(int i) { return qb_shape_of(3, 1 + i % 2, 3 + 7 * i, 16); }

/* Each thread takes the shapes in turn, begins with another, and makes plans that others use. */
static void *alternate(void *user) {
    shaper *w = user;
    qb_context *context;
    if (qb_context_create(&w->cx, w->engine, &context) != QB_OK) return NULL;
    for (int i = 0; i < SHAPE_ROUNDS * SHAPES; i++) {
        const int number = (w->first + i) % SHAPES;
        const qb_shape shape = shape_number(number);
        size_t n;
        if (qb_context_set_shapes(&w->cx, context, &shape) != QB_OK) break;
        float *y = open_run(&w->cx, context, (uint64_t)number, &n);
        w->different += memcmp(y, w->expected[number], n * sizeof *y) != 0;
        qb_free(y);
    }
    qb_context_free(context);
    return NULL;
}

static void profiles_on_many_threads(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 1, 20, 16),
                   max = qb_shape_of(3, 2, 40, 16);
    const qb_profile profile = {&min, &opt, &max};
    const qb_build_spec options = {
        .backends = "cpu,ref", .threads = 2, .profiles = &profile, .n_profiles = 1};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    float *expected[SHAPES];
    shaper workers[THREADS];
    qb_ctx_init(&cx);
    open_sequence_model(&cx, &graph);
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int i = 0; i < SHAPES; i++) {
        const qb_shape shape = shape_number(i);
        size_t n;
        assert_ok(&cx, qb_context_set_shapes(&cx, context, &shape));
        expected[i] = open_run(&cx, context, (uint64_t)i, &n);
    }
    qb_context_free(context);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (shaper){.engine = engine, .expected = expected, .first = i};
        qb_ctx_child(&cx, &workers[i].cx);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, alternate, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_ok(&workers[i].cx, workers[i].cx.code);
        assert_int_equal(workers[i].different, 0);
    }
    for (int i = 0; i < SHAPES; i++) qb_free(expected[i]);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_own_kernels),
        cmocka_unit_test(profiles_on_many_threads),
        cmocka_unit_test(on_the_reference),
        cmocka_unit_test(on_the_default),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

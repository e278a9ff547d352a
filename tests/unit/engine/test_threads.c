/* One engine, many contexts: what threads get is what one alone gets. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_own_kernels),
        cmocka_unit_test(on_the_reference),
        cmocka_unit_test(on_the_default),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

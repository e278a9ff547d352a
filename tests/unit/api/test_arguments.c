/* Arguments of the C library that make no sense: a status and, where a session can hold it, a text
 * that names the argument; what was set before stays. */
#include "qb_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <qbench/qbench.h>

/* y = Relu(x), x of n x 4 floats, of opset 17. */
static const uint8_t model[] = {
    0x08, 0x08, 0x3a, 0x3d, 0x0a, 0x0c, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79, 0x22, 0x04, 0x52,
    0x65, 0x6c, 0x75, 0x12, 0x01, 0x67, 0x5a, 0x14, 0x0a, 0x01, 0x78, 0x12, 0x0f, 0x0a, 0x0d,
    0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x0a, 0x02, 0x08, 0x04, 0x62, 0x14,
    0x0a, 0x01, 0x79, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01,
    0x6e, 0x0a, 0x02, 0x08, 0x04, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11,
};

typedef struct fixture {
    qbench_session *session;
    qbench_engine *engine;
    qbench_context *context;
    char path[32];
} fixture;

static const qbench_range open_batch = {
    .input = "x", .rank = 2, .min = {1, 4}, .opt = {2, 4}, .max = {3, 4}};

static int start(void **state) {
    const qbench_build_options options = {.threads = 1, .ranges = &open_batch, .n_ranges = 1};
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "/tmp/qb_api.XXXXXX");
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0 && write(fd, model, sizeof model) == sizeof model && close(fd) == 0);
    f->session = qbench_session_create();
    assert_int_equal(qbench_engine_build(f->session, f->path, &options, &f->engine), QBENCH_OK);
    assert_int_equal(qbench_context_create(f->session, f->engine, &f->context), QBENCH_OK);
    *state = f;
    return 0;
}

static int end(void **state) {
    fixture *f = *state;
    qbench_context_free(f->context);
    qbench_engine_free(f->engine);
    qbench_session_free(f->session);
    unlink(f->path);
    free(f);
    return 0;
}

static void says(const fixture *f, qbench_status status, const char *text) {
    assert_int_equal(status, QBENCH_INVALID);
    if (!strstr(qbench_error(f->session), text))
        fail_msg("'%s' lacks '%s'", qbench_error(f->session), text);
}

static void no_session(void **state) {
    fixture *f = *state;
    qbench_engine *engine = NULL;
    qbench_context *context = NULL;
    qbench_inputs *inputs = NULL;
    float x[4] = {0};
    assert_string_equal(qbench_error(NULL), "");
    assert_int_equal(qbench_session_trust(NULL, NULL, 0), QBENCH_INVALID);
    assert_int_equal(qbench_plugin_load(NULL, "p.so"), QBENCH_INVALID);
    assert_int_equal(qbench_engine_load(NULL, f->path, &engine), QBENCH_INVALID);
    assert_int_equal(qbench_engine_build(NULL, f->path, NULL, &engine), QBENCH_INVALID);
    assert_int_equal(qbench_engine_save(NULL, f->engine, "x.qbe"), QBENCH_INVALID);
    assert_int_equal(qbench_context_create(NULL, f->engine, &context), QBENCH_INVALID);
    assert_int_equal(qbench_context_set_shapes(NULL, f->context, NULL), QBENCH_INVALID);
    assert_int_equal(qbench_context_run(NULL, f->context, NULL, NULL), QBENCH_INVALID);
    assert_int_equal(qbench_inputs_load(NULL, "x.json", &inputs), QBENCH_INVALID);
    assert_int_equal(qbench_inputs_image(NULL, NULL, "x.png", 1, 1, x, 3), QBENCH_INVALID);
    assert_true(!engine && !context && !inputs);
}

static void missing_pointers(void **state) {
    fixture *f = *state;
    qbench_session *s = f->session;
    qbench_engine *engine = NULL;
    qbench_context *context = NULL;
    qbench_inputs *inputs = NULL;
    const void *in[] = {NULL};
    const int64_t *dim[] = {NULL};
    says(f, qbench_plugin_load(s, NULL), "qbench_plugin_load: path: ");
    says(f, qbench_engine_load(s, NULL, &engine), "path: expected a pointer, got NULL");
    says(f, qbench_engine_load(s, f->path, NULL), "qbench_engine_load: out: ");
    says(f, qbench_engine_build(s, NULL, NULL, &engine), "onnx_path: ");
    says(f, qbench_engine_build(s, f->path, NULL, NULL), "out: ");
    says(f, qbench_engine_save(s, NULL, "x.qbe"), "engine: ");
    says(f, qbench_engine_save(s, f->engine, NULL), "path: ");
    says(f, qbench_context_create(s, NULL, &context), "engine: ");
    says(f, qbench_context_create(s, f->engine, NULL), "out: ");
    says(f, qbench_context_set_shapes(s, NULL, dim), "context: ");
    says(f, qbench_context_set_shapes(s, f->context, NULL), "dim: ");
    says(f, qbench_context_set_shapes(s, f->context, dim), "input 'x': expected sizes, got NULL");
    says(f, qbench_context_run(s, NULL, in, NULL), "context: ");
    says(f, qbench_context_run(s, f->context, NULL, NULL), "inputs: ");
    says(f, qbench_context_run(s, f->context, in, NULL), "input 'x': expected data, got NULL");
    says(f, qbench_inputs_load(s, NULL, &inputs), "sidecar_path: ");
    says(f, qbench_inputs_load(s, "x.json", NULL), "out: ");
    says(f, qbench_inputs_image(s, NULL, "x.png", 1, 1, NULL, 3), "inputs: ");
    assert_true(!engine && !context && !inputs);
}

static void questions_about_nothing(void **state) {
    fixture *f = *state;
    qbench_tensor tensor;
    qbench_range range;
    assert_string_equal(qbench_engine_provider(NULL), "cpu");
    assert_int_equal(qbench_engine_n_inputs(NULL), 0);
    assert_int_equal(qbench_engine_n_outputs(NULL), 0);
    assert_int_equal(qbench_engine_n_profiles(NULL), 0);
    assert_null(qbench_inputs_label(NULL, 0));
    assert_int_equal(qbench_engine_input(NULL, 0, &tensor), QBENCH_INVALID);
    assert_int_equal(qbench_engine_output(f->engine, 0, NULL), QBENCH_INVALID);
    assert_int_equal(qbench_engine_output(f->engine, 1, &tensor), QBENCH_INVALID);
    assert_int_equal(qbench_engine_range(NULL, 0, 0, &range), QBENCH_INVALID);
    assert_int_equal(qbench_engine_range(f->engine, 0, 0, NULL), QBENCH_INVALID);
    assert_int_equal(qbench_engine_range(f->engine, 1, 0, &range), QBENCH_INVALID);
    assert_int_equal(qbench_context_input(NULL, 0, &tensor), QBENCH_INVALID);
    assert_int_equal(qbench_context_output(f->context, 0, NULL), QBENCH_INVALID);
    assert_int_equal(qbench_context_result(NULL, 0, &tensor), QBENCH_INVALID);
}

static void numbers_of_a_build(void **state) {
    fixture *f = *state;
    qbench_session *s = f->session;
    qbench_engine *engine = NULL;
    qbench_range range = open_batch;
    qbench_build_options o = {.batch = -1};
    says(f, qbench_engine_build(s, f->path, &o, &engine), "batch: expected 0 or more, got -1");
    o = (qbench_build_options){.threads = -1};
    says(f, qbench_engine_build(s, f->path, &o, &engine), "threads: expected 0 to 4096, got -1");
    o.threads = 1 << 30;
    says(f, qbench_engine_build(s, f->path, &o, &engine), "threads: expected 0 to 4096");
    o = (qbench_build_options){.threads = 1, .n_ranges = -1};
    says(f, qbench_engine_build(s, f->path, &o, &engine), "n_ranges: -1");
    o.n_ranges = 1;
    says(f, qbench_engine_build(s, f->path, &o, &engine), "n_ranges: 1");
    o.ranges = &range;
    range.rank = QBENCH_MAX_RANK + 1;
    says(f, qbench_engine_build(s, f->path, &o, &engine), "range of input 'x'");
    range = open_batch;
    range.input = NULL;
    says(f, qbench_engine_build(s, f->path, &o, &engine), "no such input");
    assert_null(engine);
}

/* A call that failed leaves the context as it was; the next error text is its own. */
static void after_an_error(void **state) {
    fixture *f = *state;
    const int64_t four[] = {4, 4}, one[] = {1, 4};
    const int64_t *dim[] = {four};
    const float x[4] = {-1, 2, -3, 4};
    float y[4] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    says(f, qbench_context_set_shapes(f->session, f->context, dim), "outside of 1 to 3");
    dim[0] = one;
    assert_int_equal(qbench_context_set_shapes(f->session, f->context, dim), QBENCH_OK);
    assert_string_equal(qbench_error(f->session), "");
    assert_int_equal(qbench_context_run(f->session, f->context, in, out), QBENCH_OK);
    assert_true(y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4);
    assert_int_equal(qbench_context_run(f->session, f->context, in, NULL), QBENCH_OK);
}

/* An output that a step writes while another still reads the input. */
static void memory_that_overlaps(void **state) {
    fixture *f = *state;
    const int64_t one[] = {1, 4};
    const int64_t *dim[] = {one};
    float memory[11] = {-1, 2, -3, 4, 7};
    const void *in[] = {memory + 3};
    assert_int_equal(qbench_context_set_shapes(f->session, f->context, dim), QBENCH_OK);
    for (int at = 0; at < 8; at++) {
        void *out[] = {memory + at};
        const qbench_status status = qbench_context_run(f->session, f->context, in, out);
        if (at == 7)
            assert_int_equal(status, QBENCH_OK);
        else
            says(f, status, "output 'y' lies in the memory of input 'x'");
    }
    assert_true(memory[3] == 4 && memory[4] == 7 && memory[7] == 4);
}

/* The same model whose second output is x. */
static void outputs_that_overlap(void **state) {
    enum { GRAPH = 3, OUTPUT = 43, OPSET = 65, ADDED = OPSET - OUTPUT };
    fixture *f = *state;
    uint8_t both[sizeof model + ADDED];
    const float x[8] = {-1, 2, -3, 4};
    float y[12] = {0};
    const void *in[] = {x};
    void *out[] = {y, y + 3};
    qbench_engine *engine;
    qbench_context *context;
    memcpy(both, model, OPSET);
    memcpy(both + OPSET, model + OUTPUT, sizeof model - OUTPUT);
    both[GRAPH] = (uint8_t)(both[GRAPH] + ADDED);
    both[OPSET + 4] = 'x';
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(both, 1, sizeof both, file), sizeof both);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(qbench_engine_build(f->session, f->path, NULL, &engine), QBENCH_OK);
    assert_int_equal(qbench_context_create(f->session, engine, &context), QBENCH_OK);
    says(f, qbench_context_run(f->session, context, in, out), "memory of output 'y'");
    out[1] = y + 4;
    assert_int_equal(qbench_context_run(f->session, context, in, out), QBENCH_OK);
    assert_true(y[1] == 2 && y[2] == 0 && y[4] == -1 && y[7] == 4);
    qbench_context_free(context);
    qbench_engine_free(engine);
}

typedef struct runner {
    qbench_session *session;
    qbench_context *context;
    atomic_int *refused; /* of both runners; they end at the first */
    bool wrong;
} runner;

/* Runs until a call is refused: here, or in the other thread. */
static void *run_until_refused(void *user) {
    runner *r = user;
    const float x[12] = {-1, 2, -3, 4, 5, -6, 7, -8, 9, 10, -11, 12};
    const time_t end = time(NULL) + 20;
    while (*r->refused == 0 && time(NULL) < end) {
        float y[12] = {0};
        const void *in[] = {x};
        void *out[] = {y};
        const qbench_status status = qbench_context_run(r->session, r->context, in, out);
        for (int i = 0; i < 12 && status == QBENCH_OK; i++)
            r->wrong = r->wrong || y[i] != (x[i] > 0 ? x[i] : 0);
        if (status != QBENCH_OK) ++*r->refused;
        r->wrong = r->wrong || (status != QBENCH_OK && status != QBENCH_INVALID);
    }
    return NULL;
}

/* Two threads in one context, each with a session, or in one session with a context each: one is
 * refused, and nobody gets a wrong result. */
static void two_threads_in_one_handle(void **state) {
    fixture *f = *state;
    const int64_t three[] = {3, 4};
    const int64_t *dim[] = {three};
    for (int shared_session = 0; shared_session < 2; shared_session++) {
        atomic_int refused = 0;
        qbench_session *session = qbench_session_create();
        qbench_context *context;
        assert_int_equal(qbench_context_create(session, f->engine, &context), QBENCH_OK);
        assert_int_equal(qbench_context_set_shapes(session, context, dim), QBENCH_OK);
        assert_int_equal(qbench_context_set_shapes(f->session, f->context, dim), QBENCH_OK);
        runner r[] = {{f->session, f->context, &refused, false},
                      {shared_session ? f->session : session, shared_session ? context : f->context,
                       &refused, false}};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_until_refused, &r[1]), 0);
        run_until_refused(&r[0]);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(refused > 0 && !r[0].wrong && !r[1].wrong);
        if (!shared_session) {
            const char *text[] = {qbench_error(session), qbench_error(f->session)};
            assert_true(strstr(text[0], "another thread") || strstr(text[1], "another thread"));
        }
        qbench_context_free(context);
        qbench_session_free(session);
    }
}

/* The engine lives until its last context is gone, whoever lets go first. */
static void an_engine_freed_before_its_contexts(void **state) {
    fixture *f = *state;
    const float x[4] = {-1, 2, -3, 4};
    float y[4] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    const qbench_build_options options = {.threads = 1, .batch = 1};
    qbench_engine *engine;
    qbench_context *context[2];
    qbench_tensor input;
    FILE *file = fopen(f->path, "wb");
    assert_true(file && fwrite(model, 1, sizeof model, file) == sizeof model && !fclose(file));
    assert_int_equal(qbench_engine_build(f->session, f->path, &options, &engine), QBENCH_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(qbench_context_create(f->session, engine, &context[i]), QBENCH_OK);
    qbench_engine_free(engine);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qbench_context_run(f->session, context[i], in, out), QBENCH_OK);
        assert_true(y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4);
        assert_int_equal(qbench_context_input(context[i], 0, &input), QBENCH_OK);
        assert_string_equal(input.name, "x");
        qbench_context_free(context[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_session),
        cmocka_unit_test(missing_pointers),
        cmocka_unit_test(questions_about_nothing),
        cmocka_unit_test(numbers_of_a_build),
        cmocka_unit_test(after_an_error),
        cmocka_unit_test(memory_that_overlaps),
        cmocka_unit_test(outputs_that_overlap),
        cmocka_unit_test(two_threads_in_one_handle),
        cmocka_unit_test(an_engine_freed_before_its_contexts),
    };
    return cmocka_run_group_tests(tests, start, end);
}

/* Kernels read 8-bit elements behind their end: memory there is nobody else's at the time. */
#include "qb_test.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_internal.h"
#include "graph/graph_internal.h"

enum { THREADS = 3, ROUNDS = 100, C = 24, SIZE = 24, K = 21, N = 7, ROWS = 3 };

static float half[] = {0.5f};

typedef struct maker {
    qb_ctx cx;
    qb_graph *graph;
} maker;

static void begin(maker *m) {
    qb_ctx_init(&m->cx);
    assert_ok(&m->cx, qb_graph_create(&m->cx, &m->graph));
    m->graph->opset = QB_GRAPH_OPSET;
}

static int32_t add(maker *m, const char *name, qb_dtype dtype, qb_shape shape, const void *data,
                   bool quantized) {
    const int32_t id = data ? qb_graph_add_constant(&m->cx, m->graph, name, dtype, &shape, data)
                            : qb_graph_add_value(&m->cx, m->graph, name, dtype, &shape);
    assert_true(id >= 0);
    m->graph->values[id].dtype = dtype;
    if (quantized) m->graph->values[id].q = (qb_qparams){dtype, -1, 1, half, NULL};
    return id;
}

static qb_engine *built(maker *m, int32_t out) {
    const qb_build_spec options = {.backends = "cpu,ref", .threads = THREADS};
    qb_engine *engine;
    assert_ok(&m->cx, qb_graph_add_output(&m->cx, m->graph, out));
    assert_ok(&m->cx, qb_graph_infer(&m->cx, m->graph));
    assert_ok(&m->cx, qb_engine_build(&m->cx, m->graph, &options, &engine));
    qb_graph_free(m->graph);
    return engine;
}

/* Depthwise convolutions of 24 channels, which are no multiple of a vector. */
static qb_engine *depthwise(maker *m) {
    static int8_t w[C * 9];
    static int64_t pads[] = {1, 1, 1, 1};
    const qb_shape image = qb_shape_of(4, 1, C, SIZE, SIZE);
    begin(m);
    for (int i = 0; i < C * 9; i++) w[i] = (int8_t)(i % 3 - 1);
    int32_t in[] = {add(m, "x", QB_DTYPE_F32, image, NULL, false), -1};
    int32_t out = add(m, "relu", QB_DTYPE_U8, image, NULL, true);
    assert_ok(&m->cx, qb_graph_add_input(&m->cx, m->graph, in[0]));
    qb_graph_add_node(&m->cx, m->graph, qb_op_find("Relu", ""), "relu", in, 1, &out, 1);
    in[1] = add(m, "w", QB_DTYPE_S8, qb_shape_of(4, C, 1, 3, 3), w, true);
    static const char *const names[] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++) {
        in[0] = out;
        out = add(m, names[i], QB_DTYPE_U8, image, NULL, true);
        qb_graph_add_node(&m->cx, m->graph, qb_op_find("Conv", ""), names[i], in, 2, &out, 1);
        qb_conv_attrs *attrs = m->graph->nodes[i + 1].attrs;
        attrs->group = C;
        attrs->pads = (qb_ints){4, pads};
    }
    return built(m, out);
}

static bool live_at_once(const qb_buffer *a, const qb_buffer *b) {
    return a->kind == QB_BUFFER_ARENA && b->kind == QB_BUFFER_ARENA && a->first <= b->last &&
           b->first <= a->last;
}

static void no_buffer_begins_in_anothers_slack(void **state) {
    (void)state;
    int pairs = 0;
    maker m;
    qb_engine *e = depthwise(&m);
    for (int32_t i = 0; i < e->n_layouts; i++) {
        const qb_desc *desc = &e->layouts[i].desc;
        const qb_buffer *own = &e->buffers[e->layouts[i].buffer];
        if (qb_dtype_size(desc->dtype) != 1) continue;
        for (int32_t k = 0; k < e->n_buffers; k++) {
            const qb_buffer *other = &e->buffers[k];
            if (other == own || !live_at_once(own, other)) continue;
            pairs++;
            assert_true(other->offset < own->offset ||
                        other->offset >= own->offset + qb_desc_bytes(desc) + QB_BUFFER_SLACK);
        }
    }
    assert_true(pairs > 2);
    qb_engine_free(e);
}

typedef struct user {
    const qb_engine *engine;
    pthread_t thread;
    qb_ctx cx;
    float y[C * SIZE * SIZE];
} user;

static void *use(void *argument) {
    user *u = argument;
    float x[C * SIZE * SIZE];
    const void *inputs[] = {x};
    void *outputs[] = {u->y};
    qb_context *context;
    for (int i = 0; i < C * SIZE * SIZE; i++) x[i] = (float)(i % 7);
    if (qb_context_create(&u->cx, u->engine, &context) != QB_OK) return NULL;
    for (int i = 0; i < ROUNDS; i++)
        if (qb_context_run(&u->cx, context, inputs, outputs) != QB_OK) break;
    qb_context_free(context);
    return NULL;
}

/* What the thread sanitizer is to see: contexts at once, several workers each. */
static void contexts_at_once_get_the_same(void **state) {
    (void)state;
    static user users[THREADS];
    maker m;
    qb_engine *e = depthwise(&m);
    for (int i = 0; i < THREADS; i++) {
        users[i].engine = e;
        qb_ctx_child(&m.cx, &users[i].cx);
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        assert_ok(&users[i].cx, users[i].cx.code);
        assert_memory_equal(users[i].y, users[0].y, sizeof users[0].y);
    }
    qb_engine_free(e);
}

/* `bytes` that end where the memory of a process does. */
static uint8_t *at_the_end(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    return pages + page - bytes;
}

static void what_the_caller_passes_is_not_read_behind_its_end(void **state) {
    (void)state;
    static const qb_dtype types[] = {QB_DTYPE_U8, QB_DTYPE_S8};
    for (int t = 0; t < 2; t++) {
        int8_t w[K * N];
        int32_t y[ROWS * N], sum = 0;
        uint8_t *x = at_the_end(ROWS * K);
        const void *inputs[] = {x};
        void *outputs[] = {y};
        qb_context *context;
        const qb_shape unknown = {.rank = -1};
        maker m;
        for (int i = 0; i < K * N; i++) w[i] = (int8_t)(i % 5 - 2);
        for (int i = 0; i < ROWS * K; i++) x[i] = (uint8_t)(i % 100);
        begin(&m);
        const int32_t in[] = {add(&m, "x", types[t], qb_shape_of(2, ROWS, K), NULL, false),
                              add(&m, "w", QB_DTYPE_S8, qb_shape_of(2, K, N), w, false)};
        const int32_t out = qb_graph_add_value(&m.cx, m.graph, "y", QB_DTYPE_NONE, &unknown);
        assert_ok(&m.cx, qb_graph_add_input(&m.cx, m.graph, in[0]));
        qb_graph_add_node(&m.cx, m.graph, qb_op_find("MatMulInteger", ""), "m", in, 2, &out, 1);
        qb_engine *e = built(&m, out);
        assert_ok(&m.cx, qb_context_create(&m.cx, e, &context));
        assert_ok(&m.cx, qb_context_run(&m.cx, context, inputs, outputs));
        for (int i = 0; i < K; i++) sum += x[(ROWS - 1) * K + i] * w[i * N + N - 1];
        assert_int_equal(y[ROWS * N - 1], sum);
        qb_context_free(context);
        qb_engine_free(e);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_buffer_begins_in_anothers_slack),
    cmocka_unit_test(contexts_at_once_get_the_same),
    cmocka_unit_test(what_the_caller_passes_is_not_read_behind_its_end)};
QB_TEST_MAIN(tests)

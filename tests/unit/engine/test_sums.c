/* Sums that no convolution takes in: they lie where convolutions put their operands, with room
 * between the pixels, and give what the definition gives; and what is the memory of a convolution's
 * result: some channels of it, and its pixels as rows. */
#include "qb_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "graph/fusion.h"
#include "graph/op.h"
#include "kernels/stats.h"

/* 512 floats are half a page: such pixels get room between them. */
enum { IN = 16, WIDE = 512, OUT = 8, SIDE = 5, PIXELS = SIDE * SIDE };

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph;
} fixture;

static void fill(uint64_t seed, float *data, int64_t n) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++) data[i] = (float)qb_rng_normal(&rng);
}

static int32_t node(fixture *f, const char *op, const char *name, const int32_t *in, int32_t n) {
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(&f->cx, f->graph, name, QB_DTYPE_NONE, &unknown);
    assert_true(qb_graph_add_node(&f->cx, f->graph, qb_op_find(op, ""), name, in, n, &out, 1) >= 0);
    return out;
}

static int32_t convolve(fixture *f, const char *name, int32_t x, int from, int to, uint64_t seed) {
    static float weight[WIDE * IN];
    const qb_shape shape = qb_shape_of(4, to, from, 1, 1);
    fill(seed, weight, (int64_t)from * to);
    char weights[32];
    snprintf(weights, sizeof weights, "%s.w", name);
    const int32_t w =
        qb_graph_add_constant(&f->cx, f->graph, weights, QB_DTYPE_F32, &shape, weight);
    return node(f, "Conv", name, (int32_t[]){x, w}, 2);
}

/* A graph with its input. */
static int32_t begin(fixture *f) {
    const qb_shape image = qb_shape_of(4, 1, IN, SIDE, SIDE);
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_graph_create(&f->cx, &f->graph));
    f->graph->opset = QB_GRAPH_OPSET;
    const int32_t x = qb_graph_add_value(&f->cx, f->graph, "x", QB_DTYPE_F32, &image);
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, x));
    return x;
}

/* y = narrow(relu(relu(left x) + right x)), and what engines without fused sums keep in memory. */
static void make(fixture *f) {
    const int32_t x = begin(f);
    int32_t left = convolve(f, "left", x, IN, WIDE, 1);
    left = node(f, "Relu", "left.relu", &left, 1);
    const int32_t right = convolve(f, "right", x, IN, WIDE, 2);
    int32_t sum = node(f, "Add", "sum", (int32_t[]){left, right}, 2);
    sum = node(f, "Relu", "sum.relu", &sum, 1);
    const int32_t y = convolve(f, "narrow", sum, WIDE, OUT, 3);
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, y));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
    assert_ok(&f->cx, qb_keep_inner(&f->cx, f->graph));
}

typedef struct seen {
    qb_stats sum, right;
} seen;

static qb_status look(qb_ctx *cx, void *user, int32_t observed, const char *value,
                      const qb_tensor *tensor) {
    (void)cx, (void)observed;
    seen *s = user;
    if (strcmp(value, "right") == 0) qb_stats_add_tensor(&s->right, tensor, -1);
    if (strcmp(value, "sum.relu") == 0) qb_stats_add_tensor(&s->sum, tensor, -1);
    return QB_OK;
}

/* Runs the graph; the tactic of its sum where that is wanted. */
static void run(fixture *f, const char *backends, int threads, seen *s, float *y, char *tactic) {
    const qb_build_spec options = {.backends = backends, .threads = threads, .observable = true};
    float x[IN * PIXELS];
    const void *inputs[] = {x};
    void *outputs[] = {y};
    qb_engine *engine;
    qb_context *context;
    fill(4, x, IN * PIXELS);
    qb_stats_init(&s->sum);
    qb_stats_init(&s->right);
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_observe(&f->cx, context, inputs, outputs, look, s));
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        if (strstr(info.op, "Add")) strcpy(tactic, info.tactic);
        if (backends) continue;
        const bool moves = strcmp(info.op, "Slice") == 0 || strcmp(info.op, "Transpose") == 0;
        if (moves) assert_string_equal(info.tactic, "alias");
        if (strncmp(info.name, "right", 5) == 0) assert_string_not_equal(info.op, "reorder");
    }
    qb_context_free(context);
    qb_engine_free(engine);
}

static void a_sum_of_wide_images_has_room(void **state) {
    (void)state;
    fixture f;
    static seen exact, got, again;
    float expected[OUT * PIXELS], y[OUT * PIXELS], other[OUT * PIXELS];
    char tactic[64] = "";
    make(&f);
    run(&f, "ref", 1, &exact, expected, tactic);
    assert_string_equal(tactic, "ref.binary");
    run(&f, NULL, 1, &got, y, tactic);
    assert_string_equal(tactic, "cpu.binary_codes");
    run(&f, NULL, 2, &again, other, tactic);
    assert_memory_equal(y, other, sizeof y);
    assert_memory_equal(&got, &again, sizeof got);
    /* The padding is not counted; no value is written over before it was seen. */
    assert_int_equal(got.sum.count, WIDE * PIXELS);
    assert_int_equal(got.right.count, WIDE * PIXELS);
    assert_true(got.right.min < 0 && fabsf(got.right.min - exact.right.min) < 1e-4f);
    assert_true(fabsf(got.sum.max - exact.sum.max) < 1e-4f);
    /* 512 products of numbers of about 5, each sum rounded to 2^-24 of at most 512 * 5 * 4. */
    for (int i = 0; i < OUT * PIXELS; i++) assert_true(fabsf(y[i] - expected[i]) < 0.02f);
    qb_graph_free(f.graph);
}

static int32_t channels(fixture *f, const char *name, int32_t x, int64_t begin, int64_t end) {
    const qb_shape one = qb_shape_of(1, 1);
    const int64_t bounds[] = {begin, end, 1};
    int32_t in[4] = {x};
    for (int i = 0; i < 3; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s.%d", name, i);
        in[i + 1] = qb_graph_add_constant(&f->cx, f->graph, text, QB_DTYPE_S64, &one, &bounds[i]);
    }
    return node(f, "Slice", name, in, 4);
}

/* y = narrow(relu(left x)[: 6] * relu(left x)[5 : 11] + relu(left x)[10 :]) */
static void make_gates(fixture *f) {
    const int32_t x = begin(f);
    int32_t left = convolve(f, "left", x, IN, IN, 1);
    left = node(f, "Relu", "left.relu", &left, 1);
    const int32_t a = channels(f, "a", left, 0, 6), b = channels(f, "b", left, 5, 11);
    const int32_t c = channels(f, "c", left, 10, 16);
    const int32_t gated = node(f, "Mul", "gated", (int32_t[]){a, b}, 2);
    const int32_t sum = node(f, "Add", "right", (int32_t[]){gated, c}, 2);
    const int32_t y = convolve(f, "narrow", sum, 6, OUT, 3);
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, y));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
    assert_ok(&f->cx, qb_keep_inner(&f->cx, f->graph));
}

static void some_channels_are_read_where_they_lie(void **state) {
    (void)state;
    fixture f;
    static seen exact, got;
    float expected[OUT * PIXELS], y[OUT * PIXELS];
    char tactic[64] = "";
    make_gates(&f);
    run(&f, "ref", 1, &exact, expected, tactic);
    run(&f, NULL, 2, &got, y, tactic);
    assert_string_equal(tactic, "cpu.binary_codes");
    assert_int_equal(got.right.count, 6 * PIXELS);
    assert_true(fabsf(got.right.max - exact.right.max) < 1e-3f);
    assert_true(exact.right.max > 1);
    for (int i = 0; i < OUT * PIXELS; i++) assert_true(fabsf(y[i] - expected[i]) < 0.02f);
    qb_graph_free(f.graph);
}

static int32_t transpose(fixture *f, const char *name, int32_t x, qb_perm_attrs *perm) {
    const int32_t y = node(f, "Transpose", name, &x, 1);
    f->graph->nodes[f->graph->n_nodes - 1].attrs = perm;
    return y;
}

/* y = narrow(right / length of its channels), right = relu(left x) normalized as rows of channels
 */
static void make_rows(fixture *f) {
    static const int64_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    static qb_perm_attrs to_rows = {{4, last}}, back = {{4, first}};
    static const int64_t plane[] = {2, 3};
    const qb_shape axes = qb_shape_of(1, 2), channels = qb_shape_of(1, IN);
    float gain[IN];
    fill(5, gain, IN);
    const int32_t x = begin(f);
    int32_t left = convolve(f, "left", x, IN, IN, 1);
    left = transpose(f, "rows", node(f, "Relu", "left.relu", &left, 1), &to_rows);
    const int32_t w = qb_graph_add_constant(&f->cx, f->graph, "g", QB_DTYPE_F32, &channels, gain);
    left = node(f, "LayerNormalization", "normal", (int32_t[]){left, w}, 2);
    const int32_t right = transpose(f, "right", left, &back);
    const int32_t over = qb_graph_add_constant(&f->cx, f->graph, "o", QB_DTYPE_S64, &axes, plane);
    const int32_t length = node(f, "ReduceL2", "length", (int32_t[]){right, over}, 2);
    const int32_t quotient = node(f, "Div", "quotient", (int32_t[]){right, length}, 2);
    const int32_t y = convolve(f, "narrow", quotient, IN, OUT, 3);
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, y));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
    assert_ok(&f->cx, qb_keep_inner(&f->cx, f->graph));
}

static void pixels_are_read_as_rows_where_they_lie(void **state) {
    (void)state;
    fixture f;
    static seen exact, got;
    float expected[OUT * PIXELS], y[OUT * PIXELS];
    char tactic[64] = "";
    make_rows(&f);
    run(&f, "ref", 1, &exact, expected, tactic);
    run(&f, NULL, 2, &got, y, tactic);
    assert_int_equal(got.right.count, IN * PIXELS);
    assert_true(exact.right.max > 1 && fabsf(got.right.max - exact.right.max) < 1e-4f);
    for (int i = 0; i < OUT * PIXELS; i++) assert_true(fabsf(y[i] - expected[i]) < 1e-4f);
    qb_graph_free(f.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sum_of_wide_images_has_room),
                                       cmocka_unit_test(some_channels_are_read_where_they_lie),
                                       cmocka_unit_test(pixels_are_read_as_rows_where_they_lie)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}

/* No step of a network whose sizes are known runs on the host, and nothing goes there and back:
 * networks are planned for a device that the linker puts in place of the real one. Needs no GPU.
 * QB_TEST_MODEL=FILE [QB_TEST_BATCH=N] lists the host's steps of a model instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/engine/random_graphs.h"
#include "../unit/graph/build_graph.h"
#include "engine/engine.h"
#include "graph/passes.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/sources.h"

static const qb_cuda_device device = {.name = "H200",
                                      .major = 9,
                                      .minor = 0,
                                      .multiprocessors = 132,
                                      .shared_per_block = 232448,
                                      .l2_bytes = (size_t)60 << 20};

/* ---- the device ---- */

int32_t __wrap_qb_cuda_count(void);
qb_status __wrap_qb_cuda_open(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out);
qb_status __wrap_qb_cuda_current(qb_ctx *cx, qb_cuda_device *out);
qb_status __wrap_qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out);
int32_t __wrap_qb_cuda_multiprocessors(void);
void __wrap_qb_cuda_select(int32_t ordinal);
qb_status __wrap_qb_cuda_alloc(qb_ctx *cx, size_t bytes, void **out);
void __wrap_qb_cuda_free(void *memory);
qb_status __wrap_qb_cuda_upload(qb_ctx *cx, void *to, const void *from, size_t bytes, void *stream);
qb_status __wrap_qb_cuda_sync(qb_ctx *cx, void *stream);
qb_status __wrap_qb_cuda_stream_open(qb_ctx *cx, void **stream);
void __wrap_qb_cuda_stream_close(void *stream);
qb_status __wrap_qb_cuda_event_open(qb_ctx *cx, void **event);
void __wrap_qb_cuda_event_close(void *event);

int32_t __wrap_qb_cuda_count(void) { return 1; }
int32_t __wrap_qb_cuda_multiprocessors(void) { return device.multiprocessors; }
void __wrap_qb_cuda_select(int32_t ordinal) { (void)ordinal; }

qb_status __wrap_qb_cuda_open(qb_ctx *cx, int32_t ordinal, qb_cuda_device *out) {
    (void)cx, (void)ordinal;
    *out = device;
    return QB_OK;
}

qb_status __wrap_qb_cuda_current(qb_ctx *cx, qb_cuda_device *out) {
    return __wrap_qb_cuda_open(cx, 0, out);
}

qb_status __wrap_qb_cuda_tensor_maps_find(qb_ctx *cx, qb_cuda_tensor_maps *out) {
    (void)cx;
    *out = (qb_cuda_tensor_maps){0};
    return QB_OK;
}

qb_status __wrap_qb_cuda_alloc(qb_ctx *cx, size_t bytes, void **out) {
    *out = qb_alloc_aligned(cx, bytes, 1);
    return *out ? QB_OK : cx->code;
}

void __wrap_qb_cuda_free(void *memory) { qb_free(memory); }

qb_status __wrap_qb_cuda_upload(qb_ctx *cx, void *to, const void *from, size_t bytes,
                                void *stream) {
    (void)cx, (void)stream;
    memcpy(to, from, bytes);
    return QB_OK;
}

qb_status __wrap_qb_cuda_sync(qb_ctx *cx, void *stream) {
    (void)cx, (void)stream;
    return QB_OK;
}

qb_status __wrap_qb_cuda_stream_open(qb_ctx *cx, void **stream) {
    (void)cx;
    *stream = NULL;
    return QB_OK;
}

void __wrap_qb_cuda_stream_close(void *stream) { (void)stream; }

qb_status __wrap_qb_cuda_event_open(qb_ctx *cx, void **event) {
    return __wrap_qb_cuda_stream_open(cx, event);
}

void __wrap_qb_cuda_event_close(void *event) { (void)event; }

/* ---- plans ---- */

static qb_engine *plan(qb_ctx *cx, const qb_graph *graph, qb_dtype type) {
    const qb_build_spec spec = {.backends = "cuda,cpu,dnnl,ref",
                                .float_type = type,
                                .batch =
                                    getenv("QB_TEST_BATCH") ? atoi(getenv("QB_TEST_BATCH")) : 1,
                                .threads = 1,
                                .first_tactic = true,
                                .no_mixed_precision = true,
                                .excluded_sources = QB_SOURCES_ALL};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &spec, &engine));
    return engine;
}

/* Steps of the host, and copies between host and device beside those of inputs and outputs. */
static int count_host(qb_ctx *cx, const qb_graph *graph, qb_dtype type, int *steps) {
    qb_engine *engine = plan(cx, graph, type);
    int host = 0, moves = -graph->n_inputs - graph->n_outputs;
    *steps = qb_engine_n_steps(engine);
    for (int32_t s = 0; s < *steps; s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        const bool move =
            strcmp(step.tactic, "upload") == 0 || strcmp(step.tactic, "download") == 0;
        const bool there = step.on_device || strcmp(step.tactic, "alias") == 0;
        moves += move;
        host += !move && !there;
        if (!move && !there)
            print_message("  host: %s %s (%s): %s\n", step.op, step.name, step.tactic,
                          step.fallback_reason ? step.fallback_reason : "");
        else if (getenv("QB_TEST_MODEL"))
            print_message("  %s %s (%s)\n", step.op, step.name, step.tactic);
    }
    qb_engine_free(engine);
    return host + (moves > 0 ? moves : 0);
}

static void plan_model(const char *path) {
    qb_ctx cx;
    qb_graph *graph;
    int steps;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_onnx_load(&cx, path, &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    const int host = count_host(&cx, graph, QB_DTYPE_F16, &steps);
    print_message("%s: %d of %d steps on the host or to and from it\n", path, host, steps);
    qb_graph_free(graph);
}

/* ---- networks ---- */

static int32_t conv(maker *m, const char *name, int32_t x, int in, int out, int side) {
    char weight[64];
    snprintf(weight, sizeof weight, "%s_w", name);
    const int32_t y = NODE(m, "Conv", name, x, make_random(m, weight, DIMS(out, in, side, side)));
    SET_INTS(m, "pads", side / 2, side / 2, side / 2, side / 2);
    return y;
}

static int32_t slice(maker *m, const char *name, int32_t x, int64_t from, int64_t to,
                     int64_t axis) {
    char text[3][64];
    const char *const part[] = {"from", "to", "axis"};
    for (int i = 0; i < 3; i++) snprintf(text[i], sizeof text[i], "%s_%s", name, part[i]);
    return NODE(m, "Slice", name, x, INTS(m, text[0], from), INTS(m, text[1], to),
                INTS(m, text[2], axis));
}

/* Halves, one of them through a convolution, side by side and shuffled. */
static void shuffle(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 3, 16, 16)), a = conv(m, "a", x, 3, 64, 3);
    const int32_t left = slice(m, "left", a, 0, 32, 1), right = slice(m, "right", a, 32, 64, 1);
    const int32_t b = conv(m, "b", right, 32, 32, 1);
    const int32_t whole = NODE(m, "Concat", "whole", left, b);
    set_int(m, "axis", 1);
    const int32_t apart = NODE(m, "Reshape", "apart", whole, INTS(m, "s1", 1, 2, 32, 16, 16));
    const int32_t turned = NODE(m, "Transpose", "turned", apart);
    SET_INTS(m, "perm", 0, 2, 1, 3, 4);
    const int32_t back = NODE(m, "Reshape", "back", turned, INTS(m, "s2", 1, 64, 16, 16));
    make_output(m, conv(m, "y", back, 64, 8, 1));
}

/* Windows of a shifted image, a product, Gelu in its parts. */
static void windows(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 14, 14, 32));
    const int32_t rolled =
        NODE(m, "Concat", "rolled", slice(m, "low", x, 3, 14, 1), slice(m, "high", x, 0, 3, 1));
    set_int(m, "axis", 1);
    const int32_t norm = NODE(m, "LayerNormalization", "norm", rolled,
                              make_random(m, "gain", DIMS(32)), make_random(m, "shift", DIMS(32)));
    const int32_t apart = NODE(m, "Reshape", "apart", norm, INTS(m, "s1", 1, 2, 7, 2, 7, 32));
    const int32_t turned = NODE(m, "Transpose", "turned", apart);
    SET_INTS(m, "perm", 0, 1, 3, 2, 4, 5);
    const int32_t rows = NODE(m, "Reshape", "rows", turned, INTS(m, "s2", 4, 49, 32));
    const int32_t p = NODE(m, "MatMul", "p", rows, make_random(m, "w", DIMS(32, 64)));
    const int32_t scaled = NODE(m, "Div", "scaled", p, make_scalar(m, "root", 1.41421356f));
    const int32_t erf = NODE(m, "Erf", "erf", scaled);
    const int32_t more = NODE(m, "Add", "more", erf, make_random(m, "each", DIMS(64)));
    make_output(m, NODE(m, "Mul", "y", p, more));
}

/* Instance normalization, enlarging, and what is reduced. */
static void images(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(2, 3, 24, 24)), a = conv(m, "a", x, 3, 16, 3);
    const int32_t framed = NODE(m, "Pad", "framed", a, INTS(m, "frame", 0, 0, 1, 1, 0, 0, 1, 1));
    set_string(m, "mode", "reflect");
    const int32_t norm =
        NODE(m, "InstanceNormalization", "norm", framed,
             make_uniform(m, "gain", DIMS(16), 0.5, 1.5), make_random(m, "shift", DIMS(16)));
    const int32_t soft = NODE(m, "Softplus", "soft", norm);
    const int32_t large = NODE(m, "Resize", "large", soft, -1, -1, INTS(m, "size", 2, 16, 48, 48));
    set_string(m, "mode", "linear");
    set_string(m, "coordinate_transformation_mode", "align_corners");
    const int32_t most = NODE(m, "ReduceMax", "most", large, INTS(m, "axes", 1));
    const int32_t length = NODE(m, "ReduceL2", "length", large, INTS(m, "axes2", 1));
    const int32_t bounded = NODE(m, "Clip", "bounded", length, make_scalar(m, "least", 1e-6f), -1);
    const int32_t part = NODE(m, "Div", "part", large, bounded);
    const int32_t near = NODE(m, "Less", "near", part, most);
    make_output(m, NODE(m, "Where", "y", near, part, most));
}

/* Elements where others are the largest, images moved, sums so far. */
static void places(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 3, 16, 16)), a = conv(m, "a", x, 3, 8, 3);
    const int32_t best = NODE(m, "ArgMax", "best", a);
    set_int(m, "axis", 1);
    const int32_t picked = NODE(m, "GatherElements", "picked", a, best);
    set_int(m, "axis", 1);
    const int32_t moves = NODE(m, "Transpose", "moves", conv(m, "c", x, 3, 2, 1));
    SET_INTS(m, "perm", 0, 2, 3, 1);
    const int32_t moved = NODE(m, "GridSample", "moved", a, NODE(m, "Tanh", "near", moves));
    const int32_t sums = NODE(m, "CumSum", "sums", moved, INTS(m, "along", 3));
    const int32_t more = NODE(m, "ScatterElements", "more", sums, best, picked);
    set_int(m, "axis", 1);
    set_string(m, "reduction", "add");
    const int32_t rows = NODE(m, "Reshape", "rows", more, INTS(m, "s1", 16, 128));
    const int32_t index = NODE(m, "Reshape", "index", best, INTS(m, "s2", 256, 1));
    const int32_t updates = make_input(m, "updates", DIMS(256, 128));
    const int32_t put = NODE(m, "ScatterND", "put", rows, index, updates);
    make_output(m, NODE(m, "Relu", "y", put));
}

/* The best of all places, an image moved by a matrix, and forms of Resize that have no kernel. */
static void moved(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(2, 3, 16, 16)), a = conv(m, "a", x, 3, 8, 3);
    const int32_t theta = make_input(m, "theta", DIMS(2, 2, 3));
    const int32_t grid = NODE(m, "AffineGrid", "grid", theta, INTS(m, "image", 2, 8, 12, 20));
    const int32_t b = NODE(m, "GridSample", "b", a, grid);
    const int32_t small = NODE(m, "Resize", "small", b, -1, -1, INTS(m, "less", 2, 8, 7, 9));
    set_string(m, "mode", "cubic");
    set_int(m, "antialias", 1);
    const int32_t large = NODE(m, "Resize", "large", small, -1, -1, INTS(m, "more", 2, 8, 20, 11));
    set_string(m, "nearest_mode", "ceil");
    const int32_t rows = NODE(m, "Reshape", "rows", large, INTS(m, "s1", 2, 1760));
    const int32_t first = NODE(m, "TopK", "first", rows, INTS(m, "k", 100));
    make_output(m, NODE(m, "Relu", "y", first));
}

/* Convolutions, one of which is transposed, whose weights depend on the input. */
static void modulated(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 16, 8, 8)),
                  style = make_input(m, "style", DIMS(16));
    const int32_t by = NODE(m, "Reshape", "by", style, INTS(m, "s1", 1, 16, 1, 1));
    const int32_t w = NODE(m, "Mul", "w", make_random(m, "w0", DIMS(32, 16, 3, 3)), by);
    const int32_t a = NODE(m, "Conv", "a", x, w, make_random(m, "b", DIMS(32)));
    const int32_t turned = NODE(m, "Reshape", "turned", style, INTS(m, "s2", 16, 1, 1, 1));
    const int32_t w2 = NODE(m, "Mul", "w2", make_random(m, "w1", DIMS(16, 8, 2, 2)), turned);
    const int32_t up = NODE(m, "ConvTranspose", "up", x, w2);
    SET_INTS(m, "strides", 2, 2);
    make_output(m, NODE(m, "Relu", "y", a));
    make_output(m, NODE(m, "Relu", "z", up));
}

/* Features of columns, read in both directions, then the last state alone. */
static void recurrent(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 3, 4, 26)), a = conv(m, "a", x, 3, 16, 3);
    const int32_t columns = NODE(m, "Reshape", "columns", a, INTS(m, "s1", 1, 64, 26));
    const int32_t turned = NODE(m, "Transpose", "turned", columns);
    SET_INTS(m, "perm", 2, 0, 1);
    const int32_t both =
        NODE(m, "LSTM", "both", turned, make_random(m, "w", DIMS(2, 1024, 64)),
             make_random(m, "r", DIMS(2, 1024, 256)), make_random(m, "b", DIMS(2, 2048)));
    set_string(m, "direction", "bidirectional");
    const int32_t apart = NODE(m, "Transpose", "apart", both);
    SET_INTS(m, "perm", 0, 2, 1, 3);
    const int32_t rows = NODE(m, "Reshape", "rows", apart, INTS(m, "s2", 26, 1, 512));
    const int32_t again = NODE(m, "GRU", "again", rows, make_random(m, "w2", DIMS(1, 96, 512)),
                               make_random(m, "r2", DIMS(1, 96, 32)));
    const int32_t part = NODE(m, "Squeeze", "part", again, INTS(m, "way", 1));
    make_output(m, NODE(m, "MatMul", "y", part, make_random(m, "w3", DIMS(32, 10))));
}

static int32_t cast(maker *m, const char *name, int32_t x, int64_t type) {
    const int32_t y = NODE(m, "Cast", name, x);
    set_int(m, "to", type);
    return y;
}

/* Places of words that are not padding, from their ids, and integers that are shared out. */
static void ids(maker *m) {
    const int64_t s32 = 6, s64 = 7; /* ONNX's numbers of the types */
    const int32_t x = make_input(m, "x", DIMS(1, 64)), id = cast(m, "id", x, s64);
    const int32_t padding = INTS(m, "padding", 1);
    const int32_t word =
        cast(m, "word", NODE(m, "Not", "other", NODE(m, "Equal", "same", id, padding)), s32);
    const int32_t sums = NODE(m, "CumSum", "sums", word, INTS(m, "along", 1));
    const int32_t number = cast(m, "number", NODE(m, "Mul", "counted", sums, word), s64);
    const int32_t place = NODE(m, "Add", "place", number, padding);
    const int32_t row =
        NODE(m, "Mod", "row", NODE(m, "Div", "part", place, INTS(m, "by", 3)), INTS(m, "rows", 16));
    const int32_t table = make_random(m, "table", DIMS(80, 32));
    const int32_t sum = NODE(m, "Add", "sum", NODE(m, "Gather", "a", table, place),
                             NODE(m, "Gather", "b", table, row));
    make_output(m, NODE(m, "Relu", "y", sum));
}

/* Places whose number only a run knows: what stands before them is planned. */
static void late(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 3, 16, 16)), a = conv(m, "a", x, 3, 16, 3);
    const int32_t b = NODE(m, "Relu", "b", conv(m, "b1", a, 16, 16, 3));
    make_output(m, NODE(m, "NonZero", "y", b));
}

/* Places of several tables in one tensor of integers, as codecs give them. */
static void codes(maker *m) {
    const int32_t x = make_input(m, "x", DIMS(1, 8, 20));
    int32_t part[2];
    for (int i = 0; i < 2; i++) {
        char name[3][16];
        for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "%c%d", "wdp"[k], i);
        const int32_t near = NODE(m, "MatMul", name[1], make_random(m, name[0], DIMS(16, 8)), x);
        part[i] = NODE(m, "ArgMax", name[2], near);
        set_int(m, "axis", 1);
    }
    make_output(m, NODE(m, "Concat", "y", part[0], part[1]));
    set_int(m, "axis", 1);
}

/* Steps of this operator that are more than another view of memory. */
static int count_steps(maker *m, const char *op) {
    int n = 0;
    qb_engine *engine = plan(&m->cx, m->graph, QB_DTYPE_F16);
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        n += strcmp(step.tactic, "alias") != 0 && strcmp(step.op, op) == 0;
    }
    qb_engine_free(engine);
    return n;
}

static int count_tactic(maker *m, const char *tactic) {
    int n = 0;
    qb_engine *engine = plan(&m->cx, m->graph, QB_DTYPE_F16);
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        n += strcmp(step.tactic, tactic) == 0;
    }
    qb_engine_free(engine);
    return n;
}

/* Channels are read where they lie, in whole pieces of 16 bytes: 16 and 48 of 64 halves, not 12. */
static void parts_of_channels_are_views(void **state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        maker m;
        maker_init(&m, 6);
        const int32_t first = odd ? 12 : 16;
        const int32_t a = conv(&m, "a", make_input(&m, "x", DIMS(1, 3, 16, 16)), 3, 64, 3);
        const int32_t low = slice(&m, "low", a, 0, first, 1);
        const int32_t high = slice(&m, "high", a, first, 64, 1);
        make_output(&m, NODE(&m, "Relu", "y", conv(&m, "b", low, first, 32, 3)));
        make_output(&m, NODE(&m, "Relu", "z", conv(&m, "c", high, 64 - first, 32, 3)));
        assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
        assert_int_equal(count_steps(&m, "Slice"), 2 * odd);
        maker_release(&m);
    }
}

/* Six halves of a pixel are filled up to 16 bytes, so that groups of three are for tiles; four
 * would be mostly filling, and their groups are for the plain kernel. */
static void pixels_are_padded_for_groups(void **state) {
    (void)state;
    for (int few = 0; few < 2; few++) {
        maker m;
        maker_init(&m, 9);
        const int32_t n = few ? 4 : 6;
        const int32_t a = conv(&m, "a", make_input(&m, "x", DIMS(1, 3, 16, 16)), 3, n, 3);
        const int32_t b = conv(&m, "b", NODE(&m, "Relu", "r", a), n / 2, 32, 3);
        set_int(&m, "group", 2);
        make_output(&m, NODE(&m, "Relu", "y", b));
        assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
        assert_int_equal(count_tactic(&m, "cuda.conv"), few);
        maker_release(&m);
    }
}

/* The feed-forward block of Mix-FFN: tokens become an image for a convolution and tokens again, all
 * in the same memory. */
static void tokens_of_images_are_views(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 7);
    const int32_t x = make_input(&m, "x", DIMS(1, 64, 64)), f = NODE(&m, "Relu", "f", x);
    const int32_t a = NODE(&m, "MatMul", "a", f, make_random(&m, "w", DIMS(64, 64)));
    const int32_t t = NODE(&m, "Transpose", "t", a);
    SET_INTS(&m, "perm", 0, 2, 1);
    const int32_t image = NODE(&m, "Reshape", "image", t, INTS(&m, "s1", 1, 64, 8, 8));
    const int32_t c = conv(&m, "c", image, 64, 64, 3);
    const int32_t line = NODE(&m, "Reshape", "line", c, INTS(&m, "s2", 1, 64, 64));
    const int32_t tokens = NODE(&m, "Transpose", "tokens", line);
    SET_INTS(&m, "perm", 0, 2, 1);
    const int32_t b = NODE(&m, "MatMul", "b", tokens, make_random(&m, "w2", DIMS(64, 64)));
    const int32_t y = NODE(&m, "Add", "y", b, make_random(&m, "bias", DIMS(64)));
    make_output(&m, NODE(&m, "Add", "z", y, f));
    assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
    assert_int_equal(count_steps(&m, "Transpose"), 0);
    assert_int_equal(count_steps(&m, "reorder"), 2); /* x and z, whose types are others */
    maker_release(&m);
}

/* Channels that a product reads as rows, as keys are, become rows where they are copied. */
static void copies_for_products_are_rows(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 8);
    const int32_t a = conv(&m, "a", make_input(&m, "x", DIMS(1, 3, 8, 8)), 3, 64, 3);
    const int32_t keys =
        NODE(&m, "Reshape", "keys", slice(&m, "k", a, 16, 32, 1), INTS(&m, "s1", 1, 16, 64));
    const int32_t rest = conv(&m, "b", a, 64, 64, 3);
    const int32_t values =
        NODE(&m, "Reshape", "values", slice(&m, "v", rest, 0, 16, 1), INTS(&m, "s2", 1, 16, 64));
    const int32_t turned = NODE(&m, "Transpose", "turned", values);
    SET_INTS(&m, "perm", 0, 2, 1);
    make_output(&m, NODE(&m, "MatMul", "y", keys, turned));
    assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
    assert_int_equal(count_steps(&m, "reorder"), 2); /* x and y, whose types are others */
    maker_release(&m);
}

/* Parts of quantized channels become floats while they move, in one step: each is a Slice whose
 * result alone is quantized, and a Reshape of floats. */
static void parts_become_floats_as_they_move(void **state) {
    (void)state;
    maker m;
    maker_init(&m, 9);
    const int32_t x = make_input(&m, "x", DIMS(1, 64, 8, 8));
    make_quantized(&m, x, 0.02f, 128);
    int32_t part[2];
    for (int i = 0; i < 2; i++) {
        const int32_t some = slice(&m, i ? "v" : "k", x, 16 * i, 16 * i + 16, 1);
        make_quantized(&m, some, 0.02f, 128);
        part[i] =
            NODE(&m, "Reshape", i ? "values" : "keys", some, INTS(&m, i ? "s2" : "s1", 1, 16, 64));
    }
    const int32_t turned = NODE(&m, "Transpose", "turned", part[1]);
    SET_INTS(&m, "perm", 0, 2, 1);
    make_output(&m, NODE(&m, "MatMul", "y", part[0], turned));
    assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
    assert_int_equal(count_steps(&m, "Slice+Reshape+Identity"), 2);
    assert_int_equal(count_steps(&m, "reorder"), 1); /* y, whose type is another */
    maker_release(&m);
}

static void every_step_runs_there(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*make)(maker *m);
    } networks[] = {
        {"shuffle", shuffle}, {"windows", windows},     {"images", images}, {"places", places},
        {"moved", moved},     {"recurrent", recurrent}, {"ids", ids},       {"late", late},
        {"codes", codes},     {"modulated", modulated}};
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_F16};
    if (getenv("QB_TEST_MODEL")) plan_model(getenv("QB_TEST_MODEL"));
    for (size_t i = 0; i < 2 * sizeof networks / sizeof *networks; i++) {
        maker m;
        int steps;
        maker_init(&m, 5);
        networks[i / 2].make(&m);
        assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
        const int host = count_host(&m.cx, m.graph, types[i % 2], &steps);
        print_message("%s in %s: %d of %d steps on the host or to and from it\n",
                      networks[i / 2].name, qb_dtype_text(types[i % 2]), host, steps);
        assert_int_equal(host, 0);
        maker_release(&m);
    }
}

/* Numbers beyond f16 in one value after the other, in all, and in none: what makes and reads them
 * is in f32 there, with conversions, and none of it goes to the host. */
static void large_numbers_stay_there(void **state) {
    (void)state;
    void (*const networks[])(maker * m) = {shuffle, windows, images, places, recurrent};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        maker m;
        int steps, fewest = 0, most = 0, tried = 0;
        maker_init(&m, 5);
        networks[i](&m);
        assert_ok(&m.cx, qb_optimize(&m.cx, m.graph, NULL, NULL));
        for (int32_t large = -2; large < m.graph->n_values; large++) {
            if (large >= 0 && m.graph->values[large].data) continue;
            for (int32_t v = 0; v < m.graph->n_values; v++)
                m.graph->values[v].largest = large == v || large == -1 ? 1e6f : 1;
            if (count_host(&m.cx, m.graph, QB_DTYPE_F16, &steps) > 0)
                fail_msg("network %zu: large numbers in %s", i,
                         large < 0 ? "all values" : m.graph->values[large].name);
            fewest = large == -2 ? steps : fewest;
            most = steps > most ? steps : most;
            tried++;
        }
        print_message("network %zu: %d of its values, %d to %d steps\n", i, tried, fewest, most);
        assert_true(most > fewest); /* or nothing was converted */
        maker_release(&m);
    }
}

/* Those that test_cuda_random_graphs.c runs where there is a device. */
static void random_graphs_have_engines(void **state) {
    (void)state;
    static const qb_dtype types[] = {QB_DTYPE_F32, QB_DTYPE_F16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        random_graphs_build(&(qb_build_spec){.backends = "cuda",
                                             .float_type = types[i],
                                             .threads = 1,
                                             .first_tactic = true,
                                             .no_mixed_precision = true,
                                             .excluded_sources = QB_SOURCES_ALL},
                            1000);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_runs_there),
                                          cmocka_unit_test(parts_of_channels_are_views),
                                          cmocka_unit_test(pixels_are_padded_for_groups),
                                          cmocka_unit_test(tokens_of_images_are_views),
                                          cmocka_unit_test(copies_for_products_are_rows),
                                          cmocka_unit_test(parts_become_floats_as_they_move),
                                          cmocka_unit_test(large_numbers_stay_there),
                                          cmocka_unit_test(random_graphs_have_engines)};

QB_TEST_MAIN(tests)

/* Recovery on networks that are hard by construction, each with a known answer.
 * ctest-timeout: 300 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "eval/methods.h"
#include "graph/layer.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "qb_test.h"

enum { SAMPLES = 60, CHANNELS = 8, WIDE = 16, SIDE = 6, TOKENS = 9 };

static char folder[QB_TEST_PATH];
static uint32_t seed = 1;

/* Uniform in -1 .. 1, the same everywhere. */
static float noise(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-23f - 1;
}

/* Sums of three: nearly normal. */
static float normal(void) { return noise() + noise() + noise(); }

/* folder/NNN/x.bin: as many floats as the largest input of the networks has. */
static int write_samples(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    for (int i = 0; i < SAMPLES; i++) {
        char path[QB_TEST_PATH + 32];
        float x[CHANNELS * SIDE * SIDE];
        for (size_t k = 0; k < sizeof x / sizeof *x; k++) x[k] = normal() + (float)(i % 7) / 7;
        snprintf(path, sizeof path, "%s/%03d", folder, i);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(path, sizeof path, "%s/%03d/x.bin", folder, i);
        assert_ok(&cx, qb_file_write(&cx, path, x, sizeof x));
    }
    return 0;
}

/* ---- networks ---- */

typedef struct net {
    qb_ctx cx;
    qb_graph *graph;
    qb_dataset *dataset;
    qb_method_choice method;
    qb_calib_options calibration;
    qb_quant_options quant;
    qb_recovered out;
} net;

static void begin(net *n, qb_shape shape) {
    *n = (net){0};
    qb_ctx_init(&n->cx);
    seed = 7;
    assert_ok(&n->cx, qb_graph_create(&n->cx, &n->graph));
    const int32_t x = qb_graph_add_value(&n->cx, n->graph, "x", QB_DTYPE_F32, &shape);
    assert_ok(&n->cx, qb_graph_add_input(&n->cx, n->graph, x));
}

static int32_t constant(net *n, const char *name, qb_shape shape, const float *data) {
    return qb_graph_add_constant(&n->cx, n->graph, name, QB_DTYPE_F32, &shape, data);
}

#define END INT32_MIN
static int32_t node(net *n, const char *op, const char *name, ...) {
    int32_t in[8], count = 0;
    va_list args;
    va_start(args, name);
    for (int32_t id = va_arg(args, int32_t); id != END; id = va_arg(args, int32_t))
        in[count++] = id;
    va_end(args);
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(&n->cx, n->graph, name, QB_DTYPE_NONE, &unknown);
    const int32_t at =
        qb_graph_add_node(&n->cx, n->graph, qb_op_find(op, ""), name, in, count, &out, 1);
    assert_true(at >= 0);
    return out;
}

static void *attrs(net *n) { return n->graph->nodes[n->graph->n_nodes - 1].attrs; }

/* Convolution of random weights, row o times out[o], column i over in[i] (either may be NULL). */
static int32_t conv(net *n, const char *name, int32_t x, int64_t outs, int64_t ins, int side,
                    int64_t groups, const double *out, const double *in) {
    const int64_t taps = (int64_t)side * side, each = ins / groups;
    float w[WIDE * WIDE * 9], b[WIDE];
    char weight[64], bias[64];
    for (int64_t o = 0; o < outs; o++) {
        b[o] = (float)(0.2 * (double)normal() * (out ? out[o] : 1));
        for (int64_t i = 0; i < each; i++)
            for (int64_t k = 0; k < taps; k++) {
                const int64_t column = groups == 1 ? i : o;
                w[(o * each + i) * taps + k] =
                    (float)((double)normal() / sqrt((double)(each * taps)) * (out ? out[o] : 1) /
                            (in ? in[column] : 1));
            }
    }
    snprintf(weight, sizeof weight, "%s_w", name);
    snprintf(bias, sizeof bias, "%s_b", name);
    const int32_t wv = constant(n, weight, qb_shape_of(4, (int)outs, (int)each, side, side), w);
    const int32_t bv = constant(n, bias, qb_shape_of(1, (int)outs), b);
    const int32_t y = node(n, "Conv", name, x, wv, bv, END);
    qb_conv_attrs *a = attrs(n);
    a->group = groups;
    if (side > 1) {
        int64_t *pads = qb_arena_alloc(&n->cx, n->graph->arena, 4, sizeof *pads);
        for (int d = 0; d < 4; d++) pads[d] = side / 2;
        a->pads = (qb_ints){4, pads};
    }
    return y;
}

static void end(net *n, int32_t y) {
    qb_ctx *cx = &n->cx;
    assert_ok(cx, qb_graph_add_output(cx, n->graph, y));
    assert_ok(cx, qb_graph_infer(cx, n->graph));
    assert_ok(cx, qb_optimize(cx, n->graph, NULL, NULL));
    assert_ok(cx, qb_dataset_open(cx, folder, NULL, &n->dataset));
    assert_ok(cx, qb_method_parse(cx, "minmax", &n->method));
    const qb_value *input = &n->graph->values[n->graph->inputs[0]];
    n->calibration = (qb_calib_options){.methods = &n->method, .n_methods = 1};
    n->calibration.loader =
        (qb_loader_options){.dataset = n->dataset,
                            .n_inputs = 1,
                            .input = {{input->name, input->dtype, input->shape}},
                            .batch = 1,
                            .threads = 1,
                            .prefetch = 2};
}

static void recover(net *n, const char *list) {
    const qb_recover_options options = {
        .calibration = &n->calibration, .quant = &n->quant, .list = list, .score = qb_score_graph};
    qb_recovered_release(&n->out);
    assert_ok(&n->cx, qb_recover(&n->cx, n->graph, &options, &n->out));
    print_message("%s: %.1f dB, then %.1f dB, agreement %.1f %%\n", list ? list : "all",
                  n->out.sqnr_db, n->out.sqnr_after_db, n->out.agreement_after);
}

static void release(net *n) {
    qb_recovered_release(&n->out);
    qb_graph_free(n->graph);
    qb_dataset_close(n->dataset);
}

static bool kept(const net *n, const char *name) {
    for (int32_t i = 0; i < n->out.n_steps; i++)
        if (strcmp(n->out.step[i].recovery->name, name) == 0) return n->out.step[i].kept;
    return false;
}

/* The float graph before and after, in dB: infinite where nothing was rounded. */
static double function_db(net *n) {
    qb_graph_score score;
    qb_calib_options options = n->calibration;
    options.hold_back = QB_HOLDOUT_EVERY;
    assert_ok(&n->cx, qb_score_graph(&n->cx, n->graph, n->out.graph, &options, &score));
    qb_free(score.err_square);
    print_message("function: %.1f dB\n", score.sqnr_db);
    return score.sqnr_db;
}

/* Channels between the layers that lie four powers of ten apart, the largest times `most`. */
static void spread_below(double *scale, int64_t n, double most) {
    for (int64_t i = 0; i < n; i++)
        scale[i] = most * pow(10, 4.0 * (double)(i * 7 % n) / (double)(n - 1) - 4);
}

static void spread(double *scale, int64_t n) { spread_below(scale, n, 100); }

/* Clip: from 0 to 6. */
static int32_t activated(net *n, const char *op, const char *name, int32_t x) {
    if (strcmp(op, "Clip") != 0) return node(n, op, name, x, END);
    char low[64], high[64];
    const float zero = 0, six = 6;
    snprintf(low, sizeof low, "%s_low", name);
    snprintf(high, sizeof high, "%s_high", name);
    const int32_t l = constant(n, low, (qb_shape){0}, &zero),
                  h = constant(n, high, (qb_shape){0}, &six);
    return node(n, op, name, x, l, h, END);
}

/* Behind a Clip no channel reaches 6: nothing holds a factor. */
static void depthwise(net *n, const char *activation) {
    double first[WIDE], second[WIDE];
    spread_below(first, WIDE, strcmp(activation, "Clip") == 0 ? 0.5 : 100);
    for (int i = 0; i < WIDE; i++) second[i] = first[WIDE - 1 - i];
    begin(n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = conv(n, "expand", 0, WIDE, CHANNELS, 1, 1, first, NULL);
    y = activated(n, activation, "expand_act", y);
    /* Depthwise: from the first scales to the second. */
    double ratio[WIDE];
    for (int i = 0; i < WIDE; i++) ratio[i] = second[i];
    y = conv(n, "depthwise", y, WIDE, WIDE, 3, WIDE, ratio, first);
    y = activated(n, activation, "depthwise_act", y);
    y = conv(n, "project", y, CHANNELS, WIDE, 1, 1, NULL, second);
    y = node(n, "GlobalAveragePool", "pool", y, END);
    y = node(n, "Flatten", "classes", y, END);
    end(n, y);
}

static void depthwise_ranges(void **state) {
    (void)state;
    static const char *const activations[] = {"Relu", "LeakyRelu", "Identity", "Clip"};
    for (int a = 0; a < 4; a++) {
        net n;
        depthwise(&n, activations[a]);
        n.quant.per_tensor_weights = true;
        recover(&n, NULL);
        assert_true(kept(&n, "equalize"));
        assert_true(n.out.sqnr_db < 12);       /* most channels are rounded away */
        assert_true(n.out.sqnr_after_db > 26); /* one scale for all weights of a layer */
        assert_true(n.out.agreement_after >= 90);
        release(&n);
        depthwise(&n, activations[a]);
        recover(&n, "equalize");
        assert_true(n.out.sqnr_db < 15);
        assert_true(n.out.sqnr_after_db > 28);
        assert_true(function_db(&n) > 100);
        release(&n);
    }
}

/* Relu6: what no sample clips is scaled, what one does is not, and the function stays. */
static void clip_stays(void **state) {
    (void)state;
    net n;
    double scale[WIDE];
    for (int i = 0; i < WIDE; i++) scale[i] = i < 4 ? 8 : 0.01 * (double)(i + 1);
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = conv(&n, "expand", 0, WIDE, CHANNELS, 1, 1, scale, NULL);
    y = activated(&n, "Clip", "clip", y);
    y = conv(&n, "project", y, CHANNELS, WIDE, 3, 1, NULL, scale);
    end(&n, y);
    recover(&n, "equalize");
    assert_true(n.out.step[0].changed == 1);
    assert_true(function_db(&n) > 90);
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 6);
    release(&n);
}

/* A few channels that lie far above zero: the next layer's biases take that over, through each
 * activation that hands it on, and the function stays. Padding would make it another one. */
static void high_biases_are_absorbed(void **state) {
    (void)state;
    static const char *const activations[] = {"Relu", "LeakyRelu", "Clip", "Identity"};
    for (int a = 0; a < 8; a++) {
        net n;
        float bias[WIDE];
        const float low = 0, high = 200;
        const char *activation = activations[a % 4];
        for (int i = 0; i < WIDE; i++) bias[i] = i < 4 ? 100 : 0.1F * (float)i;
        begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
        const int32_t l = constant(&n, "low", (qb_shape){0}, &low),
                      h = constant(&n, "high", (qb_shape){0}, &high);
        int32_t y = conv(&n, "expand", 0, WIDE, CHANNELS, 1, 1, NULL, NULL);
        assert_ok(&n.cx, qb_graph_replace_constant(&n.cx, n.graph, n.graph->n_nodes - 1, 2, bias));
        y = a % 4 == 2 ? node(&n, activation, "act", y, l, h, END)
                       : node(&n, activation, "act", y, END);
        y = conv(&n, "project", y, CHANNELS, WIDE, a < 4 ? 1 : 3, 1, NULL, NULL);
        end(&n, y);
        recover(&n, "absorb");
        assert_int_equal(n.out.step[0].changed, a < 4);
        assert_true(function_db(&n) > 80);
        if (a < 4) assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 12);
        release(&n);
    }
}

/* A sum and a Concat behind branches: their factors agree. */
static void branches_agree(void **state) {
    (void)state;
    net n;
    double scale[WIDE];
    spread(scale, WIDE);
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    const int32_t a =
        node(&n, "Relu", "ra", conv(&n, "a", 0, WIDE, CHANNELS, 1, 1, scale, NULL), END);
    const int32_t b =
        node(&n, "Relu", "rb", conv(&n, "b", 0, WIDE, CHANNELS, 1, 1, scale, NULL), END);
    const int32_t sum = node(&n, "Add", "sum", a, b, END);
    const int32_t c = conv(&n, "c", sum, CHANNELS, WIDE, 1, 1, NULL, scale);
    const int32_t d = conv(&n, "d", a, CHANNELS, WIDE, 3, 1, NULL, scale);
    const int32_t joined = node(&n, "Concat", "joined", c, d, END);
    ((qb_axis_attrs *)attrs(&n))->axis = 1;
    end(&n, conv(&n, "last", joined, CHANNELS, 2 * CHANNELS, 1, 1, NULL, NULL));
    recover(&n, "equalize");
    assert_true(function_db(&n) > 100);
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 6);
    release(&n);
}

/* A stream of values that two blocks add to: its factors are those of all that writes and reads it.
 * A channel that one alone would scale makes the sum another one. */
static void residual_streams(void **state) {
    (void)state;
    net n;
    double stream[WIDE], inner[WIDE];
    spread(stream, WIDE);
    for (int i = 0; i < WIDE; i++) inner[i] = stream[WIDE - 1 - i];
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = conv(&n, "stem", 0, WIDE, CHANNELS, 1, 1, stream, NULL);
    for (int block = 0; block < 2; block++) {
        const char letter = (char)('a' + block);
        char name[4][16];
        for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "%c%d", letter, i);
        int32_t x = conv(&n, name[0], y, WIDE, WIDE, 1, 1, inner, stream);
        x = node(&n, "Relu", name[1], x, END);
        x = conv(&n, name[2], x, WIDE, WIDE, 3, 1, stream, inner);
        y = node(&n, "Add", name[3], y, x, END);
    }
    end(&n, conv(&n, "last", y, CHANNELS, WIDE, 1, 1, NULL, stream));
    recover(&n, "rounding,bias");
    assert_true(n.out.sqnr_after_db < 16); /* what the other steps can do about it */
    recover(&n, "equalize");
    assert_true(n.out.sqnr_after_db > 28);
    assert_true(function_db(&n) > 100);
    release(&n);
}

static int32_t reshape(net *n, const char *name, int32_t x, int rank, const int64_t *sizes) {
    char shape[64];
    const qb_shape dims = qb_shape_of(1, rank);
    snprintf(shape, sizeof shape, "%s_shape", name);
    const int32_t to = qb_graph_add_constant(&n->cx, n->graph, shape, QB_DTYPE_S64, &dims, sizes);
    return node(n, "Reshape", name, x, to, END);
}

/* What light detectors are made of: LeakyRelu, a Concat of branches, a shuffle of its channels and
 * a depthwise convolution behind it. Factors follow each channel through all of them. */
static void shuffled_branches(void **state) {
    (void)state;
    enum { HALF = WIDE / 2 };
    static const int64_t pairs[] = {1, 2, HALF, SIDE, SIDE}, flat[] = {1, WIDE, SIDE, SIDE};
    net n;
    double scale[WIDE], moved[WIDE], back[WIDE];
    spread(scale, WIDE);
    for (int i = 0; i < WIDE; i++) moved[i] = scale[i % 2 * HALF + i / 2];
    for (int i = 0; i < WIDE; i++) back[i] = scale[WIDE - 1 - i];
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    const int32_t a = conv(&n, "a", 0, HALF, CHANNELS, 1, 1, scale, NULL),
                  b = conv(&n, "b", 0, HALF, CHANNELS, 1, 1, scale + HALF, NULL);
    int32_t y = node(&n, "Concat", "joined", node(&n, "LeakyRelu", "la", a, END),
                     node(&n, "LeakyRelu", "lb", b, END), END);
    ((qb_axis_attrs *)attrs(&n))->axis = 1;
    y = node(&n, "Transpose", "swapped", reshape(&n, "pairs", y, 5, pairs), END);
    int64_t *perm = qb_arena_alloc(&n.cx, n.graph->arena, 5, sizeof *perm);
    for (int i = 0; i < 5; i++) perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    ((qb_perm_attrs *)attrs(&n))->perm = (qb_ints){5, perm};
    y = conv(&n, "depthwise", reshape(&n, "flat", y, 4, flat), WIDE, WIDE, 3, WIDE, back, moved);
    y = node(&n, "LeakyRelu", "ld", y, END);
    end(&n, conv(&n, "boxes", y, CHANNELS, WIDE, 1, 1, NULL, back));
    recover(&n, "equalize");
    assert_true(n.out.sqnr_db < 15);
    assert_true(n.out.sqnr_after_db > 28);
    assert_true(function_db(&n) > 100);
    release(&n);
}

/* Weights that are all rounded up, and inputs that are never negative: the results lie beside. */
static void shifted_bias(void **state) {
    (void)state;
    net n;
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y =
        node(&n, "Relu", "positive", conv(&n, "first", 0, WIDE, CHANNELS, 1, 1, NULL, NULL), END);
    float w[CHANNELS * WIDE * 9];
    for (int i = 0; i < CHANNELS * WIDE * 9; i++) {
        const int step = i % (WIDE * 9) == 0 ? 127 : i * 37 % 9 - 4;
        w[i] = ((float)step + (i % (WIDE * 9) == 0 ? 0 : 0.55f)) / 127;
    }
    const int32_t weight = constant(&n, "w", qb_shape_of(4, CHANNELS, WIDE, 3, 3), w);
    y = node(&n, "Conv", "second", y, weight, END);
    end(&n, y);
    recover(&n, "bias");
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 6);
    assert_true(n.out.sqnr_after_db > 30);
    release(&n);
}

/* The same in each of several layers: what the first ones shift reaches the later ones, whose own
 * shift is another one then. Corrections that did not see those before them would miss that. */
static void shifted_layers(void **state) {
    (void)state;
    enum { LAYERS = 5 };
    net n;
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = node(&n, "Relu", "r", conv(&n, "c", 0, WIDE, CHANNELS, 1, 1, NULL, NULL), END);
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[3][16];
        static const char letters[] = "wcr";
        for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%c%d", letters[i], layer);
        float w[WIDE * WIDE];
        for (int i = 0; i < WIDE * WIDE; i++) {
            const bool largest = i % WIDE == i / WIDE; /* the step is 1 / 127 */
            const int step = largest ? 127 : (i + layer) * 37 % 25 - 12;
            w[i] = ((float)step + (largest ? 0 : 0.52f)) / 127;
        }
        const int32_t weight = constant(&n, name[0], qb_shape_of(4, WIDE, WIDE, 1, 1), w);
        y = node(&n, "Relu", name[2], node(&n, "Conv", name[1], y, weight, END), END);
    }
    end(&n, conv(&n, "last", y, CHANNELS, WIDE, 1, 1, NULL, NULL));
    recover(&n, "bias");
    assert_true(n.out.sqnr_db < 25);
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 6);
    for (int32_t i = 0; i < n.out.n_layers; i++)
        assert_true(n.out.layer[i].after_db > n.out.layer[i].before_db - 0.5);
    release(&n);
}

/* Outliers in a few channels behind a normalization, which three products read, as attention does:
 * one factor a channel has to fit them all. */
static void read_by_three(void **state) {
    (void)state;
    enum { FEATURES = CHANNELS * 4, READERS = 3 };
    net n;
    float gamma[FEATURES], beta[FEATURES];
    begin(&n, qb_shape_of(3, 1, TOKENS, FEATURES));
    for (int i = 0; i < FEATURES; i++) {
        gamma[i] = i % 11 == 3 ? 300 : 1 + 0.2f * noise();
        beta[i] = 0.1f * noise();
    }
    const int32_t g = constant(&n, "gamma", qb_shape_of(1, FEATURES), gamma),
                  b = constant(&n, "beta", qb_shape_of(1, FEATURES), beta);
    const int32_t normed = node(&n, "LayerNormalization", "normed", 0, g, b, END);
    int32_t product[READERS];
    for (int r = 0; r < READERS; r++) {
        static const char *const names[READERS][2] = {{"wq", "q"}, {"wk", "k"}, {"wv", "v"}};
        float w[FEATURES * WIDE];
        for (int i = 0; i < FEATURES * WIDE; i++)
            w[i] = normal() * (float)(r + 1) / (i / WIDE % 11 == 3 ? 300 : 1);
        const int32_t m = constant(&n, names[r][0], qb_shape_of(2, FEATURES, WIDE), w);
        product[r] = node(&n, "MatMul", names[r][1], normed, m, END);
    }
    const int32_t sum = node(&n, "Add", "qk", product[0], product[1], END);
    end(&n, node(&n, "Concat", "all", sum, product[2], END));
    recover(&n, "rounding,bias");
    assert_true(n.out.sqnr_after_db < 20);
    recover(&n, "smooth");
    assert_true(n.out.sqnr_after_db > 30);
    assert_true(function_db(&n) > 100);
    release(&n);
}

/* Outliers in a few channels behind a normalization. */
static void outliers(void **state) {
    (void)state;
    net n;
    float gamma[CHANNELS * 4], beta[CHANNELS * 4], w[CHANNELS * 4 * WIDE];
    enum { FEATURES = CHANNELS * 4 };
    begin(&n, qb_shape_of(3, 1, TOKENS, FEATURES));
    for (int i = 0; i < FEATURES; i++) {
        gamma[i] = i % 11 == 3 ? 150 : 1 + 0.2f * noise();
        beta[i] = 0.1f * noise();
        for (int o = 0; o < WIDE; o++) w[i * WIDE + o] = normal() / (i % 11 == 3 ? 150 : 1);
    }
    const int32_t g = constant(&n, "gamma", qb_shape_of(1, FEATURES), gamma),
                  b = constant(&n, "beta", qb_shape_of(1, FEATURES), beta),
                  m = constant(&n, "w", qb_shape_of(2, FEATURES, WIDE), w);
    const int32_t normed = node(&n, "LayerNormalization", "normed", 0, g, b, END);
    end(&n, node(&n, "MatMul", "product", normed, m, END));
    recover(&n, NULL);
    assert_true(kept(&n, "smooth"));
    assert_true(n.out.sqnr_db < 20);
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 10);
    recover(&n, "smooth");
    assert_true(function_db(&n) > 100);
    release(&n);
}

/* Weights half-way between two steps, in channels that hold much the same: to the nearest they are
 * wrong together, by error one makes up for the other. */
static void rounded_by_error(void **state) {
    (void)state;
    net n;
    float mix[WIDE * CHANNELS], w[CHANNELS * WIDE];
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    for (int o = 0; o < WIDE; o++) /* all much like the first channel */
        for (int i = 0; i < CHANNELS; i++) mix[o * CHANNELS + i] = (i == 0) + 0.02f * normal();
    for (int i = 0; i < CHANNELS * WIDE; i++)
        w[i] = i % WIDE == 0 ? 1 : ((float)(i * 37 % 41 - 20) + 0.46f + 0.03f * noise()) / 127;
    const int32_t m = constant(&n, "mix", qb_shape_of(4, WIDE, CHANNELS, 1, 1), mix),
                  v = constant(&n, "w", qb_shape_of(4, CHANNELS, WIDE, 1, 1), w);
    const int32_t same = node(&n, "Relu", "same", node(&n, "Conv", "mixed", 0, m, END), END);
    end(&n, node(&n, "Conv", "last", same, v, END));
    recover(&n, "bias");
    const double nearest = n.out.sqnr_after_db;
    recover(&n, "rounding,bias");
    assert_true(n.out.sqnr_after_db > nearest + 3);
    assert_true(function_db(&n) > 30);
    release(&n);
}

/* Against the float graph, with all layers quantized but those that make these values. */
static double partly_float_db(net *n, const char *const *values, const qb_graph *unrounded) {
    qb_graph_score score;
    qb_graph *graph;
    qb_calib_options calibration = n->calibration;
    qb_quant_options options = n->quant;
    calibration.hold_back = QB_HOLDOUT_EVERY;
    options.float_values = values;
    options.unrounded = unrounded;
    assert_ok(&n->cx, qb_quantize(&n->cx, n->out.graph, n->out.table, &options, &graph, NULL));
    assert_ok(&n->cx, qb_score_graph(&n->cx, n->graph, graph, &calibration, &score));
    print_message("partly float: %.1f dB\n", score.sqnr_db);
    qb_free(score.err_square);
    qb_graph_free(graph);
    return score.sqnr_db;
}

/* Layers that stay float have their weights and biases as they were before rounding, equalized like
 * all others. */
static void float_layers(void **state) {
    (void)state;
    static const char *const all[] = {"ra", "b", NULL}, *const last[] = {"b", NULL};
    net n;
    double scale[WIDE];
    spread(scale, WIDE);
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = node(&n, "Relu", "ra", conv(&n, "a", 0, WIDE, CHANNELS, 1, 1, scale, NULL), END);
    end(&n, conv(&n, "b", y, CHANNELS, WIDE, 3, 1, NULL, scale));
    recover(&n, "equalize,rounding,bias");
    assert_true(partly_float_db(&n, all, n.out.unrounded) > 100);
    assert_true(partly_float_db(&n, all, NULL) < 60);
    assert_true(partly_float_db(&n, last, n.out.unrounded) > n.out.sqnr_after_db);
    release(&n);
}

/* Ranges that clip too much become wider, by the error of the output alone. */
static void widened_ranges(void **state) {
    (void)state;
    net n;
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = node(&n, "Relu", "r", conv(&n, "a", 0, WIDE, CHANNELS, 1, 1, NULL, NULL), END);
    end(&n, conv(&n, "b", y, CHANNELS, WIDE, 3, 1, NULL, NULL));
    assert_ok(&n.cx, qb_method_parse(&n.cx, "percentile:90", &n.method));
    recover(&n, "ranges");
    assert_true(n.out.sqnr_db < 20);
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 3);
    assert_true(n.out.n_layers == 2);
    for (int32_t i = 0; i < n.out.n_layers; i++)
        assert_true(n.out.layer[i].after_db > n.out.layer[i].before_db + 3);
    release(&n);
}

/* A model that ends in sizes that depend on its data. */
static void late_sizes(void **state) {
    (void)state;
    net n;
    double scale[WIDE];
    spread(scale, WIDE);
    begin(&n, qb_shape_of(4, 1, CHANNELS, SIDE, SIDE));
    int32_t y = node(&n, "Relu", "r", conv(&n, "a", 0, WIDE, CHANNELS, 1, 1, scale, NULL), END);
    y = conv(&n, "b", y, CHANNELS, WIDE, 3, 1, NULL, scale);
    const int32_t where = node(&n, "NonZero", "where", node(&n, "Relu", "found", y, END), END);
    assert_ok(&n.cx, qb_graph_add_output(&n.cx, n.graph, y));
    end(&n, where);
    recover(&n, NULL);
    assert_true(kept(&n, "equalize"));
    assert_true(n.out.sqnr_after_db > n.out.sqnr_db + 6);
    release(&n);
}

static void bytes_of(net *n, int threads, uint8_t **bytes, size_t *size) {
    char path[QB_TEST_PATH + 32];
    n->cx.threads = threads;
    recover(n, "equalize,rounding,bias,ranges");
    snprintf(path, sizeof path, "%s.%d.onnx", folder, threads);
    assert_ok(&n->cx, qb_onnx_save(&n->cx, n->out.graph, path));
    char *text;
    assert_ok(&n->cx, qb_file_read(&n->cx, path, (size_t)1 << 24, &text, size));
    *bytes = (uint8_t *)text;
}

static void same_bytes(void **state) {
    (void)state;
    net n;
    uint8_t *one, *three;
    size_t n_one, n_three;
    depthwise(&n, "Relu");
    bytes_of(&n, 1, &one, &n_one);
    bytes_of(&n, 3, &three, &n_three);
    assert_int_equal(n_one, n_three);
    assert_memory_equal(one, three, n_one);
    qb_free(one);
    qb_free(three);
    release(&n);
}

static void bad_list(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_recover_check(&cx, NULL));
    assert_ok(&cx, qb_recover_check(&cx, "bias,equalize"));
    assert_int_equal(qb_recover_check(&cx, "bias,equalise"), QB_STATUS_USAGE);
    assert_non_null(strstr(cx.message, "'equalise'"));
    assert_non_null(strstr(cx.message, "equalize"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depthwise_ranges),
        cmocka_unit_test(clip_stays),
        cmocka_unit_test(high_biases_are_absorbed),
        cmocka_unit_test(branches_agree),
        cmocka_unit_test(residual_streams),
        cmocka_unit_test(shuffled_branches),
        cmocka_unit_test(shifted_bias),
        cmocka_unit_test(shifted_layers),
        cmocka_unit_test(outliers),
        cmocka_unit_test(read_by_three),
        cmocka_unit_test(rounded_by_error),
        cmocka_unit_test(float_layers),
        cmocka_unit_test(widened_ranges),
        cmocka_unit_test(late_sizes),
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(bad_list),
    };
    return cmocka_run_group_tests(tests, write_samples, NULL);
}

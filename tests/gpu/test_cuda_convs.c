/* Every CUDA convolution against the scalar reference: random problems, guard bytes, slices.
 * QB_TEST_SEED, QB_TEST_CASES: other random problems, and how many. QB_TEST_TACTICS: only tactics
 * whose name has this in it, as under compute-sanitizer.
 * ctest-timeout: 600 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conv_case.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/value.h"
#include "qb_test.h"

#define CASES 400
#define MAX_TACTICS 96
#define CUDNN_CASES 9

static qb_cuda_device device;

static void need_device(qb_ctx *cx) {
    qb_ctx_init(cx);
    if (qb_cuda_open(cx, 0, &device) != QB_OK) qb_test_skip("%s", cx->message);
}

static bool is_cuda_conv(const qb_tactic *t) {
    const char *asked = getenv("QB_TEST_TACTICS");
    return t->kind == QB_KIND_CONV && strcmp(t->backend, "cuda") == 0 &&
           (!asked || strstr(t->name, asked));
}

static bool is_cudnn(const qb_tactic *t) { return strstr(t->name, "cudnn") != NULL; }

/* Those on wgmma run where the device, and this program, have it. */
static bool may_run(const qb_tactic *t) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_cuda_need need = {.wgmma = strstr(t->name, "wgmma") != NULL};
    const bool may = qb_cuda_need_check(&cx, t->name, &need, &device) == QB_OK;
    qb_ctx_clear(&cx);
    return may;
}

/* Runs one tactic on a case; 1: right, 0: not for it, -1: wrong (printed). */
static int try_tactic(qb_ctx *cx, const conv_case *c, const qb_tactic *t, char *got) {
    char text[512];
    qb_ctx_clear(cx);
    qb_status status = conv_case_run(cx, c, t, got);
    if (status == QB_STATUS_UNSUPPORTED) return 0;
    if (status != QB_OK) {
        print_error("%s: %s\n  %s\n", t->name, cx->message,
                    conv_spec_text(&c->spec, text, sizeof text));
        return -1;
    }
    /* sums of f16 are exact, activations with exp, tanh or erf are not; see conv_case_distance */
    const bool smooth = c->spec.in == QB_DTYPE_F16 && qb_cuda_is_smooth(c->spec.act.kind);
    double limit = t->exactness == QB_EXACT && !smooth ? 0.0 : 1.0;
    double distance = conv_case_distance(c, got);
    if (distance <= limit) return 1;
    print_error("%s: off by %g, expected at most %g\n  %s\n", t->name, distance, limit,
                conv_spec_text(&c->spec, text, sizeof text));
    return -1;
}

/* All tactics but cuDNN's (making its plans takes long) on one problem. */
static int try_all(qb_ctx *cx, const conv_spec *spec, qb_rng *rng, int ran[MAX_TACTICS]) {
    conv_case c;
    int wrong = 0, index = 0;
    assert_ok(cx, conv_case_init(cx, &c, spec, rng));
    char *got = malloc((size_t)c.n_out * 4);
    assert_non_null(got);
    for (const qb_tactic *const *t = qb_tactics(); *t; t++) {
        if (!is_cuda_conv(*t) || is_cudnn(*t)) continue;
        int result = try_tactic(cx, &c, *t, got);
        ran[index++] += result > 0;
        wrong += result < 0;
        if (result < 0 && qb_cuda_sync(cx, NULL) != QB_OK) {
            print_error("the device is lost: %s\n", cx->message);
            exit(1); /* nothing after this can be believed */
        }
    }
    free(got);
    conv_case_release(&c);
    return wrong;
}

/* Random problems, of 8-bit values or of f16. Each tactic of that type that may run here has at
 * least three of them. */
static void random_problems(bool f16) {
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0, index = 0;
    need_device(&cx);
    const char *seed = getenv("QB_TEST_SEED"), *cases = getenv("QB_TEST_CASES");
    int n = cases ? atoi(cases) : CASES;
    qb_rng_seed(&rng, seed ? strtoull(seed, NULL, 10) : 20261121);
    for (int i = 0; i < n; i++) {
        conv_spec spec = conv_spec_random(&rng);
        if (f16) conv_spec_as_f16(&spec);
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (is_cuda_conv(*t) && !is_cudnn(*t)) {
            print_message("%-44s %4d of %d problems\n", (*t)->name, ran[index], n);
            const char *type = f16 ? "conv_f16." : "conv_s8.";
            if (!may_run(*t))
                assert_int_equal(ran[index], 0);
            else if (n >= CASES && strstr((*t)->name, type))
                assert_true(ran[index] >= 3);
            index++;
        }
    assert_int_equal(wrong, 0);
}

static void random_problems_equal_the_reference(void **state) {
    (void)state;
    random_problems(false);
}

static void random_problems_of_f16_equal_the_reference(void **state) {
    (void)state;
    random_problems(true);
}

/* The fifteen shapes of ResNet-50, at batches that leave a last tile in part. */
static void resnet_shapes_equal_the_reference(void **state) {
    (void)state;
    static const int shape[][5] = {
        {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},   {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
        {256, 56, 128, 1, 1}, {128, 56, 128, 3, 2}, {128, 28, 512, 1, 1},  {512, 28, 128, 1, 1},
        {128, 28, 128, 3, 1}, {256, 14, 256, 3, 1}, {1024, 14, 256, 1, 1}, {256, 14, 1024, 1, 1},
        {512, 7, 512, 3, 1},  {2048, 7, 512, 1, 1}, {512, 7, 2048, 1, 1},  {256, 56, 512, 1, 2}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    qb_rng_seed(&rng, 7);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        conv_spec spec = conv_spec_plain(i % 3 + 1, shape[i][0], shape[i][1], shape[i][2],
                                         shape[i][3], shape[i][4]);
        if (i % 2) spec.in_zero = 77;
        if (i % 3 == 0) spec.residual = QB_DTYPE_U8, spec.residual_zero = 9;
        wrong += try_all(&cx, &spec, &rng, ran);
        conv_spec_as_f16(&spec);
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* So many tiles that every block has several: what a block keeps from tile to tile has to be right.
 */
static void many_tiles_equal_the_reference(void **state) {
    (void)state;
    static const int shape[][6] = {{70, 64, 56, 64, 3, 1},   {70, 64, 56, 128, 1, 1},
                                   {90, 128, 28, 128, 3, 1}, {100, 128, 28, 512, 1, 1},
                                   {70, 128, 30, 256, 3, 2}, {120, 64, 30, 192, 1, 2}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 11);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], s[4], s[5]);
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* The same with a residual, and a first layer whose blocks have all their lines. */
static void many_tiles_with_residuals_equal_the_reference(void **state) {
    (void)state;
    static const int shape[][4] = {
        {20, 32, 56, 64}, {20, 48, 56, 192}, {24, 80, 42, 256}, {40, 256, 28, 512}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 13);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], 1, 1);
        spec.residual = QB_DTYPE_U8;
        spec.residual_zero = 9;
        if (i == 1) spec.act.kind = QB_ACT_NONE;
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    for (int channels = 1; channels <= 4; channels++) {
        conv_spec spec = conv_spec_plain(2, channels, 150, 64, 7, channels == 4 ? 1 : 2);
        spec.in_zero = 77;
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* What detectors and gated networks are made of: SiLU between zero points that are not 0, with
 * padding, residuals, 32 channels, and channels that fill no tile. */
static void silu_layers_equal_the_reference(void **state) {
    (void)state;
    /* batch, channels, side, channels, kernel, stride, group, residual */
    static const int shape[][8] = {{3, 3, 120, 32, 6, 2, 1, 0},   {3, 3, 96, 32, 3, 2, 1, 0},
                                   {2, 3, 60, 32, 3, 1, 1, 0},    {5, 32, 80, 64, 3, 2, 1, 0},
                                   {3, 32, 80, 32, 3, 1, 1, 1},   {9, 64, 40, 64, 3, 1, 1, 1},
                                   {5, 128, 20, 256, 3, 1, 1, 0}, {5, 256, 20, 512, 3, 2, 1, 0},
                                   {4, 24, 56, 144, 1, 1, 1, 0},  {4, 40, 28, 240, 1, 1, 1, 0},
                                   {3, 96, 56, 96, 3, 2, 96, 0},  {3, 144, 28, 144, 5, 1, 144, 0}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 17);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i];
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], s[4], s[5]);
        spec.group = s[6];
        spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = (s[4] - 1) / 2;
        spec.act.kind = QB_ACT_SILU;
        spec.in_zero = 33;
        spec.out_zero = 21;
        if (s[7]) {
            spec.residual = QB_DTYPE_U8;
            spec.residual_zero = 40;
            spec.act_first = true;
        }
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* How a layer of windows of one pixel ends, and such layers: batch, channels, side, channels, and
 * how many more there are in memory. */
typedef struct ending {
    qb_dtype bias, out, residual;
    qb_act_kind act;
} ending;
typedef int layer[5];

static conv_spec spec_of(const ending *end, const layer s) {
    conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], 1, 1);
    spec.bias = end->bias;
    spec.out = end->out;
    spec.residual = end->residual;
    spec.act = (qb_act){.kind = end->act, .alpha = -0.3f, .beta = 0.9f};
    spec.in_zero = 33;
    if (spec.out == QB_DTYPE_U8 || spec.out == QB_DTYPE_S8) spec.out_zero = 21;
    if (spec.residual != QB_DTYPE_NONE) spec.residual_zero = 40, spec.residual_slice = s[4];
    spec.out_slice = s[4];
    return spec;
}

static void endings_equal_the_reference(const ending *end, size_t n_ends, const layer *layers,
                                        size_t n_layers) {
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 19);
    for (size_t e = 0; e < n_ends; e++)
        for (size_t i = 0; i < n_layers; i++) {
            const conv_spec spec = spec_of(&end[e], layers[i]);
            wrong += try_all(&cx, &spec, &rng, ran);
        }
    assert_int_equal(wrong, 0);
}

/* What transformers are made of: products with biases that stay floats, to quantized values with
 * and without a residual, through GELU, and to f16 for an attention. */
static void float_biases_equal_the_reference(void **state) {
    (void)state;
    static const ending ends[] = {{QB_DTYPE_F32, QB_DTYPE_U8, QB_DTYPE_NONE, QB_ACT_NONE},
                                  {QB_DTYPE_F32, QB_DTYPE_S8, QB_DTYPE_NONE, QB_ACT_RELU},
                                  {QB_DTYPE_F32, QB_DTYPE_U8, QB_DTYPE_U8, QB_ACT_NONE},
                                  {QB_DTYPE_F32, QB_DTYPE_U8, QB_DTYPE_S8, QB_ACT_CLIP},
                                  {QB_DTYPE_F32, QB_DTYPE_U8, QB_DTYPE_NONE, QB_ACT_GELU},
                                  {QB_DTYPE_NONE, QB_DTYPE_S8, QB_DTYPE_NONE, QB_ACT_GELU},
                                  {QB_DTYPE_F32, QB_DTYPE_F16, QB_DTYPE_NONE, QB_ACT_NONE},
                                  {QB_DTYPE_S32, QB_DTYPE_F16, QB_DTYPE_NONE, QB_ACT_RELU},
                                  {QB_DTYPE_NONE, QB_DTYPE_F16, QB_DTYPE_NONE, QB_ACT_CLIP},
                                  {QB_DTYPE_F32, QB_DTYPE_F16, QB_DTYPE_U8, QB_ACT_NONE},
                                  {QB_DTYPE_S32, QB_DTYPE_F16, QB_DTYPE_S8, QB_ACT_RELU}};
    static const layer layers[] = {
        {3, 64, 13, 48, 0}, {2, 192, 11, 320, 16}, {1, 768, 5, 192, 0}, {20, 64, 28, 256, 0}};
    endings_equal_the_reference(ends, sizeof ends / sizeof *ends, layers,
                                sizeof layers / sizeof *layers);
}

/* Sums of what has a scale of its own, as tools quantize residual networks. */
static void rounded_residuals_equal_the_reference(void **state) {
    (void)state;
    static const int shape[][5] = {{2, 64, 14, 256, 1},
                                   {1, 64, 14, 64, 3},
                                   {4, 128, 28, 128, 3},
                                   {8, 24, 15, 24, 1},
                                   {2, 256, 9, 40, 1}};
    static const qb_act_kind acts[] = {QB_ACT_NONE, QB_ACT_RELU, QB_ACT_CLIP};
    qb_ctx cx;
    qb_rng rng;
    int wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 31);
    for (size_t i = 0; i < 12 * sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i / 12], way = (int)(i % 12);
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], s[4], 1);
        spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = (s[4] - 1) / 2;
        spec.residual = way % 2 ? QB_DTYPE_S8 : QB_DTYPE_U8;
        spec.residual_zero = 9;
        spec.rounding = way / 2 % 2 ? QB_DTYPE_S8 : QB_DTYPE_U8;
        spec.rounding_zero = 40;
        spec.act = (qb_act){.kind = acts[way % 3], .alpha = -0.3f, .beta = 0.9f};
        spec.act_first = way > 7;
        if (way == 5) spec.in_zero = 33; /* classes of pixels */
        if (way % 4 == 1) spec.out_zero = 21;
        int ran[MAX_TACTICS] = {0}, n = 0;
        wrong += try_all(&cx, &spec, &rng, ran);
        for (int t = 0; t < MAX_TACTICS; t++) n += ran[t];
        if (!getenv("QB_TEST_TACTICS")) assert_true(n >= 3);
    }
    assert_int_equal(wrong, 0);
}

/* A Clip whose lower bound is above the upper one: that is the last word. */
static void crossed_bounds_equal_the_reference(void **state) {
    (void)state;
    static const int shape[][5] = {{2, 64, 9, 64, 1},
                                   {2, 64, 9, 64, 3},
                                   {2, 3, 20, 32, 3},
                                   {1, 5, 7, 21, 3},
                                   {2, 32, 9, 32, 0}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    qb_rng_seed(&rng, 29);
    for (size_t i = 0; i < 2 * sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i / 2], kernel = s[4] ? s[4] : 3;
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[3], kernel, 1);
        if (s[4] == 0) spec.group = s[1]; /* depthwise */
        if (i % 2) spec.bias = QB_DTYPE_F32;
        spec.act = (qb_act){.kind = QB_ACT_CLIP, .alpha = 1.5f, .beta = 0.9f};
        spec.out_zero = 21;
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* What detectors and classifiers end in: channels that fill no tile and lie on no boundary. */
static void ragged_channels_equal_the_reference(void **state) {
    (void)state;
    static const ending ends[] = {{QB_DTYPE_S32, QB_DTYPE_F16, QB_DTYPE_NONE, QB_ACT_NONE},
                                  {QB_DTYPE_F32, QB_DTYPE_F16, QB_DTYPE_NONE, QB_ACT_CLIP},
                                  {QB_DTYPE_S32, QB_DTYPE_U8, QB_DTYPE_NONE, QB_ACT_RELU},
                                  {QB_DTYPE_F32, QB_DTYPE_S8, QB_DTYPE_NONE, QB_ACT_NONE},
                                  {QB_DTYPE_NONE, QB_DTYPE_F32, QB_DTYPE_NONE, QB_ACT_RELU}};
    static const layer layers[] = {
        {2, 64, 13, 1000, 0}, {16, 32, 40, 255, 0}, {3, 48, 9, 85, 3}, {1, 16, 7, 21, 1}};
    endings_equal_the_reference(ends, sizeof ends / sizeof *ends, layers,
                                sizeof layers / sizeof *layers);
}

/* s8 to s8 is what cuDNN takes: zero points go into the bias. */
static conv_spec cudnn_spec(int i) {
    conv_spec spec = conv_spec_plain(2, 64, 14, 64, i % 2 ? 1 : 3, 1 + i / 4 % 2);
    spec.in = spec.out = QB_DTYPE_S8;
    if (i % 2) spec.in_zero = 5 - 3 * i; /* without padding */
    switch (i) {
    case 2: spec.residual = QB_DTYPE_S8; break;
    case 3: /* saturation is the ReLU */
        spec.residual = QB_DTYPE_S8;
        spec.residual_zero = -7;
        spec.out_zero = -128;
        break;
    case 4: spec.act = (qb_act){.kind = QB_ACT_LEAKY_RELU, .alpha = 0.1f}; break;
    case 5: spec.act = (qb_act){.kind = QB_ACT_NONE}, spec.out_zero = 12; break;
    case 6: spec.act = (qb_act){.kind = QB_ACT_CLIP, .beta = 0.9f}; break;
    case 7: /* the activation before the residual */
        spec.residual = QB_DTYPE_S8;
        spec.act_first = true;
        spec.bias = QB_DTYPE_F32;
        break;
    case 8: spec.in_slice = spec.out_slice = 16; break;
    default: break;
    }
    return spec;
}

static void cudnn_is_within_one_code(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    int right = 0;
    need_device(&cx);
    if (getenv("QB_TEST_NO_CUDNN")) qb_test_skip("QB_TEST_NO_CUDNN is set");
    if (qb_cuda_cudnn_version() == 0) qb_test_skip("cuDNN is not here");
    const qb_tactic *t = qb_tactic_find("cuda.conv_s8.cudnn");
    qb_rng_seed(&rng, 9);
    for (int i = 0; i < CUDNN_CASES; i++) {
        conv_case c;
        conv_spec spec = cudnn_spec(i);
        assert_ok(&cx, conv_case_init(&cx, &c, &spec, &rng));
        char *got = malloc((size_t)c.n_out * 4);
        int result = try_tactic(&cx, &c, t, got);
        if (result == 0) print_message("case %d: %s\n", i, cx.message);
        free(got);
        conv_case_release(&c);
        assert_true(result >= 0);
        right += result;
    }
    print_message("%d of %d cases\n", right, CUDNN_CASES);
    assert_int_equal(right, CUDNN_CASES);
}

/* A kernel that was captured gives the same result at each replay. */
static void replayed_graphs_repeat_the_result(void **state) {
    (void)state;
    qb_ctx cx;
    qb_rng rng;
    void *stream = NULL, *graph = NULL, *memory = NULL;
    need_device(&cx);
    qb_rng_seed(&rng, 3);
    const size_t bytes = 1 << 20;
    char *host = malloc(bytes);
    assert_ok(&cx, qb_cuda_stream_open(&cx, &stream));
    assert_ok(&cx, qb_cuda_alloc(&cx, bytes, &memory));
    assert_ok(&cx, qb_cuda_capture_begin(&cx, stream));
    assert_ok(&cx, qb_cuda_fill(&cx, memory, 0x42, bytes, stream));
    assert_ok(&cx, qb_cuda_capture_end(&cx, stream, &graph));
    for (int i = 0; i < 3; i++) {
        assert_ok(&cx, qb_cuda_fill(&cx, memory, i, bytes, stream));
        assert_ok(&cx, qb_cuda_graph_launch(&cx, graph, stream));
        assert_ok(&cx, qb_cuda_download(&cx, host, memory, bytes, stream));
        assert_ok(&cx, qb_cuda_sync(&cx, stream));
        for (size_t b = 0; b < bytes; b += 4097) assert_int_equal(host[b], 0x42);
    }
    qb_cuda_graph_close(graph);
    qb_cuda_stream_close(stream);
    qb_cuda_free(memory);
    free(host);
}

/* Windows of several rows: tiles in part at each side of the image, images narrower and wider than
 * one, several groups of 64 channels, and what is brought from beyond the image. */
static void windows_equal_the_reference(void **state) {
    (void)state;
    /* batch, channels, height, width, channels, kernel height and width, padding, residual */
    static const int shape[][9] = {
        {20, 64, 56, 56, 64, 3, 3, 1, 1},  {30, 128, 28, 28, 128, 3, 3, 1, 1},
        {3, 64, 57, 61, 64, 3, 3, 1, 0},   {2, 48, 40, 250, 64, 3, 3, 1, 0},
        {2, 16, 9, 300, 32, 3, 3, 0, 1},   {70, 64, 7, 7, 64, 3, 3, 1, 0},
        {4, 128, 30, 33, 192, 3, 3, 2, 0}, {9, 256, 14, 14, 256, 3, 3, 1, 1},
        {3, 64, 300, 10, 64, 5, 5, 2, 0},  {5, 32, 31, 45, 64, 2, 2, 0, 0},
        {5, 80, 31, 45, 128, 5, 1, 1, 1},  {6, 64, 40, 40, 160, 2, 5, 1, 0}};
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 31);
    for (size_t i = 0; i < 3 * sizeof shape / sizeof *shape; i++) {
        const int *s = shape[i / 3];
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[4], s[5], 1);
        spec.in_w = s[3];
        spec.kernel_w = s[6];
        spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = s[7];
        if (i % 3 > 0) spec.in_zero = 33, spec.out_zero = 21; /* a bias for each border */
        if (i % 3 == 2) spec.act.kind = QB_ACT_SILU;
        if (s[8]) spec.residual = QB_DTYPE_U8, spec.residual_zero = 9;
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    assert_int_equal(wrong, 0);
}

/* Convolutions of groups: batch, channels, height, width, channels of the result, groups, kernel
 * height and width, stride, dilation, padding, channels before and behind the data and result. */
typedef int grouped[12];

/* The same problem of u8, of s8 with zero points, and of f16. Returns how many went wrong; `ran`:
 * which tactics took one. */
static int groups_equal_the_reference(const grouped *shapes, size_t n, const char *name) {
    qb_ctx cx;
    qb_rng rng;
    int ran[MAX_TACTICS] = {0}, wrong = 0, index = 0, took = 0;
    need_device(&cx);
    if (getenv("QB_TEST_CASES")) qb_test_skip("only a few cases are asked for");
    qb_rng_seed(&rng, 37);
    for (size_t i = 0; i < 3 * n; i++) {
        const int *s = shapes[i / 3];
        conv_spec spec = conv_spec_plain(s[0], s[1], s[2], s[4], s[6], s[8]);
        spec.in_w = s[3];
        spec.group = s[5];
        spec.kernel_w = s[7];
        spec.dilation = s[9];
        spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = s[10];
        spec.in_slice = spec.out_slice = s[11];
        if (i % 3 == 1) {
            spec.in = spec.out = QB_DTYPE_S8;
            spec.in_zero = -33, spec.out_zero = 21; /* a bias for each border */
        }
        if (i % 3 == 2) {
            spec.in = spec.out = QB_DTYPE_F16;
            spec.weight = spec.bias = QB_DTYPE_F32;
        }
        wrong += try_all(&cx, &spec, &rng, ran);
    }
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if (is_cuda_conv(*t) && !is_cudnn(*t)) {
            const bool asked = strstr((*t)->name, name) != NULL;
            if (asked && ran[index] > 0)
                print_message("%-44s %4d\n", (*t)->name, ran[index]), took++;
            index++;
        }
    assert_true(took > 0 || getenv("QB_TEST_TACTICS"));
    return wrong;
}

static void depthwise_equals_the_reference(void **state) {
    (void)state;
    static const grouped shapes[] = {
        {2, 96, 29, 30, 96, 96, 7, 7, 1, 1, 3, 0},    {2, 48, 15, 14, 48, 48, 7, 7, 2, 1, 3, 16},
        {1, 40, 7, 7, 40, 40, 7, 7, 1, 1, 3, 0},      {2, 24, 20, 21, 24, 24, 7, 7, 1, 2, 6, 0},
        {1, 16, 40, 37, 16, 16, 31, 31, 1, 1, 15, 8}, {3, 32, 19, 18, 32, 32, 3, 3, 3, 1, 1, 0},
        {2, 64, 17, 23, 64, 64, 5, 3, 2, 2, 2, 0},    {2, 37, 13, 12, 37, 37, 7, 7, 1, 1, 3, 0},
        {1, 3, 21, 19, 3, 3, 5, 5, 2, 1, 2, 0},       {2, 21, 9, 11, 21, 21, 3, 3, 1, 3, 3, 1},
        {1, 24, 11, 13, 24, 24, 4, 6, 1, 1, 2, 0},    {1, 16, 9, 40, 16, 16, 1, 9, 1, 1, 0, 0}};
    assert_int_equal(
        groups_equal_the_reference(shapes, sizeof shapes / sizeof *shapes, "depthwise"), 0);
}

static void groups_on_tensor_cores_equal_the_reference(void **state) {
    (void)state;
    static const grouped shapes[] = {
        {2, 128, 28, 28, 128, 32, 3, 3, 1, 1, 1, 0}, {2, 256, 15, 14, 256, 32, 3, 3, 2, 1, 1, 16},
        {1, 512, 7, 7, 512, 32, 3, 3, 1, 1, 1, 0},   {1, 1024, 7, 5, 1024, 32, 3, 3, 1, 1, 1, 0},
        {2, 48, 19, 21, 48, 6, 3, 3, 2, 1, 1, 0},    {2, 104, 14, 13, 104, 13, 3, 3, 1, 1, 1, 0},
        {2, 440, 7, 7, 440, 55, 3, 3, 1, 1, 1, 0},   {1, 240, 9, 10, 240, 10, 3, 3, 1, 2, 2, 0},
        {2, 96, 12, 11, 64, 2, 3, 3, 1, 1, 1, 0},    {2, 64, 12, 11, 320, 4, 1, 1, 1, 1, 0, 0},
        {1, 160, 8, 9, 40, 20, 5, 3, 1, 1, 1, 16},   {1, 64, 10, 10, 128, 64, 3, 3, 1, 1, 1, 0},
        {1, 288, 6, 6, 288, 2, 3, 3, 1, 1, 1, 0},    {9, 128, 56, 56, 128, 32, 3, 3, 1, 1, 1, 0}};
    assert_int_equal(groups_equal_the_reference(shapes, sizeof shapes / sizeof *shapes, "mma"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(depthwise_equals_the_reference),
    cmocka_unit_test(groups_on_tensor_cores_equal_the_reference),
    cmocka_unit_test(replayed_graphs_repeat_the_result),
    cmocka_unit_test(random_problems_equal_the_reference),
    cmocka_unit_test(random_problems_of_f16_equal_the_reference),
    cmocka_unit_test(resnet_shapes_equal_the_reference),
    cmocka_unit_test(silu_layers_equal_the_reference),
    cmocka_unit_test(float_biases_equal_the_reference),
    cmocka_unit_test(ragged_channels_equal_the_reference),
    cmocka_unit_test(rounded_residuals_equal_the_reference),
    cmocka_unit_test(crossed_bounds_equal_the_reference),
    cmocka_unit_test(windows_equal_the_reference),
    cmocka_unit_test(many_tiles_equal_the_reference),
    cmocka_unit_test(many_tiles_with_residuals_equal_the_reference),
    cmocka_unit_test(cudnn_is_within_one_code),
};

QB_TEST_MAIN(tests)

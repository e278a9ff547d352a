/* Winograd's convolutions where their numbers are largest, and the plain integer ones where
 * vpmaddubsw would saturate; tests/op/test_tactics.c holds all of them to the reference on random
 * problems. Sums come out as floats, so that nothing is rounded: against a model in int64. */
#include "run_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CHANNELS 96

typedef struct conv_case {
    qb_problem p;
    qb_desc in[2];
    float scale, weight_scale;
    int32_t zero;
    int64_t images, channels, outputs, height, width, pad;
    void *data, *weight; /* data channels last */
} conv_case;

static void describe(conv_case *c, qb_dtype type) {
    const qb_shape x =
        qb_shape_of(4, (int)c->images, (int)c->channels, (int)c->height, (int)c->width);
    const qb_shape w = qb_shape_of(4, (int)c->outputs, (int)c->channels, 3, 3);
    const int64_t more = 2 * c->pad - 2;
    c->scale = c->weight_scale = 1.0f;
    c->in[0] = type == QB_DTYPE_F32 ? float_desc(x) : quantized_desc(type, x, &c->scale, &c->zero);
    c->in[1] = type == QB_DTYPE_F32 ? float_desc(w)
                                    : quantized_desc(QB_DTYPE_S8, w, &c->weight_scale, NULL);
    c->p = (qb_problem){
        .kind = QB_KIND_CONV,
        .n_in = 2,
        .in = c->in,
        .out = float_desc(qb_shape_of(4, (int)c->images, (int)c->outputs, (int)(c->height + more),
                                      (int)(c->width + more))),
        .window = {2, {3, 3}, {1, 1}, {1, 1}, {c->pad, c->pad}, {c->pad, c->pad}},
        .group = 1};
    c->in[0].layout = c->p.out.layout = QB_LAYOUT_NHWC;
}

/* The result, channels last; NULL: not on this processor. The caller frees it. */
static float *run(const char *name, conv_case *c, int threads) {
    static const bool constant[QB_MAX_INPUTS] = {[QB_IN_WEIGHT] = true};
    const void *in[] = {c->data, NULL}, *constants[] = {NULL, c->weight};
    const qb_tactic *tactic = qb_tactic_find(name);
    qb_ctx cx;
    qb_kernel *kernel;
    qb_workers *workers;
    qb_ctx_init(&cx);
    assert_non_null(tactic);
    if (!qb_tactic_takes(tactic, &c->p, constant)) return NULL;
    assert_ok(&cx, tactic->create(&cx, tactic, &c->p, constant, threads, &kernel));
    assert_ok(&cx, qb_workers_create(&cx, threads, &workers));
    float *out = qb_alloc_aligned(&cx, qb_desc_bytes(&c->p.out) + QB_BUFFER_SLACK, 1);
    void *packed = qb_alloc_aligned(&cx, kernel->packed_bytes, 1);
    void *workspace = qb_alloc_aligned(&cx, kernel->workspace_bytes + 1, 1);
    assert_true(out && packed && workspace);
    assert_ok(&cx, kernel->pack(&cx, kernel, constants, packed));
    const qb_launch args = {
        .in = in, .out = out, .packed = packed, .workspace = workspace, .workers = workers};
    assert_ok(&cx, kernel->launch(&cx, kernel, &args));
    qb_workers_free(workers);
    qb_kernel_free(kernel);
    qb_free(packed);
    qb_free(workspace);
    return out;
}

static double number(const conv_case *c, const void *data, int64_t i) {
    switch (c->in[0].dtype) {
    case QB_DTYPE_F32: return (double)((const float *)data)[i];
    case QB_DTYPE_U8: return ((const uint8_t *)data)[i] - c->zero;
    default: return ((const int8_t *)data)[i] - c->zero;
    }
}

/* An output, and the sum of all its products' magnitudes. */
static double model(const conv_case *c, int64_t n, int64_t m, int64_t y, int64_t x, double *size) {
    double sum = *size = 0;
    for (int64_t k = 0; k < c->channels; k++)
        for (int64_t i = 0; i < 9; i++) {
            const int64_t iy = y - c->pad + i / 3, ix = x - c->pad + i % 3;
            if (iy < 0 || iy >= c->height || ix < 0 || ix >= c->width) continue;
            const int64_t at = (m * c->channels + k) * 9 + i;
            const double w = c->in[0].dtype == QB_DTYPE_F32 ? (double)((const float *)c->weight)[at]
                                                            : ((const int8_t *)c->weight)[at];
            const double v =
                number(c, c->data, ((n * c->height + iy) * c->width + ix) * c->channels + k);
            sum += v * w;
            *size += fabs(v * w);
        }
    return sum;
}

/* `error`: of an output, over the sum of its products' magnitudes and `range`. */
static void check(const char *name, conv_case *c, double error, double range) {
    float *got = run(name, c, 2);
    if (!got) return;
    const int64_t *y = c->p.out.shape.dim;
    for (int64_t i = 0; i < qb_shape_count(&c->p.out.shape); i++) {
        double size;
        const int64_t m = i % y[1], pixel = i / y[1];
        const double expected =
            model(c, pixel / (y[2] * y[3]), m, pixel / y[3] % y[2], pixel % y[3], &size);
        /* a sum of more than 24 bits is rounded once, on its way to a float */
        const double most =
            error > 0 ? error * fmax(size, range) : fabs(expected - (double)(float)expected);
        if (!(fabs((double)got[i] - expected) <= most))
            fail_msg("%s: output %lld is %.9g, not %.9g", name, (long long)i, (double)got[i],
                     expected);
    }
    qb_free(got);
}

static void make(conv_case *c, qb_dtype type) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    describe(c, type);
    c->data = qb_alloc(&cx, qb_desc_bytes(&c->in[0]) + QB_BUFFER_SLACK, 1);
    c->weight = qb_alloc(&cx, qb_desc_bytes(&c->in[1]), 1);
    assert_true(c->data && c->weight);
}

static void release(conv_case *c) {
    qb_free(c->data);
    qb_free(c->weight);
}

static const char *const integer[] = {"cpu.winograd_s8.avx512", "cpu.winograd_s8.avx2",
                                      "cpu.conv_s8.avx512", "cpu.conv_s8.avx2", "cpu.conv_s8.sse2"};

/* Data as far from their zero point as they can be, on both sides of it by `places`, and weights at
 * their ends by the signs of each row of G, with which transformed data and weights are largest. */
static void check_ends(qb_dtype type, int32_t zero, int places, int signs) {
    static const int8_t g[4][3] = {{1, 1, 1}, {1, -1, 1}, {-1, 1, -1}, {1, 0, -1}};
    conv_case c = {.images = 1,
                   .channels = MOST_CHANNELS,
                   .outputs = 40,
                   .height = 10,
                   .width = 9,
                   .pad = 1,
                   .zero = zero};
    make(&c, type);
    const int low = type == QB_DTYPE_U8 ? 0 : -128;
    for (int64_t i = 0; i < qb_shape_count(&c.in[0].shape); i++) {
        const int64_t pixel = i / c.channels, x = pixel % c.width, y = pixel / c.width;
        const bool high =
            places == 0 || (places == 1 ? (x + y) % 2 == 0 : (x / 2 + y / 2) % 2 == 0);
        ((uint8_t *)c.data)[i] = (uint8_t)(low + (high ? 255 : 0));
    }
    for (int64_t i = 0; i < qb_shape_count(&c.in[1].shape); i++) {
        const int sign = g[signs][i % 9 / 3] * g[signs][i % 3];
        ((int8_t *)c.weight)[i] = (int8_t)(sign > 0 ? 127 : sign < 0 ? -128 : 1);
    }
    for (size_t t = 0; t < sizeof integer / sizeof *integer; t++) check(integer[t], &c, 0, 0);
    release(&c);
}

static void integers_are_exact_at_the_ends(void **state) {
    (void)state;
    for (int places = 0; places < 3; places++)
        for (int signs = 0; signs < 4; signs++) {
            check_ends(QB_DTYPE_U8, 0, places, signs);
            check_ends(QB_DTYPE_U8, 255, places, signs);
            check_ends(QB_DTYPE_S8, -128, places, signs);
            check_ends(QB_DTYPE_S8, 127, places, signs);
        }
}

/* Pairs of weights around the sum from which vpmaddubsw saturates, 128.5, in some units alone. */
static void pairs_at_the_edge_are_exact(void **state) {
    static const int8_t edge[][2] = {{64, 64},   {64, 65},  {127, 1},   {127, 2},    {-64, -64},
                                     {-64, -65}, {-128, 0}, {-128, -1}, {127, -128}, {0, 3}};
    conv_case c = {.images = 1, .channels = 37, .outputs = 21, .height = 9, .width = 8, .pad = 1};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool side = i % 2, alike = i / 2; /* all outputs' weights of a unit */
        make(&c, side ? QB_DTYPE_S8 : QB_DTYPE_U8);
        c.zero = side ? -128 : 0;
        memset(c.data, side ? 127 : 255, qb_desc_bytes(&c.in[0]));
        for (int64_t m = 0; m < c.outputs; m++)
            for (int64_t k = 0; k < c.channels; k++)
                for (int64_t tap = 0; tap < 9; tap++)
                    ((int8_t *)c.weight)[(m * c.channels + k) * 9 + tap] =
                        edge[(alike ? k / 4 + tap : m * 7 + k / 2 + tap) % 10][k % 2];
        for (size_t t = 0; t < sizeof integer / sizeof *integer; t++) check(integer[t], &c, 0, 0);
        release(&c);
    }
}

static const char *const floats[] = {"cpu.winograd_f32.avx512", "cpu.winograd_f32.avx2"};

/* Against sums in double: by the size of a tile's products, not of the window's alone. */
static void floats_are_close(void **state) {
    qb_rng rng;
    conv_case c = {.images = 2, .channels = 67, .outputs = 50, .height = 13, .width = 12, .pad = 0};
    (void)state;
    qb_rng_seed(&rng, 5);
    make(&c, QB_DTYPE_F32);
    for (int64_t i = 0; i < qb_shape_count(&c.in[0].shape); i++)
        ((float *)c.data)[i] = (float)(2 * qb_rng_uniform(&rng) - 1);
    for (int64_t i = 0; i < qb_shape_count(&c.in[1].shape); i++)
        ((float *)c.weight)[i] = (float)(2 * qb_rng_uniform(&rng) - 1);
    for (int i = 0; i < 2; i++) check(floats[i], &c, 1e-6, 0);
    release(&c);
}

/* Each image by itself, by any number of threads: the same bytes. */
static void images_do_not_meet(void **state) {
    qb_rng rng;
    conv_case c = {.images = 3, .channels = 40, .outputs = 70, .height = 15, .width = 17, .pad = 1};
    (void)state;
    qb_rng_seed(&rng, 6);
    make(&c, QB_DTYPE_F32);
    float *const data = c.data;
    const int64_t size = qb_shape_count(&c.in[0].shape) / c.images;
    for (int64_t i = 0; i < size * c.images; i++) data[i] = (float)(2 * qb_rng_uniform(&rng) - 1);
    for (int64_t i = 0; i < qb_shape_count(&c.in[1].shape); i++)
        ((float *)c.weight)[i] = (float)(2 * qb_rng_uniform(&rng) - 1);
    for (int t = 0; t < 2; t++) {
        c.images = 3;
        describe(&c, QB_DTYPE_F32);
        float *all = run(floats[t], &c, 1);
        const int64_t results = all ? qb_shape_count(&c.p.out.shape) / 3 : 0;
        c.images = 1;
        describe(&c, QB_DTYPE_F32);
        for (int i = 0; all && i < 3; i++) {
            c.data = data + i * size;
            float *one = run(floats[t], &c, i + 1);
            assert_memory_equal(one, all + i * results, (size_t)results * sizeof *one);
            qb_free(one);
        }
        c.data = data;
        qb_free(all);
    }
    release(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_exact_at_the_ends),
        cmocka_unit_test(pairs_at_the_edge_are_exact),
        cmocka_unit_test(floats_are_close),
        cmocka_unit_test(images_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

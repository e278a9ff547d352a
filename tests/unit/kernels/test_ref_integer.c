/* Integer convolution, transposed convolution and matrix product of kernels/ref against a plain
 * model in int64, bit for bit. The model follows the text of kernels/problem.h and shares no code
 * with the kernels. */
#include "run_problem.h"

#include <math.h>
#include <string.h>

typedef struct setup {
    qb_rng rng;
    qb_problem p;
    qb_desc in[4];
    const void *data[4];
    float scale[4], out_scale, weight_scale[64];
    int32_t zero[4], out_zero;
    bool has_bias, float_bias, has_residual, float_residual;
} setup;

static int64_t code(const qb_desc *desc, const void *data, int64_t i) {
    return desc->dtype == QB_DTYPE_U8 ? ((const uint8_t *)data)[i] : ((const int8_t *)data)[i];
}

static float model_act(qb_act act, float x) {
    if (act.kind == QB_ACT_RELU) return x > 0 ? x : 0;
    if (act.kind == QB_ACT_CLIP) return fminf(fmaxf(x, act.alpha), act.beta);
    return x;
}

/* From the exact sum to the stored output element `at` of channel c. */
static void check_element(const setup *s, int64_t sum, int64_t c, int64_t at, const void *got) {
    if (s->has_bias && !s->float_bias) sum += ((const int32_t *)s->data[QB_IN_BIAS])[c];
    float multiplier = s->scale[0] * s->weight_scale[s->in[1].q.n > 1 ? c % s->in[1].q.n : 0];
    float f32 = (float)(int32_t)sum * multiplier;
    if (s->has_bias && s->float_bias) f32 += ((const float *)s->data[QB_IN_BIAS])[c];
    if (s->has_residual) {
        if (s->p.act_first) f32 = model_act(s->p.act, f32);
        float r = s->float_residual
                      ? ((const float *)s->data[3])[at]
                      : s->scale[3] * (float)(code(&s->in[3], s->data[3], at) - s->zero[3]);
        f32 = f32 + r;
        if (!s->p.act_first) f32 = model_act(s->p.act, f32);
    } else {
        f32 = model_act(s->p.act, f32);
    }
    if (s->p.out.dtype == QB_DTYPE_F32) {
        assert_memory_equal(&((const float *)got)[at], &f32, sizeof f32);
        return;
    }
    float inverse = 1.0f / s->out_scale;
    double q = rint((double)(f32 * inverse)) + s->out_zero;
    double low = s->p.out.dtype == QB_DTYPE_U8 ? 0 : -128;
    q = q < low ? low : q > low + 255 ? low + 255 : q;
    assert_int_equal(code(&s->p.out, got, at), (int64_t)q);
}

static qb_dtype any_code(qb_rng *rng) { return qb_rng_below(rng, 2) ? QB_DTYPE_U8 : QB_DTYPE_S8; }

/* Random types, scales, bias, residual and activation for shapes that are set. */
static void fill(setup *s, int64_t channels, int64_t weight_channels, int32_t weight_axis) {
    qb_rng *r = &s->rng;
    for (int i = 0; i < 4; i++) {
        s->scale[i] = 0.003f + 0.01f * (float)qb_rng_uniform(r);
        qb_dtype type = any_code(r);
        s->zero[i] = (int32_t)qb_rng_below(r, 200) - (type == QB_DTYPE_S8 ? 100 : 0);
        if (s->in[i].shape.rank > 0) {
            qb_shape shape = s->in[i].shape;
            s->in[i] = quantized_desc(type, shape, &s->scale[i], &s->zero[i]);
        }
    }
    for (int i = 0; i < 64; i++) s->weight_scale[i] = 0.001f + 0.02f * (float)qb_rng_uniform(r);
    bool per_channel = qb_rng_below(r, 2);
    s->in[1].dtype = QB_DTYPE_S8;
    s->in[1].q = (qb_qparams){.dtype = QB_DTYPE_S8,
                              .axis = per_channel ? weight_axis : -1,
                              .n = per_channel ? (int32_t)weight_channels : 1,
                              .scale = s->weight_scale};
    s->has_bias = qb_rng_below(r, 2), s->float_bias = qb_rng_below(r, 2);
    s->in[2] = s->has_bias ? (qb_desc){.dtype = s->float_bias ? QB_DTYPE_F32 : QB_DTYPE_S32,
                                       .shape = qb_shape_of(1, (int)channels)}
                           : (qb_desc){0};
    s->has_residual = qb_rng_below(r, 2), s->float_residual = qb_rng_below(r, 2);
    if (!s->has_residual) s->in[3] = (qb_desc){0};
    if (s->has_residual && s->float_residual) s->in[3] = float_desc(s->p.out.shape);
    s->out_scale = 0.01f + 0.05f * (float)qb_rng_uniform(r);
    s->out_zero = (int32_t)qb_rng_below(r, 100);
    qb_shape out = s->p.out.shape;
    s->p.out = qb_rng_below(r, 4) ? quantized_desc(any_code(r), out, &s->out_scale, &s->out_zero)
                                  : float_desc(out);
    static const qb_act acts[] = {
        {QB_ACT_NONE, 0, 0}, {QB_ACT_RELU, 0, 0}, {QB_ACT_CLIP, -0.5f, 1.5f}};
    s->p.act = acts[qb_rng_below(r, 3)];
    s->p.act_first = qb_rng_below(r, 2);
    s->p.n_in = 4;
    s->p.in = s->in;
    for (int i = 0; i < 4; i++)
        s->data[i] = s->in[i].dtype == QB_DTYPE_NONE
                         ? NULL
                         : random_data(r, s->in[i].dtype, qb_shape_count(&s->in[i].shape));
}

static void release(setup *s, void *out) {
    for (int i = 0; i < 4; i++) qb_free((void *)(uintptr_t)s->data[i]);
    qb_free(out);
}

/* A random 2-D window problem; `transpose` picks the kind. */
static void window_setup(setup *s, bool transpose) {
    qb_rng *r = &s->rng;
    int group = 1 + (int)qb_rng_below(r, 3), cg = 1 + (int)qb_rng_below(r, 5);
    int mg = 1 + (int)qb_rng_below(r, 4), n = 1 + (int)qb_rng_below(r, 2);
    int in[2] = {4 + (int)qb_rng_below(r, 9), 4 + (int)qb_rng_below(r, 9)}, out[2];
    qb_window *w = &s->p.window;
    w->n = 2;
    for (int d = 0; d < 2; d++) {
        w->kernel[d] = 1 + (int64_t)qb_rng_below(r, 3);
        w->stride[d] = 1 + (int64_t)qb_rng_below(r, 3);
        w->dilation[d] = 1 + (int64_t)qb_rng_below(r, 2);
        int64_t extent = (w->kernel[d] - 1) * w->dilation[d] + 1;
        w->pad_begin[d] = (int64_t)qb_rng_below(r, (uint64_t)extent);
        w->pad_end[d] = (int64_t)qb_rng_below(r, (uint64_t)extent);
        int64_t pads = w->pad_begin[d] + w->pad_end[d];
        out[d] = (int)(transpose ? (in[d] - 1) * w->stride[d] + extent - pads
                                 : (in[d] + pads - extent) / w->stride[d] + 1);
        if (out[d] < 1) out[d] = 1;
    }
    s->p.kind = transpose ? QB_KIND_CONV_TRANSPOSE : QB_KIND_CONV;
    s->p.group = group;
    s->in[0].shape = qb_shape_of(4, n, group * cg, in[0], in[1]);
    s->in[1].shape = transpose
                         ? qb_shape_of(4, group * cg, mg, (int)w->kernel[0], (int)w->kernel[1])
                         : qb_shape_of(4, group * mg, cg, (int)w->kernel[0], (int)w->kernel[1]);
    s->p.out.shape = s->in[3].shape = qb_shape_of(4, n, group * mg, out[0], out[1]);
    fill(s, group * mg, transpose ? mg : group * mg, transpose ? 1 : 0);
}

/* (x - Zx) * w of one pair of positions; padding contributes nothing. */
static int64_t term(const setup *s, int64_t n, int64_t c, int64_t y, int64_t x, int64_t weight_at) {
    const int64_t *dim = s->in[0].shape.dim;
    if (y < 0 || y >= dim[2] || x < 0 || x >= dim[3]) return 0;
    int64_t at = ((n * dim[1] + c) * dim[2] + y) * dim[3] + x;
    return (code(&s->in[0], s->data[0], at) - s->zero[0]) * code(&s->in[1], s->data[1], weight_at);
}

static int64_t conv_sum(const setup *s, int64_t n, int64_t m, int64_t oy, int64_t ox) {
    const qb_window *w = &s->p.window;
    int64_t cg = s->in[1].shape.dim[1], mg = s->p.out.shape.dim[1] / s->p.group, sum = 0;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t ky = 0; ky < w->kernel[0]; ky++)
            for (int64_t kx = 0; kx < w->kernel[1]; kx++)
                sum += term(s, n, m / mg * cg + c,
                            oy * w->stride[0] - w->pad_begin[0] + ky * w->dilation[0],
                            ox * w->stride[1] - w->pad_begin[1] + kx * w->dilation[1],
                            ((m * cg + c) * w->kernel[0] + ky) * w->kernel[1] + kx);
    return sum;
}

static int64_t deconv_sum(const setup *s, int64_t n, int64_t m, int64_t oy, int64_t ox) {
    const qb_window *w = &s->p.window;
    int64_t mg = s->in[1].shape.dim[1], cg = s->in[1].shape.dim[0] / s->p.group, sum = 0;
    for (int64_t c = m / mg * cg; c < (m / mg + 1) * cg; c++)
        for (int64_t ky = 0; ky < w->kernel[0]; ky++)
            for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
                int64_t y = oy + w->pad_begin[0] - ky * w->dilation[0];
                int64_t x = ox + w->pad_begin[1] - kx * w->dilation[1];
                if (y % w->stride[0] || x % w->stride[1]) continue;
                sum += term(s, n, c, y / w->stride[0], x / w->stride[1],
                            ((c * mg + m % mg) * w->kernel[0] + ky) * w->kernel[1] + kx);
            }
    return sum;
}

static void check_windows(bool transpose, uint64_t seed) {
    for (int round = 0; round < 120; round++) {
        setup s = {0};
        qb_rng_seed(&s.rng, seed + (uint64_t)round);
        window_setup(&s, transpose);
        void *out =
            run_problem(transpose ? "ref.conv_transpose" : "ref.conv", &s.p, s.data, 1 + round % 2);
        const int64_t *dim = s.p.out.shape.dim;
        int64_t at = 0;
        for (int64_t n = 0; n < dim[0]; n++)
            for (int64_t m = 0; m < dim[1]; m++)
                for (int64_t y = 0; y < dim[2]; y++)
                    for (int64_t x = 0; x < dim[3]; x++, at++) {
                        int64_t sum =
                            transpose ? deconv_sum(&s, n, m, y, x) : conv_sum(&s, n, m, y, x);
                        check_element(&s, sum, m, at, out);
                    }
        release(&s, out);
    }
}

static void integer_conv_equals_the_model(void **state) {
    (void)state;
    check_windows(false, 1000);
}

static void integer_conv_transpose_equals_the_model(void **state) {
    (void)state;
    check_windows(true, 2000);
}

static void integer_matmul_equals_the_model(void **state) {
    (void)state;
    for (int round = 0; round < 120; round++) {
        setup s = {0};
        qb_rng_seed(&s.rng, 3000 + (uint64_t)round);
        int m = 1 + (int)qb_rng_below(&s.rng, 9), k = 1 + (int)qb_rng_below(&s.rng, 70);
        int n = 1 + (int)qb_rng_below(&s.rng, 40), batch = 1 + (int)qb_rng_below(&s.rng, 3);
        bool shared = qb_rng_below(&s.rng, 2);
        s.p.kind = QB_KIND_MATMUL;
        s.p.scale = 1.0f;
        s.p.transpose_a = qb_rng_below(&s.rng, 2);
        s.p.transpose_b = qb_rng_below(&s.rng, 2);
        s.in[0].shape = s.p.transpose_a ? qb_shape_of(3, batch, k, m) : qb_shape_of(3, batch, m, k);
        s.in[1].shape = s.p.transpose_b ? qb_shape_of(3, shared ? 1 : batch, n, k)
                                        : qb_shape_of(3, shared ? 1 : batch, k, n);
        s.p.out.shape = s.in[3].shape = qb_shape_of(3, batch, m, n);
        fill(&s, n, n, s.p.transpose_b ? 1 : 2);
        void *out = run_problem("ref.matmul", &s.p, s.data, 1 + round % 2);
        for (int64_t at = 0; at < (int64_t)batch * m * n; at++) {
            int64_t b = at / n / m, row = at / n % m, column = at % n, sum = 0;
            for (int64_t i = 0; i < k; i++) {
                int64_t a_at = b * m * k + (s.p.transpose_a ? i * m + row : row * k + i);
                int64_t b_at =
                    (shared ? 0 : b * k * n) + (s.p.transpose_b ? column * k + i : i * n + column);
                sum +=
                    (code(&s.in[0], s.data[0], a_at) - s.zero[0]) * code(&s.in[1], s.data[1], b_at);
            }
            check_element(&s, sum, column, at, out);
        }
        release(&s, out);
    }
}

/* Two quantized values: dequantized values 1.5 and 2.5 steps, both between quantized values. */
static void rounding_is_half_even(void **state) {
    (void)state;
    float x_scale = 0.5f, w_scale = 1.0f, out_scale = 1.0f;
    qb_desc in[2] = {quantized_desc(QB_DTYPE_U8, qb_shape_of(2, 2, 1), &x_scale, NULL),
                     quantized_desc(QB_DTYPE_S8, qb_shape_of(2, 1, 1), &w_scale, NULL)};
    qb_problem p = {.kind = QB_KIND_MATMUL,
                    .n_in = 2,
                    .in = in,
                    .out = quantized_desc(QB_DTYPE_U8, qb_shape_of(2, 2, 1), &out_scale, NULL),
                    .scale = 1.0f};
    uint8_t x[2] = {3, 5};
    int8_t w[1] = {1};
    uint8_t *out = run_problem("ref.matmul", &p, (const void *const[]){x, w}, 1);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 2);
    qb_free(out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(integer_conv_equals_the_model),
    cmocka_unit_test(integer_conv_transpose_equals_the_model),
    cmocka_unit_test(integer_matmul_equals_the_model),
    cmocka_unit_test(rounding_is_half_even),
};
QB_TEST_MAIN(tests)

#include "conv_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/common/value.h"
#include "kernels/ref.h"

#define GUARD 1024
#define GUARD_BYTE 0xa5
#define POISON 0xcd

static int64_t out_side(int64_t in, int64_t before, int64_t after, int64_t kernel, int64_t stride,
                        int64_t dilation) {
    return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1;
}

static int64_t count_of(const qb_desc *d) { return qb_shape_count(&d->shape); }

conv_spec conv_spec_plain(int64_t batch, int64_t in_c, int64_t side, int64_t out_c, int64_t kernel,
                          int64_t stride) {
    int64_t pad = kernel / 2;
    return (conv_spec){.batch = batch,
                       .in_c = in_c,
                       .in_h = side,
                       .in_w = side,
                       .out_c = out_c,
                       .kernel_h = kernel,
                       .kernel_w = kernel,
                       .stride = stride,
                       .dilation = 1,
                       .group = 1,
                       .pad_top = pad,
                       .pad_left = pad,
                       .pad_bottom = pad,
                       .pad_right = pad,
                       .in = QB_DTYPE_U8,
                       .out = QB_DTYPE_U8,
                       .weight = QB_DTYPE_S8,
                       .bias = QB_DTYPE_S32,
                       .act = {.kind = QB_ACT_RELU},
                       .per_channel = true};
}

static int64_t pick(qb_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)qb_rng_below(rng, (uint64_t)(high - low + 1));
}

static bool chance(qb_rng *rng, int percent) { return pick(rng, 1, 100) <= percent; }

static int32_t random_zero(qb_rng *rng, qb_dtype dtype) {
    if (chance(rng, 50)) return 0;
    return (int32_t)(dtype == QB_DTYPE_U8 ? pick(rng, 1, 255) : pick(rng, -128, 127));
}

static qb_dtype code_type(qb_rng *rng) { return chance(rng, 65) ? QB_DTYPE_U8 : QB_DTYPE_S8; }

static void random_operands(qb_rng *rng, conv_spec *s) {
    static const qb_act_kind kinds[] = {
        QB_ACT_NONE,       QB_ACT_RELU,         QB_ACT_RELU,     QB_ACT_CLIP, QB_ACT_LEAKY_RELU,
        QB_ACT_HARD_SWISH, QB_ACT_HARD_SIGMOID, QB_ACT_SILU,     QB_ACT_GELU, QB_ACT_SIGMOID,
        QB_ACT_TANH,       QB_ACT_ELU,          QB_ACT_GELU_TANH};
    s->in = code_type(rng);
    s->out = chance(rng, 80) ? code_type(rng) : chance(rng, 50) ? QB_DTYPE_F16 : QB_DTYPE_F32;
    s->in_zero = random_zero(rng, s->in);
    s->out_zero = random_zero(rng, s->out);
    s->bias = chance(rng, 75) ? QB_DTYPE_S32 : chance(rng, 50) ? QB_DTYPE_F32 : QB_DTYPE_NONE;
    if (chance(rng, 40))
        s->residual = chance(rng, 75)   ? code_type(rng)
                      : chance(rng, 50) ? QB_DTYPE_F16
                                        : QB_DTYPE_F32;
    s->residual_zero = random_zero(rng, s->residual);
    s->act.kind = kinds[pick(rng, 0, (int64_t)(sizeof kinds / sizeof *kinds) - 1)];
    s->act.alpha = s->act.kind == QB_ACT_HARD_SIGMOID ? 0.2f
                   : s->act.kind == QB_ACT_CLIP       ? -0.3f
                                                      : 0.1f;
    s->act.beta = s->act.kind == QB_ACT_HARD_SIGMOID ? 0.5f : 0.9f;
    s->act_first = s->residual != QB_DTYPE_NONE && chance(rng, 30);
    s->per_channel = chance(rng, 80);
}

/* Windows side by side, as the patches of a vision transformer. */
static void random_patches(qb_rng *rng, conv_spec *s) {
    s->kernel_h = s->kernel_w = s->stride = chance(rng, 50) ? 4 : 8;
    s->in_c = chance(rng, 50) ? 4 : 8 * pick(rng, 1, 3);
    s->in_h = s->kernel_h * pick(rng, 1, 4) + pick(rng, 0, 2);
    s->in_w = s->kernel_w * pick(rng, 1, 4);
    s->pad_top = s->pad_left = s->pad_bottom = s->pad_right = s->in_slice = 0;
    s->dilation = s->group = 1;
    s->weight = QB_DTYPE_S8;
}

static void random_depthwise(qb_rng *rng, conv_spec *s) {
    s->kernel_h = s->kernel_w = chance(rng, 30) ? 1 : chance(rng, 60) ? 3 : chance(rng, 50) ? 5 : 7;
    s->group = s->in_c = s->out_c = 8 * pick(rng, 1, 20);
    s->in_h = pick(rng, 5, 19);
    s->in_w = pick(rng, 5, 19);
    s->stride = pick(rng, 1, 2);
    s->pad_top = s->pad_left = s->pad_bottom = s->pad_right =
        s->kernel_h == 7 ? pick(rng, 1, 3) : pick(rng, 0, 2);
    s->dilation = 1;
    s->weight = QB_DTYPE_S8;
    s->in_slice = chance(rng, 30) ? 8 * pick(rng, 1, 3) : 0;
}

/* The first layer of a network; most of them end as most do, in quantized values of an even count.
 */
static void random_stem(qb_rng *rng, conv_spec *s) {
    static const qb_act_kind ends[] = {QB_ACT_RELU, QB_ACT_NONE, QB_ACT_SILU, QB_ACT_GELU};
    if (chance(rng, 75)) {
        s->out = code_type(rng);
        s->out_c = chance(rng, 60) ? 16 * pick(rng, 1, 2) : 16 * pick(rng, 1, 8);
        s->out_slice = 0;
        s->residual = QB_DTYPE_NONE;
        s->act = (qb_act){.kind = ends[pick(rng, 0, 3)]};
        s->act_first = false;
    }
    s->kernel_h = s->kernel_w = chance(rng, 25) ? 6 : 3 + 2 * pick(rng, 0, 2);
    s->in_c = pick(rng, 1, 4);
    s->in_h = pick(rng, 7, 30);
    s->in_w = pick(rng, 7, 90);
    s->stride = pick(rng, 1, 2);
    s->pad_top = s->pad_left = s->pad_bottom = s->pad_right = s->kernel_h / 2;
    s->dilation = s->group = 1;
    s->weight = QB_DTYPE_S8;
    s->in_slice = chance(rng, 15) ? pick(rng, 1, 5) : 0;
}

/* Windows of one pixel that end in quantized values, half of them with a residual. */
static void random_pointwise(qb_rng *rng, conv_spec *s) {
    s->kernel_h = s->kernel_w = s->stride = s->dilation = s->group = 1;
    s->pad_top = s->pad_left = s->pad_bottom = s->pad_right = 0;
    s->in_c = 16 * pick(rng, 1, 20);
    s->out_c = 16 * pick(rng, 1, 20);
    s->in_slice = 16 * pick(rng, 0, 1);
    s->out_slice = 16 * pick(rng, 0, 1);
    s->weight = QB_DTYPE_S8;
    s->bias = chance(rng, 80) ? QB_DTYPE_S32 : QB_DTYPE_NONE;
    s->out = code_type(rng);
    s->out_zero = chance(rng, 50) ? random_zero(rng, s->out) : s->out == QB_DTYPE_U8 ? 0 : -128;
    s->residual = chance(rng, 50) ? code_type(rng) : QB_DTYPE_NONE;
    s->residual_zero = random_zero(rng, s->residual);
    s->act = (qb_act){.kind = chance(rng, 70)   ? QB_ACT_RELU
                              : chance(rng, 50) ? QB_ACT_NONE
                                                : QB_ACT_CLIP,
                      .alpha = -0.3f,
                      .beta = 0.9f};
    s->act_first = false;
}

/* The same of windows of several rows, a stride apart, or through SiLU. */
static void random_window(qb_rng *rng, conv_spec *s) {
    random_pointwise(rng, s);
    s->kernel_h = pick(rng, 2, 5);
    s->kernel_w = chance(rng, 50) ? s->kernel_h : pick(rng, 1, 5);
    s->in_c = 16 * pick(rng, 1, 8);
    s->in_h = pick(rng, 5, 40);
    s->in_w = pick(rng, 5, 90);
    s->pad_top = pick(rng, 0, s->kernel_h - 1);
    s->pad_bottom = pick(rng, 0, s->kernel_h - 1);
    s->pad_left = pick(rng, 0, s->kernel_w - 1);
    s->pad_right = pick(rng, 0, s->kernel_w - 1);
    if (chance(rng, 40)) s->act.kind = QB_ACT_SILU;
    if (s->act.kind == QB_ACT_SILU) s->act_first = chance(rng, 50);
}

/* Channels on no boundary, in pixels that lie on one. */
static void random_padding(qb_rng *rng, conv_spec *s) {
    s->padded = true;
    s->in_slice = s->out_slice = s->residual_slice = 0;
    s->weight = QB_DTYPE_S8;
    if (s->group > 1 && s->group == s->in_c && s->in_c == s->out_c) {
        s->group = s->in_c = s->out_c = pick(rng, 9, 150);
    } else if (s->in_c > 4) {
        s->group = 1;
        s->in_c = pick(rng, 9, 150);
    }
    if (s->group == 1) s->out_c = pick(rng, 9, 150);
}

conv_spec conv_spec_random(qb_rng *rng) {
    static const int64_t kernels[] = {1, 1, 3, 3, 2, 5, 7};
    conv_spec s = {.batch = pick(rng, 1, 5), .group = 1, .weight = QB_DTYPE_S8};
    bool odd = chance(rng, 20); /* channels that no 16-byte copy fits */
    s.in_c = odd ? pick(rng, 1, 40) : 16 * pick(rng, 1, chance(rng, 50) ? 4 : 20);
    s.out_c = chance(rng, 25)   ? pick(rng, 1, 150)
              : chance(rng, 25) ? 8 * pick(rng, 1, 40)
                                : 16 * pick(rng, 1, 20);
    s.in_h = pick(rng, 1, 19);
    s.in_w = pick(rng, 1, 19);
    s.kernel_h = kernels[pick(rng, 0, 6)];
    s.kernel_w = chance(rng, 75) ? s.kernel_h : kernels[pick(rng, 0, 6)];
    s.stride = chance(rng, 60) ? 1 : pick(rng, 2, 3);
    s.dilation = chance(rng, 80) ? 1 : 2;
    if (odd && chance(rng, 40)) {
        s.group = pick(rng, 2, 5);
        s.in_c *= s.group;
        s.out_c = chance(rng, 50) ? s.in_c : s.group * pick(rng, 1, 8);
    }
    if (odd && chance(rng, 40)) s.weight = QB_DTYPE_U8;
    s.pad_top = pick(rng, 0, s.kernel_h / 2);
    s.pad_bottom = pick(rng, 0, s.kernel_h / 2);
    s.pad_left = pick(rng, 0, s.kernel_w / 2);
    s.pad_right = pick(rng, 0, s.kernel_w / 2);
    while (out_side(s.in_h, s.pad_top, s.pad_bottom, s.kernel_h, 1, s.dilation) < 1) s.in_h++;
    while (out_side(s.in_w, s.pad_left, s.pad_right, s.kernel_w, 1, s.dilation) < 1) s.in_w++;
    random_operands(rng, &s);
    s.in_slice = chance(rng, 20) ? 16 * pick(rng, 1, 3) : 0;
    s.out_slice = chance(rng, 20) ? (chance(rng, 70) ? 16 : 3) * pick(rng, 1, 3) : 0;
    s.residual_slice = chance(rng, 10) ? 16 * pick(rng, 1, 3) : 0;
    if (chance(rng, 10)) random_pointwise(rng, &s);
    if (chance(rng, 8)) random_patches(rng, &s);
    if (chance(rng, 8)) random_depthwise(rng, &s);
    if (chance(rng, 15)) random_stem(rng, &s);
    if (chance(rng, 12)) random_window(rng, &s);
    if (chance(rng, 20)) random_padding(rng, &s);
    if (s.residual != QB_DTYPE_NONE && !qb_cuda_is_smooth(s.act.kind) && chance(rng, 40))
        s.rounding = code_type(rng);
    s.rounding_zero = random_zero(rng, s.rounding);
    return s;
}

static bool is_quantized(qb_dtype dtype) { return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8; }

void conv_spec_as_f16(conv_spec *s) {
    s->in = QB_DTYPE_F16;
    s->weight = QB_DTYPE_F32;
    if (s->bias != QB_DTYPE_NONE) s->bias = QB_DTYPE_F32;
    if (is_quantized(s->out)) s->out = QB_DTYPE_F16;
    if (is_quantized(s->residual)) s->residual = QB_DTYPE_F16;
    s->in_zero = s->out_zero = s->residual_zero = 0;
    s->per_channel = false;
    s->rounding = QB_DTYPE_NONE;
}

char *conv_spec_text(const conv_spec *s, char *text, size_t n) {
    snprintf(text, n,
             "%lldx%lldx%lldx%lld -> %lld, %lldx%lld/%lld dil %lld pad %lld %lld %lld %lld group "
             "%lld, %s(%d) x %s -> %s(%d), bias %s, residual %s(%d), rounding %s(%d), %s%s%s, "
             "slices %lld %lld "
             "%lld%s, pool %lldx%lld/%lld,%lld pad %lld,%lld %lld,%lld",
             (long long)s->batch, (long long)s->in_c, (long long)s->in_h, (long long)s->in_w,
             (long long)s->out_c, (long long)s->kernel_h, (long long)s->kernel_w,
             (long long)s->stride, (long long)s->dilation, (long long)s->pad_top,
             (long long)s->pad_left, (long long)s->pad_bottom, (long long)s->pad_right,
             (long long)s->group, qb_dtype_text(s->in), s->in_zero, qb_dtype_text(s->weight),
             qb_dtype_text(s->out), s->out_zero, qb_dtype_text(s->bias), qb_dtype_text(s->residual),
             s->residual_zero, qb_dtype_text(s->rounding), s->rounding_zero,
             qb_act_text(s->act.kind), s->act_first ? " first" : "",
             s->per_channel ? "" : ", per tensor", (long long)s->in_slice, (long long)s->out_slice,
             (long long)s->residual_slice, s->padded ? " padded" : "", (long long)s->pool.kernel[0],
             (long long)s->pool.kernel[1], (long long)s->pool.stride[0],
             (long long)s->pool.stride[1], (long long)s->pool.pad_begin[0],
             (long long)s->pool.pad_begin[1], (long long)s->pool.pad_end[0],
             (long long)s->pool.pad_end[1]);
    return text;
}

static void set_desc(qb_desc *d, qb_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                     const float *scale, const int32_t *zero) {
    *d = (qb_desc){
        .dtype = dtype, .layout = QB_LAYOUT_ROW, .shape = {.rank = 4, .dim = {n, c, h, w}}};
    if (dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8)
        d->q = (qb_qparams){.dtype = dtype, .axis = -1, .n = 1, .scale = scale, .zero = zero};
}

static void random_bytes(qb_rng *rng, char *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = (char)qb_rng_below(rng, 256);
}

/* Values of the type around `size`. */
static void random_values(qb_rng *rng, qb_dtype dtype, char *to, int64_t n, float size) {
    if (dtype == QB_DTYPE_F32)
        for (int64_t i = 0; i < n; i++) ((float *)(void *)to)[i] = size * (float)qb_rng_normal(rng);
    else if (dtype == QB_DTYPE_F16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)to)[i] = qb_f32_to_f16(size * (float)qb_rng_normal(rng));
    else
        random_bytes(rng, to, n);
}

/* Factors of a sum: any bytes, or eighths from -1 to 1, whose sums are exact in any order. */
static void random_factors(qb_rng *rng, qb_dtype dtype, char *to, int64_t n) {
    if (dtype != QB_DTYPE_F16 && dtype != QB_DTYPE_F32) {
        random_bytes(rng, to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float value = 0.125f * (float)pick(rng, -8, 8);
        if (dtype == QB_DTYPE_F32)
            ((float *)(void *)to)[i] = value;
        else
            ((uint16_t *)(void *)to)[i] = qb_f32_to_f16(value);
    }
}

/* Scales that spread the results over the quantized values. */
static void set_scales(conv_case *c, qb_rng *rng) {
    const conv_spec *s = &c->spec;
    double k = (double)(s->in_c / s->group * s->kernel_h * s->kernel_w), mean = 0;
    int64_t n = s->per_channel ? s->out_c : 1;
    c->scale[0] = 0.01f + 0.02f * (float)qb_rng_uniform(rng);
    for (int64_t i = 0; i < n; i++) {
        c->weight_scale[i] = 0.001f + 0.004f * (float)qb_rng_uniform(rng);
        c->weight_zero[i] = s->weight == QB_DTYPE_U8 ? (int32_t)pick(rng, 100, 150) : 0;
        mean += (double)c->weight_scale[i] / (double)n;
    }
    double spread = sqrt(k) * 90.0 * 74.0 * (double)c->scale[0] * mean;
    c->scale[1] = (float)(spread * (0.5 + qb_rng_uniform(rng)) / 60.0);
    c->scale[2] = c->scale[1] * (0.3f + (float)qb_rng_uniform(rng));
    c->spec.act.alpha *= s->act.kind == QB_ACT_CLIP ? (float)spread : 1.0f;
    c->spec.act.beta *= s->act.kind == QB_ACT_CLIP ? (float)spread : 1.0f;
}

static void set_problem(conv_case *c) {
    const conv_spec *s = &c->spec;
    qb_problem *p = &c->problem;
    int64_t h = out_side(s->in_h, s->pad_top, s->pad_bottom, s->kernel_h, s->stride, s->dilation);
    int64_t w = out_side(s->in_w, s->pad_left, s->pad_right, s->kernel_w, s->stride, s->dilation);
    set_desc(&c->in[0], s->in, s->batch, s->in_c, s->in_h, s->in_w, &c->scale[0], &c->spec.in_zero);
    set_desc(&c->in[1], s->weight, s->out_c, s->in_c / s->group, s->kernel_h, s->kernel_w,
             c->weight_scale, c->weight_zero);
    if (s->weight != QB_DTYPE_F32) {
        c->in[1].q.n = s->per_channel ? (int32_t)s->out_c : 1;
        c->in[1].q.axis = s->per_channel ? 0 : -1;
    }
    if (s->weight == QB_DTYPE_S8) c->in[1].q.zero = NULL;
    c->in[2] = (qb_desc){.dtype = s->bias, .shape = {.rank = 1, .dim = {s->out_c}}};
    set_desc(&c->in[3], s->residual, s->batch, s->out_c, h, w, &c->scale[2],
             &c->spec.residual_zero);
    *p = (qb_problem){
        .kind = QB_KIND_CONV, .n_in = 4, .in = c->in, .group = s->group, .scale = 1.0f};
    set_desc(&p->out, s->out, s->batch, s->out_c, h, w, &c->scale[1], &c->spec.out_zero);
    p->window = (qb_window){.n = 2,
                            .kernel = {s->kernel_h, s->kernel_w},
                            .stride = {s->stride, s->stride},
                            .dilation = {s->dilation, s->dilation},
                            .pad_begin = {s->pad_top, s->pad_left},
                            .pad_end = {s->pad_bottom, s->pad_right}};
    if (s->pool.n > 0) {
        p->kind = QB_KIND_CONV_POOL;
        p->after = s->pool;
        for (int32_t d = 0; d < 2; d++)
            p->out.shape.dim[2 + d] =
                out_side(p->out.shape.dim[2 + d], s->pool.pad_begin[d], s->pool.pad_end[d],
                         s->pool.kernel[d], s->pool.stride[d], 1);
    }
    p->act = s->act;
    p->act_first = s->act_first;
    p->rounding = (qb_rounding){s->rounding, 0.8f * c->scale[1], s->rounding_zero};
    c->constant[QB_IN_WEIGHT] = c->constant[QB_IN_BIAS] = true;
}

/* The reference takes data in floats. */
static qb_status set_expected_of_f16(qb_ctx *cx, conv_case *c) {
    const int64_t n = count_of(&c->in[QB_IN_DATA]);
    float *data = qb_alloc(cx, (size_t)n, sizeof *data);
    if (!data) return cx->code;
    for (int64_t i = 0; i < n; i++)
        data[i] = qb_f16_to_f32(((const uint16_t *)(const void *)c->data)[i]);
    const void *in[4] = {data, c->weight, c->bias, c->residual};
    qb_desc desc[4];
    qb_problem problem = c->problem;
    memcpy(desc, c->in, sizeof desc);
    desc[QB_IN_DATA].dtype = QB_DTYPE_F32;
    problem.in = desc;
    qb_status status = qb_ref_check(cx, &problem);
    if (status == QB_OK) qb_ref_conv(&problem, in, c->expected, qb_threads(cx));
    qb_free(data);
    return status;
}

/* A pool's are those of the quantized values of the whole convolution. */
static qb_status set_expected(qb_ctx *cx, conv_case *c) {
    const void *in[4] = {c->data, c->weight, c->bias, c->residual};
    qb_problem conv, pool;
    qb_desc between;
    if (c->spec.in == QB_DTYPE_F16) return set_expected_of_f16(cx, c);
    QB_TRY(qb_ref_check(cx, &c->problem));
    if (c->problem.kind == QB_KIND_CONV) {
        qb_ref_conv(&c->problem, in, c->expected, qb_threads(cx));
        return QB_OK;
    }
    qb_problem_parts(&c->problem, &between, &conv, &pool);
    void *quantized = qb_alloc(cx, qb_desc_bytes(&between), 1);
    if (!quantized) return cx->code;
    qb_ref_conv(&conv, in, quantized, qb_threads(cx));
    qb_ref_pool(&pool, (const void *[]){quantized}, c->expected, NULL, qb_threads(cx));
    qb_free(quantized);
    return QB_OK;
}

qb_status conv_case_init(qb_ctx *cx, conv_case *c, const conv_spec *spec, qb_rng *rng) {
    *c = (conv_case){.spec = *spec};
    c->weight_scale = qb_alloc(cx, (size_t)spec->out_c, sizeof(float));
    c->weight_zero = qb_alloc(cx, (size_t)spec->out_c, sizeof(int32_t));
    if (!c->weight_scale || !c->weight_zero) return QB_STATUS_NOMEM;
    set_scales(c, rng);
    set_problem(c);
    c->n_out = count_of(&c->problem.out);
    c->data = qb_alloc(cx, (size_t)count_of(&c->in[0]), qb_dtype_size(spec->in));
    c->weight = qb_alloc(cx, (size_t)count_of(&c->in[1]), qb_dtype_size(spec->weight));
    c->bias = qb_alloc(cx, (size_t)spec->out_c, 4);
    c->residual = qb_alloc(cx, (size_t)c->n_out, 4);
    c->expected = qb_alloc(cx, (size_t)c->n_out, 4);
    if (!c->data || !c->weight || !c->bias || !c->residual || !c->expected) return QB_STATUS_NOMEM;
    random_factors(rng, spec->in, c->data, count_of(&c->in[0]));
    random_factors(rng, spec->weight, c->weight, count_of(&c->in[1]));
    if (spec->in == QB_DTYPE_F16)
        random_factors(rng, QB_DTYPE_F32, c->bias, spec->out_c);
    else if (spec->bias == QB_DTYPE_S32)
        for (int64_t i = 0; i < spec->out_c; i++)
            ((int32_t *)(void *)c->bias)[i] = (int32_t)pick(rng, -20000, 20000);
    else
        random_values(rng, QB_DTYPE_F32, c->bias, spec->out_c, 20.0f * c->scale[1]);
    if (spec->residual != QB_DTYPE_NONE)
        random_values(rng, spec->residual, c->residual, c->n_out, 30.0f * c->scale[1]);
    c->constants[QB_IN_WEIGHT] = c->weight;
    c->constants[QB_IN_BIAS] = c->bias;
    return set_expected(cx, c);
}

void conv_case_release(conv_case *c) {
    qb_free(c->weight_scale);
    qb_free(c->weight_zero);
    qb_free(c->data);
    qb_free(c->weight);
    qb_free(c->bias);
    qb_free(c->residual);
    qb_free(c->expected);
}

/* Between row-major without a slice (`rows`) and channels last inside a buffer of `total` channels;
 * elements of `size` bytes. */
static void move_channels(char *last, char *rows, const qb_desc *d, int64_t offset, int64_t total,
                          bool to_last) {
    size_t size = qb_dtype_size(d->dtype);
    int64_t plane = d->shape.dim[2] * d->shape.dim[3], channels = d->shape.dim[1];
    for (int64_t n = 0; n < d->shape.dim[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < plane; i++) {
                char *a = last + (size_t)((n * plane + i) * total + offset + c) * size;
                char *b = rows + (size_t)((n * channels + c) * plane + i) * size;
                memcpy(to_last ? a : b, to_last ? b : a, size);
            }
}

/* A device buffer with guards, and the host's copy of all of it. */
typedef struct guarded {
    char *host, *device;
    size_t bytes;
} guarded;

static qb_status guarded_open(qb_ctx *cx, guarded *g, size_t bytes) {
    g->bytes = bytes;
    g->host = qb_alloc(cx, bytes + 2 * GUARD, 1);
    if (!g->host) return QB_STATUS_NOMEM;
    memset(g->host, GUARD_BYTE, bytes + 2 * GUARD);
    memset(g->host + GUARD, POISON, bytes);
    return qb_cuda_alloc(cx, bytes + 2 * GUARD, (void **)&g->device);
}

static qb_status guarded_send(qb_ctx *cx, guarded *g) {
    return qb_cuda_upload(cx, g->device, g->host, g->bytes + 2 * GUARD, NULL);
}

static qb_status guarded_check(qb_ctx *cx, guarded *g, const char *what) {
    QB_TRY(qb_cuda_download(cx, g->host, g->device, g->bytes + 2 * GUARD, NULL));
    QB_TRY(qb_cuda_sync(cx, NULL));
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)g->host[i] != GUARD_BYTE ||
            (unsigned char)g->host[GUARD + g->bytes + i] != GUARD_BYTE)
            return qb_fail(cx, QB_STATUS_CHECK, "%s: a guard was overwritten", what);
    return QB_OK;
}

static void guarded_close(guarded *g) {
    qb_cuda_free(g->device);
    qb_free(g->host);
}

static void pad_channels(qb_desc *d) {
    const int64_t unit = 16 / (int64_t)qb_dtype_size(d->dtype);
    d->channel_total = (d->shape.dim[1] + unit - 1) / unit * unit;
    d->padded = true;
}

/* Gives the problem its layouts and slices. */
void conv_case_on_device(const conv_case *c, qb_problem *p, qb_desc in[4]) {
    const conv_spec *s = &c->spec;
    int64_t slice[4] = {s->in_slice, 0, 0, s->residual_slice};
    *p = c->problem;
    memcpy(in, c->in, 4 * sizeof *in);
    p->in = in;
    for (int i = 0; i < 4; i += 3) {
        in[i].layout = QB_LAYOUT_NHWC;
        if (slice[i]) {
            in[i].channel_offset = slice[i];
            in[i].channel_total = in[i].shape.dim[1] + 2 * slice[i];
        }
        if (s->padded && qb_problem_has(p, i)) pad_channels(&in[i]);
    }
    p->out.layout = QB_LAYOUT_NHWC;
    if (s->padded) pad_channels(&p->out);
    if (s->out_slice) {
        p->out.channel_offset = s->out_slice;
        p->out.channel_total = s->out_c + 2 * s->out_slice;
    }
}

static int64_t total_of(const qb_desc *d) {
    return d->channel_total > 0 ? d->channel_total : d->shape.dim[1];
}

/* Channels of the result's buffer outside of the slice and its padding keep their poison. */
static qb_status check_outside(qb_ctx *cx, const qb_desc *out, const guarded *g) {
    int64_t total = total_of(out), pixels = qb_shape_count(&out->shape) / out->shape.dim[1];
    size_t size = qb_dtype_size(out->dtype);
    for (int64_t i = 0; i < pixels * total; i++) {
        int64_t channel = i % total - out->channel_offset;
        if (channel >= 0 && (out->padded || channel < out->shape.dim[1])) continue;
        for (size_t b = 0; b < size; b++)
            if ((unsigned char)g->host[GUARD + (size_t)i * size + b] != POISON)
                return qb_fail(cx, QB_STATUS_CHECK, "result: wrote outside of its slice");
    }
    return QB_OK;
}

enum { DATA, RESIDUAL, PACKED, WORKSPACE, RESULT, BUFFERS };

static qb_status run_kernel(qb_ctx *cx, const conv_case *c, qb_kernel *kernel, guarded *g) {
    const qb_problem *p = &kernel->problem;
    const qb_desc *x = &p->in[QB_IN_DATA], *r = &p->in[QB_IN_RESIDUAL];
    bool has_residual = qb_problem_has(p, QB_IN_RESIDUAL);
    QB_TRY(guarded_open(cx, &g[DATA], qb_desc_bytes(x)));
    if (c->spec.padded) memset(g[DATA].host + GUARD, 0xff, qb_desc_bytes(x)); /* f16: NaN */
    move_channels(g[DATA].host + GUARD, c->data, x, x->channel_offset, total_of(x), true);
    QB_TRY(guarded_open(cx, &g[RESIDUAL], has_residual ? qb_desc_bytes(r) : 0));
    if (has_residual)
        move_channels(g[RESIDUAL].host + GUARD, c->residual, r, r->channel_offset, total_of(r),
                      true);
    QB_TRY(guarded_open(cx, &g[PACKED], kernel->packed_bytes));
    QB_TRY(kernel->pack(cx, kernel, c->constants, g[PACKED].host + GUARD));
    QB_TRY(guarded_open(cx, &g[WORKSPACE], kernel->workspace_bytes));
    QB_TRY(guarded_open(cx, &g[RESULT], qb_desc_bytes(&p->out)));
    for (int i = 0; i < BUFFERS; i++) QB_TRY(guarded_send(cx, &g[i]));
    const void *in[4] = {g[DATA].device + GUARD, NULL, NULL,
                         has_residual ? g[RESIDUAL].device + GUARD : NULL};
    qb_launch launch = {.in = in,
                        .out = g[RESULT].device + GUARD,
                        .packed = g[PACKED].device + GUARD,
                        .workspace = g[WORKSPACE].device + GUARD};
    QB_TRY(kernel->launch(cx, kernel, &launch));
    QB_TRY(qb_cuda_sync(cx, NULL));
    static const char *const names[BUFFERS] = {"data", "residual", "packed", "workspace", "result"};
    for (int i = 0; i < BUFFERS; i++) QB_TRY(guarded_check(cx, &g[i], names[i]));
    return check_outside(cx, &p->out, &g[RESULT]);
}

qb_status conv_case_run(qb_ctx *cx, const conv_case *c, const qb_tactic *tactic, char *got) {
    qb_problem problem;
    qb_desc in[4];
    qb_kernel *kernel = NULL;
    guarded g[BUFFERS] = {0};
    conv_case_on_device(c, &problem, in);
    if (!qb_tactic_takes(tactic, &problem, c->constant))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not supported", tactic->name);
    QB_TRY(tactic->create(cx, tactic, &problem, c->constant, 1, &kernel));
    qb_status status = run_kernel(cx, c, kernel, g);
    if (status == QB_OK)
        move_channels(g[RESULT].host + GUARD, got, &kernel->problem.out,
                      kernel->problem.out.channel_offset, total_of(&kernel->problem.out), false);
    for (int i = 0; i < BUFFERS; i++) guarded_close(&g[i]);
    qb_kernel_free(kernel);
    return status;
}

static double float_at(qb_dtype dtype, const char *data, int64_t i) {
    return qb_number_get(dtype, data, i);
}

/* What a float result of a smooth activation may be off by, `largest` being the largest result.
 *
 * Before the store: the reference rounds the scaled sum, and the sum with its bias, each to 2^-24
 * of themselves; a kernel may round once. Activations have slopes of at most 1.13, so that this
 * comes to less than 2^-20 of the largest result; where all results are small because the
 * activation is flat there, so is the slope. Functions of the device are within 2^-22 of results up
 * to 1, and the kernels' erf is within 1.5e-7 where it is not flat, below |x| = 6: 0.5 |x| 1.5e-7 <
 * 2^-21.
 *
 * An f16 store moves both results by at most half the distance of neighbours, so that they end up
 * one such distance further apart at most: 2^-10 of the power of two below the value, and 2^-24 at
 * least. */
static double allowance(qb_dtype dtype, double value, double largest) {
    int exponent;
    double before = 0x1p-21 + 0x1p-20 * largest;
    if (dtype != QB_DTYPE_F16) return before;
    frexp(value, &exponent); /* value = f 2^exponent, 0.5 <= |f| < 1 */
    return before + fmax(ldexp(0x1p-11, exponent), 0x1p-24);
}

double conv_case_distance(const conv_case *c, const char *got) {
    double worst = 0.0, largest = 0.0;
    bool quantized = c->spec.out == QB_DTYPE_U8 || c->spec.out == QB_DTYPE_S8;
    for (int64_t i = 0; i < c->n_out; i++)
        largest = fmax(largest, fabs(float_at(c->spec.out, c->expected, i)));
    for (int64_t i = 0; i < c->n_out; i++) {
        double a = float_at(c->spec.out, got, i), b = float_at(c->spec.out, c->expected, i);
        double off = quantized ? fabs(a - b) : fabs(a - b) / allowance(c->spec.out, b, largest);
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

#include "random_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref.h"
#include "qb_test.h"
#include "random_attention.h"
#include "random_integer.h"
#include "random_lines.h"
#include "random_node.h"
#include "random_recurrent.h"

int64_t random_between(qb_rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)qb_rng_below(rng, (uint64_t)(high - low + 1));
}

bool random_chance(qb_rng *rng, int percent) { return random_between(rng, 1, 100) <= percent; }

/* Sizes around the widths of vectors and blocks. */
static int64_t random_channels(qb_rng *rng) {
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  12, 15, 16, 17,
                                    20, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80};
    return sizes[qb_rng_below(rng, sizeof sizes / sizeof *sizes)];
}

static int64_t channels_of(qb_rng *rng, const random_case *c) {
    return c->wide ? 16 * random_between(rng, 1, 16) : random_channels(rng);
}

/* Of a result, so that its quantized values are not all at an end. */
static float scale_of_sums(const random_case *c) { return c->wide ? 0.1f : 0.02f; }

static qb_act random_act(qb_rng *rng) {
    switch (random_between(rng, 0, 9)) {
    case 0:
    case 1: return (qb_act){.kind = QB_ACT_RELU};
    case 2: return (qb_act){.kind = QB_ACT_CLIP, .alpha = -0.5f, .beta = 0.75f};
    case 3: return (qb_act){.kind = QB_ACT_CLIP, .alpha = 0.0f, .beta = 6.0f};
    case 4: return (qb_act){.kind = QB_ACT_LEAKY_RELU, .alpha = 0.1f};
    case 5:
        return (qb_act){.kind = (qb_act_kind)random_between(rng, QB_ACT_SIGMOID, QB_ACT_ELU),
                        .alpha = 0.2f,
                        .beta = 0.5f};
    default: return (qb_act){.kind = QB_ACT_NONE};
    }
}

static void set_float(qb_desc *desc) {
    desc->dtype = QB_DTYPE_F32;
    desc->q = (qb_qparams){.axis = -1};
}

/* u8 or s8 with one random scale and zero point in slot `i` of the case. */
static void set_quantized(qb_rng *rng, random_case *c, int i, qb_desc *desc, float scale) {
    desc->dtype = random_chance(rng, 70) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[i] = scale * (float)(0.5 + qb_rng_uniform(rng));
    c->zero[i] = (int32_t)random_between(rng, desc->dtype == QB_DTYPE_U8 ? 0 : -128,
                                         desc->dtype == QB_DTYPE_U8 ? 255 : 127);
    if (random_chance(rng, 40)) c->zero[i] = 0;
    desc->q = (qb_qparams){desc->dtype, -1, 1, &c->scale[i], &c->zero[i]};
}

static void set_either(qb_rng *rng, random_case *c, int i, qb_desc *desc, bool quantized,
                       float scale) {
    if (quantized)
        set_quantized(rng, c, i, desc, scale);
    else
        set_float(desc);
}

/* One scale or one an output channel; most weights are s8 and symmetric, the others have any zero
 * points, u8 ones often the middle. */
static void set_weight(qb_ctx *cx, qb_rng *rng, random_case *c, int32_t axis) {
    qb_desc *w = &c->in[QB_IN_WEIGHT];
    int32_t n = random_chance(rng, 70) ? (int32_t)w->shape.dim[axis] : 1;
    c->weight_scale = qb_alloc(cx, (size_t)n, sizeof(float));
    assert_non_null(c->weight_scale);
    for (int32_t i = 0; i < n; i++)
        c->weight_scale[i] = (float)(0.002 + 0.01 * qb_rng_uniform(rng));
    w->dtype = QB_DTYPE_S8;
    w->q = (qb_qparams){QB_DTYPE_S8, n == 1 ? -1 : axis, n, c->weight_scale, NULL};
    if (random_chance(rng, 65)) return;
    if (random_chance(rng, 65)) w->dtype = w->q.dtype = QB_DTYPE_U8;
    const int64_t low = w->dtype == QB_DTYPE_U8 ? 0 : -128;
    const bool middle = random_chance(rng, 30);
    c->weight_zero = qb_alloc(cx, (size_t)n, sizeof *c->weight_zero);
    assert_non_null(c->weight_zero);
    for (int32_t i = 0; i < n; i++)
        c->weight_zero[i] = (int32_t)(middle ? low + 128 : random_between(rng, low, low + 255));
    w->q.zero = c->weight_zero;
}

static void set_bias(qb_rng *rng, random_case *c, int64_t n, bool integer) {
    qb_desc *bias = &c->in[QB_IN_BIAS];
    bias->dtype = random_chance(rng, 30)              ? QB_DTYPE_NONE
                  : integer && random_chance(rng, 80) ? QB_DTYPE_S32
                                                      : QB_DTYPE_F32;
    bias->shape = qb_shape_of(1, (int)n);
    c->constant[QB_IN_BIAS] = true;
}

/* `integer`: of sums of integers, which may be rounded before the residual is added. */
static void set_residual(qb_rng *rng, random_case *c, bool integer) {
    qb_desc *r = &c->in[QB_IN_RESIDUAL];
    if (random_chance(rng, 65)) return;
    r->shape = c->problem.out.shape;
    set_either(rng, c, QB_IN_RESIDUAL, r, random_chance(rng, 60), 0.01f);
    c->problem.act_first = random_chance(rng, 30);
    if (!integer || random_chance(rng, 60)) return;
    const bool is_u8 = random_chance(rng, 50);
    c->problem.rounding =
        (qb_rounding){.dtype = is_u8 ? QB_DTYPE_U8 : QB_DTYPE_S8,
                      .scale = scale_of_sums(c) * (float)(0.3 + qb_rng_uniform(rng)),
                      .zero = (int32_t)random_between(rng, is_u8 ? 0 : -128, is_u8 ? 255 : 127)};
}

/* A window that fits; returns false when the output would be empty. */
static bool random_window(qb_rng *rng, int32_t n, const qb_shape *in, bool pool, qb_window *w,
                          qb_shape *out) {
    w->n = n;
    for (int32_t d = 0; d < n; d++) {
        w->kernel[d] = random_chance(rng, 30) ? 1 : random_between(rng, 2, 5);
        w->stride[d] = random_between(rng, 1, 3);
        w->dilation[d] = random_chance(rng, 75) ? 1 : 2;
        int64_t most = pool ? w->kernel[d] - 1 : 3;
        w->pad_begin[d] = random_chance(rng, 40) ? 0 : random_between(rng, 0, most);
        w->pad_end[d] = random_chance(rng, 40) ? w->pad_begin[d] : random_between(rng, 0, most);
        int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        int64_t room = in->dim[2 + d] + w->pad_begin[d] + w->pad_end[d] - reach;
        if (room < 0) return false;
        out->dim[2 + d] = room / w->stride[d] + 1;
    }
    if (n == 2 && random_chance(rng, 40)) { /* the usual case: 3x3, the same both ways */
        for (int32_t d = 0; d < 2; d++) {
            w->kernel[d] = 3;
            w->stride[d] = w->stride[1];
            w->dilation[d] = 1;
            w->pad_begin[d] = w->pad_end[d] = 1;
            out->dim[2 + d] = (in->dim[2 + d] - 1) / w->stride[d] + 1;
        }
    }
    return true;
}

static qb_shape random_image(qb_rng *rng, int32_t spatial) {
    qb_shape shape = qb_shape_of(2 + spatial, (int)random_between(rng, 1, 3), 1, 1, 1, 1);
    for (int32_t d = 0; d < spatial; d++) shape.dim[2 + d] = random_between(rng, 1, 13);
    return shape;
}

/* Windows side by side. Of one pixel: a scale and a shift of each channel. */
static void apart_windows(int32_t spatial, int64_t side, const qb_shape *in, qb_window *w,
                          qb_shape *out) {
    for (int32_t d = 0; d < spatial; d++) {
        w->kernel[d] = w->stride[d] = side;
        w->dilation[d] = 1;
        w->pad_begin[d] = w->pad_end[d] = 0;
        out->dim[2 + d] = in->dim[2 + d] / side;
    }
}

/* Windows larger than the image, which padding makes room for. */
static void large_windows(qb_rng *rng, int32_t spatial, const qb_shape *in, qb_window *w,
                          qb_shape *out) {
    for (int32_t d = 0; d < spatial; d++) {
        w->kernel[d] = random_between(rng, 1, spatial == 1 ? 300 : spatial == 2 ? 21 : 7);
        w->stride[d] = random_between(rng, 1, 2);
        w->dilation[d] = random_chance(rng, 75) ? 1 : 2;
        const int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        w->pad_begin[d] = reach / 2;
        w->pad_end[d] = reach - 1 - reach / 2;
        out->dim[2 + d] = (in->dim[2 + d] - 1) / w->stride[d] + 1;
    }
}

/* The patches of a vision transformer. */
static void random_patches(qb_rng *rng, random_case *c, qb_shape *x, qb_shape *y) {
    const int64_t side = random_chance(rng, 50) ? 4 : 8;
    x->dim[1] = random_chance(rng, 50) ? 4 : 8;
    for (int32_t d = 0; d < 2; d++) x->dim[2 + d] = side * random_between(rng, 1, 3);
    apart_windows(2, side, x, &c->problem.window, y);
}

/* As Winograd's algorithm takes them. */
static void three_by_three(qb_rng *rng, int64_t *channels, int64_t *outputs, qb_shape *x,
                           qb_window *w, qb_shape *y) {
    const int64_t pad = random_between(rng, 0, 2);
    *channels = random_between(rng, 24, 80);
    *outputs = random_between(rng, 24, 80);
    x->dim[0] = y->dim[0] = random_between(rng, 1, 2);
    for (int32_t d = 0; d < 2; d++) {
        x->dim[2 + d] = random_between(rng, 9, 16);
        y->dim[2 + d] = x->dim[2 + d] + 2 * pad - 2;
        w->kernel[d] = 3;
        w->stride[d] = w->dilation[d] = 1;
        w->pad_begin[d] = w->pad_end[d] = pad;
    }
}

/* A factor and a term for each channel of an image, and nothing behind them. */
static bool is_normalization(const random_case *c) {
    qb_problem p = c->problem;
    p.in = c->in;
    return qb_problem_is_scale(&p);
}

static void leave_out_the_rest(random_case *c) {
    c->problem.act = (qb_act){.kind = QB_ACT_NONE};
    c->problem.act_first = false;
    c->in[QB_IN_RESIDUAL].dtype = QB_DTYPE_NONE;
    c->constant[QB_IN_WEIGHT] = true;
}

static bool make_conv(qb_ctx *cx, qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    int32_t spatial = random_chance(rng, 75) ? 2 : random_chance(rng, 50) ? 1 : 3;
    qb_shape x = random_image(rng, spatial);
    for (int32_t d = 0; c->wide && d < spatial; d++) x.dim[2 + d] = 1 + x.dim[2 + d] % 6;
    qb_shape y = x;
    bool integer = random_chance(rng, 50), transpose = p->kind == QB_KIND_CONV_TRANSPOSE;
    int64_t channels = channels_of(rng, c), outputs = channels_of(rng, c);
    p->group = 1;
    if (!c->wide && random_chance(rng, 35)) { /* depthwise */
        p->group = channels;
        outputs = channels * (random_chance(rng, 75) ? 1 : random_between(rng, 2, 4));
    } else if (!c->wide && random_chance(rng, 20)) { /* few channels a group */
        p->group = random_between(rng, 2, 40);
        channels = outputs = p->group << random_between(rng, 1, 3);
    } else if (!c->wide && random_chance(rng, 20)) {
        p->group = random_between(rng, 2, 3);
        channels = p->group * random_between(rng, 1, 20);
        outputs = p->group * random_between(rng, 1, 20);
    }
    x.dim[1] = channels;
    y.dim[1] = outputs;
    if (!random_window(rng, spatial, &x, false, &p->window, &y)) return false;
    if (!c->wide && p->group == channels && random_chance(rng, 30))
        apart_windows(spatial, 1, &x, &p->window, &y);
    else if (!c->wide && p->group == channels && random_chance(rng, 25))
        large_windows(rng, spatial, &x, &p->window, &y);
    if (c->wide && spatial == 2 && random_chance(rng, 25)) random_patches(rng, c, &x, &y);
    channels = x.dim[1];
    if (!c->wide && spatial == 2 && p->group == 1 && random_chance(rng, 8)) {
        three_by_three(rng, &channels, &outputs, &x, &p->window, &y);
        x.dim[1] = channels;
        y.dim[1] = outputs;
    }
    if (p->group == 1 && random_chance(rng, 8)) apart_windows(spatial, 1, &x, &p->window, &y);
    if (transpose) {
        qb_shape small = y; /* the convolution's output is the transposed one's input */
        y = x, x = small;
        x.dim[1] = channels;
        y.dim[1] = outputs;
    }
    c->in[QB_IN_DATA].shape = x;
    p->out.shape = y;
    qb_shape w = x;
    w.dim[0] = transpose ? channels : outputs;
    w.dim[1] = (transpose ? outputs : channels) / p->group;
    for (int32_t d = 0; d < spatial; d++) w.dim[2 + d] = p->window.kernel[d];
    c->in[QB_IN_WEIGHT].shape = w;
    c->constant[QB_IN_WEIGHT] = random_chance(rng, 85);
    set_either(rng, c, QB_IN_DATA, &c->in[QB_IN_DATA], integer, 0.01f);
    if (!integer)
        set_float(&c->in[QB_IN_WEIGHT]);
    else
        set_weight(cx, rng, c, transpose ? 1 : 0);
    if (integer && transpose && p->group > 1) /* no scale a channel */
        c->in[QB_IN_WEIGHT].q.n = 1, c->in[QB_IN_WEIGHT].q.axis = -1;
    set_bias(rng, c, outputs, integer);
    set_either(rng, c, CASE_INPUTS, &p->out, random_chance(rng, integer ? 80 : 20),
               scale_of_sums(c));
    p->n_in = p->kind == QB_KIND_CONV ? 4 : 3;
    if (p->kind == QB_KIND_CONV) set_residual(rng, c, integer);
    if (!integer && is_normalization(c) && random_chance(rng, 50)) leave_out_the_rest(c);
    return true;
}

/* A convolution, and a pool of its result. */
static bool make_conv_pool(qb_ctx *cx, qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    if (!make_conv(cx, rng, c)) return false;
    const qb_shape between = p->out.shape;
    if (!random_window(rng, p->window.n, &between, true, &p->after, &p->out.shape)) return false;
    for (int32_t d = 0; d < p->after.n; d++) /* no maxima of padding alone */
        if (between.dim[2 + d] < p->after.dilation[d]) return false;
    return true;
}

static bool make_matmul(qb_ctx *cx, qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    bool integer = random_chance(rng, 50), batched = random_chance(rng, 30);
    int m = (int)random_between(rng, 1, 40), k = (int)channels_of(rng, c);
    int n = (int)channels_of(rng, c), batch = (int)random_between(rng, 1, 4);
    if (random_chance(rng, 4)) k = integer ? 2048 : 512, n = 130; /* rows that share cache sets */
    p->transpose_a = random_chance(rng, 15);
    p->transpose_b = random_chance(rng, 40);
    int rows = p->transpose_a ? k : m, columns = p->transpose_a ? m : k;
    c->in[QB_IN_DATA].shape =
        batched ? qb_shape_of(3, batch, rows, columns) : qb_shape_of(2, rows, columns);
    bool b_batched = batched && !integer && random_chance(rng, 50);
    int b_rows = p->transpose_b ? n : k, b_columns = p->transpose_b ? k : n;
    c->in[QB_IN_WEIGHT].shape =
        b_batched ? qb_shape_of(3, batch, b_rows, b_columns) : qb_shape_of(2, b_rows, b_columns);
    p->out.shape = batched ? qb_shape_of(3, batch, m, n) : qb_shape_of(2, m, n);
    p->scale = random_chance(rng, 70) ? 1.0f : 0.7f;
    c->constant[QB_IN_WEIGHT] = !b_batched && random_chance(rng, 85);
    set_either(rng, c, QB_IN_DATA, &c->in[QB_IN_DATA], integer, 0.01f);
    if (integer)
        set_weight(cx, rng, c, p->transpose_b ? 0 : 1);
    else
        set_float(&c->in[QB_IN_WEIGHT]);
    set_bias(rng, c, n, integer);
    set_either(rng, c, CASE_INPUTS, &p->out, random_chance(rng, integer ? 70 : 20),
               scale_of_sums(c));
    p->n_in = 4;
    set_residual(rng, c, integer);
    return true;
}

static bool make_pool(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    int32_t spatial = random_chance(rng, 75) ? 2 : random_chance(rng, 50) ? 1 : 3;
    qb_shape x = random_image(rng, spatial), y;
    bool integer = random_chance(rng, 60);
    x.dim[1] = random_channels(rng);
    y = x;
    p->pool = (qb_pool_kind)random_between(rng, QB_POOL_MAX, QB_POOL_AVG_INCLUDE_PAD);
    if (!random_window(rng, spatial, &x, true, &p->window, &y)) return false;
    if (random_chance(rng, 25)) { /* global */
        const bool large = spatial == 2 && random_chance(rng, 40);
        if (large) x.dim[0] = y.dim[0] = 1;
        for (int32_t d = 0; d < spatial; d++) {
            if (large) x.dim[2 + d] = random_between(rng, 12, 60);
            p->window.kernel[d] = x.dim[2 + d];
            p->window.pad_begin[d] = p->window.pad_end[d] = 0;
            p->window.dilation[d] = p->window.stride[d] = y.dim[2 + d] = 1;
        }
    }
    c->in[0].shape = x;
    p->out.shape = y;
    set_either(rng, c, 0, &c->in[0], integer, 0.01f);
    set_either(rng, c, CASE_INPUTS, &p->out, random_chance(rng, integer ? 90 : 15), 0.01f);
    if (integer && random_chance(rng, 60)) { /* as the quantizer makes maxima */
        p->out.dtype = c->in[0].dtype;
        p->out.q = c->in[0].q;
    }
    p->n_in = 1;
    return true;
}

/* One operand has the full shape; the other may lack dimensions or have ones. */
static void make_binary(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape full = random_image(rng, (int32_t)random_between(rng, 1, 2));
    full.dim[1] = random_channels(rng);
    qb_shape part = full;
    switch (random_between(rng, 0, 5)) {
    case 4: /* some dimensions */
        for (int32_t d = 0; d < full.rank; d++)
            if (random_chance(rng, 50)) part.dim[d] = 1;
        break;
    case 0: /* one number a channel */
        for (int32_t d = 0; d < full.rank; d++)
            if (d != 1) part.dim[d] = 1;
        break;
    case 1: part = qb_shape_of(0); break;
    case 2: part = qb_shape_of(1, (int)full.dim[full.rank - 1]); break;
    case 3: /* a gate for each image and channel */
        for (int32_t d = 2; d < full.rank; d++) part.dim[d] = 1;
        break;
    default: break;
    }
    int which = random_chance(rng, 75) ? 1 : 0;
    p->binary = (qb_binary_kind)random_between(rng, QB_BINARY_ADD, QB_BINARY_MAX);
    p->act = random_act(rng);
    c->in[1 - which].shape = full;
    c->in[which].shape = part;
    p->out.shape = full;
    bool integer = random_chance(rng, 50);
    for (int i = 0; i < 2; i++)
        set_either(rng, c, i, &c->in[i], integer && random_chance(rng, 90), 0.01f);
    set_either(rng, c, CASE_INPUTS, &p->out, integer && random_chance(rng, 90), 0.02f);
    c->constant[which] = random_chance(rng, 40);
    p->n_in = 2;
}

static void make_plain(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape shape = random_image(rng, (int32_t)random_between(rng, 0, 3));
    shape.dim[1] = random_channels(rng);
    c->in[0].shape = p->out.shape = shape;
    bool integer = random_chance(rng, 60);
    set_either(rng, c, 0, &c->in[0], integer, 0.02f);
    set_either(rng, c, CASE_INPUTS, &p->out, random_chance(rng, integer ? 80 : 30), 0.01f);
    p->n_in = 1;
    if (p->kind == QB_KIND_UNARY) do
            p->act = random_act(rng);
        while (p->act.kind == QB_ACT_NONE);
    if (p->kind == QB_KIND_SOFTMAX) {
        p->axis = (int32_t)random_between(rng, 0, shape.rank - 1);
        p->zero_nan = random_chance(rng, 50);
    }
    if (p->kind == QB_KIND_COPY && random_chance(rng, 20)) { /* same bits, other places */
        p->out.dtype = c->in[0].dtype;
        p->out.q = c->in[0].q;
    } else if (p->kind == QB_KIND_COPY && random_chance(rng, 20)) { /* integers for themselves */
        const qb_dtype types[] = {QB_DTYPE_S64, QB_DTYPE_S32, QB_DTYPE_BOOL};
        c->in[0].dtype = types[random_between(rng, 0, 2)];
        c->in[0].q = (qb_qparams){.axis = -1};
    }
}

static void make_concat(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_shape shape = random_image(rng, (int32_t)random_between(rng, 0, 2));
    bool integer = random_chance(rng, 50);
    p->axis = (int32_t)random_between(rng, 0, shape.rank - 1);
    p->n_in = (int32_t)random_between(rng, 1, CASE_INPUTS);
    shape.dim[1] = random_channels(rng);
    p->out.shape = shape;
    p->out.shape.dim[p->axis] = 0;
    set_either(rng, c, CASE_INPUTS, &p->out, integer, 0.01f);
    for (int32_t i = 0; i < p->n_in; i++) {
        c->in[i].shape = shape;
        c->in[i].shape.dim[p->axis] = random_between(rng, 1, 20);
        p->out.shape.dim[p->axis] += c->in[i].shape.dim[p->axis];
        set_either(rng, c, i, &c->in[i], integer, 0.01f);
        if (random_chance(rng, 60)) {
            c->in[i].dtype = p->out.dtype;
            c->in[i].q = p->out.q;
        }
    }
}

/* The sum of the four parts of a draw, of mean 0 and variance 1: most values are of problems that
 * no tactic takes, and logarithms and cosines were most of what the test cost. */
static double about_normal(qb_rng *rng) {
    const uint64_t draw = qb_rng_u64(rng);
    int64_t sum = 0;
    for (int part = 0; part < 64; part += 16) sum += (int64_t)(draw >> part & 0xffff);
    return (double)(sum - 2 * 65535) * (1.7320508075688772 / 65536);
}

static void fill(qb_rng *rng, const qb_desc *desc, void *data, double spread) {
    int64_t n = qb_shape_count(&desc->shape);
    for (int64_t i = 0; i < n; i++) {
        if (desc->dtype == QB_DTYPE_F32)
            ((float *)data)[i] = (float)(spread * about_normal(rng));
        else if (desc->dtype == QB_DTYPE_S32)
            ((int32_t *)data)[i] = (int32_t)random_between(rng, -4000, 4000);
        else if (desc->dtype == QB_DTYPE_S64) /* indices */
            ((int64_t *)data)[i] = random_between(rng, -4, 3);
        else if (qb_dtype_size(desc->dtype) == 2) /* halves, also tiny ones, and integers */
            qb_number_put(desc->dtype, data, i,
                          (random_chance(rng, 5) ? 1e-6 : spread) * about_normal(rng));
        else
            ((uint8_t *)data)[i] = (uint8_t)qb_rng_u64(rng);
    }
}

/* Masks by -100 about every fourth element of a softmax, and everything in about every fourth line
 * of one that makes 0 of such lines. */
static void mask_lines(qb_rng *rng, random_case *c) {
    const qb_problem *p = &c->problem;
    const qb_shape *shape = &c->in[0].shape;
    if (p->kind != QB_KIND_SOFTMAX || c->in[0].dtype != QB_DTYPE_F32) return;
    for (int64_t i = 0; i < qb_shape_count(shape); i++)
        if (random_chance(rng, 25)) ((float *)c->data[0])[i] -= 100.0f;
    if (!p->zero_nan) return;
    int64_t outer = 1, inner = 1, n = shape->dim[p->axis];
    for (int32_t d = 0; d < p->axis; d++) outer *= shape->dim[d];
    for (int32_t d = p->axis + 1; d < shape->rank; d++) inner *= shape->dim[d];
    for (int64_t line = 0; line < outer * inner; line++) {
        if (!random_chance(rng, 25)) continue;
        float *x = (float *)c->data[0] + line / inner * n * inner + line % inner;
        for (int64_t i = 0; i < n; i++) x[i * inner] = -INFINITY;
    }
}

static const qb_tactic *reference(qb_kind kind) {
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if ((*t)->kind == kind && strcmp((*t)->backend, "ref") == 0) return *t;
    return NULL;
}

static bool make(qb_ctx *cx, qb_rng *rng, random_case *c) {
    switch (c->problem.kind) {
    case QB_KIND_CONV:
    case QB_KIND_CONV_TRANSPOSE: c->problem.act = random_act(rng); return make_conv(cx, rng, c);
    case QB_KIND_CONV_POOL: c->problem.act = random_act(rng); return make_conv_pool(cx, rng, c);
    case QB_KIND_MATMUL: c->problem.act = random_act(rng); return make_matmul(cx, rng, c);
    case QB_KIND_POOL: return make_pool(rng, c);
    case QB_KIND_POOL_PLACES:
        if (!make_pool(rng, c)) return false;
        c->problem.out =
            (qb_desc){.dtype = QB_DTYPE_S64, .shape = c->problem.out.shape, .q.axis = -1};
        return true;
    case QB_KIND_BINARY: make_binary(rng, c); return true;
    case QB_KIND_CONCAT: make_concat(rng, c); return true;
    default: (random_is_node(c->problem.kind) ? random_node_make : make_plain)(rng, c); return true;
    }
}

void random_case_answer(qb_ctx *cx, random_case *c) {
    const qb_tactic *ref = reference(c->problem.kind);
    qb_kernel *kernel;
    const void *in[CASE_INPUTS];
    if (c->expected) return;
    c->expected = qb_alloc(cx, qb_desc_bytes(&c->problem.out) + 1, 1);
    assert_non_null(c->expected);
    if (random_is_node(c->problem.kind)) {
        random_node_reference(c);
        return;
    }
    assert_non_null(ref);
    assert_ok(cx, ref->create(cx, ref, &c->problem, c->constant, 1, &kernel));
    for (int i = 0; i < CASE_INPUTS; i++) in[i] = c->data[i];
    void *workspace = qb_alloc(cx, kernel->workspace_bytes + 1, 1);
    assert_non_null(workspace);
    qb_launch launch = {.in = in, .out = c->expected, .workspace = workspace};
    assert_ok(cx, kernel->launch(cx, kernel, &launch));
    qb_free(workspace);
    qb_kernel_free(kernel);
}

static void make_case(qb_ctx *cx, qb_rng *rng, qb_kind kind, bool wide, random_case *out) {
    for (;;) {
        *out = (random_case){.problem = {.kind = kind, .group = 1, .scale = 1.0f}, .wide = wide};
        out->problem.in = out->in;
        for (int i = 0; i < CASE_INPUTS; i++) out->in[i].q.axis = -1;
        out->problem.out.q.axis = -1;
        if (make(cx, rng, out)) break;
        random_case_release(out);
    }
    for (int32_t i = 0; i < out->problem.n_in; i++) {
        if (!qb_problem_has(&out->problem, i)) continue;
        out->data[i] = qb_alloc(cx, qb_desc_bytes(&out->in[i]) + 1, 1);
        assert_non_null(out->data[i]);
        fill(rng, &out->in[i], out->data[i], i == QB_IN_WEIGHT ? 0.3 : 1.0);
    }
    mask_lines(rng, out);
    if (kind == QB_KIND_ATTENTION) random_attention_mask(rng, out);
    if (kind == QB_KIND_RECURRENT) random_recurrent_finalize(rng, out);
    if (kind == QB_KIND_ARG || (kind == QB_KIND_POOL_PLACES && out->in[0].dtype == QB_DTYPE_F32))
        random_lines_finalize(rng, out);
    if (kind == QB_KIND_DYNAMIC_QUANTIZE) random_integer_finalize(rng, out);
}

void random_case_make(qb_ctx *cx, qb_rng *rng, qb_kind kind, random_case *out) {
    make_case(cx, rng, kind, false, out);
}

void random_case_make_device(qb_ctx *cx, qb_rng *rng, qb_kind kind, random_case *out) {
    const bool tiles =
        kind == QB_KIND_CONV || kind == QB_KIND_CONV_TRANSPOSE || kind == QB_KIND_MATMUL;
    make_case(cx, rng, kind, tiles && random_chance(rng, 40), out);
    if (!random_chance(rng, 50)) return;
    random_case_halve(out, QB_DTYPE_F16);
    random_case_answer(cx, out); /* forms that it fits depend on it */
}

static bool is_rounded(const random_case *c, int32_t i, qb_dtype type) {
    if (c->in[i].dtype != QB_DTYPE_F32) return false;
    return !c->constant[i] || (type == QB_DTYPE_BF16 && i == QB_IN_WEIGHT);
}

void random_case_halve(random_case *c, qb_dtype type) {
    for (int32_t i = 0; i < c->problem.n_in; i++) {
        if (!is_rounded(c, i, type)) continue;
        float *data = c->data[i];
        for (int64_t k = 0, n = qb_shape_count(&c->in[i].shape); k < n; k++) {
            uint16_t bits;
            qb_number_put(type, &bits, 0, (double)data[k]);
            data[k] = (float)qb_number_get(type, &bits, 0);
        }
    }
    c->half = type;
    if (type == QB_DTYPE_BF16) c->problem.scale = 1.0f;
}

void random_case_release(random_case *c) {
    for (int i = 0; i < CASE_INPUTS; i++) qb_free(c->data[i]);
    qb_free(c->expected);
    qb_free(c->weight_scale);
    qb_free(c->weight_zero);
}

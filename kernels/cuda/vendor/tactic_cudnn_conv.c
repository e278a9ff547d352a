/* Convolutions of cuDNN as tactics, the whole step as one operation: convolution, scale per channel
 * (quantized values), bias, activation, residual, result.
 *
 * Quantized values: it takes s8 alone. The scale has 1 / Sy folded in and the bias is added in
 * float, so that results are within one step of the reference. Zero points go into the bias where
 * that is exact: the data's without padding, the result's and the residual's where no activation
 * comes after. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/vendor/cudnn_graph.h"

enum { ID_DATA, ID_WEIGHT, ID_SCALE, ID_BIAS, ID_RESIDUAL, ID_STEP, ID_OUT };

typedef struct conv_state {
    qb_cudnn_graph *graph;
    qb_cuda_conv conv;
    qb_dtype dtype; /* of data, weight, residual and result */
    qb_act act;     /* what is left of it: saturation may do the same */
    bool has_bias, has_residual, act_first;
    int64_t at_weight, at_scale, at_bias, at_step, packed_bytes;
} conv_state;

static int32_t zero_of(const qb_desc *d) { return d->q.zero ? d->q.zero[0] : 0; }

/* ---- what it takes --------------------------------------------------------------------------- */

static bool is_plain(const qb_desc *d, qb_dtype dtype) {
    return d->dtype == dtype && d->q.n == 0 &&
           (d->layout == QB_LAYOUT_NHWC || d->layout == QB_LAYOUT_ANY);
}

static int32_t pitch_of(int32_t total, int32_t channels) { return total == channels ? 0 : total; }

/* Slices begin at 16 bytes in each pixel, and their data fill them: a plan of 9.19 took its data
 * from elsewhere where pixels of a slice lay 372 bytes apart. */
static bool is_aligned(const conv_state *s) {
    const qb_cuda_conv *c = &s->conv;
    const int32_t offsets = c->in_offset | c->out_offset | c->res_offset;
    const int32_t pitches = pitch_of(c->in_total, c->in_c) | pitch_of(c->out_total, c->out_c) |
                            (s->has_residual ? pitch_of(c->res_total, c->out_c) : 0);
    const int32_t read = pitch_of(c->in_c, c->in_total);
    return (offsets | pitches | read) * (int32_t)qb_dtype_size(s->dtype) % 16 == 0;
}

static bool lower_floats(const qb_problem *p, const bool *constant, conv_state *s) {
    const qb_desc *w = &p->in[QB_IN_WEIGHT];
    if (!qb_cuda_conv_geometry(p, &s->conv) || p->group != 1) return false;
    /* cuDNN 9.19's f32 plans for slices broke the device where a SiLU follows the sum */
    if (s->dtype == QB_DTYPE_F32 && p->out.channel_total > 0) return false;
    if (!is_plain(&p->in[QB_IN_DATA], s->dtype) || !is_plain(&p->out, s->dtype)) return false;
    if (!constant[QB_IN_WEIGHT] || w->dtype != QB_DTYPE_F32 || w->q.n > 0) return false;
    if (s->has_bias && (!constant[QB_IN_BIAS] || p->in[QB_IN_BIAS].dtype != QB_DTYPE_F32))
        return false;
    if (s->has_residual &&
        (constant[QB_IN_RESIDUAL] || !is_plain(&p->in[QB_IN_RESIDUAL], s->dtype)))
        return false;
    return qb_cudnn_has_act(p->act);
}

/* Can all zero points go into the bias? Decides which activation remains. */
static bool fold_zeros(const qb_problem *p, conv_state *s) {
    const int32_t out = zero_of(&p->out);
    const int32_t residual = s->has_residual ? zero_of(&p->in[QB_IN_RESIDUAL]) : 0;
    const float inverse = 1.0f / p->out.q.scale[0];
    if (zero_of(&p->in[QB_IN_DATA]) != 0 && !qb_cuda_conv_is_inside(&s->conv)) return false;
    if (s->act.kind == QB_ACT_NONE) return true;
    if (s->act_first) return out == 0 && residual == 0;
    if (s->act.kind == QB_ACT_RELU && out == INT8_MIN) { /* saturation is the ReLU */
        s->act.kind = QB_ACT_NONE;
        return true;
    }
    s->act.alpha *= s->act.kind == QB_ACT_CLIP ? inverse : 1.0f; /* a slope stays */
    s->act.beta *= inverse;
    return out == 0;
}

static bool lower_quantized(const qb_problem *p, const bool *constant, conv_state *s) {
    if (!qb_cuda_conv_of(p, constant, QB_CUDA_PACKING_TENSOR, 16, 16, &s->conv) ||
        s->conv.in_pieces_of_8 || qb_cuda_conv_is_f16(&s->conv) || !s->conv.in_signed ||
        p->out.dtype != QB_DTYPE_S8 || p->out.q.n != 1 || s->conv.out_c % 16 ||
        s->conv.out_total % 16)
        return false;
    if (s->has_residual && (p->in[QB_IN_RESIDUAL].dtype != QB_DTYPE_S8 || s->conv.res_total % 16))
        return false;
    const bool bounded = p->act.kind == QB_ACT_NONE || p->act.kind == QB_ACT_RELU ||
                         p->act.kind == QB_ACT_LEAKY_RELU || p->act.kind == QB_ACT_CLIP;
    return bounded && qb_cudnn_has_act(p->act) && fold_zeros(p, s);
}

static bool lower(const qb_problem *p, const bool *constant, qb_dtype dtype, conv_state *s) {
    if (p->kind != QB_KIND_CONV || p->n_in < 2) return false;
    *s = (conv_state){.dtype = dtype, .act = p->act};
    s->has_bias = qb_problem_has(p, QB_IN_BIAS) || dtype == QB_DTYPE_S8;
    s->has_residual = qb_problem_has(p, QB_IN_RESIDUAL);
    s->act_first = p->act_first && s->has_residual && p->act.kind != QB_ACT_NONE;
    const bool taken =
        dtype == QB_DTYPE_S8 ? lower_quantized(p, constant, s) : lower_floats(p, constant, s);
    if (!taken || qb_cuda_conv_is_volume(&s->conv) || !is_aligned(s)) return false;
    const qb_cuda_conv *c = &s->conv;
    const int64_t weights = (int64_t)c->out_c * c->in_c * c->kernel_h * c->kernel_w;
    const int64_t channels = (int64_t)c->out_c * 4;
    const bool quantized = dtype == QB_DTYPE_S8;
    s->at_weight = qb_cuda_reserve(&s->packed_bytes, weights * (int64_t)qb_dtype_size(dtype));
    s->at_scale = qb_cuda_reserve(&s->packed_bytes, quantized ? channels : 0);
    s->at_bias = qb_cuda_reserve(&s->packed_bytes, s->has_bias ? channels : 0);
    s->at_step = qb_cuda_reserve(&s->packed_bytes, quantized && s->has_residual ? 4 : 0);
    return true;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static qb_cudnn_tensor add_image(const conv_state *s, int id, const int64_t dim[4], int64_t total) {
    const int64_t stride[4] = {dim[2] * dim[3] * total, 1, dim[3] * total, total};
    return qb_cudnn_add(s->graph, id, s->dtype, dim, stride);
}

static qb_cudnn_tensor add_row(const conv_state *s, int id, int64_t n) {
    const int64_t dim[4] = {1, n, 1, 1}, stride[4] = {n, 1, n, n};
    return qb_cudnn_add(s->graph, id, QB_DTYPE_F32, dim, stride);
}

static qb_cudnn_window window_of(const qb_cuda_conv *c) {
    qb_cudnn_window w = {.kernel = {c->kernel_h, c->kernel_w},
                         .stride = {c->stride_h, c->stride_w},
                         .dilation = {c->dilation_h, c->dilation_w},
                         .before = {c->pad_h, c->pad_w}};
    const int64_t in[2] = {c->in_h, c->in_w}, out[2] = {c->out_h, c->out_w};
    for (int i = 0; i < 2; i++) {
        w.after[i] = (out[i] - 1) * w.stride[i] - w.before[i] - in[i] + 1 +
                     (w.kernel[i] - 1) * w.dilation[i];
        if (w.after[i] < 0) w.after[i] = 0; /* a stride that leaves the last pixels out */
    }
    return w;
}

/* What follows the sums, in order; the last one writes the result. */
typedef struct chain {
    const conv_state *s;
    const int64_t *dim;
    qb_cudnn_tensor value, out;
    int left;
} chain;

static qb_cudnn_tensor next(chain *c) {
    return --c->left == 0 ? c->out : qb_cudnn_inner(c->s->graph, c->dim);
}

static void combine(chain *c, qb_cudnn_pair pair, qb_cudnn_tensor with) {
    qb_cudnn_tensor to = next(c);
    qb_cudnn_combine(c->s->graph, pair, c->value, with, to);
    c->value = to;
}

static void activate(chain *c) {
    qb_cudnn_tensor to = next(c);
    qb_cudnn_act(c->s->graph, c->s->act, c->value, to);
    c->value = to;
}

static void describe(const conv_state *s) {
    const qb_cuda_conv *c = &s->conv;
    const int64_t x_dim[4] = {c->batch, c->in_c, c->in_h, c->in_w};
    const int64_t w_dim[4] = {c->out_c, c->in_c, c->kernel_h, c->kernel_w};
    const int64_t y_dim[4] = {c->batch, c->out_c, c->out_h, c->out_w};
    const bool quantized = s->dtype == QB_DTYPE_S8, acts = s->act.kind != QB_ACT_NONE;
    const qb_cudnn_window window = window_of(c);
    qb_cudnn_tensor x = add_image(s, ID_DATA, x_dim, c->in_total);
    qb_cudnn_tensor w = add_image(s, ID_WEIGHT, w_dim, c->in_c);
    chain k = {.s = s, .dim = y_dim, .out = add_image(s, ID_OUT, y_dim, c->out_total)};
    k.left = 1 + quantized + s->has_bias + s->has_residual + acts;
    k.value = next(&k);
    qb_cudnn_convolution(s->graph, &window, quantized, x, w, k.value);
    if (quantized) combine(&k, QB_CUDNN_MUL, add_row(s, ID_SCALE, c->out_c));
    if (s->has_bias) combine(&k, QB_CUDNN_ADD, add_row(s, ID_BIAS, c->out_c));
    if (acts && s->act_first) activate(&k);
    if (s->has_residual) {
        qb_cudnn_tensor r = add_image(s, ID_RESIDUAL, y_dim, c->res_total);
        if (quantized) {
            qb_cudnn_tensor scaled = qb_cudnn_inner(s->graph, y_dim);
            qb_cudnn_combine(s->graph, QB_CUDNN_MUL, r, add_row(s, ID_STEP, 1), scaled);
            r = scaled;
        }
        combine(&k, QB_CUDNN_ADD, r);
    }
    if (acts && !s->act_first) activate(&k);
}

/* ---- constants and launches ------------------------------------------------------------------ */

static void put_weight(const conv_state *s, char *to, const void *from) {
    const qb_cuda_conv *c = &s->conv;
    const int64_t taps = (int64_t)c->kernel_h * c->kernel_w, channels = c->in_c;
    for (int64_t m = 0; m < c->out_c; m++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t i = 0; i < channels; i++) {
                const int64_t source = (m * channels + i) * taps + t;
                const int64_t at = (m * taps + t) * channels + i;
                switch (s->dtype) {
                case QB_DTYPE_S8: to[at] = ((const char *)from)[source]; break;
                case QB_DTYPE_F16:
                    ((uint16_t *)(void *)to)[at] = qb_f32_to_f16(((const float *)from)[source]);
                    break;
                default: ((float *)(void *)to)[at] = ((const float *)from)[source];
                }
            }
}

/* In units of the result's quantized values. */
static void put_quantized_rows(const conv_state *s, const qb_problem *p,
                               const void *const *constants, char *packed) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT];
    const int64_t taps = (int64_t)s->conv.kernel_h * s->conv.kernel_w * s->conv.in_c;
    const int8_t *weight = constants[QB_IN_WEIGHT];
    float *scale = (float *)(void *)(packed + s->at_scale);
    float *sums = (float *)(void *)(packed + s->at_bias);
    float zeros = (float)zero_of(&p->out);
    if (s->has_residual) {
        const qb_desc *r = &p->in[QB_IN_RESIDUAL];
        const float step = r->q.scale[0] / p->out.q.scale[0];
        *(float *)(void *)(packed + s->at_step) = step;
        zeros -= step * (float)zero_of(r);
    }
    for (int64_t m = 0; m < s->conv.out_c; m++) {
        int64_t sum = 0;
        double bias = 0.0;
        scale[m] = x->q.scale[0] * w->q.scale[w->q.n > 1 ? m : 0] / p->out.q.scale[0];
        for (int64_t t = 0; t < taps; t++) sum += weight[m * taps + t];
        if (qb_problem_has(p, QB_IN_BIAS) && p->in[QB_IN_BIAS].dtype == QB_DTYPE_S32)
            bias = (double)((const int32_t *)constants[QB_IN_BIAS])[m] * (double)scale[m];
        else if (qb_problem_has(p, QB_IN_BIAS))
            bias = (double)((const float *)constants[QB_IN_BIAS])[m] / (double)p->out.q.scale[0];
        bias -= (double)sum * zero_of(x) * (double)scale[m];
        sums[m] = (float)(bias + (double)zeros);
    }
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const conv_state *s = kernel->state;
    memset(packed, 0, (size_t)s->packed_bytes);
    put_weight(s, (char *)packed + s->at_weight, constants[QB_IN_WEIGHT]);
    if (s->dtype == QB_DTYPE_S8)
        put_quantized_rows(s, &kernel->problem, constants, packed);
    else if (s->has_bias)
        memcpy((char *)packed + s->at_bias, constants[QB_IN_BIAS], (size_t)s->conv.out_c * 4);
    return QB_OK;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const conv_state *s = kernel->state;
    const size_t size = qb_dtype_size(s->dtype);
    char *packed = (char *)(uintptr_t)args->packed;
    void *data[QB_CUDNN_BOUND] = {[ID_DATA] = (char *)(uintptr_t)args->in[QB_IN_DATA] +
                                              (size_t)s->conv.in_offset * size,
                                  [ID_WEIGHT] = packed + s->at_weight,
                                  [ID_SCALE] = packed + s->at_scale,
                                  [ID_BIAS] = packed + s->at_bias,
                                  [ID_STEP] = packed + s->at_step,
                                  [ID_OUT] = (char *)args->out + (size_t)s->conv.out_offset * size};
    if (s->has_residual)
        data[ID_RESIDUAL] =
            (char *)(uintptr_t)args->in[QB_IN_RESIDUAL] + (size_t)s->conv.res_offset * size;
    return qb_cudnn_run(cx, s->graph, data, args->workspace, args->stream);
}

/* ---- creation -------------------------------------------------------------------------------- */

static qb_status open_graph(qb_ctx *cx, const qb_problem *p, qb_cudnn_math math, double to_beat,
                            conv_state *s) {
    size_t bytes[QB_CUDNN_BOUND] = {[ID_DATA] = qb_desc_bytes(&p->in[QB_IN_DATA]),
                                    [ID_WEIGHT] = (size_t)s->packed_bytes,
                                    [ID_SCALE] = (size_t)s->conv.out_c * 4,
                                    [ID_BIAS] = (size_t)s->conv.out_c * 4,
                                    [ID_STEP] = 4,
                                    [ID_OUT] = qb_desc_bytes(&p->out)};
    if (s->has_residual) bytes[ID_RESIDUAL] = qb_desc_bytes(&p->in[QB_IN_RESIDUAL]);
    QB_TRY(qb_cudnn_open(cx, &s->graph));
    describe(s);
    const qb_status status = qb_cudnn_choose(cx, s->graph, math, p, to_beat, bytes);
    if (status != QB_OK) qb_cudnn_close(s->graph);
    return status;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, double to_beat, qb_dtype dtype, qb_cudnn_math math,
                        qb_kernel **out) {
    conv_state s;
    qb_cuda_device device;
    if (!lower(problem, constant, dtype, &s)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(open_graph(cx, problem, math, to_beat, &s));
    QB_TRY(qb_cudnn_create(cx, tactic, problem, &s, sizeof s, out));
    qb_kernel *kernel = *out;
    kernel->in[QB_IN_DATA].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->in[QB_IN_WEIGHT].layout = QB_LAYOUT_ROW;
    if (s.has_residual) kernel->in[QB_IN_RESIDUAL].layout = QB_LAYOUT_NHWC;
    if (qb_problem_has(problem, QB_IN_BIAS)) kernel->in[QB_IN_BIAS].layout = QB_LAYOUT_ROW;
    kernel->packed_bytes = (size_t)s.packed_bytes;
    kernel->packing_id = 1; /* the image has no part in it */
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    if (qb_problem_has(problem, QB_IN_BIAS)) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

#define CUDNN_CONV(SYMBOL, NAME, EXACTNESS, DTYPE, MATH, ALLOWED)                                  \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        conv_state s;                                                                              \
        return (ALLOWED) && lower(problem, constant, DTYPE, &s);                                   \
    }                                                                                              \
    static qb_status SYMBOL##_compete(qb_ctx *cx, const qb_tactic *tactic,                         \
                                      const qb_problem *problem, const bool *constant,             \
                                      double to_beat, qb_kernel **out) {                           \
        return create(cx, tactic, problem, constant, to_beat, DTYPE, MATH, out);                   \
    }                                                                                              \
    QB_CUDA_TACTIC_COMPETING(SYMBOL, NAME, QB_KIND_CONV, EXACTNESS)

CUDNN_CONV(cuda_conv_s8_cudnn, "conv_s8.cudnn", QB_WITHIN_1_LSB, QB_DTYPE_S8, QB_CUDNN_ANY, true);
CUDNN_CONV(cuda_conv_f16_cudnn, "conv_f16.cudnn", QB_EXACT, QB_DTYPE_F16, QB_CUDNN_ANY, true);
/* TF32's plans have those of f32 among them */
CUDNN_CONV(cuda_conv_f32_cudnn, "conv_f32.cudnn", QB_EXACT, QB_DTYPE_F32, QB_CUDNN_EXACT,
           !problem->tf32);
CUDNN_CONV(cuda_conv_tf32_cudnn, "conv_tf32.cudnn", QB_EXACT, QB_DTYPE_F32, QB_CUDNN_ANY,
           problem->tf32);

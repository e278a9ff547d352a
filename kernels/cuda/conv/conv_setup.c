/* Host side of the convolutions: which problems they take, and the packed constants. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/tactic.h"

#define MAX_SIDE 32768 /* of a plane: products of sizes stay inside 31 bits where they must */

static bool is_quantized(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_U8 || d->dtype == QB_DTYPE_S8) && d->q.n == 1;
}

static bool is_float(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_F32 || d->dtype == QB_DTYPE_F16) && d->q.n == 0;
}

static int32_t round_up(int64_t value, int32_t step) {
    return (int32_t)((value + step - 1) / step * step);
}

static int32_t zero_of(const qb_qparams *q) { return q->zero ? q->zero[0] : 0; }

static bool is_f16(const qb_problem *p) {
    return p->in[QB_IN_DATA].dtype == QB_DTYPE_F16 && p->in[QB_IN_DATA].q.n == 0;
}

static bool check_weight(const qb_problem *p, qb_cuda_packing packing) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT];
    bool depthwise = p->group == x->shape.dim[1] && p->group == p->out.shape.dim[1];
    const bool groups = packing == QB_CUDA_PACKING_TENSOR && !depthwise;
    if (packing == QB_CUDA_PACKING_DEPTHWISE ? !depthwise : p->group != 1 && !groups) return false;
    if (is_f16(p)) return w->dtype == QB_DTYPE_F32;
    if (!is_quantized(x)) return false;
    if (w->dtype != QB_DTYPE_S8 || w->q.n < 1) return false; /* the units take s8 as it is */
    if (w->q.n > 1 && p->out.shape.dim[1] % w->q.n != 0)
        return false; /* kernels/subpixel.h repeats them */
    for (int32_t i = 0; w->q.zero && i < w->q.n; i++)
        if (w->q.zero[i] != 0) return false;
    return true;
}

static bool check_operands(const qb_problem *p, const bool *constant, qb_cuda_packing packing) {
    if (!constant[QB_IN_WEIGHT] || !qb_cuda_is_channels_last(&p->in[QB_IN_DATA]) ||
        !check_weight(p, packing))
        return false;
    if (qb_problem_has(p, QB_IN_BIAS)) {
        const qb_desc *b = &p->in[QB_IN_BIAS];
        bool integer = b->dtype == QB_DTYPE_S32 && !is_f16(p);
        if (!constant[QB_IN_BIAS] || (!integer && b->dtype != QB_DTYPE_F32)) return false;
    }
    if (qb_problem_has(p, QB_IN_RESIDUAL)) {
        const qb_desc *r = &p->in[QB_IN_RESIDUAL];
        if (!qb_cuda_is_channels_last(r) || (!is_quantized(r) && !is_float(r))) return false;
    }
    return qb_cuda_is_channels_last(&p->out) && (is_quantized(&p->out) || is_float(&p->out));
}

/* One dimension of a window over data. */
typedef struct axis {
    int64_t in, out, kernel, stride, dilation, pad;
} axis;

static bool is_small(const axis *a) {
    return a->in >= 1 && a->in < MAX_SIDE && a->out < MAX_SIDE && a->pad >= 0 &&
           a->pad < MAX_SIDE && a->stride < MAX_SIDE && a->dilation * a->kernel < MAX_SIDE;
}

/* Does the kernel take each element by itself? */
static bool is_single(const axis *a) {
    return a->kernel == 1 && a->stride == 1 && a->pad == 0 && a->in == a->out;
}

/* Depth, height and width, as images where that says the same: planes that the kernel takes each by
 * itself are images of their own; so are planes, of which each element is a column. */
static void fold_volume(axis a[3], int64_t *batch) {
    const axis one = {1, 1, 1, 1, 1, 0};
    if (is_single(&a[0])) {
        *batch *= a[0].in;
        a[0] = one;
    } else if (is_single(&a[1]) && is_single(&a[2]) && a[1].in * a[2].in < MAX_SIDE) {
        a[2].in = a[2].out = a[1].in * a[2].in;
        a[1] = a[0];
        a[0] = one;
    }
}

static bool set_geometry(const qb_problem *p, qb_cuda_conv *c) {
    const qb_shape *x = &p->in[QB_IN_DATA].shape, *y = &p->out.shape;
    const qb_window *w = &p->window;
    axis a[3] = {{1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 0}};
    if (x->rank != w->n + 2 || y->rank != x->rank || w->n < 1 || w->n > 3) return false;
    if (!qb_shape_known(x) || !qb_shape_known(y) || qb_shape_count(y) <= 0) return false;
    if (x->dim[0] < 1 || x->dim[0] >= MAX_SIDE || x->dim[1] < 1 || x->dim[1] >= MAX_SIDE ||
        y->dim[1] >= MAX_SIDE)
        return false;
    for (int32_t d = 0; d < w->n; d++) {
        axis *at = &a[3 - w->n + d];
        *at = (axis){x->dim[2 + d], y->dim[2 + d],  w->kernel[d],
                     w->stride[d],  w->dilation[d], w->pad_begin[d]};
        if (!is_small(at)) return false;
    }
    if (p->group < 1 || x->dim[1] % p->group || y->dim[1] % p->group) return false;
    int64_t batch = x->dim[0];
    if (w->n == 3) fold_volume(a, &batch);
    c->batch = (int32_t)batch;
    c->in_c = (int32_t)x->dim[1];
    c->out_c = (int32_t)y->dim[1];
    c->group = (int32_t)p->group;
    int32_t *const to[3][6] = {
        {&c->in_d, &c->out_d, &c->kernel_d, &c->stride_d, &c->dilation_d, &c->pad_d},
        {&c->in_h, &c->out_h, &c->kernel_h, &c->stride_h, &c->dilation_h, &c->pad_h},
        {&c->in_w, &c->out_w, &c->kernel_w, &c->stride_w, &c->dilation_w, &c->pad_w}};
    for (int32_t d = 0; d < 3; d++) {
        const int64_t from[] = {a[d].in,     a[d].out,      a[d].kernel,
                                a[d].stride, a[d].dilation, a[d].pad};
        for (int32_t i = 0; i < 6; i++) *to[d][i] = (int32_t)from[i];
    }
    const int64_t taps = a[0].kernel * a[1].kernel * a[2].kernel;
    const int64_t rows = batch * a[0].out * a[1].out * a[2].out;
    c->taps = (int32_t)taps;
    c->rows = (int32_t)rows;
    return taps < INT32_MAX && rows < INT32_MAX - 4096 &&
           batch * a[0].in * a[1].in * a[2].in < INT32_MAX;
}

/* Channels that a result may be stored as: its own, and padding up to the next slice. */
static int32_t stored_channels(const qb_desc *y, const qb_cuda_conv *c) {
    return y->padded && c->out_total > c->out_c ? c->out_total : c->out_c;
}

static void set_slice(const qb_desc *d, int32_t *total, int32_t *offset) {
    *total = (int32_t)(d->channel_total > 0 ? d->channel_total : d->shape.dim[1]);
    *offset = (int32_t)d->channel_offset;
}

#define MAX_GRID 65535  /* blocks in the last dimensions of a grid */
#define MAX_CLASSES 256 /* of one axis, where borders matter */
#define MAX_PIXEL_CLASSES 4096

/* Depth (0), height or width of a convolution. */
static axis axis_of(const qb_cuda_conv *c, int32_t d) {
    const axis all[3] = {{c->in_d, c->out_d, c->kernel_d, c->stride_d, c->dilation_d, c->pad_d},
                         {c->in_h, c->out_h, c->kernel_h, c->stride_h, c->dilation_h, c->pad_h},
                         {c->in_w, c->out_w, c->kernel_w, c->stride_w, c->dilation_w, c->pad_w}};
    return all[d];
}

/* Taps of a kernel along an axis. */
typedef struct tap_range {
    int64_t begin, end;
} tap_range;

/* Those of output `at` that lie on the data. */
static tap_range valid_taps(const axis *a, int64_t at) {
    const int64_t first = at * a->stride - a->pad, d = a->dilation;
    const int64_t begin = first < 0 ? (d - 1 - first) / d : 0;
    const int64_t end = first < a->in ? (a->in - 1 - first) / d + 1 : 0;
    const tap_range t = {begin, end < a->kernel ? end : a->kernel};
    return t.begin < t.end ? t : (tap_range){0, 0};
}

static bool has(tap_range all, int64_t t) { return t >= all.begin && t < all.end; }

static bool are_same(tap_range a, tap_range b) { return a.begin == b.begin && a.end == b.end; }

/* Outputs by their valid taps: `n` classes along each axis, in the order in which they appear. */
typedef struct classes {
    int32_t n[3];
    tap_range of[3][MAX_CLASSES];
} classes;

/* The class of output `at` along axis d; n: it has a class of its own so far. */
static int32_t class_of(const axis *a, int64_t at, const classes *k, int32_t d) {
    const tap_range own = valid_taps(a, at);
    int32_t i = 0;
    while (i < k->n[d] && !are_same(k->of[d][i], own)) i++;
    return i;
}

/* False: there are too many. */
static bool classify(const qb_cuda_conv *c, classes *k) {
    for (int32_t d = 0; d < 3; d++) {
        const axis a = axis_of(c, d);
        tap_range last = {-1, -1};
        k->n[d] = 0;
        for (int64_t at = 0; at < a.out; at++) {
            const tap_range own = valid_taps(&a, at);
            if (are_same(own, last)) continue; /* most are as their neighbour */
            last = own;
            if (class_of(&a, at, k, d) < k->n[d]) continue;
            if (k->n[d] == MAX_CLASSES) return false;
            k->of[d][k->n[d]++] = own;
        }
    }
    return (int64_t)k->n[0] * k->n[1] * k->n[2] <= MAX_PIXEL_CLASSES;
}

static bool reaches_out_of_depth(const qb_cuda_conv *c) {
    const int32_t last = (c->out_d - 1) * c->stride_d - c->pad_d;
    return c->pad_d > 0 || last + (c->kernel_d - 1) * c->dilation_d >= c->in_d;
}

static bool set_classes(const qb_problem *p, qb_cuda_packing packing, qb_cuda_conv *c) {
    classes k;
    const int32_t zero = zero_of(&p->in[QB_IN_DATA].q);
    c->classes = c->col_classes = 1;
    c->middle = 0;
    c->fill = packing >= QB_CUDA_PACKING_STEM ? zero : 0;
    if (zero == c->fill) return true;
    if (!classify(c, &k)) return false;
    c->classes = k.n[0] * k.n[1] * k.n[2];
    c->col_classes = k.n[2];
    for (int32_t d = 0; d < 3; d++) {
        const axis a = axis_of(c, d);
        c->middle = c->middle * k.n[d] + class_of(&a, a.out / 2, &k, d);
    }
    return true;
}

static float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

/* Epilogues of 16 channels at once count bytes in 32 bits. */
static bool small_enough(const qb_cuda_conv *c) {
    int64_t total = c->out_total > c->res_total ? c->out_total : c->res_total;
    return c->rows * total <= UINT32_MAX;
}

/* Bounds of the float value. */
static void set_float_bounds(qb_act act, qb_cuda_conv *c) {
    c->lowest = -INFINITY;
    c->highest = INFINITY;
    if (act.kind == QB_ACT_RELU || act.kind == QB_ACT_CLIP)
        c->lowest = act.kind == QB_ACT_RELU ? 0.0f : act.alpha;
    if (act.kind == QB_ACT_CLIP) c->highest = act.beta;
}

/* An activation is none but bounds. */
static bool is_bound(qb_act_kind kind) {
    return kind == QB_ACT_NONE || kind == QB_ACT_RELU || kind == QB_ACT_CLIP;
}

/* Quantized values of type `dtype` less their zero point. */
static void set_type_bounds(qb_dtype dtype, int32_t zero, float *lowest, float *highest) {
    *lowest = (float)((dtype == QB_DTYPE_U8 ? 0 : INT8_MIN) - zero);
    *highest = (float)((dtype == QB_DTYPE_U8 ? UINT8_MAX : INT8_MAX) - zero);
}

/* ReLU and Clip as bounds of values that are multiplied by `inverse`. */
static void bound(qb_act act, float inverse, float lowest, float highest, float *low, float *high) {
    const bool clips = act.kind == QB_ACT_CLIP;
    *low = act.kind == QB_ACT_NONE ? lowest
                                   : clamp(clips ? act.alpha * inverse : 0.0f, lowest, highest);
    *high = clips ? clamp(act.beta * inverse, lowest, highest) : highest;
    if (*low > *high) *low = *high; /* as the reference: the upper bound is the last word */
}

/* False: nothing is rounded before the residual. */
static bool set_rounding(const qb_problem *p, qb_cuda_conv *c) {
    const qb_rounding *r = &p->rounding;
    const qb_act before = p->act_first ? p->act : (qb_act){QB_ACT_NONE};
    float lowest, highest;
    c->rounds = r->dtype != QB_DTYPE_NONE;
    if (!c->rounds) return false;
    c->first_inverse = 1.0f / r->scale;
    c->first_scale = r->scale;
    set_type_bounds(r->dtype, r->zero, &lowest, &highest);
    bound(before, c->first_inverse, lowest, highest, &c->first_lowest, &c->first_highest);
    return true;
}

/* Multiplying by 1 / Sy and rounding keep the order, so that ReLU and Clip are bounds of the
 * quantized value, as long as nothing comes after them. */
static void set_epilogue(const qb_problem *p, qb_cuda_packing packing, qb_cuda_conv *c) {
    const qb_desc *y = &p->out;
    const qb_act act = set_rounding(p, c) && p->act_first ? (qb_act){QB_ACT_NONE} : p->act;
    bool has_res = qb_problem_has(p, QB_IN_RESIDUAL), bounded = is_bound(act.kind);
    bool quantizes = y->q.n > 0;
    c->out_dtype = (int32_t)y->dtype;
    c->res_dtype = has_res ? (int32_t)p->in[QB_IN_RESIDUAL].dtype : QB_DTYPE_NONE;
    c->res_scale = has_res && p->in[QB_IN_RESIDUAL].q.n ? p->in[QB_IN_RESIDUAL].q.scale[0] : 1.0f;
    c->res_zero = has_res && p->in[QB_IN_RESIDUAL].q.n ? zero_of(&p->in[QB_IN_RESIDUAL].q) : 0;
    c->act = (int32_t)act.kind;
    c->act_alpha = act.alpha;
    c->act_beta = act.beta;
    c->act_first = p->act_first;
    c->has_float_bias = qb_problem_has(p, QB_IN_BIAS) && p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32;
    c->inverse = quantizes ? 1.0f / y->q.scale[0] : 1.0f;
    c->out_zero = quantizes ? zero_of(&y->q) : 0;
    set_type_bounds(y->dtype, c->out_zero, &c->lowest, &c->highest);
    int32_t piece =
        packing == QB_CUDA_PACKING_DEPTHWISE ? 8 : 16; /* channels that are written at once */
    int32_t multiple = stored_channels(y, c) | c->out_total | c->out_offset;
    c->wide = multiple % piece == 0;
    float low = c->lowest, high = c->highest;
    if (bounded) bound(act, c->inverse, c->lowest, c->highest, &low, &high);
    if (has_res && p->act_first && act.kind != QB_ACT_NONE) bounded = false;
    if (has_res && !is_quantized(&p->in[QB_IN_RESIDUAL])) bounded = false;
    if (has_res) multiple |= c->res_total | c->res_offset;
    c->eights = multiple % 8 == 0;
    bool vector = bounded && quantizes && multiple % piece == 0 &&
                  !((has_res || c->has_float_bias) && c->classes > 1) && small_enough(c);
    c->epilogue = QB_EPILOGUE_GENERAL;
    if (!quantizes) set_float_bounds(act, c);
    if (bounded && quantizes) {
        c->lowest = low;
        c->highest = high;
    }
    if (!vector) return;
    if (c->has_float_bias) {
        if (c->rounds) return;
        c->epilogue = has_res ? QB_EPILOGUE_FLOAT_BIAS_RESIDUAL : QB_EPILOGUE_FLOAT_BIAS;
        return;
    }
    const bool saturates = low == 0.0f && rintf(high) == 255.0f;
    c->epilogue = c->rounds ? QB_EPILOGUE_RESIDUAL_ROUNDED
                  : has_res ? saturates ? QB_EPILOGUE_RESIDUAL_SATURATE : QB_EPILOGUE_RESIDUAL
                  : c->classes > 1 ? QB_EPILOGUE_CLASS
                  : saturates      ? QB_EPILOGUE_SATURATE
                                   : QB_EPILOGUE_PLAIN;
}

static void set_f16_epilogue(const qb_problem *p, qb_cuda_conv *c) {
    bool has_res = c->res_dtype != QB_DTYPE_NONE;
    c->has_float_bias = 1;
    c->epilogue = QB_EPILOGUE_F16_GENERAL;
    if (c->out_dtype != QB_DTYPE_F16 || !c->wide) return;
    if (has_res && (c->res_dtype != QB_DTYPE_F16 || (c->res_total | c->res_offset) % 8)) return;
    if (!is_bound(p->act.kind) || (has_res && p->act_first && p->act.kind != QB_ACT_NONE)) return;
    c->epilogue = has_res ? QB_EPILOGUE_F16_RESIDUAL : QB_EPILOGUE_F16;
}

/* Does an epilogue of 16 channels at once take it (VECTOR)? */
static bool takes_vector(const qb_cuda_conv *c) {
    if (c->wide && c->out_dtype == QB_DTYPE_F32) return false;
    return c->res_dtype == QB_DTYPE_NONE || (c->res_dtype != QB_DTYPE_F32 && c->eights);
}

/* Is an activation that is off by so much within half a step of the quantized result? */
static bool is_coarse(const qb_problem *p, const qb_cuda_conv *c, float off) {
    return is_quantized(&p->out) && c->inverse * off < 0.5f;
}

/* No residual, or a quantized one of which 16 channels lie on a boundary. */
static bool takes_residual16(const qb_problem *p, const qb_cuda_conv *c) {
    return c->res_dtype == QB_DTYPE_NONE ||
           (is_quantized(&p->in[QB_IN_RESIDUAL]) && (c->res_total | c->res_offset) % 16 == 0);
}

static bool is_silu(const qb_problem *p, const qb_cuda_conv *c) {
    return p->act.kind == QB_ACT_SILU && is_coarse(p, c, QB_CUDA_SILU_COARSE) &&
           !c->has_float_bias && takes_residual16(p, c) &&
           (c->act_first || c->res_dtype == QB_DTYPE_NONE);
}

/* LeakyRelu and HardSwish ahead of a residual, bounds behind it. */
static bool is_exact(const qb_problem *p, const qb_cuda_conv *c) {
    const qb_act_kind act = p->act.kind;
    const bool first = act == QB_ACT_LEAKY_RELU || act == QB_ACT_HARD_SWISH;
    const bool alone = c->res_dtype == QB_DTYPE_NONE || act == QB_ACT_NONE;
    return (first ? alone || c->act_first : is_bound(act) && (alone || !c->act_first)) &&
           is_quantized(&p->out) && !c->has_float_bias && !c->rounds && small_enough(c) &&
           takes_residual16(p, c);
}

/* Of a problem for which it is general so far. */
static qb_cuda_epilogue choose_epilogue(const qb_problem *p, const qb_cuda_conv *c) {
    const bool alone = c->res_dtype == QB_DTYPE_NONE, f16 = qb_cuda_conv_is_f16(c);
    const qb_cuda_epilogue vector = f16 ? QB_EPILOGUE_F16_VECTOR : QB_EPILOGUE_VECTOR;
    const bool to_f16 = c->out_dtype == QB_DTYPE_F16;
    const qb_act_kind act = p->act.kind;
    if (alone && is_bound(act) && c->classes == 1 && (!c->wide || c->out_dtype == QB_DTYPE_F32))
        return f16 ? QB_EPILOGUE_F16_UNALIGNED : QB_EPILOGUE_UNALIGNED;
    if (!takes_vector(c)) return (qb_cuda_epilogue)c->epilogue;
    if (!c->wide) return vector;
    if (f16) {
        const bool adds = c->act_first && c->res_dtype == QB_DTYPE_F16;
        if (to_f16 && alone && act == QB_ACT_GELU) return QB_EPILOGUE_F16_GELU;
        return to_f16 && (alone || adds) && act == QB_ACT_SILU ? QB_EPILOGUE_F16_SILU : vector;
    }
    if (is_silu(p, c)) return QB_EPILOGUE_SILU;
    if (is_exact(p, c)) return QB_EPILOGUE_EXACT;
    if (c->classes > 1) return vector;
    if (alone && act == QB_ACT_GELU && is_quantized(&p->out))
        return is_coarse(p, c, QB_CUDA_GELU_COARSE) ? QB_EPILOGUE_GELU_COARSE : QB_EPILOGUE_GELU;
    if (to_f16 && alone && act == QB_ACT_GELU) return QB_EPILOGUE_TO_F16_GELU;
    if (!to_f16 || !is_bound(act)) return vector;
    if (alone) return QB_EPILOGUE_TO_F16;
    const bool adds = (act == QB_ACT_NONE || !c->act_first) && !c->rounds;
    return adds && is_quantized(&p->in[QB_IN_RESIDUAL]) && small_enough(c)
               ? QB_EPILOGUE_TO_F16_RESIDUAL
               : vector;
}

qb_cuda_epilogue qb_cuda_conv_epilogue(const qb_cuda_conv *c, uint32_t set) {
    static const qb_cuda_epilogue next[] = {
#define QB_CUDA_EPILOGUE(NAME, SUMS, BIAS, ACTIVATION, RESIDUAL, STORE, NEXT) QB_EPILOGUE_##NEXT,
#include "kernels/cuda/conv/epilogues.def"
#undef QB_CUDA_EPILOGUE
    };
    qb_cuda_epilogue at = (qb_cuda_epilogue)c->epilogue;
    while (!(set >> at & 1) && next[at] != at) {
        at = next[at];
        const bool vector = at == QB_EPILOGUE_VECTOR || at == QB_EPILOGUE_F16_VECTOR;
        if (vector && c->wide && c->out_dtype == QB_DTYPE_F32) at = next[at];
    }
    return set >> at & 1 ? at : QB_EPILOGUES;
}

int32_t qb_cuda_conv_span(const qb_cuda_conv *c) {
    const int32_t ins = c->in_c / c->group, outs = c->out_c / c->group;
    int32_t most = 0;
    for (int32_t m = 0; m < c->out_c; m += 64) {
        const int32_t last = (m + 63 < c->out_c ? m + 63 : c->out_c - 1) / outs;
        const int32_t span = (last + 1) * ins - QB_CUDA_CONV_FIRST(c, m);
        if (span > most) most = span;
    }
    return most;
}

/* Sizes of the packed weight; returns its bytes, or -1 where the packing does not fit the problem.
 */
static int64_t set_weight(qb_cuda_packing packing, int32_t block_k, int32_t block_n,
                          qb_cuda_conv *c) {
    int64_t taps = c->taps, element = qb_cuda_conv_is_f16(c) ? 2 : 1;
    int32_t data = c->in_total | c->in_offset;
    bool dense = c->dilation_h == 1 && c->dilation_w == 1;
    c->n_pad = round_up(c->out_c, block_n);
    switch (packing) {
    case QB_CUDA_PACKING_TENSOR:
        if (data % 8) return -1; /* copies of 16 bytes, or of 8 where that is all that fits */
        c->in_pieces_of_8 = data * element % 16 != 0;
        if (c->group > 1 && block_n != 64) return -1; /* wider tiles multiply more zeros */
        c->k_pad = round_up(qb_cuda_conv_span(c), block_k);
        return taps * c->k_pad < INT32_MAX ? c->n_pad * taps * c->k_pad * element : -1;
    case QB_CUDA_PACKING_DEPTHWISE:
        return (int64_t)c->n_pad * c->kernel_h *
               (qb_cuda_conv_is_f16(c) ? c->kernel_w : round_up(c->kernel_w, 4) / 4) * 4;
    case QB_CUDA_PACKING_STEM:
    case QB_CUDA_PACKING_STEM_MERGED:
        if (c->in_c > 4 || !dense || c->batch * (c->n_pad / 64) > MAX_GRID) return -1;
        if (qb_cuda_conv_stem_shared(c) > QB_CUDA_SHARED) return -1;
        return (int64_t)c->n_pad * c->kernel_h * round_up(c->kernel_w * element, 8) * 4;
    }
    return -1;
}

/* A first layer of 32 or 16 channels leaves half of each multiplication empty, or more. Two or four
 * of its results that lie next to each other are as one of that many channels more, by a window
 * that is wider by as many strides: the weight of each stands a stride further. Neither the image
 * nor the result lies differently. */
static void merge_results(const qb_desc *y, qb_cuda_conv *c) {
    const int32_t channels = stored_channels(y, c);
    if (channels % 16 != 0 || c->out_total != channels || c->res_dtype != QB_DTYPE_NONE) return;
    for (int32_t n = 4; n > 1; n /= 2) {
        if (n * channels > 64 || c->out_w % n != 0 || c->stride_w * n > 4 ||
            c->kernel_w + (n - 1) * c->stride_w > 8)
            continue;
        c->merged = n;
        c->kernel_w += (n - 1) * c->stride_w;
        c->taps = c->kernel_h * c->kernel_w;
        c->stride_w *= n;
        c->out_w /= n;
        c->rows /= n;
        c->out_c = c->out_total = n * channels;
        return;
    }
}

/* As it was before merge_results, but for padding of the result, which has channels then. */
static qb_cuda_conv single_results(const qb_cuda_conv *c) {
    qb_cuda_conv s = *c;
    s.stride_w /= c->merged;
    s.kernel_w -= (c->merged - 1) * s.stride_w;
    s.taps = s.kernel_d * s.kernel_h * s.kernel_w;
    s.out_w *= c->merged;
    s.rows *= c->merged;
    s.out_c = s.out_total = c->out_c / c->merged;
    return s;
}

int32_t qb_cuda_stationary_stages(const qb_cuda_conv *c, int32_t channels, int32_t block_k,
                                  int32_t groups) {
    const int64_t fixed = QB_CUDA_STATIONARY_FIXED(c, (int64_t)channels);
    const int64_t stage = 64 * (channels > block_k ? channels : block_k) + 16;
    const int64_t stages = (QB_CUDA_WGMMA_SHARED - fixed) / (groups * stage);
    return stages > QB_CUDA_STATIONARY_MOST ? QB_CUDA_STATIONARY_MOST
           : stages < 0                     ? 0
                                            : (int32_t)stages;
}

/* Tiles, each of which copies its lines and multiplies all of its pixels: a copied pixel takes
 * about three times what a tap of a pixel does. */
static int64_t halo_cost(const qb_cuda_conv *c, const qb_cuda_halo *w, int32_t pixels) {
    const int64_t lines = w->rows + c->kernel_h - 1, taps = c->kernel_h * c->kernel_w;
    const int64_t tiles = (int64_t)(round_up(c->out_w, w->columns) / w->columns) *
                          (round_up(c->out_h, w->rows) / w->rows);
    return tiles * (3 * lines * w->columns * c->kernel_w + taps * pixels);
}

bool qb_cuda_halo_of(const qb_cuda_conv *c, int32_t channels, int32_t pixels, qb_cuda_halo *out) {
    const int32_t taps = c->kernel_h * c->kernel_w;
    const int64_t weight = (int64_t)taps * c->k_pad * channels;
    /* what a multiplication reads behind the last stage is the weight */
    if (c->group > 1 || qb_cuda_conv_is_volume(c) || c->kernel_h < 2 || weight < pixels * 64 ||
        weight > QB_CUDA_WGMMA_SHARED || c->stride_h != 1 || c->stride_w != 1 ||
        c->dilation_h != 1 || c->dilation_w != 1)
        return false;
    int64_t least = INT64_MAX;
    for (int32_t columns = 8; columns <= pixels; columns += 8) {
        const int32_t most = pixels / columns, down = round_up(c->out_h, most) / most;
        qb_cuda_halo w = {.rows = round_up(c->out_h, down) / down, .columns = columns};
        const int32_t lines = w.rows + c->kernel_h - 1;
        w.stage_bytes = lines * columns * 64;
        /* 1024 to align the ring, two barriers a stage, and three */
        const int64_t fixed = 1024 + weight + 24, stage = w.stage_bytes + 16;
        const int64_t stages = (QB_CUDA_WGMMA_SHARED - fixed) / stage;
        const int64_t cost = halo_cost(c, &w, pixels);
        if (stages < QB_CUDA_HALO_LEAST || cost >= least) continue;
        w.stages = stages > QB_CUDA_HALO_MOST ? QB_CUDA_HALO_MOST : (int32_t)stages;
        w.shared_bytes = (int32_t)(fixed + w.stages * stage);
        least = cost;
        *out = w;
    }
    return least < INT64_MAX;
}

bool qb_cuda_conv_geometry(const qb_problem *p, qb_cuda_conv *conv) {
    qb_cuda_conv c = {.splits = 1, .merged = 1};
    if (p->kind != QB_KIND_CONV || !set_geometry(p, &c)) return false;
    set_slice(&p->in[QB_IN_DATA], &c.in_total, &c.in_offset);
    set_slice(&p->out, &c.out_total, &c.out_offset);
    if (qb_problem_has(p, QB_IN_RESIDUAL))
        set_slice(&p->in[QB_IN_RESIDUAL], &c.res_total, &c.res_offset);
    *conv = c;
    return true;
}

/* Smooth activations are not exact, and what was rounded in between would be off by any number of
 * steps of the result. */
static bool takes_rounding(const qb_problem *p, qb_cuda_packing packing) {
    return is_bound(p->act.kind) && packing != QB_CUDA_PACKING_DEPTHWISE && !is_f16(p);
}

bool qb_cuda_conv_of(const qb_problem *p, const bool *constant, qb_cuda_packing packing,
                     int32_t block_k, int32_t block_n, qb_cuda_conv *conv) {
    qb_cuda_conv c;
    if (!qb_cuda_conv_geometry(p, &c) || !check_operands(p, constant, packing)) return false;
    if (qb_cuda_conv_is_volume(&c) && packing != QB_CUDA_PACKING_TENSOR) return false;
    if (p->rounding.dtype != QB_DTYPE_NONE && !takes_rounding(p, packing)) return false;
    if (!set_classes(p, packing, &c)) return false;
    c.in_signed = p->in[QB_IN_DATA].dtype == QB_DTYPE_S8;
    set_epilogue(p, packing, &c);
    if (is_f16(p)) set_f16_epilogue(p, &c);
    if (c.epilogue == QB_EPILOGUE_GENERAL || c.epilogue == QB_EPILOGUE_F16_GENERAL)
        c.epilogue = choose_epilogue(p, &c);
    if (packing == QB_CUDA_PACKING_STEM_MERGED) merge_results(&p->out, &c);
    int64_t weight = set_weight(packing, block_k, block_n, &c);
    if (weight < 0) return false;
    int64_t end = 0, channel = (int64_t)c.n_pad * 4;
    qb_cuda_reserve(&end, weight);
    c.at_multiplier = qb_cuda_reserve(&end, channel);
    c.at_bias = qb_cuda_reserve(&end, channel * c.classes);
    c.at_float_bias = qb_cuda_reserve(&end, c.has_float_bias ? channel : 0);
    c.at_row_class = qb_cuda_reserve(&end, c.classes > 1 ? (int64_t)c.out_d * c.out_h * 4 : 0);
    c.at_col_class = qb_cuda_reserve(&end, c.classes > 1 ? (int64_t)c.out_w * 4 : 0);
    c.packed_bytes = end;
    *conv = c;
    return true;
}

bool qb_cuda_conv_is_inside(const qb_cuda_conv *c) {
    bool inside = c->classes == 1 && !reaches_out_of_depth(c);
    for (int32_t d = 1; d < 3; d++) {
        const axis a = axis_of(c, d);
        inside = inside && are_same(valid_taps(&a, 0), (tap_range){0, a.kernel});
    }
    return inside;
}

uint64_t qb_cuda_conv_packing_id(const qb_cuda_conv *c) {
    uint64_t form =
        qb_packing_add(qb_packing_add(qb_packing_add(1, (uint64_t)c->k_pad), (uint64_t)c->n_pad),
                       (uint64_t)c->group);
    if (c->merged > 1)
        form = qb_packing_add(qb_packing_add(form, (uint64_t)c->stride_w), (uint64_t)c->merged);
    for (int32_t d = 0; d < 3; d++) {
        const axis a = axis_of(c, d);
        /* where there is one class, the taps of the first output are those of every one; a single
         * output may hang over the border */
        const tap_range first = valid_taps(&a, 0);
        const int64_t all[] = {first.begin, first.end, a.in,       a.out,
                               a.kernel,    a.stride,  a.dilation, a.pad};
        const size_t n = c->classes > 1 ? sizeof all / sizeof *all : 2;
        for (size_t i = 0; i < n; i++) form = qb_packing_add(form, (uint64_t)all[i]);
    }
    return form;
}

/* Row of the packed weight that channel m is; see QB_CUDA_PACKING_TENSOR. */
static int32_t tensor_row(int32_t m) {
    int32_t lane = m % 64;
    return m - lane + (lane % 16 / 2) * 8 + lane / 16 * 2 + lane % 2;
}

/* The packed weight being written, element by element. */
typedef struct weight_pack {
    const qb_cuda_conv *c; /* results by themselves */
    const void *from;
    char *to;
} weight_pack;

/* Element (m, k, tap) of the problem's weight; k counts in the group of m. */
static int64_t weight_at(const qb_cuda_conv *c, int64_t m, int64_t k, int64_t tap) {
    return (m * (c->in_c / c->group) + k) * c->taps + tap;
}

/* Element `at`, of the data's size, from (m, k, tap). */
static void put_weight(const weight_pack *w, int64_t at, int32_t m, int64_t k, int64_t tap) {
    const int64_t from = weight_at(w->c, m, k, tap);
    if (qb_cuda_conv_is_f16(w->c))
        ((uint16_t *)w->to)[at] = qb_f32_to_f16(((const float *)w->from)[from]);
    else
        ((int8_t *)w->to)[at] = ((const int8_t *)w->from)[from];
}

/* With groups a channel meets data of the groups beside its own, by weights of 0: infinities there
 * would become NaN here. */
static void pack_tensor(const weight_pack *w, int32_t m) {
    const qb_cuda_conv *c = w->c;
    const int32_t taps = c->taps, ins = c->in_c / c->group;
    const int32_t group = m / (c->out_c / c->group);
    const int32_t first = group * ins - QB_CUDA_CONV_FIRST(c, m / 64 * 64);
    for (int32_t k = 0; k < ins; k++)
        for (int32_t t = 0; t < taps; t++)
            put_weight(w, ((int64_t)tensor_row(m) * taps + t) * c->k_pad + first + k, m, k, t);
}

static void pack_depthwise(const weight_pack *w, int32_t m) {
    const qb_cuda_conv *c = w->c;
    int64_t words = round_up(c->kernel_w, 4) / 4;
    for (int32_t r = 0; r < c->kernel_h; r++)
        for (int32_t s = 0; s < c->kernel_w; s++) {
            int32_t tap = r * c->kernel_w + s;
            if (qb_cuda_conv_is_f16(c))
                ((float *)w->to)[(int64_t)tap * c->n_pad + m] =
                    ((const float *)w->from)[weight_at(c, m, 0, tap)];
            else
                put_weight(w, ((r * words + s / 4) * c->n_pad + m) * 4 + s % 4, m, 0, tap);
        }
}

/* Words of four bytes: [64 channels][kernel row][step][tile of 8][lane][2]. Lane 4 g + t holds
 * words t and t + 4 of the step for row g of the tile. */
static void pack_stem(const weight_pack *w, int32_t m) {
    const qb_cuda_conv *c = w->c;
    int32_t per_pixel = qb_cuda_conv_is_f16(c) ? 2 : 1,
            in_word = qb_cuda_conv_is_f16(c) ? 2 : 4; /* words, and channels in one */
    const int32_t width = c->kernel_w + (c->merged - 1) * c->stride_w; /* of merged results */
    int32_t steps = round_up(width * per_pixel, 8) / 8;
    for (int32_t i = 0; i < c->merged; i++) {
        int32_t row = tensor_row(m + i * c->out_c) % 64, tile = row / 8;
        for (int32_t r = 0; r < c->kernel_h; r++)
            for (int32_t s = 0; s < c->kernel_w; s++)
                for (int32_t k = 0; k < c->in_c; k++) {
                    int32_t word = (s + i * c->stride_w) * per_pixel + k / in_word;
                    int64_t step = ((int64_t)(m / 64) * c->kernel_h + r) * steps + word / 8;
                    int64_t at = (step * 8 + tile) * 32 + row % 8 * 4 + word % 4;
                    at = at * 2 + word % 8 / 4;
                    put_weight(w, at * in_word + k % in_word, m, k, r * c->kernel_w + s);
                }
    }
}

static void pack_weight(const qb_cuda_conv *c, qb_cuda_packing packing, int32_t channels,
                        const void *weight, char *packed) {
    static void (*const packers[])(const weight_pack *w,
                                   int32_t m) = {[QB_CUDA_PACKING_TENSOR] = pack_tensor,
                                                 [QB_CUDA_PACKING_DEPTHWISE] = pack_depthwise,
                                                 [QB_CUDA_PACKING_STEM] = pack_stem,
                                                 [QB_CUDA_PACKING_STEM_MERGED] = pack_stem};
    weight_pack w = {.c = c, .from = weight, .to = packed};
    for (int32_t m = 0; m < channels; m++) packers[packing](&w, m);
}

/* Class `k` of pixels has tap t? */
static bool is_valid(const qb_cuda_conv *c, const classes *of, int32_t k, int32_t t) {
    return has(of->of[2][k % of->n[2]], t % c->kernel_w) &&
           has(of->of[1][k / of->n[2] % of->n[1]], t / c->kernel_w % c->kernel_h) &&
           has(of->of[0][k / of->n[2] / of->n[1]], t / c->kernel_w / c->kernel_h);
}

/* bias[class][m] = bias[m] - Zx sum of w over the taps that are valid in the class; sums wrap as
 * the accumulators do. */
static void pack_bias(const qb_cuda_conv *c, int32_t channels, uint32_t zero, const int8_t *weight,
                      const int32_t *bias, uint32_t *out, const classes *of) {
    const int32_t per_group = c->in_c / c->group;
    for (int32_t m = 0; m < channels; m++) {
        for (int32_t k = 0; k < c->classes; k++)
            out[(int64_t)k * c->n_pad + m] = bias ? (uint32_t)bias[m] : 0u;
        for (int32_t t = 0; zero != 0 && t < c->taps; t++) {
            uint32_t sum = 0;
            for (int32_t i = 0; i < per_group; i++) sum += (uint32_t)weight[weight_at(c, m, i, t)];
            for (int32_t k = 0; k < c->classes; k++)
                if (is_valid(c, of, k, t)) out[(int64_t)k * c->n_pad + m] -= zero * sum;
        }
    }
}

/* The tables of a class's part for each row, planes one after the other, and for each column. */
static void pack_classes(const qb_cuda_conv *c, const classes *of, char *to) {
    const axis planes = axis_of(c, 0), rows = axis_of(c, 1), columns = axis_of(c, 2);
    int32_t *row = (int32_t *)(to + c->at_row_class), *column = (int32_t *)(to + c->at_col_class);
    for (int32_t z = 0; z < c->out_d; z++)
        for (int32_t y = 0; y < c->out_h; y++)
            *row++ = class_of(&planes, z, of, 0) * of->n[1] + class_of(&rows, y, of, 1);
    for (int32_t x = 0; x < c->out_w; x++) *column++ = class_of(&columns, x, of, 2);
}

/* The constants of a result's channels for those that it is merged with. */
static void pack_merged(const qb_cuda_conv *single, char *constants) {
    const size_t bytes = (size_t)single->out_c * 4;
    for (int32_t i = 1; i < single->merged; i++)
        memcpy(constants + (size_t)i * bytes, constants, bytes);
}

void qb_cuda_conv_pack(const qb_problem *p, const qb_cuda_conv *conv, qb_cuda_packing packing,
                       const void *const *constants, void *packed) {
    char *to = packed;
    const qb_cuda_conv single = single_results(conv), *c = &single;
    const qb_qparams *w = &p->in[QB_IN_WEIGHT].q;
    const void *bias = qb_problem_has(p, QB_IN_BIAS) ? constants[QB_IN_BIAS] : NULL;
    const int32_t zero = zero_of(&p->in[QB_IN_DATA].q);
    classes of = {.n = {1, 1, 1}};
    /* those that are merged may be padded; where not, the problem may be a matrix product's */
    const int32_t channels = conv->merged > 1 ? (int32_t)p->out.shape.dim[1] : c->out_c;
    memset(packed, 0, (size_t)c->packed_bytes);
    pack_weight(c, packing, channels, constants[QB_IN_WEIGHT], to);
    if (bias && c->has_float_bias)
        memcpy(to + c->at_float_bias, bias, (size_t)channels * sizeof(float));
    if (c->has_float_bias) pack_merged(c, to + c->at_float_bias);
    if (qb_cuda_conv_is_f16(c)) return;
    float *multiplier = (float *)(to + c->at_multiplier);
    for (int32_t m = 0; m < channels; m++)
        multiplier[m] = p->in[QB_IN_DATA].q.scale[0] * w->scale[m % w->n];
    if (c->fill != 0) /* padding counts as data does */
        of.of[0][0] = of.of[1][0] = of.of[2][0] = (tap_range){0, INT32_MAX};
    else if (zero != 0)
        classify(c, &of);
    if (c->classes > 1) pack_classes(c, &of, to); /* else nobody asks */
    pack_bias(c, channels, (uint32_t)zero, constants[QB_IN_WEIGHT], c->has_float_bias ? NULL : bias,
              (uint32_t *)(to + c->at_bias), &of);
    pack_merged(c, to + c->at_multiplier);
    pack_merged(c, to + c->at_bias);
}

/* The plain convolution and transposed convolution as tactics, for 8-bit values and for floats (f16
 * or f32 data, f32 weights and sums). Floats of a weight or bias that is computed are packed by
 * each launch, in the workspace. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/direct.h"

static bool is_quantized(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_U8 || d->dtype == QB_DTYPE_S8) && d->q.n > 0;
}

static bool is_float(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_F32 || d->dtype == QB_DTYPE_F16) && d->q.n == 0;
}

static bool lower_operands(const qb_problem *p, const bool *constant, bool smooth,
                           qb_cuda_direct *d) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT];
    const bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    d->computed = !constant[QB_IN_WEIGHT] || (has_bias && !constant[QB_IN_BIAS]);
    d->integer = is_quantized(x) && is_quantized(w);
    if ((w->layout != QB_LAYOUT_ROW && w->layout != QB_LAYOUT_ANY) || w->channel_total != 0)
        return false;
    if (d->integer ? d->computed : !is_float(x) || !is_float(w)) return false;
    if (w->dtype == QB_DTYPE_F16 && !d->computed) return false;
    if (d->integer && qb_cuda_is_smooth(p->act.kind) != smooth) return false;
    if (!d->integer && smooth) return false; /* floats are compared by tolerance anyhow */
    d->has_bias = has_bias;
    d->f16_weight = w->dtype == QB_DTYPE_F16;
    if (!has_bias) return true;
    const qb_desc *b = &p->in[QB_IN_BIAS];
    d->has_float_bias = is_float(b);
    d->f16_bias = b->dtype == QB_DTYPE_F16;
    return d->has_float_bias ? !d->f16_bias || d->computed : d->integer && b->dtype == QB_DTYPE_S32;
}

static bool lower(const qb_problem *p, const bool *constant, bool smooth, qb_problem *finalized,
                  qb_desc *in, qb_cuda_direct *d) {
    *d = (qb_cuda_direct){.transposed = p->kind == QB_KIND_CONV_TRANSPOSE};
    if (p->n_in < 2 || p->n_in > 4 || !lower_operands(p, constant, smooth, d)) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    if (!qb_cuda_window_of(finalized, &d->w) || !qb_cuda_value_of(&in[QB_IN_DATA], &d->in) ||
        !qb_cuda_epilogue_params_of(finalized, &d->end))
        return false;
    int64_t taps = (int64_t)d->w.kernel[0] * d->w.kernel[1] * d->w.kernel[2], end = 0;
    int64_t weights = taps * (d->w.in_c / d->w.group) * d->w.out_c;
    qb_cuda_reserve(&end, weights * (int64_t)(d->integer ? sizeof(int16_t) : sizeof(float)));
    d->at_multiplier = qb_cuda_reserve(&end, (int64_t)d->w.out_c * 4);
    d->at_bias = qb_cuda_reserve(&end, (int64_t)d->w.out_c * 4);
    d->packed_bytes = end;
    return true;
}

/* Element (m, c, tap) of the problem's weight; c counts in the group of m. */
static int64_t weight_at(const qb_cuda_direct *d, int64_t taps, int64_t m, int64_t c, int64_t tap) {
    int64_t channels = d->w.in_c / d->w.group, outs = d->w.out_c / d->w.group;
    if (!d->transposed) return (m * channels + c) * taps + tap;
    return ((m / outs * channels + c) * outs + m % outs) * taps + tap;
}

static int32_t weight_zero(const qb_cuda_direct *d, const qb_qparams *q, int64_t m) {
    int64_t at = d->transposed ? m % (d->w.out_c / d->w.group) : m;
    return q->zero ? q->zero[q->n > 1 ? at % q->n : 0] : 0;
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const qb_cuda_direct *d = kernel->state;
    const qb_problem *p = &kernel->problem;
    const qb_desc *w = &p->in[QB_IN_WEIGHT];
    const void *weight = constants[QB_IN_WEIGHT];
    int64_t outs = d->w.out_c, channels = d->w.in_c / d->w.group;
    int64_t taps = (int64_t)d->w.kernel[0] * d->w.kernel[1] * d->w.kernel[2];
    memset(packed, 0, (size_t)d->packed_bytes);
    for (int64_t m = 0; m < outs; m++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t t = 0; t < taps; t++) {
                int64_t from = weight_at(d, taps, m, c, t), to = (t * channels + c) * outs + m;
                int32_t zero = weight_zero(d, &w->q, m);
                if (!d->integer)
                    ((float *)packed)[to] = ((const float *)weight)[from];
                else if (w->dtype == QB_DTYPE_U8)
                    ((int16_t *)packed)[to] = (int16_t)(((const uint8_t *)weight)[from] - zero);
                else
                    ((int16_t *)packed)[to] = (int16_t)(((const int8_t *)weight)[from] - zero);
            }
    float *multiplier = (float *)(void *)((char *)packed + d->at_multiplier);
    for (int64_t m = 0; d->integer && m < outs; m++)
        multiplier[m] = p->in[QB_IN_DATA].q.scale[0] * w->q.scale[w->q.n > 1 ? m % w->q.n : 0];
    if (d->has_bias) memcpy((char *)packed + d->at_bias, constants[QB_IN_BIAS], (size_t)outs * 4);
    return QB_OK;
}

typedef int direct_run(const qb_cuda_direct *p, const void *in, const void *residual,
                       const char *packed, void *out, void *stream);

static qb_status launch_with(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args,
                             direct_run *run) {
    const qb_cuda_direct *d = kernel->state;
    const void *residual =
        qb_problem_has(&kernel->problem, QB_IN_RESIDUAL) ? args->in[QB_IN_RESIDUAL] : NULL;
    const char *packed = d->computed ? args->workspace : args->packed;
    if (d->computed) {
        const void *bias = d->has_bias ? args->in[QB_IN_BIAS] : NULL;
        QB_TRY(qb_cuda_check(
            cx,
            qb_cuda_direct_pack_run(d, args->in[QB_IN_WEIGHT], bias, args->workspace, args->stream),
            kernel->tactic->name));
    }
    return qb_cuda_check(cx,
                         run(d, args->in[QB_IN_DATA], residual, packed, args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return launch_with(cx, kernel, args, qb_cuda_direct_run);
}

static qb_status launch_tile(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return launch_with(cx, kernel, args, qb_cuda_direct_tile_run);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, bool smooth, qb_kernel **out) {
    qb_problem finalized;
    qb_desc in[4];
    qb_cuda_direct d;
    if (!lower(problem, constant, smooth, &finalized, in, &d)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create(cx, tactic, &finalized, &d, sizeof d, out));
    qb_kernel *kernel = *out;
    if (d.computed) {
        kernel->workspace_bytes = (size_t)d.packed_bytes;
        return QB_OK;
    }
    kernel->packed_bytes = (size_t)d.packed_bytes;
    kernel->packing_id = qb_packing_add(1, (uint64_t)d.w.group);
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    if (d.has_bias) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    kernel->pack = pack;
    return QB_OK;
}

#define WINDOW(SYMBOL, NAME, KIND, SMOOTH, EXACTNESS, LAUNCH)                                      \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        qb_problem finalized;                                                                      \
        qb_desc in[4];                                                                             \
        qb_cuda_direct d;                                                                          \
        if (LAUNCH == launch_tile && problem->group != 1) return false;                            \
        return problem->kind == KIND && lower(problem, constant, SMOOTH, &finalized, in, &d);      \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)threads;                                                                             \
        QB_TRY(create(cx, tactic, problem, constant, SMOOTH, out));                                \
        (*out)->launch = LAUNCH;                                                                   \
        return QB_OK;                                                                              \
    }                                                                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, KIND, .exactness = EXACTNESS, .rounds = true)

WINDOW(cuda_conv_tile, "conv.tile_64x64x16", QB_KIND_CONV, false, QB_EXACT, launch_tile);
WINDOW(cuda_conv_tile_smooth, "conv.tile_64x64x16_smooth", QB_KIND_CONV, true, QB_WITHIN_1_LSB,
       launch_tile);
WINDOW(cuda_conv, "conv", QB_KIND_CONV, false, QB_EXACT, launch);
WINDOW(cuda_conv_smooth, "conv_smooth", QB_KIND_CONV, true, QB_WITHIN_1_LSB, launch);
WINDOW(cuda_conv_transpose, "conv_transpose", QB_KIND_CONV_TRANSPOSE, false, QB_EXACT, launch);
WINDOW(cuda_conv_transpose_smooth, "conv_transpose_smooth", QB_KIND_CONV_TRANSPOSE, true,
       QB_WITHIN_1_LSB, launch);

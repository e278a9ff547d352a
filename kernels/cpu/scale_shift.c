/* x scale[c] + shift[c] and an activation, with AVX-512: a depthwise convolution whose window is
 * one pixel, as the pass scale-to-conv makes of a normalization that no convolution took in. Bound
 * by memory: both sides may be channel slices, the result may lie where the data were. Elsewhere
 * the portable depthwise convolution does it. */
#include <string.h>

#define QB_SIMD_TIER QB_SIMD_AVX512
#include "finish_simd.h"

#if QB_X86

#define PIXELS 4            /* at once: they share the loads of the constants */
#define FEW_PIXELS 128      /* they are shared out by channels, as the convolutions around do */
#define WORK_OF_A_TASK 8192 /* elements */

typedef struct scale_shift {
    qb_finish finish;
    qb_dtype in;
    bool float_bias, is_plain; /* is_plain: f32 on both sides, nothing in the end but bounds */
    int32_t zero;
    int64_t pixels, channels, lanes;                /* lanes: the channels, up to whole vectors */
    int64_t first_in, in_step, first_out, out_step; /* bytes */
    int64_t pixel_parts, channel_parts;             /* a task is one of each */
} scale_shift;

/* Packed, `lanes` of each: the weight, what the sum starts with; for codes also the multiplier and
 * the float bias. A code's weight is an int16 in 32 bits. */
enum { WEIGHT, START, MULTIPLIER, BIAS };

static const char *constants_at(const scale_shift *s, const char *packed, int which, int64_t c) {
    return packed + (which * s->lanes + c) * 4;
}

/* The sum of one vector of channels, before the end. */
QB_AVX512 QB_FORCE_INLINE __m512 sum_of(const scale_shift *s, const char *from, __mmask16 mask,
                                        const char *packed, int64_t c, qb_dtype in) {
    const __m512 weight = _mm512_loadu_ps(constants_at(s, packed, WEIGHT, c));
    const __m512 start = _mm512_loadu_ps(constants_at(s, packed, START, c));
    if (in == QB_DTYPE_F32)
        return _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, from), weight, start);
    if (in == QB_DTYPE_BF16) return _mm512_fmadd_ps(vf_load_bf16(from, mask), weight, start);
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, from);
    const __m512i code =
        in == QB_DTYPE_S8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    /* the upper halves of the weight are zero */
    const __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(code, _mm512_castps_si512(weight)),
                                         _mm512_castps_si512(start));
    const __m512 real = _mm512_mul_ps(_mm512_cvtepi32_ps(sum),
                                      _mm512_loadu_ps(constants_at(s, packed, MULTIPLIER, c)));
    if (!s->float_bias) return real;
    return _mm512_add_ps(real, _mm512_loadu_ps(constants_at(s, packed, BIAS, c)));
}

/* `n` pixels from `from` on, channels [c, end). */
QB_AVX512 QB_FORCE_INLINE void run_pixels(const scale_shift *s, const char *from, char *to,
                                          const char *packed, int64_t c, int64_t end, const int n,
                                          qb_dtype in, bool plain) {
    const qb_finish *f = &s->finish;
    const int64_t in_size = in == QB_DTYPE_F32 ? 4 : in == QB_DTYPE_BF16 ? 2 : 1;
    const int64_t out_size = plain ? 4 : (int64_t)qb_dtype_size(f->out);
    for (; c < end; c += 16) {
        const int64_t left = end - c;
        const __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
        QB_UNROLL for (int i = 0; i < n; i++) {
            const __m512 v = sum_of(s, from + i * s->in_step + c * in_size, mask, packed, c, in);
            char *at = to + i * s->out_step + c * out_size;
            if (plain)
                qb_finish_vector(f, v, mask, NULL, at, QB_DTYPE_F32, false, false);
            else
                qb_finish_vector(f, v, mask, NULL, at, f->out, false, f->act.kind != QB_ACT_NONE);
        }
    }
}

typedef struct job {
    const scale_shift *s;
    const char *in, *packed;
    char *out;
} job;

QB_AVX512 QB_FORCE_INLINE void run_part(const job *j, int64_t begin, int64_t end, int64_t c,
                                        int64_t c_end, qb_dtype in, bool plain) {
    const scale_shift *s = j->s;
    const char *from = j->in + begin * s->in_step;
    char *to = j->out + begin * s->out_step;
    int64_t left = end - begin;
    for (; left >= PIXELS; left -= PIXELS, from += PIXELS * s->in_step, to += PIXELS * s->out_step)
        run_pixels(s, from, to, j->packed, c, c_end, PIXELS, in, plain);
    for (; left > 0; left--, from += s->in_step, to += s->out_step)
        run_pixels(s, from, to, j->packed, c, c_end, 1, in, plain);
}

QB_AVX512 static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const scale_shift *s = j->s;
    const int64_t part = task / s->channel_parts, slice = task % s->channel_parts;
    const int64_t begin = qb_part_begin(s->pixels, s->pixel_parts, part);
    const int64_t end = qb_part_begin(s->pixels, s->pixel_parts, part + 1);
    const int64_t c = 16 * qb_part_begin(s->lanes / 16, s->channel_parts, slice);
    const int64_t c_end =
        qb_min64(s->channels, 16 * qb_part_begin(s->lanes / 16, s->channel_parts, slice + 1));
    if (s->is_plain)
        run_part(j, begin, end, c, c_end, QB_DTYPE_F32, true);
    else if (s->in == QB_DTYPE_F32)
        run_part(j, begin, end, c, c_end, QB_DTYPE_F32, false);
    else if (s->in == QB_DTYPE_BF16)
        run_part(j, begin, end, c, c_end, QB_DTYPE_BF16, false);
    else
        run_part(j, begin, end, c, c_end, s->in, false);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const scale_shift *s = kernel->state;
    job j = {.s = s,
             .in = (const char *)args->in[QB_IN_DATA] + s->first_in,
             .out = (char *)args->out + s->first_out,
             .packed = args->packed};
    qb_workers_run(args->workers, s->pixel_parts * s->channel_parts, run_task, &j);
    return QB_OK;
}

static bool is_codes(const scale_shift *s) { return s->in == QB_DTYPE_U8 || s->in == QB_DTYPE_S8; }

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const scale_shift *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const qb_qparams *q = &p->in[QB_IN_WEIGHT].q;
    const void *bias = qb_problem_has(p, QB_IN_BIAS) ? constants[QB_IN_BIAS] : NULL;
    memset(packed, 0, kernel->packed_bytes);
    if (!is_codes(s)) {
        memcpy(packed, constants[QB_IN_WEIGHT], (size_t)s->channels * 4);
        if (bias) memcpy((float *)packed + s->lanes * START, bias, (size_t)s->channels * 4);
        return QB_OK;
    }
    uint32_t *weight = packed, *start = weight + s->lanes * START;
    float *multiplier = (float *)packed + s->lanes * MULTIPLIER;
    if (s->float_bias) memcpy((float *)packed + s->lanes * BIAS, bias, (size_t)s->channels * 4);
    for (int64_t c = 0; c < s->channels; c++) {
        const int32_t w = ((const int8_t *)constants[QB_IN_WEIGHT])[c];
        weight[c] = (uint16_t)w;
        start[c] = (bias && !s->float_bias ? ((const uint32_t *)bias)[c] : 0) -
                   (uint32_t)w * (uint32_t)s->zero;
        multiplier[c] = p->in[QB_IN_DATA].q.scale[0] * q->scale[q->n > 1 ? c : 0];
    }
    return QB_OK;
}

/* Codes beside s8 weights without zero points, or floats beside f32 ones. */
static bool constants_fit(const qb_problem *p) {
    const qb_desc *x = &p->in[QB_IN_DATA], *w = &p->in[QB_IN_WEIGHT], *b = &p->in[QB_IN_BIAS];
    const bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    if (!qb_cpu_is_code(x))
        return (qb_cpu_is_real(x) || qb_cpu_is_bf16(x)) && qb_cpu_is_real(w) &&
               (!has_bias || qb_cpu_is_real(b));
    if (w->dtype != QB_DTYPE_S8 || w->q.n < 1 || (w->q.n > 1 && w->q.axis != 0)) return false;
    for (int32_t i = 0; w->q.zero && i < w->q.n; i++)
        if (w->q.zero[i] != 0) return false;
    return !has_bias || qb_cpu_is_real(b) || b->dtype == QB_DTYPE_S32;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[QB_IN_DATA], *y = &p->out;
    const bool bf16 = qb_cpu_is_bf16(x) || qb_cpu_is_bf16(y);
    if (!(bf16 ? qb_processor_has(QB_TIER_AVX512_BF16) : qb_processor_has(QB_TIER_AVX512)))
        return false;
    if (!qb_problem_is_scale(p)) return false;
    if (!constant[QB_IN_WEIGHT] || (qb_problem_has(p, QB_IN_BIAS) && !constant[QB_IN_BIAS]))
        return false;
    return constants_fit(p) && (qb_finish_supports(p) || qb_cpu_is_bf16(y)) && qb_cpu_is_nhwc(x) &&
           qb_cpu_is_nhwc(y) && qb_shape_count(&y->shape) > 0;
}

/* The byte of the first channel, and bytes from pixel to pixel. */
static void place(const qb_desc *desc, int64_t *first, int64_t *step) {
    const int64_t size = (int64_t)qb_dtype_size(desc->dtype);
    *first = desc->channel_offset * size;
    *step = qb_cpu_channels(desc) * size;
}

static void share(scale_shift *s, int threads) {
    const int64_t vectors = s->lanes / 16, work = s->pixels * s->channels;
    const int64_t wanted = qb_min64(8 * threads, qb_ceil64(work, WORK_OF_A_TASK));
    const bool by_channel = s->pixels <= FEW_PIXELS && vectors > 1;
    s->pixel_parts = by_channel ? 1 : qb_parts(s->pixels, wanted, s->pixels, PIXELS, threads);
    s->channel_parts = by_channel ? qb_parts(vectors, wanted, vectors, 1, threads) : 1;
}

static void plan(scale_shift *s, const qb_problem *p, int threads) {
    const qb_desc *x = &p->in[QB_IN_DATA];
    s->finish = qb_finish_of(p);
    s->in = x->dtype;
    s->zero = qb_cpu_zero(x);
    s->float_bias = qb_problem_has(p, QB_IN_BIAS) && p->in[QB_IN_BIAS].dtype == QB_DTYPE_F32;
    s->is_plain =
        s->in == QB_DTYPE_F32 && p->out.dtype == QB_DTYPE_F32 && s->finish.act.kind == QB_ACT_NONE;
    s->channels = x->shape.dim[1];
    s->lanes = qb_ceil64(s->channels, 16) * 16;
    s->pixels = qb_shape_count(&x->shape) / s->channels;
    place(x, &s->first_in, &s->in_step);
    place(&p->out, &s->first_out, &s->out_step);
    share(s, threads);
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    scale_shift *s = kernel->state = qb_alloc(cx, 1, sizeof *s);
    kernel->destroy = destroy;
    if (!s) {
        qb_kernel_free(kernel);
        return cx->code;
    }
    kernel->in[QB_IN_DATA].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    plan(s, &kernel->problem, threads);
    kernel->packed_bytes = (size_t)(s->lanes * (is_codes(s) ? 4 : 2)) * 4;
    kernel->packed_form = 1; /* the image has no part in it */
    kernel->packed_inputs = 1u << QB_IN_WEIGHT | 1u << QB_IN_BIAS;
    if (s->in == p->out.dtype && s->in_step == s->out_step && s->first_in == s->first_out)
        kernel->in_place_inputs = 1u << QB_IN_DATA;
    kernel->pack = pack;
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}
#else
#include "conv_internal.h"
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_scale_shift = {.name = "cpu.scale_shift.avx512",
                                             .backend = "cpu",
                                             .kind = QB_KIND_CONV,
                                             .exactness = QB_EXACT,
                                             .supports = supports,
                                             .create = create};

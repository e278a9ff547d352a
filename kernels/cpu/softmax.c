/* Softmax of floats along one axis: exp(x - max) / sum. Lines that lie together in memory go
 * sixteen elements at a time; others go sixteen neighbouring lines at a time. Quantized values
 * become floats in a scratch of the first level cache, and the result is quantized from there. */
#include <math.h>
#include <string.h>

#define QB_SIMD_TIER QB_SIMD_AVX512
#include "act_internal.h"
#include "chain_internal.h"

#define ELEMENTS_PER_TASK 8192
#define SCRATCH 8192 /* floats */
#define TOGETHER 16  /* lines of quantized values that are next to each other */

typedef struct softmax {
    int64_t outer, n, inner; /* in the order of memory; lines run along n with a step of inner */
    int64_t per_task;        /* of the outer dimension */
    bool zero_nan, plain;    /* plain: floats to floats */
    qb_dtype dtype; /* of the data, with its scale and zero point; and the quantized values of the
                       result */
    float scale;
    int32_t zero;
    qb_chain_quantized quantized;
    void (*run)(const struct softmax *s, const float *in, float *out); /* n x inner elements */
} softmax;

static void run_generic(const softmax *s, const float *in, float *out) {
    for (int64_t i = 0; i < s->inner; i++, in++, out++) {
        float max = -INFINITY, sum = 0.0f;
        for (int64_t k = 0; k < s->n; k++) {
            float v = in[k * s->inner];
            if (v > max || isnan(v)) max = v;
        }
        for (int64_t k = 0; k < s->n; k++) {
            out[k * s->inner] = expf(in[k * s->inner] - max);
            sum += out[k * s->inner];
        }
        if (s->zero_nan && isnan(sum))
            for (int64_t k = 0; k < s->n; k++) out[k * s->inner] = 0.0f;
        else
            for (int64_t k = 0; k < s->n; k++) out[k * s->inner] /= sum;
    }
}

#if QB_X86
QB_FORCE_INLINE __mmask16 mask_of(int64_t left) {
    return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
}

/* Where a quotient is wanted rather than 0. */
QB_AVX512 static inline __mmask16 wanted(const softmax *s, __m512 sum) {
    return s->zero_nan ? _mm512_cmp_ps_mask(sum, sum, _CMP_ORD_Q) : 0xffff;
}

QB_AVX512 static void run_line_avx512(const softmax *s, const float *in, float *out) {
    __m512 max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int64_t k = 0; k < s->n; k += 16) /* NaN is lost here and comes back from exp */
        max = _mm512_mask_max_ps(max, mask_of(s->n - k),
                                 _mm512_maskz_loadu_ps(mask_of(s->n - k), in + k), max);
    max = _mm512_set1_ps(_mm512_reduce_max_ps(max));
    for (int64_t k = 0; k < s->n; k += 16) {
        __mmask16 mask = mask_of(s->n - k);
        __m512 e = qb_exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, in + k), max));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
        _mm512_mask_storeu_ps(out + k, mask, e);
    }
    sum = _mm512_set1_ps(_mm512_reduce_add_ps(sum));
    __mmask16 keep = wanted(s, sum);
    for (int64_t k = 0; k < s->n; k += 16) {
        __mmask16 mask = mask_of(s->n - k);
        _mm512_mask_storeu_ps(out + k, mask,
                              _mm512_maskz_div_ps(keep, _mm512_maskz_loadu_ps(mask, out + k), sum));
    }
}

QB_AVX512 static void run_lines_avx512(const softmax *s, const float *in, float *out) {
    for (int64_t i = 0; i < s->inner; i += 16) {
        __mmask16 mask = mask_of(s->inner - i);
        __m512 max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < s->n; k++)
            max = _mm512_max_ps(_mm512_maskz_loadu_ps(mask, in + k * s->inner + i), max);
        for (int64_t k = 0; k < s->n; k++) {
            __m512 v = _mm512_maskz_loadu_ps(mask, in + k * s->inner + i);
            __m512 e = qb_exp(_mm512_sub_ps(v, max));
            sum = _mm512_add_ps(sum, e);
            _mm512_mask_storeu_ps(out + k * s->inner + i, mask, e);
        }
        __mmask16 keep = wanted(s, sum);
        for (int64_t k = 0; k < s->n; k++) {
            float *to = out + k * s->inner + i;
            __m512 e = _mm512_maskz_loadu_ps(mask, to);
            _mm512_mask_storeu_ps(to, mask, _mm512_maskz_div_ps(keep, e, sum));
        }
    }
}

/* Few lines side by side, a number of them that divides 16: lanes that are as far apart belong to
 * one line. */
QB_AVX512 QB_FORCE_INLINE __m512 apart(__m512 v, int by) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_permutexvar_ps(_mm512_xor_si512(lane, _mm512_set1_epi32(by)), v);
}

QB_AVX512 static void run_few_avx512(const softmax *s, const float *in, float *out) {
    const int64_t n = s->n * s->inner;
    __m512 max = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int64_t k = 0; k < n; k += 16)
        max = _mm512_mask_max_ps(max, mask_of(n - k), _mm512_maskz_loadu_ps(mask_of(n - k), in + k),
                                 max);
    for (int by = 8; by >= s->inner; by /= 2) max = _mm512_max_ps(max, apart(max, by));
    for (int64_t k = 0; k < n; k += 16) {
        const __mmask16 mask = mask_of(n - k);
        __m512 e = qb_exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, in + k), max));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
        _mm512_mask_storeu_ps(out + k, mask, e);
    }
    for (int by = 8; by >= s->inner; by /= 2) sum = _mm512_add_ps(sum, apart(sum, by));
    const __mmask16 keep = wanted(s, sum);
    for (int64_t k = 0; k < n; k += 16) {
        const __mmask16 mask = mask_of(n - k);
        _mm512_mask_storeu_ps(out + k, mask,
                              _mm512_maskz_div_ps(keep, _mm512_maskz_loadu_ps(mask, out + k), sum));
    }
}
#endif

typedef struct job {
    const softmax *s;
    const char *in;
    char *out;
} job;

/* Some neighbouring lines by way of floats: n rows of `width`, the next one `inner` elements on. */
static void run_scratch(const softmax *s, const char *in, char *out, int64_t width) {
    _Alignas(64) float scratch[SCRATCH + QB_CHAIN_BLOCK]; /* what is written is read in blocks */
    softmax part = *s;
    const int64_t in_size = (int64_t)qb_dtype_size(s->dtype);
    const int64_t out_size = s->quantized.dtype == QB_DTYPE_NONE ? (int64_t)sizeof(float) : 1;
    const bool whole = width == s->inner; /* one run of memory */
    const int64_t rows = whole ? 1 : s->n, row = whole ? s->n * width : width;
    part.inner = width;
    for (int64_t k = 0; k < rows; k++)
        qb_chain_load(s->dtype, s->scale, s->zero, in + k * s->inner * in_size, row,
                      scratch + k * row);
    memset(scratch + rows * row, 0, QB_CHAIN_BLOCK * sizeof *scratch);
    s->run(&part, scratch, scratch);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t i = 0; i < row; i += QB_CHAIN_BLOCK)
            qb_chain_write(&s->quantized, scratch + k * row + i, qb_min64(QB_CHAIN_BLOCK, row - i),
                           out + (k * s->inner + i) * out_size);
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const softmax *s = j->s;
    const int64_t end = qb_min64((task + 1) * s->per_task, s->outer), size = s->n * s->inner;
    const int64_t in_size = (int64_t)qb_dtype_size(s->dtype);
    const int64_t out_size = s->quantized.dtype == QB_DTYPE_NONE ? (int64_t)sizeof(float) : 1;
    for (int64_t o = task * s->per_task; o < end; o++) {
        const char *in = j->in + o * size * in_size;
        char *out = j->out + o * size * out_size;
        if (s->plain) {
            s->run(s, (const float *)(const void *)in, (float *)(void *)out);
            continue;
        }
        for (int64_t i = 0; i < s->inner; i += TOGETHER)
            run_scratch(s, in + i * in_size, out + i * out_size, qb_min64(TOGETHER, s->inner - i));
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const softmax *s = kernel->state;
    job j = {s, args->in[0], args->out};
    qb_workers_run(args->workers, qb_ceil64(s->outer, s->per_task), run_task, &j);
    return QB_OK;
}

static bool is_known(const qb_desc *desc) {
    return (qb_cpu_is_f32(desc) || qb_cpu_is_quantized(desc)) && desc->channel_total == 0 &&
           (desc->layout == QB_LAYOUT_ROW || qb_cpu_is_nhwc(desc));
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0], *y = &p->out;
    const bool plain = qb_cpu_is_f32(x) && qb_cpu_is_f32(y);
    if (!plain &&
        (p->axis < 0 || p->axis >= x->shape.rank || x->shape.dim[p->axis] > SCRATCH / TOGETHER))
        return plain;
    return is_known(x) && is_known(y) && x->layout == y->layout && p->act.kind == QB_ACT_NONE &&
           x->shape.rank >= 1 && qb_shape_count(&x->shape) > 0;
}

/* Sizes before, along and behind the axis, in the order of memory. */
static void describe(softmax *s, const qb_problem *p, qb_layout layout) {
    const qb_shape *shape = &p->in[0].shape;
    bool channels_last = layout == QB_LAYOUT_NHWC && shape->rank >= 2;
    s->outer = s->inner = 1;
    s->n = shape->dim[p->axis];
    s->zero_nan = p->zero_nan;
    s->plain = qb_cpu_is_f32(&p->in[0]) && qb_cpu_is_f32(&p->out);
    s->dtype = p->in[0].dtype;
    s->scale = p->in[0].q.n > 0 ? p->in[0].q.scale[0] : 1.0f;
    s->zero = qb_cpu_zero(&p->in[0]);
    s->quantized = (qb_chain_quantized){.dtype = QB_DTYPE_NONE};
    if (p->out.q.n > 0)
        s->quantized =
            (qb_chain_quantized){p->out.q.scale[0], qb_cpu_zero(&p->out), p->out.dtype, false};
    bool behind = false;
    for (int32_t at = 0; at < shape->rank; at++) {
        int32_t d = at;
        if (channels_last && at > 0) d = at == shape->rank - 1 ? 1 : at + 1;
        if (d == p->axis)
            behind = true;
        else
            *(behind ? &s->inner : &s->outer) *= shape->dim[d];
    }
    s->per_task = qb_max64(1, ELEMENTS_PER_TASK / (s->n * s->inner));
    s->run = run_generic;
#if QB_X86
    if (qb_processor_has(QB_TIER_AVX512))
        s->run = s->inner == 1                                     ? run_line_avx512
                 : s->inner == 2 || s->inner == 4 || s->inner == 8 ? run_few_avx512
                                                                   : run_lines_avx512;
#endif
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    qb_kernel *kernel;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(softmax), &kernel));
    softmax *s = kernel->state;
    qb_layout layout = p->in[0].layout == QB_LAYOUT_ANY ? QB_LAYOUT_ROW : p->in[0].layout;
    describe(s, p, layout);
    kernel->in[0].layout = kernel->problem.out.layout = layout;
    kernel->in_place_inputs = p->in[0].dtype == p->out.dtype;
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_softmax = {.name = "cpu.softmax_f32",
                                         .backend = "cpu",
                                         .kind = QB_KIND_SOFTMAX,
                                         .exactness = QB_WITHIN_1_LSB,
                                         .is_portable = qb_cpu_lacks_avx512,
                                         .supports = supports,
                                         .create = create};

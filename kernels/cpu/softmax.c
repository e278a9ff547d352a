/* Softmax of floats along one axis: exp(x - max) / sum. Lines that lie together in memory go
 * sixteen elements at a time; others go sixteen neighbouring lines at a time. */
#include <math.h>

#define QB_SIMD_TIER QB_SIMD_AVX512
#include "act_internal.h"

#define ELEMENTS_PER_TASK 8192

typedef struct softmax {
    int64_t outer, n, inner; /* in the order of memory; lines run along n with a step of inner */
    int64_t per_task;        /* of the outer dimension */
    bool zero_nan;
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
#endif

typedef struct job {
    const softmax *s;
    const float *in;
    float *out;
} job;

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const softmax *s = j->s;
    int64_t end = qb_min64((task + 1) * s->per_task, s->outer), size = s->n * s->inner;
    for (int64_t o = task * s->per_task; o < end; o++)
        s->run(s, j->in + o * size, j->out + o * size);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const softmax *s = kernel->state;
    job j = {s, args->in[0], args->out};
    qb_workers_run(args->workers, qb_ceil64(s->outer, s->per_task), run_task, &j);
    return QB_OK;
}

static bool is_known(const qb_desc *desc) {
    return qb_cpu_is_real(desc) && desc->channel_total == 0 &&
           (desc->layout == QB_LAYOUT_ROW || qb_cpu_is_nhwc(desc));
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0], *y = &p->out;
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
        s->run = s->inner == 1 ? run_line_avx512 : run_lines_avx512;
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
    kernel->in_place_inputs = 1;
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

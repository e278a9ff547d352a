/* The sum of two images that lie as channel slices of wider ones, as the engine lets convolutions
 * write them (see wants_room in engine/realize/steps.c): a residual that no convolution takes in.
 * One of the operands may be written over. */
#include <math.h>

#include "cpu_internal.h"

#if QB_X86
#include <immintrin.h>
#endif

#define FLOATS_PER_TASK 8192

typedef struct sum {
    int64_t pixels, channels, per_task;
    int64_t first[3], step[3]; /* of both operands and the result, in floats */
    float low, high;           /* the activation */
    void (*run)(const struct sum *s, const float *a, const float *b, float *out); /* one pixel */
} sum;

static void run_generic(const sum *s, const float *a, const float *b, float *out) {
    for (int64_t i = 0; i < s->channels; i++) {
        const float v = a[i] + b[i];
        out[i] = v < s->low ? s->low : v > s->high ? s->high : v;
    }
}

#if QB_X86
QB_AVX512 static void run_avx512(const sum *s, const float *a, const float *b, float *out) {
    const __m512 low = _mm512_set1_ps(s->low), high = _mm512_set1_ps(s->high);
    for (int64_t i = 0; i < s->channels; i += 16) {
        const int64_t left = s->channels - i;
        const __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1u);
        __m512 v =
            _mm512_add_ps(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i));
        v = _mm512_min_ps(high, _mm512_max_ps(low, v)); /* NaN, the second operand, stays */
        _mm512_mask_storeu_ps(out + i, mask, v);
    }
}
#endif

typedef struct job {
    const sum *s;
    const float *a, *b;
    float *out;
} job;

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const sum *s = j->s;
    const int64_t end = qb_min64((task + 1) * s->per_task, s->pixels);
    for (int64_t p = task * s->per_task; p < end; p++)
        s->run(s, j->a + p * s->step[0], j->b + p * s->step[1], j->out + p * s->step[2]);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const sum *s = kernel->state;
    job j = {s, (const float *)args->in[0] + s->first[0], (const float *)args->in[1] + s->first[1],
             (float *)args->out + s->first[2]};
    qb_workers_run(args->workers, qb_ceil64(s->pixels, s->per_task), run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    if (p->binary != QB_BINARY_ADD || qb_finish_of(p).act.kind != QB_ACT_NONE) return false;
    bool sliced = false;
    for (int32_t i = 0; i < 3; i++) {
        const qb_desc *desc = i < 2 ? &p->in[i] : &p->out;
        if (!qb_cpu_is_real(desc) || desc->layout != QB_LAYOUT_NHWC || desc->shape.rank < 3 ||
            !qb_shape_equal(&desc->shape, &p->out.shape))
            return false;
        sliced = sliced || desc->channel_total > 0;
    }
    return sliced && !constant[0] && !constant[1] && qb_shape_count(&p->out.shape) > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    qb_kernel *kernel;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(sum), &kernel));
    sum *s = kernel->state;
    const qb_finish finish = qb_finish_of(p);
    s->channels = p->out.shape.dim[1];
    s->pixels = qb_shape_count(&p->out.shape) / s->channels;
    s->per_task = qb_max64(1, FLOATS_PER_TASK / s->channels);
    s->low = finish.low;
    s->high = finish.high;
    s->run = run_generic;
#if QB_X86
    if (qb_processor_has(QB_TIER_AVX512)) s->run = run_avx512;
#endif
    for (int32_t i = 0; i < 3; i++) {
        const qb_desc *desc = i < 2 ? &p->in[i] : &p->out;
        s->first[i] = desc->channel_offset;
        s->step[i] = qb_cpu_channels(desc);
    }
    for (uint64_t i = 0; i < 2; i++) /* in place is to lie in the same place */
        if (s->first[i] == s->first[2] && s->step[i] == s->step[2])
            kernel->in_place_inputs |= UINT64_C(1) << i;
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_sum = {.name = "cpu.sum_f32",
                                     .backend = "cpu",
                                     .kind = QB_KIND_BINARY,
                                     .exactness = QB_EXACT,
                                     .supports = supports,
                                     .create = create};

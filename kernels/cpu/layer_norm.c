/* Layer normalization with AVX-512. A row is read three times while it is in the first cache: for
 * the mean, for the squares around it, and for the result. The order of a row's sums is fixed. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "epilogue_internal.h"

#if QB_X86

#define ROWS_A_TASK 8
#define SUMS 4 /* chains of additions at a time */

typedef struct norm {
    qb_epilogue epilogue;
    int64_t rows, n;
    float epsilon, scale; /* of the data's quantized values */
    int32_t zero;
    qb_dtype dtype;
} norm;

typedef struct job {
    const norm *norm;
    const char *data;
    const float *gain, *shift;
    char *out;
} job;

static __mmask16 lanes(int64_t left) {
    return left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1u);
}

QB_AVX512 QB_FORCE_INLINE __m512 load(const norm *w, const char *row, int64_t at, __mmask16 mask) {
    if (w->dtype == QB_DTYPE_F32) return _mm512_maskz_loadu_ps(mask, row + at * 4);
    return qb_load_quantized(row + at, w->dtype == QB_DTYPE_S8, _mm512_set1_epi32(w->zero),
                             _mm512_set1_ps(w->scale), mask);
}

/* The sum of (x - center), or of its squares. */
QB_AVX512 QB_FORCE_INLINE float sum_of(const norm *w, const char *row, float center, bool square) {
    __m512 sum[SUMS], middle = _mm512_set1_ps(center);
    QB_UNROLL for (int s = 0; s < SUMS; s++) sum[s] = _mm512_setzero_ps();
    for (int64_t at = 0; at < w->n; at += 16 * SUMS) QB_UNROLL for (int s = 0; s < SUMS; s++) {
            __mmask16 mask = lanes(w->n - at - s * 16);
            __m512 d = _mm512_maskz_sub_ps(mask, load(w, row, at + s * 16, mask), middle);
            sum[s] = square ? _mm512_fmadd_ps(d, d, sum[s]) : _mm512_add_ps(sum[s], d);
        }
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

QB_AVX512 static void one_row(const job *j, int64_t r) {
    const norm *w = j->norm;
    const char *row = j->data + r * w->n * (int64_t)qb_dtype_size(w->dtype);
    const int64_t out_size = (int64_t)qb_dtype_size(w->epilogue.out);
    char *to = j->out + r * w->n * out_size;
    const float mean = sum_of(w, row, 0.0f, false) / (float)w->n;
    const float variance = sum_of(w, row, mean, true) / (float)w->n;
    const __m512 middle = _mm512_set1_ps(mean);
    const bool has_act = w->epilogue.act.kind != QB_ACT_NONE;
    const __m512 inverse = _mm512_set1_ps(1.0f / __builtin_sqrtf(variance + w->epsilon));
    for (int64_t at = 0; at < w->n; at += 16) {
        __mmask16 mask = lanes(w->n - at);
        __m512 v = _mm512_mul_ps(_mm512_sub_ps(load(w, row, at, mask), middle), inverse);
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, j->gain + at));
        if (j->shift) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, j->shift + at));
        qb_epilogue_vector(&w->epilogue, v, mask, NULL, to + at * out_size, w->epilogue.out, false,
                           has_act);
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const int64_t end = qb_min64((task + 1) * ROWS_A_TASK, j->norm->rows);
    for (int64_t r = task * ROWS_A_TASK; r < end; r++) one_row(j, r);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const norm *w = kernel->state;
    job j = {w, args->in[0], args->in[1], qb_problem_has(&kernel->problem, 2) ? args->in[2] : NULL,
             args->out};
    qb_workers_run(args->workers, qb_ceil64(w->rows, ROWS_A_TASK), run_task, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

static bool is_gain(const qb_problem *p, int32_t i, int64_t n) {
    if (i == 2 && !qb_problem_has(p, i)) return true;
    return qb_cpu_is_f32(&p->in[i]) && qb_shape_count(&p->in[i].shape) == n;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0];
    int64_t n = 1;
    if (!qb_processor_has(QB_TIER_AVX512) || x->layout != QB_LAYOUT_ROW ||
        p->out.layout != QB_LAYOUT_ROW || x->channel_total > 0 || p->out.channel_total > 0 ||
        p->axis < 0)
        return false;
    for (int32_t d = p->axis; d < x->shape.rank; d++) n *= x->shape.dim[d];
    return (qb_cpu_is_quantized(x) || qb_cpu_is_f32(x)) && qb_epilogue_supports(p) &&
           is_gain(p, 1, n) && is_gain(p, 2, n) && qb_shape_count(&x->shape) > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    const qb_desc *x = &p->in[0];
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    norm *w = qb_alloc(cx, 1, sizeof *w);
    kernel->state = w;
    kernel->destroy = destroy;
    if (!w) {
        qb_kernel_free(kernel);
        return cx->code;
    }
    *w = (norm){.epilogue = qb_epilogue_of(p),
                .n = 1,
                .epsilon = p->epsilon,
                .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                .zero = qb_cpu_zero(x),
                .dtype = x->dtype};
    for (int32_t d = p->axis; d < x->shape.rank; d++) w->n *= x->shape.dim[d];
    w->rows = qb_shape_count(&x->shape) / w->n;
    kernel->launch = launch;
    kernel->in_place_inputs = x->dtype == p->out.dtype;
    *out = kernel;
    return QB_OK;
}
#else
#include "conv_internal.h"
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_layer_norm = {.name = "cpu.layer_norm.avx512",
                                            .backend = "cpu",
                                            .kind = QB_KIND_LAYER_NORM,
                                            .exactness = QB_WITHIN_1_LSB,
                                            .supports = supports,
                                            .create = create};

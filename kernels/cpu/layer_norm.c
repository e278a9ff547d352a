/* Layer normalization, row by row. */
#include "layer_norm_internal.h"

#if QB_X86

#define ROWS_A_TASK 8

typedef struct job {
    const qb_norm *norm;
    const char *data;
    const float *gain, *shift;
    char *out;
} job;

static qb_norm_fn best(void) {
    return qb_processor_has(QB_TIER_AVX512) ? qb_norm_row_avx512
           : qb_processor_has(QB_TIER_AVX2) ? qb_norm_row_avx2
                                            : qb_norm_row_sse2;
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_norm *w = j->norm;
    const qb_norm_fn run = best();
    const int64_t end = qb_min64((task + 1) * ROWS_A_TASK, w->rows);
    const int64_t in = w->n * (int64_t)qb_dtype_size(w->dtype);
    const int64_t out = w->n * (int64_t)qb_dtype_size(w->epilogue.out);
    for (int64_t r = task * ROWS_A_TASK; r < end; r++)
        run(w, j->data + r * in, j->gain, j->shift, j->out + r * out);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_norm *w = kernel->state;
    job j = {w, args->in[0], args->in[1], qb_problem_has(&kernel->problem, 2) ? args->in[2] : NULL,
             args->out};
    qb_workers_run(args->workers, qb_ceil64(w->rows, ROWS_A_TASK), run_task, &j);
    return QB_OK;
}

static bool is_gain(const qb_problem *p, int32_t i, int64_t n) {
    if (i == 2 && !qb_problem_has(p, i)) return true;
    return qb_cpu_is_f32(&p->in[i]) && qb_shape_count(&p->in[i].shape) == n;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0];
    if (x->layout != QB_LAYOUT_ROW || p->out.layout != QB_LAYOUT_ROW || x->channel_total > 0 ||
        p->out.channel_total > 0 || p->axis < 0)
        return false;
    const int64_t n = qb_shape_span(&x->shape, p->axis, x->shape.rank);
    return (qb_cpu_is_quantized(x) || qb_cpu_is_f32(x)) && qb_epilogue_supports(p) &&
           is_gain(p, 1, n) && is_gain(p, 2, n) && qb_shape_count(&x->shape) > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    const qb_desc *x = &p->in[0];
    qb_kernel *kernel;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(qb_norm), &kernel));
    qb_norm *w = kernel->state;
    *w = (qb_norm){.epilogue = qb_epilogue_of(p),
                   .n = qb_shape_span(&x->shape, p->axis, x->shape.rank),
                   .epsilon = p->epsilon,
                   .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                   .zero = qb_cpu_zero(x),
                   .dtype = x->dtype,
                   .rms = p->rms};
    w->rows = qb_shape_count(&x->shape) / w->n;
    kernel->launch = launch;
    kernel->in_place_inputs = x->dtype == p->out.dtype;
    *out = kernel;
    return QB_OK;
}
#else
#include "simd_internal.h"
QB_CPU_ABSENT
#endif

QB_TACTIC(cpu_layer_norm, "cpu.layer_norm", "cpu", QB_KIND_LAYER_NORM, QB_WITHIN_1_LSB, supports,
          create);

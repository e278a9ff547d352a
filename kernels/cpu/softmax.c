/* Softmax of floats along one axis: exp(x - max) / sum. Lines that lie together in memory go a
 * vector at a time; others go as many neighbouring lines at a time as a vector has lanes. Quantized
 * values become floats in the workspace, and the result is quantized from there. */
#include <math.h>

#include "softmax_internal.h"

#define ELEMENTS_PER_TASK 8192
#define SCRATCH 32768        /* floats of a task, unless a line has more */
#define TOGETHER 16          /* lines of quantized values that are next to each other */
#define TOGETHER_FLOATS 4096 /* of items that are */

static void run_item(const qb_softmax *s, const float *in, float *out) {
    for (int64_t i = 0; i < s->inner; i++, in++, out++) {
        float max = -INFINITY, sum = 0.0f;
        for (int64_t k = 0; k < s->n; k++) {
            float v = in[k * s->inner];
            if (v > max || isnan(v)) max = v;
        }
        for (int64_t k = 0; k < s->n; k++) {
            const float d = in[k * s->inner] - max;
            out[k * s->inner] = d < QB_SOFTMAX_FAR ? 0.0f : expf(d);
            sum += out[k * s->inner];
        }
        if (s->zero_nan && isnan(sum))
            for (int64_t k = 0; k < s->n; k++) out[k * s->inner] = 0.0f;
        else
            for (int64_t k = 0; k < s->n; k++) out[k * s->inner] /= sum;
    }
}

static void run_generic(const qb_softmax *s, const float *in, float *out, int64_t items) {
    const int64_t size = s->n * s->inner;
    for (int64_t i = 0; i < items; i++) run_item(s, in + i * size, out + i * size);
}

typedef struct job {
    const qb_softmax *s;
    const char *in;
    char *out;
    float *scratch;
} job;

/* Whole blocks are read of what is written. */
static int64_t scratch_of(const qb_softmax *s) {
    return s->items * s->n * s->width + QB_CHAIN_BLOCK;
}

static int64_t out_size_of(const qb_softmax *s) {
    return s->quantized.dtype == QB_DTYPE_NONE ? (int64_t)sizeof(float) : 1;
}

static void put(const qb_softmax *s, const float *from, int64_t n, char *to) {
    for (int64_t i = 0; i < n; i += QB_CHAIN_BLOCK)
        qb_chain_write(&s->quantized, from + i, qb_min64(QB_CHAIN_BLOCK, n - i),
                       to + i * out_size_of(s));
}

/* Some items as one run of memory by way of floats. */
static void run_items(const qb_softmax *s, const char *in, char *out, int64_t items,
                      float *scratch) {
    const int64_t size = s->n * s->inner;
    qb_chain_load(s->dtype, s->scale, s->zero, in, items * size, scratch);
    s->run(s, scratch, scratch, items);
    put(s, scratch, items * size, out);
}

/* Some neighbouring lines: n rows of `width`, the next one `inner` elements on. */
static void run_lines(const qb_softmax *s, const char *in, char *out, int64_t width,
                      float *scratch) {
    qb_softmax part = *s;
    const int64_t in_size = (int64_t)qb_dtype_size(s->dtype);
    part.inner = width;
    for (int64_t k = 0; k < s->n; k++)
        qb_chain_load(s->dtype, s->scale, s->zero, in + k * s->inner * in_size, width,
                      scratch + k * width);
    s->run(&part, scratch, scratch, 1);
    for (int64_t k = 0; k < s->n; k++)
        put(s, scratch + k * width, width, out + k * s->inner * out_size_of(s));
}

/* Part number `task` of all items, or of the lines of all items. */
static void run_part(int64_t task, void *argument) {
    const job *j = argument;
    const qb_softmax *s = j->s;
    const int64_t in_size = (int64_t)qb_dtype_size(s->dtype), out_size = out_size_of(s);
    const int64_t pieces = qb_ceil64(s->inner, s->width), all = s->outer * pieces;
    const int64_t end = qb_part_begin(all, s->parts, task + 1);
    float *scratch = j->scratch + task * scratch_of(s);
    for (int64_t k = qb_part_begin(all, s->parts, task), some = 1; k < end; k += some) {
        const int64_t i = k % pieces * s->width, at = k / pieces * s->n * s->inner + i;
        if (pieces == 1) {
            some = qb_min64(s->items, end - k);
            run_items(s, j->in + at * in_size, j->out + at * out_size, some, scratch);
        } else {
            run_lines(s, j->in + at * in_size, j->out + at * out_size,
                      qb_min64(s->width, s->inner - i), scratch);
        }
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_softmax *s = j->s;
    const int64_t first = task * s->per_task, at = first * s->n * s->inner;
    s->run(s, (const float *)(const void *)j->in + at, (float *)(void *)j->out + at,
           qb_min64(s->per_task, s->outer - first));
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_softmax *s = kernel->state;
    job j = {s, args->in[0], args->out, args->workspace};
    if (s->plain)
        qb_workers_run(args->workers, qb_ceil64(s->outer, s->per_task), run_task, &j);
    else
        qb_workers_run(args->workers, s->parts, run_part, &j);
    return QB_OK;
}

static bool is_known(const qb_desc *desc) {
    return (qb_cpu_is_f32(desc) || qb_cpu_is_quantized(desc)) && desc->channel_total == 0 &&
           (desc->layout == QB_LAYOUT_ROW || qb_cpu_is_nhwc(desc));
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0], *y = &p->out;
    return p->axis >= 0 && p->axis < x->shape.rank && is_known(x) && is_known(y) &&
           x->layout == y->layout && p->act.kind == QB_ACT_NONE && x->shape.rank >= 1 &&
           qb_shape_count(&x->shape) > 0;
}

/* Sizes before, along and behind the axis, in the order of memory. */
static void describe(qb_softmax *s, const qb_problem *p, qb_layout layout, int threads) {
    const qb_shape *shape = &p->in[0].shape;
    bool channels_last = layout == QB_LAYOUT_NHWC && shape->rank >= 2;
    s->outer = s->inner = 1;
    s->n = shape->dim[p->axis];
    s->zero_nan = p->zero_nan;
    s->plain = qb_cpu_is_f32(&p->in[0]) && qb_cpu_is_f32(&p->out);
    s->dtype = p->in[0].dtype;
    s->scale = p->in[0].q.n > 0 ? p->in[0].q.scale[0] : 1.0f;
    s->zero = qb_cpu_zero(&p->in[0]);
    s->quantized = qb_chain_quantized_of(&p->out, false);
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
    /* all lines side by side are one run of memory */
    s->width = s->n * s->inner <= SCRATCH ? s->inner : qb_min64(TOGETHER, s->inner);
    s->width = qb_max64(1, qb_min64(s->width, SCRATCH / s->n));
    s->items = s->width < s->inner ? 1 : qb_max64(1, TOGETHER_FLOATS / (s->n * s->inner));
    s->parts = qb_max64(1, threads);
    s->run = run_generic;
#if QB_X86
    /* a last part of fewer lines takes what any number of them does */
    const bool even = s->plain || s->width == s->inner || s->width == 1;
    const int64_t inner = s->plain ? s->inner : even ? s->width : INT64_MAX;
    s->run = qb_processor_has(QB_TIER_AVX512) ? qb_softmax_best_avx512(s->n, inner)
             : qb_processor_has(QB_TIER_AVX2) ? qb_softmax_best_avx2(s->n, inner)
                                              : qb_softmax_best_sse2(s->n, inner);
#endif
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    qb_softmax *s = kernel->state;
    qb_layout layout = p->in[0].layout == QB_LAYOUT_ANY ? QB_LAYOUT_ROW : p->in[0].layout;
    describe(s, p, layout, threads);
    if (!s->plain) kernel->workspace_bytes = (size_t)(s->parts * scratch_of(s)) * sizeof(float);
    kernel->in[0].layout = kernel->problem.out.layout = layout;
    kernel->in_place_inputs = p->in[0].dtype == p->out.dtype;
    kernel->launch = launch;
}

QB_TACTIC(cpu_softmax, "cpu.softmax_f32", "cpu", QB_KIND_SOFTMAX, QB_WITHIN_1_LSB, supports,
          qb_cpu_create, .state_bytes = sizeof(qb_softmax), .fill = fill,
          .is_portable = qb_cpu_lacks_avx2);
